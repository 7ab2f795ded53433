"""Where the traffic of a given fleet goes, and whether it can all go somewhere."""

from dataclasses import replace

import numpy as np

from optimiser.engine.replicas import Floats, Ints
from optimiser.planning.fleet.pools import Fleet
from optimiser.planning.fleet.rows import INFINITE, Table
from optimiser.planning.fleet.solve_rows import continuous, run, run_whole
from optimiser.units import TOLERANCE

SERVED = 1 - 1e-9
"""Least multiple of the demand that counts as all of it."""


def route(fleet: Fleet, replicas: Ints) -> tuple[float, Floats]:
    """The largest multiple of the demand that the replicas carry, and each pool's shares of it.

    The shares have shape (n_pools, n_classes) and sum to one for every class. Slices that are
    routed whole are only asked whether they all fit.
    """
    opened = np.flatnonzero(replicas > fleet.spare)
    part = fleet.of(opened)
    working = (replicas[opened] - fleet.spare).astype(float)
    whole = fleet.slices is not None
    found, shares = _whole(part, working) if whole else _split(part, working)
    every = np.zeros((len(fleet.pools), fleet.n_classes))
    every[opened] = shares
    return found, every


def prices(fleet: Fleet, replicas: Ints) -> tuple[Floats, float]:
    """What the demand of each class is worth where replicas carry too little, and spot's share.

    Multipliers u and v of the linear program that `route` solves: no fleet serves all demand whose
    replicas are together worth less than Σ u - v · (spot's largest share).
    """
    opened = np.flatnonzero(replicas > fleet.spare)
    part = replace(fleet.of(opened), slices=None)
    if not len(opened):
        return np.ones(fleet.n_classes), 0.0
    table, _, _ = _table(part, (replicas[opened] - fleet.spare).astype(float), 1)
    duals = run(continuous(table)).row_duals
    has_spot = part.most_spot_frac is not None
    spot_value = max(-float(duals[-1]), 0.0) if has_spot else 0.0
    return np.maximum(duals[: fleet.n_classes], 0.0), spot_value


def _split(part: Fleet, working: Floats) -> tuple[float, Floats]:
    """As much of all demand as possible, freely split."""
    table, scale, served = _table(part, working, 1)
    highs = continuous(table)
    highs.setOptionValue("primal_feasibility_tolerance", 1e-10)
    values = run(highs).values
    shares = np.zeros((len(part.pools), part.n_classes))
    shares[np.nonzero(part.pools.able)] = np.maximum(values[served], 0.0)
    # where more than all could be carried, all of it leaves every pool some room
    return float(values[scale]), shares / np.maximum(shares.sum(axis=0), 1e-12)


def _whole(part: Fleet, working: Floats) -> tuple[float, Floats]:
    """All demand in whole slices, if it fits."""
    slices = part.slices or 1
    table, scale, served = _table(part, working, slices)
    table.low[scale] = table.high[scale] = 1.0
    solved = run_whole(table, served, seconds=60.0)
    shares = np.zeros((len(part.pools), part.n_classes))
    if solved.status == "infeasible" or not len(solved.values):
        return 0.0, shares
    shares[np.nonzero(part.pools.able)] = np.round(solved.values[served]) / slices
    loads = np.einsum("prw,pw->pr", part.pools.need, shares).max(axis=1) / working
    return 1.0 / max(1.0, float(loads.max(initial=0.0))), shares


def _table(part: Fleet, working: Floats, slices: int) -> tuple[Table, int, Ints]:
    pools, table = part.pools, Table()
    scale = int(table.columns(np.array([-1.0]), 0.0, 1e6)[0])
    pair_pool, pair_class = np.nonzero(pools.able)
    served = table.columns(np.zeros(len(pair_pool)), 0.0, INFINITE)
    for w in range(part.n_classes):
        mine = served[pair_class == w].tolist()
        table.row([*mine, scale], [*([1.0 / slices] * len(mine)), -1.0], 0.0, INFINITE)
    for p in range(len(pools)):
        at = pair_pool == p
        for need in pools.need[p][:, pair_class[at]]:
            value = (need / (working[p] * slices)).tolist()
            table.row(served[at].tolist(), value, -INFINITE, 1.0)
    if part.most_spot_frac is not None:
        at = part.spot[pools.rental[pair_pool]]
        of_all = part.demand / part.demand.sum() / slices
        index = [*served[at].tolist(), scale]
        value = [*of_all[pair_class[at]].tolist(), -part.most_spot_frac]
        table.row(index, value, -INFINITE, 0.0)
    return table, scale, served


def carries(fleet: Fleet, replicas: Ints, shares: Floats) -> bool:
    """Whether the replicas carry all of the demand as it is shared out."""
    pools = fleet.pools
    if (shares.sum(axis=0) < SERVED).any() or (shares[~pools.able] > 0).any():
        return False
    if fleet.most_spot_frac is not None:
        on_spot = shares[fleet.spot[pools.rental]].sum(axis=0) @ fleet.demand
        if on_spot > fleet.most_spot_frac * fleet.demand.sum() * (1 + TOLERANCE):
            return False
    working = np.maximum(replicas - fleet.spare, 0)
    load = np.einsum("prw,pw->pr", pools.need, shares).max(axis=1, initial=0.0)
    return bool((load <= working * (1 + TOLERANCE)).all())
