"""OR-Tools CP-SAT: exact whole-number arithmetic, the default solver.

The compiled core is used directly. The modelling layer above it imports pandas, which takes longer
than planning does, and offers nothing that a finished program needs.
"""

import pulp
from ortools.sat.python.cp_model_helper import (
    CpModelProto,
    CpSolverStatus,
    SatParameters,
    SolveWrapper,
)

from optimiser.errors import SolverError
from optimiser.planning.solvers.base import (
    LARGEST_INTEGER,
    IntegerObjective,
    Limits,
    Solution,
    Status,
    integer_objective,
)

_STATUSES = {
    CpSolverStatus.OPTIMAL: Status.OPTIMAL,
    CpSolverStatus.FEASIBLE: Status.FEASIBLE,
    CpSolverStatus.INFEASIBLE: Status.INFEASIBLE,
    CpSolverStatus.UNKNOWN: Status.UNDECIDED,
}


def solve(problem: pulp.LpProblem, limits: Limits) -> Solution:
    """Minimise a program whose rows are whole. Raises SolverError where it cannot be expressed."""
    objective = integer_objective(problem)
    variables = problem.variables()
    wrapper = SolveWrapper()
    wrapper.set_parameters(_parameters(limits))
    response = wrapper.solve(_model(problem, variables, objective))  # type: ignore[no-untyped-call]
    if response.status not in _STATUSES:
        raise SolverError(f"CP-SAT refused the program: {response.solution_info}")
    status = _STATUSES[response.status]
    if status in (Status.INFEASIBLE, Status.UNDECIDED):
        return Solution(status, {}, None, None)
    found = list(response.solution)
    values = {variable.name: found[i] for i, variable in enumerate(variables)}
    # the scaled objective is whole, so a fractional bound may be rounded up
    bound = round(response.best_objective_bound) * objective.unit
    value = sum(whole * values[v.name] for v, whole in objective.terms) * objective.unit
    return Solution(status, values, value, bound)


def _parameters(limits: Limits) -> SatParameters:
    parameters = SatParameters()
    parameters.num_workers = limits.workers
    # else Python's own handling of Ctrl-C is lost after the first solve
    parameters.catch_sigint_signal = False
    # probing every literal costs eight times as much as the rest of the solve and finds nothing
    parameters.cp_model_probing_level = 0
    if limits.seconds is not None:
        parameters.max_time_in_seconds = max(limits.seconds, 0.0)
    return parameters


def _model(
    problem: pulp.LpProblem, variables: list[pulp.LpVariable], objective: IntegerObjective
) -> CpModelProto:
    model = CpModelProto()
    place = {variable: i for i, variable in enumerate(variables)}
    for variable in variables:
        model.variables.add().domain.extend([int(variable.lowBound), int(variable.upBound)])
    for row in problem.constraints():
        linear = model.constraints.add().linear
        linear.vars.extend([place[variable] for variable in row])
        linear.coeffs.extend([int(coefficient) for coefficient in row.values()])
        right = -int(row.constant)
        low = -LARGEST_INTEGER if row.sense < 0 else right
        high = LARGEST_INTEGER if row.sense > 0 else right
        linear.domain.extend([low, high])
    model.objective.vars.extend([place[variable] for variable, _ in objective.terms])
    model.objective.coeffs.extend([whole for _, whole in objective.terms])
    return model
