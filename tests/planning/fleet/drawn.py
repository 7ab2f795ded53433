"""Random fleets as plain arrays, and the cheapest one by trying every number of replicas."""

import math
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pulp

from optimiser.planning.fleet.pools import Fleet, Pools

MOST = 4
"""Most replicas of a pool that the exhaustive search tries."""


def fleet(seed: int, n_classes: int = 2, n_gpus: int = 3, per_gpu: int = 1) -> Fleet:
    """Each GPU type with a few pools; prices in cents, so that ties are real."""
    random = np.random.default_rng(seed)
    n_pools = n_gpus * per_gpu
    need = np.round(random.uniform(0.1, 2.0, (n_pools, 3, n_classes)), 2)
    able = random.random((n_pools, n_classes)) < 0.75
    able[random.integers(n_pools, size=n_classes), np.arange(n_classes)] = True
    need = np.where(able[:, None, :], need, 0.0)
    return Fleet(
        pools=Pools(
            need,
            able,
            configuration=np.arange(n_pools) // 2,
            step=np.arange(n_pools, dtype=float),
            rental=np.arange(n_pools) // per_gpu,
            units=random.choice([1.0, 2.0, 0.5], n_pools),
        ),
        unit_nano_usd=10**7 * random.integers(50, 500, n_gpus),
        stock_use=np.zeros((0, n_gpus)),
        stock_most=np.zeros(0),
        demand=random.uniform(1, 10, n_classes),
        spot=np.arange(n_gpus) == 0,
    )


def twisted(seed: int, plain: Fleet) -> Fleet:
    """The fleet with some of the limits that fleets have."""
    random = Random(seed)
    n_gpus = len(plain.unit_nano_usd)
    changes: dict[str, object] = {}
    if random.random() < 0.4:
        changes["stock_use"] = np.eye(n_gpus)
        changes["stock_most"] = np.array([float(random.randint(1, 5)) for _ in range(n_gpus)])
    if random.random() < 0.3:
        changes["most_pools"] = random.randint(1, 2)
    if random.random() < 0.3:
        changes["spare"] = 1
    if random.random() < 0.3:
        changes["most_spot_frac"] = random.choice([0.0, 0.3, 0.6])
    if random.random() < 0.3:
        changes["slices"] = random.randint(1, 3)
    return replace(plain, **changes)


def cheapest(fleet: Fleet) -> float | None:
    """The least cost in dollars per hour, by trying every number of replicas of every pool."""
    counts = [np.array(c) for c in product(range(MOST + 1), repeat=len(fleet.pools))]
    counts.sort(key=lambda count: usd_per_hour(fleet, count))
    for count in counts:
        if fits(fleet, count) and carries(fleet, count):
            return usd_per_hour(fleet, count)
    return None


def rented(fleet: Fleet, count: np.ndarray) -> list[int]:
    """Whole units of each rental."""
    taken = [0.0] * len(fleet.unit_nano_usd)
    for p, replicas in enumerate(count):
        taken[fleet.pools.rental[p]] += float(fleet.pools.units[p]) * int(replicas)
    return [math.ceil(units) for units in taken]


def usd_per_hour(fleet: Fleet, count: np.ndarray) -> float:
    return float(np.array(rented(fleet, count)) @ fleet.unit_nano_usd) / 1e9


def fits(fleet: Fleet, count: np.ndarray) -> bool:
    units = np.array(rented(fleet, count))
    if any(use @ units > most for use, most in zip(fleet.stock_use, fleet.stock_most, strict=True)):
        return False
    return fleet.most_pools is None or sum(count > 0) <= fleet.most_pools


def carries(fleet: Fleet, count: np.ndarray) -> bool:
    """Whether so many replicas can share the demand, by a program written out again."""
    pools, slices = fleet.pools, fleet.slices or 1
    kind = pulp.LpContinuous if fleet.slices is None else pulp.LpInteger
    problem = pulp.LpProblem("carries", pulp.LpMinimize)
    share = {
        (p, w): problem.add_variable(f"s_{p}_{w}", 0, slices, cat=kind)
        for p in range(len(pools))
        for w in range(fleet.n_classes)
        if pools.able[p, w] and count[p] > fleet.spare
    }
    problem.setObjective(pulp.LpAffineExpression([]))
    for w in range(fleet.n_classes):
        mine = [v for (_, c), v in share.items() if c == w]
        if not mine:
            return False
        problem.addConstraint(pulp.lpSum(mine) == slices)
    for p, r in product(range(len(pools)), range(pools.need.shape[1])):
        terms = [pools.need[p, r, w] / slices * v for (q, w), v in share.items() if q == p]
        if terms:
            problem.addConstraint(pulp.lpSum(terms) <= float(count[p] - fleet.spare))
    if fleet.most_spot_frac is not None:
        of_all = fleet.demand / fleet.demand.sum()
        terms = [
            of_all[w] / slices * v for (p, w), v in share.items() if fleet.spot[pools.rental[p]]
        ]
        if terms:
            problem.addConstraint(pulp.lpSum(terms) <= fleet.most_spot_frac)
    problem.solve(pulp.HiGHS(msg=False, threads=1))
    return problem.sol_status == pulp.LpSolutionOptimal


def binpacking(seed: int, n_sizes: int = 60, n_gpus: int = 4, slices: int = 4) -> Fleet:
    """Request sizes over GPU types, each replica packed with whole slices of sizes."""
    random = np.random.default_rng(seed)
    rate = random.uniform(0.2, 3.0, n_sizes)
    scale = np.geomspace(2, 40, n_gpus)[:, None] * random.uniform(0.7, 1.4, (n_gpus, n_sizes))
    price = np.round(np.geomspace(0.7, 12, n_gpus) * random.uniform(0.8, 1.2, n_gpus), 2)
    able = random.random((n_gpus, n_sizes)) < 0.9
    able[-1] = True
    need = np.where(able, rate / scale, 0.0)
    return Fleet(
        pools=Pools(
            need[:, None, :],
            able,
            configuration=np.arange(n_gpus),
            step=np.ones(n_gpus),
            rental=np.arange(n_gpus),
            units=np.ones(n_gpus),
        ),
        unit_nano_usd=np.round(price * 1e9).astype(np.int64),
        stock_use=np.zeros((0, n_gpus)),
        stock_most=np.zeros(0),
        demand=rate,
        spot=np.zeros(n_gpus, dtype=bool),
        slices=slices,
    )
