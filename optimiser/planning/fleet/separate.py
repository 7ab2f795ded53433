"""The fleet that gives each class one pool of its own: what is had without mixing."""

import numpy as np

from optimiser.planning.fleet.assembled import Assembled
from optimiser.planning.fleet.rows import INFINITE, Table
from optimiser.planning.fleet.solve_rows import run_whole
from optimiser.units import usd

SECONDS = 5.0


def one_pool_per_class(assembled: Assembled) -> float | None:
    """Dollars per hour of the cheapest such fleet within the stock; None where there is none.

    Replicas of different classes may share an instance, never a pool.
    """
    fleet = assembled.fleet
    pools = fleet.pools
    working = np.ceil(pools.need.max(axis=1) - 1e-9)
    counts = np.where(pools.able, np.maximum(working, 1) + fleet.spare, 0.0)
    table = Table()
    units = table.columns(usd(1) * fleet.unit_nano_usd.astype(float), 0.0, INFINITE)
    pair_pool, pair_class = np.nonzero(pools.able)
    chosen = table.columns(np.zeros(len(pair_pool)), 0.0, 1.0)
    for w in range(fleet.n_classes):
        mine = chosen[pair_class == w].tolist()
        table.row(mine, [1.0] * len(mine), 1.0, 1.0)
    taken = counts[pair_pool, pair_class] * pools.units[pair_pool]
    for o in range(len(units)):
        at = pools.rental[pair_pool] == o
        index = [*chosen[at].tolist(), int(units[o])]
        table.row(index, [*taken[at].tolist(), -1.0], -INFINITE, 0.0)
    for use, most in zip(fleet.stock_use, fleet.stock_most, strict=True):
        table.row(units.tolist(), use.tolist(), -INFINITE, float(most))
    whole = np.concatenate([units, chosen])
    solved = run_whole(table, whole, seconds=SECONDS)
    return float(solved.objective) if len(solved.values) else None
