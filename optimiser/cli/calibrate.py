"""`optimise calibrate CASE --benchmark …`: one deployment's own latency scales."""

import math
from pathlib import Path

import click

from optimiser.cli.options import case_options, emit, format_option, load_case, shipped_case

UNCALIBRATED = "assumptions.calibration=null"
"""The scales that the case names may be the very file that is to be written."""


def _numbers(_: click.Context, __: click.Parameter, values: tuple[float, ...]) -> tuple[float, ...]:
    """Ranges let NaN pass."""
    if any(math.isnan(value) for value in values):
        raise click.BadParameter("nan is not a number.")
    return values


@click.command(
    "calibrate",
    epilog="Example: optimise calibrate case.yaml --benchmark result.json -o scales.yaml",
)
@case_options
@click.option(
    "--benchmark",
    "benchmarks",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE.json",
    help="Result of vllm bench serve, GuideLLM, AIPerf or genai-perf. Repeatable.",
)
@click.option(
    "--concurrency",
    "concurrencies",
    multiple=True,
    type=click.FloatRange(1, 1e6),
    callback=_numbers,
    help="In place of a file: requests that one replica served at once. Repeatable.",
)
@click.option(
    "--ttft-ms",
    "ttfts_ms",
    multiple=True,
    type=click.FloatRange(0, 1e9, min_open=True),
    callback=_numbers,
    help="Mean time to first token there.",
)
@click.option(
    "--tpot-ms",
    "tpots_ms",
    multiple=True,
    type=click.FloatRange(0, 1e9, min_open=True),
    callback=_numbers,
    help="Mean time per output token there.",
)
@click.option("--gpu", help="Catalogue name, or one of the case's.  [default: the case's first]")
@click.option("--weights", help="Weight format.  [default: the case's]")
@click.option("--kv-cache", help="KV-cache format.  [default: the case's]")
@click.option("--kv-heads", type=click.IntRange(1, 10**6), help="KV heads.  [default: the case's]")
@click.option(
    "--tensor-parallel",
    type=click.IntRange(1, 10**6),
    help="GPUs that share a replica.  [default: the case's]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="SCALES.yaml",
    help="Write the scales to a file that a case can name under assumptions.calibration.",
)
@format_option
def command(
    case_path: str,
    settings: tuple[str, ...],
    folder: str | None,
    benchmarks: tuple[Path, ...],
    concurrencies: tuple[float, ...],
    ttfts_ms: tuple[float, ...],
    tpots_ms: tuple[float, ...],
    gpu: str | None,
    weights: str | None,
    kv_cache: str | None,
    kv_heads: int | None,
    tensor_parallel: int | None,
    output: Path | None,
    format_name: str,
) -> None:
    """Fit the latency scales of the deployment that CASE names to benchmark runs of it.

    Of one replica: its GPU type and levers are the case's first, or those given here. One load
    tells the decode and prefill scales, three or more the offset of the first token too. Runs that
    are too short or saturated are not used; exit code 1 where none is left. The engine is the
    case's, vllm if it says none. The catalogue is not touched.
    """
    from optimiser.cli.check import fixed_to
    from optimiser.files import write
    from optimiser.review.calibrate import calibrate_review
    from optimiser.studies.calibrate import calibrate
    from optimiser.studies.calibrate_runs import (
        refuse_place,
        runs_of_files,
        runs_of_numbers,
        scales_yaml,
    )

    given_numbers = len(concurrencies), len(ttfts_ms), len(tpots_ms)
    if bool(benchmarks) == any(given_numbers):
        raise click.UsageError("give --benchmark, or --concurrency, --ttft-ms and --tpot-ms")
    if len(set(given_numbers)) > 1:
        raise click.UsageError("give as many --ttft-ms and --tpot-ms as --concurrency")
    if output is not None:
        cases = filter(None, (Path(case_path), shipped_case(case_path)))
        refuse_place(output, [*benchmarks, *cases])
    case = load_case(case_path, (*settings, UNCALIBRATED), folder)
    given = {
        "levers.weights": weights,
        "levers.kv_cache": kv_cache,
        "levers.kv_heads": kv_heads,
        "levers.tensor_parallel": tensor_parallel,
    }
    fixed, (chosen, *_) = fixed_to(
        case,
        gpu or case.hardware.gpus[0].name,
        {field: value for field, value in given.items() if value is not None},
    )
    measured = fixed.changed({"assumptions.latency": "measured", "assumptions.efficiency": None})
    runs = runs_of_files(benchmarks) or runs_of_numbers(case, concurrencies, ttfts_ms, tpots_ms)
    found = calibrate(measured, chosen, runs)
    if output is not None:
        write(output, scales_yaml(found))
    emit(calibrate_review(found, None if output is None else str(output)), format_name, None)
