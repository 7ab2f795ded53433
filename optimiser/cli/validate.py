"""`optimise validate`: predicted against measured, on the shipped runs or a table of one's own."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from optimiser.cli.options import emit, format_option
from optimiser.cli.outputs import PLOTS, TEXTS, no_place, refuse_outputs
from optimiser.errors import InputError, Mistake

if TYPE_CHECKING:
    from optimiser.review.review import Review
    from optimiser.studies.validation import Validation


@click.command("validate", epilog="Example: optimise validate --data runs.csv -o scatter.png")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="FILE.csv",
    help="A table with the columns of models/measurements/e2e.csv.  [default: that table]",
)
@click.option(
    "--predictions",
    type=click.Path(path_type=Path),
    metavar="FILE.csv",
    help="Write every row with what is predicted of it; .jsonl and .parquet too.",
)
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Write to a file instead, by its ending: .png, .svg or .html for a scatter plot, .json, "
    ".md or .txt. Repeatable.",
)
@format_option
def command(
    data: Path | None, predictions: Path | None, outputs: tuple[Path, ...], format_name: str
) -> None:
    """Compare what the latency model predicts with what was measured.

    Errors of time per output token, time to first token and throughput, the ideal roofline beside
    the measured fidelity, by GPU, engine, model and group. The shipped runs are also compared with
    fits that had not seen a row's model, GPU and engine. Rows that cannot be compared are counted
    by reason.
    """
    from optimiser.catalogue.load import shipped
    from optimiser.review.tables import check_ending, write_table
    from optimiser.review.validate import validate_review
    from optimiser.studies.measurements import shipped_names
    from optimiser.studies.validation import validate, validate_shipped
    from optimiser.studies.validation_files import read_measurements, with_predictions

    refuse_outputs(outputs, (*PLOTS, *TEXTS))
    if predictions is not None:
        check_ending(predictions)
        if not predictions.parent.is_dir() or predictions.is_dir():
            raise InputError([Mistake(f"--predictions {predictions}", "", no_place(predictions))])
    names = shipped_names()
    rows = read_measurements(data or shipped("models") / "measurements" / "e2e.csv")
    found = validate_shipped(names) if data is None else validate(rows, names, data.name)
    if predictions is not None:
        written, types = with_predictions(rows, found)
        write_table(written, predictions, types)
    if not found.rows:
        raise InputError(
            Mistake(str(data), "", f"no row can be compared: {n:,} × {why}")
            for why, n in found.reasons.items()
        )
    shown = validate_review(found)
    for path in outputs:
        _written(path, shown, found)
    if not outputs:
        emit(shown, format_name, None)


def _written(path: Path, shown: "Review", found: "Validation") -> None:
    ending = path.suffix.lower()
    if ending in TEXTS:
        emit(shown, TEXTS[ending], path)
        return
    from optimiser.review.scatter import write_scatter

    write_scatter(path, found, shown)
