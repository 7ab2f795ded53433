"""The search against exhaustive search, the plain program, and its own claims."""

import math
from dataclasses import replace
from random import Random

import numpy as np
import pulp
import pytest

from bench.fleet_instances import fleet_of, load
from optimiser.planning.fleet.cluster import cluster
from optimiser.planning.fleet.exact import exact_worth
from optimiser.planning.fleet.names import numbered
from optimiser.planning.fleet.pools import Fleet
from optimiser.planning.fleet.pricing import worth
from optimiser.planning.fleet.routing import carries, route
from optimiser.planning.fleet.rows import table
from optimiser.planning.fleet.search import search
from optimiser.planning.fleet.sift import sift
from optimiser.planning.fleet.solve_program import solve_program
from optimiser.planning.fleet.solve_rows import continuous, run
from optimiser.planning.solvers.base import Status
from tests.planning.fleet import drawn


def bench_fleet(seed: int, n_classes: int = 3, n_gpus: int = 3) -> Fleet:
    """A few GPU types and classes of the bench, with little stock in some."""
    random, data = Random(seed), load()
    gpus = random.sample(data["gpus"], n_gpus)
    gpus = [{**gpu, "stock": random.choice([gpu["stock"], 4, 8])} for gpu in gpus]
    workloads = random.choice(data["instances"])["workloads"]
    return fleet_of(gpus, random.sample(workloads, n_classes))


@pytest.mark.parametrize("seed", range(40))
def test_it_equals_exhaustive_search(seed: int) -> None:
    fleet = drawn.twisted(seed, drawn.fleet(seed))
    best, found = drawn.cheapest(fleet), search(fleet, 20)
    if found.status is Status.INFEASIBLE:
        assert best is None
        return
    assert found.status is Status.OPTIMAL
    assert carries(fleet, found.replicas, found.shares)
    # the search may find a fleet of more replicas than the exhaustive one tries
    if best is not None and found.replicas.max() <= drawn.MOST:
        assert found.usd_per_hour == pytest.approx(best, abs=1e-9)
    elif best is not None:
        assert found.usd_per_hour <= best + 1e-9


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("solver", ["cp-sat", "highs", "cbc"])
def test_both_roads_cost_the_same(seed: int, solver: str) -> None:
    fleet = drawn.twisted(seed, drawn.fleet(seed, n_classes=3, n_gpus=3, per_gpu=2))
    found = search(fleet, 20)
    other, _ = solve_program(fleet, numbered(fleet), solver, 20)
    assert found.status is other.status
    if found.status is Status.OPTIMAL:
        assert found.usd_per_hour == pytest.approx(other.usd_per_hour, abs=1e-9)
        assert carries(fleet, other.replicas, other.shares)


@pytest.mark.parametrize("seed", range(10))
def test_bench_pools_cost_the_same_on_both_roads(seed: int) -> None:
    fleet = bench_fleet(seed)
    found = search(fleet, 20)
    other, _ = solve_program(fleet, numbered(fleet), "highs", 20)
    if found.status is Status.INFEASIBLE or other.status is Status.INFEASIBLE:
        assert found.status is other.status
        return
    assert found.bound_usd_per_hour <= other.usd_per_hour + 1e-9
    assert other.bound_usd_per_hour <= found.usd_per_hour + 1e-9
    if found.status is other.status is Status.OPTIMAL:
        assert found.usd_per_hour == pytest.approx(other.usd_per_hour, abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_the_sifted_bound_is_below_every_fleet(seed: int) -> None:
    fleet = bench_fleet(seed)
    found, sifted = search(fleet, 20), sift(fleet)
    assert sifted.bound_usd <= found.usd_per_hour + 1e-9
    if found.status is Status.OPTIMAL:
        used = np.flatnonzero(found.replicas)
        assert (sifted.bound_usd + sifted.extra_usd[used] <= found.usd_per_hour + 1e-9).all()


def test_the_sifted_bound_is_the_relaxation_of_all_pools() -> None:
    data = load()
    fleet = fleet_of(data["gpus"], data["instances"][0]["workloads"])
    rows, _ = table(fleet, totals=False)
    assert sift(fleet).bound_usd == pytest.approx(run(continuous(rows)).objective, rel=1e-6)


def test_clusters_leave_the_relaxation_as_it_is() -> None:
    data = load()
    fleet = fleet_of(data["gpus"], data["instances"][0]["workloads"])
    sifted = sift(fleet)
    kept = np.flatnonzero(sifted.extra_usd < 2.0)
    joined = cluster(fleet.of(kept), sifted, sifted.extra_usd[kept])
    rows, _ = table(joined.fleet, totals=True)
    assert len(joined.members) < len(kept) / 3
    assert sorted(np.concatenate(joined.members)) == list(range(len(kept)))
    assert run(continuous(rows)).objective == pytest.approx(sifted.bound_usd, rel=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_worths_are_upper_bounds_and_the_exact_one_is_exact(seed: int) -> None:
    random = np.random.default_rng(seed)
    pools = drawn.fleet(seed, n_classes=5, n_gpus=2, per_gpu=3).pools
    value = random.uniform(0, 5, 5)
    bound, exact = worth(pools, value), exact_worth(pools, value)
    for p in range(len(pools)):
        true = _worth_by_program(pools.need[p], np.where(pools.able[p], value, 0.0))
        assert bound[p] >= true - 1e-9
        assert exact[p] == pytest.approx(true, abs=1e-6)


def _worth_by_program(need: np.ndarray, value: np.ndarray) -> float:
    problem = pulp.LpProblem("worth", pulp.LpMaximize)
    share = [problem.add_variable(f"s{w}", 0, 1) for w in range(len(value))]
    problem.setObjective(pulp.lpSum(float(v) * s for v, s in zip(value, share, strict=True)))
    for row in need:
        problem.addConstraint(
            pulp.lpSum(float(x) * s for x, s in zip(row, share, strict=True)) <= 1
        )
    problem.solve(pulp.HiGHS(msg=False, threads=1))
    return float(pulp.value(problem.objective))


def test_a_time_limit_gives_a_fleet_with_a_true_bound() -> None:
    data = load()
    fleet = fleet_of(data["gpus"], data["instances"][2]["workloads"])
    found = search(fleet, 15)
    assert found.status is Status.FEASIBLE
    assert route(fleet, found.replicas)[0] >= 1 - 1e-9
    # longer runs proved that nothing costs less than 324.1, and found a fleet at 324.9
    assert found.bound_usd_per_hour <= 324.9 + 1e-6
    assert found.usd_per_hour >= 324.1 - 1e-6
    assert 0 < found.gap_frac < 1


@pytest.mark.parametrize("seed", range(3))
def test_whole_slices_are_solved_to_proof(seed: int) -> None:
    """60 request sizes over 4 GPU types, 4 slices each, against a program written out again."""
    fleet = drawn.binpacking(seed)
    found = search(fleet, 60)
    assert found.status is Status.OPTIMAL
    counts = found.shares * 4
    assert np.allclose(counts, np.round(counts))
    assert found.usd_per_hour == pytest.approx(_packed(fleet), abs=1e-6)


def _packed(fleet: Fleet) -> float:
    """min Σ price · n, Σ z = slices, Σ load · z ≤ n: the textbook's program."""
    need, price = fleet.pools.need[:, 0], fleet.unit_nano_usd / 1e9
    n_gpus, n_sizes = need.shape
    slices = fleet.slices or 1
    problem = pulp.LpProblem("packing", pulp.LpMinimize)
    n = [problem.add_variable(f"n{g}", 0, None, cat=pulp.LpInteger) for g in range(n_gpus)]
    z = {
        (g, w): problem.add_variable(f"z{g}_{w}", 0, slices, cat=pulp.LpInteger)
        for g in range(n_gpus)
        for w in range(n_sizes)
        if fleet.pools.able[g, w]
    }
    problem.setObjective(pulp.lpSum(float(price[g]) * n[g] for g in range(n_gpus)))
    for w in range(n_sizes):
        problem.addConstraint(pulp.lpSum(v for (_, at), v in z.items() if at == w) == slices)
    for g in range(n_gpus):
        load_of = pulp.lpSum(float(need[g, w]) / slices * v for (at, w), v in z.items() if at == g)
        problem.addConstraint(load_of <= n[g])
    problem.solve(pulp.HiGHS(msg=False, threads=1, gapRel=0.0))
    assert problem.sol_status == pulp.LpSolutionOptimal
    return float(pulp.value(problem.objective))


@pytest.mark.parametrize("seed", range(6))
def test_limits_never_make_a_fleet_cheaper(seed: int) -> None:
    plain = bench_fleet(seed)
    first = search(plain, 20)
    assert first.status in (Status.OPTIMAL, Status.INFEASIBLE)
    for change in ({"spare": 1}, {"most_pools": 1}, {"slices": 2}):
        found = search(replace(plain, **change), 20)
        if first.status is Status.INFEASIBLE:
            assert found.status is Status.INFEASIBLE
        else:
            dearer = found.usd_per_hour >= first.usd_per_hour - 1e-9
            assert found.status is Status.INFEASIBLE or dearer


@pytest.mark.parametrize("seed", range(6))
def test_any_one_replica_may_fail(seed: int) -> None:
    fleet = replace(bench_fleet(seed), spare=1)
    found = search(fleet, 20)
    if not len(found.replicas):
        return
    without = replace(fleet, spare=0)
    for p in np.flatnonzero(found.replicas):
        left = found.replicas.copy()
        left[p] -= 1
        assert carries(without, left, found.shares)


def test_costs_are_whole_price_steps() -> None:
    found = search(bench_fleet(1), 20)
    cents = found.usd_per_hour * 10
    assert math.isclose(cents, round(cents), abs_tol=1e-6)
