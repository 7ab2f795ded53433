"""`optimise classes trace.csv`: a request log as classes of traffic."""

import json
from pathlib import Path

import click

from optimiser.files import write


@click.command("classes", epilog="Example: optimise classes trace.csv --groups 4 -o classes.yaml")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option(
    "--groups", type=click.IntRange(1, 100), default=4, show_default=True, help="Classes."
)
@click.option("--prompt", help="Column of prompt tokens.")
@click.option("--answer", help="Column of answer tokens.")
@click.option("--time", "time_name", help="Column of arrival times, seconds or dates.")
@click.option(
    "--requests-per-s",
    type=click.FloatRange(min=0, min_open=True),
    help="Rate of all requests, for a log without times.",
)
@click.option(
    "--peak/--mean", default=True, help="Plan for each class's busiest minute.  [default: peak]"
)
@click.option(
    "--ttft-target-s",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Promise of every class.",
)
@click.option(
    "--tpot-target-ms",
    type=click.FloatRange(min=0, min_open=True),
    default=50.0,
    show_default=True,
    help="Promise of every class.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="Workloads to paste into a case, or values for programs.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file.")
def command(
    trace: Path,
    groups: int,
    prompt: str | None,
    answer: str | None,
    time_name: str | None,
    requests_per_s: float | None,
    peak: bool,
    ttft_target_s: float,
    tpot_target_ms: float,
    format_name: str,
    output: Path | None,
) -> None:
    """Group the requests of TRACE by length into a few classes.

    CSV, JSON lines or Parquet; the columns of Azure's and Mooncake's traces are known, others are
    named by options. Says by how much the classes' means misjudge the cache that requests keep,
    beside finer groupings.
    """
    from optimiser.review.classes import classes_data, classes_yaml
    from optimiser.traffic.group import group
    from optimiser.traffic.log import read_log

    log = read_log(trace, {"prompt": prompt, "answer": answer, "time": time_name})
    found = group(log, groups, requests_per_s)
    data = classes_data(found, peak, ttft_target_s, tpot_target_ms)
    text = (
        json.dumps(data, indent=2) + "\n"
        if format_name == "json"
        else classes_yaml(data, trace.name)
    )
    if output is None:
        click.echo(text, nl=False)
    else:
        write(output, text)
