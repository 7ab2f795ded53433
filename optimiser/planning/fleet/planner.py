"""From a fleet's case to a proved and verified fleet, or why there is none."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from optimiser.engine.replicas import Floats
from optimiser.errors import VerificationError
from optimiser.fleet_case import FleetCase
from optimiser.planning.design import Design
from optimiser.planning.export import save_program
from optimiser.planning.fleet.assemble import assemble
from optimiser.planning.fleet.assembled import Assembled, PoolOf
from optimiser.planning.fleet.search import FleetFound, search
from optimiser.planning.fleet.solve_program import solve_assembled
from optimiser.planning.fleet.ties import ranked
from optimiser.planning.mix import Mix, Routed
from optimiser.planning.rental import Rental
from optimiser.planning.solvers.base import Status
from optimiser.planning.verify import Check
from optimiser.planning.verify_fleet import check_pool, settle
from optimiser.units import TOLERANCE, at_least, usd

ALGORITHM = "fleet"
"""The search of this package: clusters, bounds and small programs on HiGHS."""
SECOND = "highs"
"""The solver of the whole program that checks the search, and whose cuts are saved."""
CROSS_CHECK_S = 60.0


@dataclass(frozen=True, slots=True)
class PlannedPool:
    """One pool of a fleet."""

    of: PoolOf
    replicas: int
    routed: dict[str, float]
    """Requests per second of each class, without headroom."""
    utilization_frac: float
    """Of the replicas that carry traffic, at the plain rate."""
    design: Design | None
    """None where the pool was measured."""
    mix: Mix | None

    @property
    def gpus(self) -> int:
        """GPUs that the replicas run on."""
        return self.replicas * self.of.gpus_per_replica


@dataclass(frozen=True, slots=True)
class FleetProof:
    """What is known about the cost, and from whom."""

    objective_usd_per_hour: float
    bound_usd_per_hour: float
    solver: str
    pools: int
    """Pools that the program chose among."""
    seconds: float
    history: tuple[tuple[float, float, float], ...] = ()
    cross_check: str | None = None
    """The second road that found the same cost, where one was asked."""

    @property
    def gap_frac(self) -> float:
        """(objective - bound) / objective."""
        return (self.objective_usd_per_hour - self.bound_usd_per_hour) / self.objective_usd_per_hour


@dataclass(frozen=True, slots=True)
class FleetPlanned:
    """A fleet that the verifier accepts."""

    case: FleetCase
    assembled: Assembled
    pools: tuple[PlannedPool, ...]
    rented_gpus: dict[str, int]
    """GPUs paid for, by type."""
    checks: tuple[Check, ...]
    proof: FleetProof
    status: str
    notes: tuple[str, ...] = ()

    @property
    def usd_per_hour(self) -> float:
        """Cost of the fleet."""
        return self.proof.objective_usd_per_hour


@dataclass(frozen=True, slots=True)
class FleetInfeasible:
    """Proved: no fleet complies."""

    case: FleetCase
    assembled: Assembled
    seconds: float
    over_budget_usd: float | None = None
    """What the cheapest fleet costs, where only the budget is in its way."""
    status: str = "infeasible"


@dataclass(frozen=True, slots=True)
class FleetUndecided:
    """Neither a fleet nor a proof that there is none."""

    case: FleetCase
    bound_usd_per_hour: float
    seconds: float
    status: str = "undecided"


def plan_fleet(
    case: FleetCase,
    *,
    solver_name: str = ALGORITHM,
    time_limit_s: float | None = None,
    workers: int = 1,
    cross_check: bool = False,
    save_lp: Path | None = None,
) -> FleetPlanned | FleetInfeasible | FleetUndecided:
    """The cheapest compliant fleet of a case, with a true bound, verified by scalar code.

    Raises CaseError, SolverError, and VerificationError where the verifier rejects the fleet or a
    second road finds one of another cost.
    """
    start = time.perf_counter()
    assembled = assemble(case)
    fleet = assembled.fleet
    if save_lp is not None and solver_name == ALGORITHM:
        _save(assembled, save_lp, time_limit_s)
    if (~fleet.pools.able.any(axis=0)).any():
        return FleetInfeasible(case, assembled, time.perf_counter() - start)
    if solver_name == ALGORITHM:
        found = search(fleet, time_limit_s)
    else:
        found, program = solve_assembled(assembled, solver_name, time_limit_s, workers)
        if save_lp is not None:
            save_program(program, case, save_lp, _note(found))
    seconds = time.perf_counter() - start
    if found.status is Status.INFEASIBLE:
        return FleetInfeasible(case, assembled, seconds)
    budget = case.limits.usd_per_hour
    if budget is not None and not at_least(budget, found.bound_usd_per_hour):
        return FleetInfeasible(case, assembled, seconds, found.bound_usd_per_hour)
    if found.status is Status.UNDECIDED or (
        budget is not None and not at_least(budget, found.usd_per_hour)
    ):
        return FleetUndecided(case, found.bound_usd_per_hour, seconds)
    notes = []
    if found.status is Status.OPTIMAL:
        found, is_ranked = ranked(assembled, found)
        if not is_ranked:
            notes.append("equally cheap fleets were not ranked: another run may find another one")
    pools = planned_pools(assembled, found)
    checks = verify(assembled, pools)
    broken = [check.requirement for check in checks if not check.holds]
    if broken:
        raise VerificationError(f"the verifier rejects the fleet ({', '.join(broken)})")
    proof = FleetProof(
        found.usd_per_hour,
        found.bound_usd_per_hour,
        solver_name,
        len(fleet.pools),
        time.perf_counter() - start,
        found.history,
        _cross_check(assembled, found, solver_name) if cross_check else None,
    )
    rented = fleet.units_rented(found.replicas) * assembled.unit_gpus
    by_type: dict[str, int] = {}
    for o, gpus in enumerate(rented):
        if gpus:
            gpu = next(
                pool.gpu
                for pool, place in zip(assembled.pools, fleet.pools.rental, strict=True)
                if place == o
            )
            by_type[gpu] = by_type.get(gpu, 0) + int(gpus)
    status = "optimal" if found.status is Status.OPTIMAL else "feasible"
    return FleetPlanned(case, assembled, pools, by_type, tuple(checks), proof, status, tuple(notes))


def _save(assembled: Assembled, path: Path, time_limit_s: float | None) -> None:
    """Write the program that HiGHS and the routing settle on, with all its cuts."""
    found, program = solve_assembled(assembled, SECOND, time_limit_s)
    save_program(program, assembled.case, path, _note(found))


def _note(found: FleetFound) -> str:
    if found.status in (Status.OPTIMAL, Status.INFEASIBLE):
        return ""
    return "time limit: cuts are missing, so the optimum is a bound and no more"


def _cross_check(assembled: Assembled, found: FleetFound, solver_name: str) -> str | None:
    """Solve again by another road. Raises VerificationError where it proves another cost."""
    second = SECOND if solver_name != SECOND else ALGORITHM
    if second == ALGORITHM:
        other = search(assembled.fleet, CROSS_CHECK_S)
    else:
        other, _ = solve_assembled(assembled, second, CROSS_CHECK_S)
    costs, bounds = (
        [getattr(one, name) for one in (found, other)]
        for name in ("usd_per_hour", "bound_usd_per_hour")
    )
    if max(bounds) > min(costs) * (1 + TOLERANCE):
        told = f"{solver_name} found {costs[0]:.9g} $/h, {second} {costs[1]:.9g} $/h"
        raise VerificationError(f"{told}, and their bounds exclude each other")
    both = other.status is Status.OPTIMAL and found.status is Status.OPTIMAL
    return second if both else None


def planned_pools(assembled: Assembled, found: FleetFound) -> tuple[PlannedPool, ...]:
    """The pools that have replicas, in words."""
    fleet, headroom = assembled.fleet, assembled.case.assumptions.headroom
    pools = []
    for p in np.flatnonzero(found.replicas):
        of, replicas = assembled.pools[p], int(found.replicas[p])
        share = found.shares[p] / np.maximum(found.shares.sum(axis=0), 1e-12)
        routed = _routed(assembled, share, 1.0)
        working = replicas - fleet.spare
        used = float((fleet.pools.need[p] @ share).max()) / headroom / max(working, 1)
        design, mix = None, None
        if of.configuration is not None:
            # one class alone runs the whole batch that its replicas were counted at
            alone = assembled.is_alone
            design = Design(of.configuration, of.most_batch if alone else 1, replicas)
            loaded = settle(design, working, _parts(assembled, share, headroom), alone=alone)
            sequences = of.most_batch if alone else loaded.sequences
            batch = max(1, math.ceil(sequences * (1 - 1e-9)))
            design = Design(of.configuration, batch, replicas)
            mix = loaded
        pools.append(PlannedPool(of, replicas, routed, used, design, mix))
    return tuple(pools)


def _routed(assembled: Assembled, share: Floats, times: float) -> dict[str, float]:
    return {
        name: float(share[w] * assembled.rates[w] * times)
        for w, name in enumerate(assembled.names.classes)
        if share[w] > 1e-12
    }


def _parts(assembled: Assembled, share: Floats, headroom: float) -> list[Routed]:
    return [
        assembled.routed(w, float(share[w]) * one.brief.rate * headroom)
        for w, one in enumerate(assembled.cases)
        if share[w] > 1e-12
    ]


def verify(assembled: Assembled, pools: Sequence[PlannedPool]) -> list[Check]:
    """Check every requirement of the case against the fleet, with the headroom's load."""
    case = assembled.case
    headroom, limits = case.assumptions.headroom, case.limits
    checks: list[Check] = []
    place = {one.name: w for w, one in enumerate(assembled.cases)}
    for number, pool in enumerate(pools):
        if pool.design is None or pool.mix is None or not pool.routed:
            continue
        routed = [
            assembled.routed(place[name], rate * headroom) for name, rate in pool.routed.items()
        ]
        most = max(one.case.levers.batch.most for one in routed)
        checks += check_pool(str(number), pool.design, pool.mix, routed, most)
    for name, rate in zip(assembled.names.classes, assembled.rates, strict=True):
        served = sum(pool.routed.get(name, 0.0) for pool in pools)
        field = f"workloads.{name}.requests_per_s"
        checks.append(Check(field, float(rate), served, "requests/s", upper=False))
    worst = max((pool.utilization_frac * headroom for pool in pools), default=0.0)
    checks.append(Check("assumptions.headroom", 1.0, worst, "of capacity", upper=True))
    cost = sum(_cost(assembled, pools))
    rented = _rented(assembled, pools)
    for gpu, most_gpus in (case.hardware.stock or {}).items():
        taken = float(rented.get(gpu, 0))
        checks.append(Check(f"hardware.stock.{gpu}", float(most_gpus), taken, "GPUs", upper=True))
    if limits.most_gpus is not None:
        total = float(sum(rented.values()))
        checks.append(Check("limits.most_gpus", float(limits.most_gpus), total, "GPUs", upper=True))
    if limits.usd_per_hour is not None:
        checks.append(Check("limits.usd_per_hour", limits.usd_per_hour, cost, "$/h", upper=True))
    if limits.most_pools is not None:
        number_of = float(len(pools))
        checks.append(
            Check("limits.most_pools", float(limits.most_pools), number_of, "pools", upper=True)
        )
    if limits.least_replicas is not None:
        replicas = float(sum(pool.replicas for pool in pools))
        least = float(limits.least_replicas)
        checks.append(Check("limits.least_replicas", least, replicas, "replicas", upper=False))
    return checks


def _groups(pools: Sequence[PlannedPool]) -> dict[tuple[str, Rental, int], list[PlannedPool]]:
    """Pools that are rented together."""
    found: dict[tuple[str, Rental, int], list[PlannedPool]] = {}
    for pool in pools:
        size = pool.of.gpus_per_replica
        rental = pool.of.rental
        even = rental.offer is None or (rental.gpus % size == 0 and size & (size - 1) == 0)
        found.setdefault((pool.of.gpu, rental, 0 if even else size), []).append(pool)
    return found


def _units(pools: Sequence[PlannedPool]) -> int:
    rental = pools[0].of.rental
    if rental.offer is None:
        return sum(pool.gpus for pool in pools)
    held = sum(p.replicas / rental.replicas_per_unit(p.of.gpus_per_replica) for p in pools)
    return math.ceil(held - 1e-9)


def _cost(assembled: Assembled, pools: Sequence[PlannedPool]) -> list[float]:
    return [
        usd(_units(group) * group[0].of.rental.nano_usd_per_hour)
        for group in _groups(pools).values()
    ]


def _rented(assembled: Assembled, pools: Sequence[PlannedPool]) -> dict[str, int]:
    found: dict[str, int] = {}
    for group in _groups(pools).values():
        gpu, rental = group[0].of.gpu, group[0].of.rental
        found[gpu] = found.get(gpu, 0) + _units(group) * rental.gpus
    return found
