"""CBC through PuLP, which ships it; its bound is read from its log."""

import re
import tempfile
import time
from pathlib import Path

import pulp

from optimiser.errors import SolverError
from optimiser.planning.solvers.base import Limits, Solution, Status
from optimiser.planning.solvers.milp import solve_scaled

_BOUND = re.compile(r"^Lower bound:\s+(-?[0-9.e+]+)", re.MULTILINE)
_NOTHING = re.compile(r"^Result - Problem proven infeasible", re.MULTILINE)
_FINISHED = re.compile(r"^Result - Optimal solution found", re.MULTILINE)


def solve(problem: pulp.LpProblem, limits: Limits) -> Solution:
    """Minimise a program whose rows are whole. Raises SolverError where CBC fails."""
    return solve_scaled(problem, lambda: run(problem, limits))


def run(problem: pulp.LpProblem, limits: Limits) -> tuple[Status, float | None]:
    """Solve a problem in place: its status and bound. Raises SolverError where CBC fails."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "cbc.log"
        command = pulp.COIN_CMD(
            path=pulp.PULP_CBC_CMD.pulp_cbc_path,
            msg=False,
            gapRel=0.0,
            gapAbs=0.0,
            timeLimit=limits.seconds,
            logPath=str(log),
            options=["integerT 1e-9", "primalT 1e-9"],
        )
        command.tmpDir = folder
        if not command.available():
            raise SolverError("CBC is not available: PuLP ships none for this platform")
        start = time.perf_counter()
        try:
            problem.solve(command)
        except pulp.PulpSolverError as error:
            raise SolverError(f"CBC failed: {error}") from error
        in_time = limits.seconds is None or time.perf_counter() - start < limits.seconds
        said = log.read_text(errors="replace") if log.exists() else ""
    return _outcome(problem, said, in_time)


def _outcome(problem: pulp.LpProblem, said: str, in_time: bool) -> tuple[Status, float | None]:
    """Status and bound; the log has the last word, since PuLP calls a time-out optimal.

    A CBC whose time runs out in its pre-processing says infeasible, so that is believed only of a
    search that was finished, or of a run that ended in time.
    """
    if problem.status == pulp.LpStatusInfeasible:  # sol_status misses "integer infeasible"
        proved = in_time or _NOTHING.search(said)
        return (Status.INFEASIBLE if proved else Status.UNDECIDED), None
    if problem.sol_status not in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible):
        return Status.UNDECIDED, None
    if _FINISHED.search(said):
        return Status.OPTIMAL, pulp.value(problem.objective)
    found = _BOUND.search(said)
    return Status.FEASIBLE, float(found.group(1)) if found else None
