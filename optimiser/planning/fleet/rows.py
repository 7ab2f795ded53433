"""The rows of a fleet's program.

    minimise  Σ unit price · m_o
    demand_w   Σ_p s_pw + short_w ≥ 1            the share of class w that pool p serves
    need_p_r   Σ_w X_prw · s_pw ≤ n_p - k · y_p  k spare replicas of an open pool
    link_p_w   s_pw ≤ n_p - k · y_p              n is whole and s ≤ 1; left out where X says it
    open_p_w   s_pw ≤ y_p                        only where open pools are counted
    rented_o   Σ_p units_p · n_p ≤ m_o           equal where every replica takes whole units
    stock_l    Σ_o use_lo · m_o ≤ most_l
    total_c    Σ_p n_p = N_c                     a whole number to branch on

Where classes are routed in whole slices, s counts slices and its coefficients are per slice.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from optimiser.engine.replicas import Floats, Ints
from optimiser.planning.fleet.pools import Fleet
from optimiser.units import TOLERANCE, usd

INFINITE = math.inf
SHORT_USD = 10.0
"""What leaving all of a class unserved costs, as a multiple of the dearest way to serve it."""


@dataclass(slots=True)
class Table:
    """Columns and rows as they are gathered."""

    cost: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    row_low: list[float] = field(default_factory=list)
    row_high: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    index: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    labels: list[tuple[str, int, int]] = field(default_factory=list)
    """What each row is: its kind, and the pool, class, rental or stock that it is of."""

    def columns(self, cost: Floats, low: float, high: float) -> Ints:
        """Add columns; their indices."""
        first, count = len(self.cost), len(cost)
        self.cost.extend(cost.tolist())
        self.low.extend([low] * count)
        self.high.extend([high] * count)
        return np.arange(first, first + count)

    def row(
        self,
        index: list[int],
        value: list[float],
        low: float,
        high: float,
        label: tuple[str, int, int] = ("row", -1, -1),
    ) -> int:
        """Add a row; its index."""
        self.labels.append(label)
        self.index.extend(index)
        self.value.extend(value)
        self.starts.append(len(self.index))
        self.row_low.append(low)
        self.row_high.append(high)
        return len(self.row_low) - 1

    def serve_all(self, columns: "Columns") -> None:
        """Leave no demand unserved: where some must be, the rows have no solution."""
        for column in columns.short:
            self.high[column] = 0.0

    def cost_at_most(self, columns: "Columns", step_usd: float, most_usd: float) -> None:
        """Admit only fleets that cost at most so much, in whole steps of the prices."""
        costs = [float(round(self.cost[unit] / step_usd)) for unit in columns.units]
        self.row(columns.units.tolist(), costs, 0.0, float(round(most_usd / step_usd)))

    def within_budget(self, columns: "Columns", most_usd: float) -> None:
        """Admit only fleets that cost at most so many dollars, to the tolerance of a limit."""
        costs = [self.cost[unit] for unit in columns.units]
        self.row(columns.units.tolist(), costs, 0.0, most_usd * (1 + TOLERANCE))


@dataclass(slots=True)
class Columns:
    """Where a fleet's variables stand in the table."""

    replicas: Ints
    units: Ints
    short: Ints
    open: Ints
    """Empty where open pools are not counted."""
    served: Ints
    """One for each pair of a pool and a class that may use it."""
    pair_pool: Ints
    pair_class: Ints
    slices: int
    whole: Ints
    """All columns that must be whole."""
    demand_rows: Ints
    stock_rows: Ints

    def shares(self, values: Floats, n_pools: int, n_classes: int) -> Floats:
        """The shares of each class that each pool serves, shape (n_pools, n_classes)."""
        found = np.zeros((n_pools, n_classes))
        found[self.pair_pool, self.pair_class] = values[self.served] / self.slices
        return found


def table(fleet: Fleet, totals: bool, links: bool = True) -> tuple[Table, Columns]:
    """The rows of a fleet. `totals`: with a whole total for each configuration to branch on."""
    pools, out = fleet.pools, Table()
    n_pools, n_classes = len(pools), fleet.n_classes
    replicas = out.columns(np.zeros(n_pools), 0, INFINITE)
    units = out.columns(usd(1) * fleet.unit_nano_usd.astype(float), 0, INFINITE)
    dear = SHORT_USD * _dearest(fleet)
    short = out.columns(np.full(n_classes, dear), 0, 1)
    opened = out.columns(np.zeros(n_pools if fleet.counts_pools else 0), 0, 1)
    pair_pool, pair_class = np.nonzero(pools.able)
    slices = fleet.slices or 1
    part = 1.0 / slices
    served = out.columns(np.zeros(len(pair_pool)), 0, INFINITE)
    spare = float(fleet.spare)

    demand_rows = []
    for w in range(n_classes):
        mine = served[pair_class == w].tolist()
        index, value = [*mine, int(short[w])], [*([1.0] * len(mine)), float(slices)]
        demand_rows.append(out.row(index, value, float(slices), INFINITE, ("demand", w, -1)))
    starts = np.searchsorted(pair_pool, np.arange(n_pools + 1))
    for p in range(n_pools):
        mine = served[starts[p] : starts[p + 1]]
        classes = pair_class[starts[p] : starts[p + 1]]
        has, has_value = [int(replicas[p])], [-1.0]
        if spare:
            has, has_value = [*has, int(opened[p])], [-1.0, spare]
        for r, need in _undominated(pools.need[p][:, classes]):
            value = [*(part * need).tolist(), *has_value]
            out.row([*mine.tolist(), *has], value, -INFINITE, 0.0, ("need", p, r))
        implied = pools.need[p][:, classes].max(axis=0) >= 1.0
        for column, w, is_implied in zip(
            mine.tolist(), classes.tolist(), implied.tolist(), strict=True
        ):
            if links and not is_implied:
                out.row([column, *has], [part, *has_value], -INFINITE, 0.0, ("link", p, w))
            if fleet.counts_pools:
                index = [column, int(opened[p])]
                out.row(index, [part, -1.0], -INFINITE, 0.0, ("open", p, w))
    _rented(fleet, out, replicas, units)
    stock_rows = []
    for limit, (use, most) in enumerate(zip(fleet.stock_use, fleet.stock_most, strict=True)):
        takes = np.flatnonzero(use)
        name = ("stock", limit, -1)
        row = out.row(units[takes].tolist(), use[takes].tolist(), -INFINITE, float(most), name)
        stock_rows.append(row)
    if fleet.least_replicas:
        least = float(fleet.least_replicas)
        out.row(replicas.tolist(), [1.0] * n_pools, least, INFINITE, ("least_replicas", -1, -1))
        if fleet.counts_pools:
            # idle replicas open a pool too
            most = np.ceil(pools.need.max(axis=1).sum(axis=1)) + spare + least
            for p in range(n_pools):
                index = [int(replicas[p]), int(opened[p])]
                out.row(index, [1.0, -float(most[p])], -INFINITE, 0.0, ("idle", p, -1))
    if fleet.most_pools is not None:
        most_pools = float(fleet.most_pools)
        out.row(opened.tolist(), [1.0] * n_pools, -INFINITE, most_pools, ("most_pools", -1, -1))
    if fleet.most_spot_frac is not None:
        of_all = fleet.demand / fleet.demand.sum()
        spot = fleet.spot[pools.rental[pair_pool]]
        parts = (part * of_all[pair_class[spot]]).tolist()
        name = ("spot_share", -1, -1)
        out.row(served[spot].tolist(), parts, -INFINITE, fleet.most_spot_frac, name)
    whole = [replicas, units, opened]
    if fleet.slices is not None:
        whole.append(served)
    if totals:
        whole.append(_totals(fleet, out, replicas))
    return out, Columns(
        replicas=replicas,
        units=units,
        short=short,
        open=opened,
        served=served,
        pair_pool=pair_pool,
        pair_class=pair_class,
        slices=slices,
        whole=np.concatenate(whole),
        demand_rows=np.array(demand_rows),
        stock_rows=np.array(stock_rows, dtype=np.int64),
    )


def _dearest(fleet: Fleet) -> float:
    """The dearest way to serve all of one class, spare replicas included, and at least 1 $."""
    alone = fleet.pools.need.max(axis=1) + 1 + fleet.spare
    cost = np.where(fleet.pools.able, fleet.replica_usd[:, None] * alone, 0.0)
    cheapest = np.where(fleet.pools.able, cost, np.inf).min(axis=0, initial=np.inf)
    finite = cheapest[np.isfinite(cheapest)]
    return float(finite.max(initial=1.0)) + float(usd(1) * fleet.unit_nano_usd.max(initial=1))


def _undominated(need: Floats) -> list[tuple[int, Floats]]:
    """The resource rows of a pool that are nowhere implied by another."""
    kept: list[tuple[int, Floats]] = []
    for r in np.argsort(-need.sum(axis=1), kind="stable"):
        row = need[r]
        if row.any() and not any((row <= other).all() for _, other in kept):
            kept.append((int(r), row))
    return kept


def _rented(fleet: Fleet, out: Table, replicas: Ints, units: Ints) -> None:
    for o in range(len(units)):
        mine = np.flatnonzero(fleet.pools.rental == o)
        taken = fleet.pools.units[mine]
        is_whole = bool((taken == np.round(taken)).all())
        index = [*replicas[mine].tolist(), int(units[o])]
        low = 0.0 if is_whole else -INFINITE
        out.row(index, [*taken.tolist(), -1.0], low, 0.0, ("rented", o, -1))


def _totals(fleet: Fleet, out: Table, replicas: Ints) -> Ints:
    sets = [np.flatnonzero(fleet.pools.configuration == c) for c in _repeated(fleet)]
    totals = out.columns(np.zeros(len(sets)), 0, INFINITE)
    for mine, total in zip(sets, totals, strict=True):
        ones = [1.0] * len(mine)
        index = [*replicas[mine].tolist(), int(total)]
        out.row(index, [*ones, -1.0], 0.0, 0.0, ("total", -1, -1))
    return totals


def _repeated(fleet: Fleet) -> list[int]:
    names, counts = np.unique(fleet.pools.configuration, return_counts=True)
    return [int(c) for c in names[counts > 1]]
