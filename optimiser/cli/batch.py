"""`optimise batch PATHS… -o results.parquet`: thousands of cases at a time."""

import sys
from pathlib import Path
from typing import Literal

import click

from optimiser.cli.options import (
    catalogue_option,
    emit,
    format_option,
    solver_option,
)

INTERRUPTED = 130


@click.command("batch", epilog="Example: optimise batch cases/ -o results.parquet")
@click.argument("paths", metavar="PATHS...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="Where the rows go: .parquet, .csv or .jsonl.",
)
@click.option(
    "--base",
    type=click.Path(path_type=Path),
    metavar="CASE",
    help="The case that each row of a table changes.",
)
@click.option(
    "--job",
    "kind",
    type=click.Choice(["levers", "plan", "compare"]),
    default="levers",
    show_default=True,
    help="Plan and rank the levers, plan alone, or compare alternatives.",
)
@click.option("--all-levers", is_flag=True, help="A row for each lever that saves a GPU.")
@click.option("--gpu", "gpus", multiple=True, help="Compare with this GPU type. Repeatable.")
@click.option("--model", "models", multiple=True, help="Compare with this model. Repeatable.")
@click.option("--offer", "offers", multiple=True, help="Compare with this offer. Repeatable.")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Compare with a field changed. Repeatable.",
)
@click.option("--resume", is_flag=True, help="Go on from the journal of a stopped run.")
@click.option("--jobs", type=click.IntRange(1, 1024), help="Local workers.  [default: all cores]")
@click.option(
    "--engine",
    "engine_name",
    type=click.Choice(["processes", "dask", "ray"]),
    default="processes",
    show_default=True,
    help="Where to run: this machine's processes, or a cluster.",
)
@click.option(
    "--address", help="The cluster, such as tcp://head:8786.  [default: one on this machine]"
)
@catalogue_option
@format_option
@solver_option
def command(
    paths: tuple[str, ...],
    output: Path,
    base: Path | None,
    kind: Literal["levers", "plan", "compare"],
    all_levers: bool,
    gpus: tuple[str, ...],
    models: tuple[str, ...],
    offers: tuple[str, ...],
    changes: tuple[str, ...],
    resume: bool,
    jobs: int | None,
    engine_name: str,
    address: str | None,
    folder: str | None,
    format_name: str,
    solver_name: str,
) -> None:
    """Plan every case of PATHS and rank its levers, a row a case in the order given.

    PATHS are case files, folders (their *.yaml and *.yml), globs, or one table (.csv, .jsonl,
    .parquet) of which each row changes --base: a column is a dotted field such as
    brief.requests_per_s, and an empty cell keeps the base's value.

    A case that cannot be planned is a row with its error. Rows are kept in a journal beside the
    output until all are done; --resume goes on from there. Exit code 1 where a row is an error.
    """
    from optimiser.cli.progress import Progress
    from optimiser.review.batch import batch_review
    from optimiser.review.tables import check_ending, write_table
    from optimiser.studies.batch import run
    from optimiser.studies.batch_inputs import gather
    from optimiser.studies.batch_summary import columns, rows, summarise
    from optimiser.studies.batch_work import Job, check_alternatives
    from optimiser.studies.engines import opened
    from optimiser.studies.journal import Journal

    named = {"gpu": gpus, "model": models, "offer": offers, "set": changes}
    alternatives = tuple((what, value) for what, values in named.items() for value in values)
    _refuse_misfits(kind, bool(alternatives), all_levers, engine_name, address)
    check_ending(output)
    folder = folder and str(Path(folder).resolve())
    job = Job(kind, alternatives, solver_name, folder)
    check_alternatives(job)
    items = gather(paths, base)
    check_place(output)
    journal = Journal(output.with_name(f"{output.name}.journal"))
    finished = journal.finished() if resume else {}
    shown = Progress(len(items), sys.stderr)
    try:
        with (
            journal.open(afresh=not resume),
            opened(engine_name, len(items), jobs, address) as engine,
        ):
            answers = run(items, job, engine, journal, shown.update, finished)
        shown.close()
    except KeyboardInterrupt:
        shown.close()
        click.echo(
            f"interrupted: finished rows are in {journal.path}; "
            "the same command with --resume goes on from there",
            err=True,
        )
        sys.exit(INTERRUPTED)
    table = list(rows(items, answers, kind, all_levers))
    write_table(table, output, columns(kind))
    found = summarise(items, answers, kind)
    emit(batch_review(found, output, len(table)), format_name, None)
    if found.errors:
        click.echo(
            f"{found.errors:,} of {found.cases:,} cases have errors; once they are mended, the "
            f"same command with --resume plans only those ({journal.path} is kept)",
            err=True,
        )
        sys.exit(1)
    journal.remove()


def check_place(output: Path) -> None:
    """Refuse an output that cannot be written before any work is done. Raises InputError."""
    from optimiser.errors import InputError, Mistake
    from optimiser.files import replacing

    if output.is_dir():
        raise InputError([Mistake(str(output), "", "cannot be written: is a directory")])
    probe = output.with_name(f"{output.name}.journal.probe")
    with replacing(probe):
        pass
    probe.unlink()


def _refuse_misfits(
    kind: str, compares: bool, all_levers: bool, engine_name: str, address: str | None
) -> None:
    """Options that do not go together. Raises click.UsageError."""
    if compares and kind != "compare":
        raise click.UsageError("--gpu, --model, --offer and --set go with --job compare")
    if all_levers and kind != "levers":
        raise click.UsageError("--all-levers goes with --job levers")
    if address and engine_name == "processes":
        raise click.UsageError("--address goes with --engine dask or --engine ray")
