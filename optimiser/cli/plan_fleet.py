"""The main job where the case is a fleet's."""

import sys
from pathlib import Path

from optimiser.cli.options import emit
from optimiser.cli.progress import Line
from optimiser.fleet_case import FleetCase
from optimiser.planning.fleet.explain import explain_fleet
from optimiser.planning.fleet.planner import (
    ALGORITHM,
    FleetInfeasible,
    FleetPlanned,
    plan_fleet,
)
from optimiser.review.fleet import fleet_review
from optimiser.studies.fleet import study_fleet

PLANNED, INFEASIBLE, UNDECIDED = 0, 3, 4


def run(
    case: FleetCase,
    solver_name: str | None,
    time_limit_s: float | None,
    workers: int,
    cross_check: bool,
    save_lp: Path | None,
    compared: bool,
    format_name: str,
    output: Path | None,
) -> int:
    """Plan a fleet and print its review; the exit code. Without a solver, by the own search."""
    outcome = plan_fleet(
        case,
        solver_name=solver_name or ALGORITHM,
        time_limit_s=time_limit_s,
        workers=workers,
        cross_check=cross_check,
        save_lp=save_lp,
    )
    if isinstance(outcome, FleetPlanned):
        study = study_fleet(outcome) if compared else None
        emit(fleet_review(outcome, study), format_name, output)
        return PLANNED
    if isinstance(outcome, FleetInfeasible):
        line = Line(sys.stderr.isatty())
        try:
            conflicts = explain_fleet(outcome, progress=line)
        finally:
            line.clear()
        emit(fleet_review(outcome, conflicts=conflicts), format_name, output)
        return INFEASIBLE
    emit(fleet_review(outcome), format_name, output)
    return UNDECIDED
