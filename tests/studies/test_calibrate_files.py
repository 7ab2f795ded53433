"""Benchmark results as their tools write them, and what broken ones are told."""

import copy
import json
import re
from pathlib import Path

import pytest

from optimiser.studies.benchmark_files import BenchmarkFileError, read_benchmark, runs_of

FOLDER = Path(__file__).parents[1] / "data" / "benchmarks"


def _document(name):
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def test_vllm_bench_serve():
    (run,) = read_benchmark(FOLDER / "vllm_bench_serve.json")
    assert (run.concurrency, run.closed_loop) == (32, True)
    assert run.ttft_s == pytest.approx(0.18244)
    assert run.tpot_s == pytest.approx(0.01263)
    # 325,632 and 162,816 tokens over 318 requests; 2 of 320 failed.
    assert (run.prompt_tokens, run.answer_tokens) == (1024, 512)
    assert (run.n_requests, run.n_failed) == (318, 2)


def test_vllm_without_a_limit_counts_the_requests_inside_by_littles_law():
    document = _document("vllm_bench_serve.json") | {"max_concurrency": None}
    (run,) = runs_of(document)
    # 318 requests in 66.418 s, each there for 0.18244 + 511 x 0.01263 s.
    assert run.concurrency == pytest.approx(318 / 66.418 * (0.18244 + 511 * 0.01263))
    assert not run.closed_loop


def test_guidellm_gives_all_its_runs_and_the_time_after_the_first_token():
    runs = read_benchmark(FOLDER / "guidellm_benchmarks.json")
    assert [run.concurrency for run in runs] == [1, 8, 32, 64]
    assert [run.n_requests for run in runs] == [24, 180, 620, 1100]
    assert [run.n_failed for run in runs] == [0, 0, 0, 1]
    assert runs[2].ttft_s == pytest.approx(0.1498)
    assert runs[2].tpot_s == pytest.approx(0.01271)
    assert (runs[2].prompt_tokens, runs[2].answer_tokens) == (1024, 511)


def test_guidellm_without_inter_token_latency_takes_the_first_token_off():
    document = _document("guidellm_benchmarks.json")
    for run in document["benchmarks"]:
        del run["metrics"]["inter_token_latency_ms"]
    assert runs_of(document)[2].tpot_s == pytest.approx(0.01271)


def test_guidellm_at_a_rate_uses_the_concurrency_that_it_measured():
    document = _document("guidellm_benchmarks.json")
    document["benchmarks"][1]["config"]["strategy"] = {"type_": "constant", "rate": 2.0}
    run = runs_of(document)[1]
    assert run.concurrency == pytest.approx(8 * 0.97)
    assert not run.closed_loop


def test_guidellm_older_layout():
    document = _document("guidellm_benchmarks.json")
    for run in document["benchmarks"]:
        run["args"] = {"strategy": {"type_": "concurrent", "streams": 8}}
        del run["config"]
        run["request_totals"] = run["metrics"].pop("request_totals")
    runs = runs_of(document)
    assert (runs[0].concurrency, runs[0].n_requests) == (8, 24)


@pytest.mark.parametrize(
    ("name", "ttft_s", "tpot_s", "n_requests", "n_failed"),
    [
        ("aiperf_profile_export.json", 0.1586, 0.01284, 400, 3),
        ("genai_perf_profile_export.json", 0.1669, 0.01306, 192, 0),
    ],
)
def test_aiperf_and_genai_perf(name, ttft_s, tpot_s, n_requests, n_failed):
    (run,) = read_benchmark(FOLDER / name)
    assert run.concurrency == 32
    assert run.ttft_s == pytest.approx(ttft_s)
    assert run.tpot_s == pytest.approx(tpot_s)
    assert (run.prompt_tokens, run.answer_tokens) == (1024, 512)
    assert (run.n_requests, run.n_failed) == (n_requests, n_failed)


def test_aiperf_at_a_rate_in_other_units():
    document = _document("aiperf_profile_export.json")
    del document["input_config"]["loadgen"]["concurrency"]
    document["inter_token_latency"] = {"unit": "ns", "avg": 12.84e6}
    (run,) = runs_of(document)
    assert run.concurrency == pytest.approx(4.713 * (0.1586 + 511 * 0.01284))


BROKEN = [
    ("vllm_bench_serve.json", "mean_tpot_ms", None, "mean_tpot_ms", "missing"),
    ("vllm_bench_serve.json", "mean_ttft_ms", "fast", "mean_ttft_ms", "'fast', expected a number"),
    ("vllm_bench_serve.json", "mean_ttft_ms", -1, "mean_ttft_ms", "above 0"),
    ("vllm_bench_serve.json", "completed", 0, "completed", "no request succeeded"),
    ("vllm_bench_serve.json", "completed", 1.5, "completed", "whole number"),
    ("vllm_bench_serve.json", "total_output_tokens", True, "total_output_tokens", "number"),
    ("guidellm_benchmarks.json", "benchmarks", [], "benchmarks", "at least one run"),
    ("guidellm_benchmarks.json", "benchmarks", [3], "benchmarks[0]", "object"),
    (
        "guidellm_benchmarks.json",
        "benchmarks.1.metrics.time_to_first_token_ms",
        None,
        "benchmarks[1].metrics.time_to_first_token_ms.successful.mean",
        "missing",
    ),
    (
        "guidellm_benchmarks.json",
        "benchmarks.0.metrics.request_totals",
        None,
        "benchmarks[0].metrics.request_totals",
        "missing",
    ),
    ("aiperf_profile_export.json", "inter_token_latency", None, "inter_token_latency.avg", "miss"),
    (
        "aiperf_profile_export.json",
        "time_to_first_token.unit",
        "fortnights",
        "time_to_first_token.unit",
        "fortnights",
    ),
    ("genai_perf_profile_export.json", "request_count", None, "request_count.avg", "missing"),
]


@pytest.mark.parametrize(("name", "path", "value", "field", "message"), BROKEN)
def test_a_broken_result_names_the_field(name, path, value, field, message):
    document = copy.deepcopy(_document(name))
    *parents, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    inner = document
    for key in parents:
        inner = inner[key]
    inner[last] = value
    with pytest.raises(BenchmarkFileError, match=re.escape(message)) as raised:
        runs_of(document)
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "expected a JSON object"),
        ('{"latency": 3}', "vllm bench serve"),
        ('{"mean_ttft_ms": NaN, "completed": 3}', "missing"),
    ],
)
def test_other_files_are_refused(tmp_path, text, message):
    path = tmp_path / "result.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BenchmarkFileError, match=message):
        read_benchmark(path)


def test_an_absent_file_is_said_to_be(tmp_path):
    with pytest.raises(BenchmarkFileError, match="cannot be read: No such file"):
        read_benchmark(tmp_path / "none.json")
