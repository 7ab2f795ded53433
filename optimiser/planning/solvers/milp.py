"""What HiGHS and CBC share: a scaled objective in, checked whole values out."""

import math
from collections.abc import Callable

import pulp

from optimiser.planning.solvers.base import Solution, Status, integer_objective, whole_values
from optimiser.units import TOLERANCE

BOUND_SLACK = 1e-6
"""Relative. What a floating-point bound gives up before it is rounded up to a whole number; one
that is within the tolerance of the objective is the objective."""


def solve_scaled(
    problem: pulp.LpProblem, run: Callable[[], tuple[Status, float | None]]
) -> Solution:
    """Solve with the objective as whole numbers, then check the values against every row.

    `run` solves `problem` in place and returns the status and the scaled bound. Floating-point
    solvers stop at a feasibility tolerance; whole coefficients and checked values make their
    answers as exact as CP-SAT's. Raises SolverError where values are not whole or break a row.
    """
    scaled = integer_objective(problem)
    original = problem.objective
    problem.setObjective(pulp.LpAffineExpression(list(scaled.terms)))
    try:
        status, bound = run()
    finally:
        problem.setObjective(original)
    if status in (Status.INFEASIBLE, Status.UNDECIDED):
        return Solution(status, {}, None, None)
    values = whole_values(problem, {v.name: v.varValue or 0.0 for v in problem.variables()})
    objective = sum(whole * values[v.name] for v, whole in scaled.terms)
    whole_bound = None
    if bound is not None and math.isfinite(bound):
        whole_bound = min(math.ceil(bound - BOUND_SLACK * max(1.0, abs(bound))), objective)
        if objective - bound <= TOLERANCE * abs(objective):
            whole_bound = objective
    proved = status is Status.OPTIMAL and whole_bound == objective
    return Solution(
        Status.OPTIMAL if proved else Status.FEASIBLE,
        values,
        objective * scaled.unit,
        None if whole_bound is None else whole_bound * scaled.unit,
    )
