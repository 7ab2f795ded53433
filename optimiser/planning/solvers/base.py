"""What every solver takes and gives back, and the one place where the objective is scaled."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module

import pulp

from optimiser.errors import SolverError


class Status(Enum):
    """How a solve ended."""

    OPTIMAL = "optimal"
    """Proved: bound = objective."""
    FEASIBLE = "feasible"
    """Values that meet every row, not proved best."""
    INFEASIBLE = "infeasible"
    """Proved: no values meet every row."""
    UNDECIDED = "undecided"
    """Neither values nor proof in the time given."""


@dataclass(frozen=True, slots=True)
class Solution:
    """What a solver returned for a minimisation."""

    status: Status
    values: dict[str, int]
    """Value of each variable by name; empty without a solution."""
    objective: float | None
    """Objective at the values, in the program's own unit."""
    bound: float | None
    """Lower bound on the objective; None where the solver gave none."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a solve may use."""

    seconds: float | None = None
    workers: int = 1


Solve = Callable[[pulp.LpProblem, Limits], Solution]

SOLVERS = {
    "cp-sat": "optimiser.planning.solvers.cp_sat",
    "highs": "optimiser.planning.solvers.highs",
    "cbc": "optimiser.planning.solvers.cbc",
}


def solver(name: str) -> Solve:
    """The solver of that name. Raises SolverError where it is not known or not installed."""
    if name not in SOLVERS:
        raise SolverError(f"unknown solver {name!r}; expected one of {', '.join(SOLVERS)}")
    try:
        solve: Solve = import_module(SOLVERS[name]).solve
    except ImportError as error:
        raise SolverError(f"solver {name} is not installed: {error}") from error
    return solve


LARGEST_INTEGER = 2**62
_STEPS_PER_UNIT = 10**9


@dataclass(frozen=True, slots=True)
class IntegerObjective:
    """An objective as whole multiples of one unit, so that solvers compare costs exactly."""

    terms: tuple[tuple[pulp.LpVariable, int], ...]
    unit: float
    """What one step of the scaled objective is worth in the program's own unit."""


def integer_objective(problem: pulp.LpProblem) -> IntegerObjective:
    """Scale an objective to whole numbers: coefficients are multiples of 1e-9 by contract.

    Raises SolverError where a coefficient is not, or where the scaled sum could overflow 64 bits.
    """
    scaled = []
    for variable, coefficient in problem.objective.items():
        exact = coefficient * _STEPS_PER_UNIT
        whole = round(exact)
        if abs(exact - whole) > 1e-6 + 4 * sys.float_info.epsilon * abs(exact):
            raise SolverError(f"objective coefficient {coefficient!r} is not a multiple of 1e-9")
        scaled.append((variable, whole))
    divisor = math.gcd(*(whole for _, whole in scaled)) or 1
    terms = tuple((variable, whole // divisor) for variable, whole in scaled)
    largest = sum(abs(whole) * max(abs(v.lowBound), abs(v.upBound)) for v, whole in terms)
    if largest > LARGEST_INTEGER:
        raise SolverError("the costs of this case span too many digits to add exactly")
    return IntegerObjective(terms, divisor / _STEPS_PER_UNIT)


def whole_values(problem: pulp.LpProblem, values: dict[str, float]) -> dict[str, int]:
    """Values rounded to whole numbers and checked against every row in exact arithmetic.

    Raises SolverError where a value is not whole or a row is broken.
    """
    rounded = {name: round(value) for name, value in values.items()}
    residual = max(abs(values[name] - rounded[name]) for name in values)
    if residual > 1e-4:
        raise SolverError(f"the solver returned a value {residual:.1e} away from a whole number")
    for row in problem.constraints():
        left = int(row.constant) + sum(int(c) * rounded[v.name] for v, c in row.items())
        if (row.sense <= 0 and left > 0) or (row.sense >= 0 and left < 0):
            raise SolverError(f"the solver's values break its row {row.name}")
    return rounded
