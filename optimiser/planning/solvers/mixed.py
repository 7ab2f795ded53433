"""Programs with continuous variables beside whole ones: HiGHS and CBC through PuLP.

Coefficients are measured figures, so rows hold to a solver's tolerance, and the caller checks what
it gets back. Prices are whole nano-dollars, so costs are compared exactly.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pulp

from optimiser.errors import SolverError
from optimiser.planning.solvers import cbc, highs
from optimiser.planning.solvers.base import Limits, Status

_RUNS: dict[str, Callable[[pulp.LpProblem, Limits], tuple[Status, float | None]]] = {
    "highs": partial(highs.run, presolve="choose"),
    "cbc": cbc.run,
}


@dataclass(frozen=True, slots=True)
class MixedSolution:
    """What a solver returned for a minimisation."""

    status: Status
    values: dict[str, float]
    """Value of each variable by name; empty without a solution."""
    objective: float
    bound: float
    """Lower bound on the objective, -inf where the solver gave none."""


def solve_mixed(problem: pulp.LpProblem, solver_name: str, limits: Limits) -> MixedSolution:
    """Minimise a program. Raises SolverError where the solver takes whole variables only."""
    if solver_name not in _RUNS:
        known = ", ".join(_RUNS)
        raise SolverError(f"{solver_name} takes whole numbers only; for a fleet choose {known}")
    status, bound = _RUNS[solver_name](problem, limits)
    if status in (Status.INFEASIBLE, Status.UNDECIDED):
        return MixedSolution(status, {}, math.inf, -math.inf)
    values = {v.name: v.varValue or 0.0 for v in problem.variables()}
    return MixedSolution(
        status,
        values,
        float(pulp.value(problem.objective)),
        -math.inf if bound is None else bound,
    )
