"""The program of pools that share several workloads: whole replicas, and cuts that routing returns.

    replicas_p, units_o as in `planning/program.py`
    open_p, closed_p  n_p ≤ most · y_p,  n_p ≥ (k + 1) · y_p   where open pools are counted, or
                                                               each has k spare replicas
    most_pools        Σ y_p ≤ most
    demand_w, traffic_i
                      Σ_p v_p(u) · (n_p - k · y_p) ≥ Σ u       u: prices of the classes' demands

v_p(u) is the most that one replica of a pool can earn at the prices (`pricing.py`), so every fleet
that carries the demand meets every such row; and where a fleet carries too little, the multipliers
of its routing are prices whose row it breaks. Where each class is routed in whole slices, the
slices are variables instead:

    demand_w          Σ_p z_pw = slices
    need_p_r          Σ_w X_prw · z_pw ≤ slices · (n_p - k · y_p)
"""

import math

import numpy as np
import pulp

from optimiser.engine.replicas import Floats, Ints
from optimiser.planning.fleet.exact import exact_worth
from optimiser.planning.fleet.names import Names
from optimiser.planning.fleet.pools import Fleet
from optimiser.planning.fleet.pricing import worth
from optimiser.planning.fleet.routing import SERVED, prices, route
from optimiser.planning.fleet.sift import sift
from optimiser.planning.fleet.whole_rows import whole_cut, whole_loads, whole_units
from optimiser.planning.program import Program, Rented, legal_name, legal_names

MOST_EXACT = 400
"""Pools whose worth at the first prices is worked out exactly: those that look cheapest."""
STEPS = (10**6, 10**8, 10**10)
"""Whole steps of a cut, the coarsest that excludes what it should."""


class SharedPools(Program[Ints]):
    """The program of a fleet; its answers are the replicas of each pool."""

    def __init__(
        self,
        fleet: Fleet,
        names: Names,
        title: str = "fleet",
        first_prices: Floats | None = None,
    ) -> None:
        """All rows but the cuts that the routing of its answers will ask for.

        `first_prices`: those of the relaxation, where they are known already.
        """
        super().__init__(title)
        self.fleet = fleet
        self._names = names
        self._classes = legal_names(names.classes)
        self._n_cuts = 0
        most = _most_replicas(fleet)
        self.replicas = tuple(
            self.variable(f"replicas_{legal_name(name)}", 0, int(top))
            for name, top in zip(names.pools, most, strict=True)
        )
        pools = names.pools if fleet.counts_pools else ()
        self.opened = tuple(self.variable(f"open_{legal_name(name)}", 0, 1) for name in pools)
        self._rent_and_limit(most)
        self._count_pools(most)
        if fleet.slices is None:
            self._first_cuts(first_prices)
        else:
            self._slices(fleet.slices)

    def answer(self, values: dict[str, int]) -> Ints:
        """Replicas of each pool."""
        return np.array([values[variable.name] for variable in self.replicas], dtype=np.int64)

    def agreed(self, answer: Ints) -> Ints | None:
        """The fleet, if it carries all demand."""
        return answer if route(self.fleet, answer)[0] >= SERVED else None

    def repaired(self, answer: Ints) -> Ints | None:
        """Every open pool with as many more replicas as the demand that is left asks for."""
        spare = self.fleet.spare
        served, _ = route(self.fleet, answer)
        if served >= SERVED:
            return answer
        if served <= 0:
            return None
        working = np.ceil((answer - spare) / served - 1e-9).astype(np.int64)
        more = np.where(answer > spare, working + spare, answer)
        return more if self.fleet.within_limits(more) and self.agreed(more) is not None else None

    def cut_off(self, answer: Ints) -> bool:
        """Add the row of the prices at which the fleet earns too little."""
        if self.fleet.slices is not None:
            return False
        value, spot_value = prices(self.fleet, answer)
        self._n_cuts += 1
        name = f"traffic_{self._n_cuts}"
        return self._cut(name, value, spot_value, np.flatnonzero(answer), answer)

    def cost_nano_usd(self, answer: Ints) -> int:
        """What the rented units cost."""
        return self.fleet.cost_nano_usd(answer)

    def _rent_and_limit(self, most: Ints) -> None:
        fleet, rented = self.fleet, []
        for o, name in enumerate(self._names.rentals):
            mine = np.flatnonzero(fleet.pools.rental == o)
            taken = [whole_units(float(units)) for units in fleet.pools.units[mine]]
            holds = tuple((self.replicas[p], t) for p, t in zip(mine, taken, strict=True))
            top = sum(t * int(most[p]) for p, t in zip(mine, taken, strict=True))
            price = int(fleet.unit_nano_usd[o])
            rented.append(Rented(legal_name(name), price, holds, max(1, math.ceil(top))))
        units = self.rent(rented)
        for use, there, field in zip(
            fleet.stock_use, fleet.stock_most, self._names.stocks, strict=True
        ):
            name = "limit_most_gpus" if field == "limits.most_gpus" else f"stock_{field}"
            whole = use.astype(np.int64).tolist()
            self.limit_stock(legal_name(name), units, whole, math.floor(there + 1e-9), field)
        if fleet.least_replicas:
            terms = [(n, 1) for n in self.replicas]
            name, quote = "limit_least_replicas", "limits.least_replicas"
            self.row(name, terms, pulp.LpConstraintGE, fleet.least_replicas, quote)

    def _count_pools(self, most: Ints) -> None:
        fleet = self.fleet
        for n, y, top, name in zip(
            self.replicas, self.opened, most, self._names.pools if self.opened else (), strict=False
        ):
            legal, least = legal_name(name), fleet.spare + 1
            self.row(f"open_{legal}", [(n, 1), (y, -int(top))], pulp.LpConstraintLE, 0)
            self.row(f"closed_{legal}", [(n, 1), (y, -least)], pulp.LpConstraintGE, 0)
        if fleet.most_pools is not None:
            terms = [(y, 1) for y in self.opened]
            name, quote = "limit_most_pools", "limits.most_pools"
            self.row(name, terms, pulp.LpConstraintLE, fleet.most_pools, quote)

    def _first_cuts(self, prices_of_all: Floats | None) -> None:
        """The prices of the relaxation, and each class alone."""
        cheapest = np.arange(min(len(self.fleet.pools), MOST_EXACT))
        if prices_of_all is None and self.fleet.pools.able.any(axis=0).all():
            sifted = sift(self.fleet)
            cheapest = np.argsort(sifted.extra_usd, kind="stable")[:MOST_EXACT]
            prices_of_all = sifted.value
        if prices_of_all is not None:
            self._cut("traffic_all", prices_of_all, 0.0, cheapest)
        every = np.eye(self.fleet.n_classes)
        for name, alone in zip(self._classes, every, strict=True):
            self._cut(f"demand_{name}", alone, 0.0, cheapest)

    def _cut(
        self,
        name: str,
        value: Floats,
        spot_value: float,
        exact: Ints,
        answer: Ints | None = None,
    ) -> bool:
        """Add the row of some prices, in the coarsest steps that exclude an answer."""
        fleet = self.fleet
        of_all = fleet.demand / fleet.demand.sum()
        is_spot = fleet.spot[fleet.pools.rental][:, None]
        earned = np.where(is_spot, value - spot_value * of_all, value)
        least = float(value.sum() - spot_value * (fleet.most_spot_frac or 0.0))
        if least <= 0:
            return False
        worths = worth(fleet.pools, earned)
        able = np.where(fleet.pools.able, earned, 0.0) > 0
        exact = exact[able[exact].any(axis=1)]
        if len(exact):
            worths[exact] = np.minimum(
                worths[exact], exact_worth(fleet.pools.of(exact), earned[exact])
            )
        for steps in STEPS:
            whole, right = whole_cut(worths, least, steps)
            if answer is None or np.maximum(answer - fleet.spare, 0) @ np.array(whole) < right:
                self._earn(name, whole, right)
                return True
        return False

    def _earn(self, name: str, whole: list[int], right: int) -> None:
        terms = [(n, c) for n, c in zip(self.replicas, whole, strict=True) if c > 0]
        if self.fleet.spare:
            spare = [(y, -c * self.fleet.spare) for y, c in zip(self.opened, whole, strict=True)]
            terms += [(y, c) for y, c in spare if c]
        self.row(name, terms, pulp.LpConstraintGE, right, "workloads")

    def _slices(self, slices: int) -> None:
        """Each class in whole slices, and what they take of the replicas."""
        fleet, names = self.fleet, self._names
        pools, spare = fleet.pools, fleet.spare
        served = {
            (int(p), int(w)): self.variable(
                f"slices_{self._classes[w]}_{legal_name(names.pools[p])}", 0, slices
            )
            for p, w in np.argwhere(pools.able)
        }
        for w, name in enumerate(self._classes):
            terms = [(z, 1) for (_, at), z in served.items() if at == w]
            self.row(f"demand_{name}", terms, pulp.LpConstraintEQ, slices, "workloads")
        for p, name in enumerate(names.pools):
            classes = np.flatnonzero(pools.able[p])
            for r, resource in enumerate(names.resources):
                loads, carried = whole_loads(pools.need[p, r, classes] / slices)
                terms = [(served[p, int(w)], a) for w, a in zip(classes, loads, strict=True)]
                terms.append((self.replicas[p], -carried))
                if spare:
                    terms.append((self.opened[p], carried * spare))
                row = legal_name(f"{resource}_{name}")
                self.row(row, terms, pulp.LpConstraintLE, 0, "workloads")
        if fleet.most_spot_frac is not None:
            at = [(z, w) for (p, w), z in served.items() if fleet.spot[pools.rental[p]]]
            of_all = fleet.demand / fleet.demand.sum() / slices
            loads, carried = whole_loads(of_all[[w for _, w in at]])
            most = math.floor(carried * fleet.most_spot_frac + 1e-9)
            terms = [(z, a) for (z, _), a in zip(at, loads, strict=True)]
            quote = "limits.most_spot_frac"
            self.row("limit_spot_share", terms, pulp.LpConstraintLE, most, quote)


def _most_replicas(fleet: Fleet) -> Ints:
    """The most replicas of each pool that could be of use: all demand alone, and the spare ones."""
    alone = np.ceil(fleet.pools.need.max(axis=1).sum(axis=1)).astype(np.int64)
    return np.asarray(np.maximum(alone + fleet.spare + 1, fleet.least_replicas))
