"""HiGHS on a table of rows: continuous or whole, with a clock, a target and an ear on its bound."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from optimiser.engine.replicas import Floats, Ints
from optimiser.errors import SolverError
from optimiser.planning.fleet.rows import Table
from optimiser.planning.solvers.banner import swallow_banner


def _lp(table: Table) -> highspy.HighsLp:
    """The table as HiGHS takes it."""
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(table.cost), len(table.row_low)
    lp.col_cost_ = np.array(table.cost)
    lp.col_lower_, lp.col_upper_ = np.array(table.low), np.array(table.high)
    lp.row_lower_, lp.row_upper_ = np.array(table.row_low), np.array(table.row_high)
    matrix = lp.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.start_ = np.array(table.starts, dtype=np.int32)
    matrix.index_ = np.array(table.index, dtype=np.int32)
    matrix.value_ = np.array(table.value)
    return lp


EXACT, RELAXED = 1e-9, 1e-7
"""Tolerances: of programs whose solutions are fleets, and of relaxations, where a tight one has
been seen to make HiGHS call a program with solutions infeasible."""


@dataclass(slots=True)
class Ear:
    """What a running solve tells, and whether it should go on."""

    bound: Callable[[float], None] = lambda _: None
    """Called with each new bound."""
    values: Callable[[float, Floats], None] = lambda *_: None
    """Called with the objective and the values of each improving solution."""
    stop: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class Solved:
    """Where a solve ended."""

    status: str
    """`optimal`, `infeasible` or `stopped`."""
    objective: float
    bound: float
    values: Floats
    """Empty without a solution."""
    row_duals: Floats
    """Of a continuous solve."""


def continuous(table: Table) -> highspy.Highs:
    """A solver that holds the table as a linear program, to be run and changed."""
    highs = new_solver()
    highs.passModel(_lp(table))
    return highs


def new_solver() -> highspy.Highs:
    """A quiet solver on one thread: HiGHS wants one number of threads for the whole process."""
    swallow_banner()
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.silent()
    highs.setOptionValue("threads", 1)
    return highs


def run(highs: highspy.Highs) -> Solved:
    """Run a linear program."""
    highs.run()
    status = highs.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return Solved("infeasible", np.inf, np.inf, np.zeros(0), np.zeros(0))
    if status != highspy.HighsModelStatus.kOptimal:
        raise SolverError(f"HiGHS ended a linear program with {highs.modelStatusToString(status)}")
    solution = highs.getSolution()
    objective = float(highs.getObjectiveValue())
    return Solved(
        "optimal",
        objective,
        objective,
        np.array(solution.col_value),
        np.array(solution.row_dual),
    )


def run_whole(
    table: Table,
    whole: Ints,
    ear: Ear | None = None,
    *,
    seconds: float | None = None,
    target: float | None = None,
    presolve: bool = True,
    tolerance: float = EXACT,
    start: Floats | None = None,
    options: dict[str, Any] | None = None,
) -> Solved:
    """Minimise a table some of whose columns are whole; its gaps are set to zero."""
    highs = new_solver()
    lp = _lp(table)
    kinds = [highspy.HighsVarType.kContinuous] * lp.num_col_
    for column in whole:
        kinds[column] = highspy.HighsVarType.kInteger
    lp.integrality_ = kinds
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.setOptionValue("mip_abs_gap", 1e-9)
    highs.setOptionValue("presolve", "choose" if presolve else "off")
    highs.setOptionValue("mip_feasibility_tolerance", tolerance)
    highs.setOptionValue("primal_feasibility_tolerance", tolerance)
    if seconds is not None:
        highs.setOptionValue("time_limit", max(seconds, 0.0))
    if target is not None:
        highs.setOptionValue("objective_target", target)
    for name, value in (options or {}).items():
        highs.setOptionValue(name, value)
    if highs.passModel(lp) == highspy.HighsStatus.kError:
        raise SolverError("HiGHS refuses the rows of a fleet")
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = start
        highs.setSolution(solution)
    if ear is not None:
        _listen(highs, ear)
    highs.run()
    return _outcome(highs)


def _outcome(highs: highspy.Highs) -> Solved:
    status, info = highs.getModelStatus(), highs.getInfo()
    if status == highspy.HighsModelStatus.kInfeasible:
        return Solved("infeasible", np.inf, np.inf, np.zeros(0), np.zeros(0))
    has_values = info.primal_solution_status == 2
    values = np.array(highs.getSolution().col_value) if has_values else np.zeros(0)
    is_optimal = status == highspy.HighsModelStatus.kOptimal
    objective = float(info.objective_function_value) if has_values else np.inf
    bound = float(info.mip_dual_bound)
    return Solved("optimal" if is_optimal else "stopped", objective, bound, values, np.zeros(0))


def _listen(highs: highspy.Highs, ear: Ear) -> None:
    kinds = highspy.cb.HighsCallbackType

    def heard(kind: Any, _message: str, out: Any, into: Any, _data: Any) -> None:
        if kind == kinds.kCallbackMipInterrupt:
            ear.bound(float(out.mip_dual_bound))
            if ear.stop():
                into.user_interrupt = True
        elif kind == kinds.kCallbackMipImprovingSolution:
            ear.values(float(out.objective_function_value), np.array(out.mip_solution))

    highs.setCallback(heard, None)
    highs.startCallback(kinds.kCallbackMipInterrupt)
    highs.startCallback(kinds.kCallbackMipImprovingSolution)
