"""Benchmark files and numbers on a command line as runs; scales as the file that a case names."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import yaml

from optimiser.case import Case
from optimiser.catalogue.load import shipped
from optimiser.errors import InputError, Mistake
from optimiser.studies.benchmark_files import BenchmarkFileError, read_benchmark
from optimiser.studies.calibrate import Calibration, Run
from optimiser.units import s_of_ms

HEAD = "# Written by `optimise calibrate`; a case names this file under assumptions.calibration.\n"
DIGITS = 6


def runs_of_files(paths: Iterable[Path]) -> list[Run]:
    """Every run of every file. Raises InputError with the mistakes of all files."""
    runs: list[Run] = []
    mistakes: list[Mistake] = []
    for path in paths:
        try:
            found = read_benchmark(path)
        except BenchmarkFileError as error:
            mistakes.append(Mistake(str(path), error.field, error.message))
            continue
        runs += [
            Run(
                source=path.name,
                concurrency=run.concurrency,
                ttft_s=run.ttft_s,
                tpot_s=run.tpot_s,
                prompt_tokens=run.prompt_tokens,
                answer_tokens=run.answer_tokens,
                n_requests=run.n_requests,
                closed_loop=run.closed_loop,
            )
            for run in found
        ]
    if mistakes:
        raise InputError(mistakes)
    return runs


def runs_of_numbers(
    case: Case,
    concurrencies: Sequence[float],
    ttfts_ms: Sequence[float],
    tpots_ms: Sequence[float],
) -> list[Run]:
    """Loads in the order given, at the case's lengths."""
    return [
        Run(
            source="--concurrency",
            concurrency=concurrency,
            ttft_s=s_of_ms(ttft_ms),
            tpot_s=s_of_ms(tpot_ms),
            prompt_tokens=float(case.brief.prompt_tokens),
            answer_tokens=float(case.brief.answer_tokens),
            n_requests=None,
            closed_loop=True,
        )
        for concurrency, ttft_ms, tpot_ms in zip(concurrencies, ttfts_ms, tpots_ms, strict=True)
    ]


def scales_yaml(found: Calibration) -> str:
    """The file of scales; the offset is left out where it was not fitted."""
    scales = found.scales
    values: dict[str, float | str] = {
        "decode_scale": _rounded(scales.decode_scale),
        "prefill_scale": _rounded(scales.prefill_scale),
    }
    if scales.offset_fitted:
        values["ttft_offset_s"] = _rounded(scales.ttft_offset_s)
    values["source"] = source_of(found)
    return HEAD + yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=1000)


def source_of(found: Calibration) -> str:
    """What was run, where, and at which loads."""
    used = [run for place, run in enumerate(found.runs) if place not in found.refused]
    loads = ", ".join(f"{run.concurrency:.4g}" for run in used)
    files = ", ".join(dict.fromkeys(run.source for run in used))
    engine = found.case.assumptions.serving_engine
    return f"{files}: {found.case.model.name}, {found.chosen.label}, {engine}; concurrency {loads}"


def refuse_place(output: Path, read: Iterable[Path]) -> None:
    """Raises InputError where the scales would take the place of something else."""
    place = output.resolve()
    if place.is_relative_to(shipped("models").resolve()):
        message = "is in the catalogue, which is not touched; name another file"
        raise InputError([Mistake(f"-o {output}", "", message)])
    if any(place == path.resolve() for path in read):
        message = "is read too; name another file"
        raise InputError([Mistake(f"-o {output}", "", message)])
    if not place.parent.is_dir():
        raise InputError([Mistake(f"-o {output}", "", "cannot be written: no such directory")])


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
