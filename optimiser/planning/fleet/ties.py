"""Among the cheapest fleets the one to prefer, so that one case gives one fleet.

Fewest replicas of changed models first (KV heads, weight bits, cache bits), then fewest GPUs, then
the catalogue's order. One class in one pool follows the order of single designs to its end.
"""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from optimiser.engine.replicas import Ints
from optimiser.planning.cut_loop import Found as CutFound
from optimiser.planning.cut_loop import Run
from optimiser.planning.cut_loop import search as cut_loop
from optimiser.planning.fleet.assembled import Assembled
from optimiser.planning.fleet.names import numbered
from optimiser.planning.fleet.pools import Fleet
from optimiser.planning.fleet.routing import SERVED, route
from optimiser.planning.fleet.search import FleetFound
from optimiser.planning.fleet.shared_pools import SharedPools
from optimiser.planning.fleet.sift import sift
from optimiser.planning.order import change, name_order
from optimiser.planning.solvers.base import Status, solver
from optimiser.units import nano_usd, usd

SECONDS = 10.0
"""What all preferences together may take; beyond it fleets are not ranked."""
SOLVER = "cp-sat"
"""The quickest at a settled cost, where what is left is mostly counting."""
LARGEST_WEIGHT = 10**6


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
    part = fleet.of(kept)
    program = SharedPools(part, numbered(part), first_prices=sifted.value)
    program.limit_cost("settled_cost", cost)
    run = Run(solver(SOLVER), deadline=time.perf_counter() + SECONDS)
    settled: CutFound[Ints] = CutFound(Status.UNDECIDED)
    for name, weights in _preferences(assembled):
        terms = [(n, float(w)) for n, w in zip(program.replicas, weights[kept], strict=True)]
        program.minimise(terms)
        settled = cut_loop(program, run)
        if settled.status is not Status.OPTIMAL:
            return found, False
        program.hold(name, terms, settled.value)
    if settled.answer is None:
        return found, False
    replicas = np.zeros(len(fleet.pools), dtype=np.int64)
    replicas[kept] = settled.answer
    return _with(fleet, found, replicas), True


def _with(fleet: Fleet, found: FleetFound, replicas: Ints) -> FleetFound:
    _, shares = route(fleet, replicas)
    cost = usd(fleet.cost_nano_usd(replicas))
    bound = min(found.bound_usd_per_hour, cost)
    return replace(
        found, replicas=replicas, shares=shares, usd_per_hour=cost, bound_usd_per_hour=bound
    )


def _preferences(assembled: Assembled) -> Iterator[tuple[str, Ints]]:
    """What a replica of each pool counts for, in the order in which sums are made least."""
    pools = assembled.pools
    yield "least change", np.array(_ranks([_change(assembled, p) for p in range(len(pools))]))
    yield "fewest GPUs", np.array([pool.gpus_per_replica for pool in pools])
    yield "order", np.arange(len(pools))
    # sums of places can be equal; those of numbers without a pattern are not
    yield "last", np.random.default_rng(0).integers(1, LARGEST_WEIGHT, len(pools))


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
