"""`optimise levers CASE`: what to change next."""

import sys
from pathlib import Path
from typing import Literal

import click

from optimiser.cli.options import case_options, emit, load_case, output_options, solver_option

INFEASIBLE = 3
FRACTION = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command("levers", epilog="Example: optimise levers cases/chat-7b.yaml --depth 2 --by cost")
@case_options
@click.option(
    "--depth", type=click.IntRange(1, 4), default=2, show_default=True, help="Most levers."
)
@click.option(
    "--by",
    "measure",
    type=click.Choice(["gpus", "cost", "tpot"]),
    default="gpus",
    show_default=True,
    help="What a lever must save to be kept, and the order.",
)
@click.option("--shorter", type=FRACTION, default=0.2, show_default=True, help="Cut of lengths.")
@click.option("--cached", type=FRACTION, default=0.5, show_default=True, help="Prefix-cache hits.")
@click.option("--looser", type=FRACTION, default=0.5, show_default=True, help="Target relaxation.")
@output_options
@solver_option
def command(
    case_path: str,
    settings: tuple[str, ...],
    folder: str | None,
    depth: int,
    measure: Literal["gpus", "cost", "tpot"],
    shorter: float,
    cached: float,
    looser: float,
    format_name: str,
    output: Path | None,
    solver_name: str,
) -> None:
    """Rank what to change about the cheapest design of CASE.

    Every lever alone, with what it takes and why it helps or not; the best pairs; and the best set
    of at most --depth, chosen by the program. Exit code 3 where the case itself has no design.
    """
    from optimiser.catalogue.load import catalogue
    from optimiser.planning.planner import Planned, plan
    from optimiser.review.levers import levers_review
    from optimiser.review.plan import review
    from optimiser.studies.lever_study import study_levers
    from optimiser.studies.options import Shares

    case = load_case(case_path, settings, folder)
    outcome = plan(case, solver_name=solver_name)
    if not isinstance(outcome, Planned):
        emit(review(outcome), format_name, output)
        sys.exit(INFEASIBLE)
    shares = Shares(shorter, cached, looser)
    found = study_levers(outcome, catalogue(folder), measure, depth, shares, solver_name)
    emit(levers_review(found), format_name, output)
