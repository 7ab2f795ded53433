"""HiGHS through PuLP, with its gaps set to zero."""

import highspy
import pulp

from optimiser.errors import SolverError
from optimiser.planning.solvers.banner import swallow_banner
from optimiser.planning.solvers.base import Limits, Solution, Status
from optimiser.planning.solvers.milp import solve_scaled


def solve(problem: pulp.LpProblem, limits: Limits) -> Solution:
    """Minimise a program whose rows are whole. Raises SolverError where HiGHS fails."""
    return solve_scaled(problem, lambda: run(problem, limits))


def run(
    problem: pulp.LpProblem, limits: Limits, presolve: str = "off"
) -> tuple[Status, float | None]:
    """Solve a problem in place: its status and bound. Raises SolverError where HiGHS fails."""
    swallow_banner()
    command = pulp.HiGHS(
        msg=False,
        gapRel=0.0,
        gapAbs=0.0,
        threads=1,  # HiGHS wants one number of threads for the whole process
        timeLimit=limits.seconds,
        presolve=presolve,  # off for whole programs: it takes forty times the solve
        mip_feasibility_tolerance=1e-9,
        primal_feasibility_tolerance=1e-9,
    )
    try:
        problem.solve(command)
    except pulp.PulpSolverError as error:
        raise SolverError(f"HiGHS failed: {error}") from error
    model = problem.solverModel
    if model.getModelStatus() in (
        highspy.HighsModelStatus.kNotset,
        highspy.HighsModelStatus.kSolveError,
    ):
        raise SolverError("HiGHS did not run: other code in this process uses more threads of it")
    info = model.getInfo()
    statuses = {
        pulp.LpSolutionOptimal: Status.OPTIMAL,
        pulp.LpSolutionIntegerFeasible: Status.FEASIBLE,
        pulp.LpSolutionInfeasible: Status.INFEASIBLE,
    }
    return statuses.get(problem.sol_status, Status.UNDECIDED), info.mip_dual_bound
