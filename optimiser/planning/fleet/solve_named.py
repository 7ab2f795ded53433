"""A fleet through its named program: any solver that takes continuous variables."""

import math
import time

import numpy as np

from optimiser.planning.fleet.assembled import Assembled
from optimiser.planning.fleet.named import named
from optimiser.planning.fleet.pools import Fleet
from optimiser.planning.fleet.routing import route
from optimiser.planning.fleet.search import FleetFound
from optimiser.planning.solvers.base import Limits, Status
from optimiser.planning.solvers.mixed import solve_mixed
from optimiser.units import nano_usd, usd


def solve_named(
    assembled: Assembled, solver_name: str, time_limit_s: float | None = None
) -> FleetFound:
    """The cheapest fleet by a solver alone. Raises SolverError."""
    started = time.perf_counter()
    fleet = assembled.fleet
    program = named(fleet, assembled.names, assembled.case.name)
    solved = solve_mixed(program.problem, solver_name, Limits(time_limit_s))
    seconds = time.perf_counter() - started
    if not solved.values:
        empty = np.zeros((0, fleet.n_classes))
        none = np.zeros(0, dtype=np.int64)
        return FleetFound(solved.status, none, empty, math.inf, max(solved.bound, 0.0), seconds)
    replicas = program.replicas_of(solved.values)
    _, shares = route(fleet, replicas)
    cost = fleet.cost_nano_usd(replicas)
    bound = _raised(fleet, solved.bound)
    is_optimal = solved.status is Status.OPTIMAL
    return FleetFound(
        Status.OPTIMAL if is_optimal else Status.FEASIBLE,
        replicas,
        shares,
        usd(cost),
        usd(cost) if is_optimal else min(bound, usd(cost)),
        seconds,
    )


def _raised(fleet: Fleet, bound_usd: float) -> float:
    """A bound at the next whole price step."""
    step = nano_usd(fleet.step_usd)
    return usd(math.ceil(nano_usd(max(bound_usd, 0.0)) / step - 1e-4) * step)
