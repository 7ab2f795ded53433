"""`optimise calibrate`: scales of one deployment from benchmark files or numbers."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from optimiser.case import Case
from optimiser.catalogue.scales import read_scales
from optimiser.cli.check import fixed_to
from optimiser.planning.deployment import constants, deployment
from optimiser.planning.latency_scalar import Latency
from tests.cli.running import CASES, ROOT, Ran, optimise, written

BENCHMARKS = ROOT / "tests" / "data" / "benchmarks"
CASE = CASES / "llama-3.1-8b.yaml"
ON_H100 = ("--gpu", "h100-sxm")
TRUE = {"decode_scale": 1.3, "prefill_scale": 0.7, "ttft_offset_s": 0.06}
LOADS = (4, 16, 48, 96)
PROMPT, ANSWER = 2048, 400


def calibrate(*arguments: object, case: object = CASE) -> Ran:
    return optimise("calibrate", case, *arguments, "--format", "json")


def server(synchronised: bool, **true: float) -> tuple[Latency, float]:
    """A server that differs from the model by known scales, by the scalar writing."""
    fixed, (chosen, *_) = fixed_to(Case.load(CASE), "h100-sxm", {})
    found = constants(fixed, chosen.gpu)
    facts = replace(deployment(fixed, chosen), prompt_tokens=PROMPT, answer_tokens=ANSWER)
    synchrony = found.closed_loop_synchrony if synchronised else 0.0
    return Latency(facts, replace(found, **true)), synchrony


def vllm_result(load: int, synchronised: bool = True, **true: float) -> dict[str, Any]:
    """A result file of `vllm bench serve` of that server."""
    latency, synchrony = server(synchronised, **true)
    document: dict[str, Any] = json.loads((BENCHMARKS / "vllm_bench_serve.json").read_text())
    n = 10 * load
    return document | {
        "max_concurrency": load,
        "num_prompts": n,
        "completed": n,
        "total_input_tokens": n * PROMPT,
        "total_output_tokens": n * ANSWER,
        "mean_ttft_ms": latency.ttft_s(load, synchrony) * 1e3,
        "mean_tpot_ms": latency.tpot_s(load, synchrony) * 1e3,
    }


def result_files(folder: Path, synchronised: bool = True, **true: float) -> list[object]:
    arguments: list[object] = []
    for load in LOADS:
        text = json.dumps(vllm_result(load, synchronised, **true))
        arguments += ["--benchmark", written(folder, text, f"at-{load}.json")]
    return arguments


@pytest.mark.parametrize("synchronised", [True, False])
def test_known_scales_are_recovered(tmp_path: Path, synchronised: bool) -> None:
    out = tmp_path / "scales.yaml"
    ran = calibrate(*ON_H100, *result_files(tmp_path, synchronised, **TRUE), "-o", out)
    assert (ran.code, ran.err) == (0, "")
    scales = read_scales(out)
    for name, value in TRUE.items():
        assert getattr(scales, name) == pytest.approx(value, rel=0.05)
        assert ran.data["scales"][name] == pytest.approx(value, rel=0.05)
    assert ran.data["scales"]["ttft_offset_fitted"]
    assert "at-4.json, at-16.json, at-48.json, at-96.json: llama-3.1-8b" in str(scales.source)
    assert [run["concurrency"] for run in ran.data["runs"]] == list(LOADS)
    for run in ran.data["runs"]:
        assert run["refused"] is None
        for time in ("ttft_ms", "tpot_ms"):
            assert run["after"][time] == pytest.approx(run["measured"][time], rel=1e-6)
            assert abs(run["before"][time] / run["measured"][time] - 1) > 0.05


def test_a_case_can_name_the_scales(tmp_path: Path) -> None:
    out = tmp_path / "scales.yaml"
    assert calibrate(*ON_H100, *result_files(tmp_path, **TRUE), "-o", out).code == 0
    settings = ["assumptions.latency=measured", "assumptions.efficiency=null"]
    case = Case.load(CASE, [*settings, f"assumptions.calibration={out}"])
    assert case.scales.decode_scale == pytest.approx(TRUE["decode_scale"], rel=1e-4)
    assert case.scales.ttft_offset_s == pytest.approx(TRUE["ttft_offset_s"], rel=1e-4)


def test_a_case_that_names_the_scales_can_be_calibrated_anew(tmp_path: Path) -> None:
    named = CASE.read_text().replace(
        "  efficiency: 0.7     # real servers reach part of the roofline\n",
        "  latency: measured\n  calibration: scales.yaml\n",
    )
    case, out = written(tmp_path, named), tmp_path / "scales.yaml"
    arguments = (*ON_H100, *result_files(tmp_path, **TRUE), "-o", out)
    first = calibrate(*arguments, case=case)  # the file is not there yet
    again = calibrate(*arguments, case=case)
    assert (first.code, again.code) == (0, 0)
    assert first.data == again.data


def test_one_load_keeps_the_offset(tmp_path: Path) -> None:
    true = {"decode_scale": 1.2, "prefill_scale": 1.4}
    path, out = written(tmp_path, json.dumps(vllm_result(32, **true)), "r.json"), tmp_path / "s"
    ran = calibrate(*ON_H100, "--benchmark", path, "-o", out)
    assert ran.code == 0
    assert set(yaml.safe_load(out.read_text())) == {"decode_scale", "prefill_scale", "source"}
    assert ran.data["scales"]["decode_scale"] == pytest.approx(1.2, rel=1e-6)
    assert ran.data["scales"]["prefill_scale"] == pytest.approx(1.4, rel=1e-6)
    assert not ran.data["scales"]["ttft_offset_fitted"]


def numbers(*loads: int, **true: float) -> list[object]:
    """Options in place of a file, at the case's lengths."""
    latency, synchrony = server(True, **true)
    brief = Case.load(CASE).brief
    at = replace(latency.at, prompt_tokens=brief.prompt_tokens, answer_tokens=brief.answer_tokens)
    latency = replace(latency, at=at)
    return [
        option
        for load in loads
        for option in (
            *("--concurrency", load),
            *("--ttft-ms", latency.ttft_s(load, synchrony) * 1e3),
            *("--tpot-ms", latency.tpot_s(load, synchrony) * 1e3),
        )
    ]


def test_numbers_in_place_of_a_file() -> None:
    one = calibrate(*ON_H100, *numbers(32, decode_scale=1.5)).data
    assert one["scales"]["decode_scale"] == pytest.approx(1.5)
    assert one["output"] is None
    four = calibrate(*ON_H100, *numbers(*LOADS, **TRUE)).data["scales"]
    assert {name: four[name] for name in TRUE} == pytest.approx(TRUE)


@pytest.mark.parametrize(
    ("name", "loads"),
    [
        ("vllm_bench_serve.json", [32]),
        ("guidellm_benchmarks.json", [1, 8, 32, 64]),
        ("aiperf_profile_export.json", [32]),
        ("genai_perf_profile_export.json", [32]),
    ],
)
def test_files_of_each_tool(name: str, loads: list[int]) -> None:
    path = BENCHMARKS / name
    ran = calibrate(*ON_H100, "--benchmark", path)
    assert (ran.code, ran.err) == (0, "")
    assert [run["concurrency"] for run in ran.data["runs"]] == loads
    assert ran.data["scales"]["ttft_offset_fitted"] == (len(loads) >= 3)
    text = optimise("calibrate", CASE, *ON_H100, "--benchmark", path).out
    assert "decode ×" in text
    assert name in text


def test_levers_are_the_case_s_first_or_given() -> None:
    arguments = ("--benchmark", BENCHMARKS / "vllm_bench_serve.json")
    first = calibrate(*arguments, "--tensor-parallel", 2).data["deployment"]
    assert (first["gpu"], first["weights"], first["tensor_parallel"]) == ("l4", "fp16", 2)
    given = ("--gpu", "b200", "--weights", "fp8", "--kv-cache", "fp8", "--tensor-parallel", 2)
    measured = ("assumptions.latency=measured", "assumptions.efficiency=null")
    engine = [*measured, "assumptions.serving_engine=sglang"]
    settings = [argument for setting in engine for argument in ("--set", setting)]
    measured_there = ("--concurrency", 16, "--ttft-ms", 200, "--tpot-ms", 6)
    ran = calibrate(*given, *settings, *measured_there)
    assert (ran.code, ran.err) == (0, "")
    assert ran.data["deployment"] == {
        "model": "llama-3.1-8b",
        "gpu": "b200",
        "tensor_parallel": 2,
        "weights": "fp8",
        "kv_cache": "fp8",
        "kv_heads": 8,
        "serving_engine": "sglang",
    }


def test_runs_that_cannot_tell_are_refused(tmp_path: Path) -> None:
    short = vllm_result(64) | {"completed": 30}
    short |= {"total_input_tokens": 30 * PROMPT, "total_output_tokens": 30 * ANSWER}
    queued = vllm_result(64) | {"mean_ttft_ms": 60_000}
    other = vllm_result(32, decode_scale=20.0)
    out = tmp_path / "scales.yaml"
    for document, why in (
        (short, "concurrency 64: too short, 30 requests; at least 128 are needed"),
        (queued, "concurrency 64: saturated, requests wait longer than they decode"),
        (other, "decode scale 20: not a run of the deployment that the case describes"),
    ):
        path = written(tmp_path, json.dumps(document), "result.json")
        ran = calibrate(*ON_H100, "--benchmark", path, "-o", out)
        assert ran.code == 1
        assert ran.err.startswith(f"error: cannot calibrate: {why}")
        assert ran.data["status"] == "error"
        assert not out.exists()


def test_a_run_beyond_the_cache_is_not_used() -> None:
    # 80 GB less 16 GB of weights hold about 430 sequences of 1,150 tokens at 128 KiB a token.
    ran = calibrate(*ON_H100, *numbers(32, 600))
    assert ran.code == 0
    used, beyond = ran.data["runs"]
    assert used["refused"] is None
    assert beyond["refused"].startswith("concurrency 600: saturated, the cache holds ")
    text = optimise("calibrate", CASE, *ON_H100, *numbers(32, 600)).out
    assert "no: saturated, the cache holds" in text


def test_a_deployment_that_does_not_fit_was_not_run(tmp_path: Path) -> None:
    ran = calibrate("--set", "model=llama-3.1-70b", *ON_H100, *numbers(4))
    assert ran.code == 1
    assert "llama-3.1-70b in fp16 does not fit on h100-sxm x 1, which was run" in ran.err


def test_broken_files_name_the_file_and_the_field(tmp_path: Path) -> None:
    document = vllm_result(32)
    del document["mean_tpot_ms"]
    broken = written(tmp_path, json.dumps(document), "broken.json")
    text = written(tmp_path, "TTFT 12", "text.json")
    nothing = tmp_path / "nothing.json"
    files = [option for path in (broken, text, nothing) for option in ("--benchmark", path)]
    ran = calibrate(*ON_H100, *files)
    assert ran.code == 1
    errors = ran.data["errors"]
    assert [error["where"] for error in errors] == [str(broken), str(text), str(nothing)]
    assert [error["field"] for error in errors] == ["mean_tpot_ms", "", ""]
    assert ran.err.splitlines()[0] == f"error: {broken}: mean_tpot_ms: missing"
    assert errors[1]["message"].startswith("not JSON")
    assert "cannot be read" in errors[2]["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--concurrency", 4, "--ttft-ms", 50),
        ("--concurrency", 4, "--ttft-ms", 50, "--tpot-ms", 9, "--tpot-ms", 8),
        ("--benchmark", "x.json", "--concurrency", 4, "--ttft-ms", 50, "--tpot-ms", 9),
        ("--concurrency", 0, "--ttft-ms", 50, "--tpot-ms", 9),
        ("--concurrency", "nan", "--ttft-ms", 50, "--tpot-ms", 9),
        ("--concurrency", 4, "--ttft-ms", 0, "--tpot-ms", 9),
    ],
)
def test_wrong_use(arguments: tuple[object, ...]) -> None:
    ran = calibrate(*arguments)
    assert ran.code == 2
    assert ran.data["status"] == "error"


def test_mistakes_in_levers_cite_the_option() -> None:
    ran = calibrate("--gpu", "h10-sxm", *numbers(4))
    assert (ran.code, ran.data["errors"][0]["where"]) == (1, "--gpu")


def test_the_model_s_parts_must_be_known() -> None:
    model = "{name: m, params: 8e9, layers: 32, attention_heads: 32, kv_heads: 8, head_dim: 128}"
    settings = ("--set", f"model={model}", "--set", "assumptions.memory=null")
    ran = calibrate(*settings, *ON_H100, *numbers(4))
    assert ran.code == 1
    assert "measured latency needs the model's parts" in ran.err


def test_the_scales_never_take_the_place_of_something_else(tmp_path: Path) -> None:
    case = written(tmp_path, CASE.read_text())
    result = written(tmp_path, json.dumps(vllm_result(32)), "result.json")
    catalogue = ROOT / "models" / "gpus" / "h100-sxm.yaml"
    before = {path: path.read_bytes() for path in (case, result, catalogue)}
    for place, why in (
        (case, "is read too"),
        (result, "is read too"),
        (catalogue, "is in the catalogue, which is not touched"),
        (tmp_path / "no" / "scales.yaml", "cannot be written: no such directory"),
    ):
        ran = calibrate(*ON_H100, "--benchmark", result, "-o", place, case=case)
        assert ran.code == 1
        assert why in ran.err
    assert {path: path.read_bytes() for path in before} == before
