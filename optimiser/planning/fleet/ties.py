"""Among the cheapest fleets the one to prefer, so that one case gives one fleet.

Fewest replicas of changed models first (KV heads, weight bits, cache bits), then fewest GPUs, then
the catalogue's order. One class in one pool follows the order of single designs to its end.
"""

from dataclasses import replace

import numpy as np

from optimiser.engine.replicas import Floats, Ints
from optimiser.planning.fleet.assembled import Assembled
from optimiser.planning.fleet.pools import Fleet
from optimiser.planning.fleet.routing import SERVED, route
from optimiser.planning.fleet.rows import table
from optimiser.planning.fleet.search import FleetFound
from optimiser.planning.fleet.sift import sift
from optimiser.planning.fleet.solve_rows import run_whole
from optimiser.planning.order import change, name_order
from optimiser.units import nano_usd, usd

SECONDS = 5.0
MOST_POOLS = 400
"""Pools that fleets of the cost could use, beyond which they are not ranked."""


def ranked(assembled: Assembled, found: FleetFound) -> tuple[FleetFound, bool]:
    """The preferred fleet of that cost, and whether the order was settled."""
    fleet, cost = assembled.fleet, nano_usd(found.usd_per_hour)
    if fleet.n_classes == 1 and fleet.slices is None:
        single = _single(assembled, cost)
        if single is not None:
            return _with(fleet, found, single), True
    if fleet.slices is not None:
        return found, False
    sifted = sift(fleet)
    # no fleet of this cost uses any other pool
    kept = np.flatnonzero(sifted.extra_usd <= found.usd_per_hour - sifted.bound_usd + 1e-6)
    if len(kept) > MOST_POOLS:
        return found, False
    part = fleet.of(kept)
    rows, columns = table(part, totals=False)
    rows.serve_all(columns)
    rows.cost_at_most(columns, fleet.step_usd, found.usd_per_hour)
    for column in range(len(rows.cost)):
        rows.cost[column] = 0.0
    for column, weight in zip(columns.replicas, _weights(assembled)[kept], strict=True):
        rows.cost[column] = weight
    solved = run_whole(rows, columns.whole, seconds=SECONDS)
    if solved.status != "optimal" or not len(solved.values):
        return found, False
    replicas = np.zeros(len(fleet.pools), dtype=np.int64)
    replicas[kept] = np.round(solved.values[columns.replicas]).astype(np.int64)
    if fleet.cost_nano_usd(replicas) > cost or not fleet.within_limits(replicas):
        return found, False
    served, shares = route(fleet, replicas)
    if served < SERVED:
        return found, False
    return replace(found, replicas=replicas, shares=shares), True


def _with(fleet: Fleet, found: FleetFound, replicas: Ints) -> FleetFound:
    _, shares = route(fleet, replicas)
    cost = usd(fleet.cost_nano_usd(replicas))
    bound = min(found.bound_usd_per_hour, cost)
    return replace(
        found, replicas=replicas, shares=shares, usd_per_hour=cost, bound_usd_per_hour=bound
    )


def _weights(assembled: Assembled) -> Floats:
    """What a replica of each pool counts for: changes, then GPUs, then its place."""
    changes = _ranks([_change(assembled, p) for p in range(len(assembled.pools))])
    gpus = np.array([pool.gpus_per_replica for pool in assembled.pools], dtype=float)
    place = np.arange(len(assembled.pools)) / max(1, len(assembled.pools))
    return gpus + 100.0 * np.array(changes) / max(1, max(changes)) + 1e-3 * place


def _single(assembled: Assembled, cost: int) -> Ints | None:
    """The preferred single pool that serves one class at no more than the cost."""
    fleet = assembled.fleet
    working = np.maximum(np.ceil(fleet.pools.need[:, :, 0].max(axis=1)).astype(np.int64), 1)
    counts = np.maximum(working + fleet.spare, max(1, fleet.least_replicas))
    best: tuple[tuple[object, ...], Ints] | None = None
    for p in np.flatnonzero(fleet.pools.able[:, 0]):
        replicas = np.zeros(len(fleet.pools), dtype=np.int64)
        replicas[p] = counts[p]
        costs = fleet.cost_nano_usd(replicas)
        # solvers tell costs apart to a billionth of a dollar, or not quite
        if costs > cost or not fleet.within_limits(replicas):
            continue
        if route(fleet, replicas)[0] < SERVED:
            continue
        key = (costs, *_order(assembled, int(p), int(counts[p])))
        if best is None or key < best[0]:
            best = key, replicas
    return None if best is None else best[1]


def _order(assembled: Assembled, p: int, replicas: int) -> tuple[object, ...]:
    """The order of single designs."""
    pool = assembled.pools[p]
    made = pool.configuration
    name = (pool.label,) if made is None else name_order(made)
    gpus = replicas * pool.gpus_per_replica
    return (*_change(assembled, p), gpus, pool.gpus_per_replica, -pool.most_batch, *name)


def _change(assembled: Assembled, p: int) -> tuple[float, float, float]:
    pool = assembled.pools[p]
    if pool.configuration is None:
        return (0.0, 0.0, 0.0)
    own = next(one.model.kv_heads for one in assembled.cases if one.model.name == pool.model)
    return change(pool.configuration, own)


def _ranks(keys: list[tuple[float, float, float]]) -> list[int]:
    place = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    return [place[key] for key in keys]
