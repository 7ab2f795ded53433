"""Benchmark results that users already have: `vllm bench serve`, GuideLLM, AIPerf, genai-perf."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from optimiser.units import MS_PER_S

SECONDS = {
    "s": 1.0,
    "sec": 1.0,
    "seconds": 1.0,
    "ms": 1e-3,
    "milliseconds": 1e-3,
    "us": 1e-6,
    "microseconds": 1e-6,
    "ns": 1e-9,
    "nanoseconds": 1e-9,
}
LARGEST_FILE_BYTES = 512 * 2**20

Json = Mapping[str, object]


class BenchmarkFileError(ValueError):
    """A result that lacks something, and what."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        """Path to the value, dots between keys; empty for the file as a whole."""
        self.message = message


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """One measurement at one load; means over the requests that succeeded."""

    tool: str
    concurrency: float
    """Requests in the server: the limit that the benchmark kept, else rate x latency."""
    ttft_s: float
    tpot_s: float
    """After the first token."""
    prompt_tokens: float
    answer_tokens: float
    n_requests: int
    n_failed: int
    closed_loop: bool
    """Whether the benchmark kept a fixed number of requests running."""


def read_benchmark(path: Path) -> tuple[BenchmarkRun, ...]:
    """Every run in a result file, in its order. Raises BenchmarkFileError."""
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise BenchmarkFileError("", "the file is larger than 512 MiB")
        document: object = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise BenchmarkFileError("", f"the file cannot be read: {reason}") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, BenchmarkFileError):
            raise
        raise BenchmarkFileError("", f"not JSON: {error}") from error
    return runs_of(document)


def runs_of(document: object) -> tuple[BenchmarkRun, ...]:
    """Every run in a parsed result. Raises BenchmarkFileError naming what is missing."""
    if not isinstance(document, Mapping):
        raise BenchmarkFileError("", "expected a JSON object, as benchmark tools write it")
    if "benchmarks" in document:
        return _guidellm(document)
    if "mean_ttft_ms" in document or "mean_tpot_ms" in document:
        return (_vllm(document),)
    if "time_to_first_token" in document or "inter_token_latency" in document:
        return (_perf(document),)
    raise BenchmarkFileError(
        "",
        "expected the result of vllm bench serve (mean_ttft_ms), GuideLLM (benchmarks) or AIPerf "
        "and genai-perf (time_to_first_token)",
    )


def _vllm(result: Json) -> BenchmarkRun:
    n_requests = _whole(result, "completed")
    if n_requests == 0:
        raise BenchmarkFileError("completed", "no request succeeded")
    prompt = _positive(result, "total_input_tokens") / n_requests
    answer = _positive(result, "total_output_tokens") / n_requests
    ttft_s = _positive(result, "mean_ttft_ms") / MS_PER_S
    tpot_s = _positive(result, "mean_tpot_ms") / MS_PER_S
    limit = result.get("max_concurrency")
    if limit is None:
        rate = n_requests / _positive(result, "duration")
        concurrency = rate * (ttft_s + (answer - 1) * tpot_s)
    else:
        concurrency = _positive(result, "max_concurrency")
    asked = result.get("num_prompts")
    failed = max(_whole(result, "num_prompts") - n_requests, 0) if asked is not None else 0
    return BenchmarkRun(
        tool="vllm bench serve",
        concurrency=concurrency,
        ttft_s=ttft_s,
        tpot_s=tpot_s,
        prompt_tokens=prompt,
        answer_tokens=answer,
        n_requests=n_requests,
        n_failed=failed,
        closed_loop=limit is not None,
    )


def _guidellm(document: Json) -> tuple[BenchmarkRun, ...]:
    listed = document["benchmarks"]
    if not isinstance(listed, list) or not listed:
        raise BenchmarkFileError("benchmarks", "expected a list with at least one run")
    return tuple(_guidellm_run(run, f"benchmarks[{place}]") for place, run in enumerate(listed))


def _guidellm_run(run: object, path: str) -> BenchmarkRun:
    if not isinstance(run, Mapping):
        raise BenchmarkFileError(path, "expected an object")
    metrics = f"{path}.metrics"

    def mean(name: str) -> float:
        return _positive(run, f"metrics.{name}.successful.mean", path)

    streams = _first(
        run,
        "config.strategy.max_concurrency",
        "config.strategy.streams",
        "args.strategy.streams",
        "args.strategy.max_concurrency",
    )
    closed = streams is not None
    concurrency = _number(streams, f"{path}.config.strategy.streams") if closed else None
    totals = _first(run, "metrics.request_totals", "request_totals", "run_stats.requests_made")
    if not isinstance(totals, Mapping):
        raise BenchmarkFileError(
            f"{metrics}.request_totals", "missing: how many requests succeeded"
        )
    n_requests = _whole(totals, "successful", f"{metrics}.request_totals")
    if n_requests == 0:
        raise BenchmarkFileError(f"{metrics}.request_totals.successful", "no request succeeded")
    ttft_s = mean("time_to_first_token_ms") / MS_PER_S
    answer = mean("output_token_count")
    return BenchmarkRun(
        tool="GuideLLM",
        concurrency=mean("request_concurrency") if concurrency is None else concurrency,
        ttft_s=ttft_s,
        tpot_s=_guidellm_tpot_s(run, path, ttft_s, answer),
        prompt_tokens=mean("prompt_token_count"),
        answer_tokens=answer,
        n_requests=n_requests,
        n_failed=int(_number(totals.get("errored") or 0, f"{metrics}.request_totals.errored")),
        closed_loop=closed,
    )


def _guidellm_tpot_s(run: Json, path: str, ttft_s: float, answer: float) -> float:
    """Its inter-token latency starts after the first token; its time per output token before."""
    if _first(run, "metrics.inter_token_latency_ms.successful.mean") is not None:
        return _positive(run, "metrics.inter_token_latency_ms.successful.mean", path) / MS_PER_S
    field = "metrics.time_per_output_token_ms.successful.mean"
    if _first(run, field) is None:
        where = f"{path}.metrics.inter_token_latency_ms.successful.mean"
        raise BenchmarkFileError(where, "missing: the benchmark must stream its answers")
    whole_s = _positive(run, field, path) / MS_PER_S * answer
    if answer <= 1 or whole_s <= ttft_s:
        raise BenchmarkFileError(f"{path}.{field}", "answers too short to tell a time per token")
    return (whole_s - ttft_s) / (answer - 1)


def _perf(result: Json) -> BenchmarkRun:
    ttft_s = _perf_seconds(result, "time_to_first_token")
    tpot_s = _perf_seconds(result, "inter_token_latency")
    answer = _positive(result, "output_sequence_length.avg")
    limit = _first(
        result,
        "input_config.loadgen.concurrency",
        "input_config.perf_analyzer.stimulus.concurrency",
        "input_config.concurrency",
    )
    if isinstance(limit, list) and len(limit) == 1:
        limit = limit[0]
    if limit is None:
        rate = _positive(result, "request_throughput.avg")
        concurrency = rate * (ttft_s + (answer - 1) * tpot_s)
    else:
        concurrency = _number(limit, "input_config.loadgen.concurrency")
    n_requests = int(_positive(result, "request_count.avg"))
    failed = _first(result, "error_request_count.avg") or 0
    return BenchmarkRun(
        tool="AIPerf or genai-perf",
        concurrency=concurrency,
        ttft_s=ttft_s,
        tpot_s=tpot_s,
        prompt_tokens=_positive(result, "input_sequence_length.avg"),
        answer_tokens=answer,
        n_requests=n_requests,
        n_failed=int(_number(failed, "error_request_count.avg")),
        closed_loop=limit is not None,
    )


def _perf_seconds(result: Json, name: str) -> float:
    unit = _first(result, f"{name}.unit")
    seconds = SECONDS.get(str(unit or "ms").lower())
    if seconds is None:
        raise BenchmarkFileError(f"{name}.unit", f"unknown unit {unit!r}")
    return _positive(result, f"{name}.avg") * seconds


def _first(document: Json, *paths: str) -> object:
    """The first of some paths that is there and not null."""
    for path in paths:
        value: object = document
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    return None


def _positive(document: Json, path: str, inside: str = "") -> float:
    field = f"{inside}.{path}" if inside else path
    found = _first(document, path)
    if found is None:
        raise BenchmarkFileError(field, "missing")
    value = _number(found, field)
    if value <= 0:
        raise BenchmarkFileError(field, f"found {value:g}, expected a number above 0")
    return value


def _whole(document: Json, key: str, inside: str = "") -> int:
    field = f"{inside}.{key}" if inside else key
    if document.get(key) is None:
        raise BenchmarkFileError(field, "missing")
    value = _number(document[key], field)
    if value < 0 or value != int(value):
        raise BenchmarkFileError(field, f"found {value:g}, expected a whole number")
    return int(value)


def _number(value: object, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BenchmarkFileError(field, f"found {value!r}, expected a number")
    if not math.isfinite(value):
        raise BenchmarkFileError(field, f"found {value!r}, expected a finite number")
    return float(value)
