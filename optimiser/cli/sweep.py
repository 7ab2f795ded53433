"""`optimise sweep CASE`: a case over ranges of its fields."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from optimiser.cli.options import case_options, emit, format_option, load_case, solver_option
from optimiser.cli.outputs import PLOTS, TABLES, TEXTS, refuse_outputs
from optimiser.cli.progress import Line

if TYPE_CHECKING:
    from optimiser.review.review import Review
    from optimiser.studies.sweep import Sweep

INFEASIBLE = 3


@click.command(
    "sweep",
    epilog="Example: optimise sweep cases/llama-3.1-8b.yaml "
    "--vary brief.requests_per_s=1:200:log:40 -o curve.png",
)
@case_options
@click.option(
    "--vary",
    "varied",
    multiple=True,
    metavar="FIELD=VALUES",
    help="from:to:log|linear:n, or values separated by commas. Repeatable: every combination.",
)
@click.option(
    "--pareto",
    "front_over",
    type=click.Choice(["brief.tpot_target_ms", "brief.ttft_target_s"]),
    help="The front of cost against the latency reached, found exactly.",
)
@click.option(
    "--slack/--no-slack",
    "with_slack",
    default=True,
    help="How far each input can move before the design changes.  [default: on]",
)
@format_option
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Write to a file instead, by its ending: .csv or .parquet for the rows, .json, .md, .txt, "
    ".png, .svg or .html for the plot. Repeatable.",
)
@solver_option
def command(
    case_path: str,
    settings: tuple[str, ...],
    folder: str | None,
    varied: tuple[str, ...],
    front_over: str | None,
    with_slack: bool,
    format_name: str,
    outputs: tuple[Path, ...],
    solver_name: str,
) -> None:
    """Plan CASE over ranges of its fields: the cost curve and where its winner changes.

    Crossovers are looked for along the first field of numbers, and found to three significant
    digits. A GPU type or a model that is varied by name is the case that `compare` makes of it.
    Exit code 3 where nothing complies.
    """
    from optimiser.review.sweep import sweep_review
    from optimiser.studies.axis import parse_axes
    from optimiser.studies.sweep import sweep

    if not varied and not front_over and not with_slack:
        raise click.UsageError("nothing to do: give --vary, --pareto or --slack")
    refuse_outputs(outputs, (*TABLES, *TEXTS, *PLOTS), _unfilled(varied, front_over))
    axes = parse_axes(varied)
    case = load_case(case_path, settings, folder)
    progress = Line(sys.stderr.isatty())
    try:
        found = sweep(case, axes, front_over, with_slack, solver_name, progress)
    finally:
        progress.clear()
    shown = sweep_review(found)
    for path in outputs:
        _written(path, shown, found)
    if not outputs:
        emit(shown, format_name, None)
    if not shown.good:
        sys.exit(INFEASIBLE)


def _unfilled(varied: tuple[str, ...], front_over: str | None) -> dict[str, str]:
    """Endings of files that there would be nothing for, and why."""
    tables = () if varied else TABLES
    plots = () if varied or front_over else PLOTS
    return dict.fromkeys((*tables, *plots), "nothing to put there without --vary")


def _written(path: Path, shown: "Review", found: "Sweep") -> None:
    ending = path.suffix.lower()
    if ending in TEXTS:
        emit(shown, TEXTS[ending], path)
    elif ending in TABLES:
        from optimiser.review.flat import flat
        from optimiser.review.tables import write_table

        rows, types = flat(shown.data["rows"])
        write_table(rows, path, types)
    else:
        from optimiser.review.chart import chart
        from optimiser.review.plot import write_plot

        write_plot(path, chart(found), shown)
