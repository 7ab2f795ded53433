"""`optimise CASE`: the main job."""

import sys
from pathlib import Path

import click
from click.core import ParameterSource

from optimiser.cli.options import (
    case_options,
    emit,
    load_any,
    output_options,
    solver_options,
)

INFEASIBLE, UNDECIDED = 3, 4


@click.command("plan", epilog="Example: optimise cases/chat-7b.yaml --set brief.requests_per_s=50")
@case_options
@output_options
@solver_options
@click.option("--cross-check", is_flag=True, help="Solve with a second solver and compare.")
@click.option(
    "--save-lp",
    type=click.Path(path_type=Path),
    help="Write the cost program with all its cuts, for any solver.",
)
@click.option(
    "--levers/--no-levers",
    "ranked",
    default=True,
    help="Rank what to change next, and say why other GPU types lost.  [default: on]",
)
def command(
    case_path: str,
    settings: tuple[str, ...],
    folder: str | None,
    format_name: str,
    output: Path | None,
    solver_name: str,
    time_limit_s: float | None,
    workers: int,
    cross_check: bool,
    save_lp: Path | None,
    ranked: bool,
) -> None:
    """Find the cheapest compliant design of CASE, prove it and verify it.

    A case with workloads is a fleet's: pools over several GPU types, by a search of its own unless
    a solver is asked for.

    CASE is a YAML file, or the name of a shipped one such as chat-7b. Exit code: 0 planned,
    1 error, 2 usage, 3 infeasible, 4 undecided, 5 failed verification.
    """
    from optimiser.case import Case

    case = load_any(case_path, settings, folder)
    if not isinstance(case, Case):
        from optimiser.cli.plan_fleet import run

        asked = click.get_current_context().get_parameter_source("solver_name")
        chosen = None if asked is ParameterSource.DEFAULT else solver_name
        limits = (time_limit_s, workers, cross_check, save_lp)
        sys.exit(run(case, chosen, *limits, ranked, format_name, output))
    from optimiser.planning.planner import Infeasible, Planned, Undecided, plan
    from optimiser.review.plan import review
    from optimiser.studies.alternatives import other_gpus
    from optimiser.studies.levers import rank_levers

    outcome = plan(
        case,
        solver_name=solver_name,
        time_limit_s=time_limit_s,
        workers=workers,
        cross_check=cross_check,
        save_lp=save_lp,
    )
    shown = review(outcome)
    if isinstance(outcome, Planned) and ranked:
        levers = rank_levers(outcome, solver_name)
        shown = review(outcome, levers, other_gpus(outcome, solver_name))
    emit(shown, format_name, output)
    if isinstance(outcome, Infeasible):
        sys.exit(INFEASIBLE)
    if isinstance(outcome, Undecided):
        sys.exit(UNDECIDED)
