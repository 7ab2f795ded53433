"""The relaxation of a fleet over all of its pools, from few of them at a time."""

from dataclasses import dataclass

import numpy as np

from optimiser.engine.replicas import Floats, Ints
from optimiser.planning.fleet.pools import Fleet
from optimiser.planning.fleet.exact import exact_worth
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
        return prices(fleet, self.stock_value) - worth(fleet.pools, self.value)


def prices(fleet: Fleet, stock_value: Floats) -> Floats:
    """What a replica of each pool costs with the stock that it takes, dollars per hour."""
    return np.asarray(fleet.replica_usd + fleet.replica_stock @ stock_value)


def sift(fleet: Fleet) -> Sifted:
    """Solve the relaxation on a few pools and add those that would improve it, until none does.

    Spot's share and the number of pools are left to the program itself: without them the bound
    stays true.
    """
    kept = _first(fleet)
    best: Sifted | None = None
    for _ in range(ROUNDS):
        part = fleet.of(kept)
        rows, columns = table(part, totals=False)
        solved = run(continuous(rows))
        value = np.maximum(solved.row_duals[columns.demand_rows], 0.0)
        stock_value = np.maximum(-solved.row_duals[columns.stock_rows], 0.0)
        short = bool((solved.values[columns.short] > 1e-6).any())
        found = _proved(fleet, value, stock_value, solved.objective, kept, short)
        if best is None or found.bound_usd > best.bound_usd:
            best = found
        full = prices(fleet, stock_value) - worth(fleet.pools, value)
        better = np.flatnonzero(full < -1e-7)
        better = np.setdiff1d(better, kept)
        if len(better) == 0:
            break
        better = better[np.argsort(full[better], kind="stable")][:MORE]
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


def _proved(
    fleet: Fleet, value: Floats, stock_value: Floats, relaxation: float, kept: Ints, short: bool
) -> Sifted:
    """Scale the prices so that no pool is worth more than it costs: then they prove a bound."""
    charged = prices(fleet, stock_value)
    worths = worth(fleet.pools, value)
    doubtful = np.flatnonzero(worths > charged)
    if 0 < len(doubtful) <= MOST_DOUBTFUL:
        worths[doubtful] = np.minimum(
            worths[doubtful], exact_worth(fleet.pools.of(doubtful), value)
        )
    scale = min(1.0, float((charged / np.maximum(worths, 1e-12)).min(initial=np.inf)))
    scaled = scale * value
    bound = float(scaled.sum() - stock_value @ fleet.stock_most)
    extra = np.maximum(charged - scale * worths, 0.0)
    return Sifted(bound, extra, scaled, stock_value, relaxation, kept, short)
