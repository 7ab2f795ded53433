"""From a fleet's case to a proved and verified fleet, or why there is none."""

import time
from dataclasses import dataclass
from pathlib import Path

from optimiser.errors import VerificationError
from optimiser.fleet_case import FleetCase
from optimiser.planning.export import save_program
from optimiser.planning.fleet.assemble import assemble
from optimiser.planning.fleet.assembled import Assembled
from optimiser.planning.fleet.checks import verify
from optimiser.planning.fleet.planned import PlannedPool, planned_pools
from optimiser.planning.fleet.search import FleetFound, search
from optimiser.planning.fleet.solve_program import solve_assembled
from optimiser.planning.fleet.ties import ranked
from optimiser.planning.solvers.base import Status
from optimiser.planning.verify import Check
from optimiser.units import TOLERANCE, at_least

ALGORITHM = "fleet"
"""The search of this package: clusters, bounds and small programs on HiGHS."""
SECOND = "highs"
"""The solver of the whole program that checks the search, and whose cuts are saved."""
CROSS_CHECK_S = 60.0


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
