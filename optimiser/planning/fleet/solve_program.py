"""A fleet by its whole program, a solver and the cut loop."""

import math
import time

import numpy as np

from optimiser.planning.cut_loop import Run
from optimiser.planning.cut_loop import search as cut_loop
from optimiser.planning.fleet.assembled import Assembled
from optimiser.planning.fleet.names import Names
from optimiser.planning.fleet.pools import Fleet
from optimiser.planning.fleet.routing import route
from optimiser.planning.fleet.search import FleetFound
from optimiser.planning.fleet.shared_pools import SharedPools
from optimiser.planning.solvers.base import Status, solver
from optimiser.units import usd


def solve_program(
    fleet: Fleet,
    names: Names,
    solver_name: str,
    time_limit_s: float | None = None,
    workers: int = 1,
    title: str = "fleet",
) -> tuple[FleetFound, SharedPools]:
    """The cheapest fleet by a solver of whole programs, and the program with its cuts.

    Raises SolverError.
    """
    started = time.perf_counter()
    deadline = None if time_limit_s is None else started + time_limit_s
    program = SharedPools(fleet, names, title)
    found = cut_loop(program, Run(solver(solver_name), workers, deadline))
    seconds = time.perf_counter() - started
    bound = usd(found.bound_nano_usd or 0)
    if found.answer is None:
        none = np.zeros(0, dtype=np.int64)
        empty = np.zeros((0, fleet.n_classes))
        return FleetFound(found.status, none, empty, math.inf, bound, seconds), program
    _, shares = route(fleet, found.answer)
    cost = usd(found.cost_nano_usd)
    proved = found.status is Status.OPTIMAL
    bound = cost if proved else min(bound, cost)
    return FleetFound(found.status, found.answer, shares, cost, bound, seconds), program


def solve_assembled(
    assembled: Assembled, solver_name: str, time_limit_s: float | None = None, workers: int = 1
) -> tuple[FleetFound, SharedPools]:
    """The same for a case's fleet, in its own words."""
    title = assembled.case.name
    return solve_program(
        assembled.fleet, assembled.names, solver_name, time_limit_s, workers, title
    )
