"""Where the traffic of a given fleet goes, and whether it can all go somewhere."""

import numpy as np

from optimiser.engine.replicas import Floats, Ints
from optimiser.planning.fleet.pools import Fleet
from optimiser.planning.fleet.rows import INFINITE, Table
from optimiser.planning.fleet.solve_rows import continuous, run

SERVED = 1 - 1e-9
"""Least multiple of the demand that counts as all of it."""


def route(fleet: Fleet, replicas: Ints) -> tuple[float, Floats]:
    """The largest multiple of the demand that the replicas carry, and each pool's shares of it.

    Shapes: the shares are (n_pools, n_classes), and sum to the multiple for every class.
    """
    pools, n_classes = fleet.pools, fleet.n_classes
    shares = np.zeros((len(pools), n_classes))
    opened = np.flatnonzero(replicas > fleet.spare)
    table = Table()
    scale = table.columns(np.array([-1.0]), 0.0, 1e6)
    pairs = [(p, int(w)) for p in opened for w in np.flatnonzero(pools.able[p])]
    served = table.columns(np.zeros(len(pairs)), 0.0, INFINITE)
    of_class: list[list[int]] = [[] for _ in range(n_classes)]
    of_pool: dict[int, list[tuple[int, int]]] = {int(p): [] for p in opened}
    for column, (p, w) in zip(served.tolist(), pairs, strict=True):
        of_class[w].append(column)
        of_pool[int(p)].append((column, w))
    for mine in of_class:
        table.row([*mine, int(scale[0])], [*([1.0] * len(mine)), -1.0], 0.0, INFINITE)
    for p, mine_of in of_pool.items():
        columns = [column for column, _ in mine_of]
        working = float(replicas[p] - fleet.spare)
        for need in pools.need[p]:
            table.row(columns, [float(need[w]) / working for _, w in mine_of], -INFINITE, 1.0)
    if fleet.most_spot_frac is not None:
        of_all = fleet.demand / fleet.demand.sum()
        spot = [
            (c, w)
            for c, (p, w) in zip(served.tolist(), pairs, strict=True)
            if fleet.spot[pools.rental[p]]
        ]
        index = [*(c for c, _ in spot), int(scale[0])]
        value = [*(float(of_all[w]) for _, w in spot), -fleet.most_spot_frac]
        table.row(index, value, -INFINITE, 0.0)
    highs = continuous(table)
    highs.setOptionValue("primal_feasibility_tolerance", 1e-10)
    solved = run(highs)
    for column, (p, w) in zip(served.tolist(), pairs, strict=True):
        shares[p, w] = max(solved.values[column], 0.0)
    return float(-solved.objective), shares


def serves(fleet: Fleet, replicas: Ints) -> bool:
    """Whether the replicas carry all of the demand within all limits."""
    return fleet.within_limits(replicas) and route(fleet, replicas)[0] >= SERVED
