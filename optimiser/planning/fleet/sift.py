"""The relaxation of a fleet over all of its pools, from few of them at a time."""

from dataclasses import dataclass, replace

import numpy as np

from optimiser.engine.replicas import Floats, Ints
from optimiser.planning.fleet.exact import exact_worth
from optimiser.planning.fleet.pools import Fleet
from optimiser.planning.fleet.pricing import worth
from optimiser.planning.fleet.rows import table
from optimiser.planning.fleet.solve_rows import continuous, run

FIRST = 160
"""Pools in the first relaxation."""
MORE = 120
"""Most pools added in a round."""
ROUNDS = 12
MOST_DOUBTFUL = 400
"""Most pools whose worth is worked out exactly before the prices are scaled down for them."""


@dataclass(frozen=True, slots=True)
class Sifted:
    """Prices that prove a bound, and what each pool would cost beyond it."""

    bound_usd: float
    """No fleet costs less."""
    extra_usd: Floats
    """No fleet that uses a pool costs less than the bound and this, shape (n_pools,)."""
    value: Floats
    """What the demand of each class is worth at these prices."""
    stock_value: Floats
    relaxation_usd: float
    """The relaxation over the pools looked at."""
    looked_at: Ints
    short: bool
    """Whether even the relaxation leaves some demand unserved."""

    def extra_of(self, fleet: Fleet) -> Floats:
        """What other pools of the same classes and stocks would cost beyond the bound."""
        charged = prices(fleet, self.stock_value) * (1 + fleet.spare)
        return charged - worth(fleet.pools, self.value)


def prices(fleet: Fleet, stock_value: Floats) -> Floats:
    """What a replica of each pool costs with the stock that it takes, dollars per hour."""
    return np.asarray(fleet.replica_usd + fleet.replica_stock @ stock_value)


def sift(fleet: Fleet) -> Sifted:
    """Solve the relaxation on a few pools and add those that would improve it, until none does.

    Spot's share, spare replicas and the number of pools are left to the program itself: without
    them the bound stays true.
    """
    kept = _first(fleet)
    plain = replace(
        fleet, spare=0, slices=None, most_pools=None, most_spot_frac=None, least_replicas=0
    )
    best: Sifted | None = None
    for _ in range(ROUNDS):
        part = plain.of(kept)
        rows, columns = table(part, totals=False)
        solved = run(continuous(rows))
        value = np.maximum(solved.row_duals[columns.demand_rows], 0.0)
        stock_value = np.maximum(-solved.row_duals[columns.stock_rows], 0.0)
        short = bool((solved.values[columns.short] > 1e-6).any())
        charged, worths = prices(fleet, stock_value), worth(fleet.pools, value)
        doubtful = np.flatnonzero(worths > charged)
        if 0 < len(doubtful) <= MOST_DOUBTFUL:
            exact = exact_worth(fleet.pools.of(doubtful), value)
            worths[doubtful] = np.minimum(worths[doubtful], exact)
        better = np.setdiff1d(np.flatnonzero(worths > charged + 1e-7), kept)
        # the prices prove most once no pool is worth more than it costs
        scale = float((charged / np.maximum(worths, 1e-12)).min(initial=1.0))
        bound = float(scale * value.sum() - stock_value @ fleet.stock_most)
        if best is None or bound > best.bound_usd:
            extra = charged * (1 + fleet.spare) - scale * worths
            best = Sifted(
                bound,
                np.maximum(extra, 0.0),
                scale * value,
                stock_value,
                solved.objective,
                kept,
                short,
            )
        if len(better) == 0:
            break
        gain = charged[better] - worths[better]
        better = better[np.argsort(gain, kind="stable")][:MORE]
        kept = np.sort(np.concatenate([kept, better]))
    assert best is not None
    return best


def _first(fleet: Fleet) -> Ints:
    """The pools that look cheapest for each class, and for the mix."""
    pools, cost = fleet.pools, fleet.replica_usd
    alone = np.where(pools.able, cost[:, None] * pools.need.max(axis=1), np.inf)
    cheapest = alone.min(axis=0, initial=np.inf)
    value = np.where(np.isfinite(cheapest), cheapest, 0.0)
    ratio = cost / np.maximum(worth(pools, value), 1e-12)
    few = max(2, FIRST // (2 * fleet.n_classes))
    chosen = [np.argsort(alone[:, w], kind="stable")[:few] for w in range(fleet.n_classes)]
    left = max(FIRST - few * fleet.n_classes, FIRST // 2)
    chosen.append(np.argsort(ratio, kind="stable")[:left])
    return np.unique(np.concatenate(chosen))
