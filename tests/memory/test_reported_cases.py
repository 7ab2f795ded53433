"""What users reported of memory, fit and legal sizes: each case with its own tolerance."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from optimiser import Case, plan
from optimiser.catalogue.formats import WEIGHT_FORMATS
from optimiser.catalogue.hf_import import llm_of_config
from optimiser.catalogue.load import catalogue
from optimiser.engine.memory import dense_and_expert_bytes, padded_frac
from optimiser.planning.legal import why_illegal
from optimiser.planning.planner import Planned
from tests.cli.running import optimise, refused, written
from tests.memory.measured import CASES, GIB, MODELS, config

ELSEWHERE = {
    "C17b": "throughput, not memory",
    "C27b": "its model has no public config that this product reads, and SGLang divides memory",
    "C38": "time, not memory",
    "C48": "which variant is cheaper, not memory",
    "C50": "slots of an engine's state pool, which are not modelled",
    "S04": "solvers",
    "S05": "solvers",
}
"""Cases that are not tested here, and why."""
TESTED = {
    *("C02", "C04", "C05", "C06", "C09", "C12", "C13", "C14", "C16", "C17", "C20", "C23", "C25"),
    *("C28", "C29", "C31", "C40", "C41", "C42", "C44", "C46"),
}


def expected(name: str) -> Any:
    return CASES[name]["expected"]


def fit(model: str, gpu: str, *options: object) -> dict[str, Any]:
    ran = optimise("fit", model, "--gpu", gpu, *options, "--format", "json")
    data: dict[str, Any] = ran.data
    assert ran.code == (0 if data.get("fits") else 3), ran.err
    return data


def imported(path: object, context: int = 1) -> dict[str, Any]:
    data: dict[str, Any] = optimise("import", path, "--context", context, "--format", "json").data
    return data


def shape(folder: Path, name: str) -> Path:
    """A row of model_shapes.json as a config.json."""
    rows = json.loads((Path(__file__).parents[1] / "data" / "model_shapes.json").read_text())
    row = next(row for row in rows if row["model"].split("/")[1] == name)
    return written(folder, json.dumps(row), "config.json")


def test_every_case_is_tested_or_listed() -> None:
    assert TESTED | set(ELSEWHERE) == set(CASES)
    assert not TESTED & set(ELSEWHERE)


def test_c02_a_long_prompt_does_not_fit_beside_its_own_profile() -> None:
    said = CASES["C02"]["inputs"]
    options = ("--memory-utilization", said["util"], "--context", said["max_model_len"])
    step = ("--max-num-batched-tokens", said["step_tokens"], "--max-num-seqs", 256)
    found = fit("llama-3.1-8b", "rtx-3090", "--tensor-parallel", 1, *options, *step)
    assert found["fits"] == expected("C02")["fits"]
    assert found["terms"][0]["gib"] == pytest.approx(said["gpu_gib"], abs=0.005)
    torch = found["weight_gib_per_gpu"] - found["terms"][3]["gib"]
    assert torch == pytest.approx(expected("C02")["peak_torch_gib"], abs=0.05)


def test_c04_int8_weights_and_activations() -> None:
    said = CASES["C04"]["inputs"]
    options = ("--tensor-parallel", said["tp"], "--memory-utilization", said["util"])
    context = ("--context", said["max_model_len"])
    found = fit("llama-3.1-70b", "h100-sxm", *options, *context, "--weights", "w8a8-int8")
    assert found["fits"] == expected("C04")["fits"]
    assert found["weight_gib_per_gpu"] == pytest.approx(expected("C04")["weights_gib"], rel=0.01)
    # The 15 % suggested for the cache are not met (27 % less): this engine of January 2025 did not
    # yet run the sampler on 1,024 sequences at its start. It is 2.3 % of the card.
    short_gib = (expected("C04")["kv_tokens"] - found["kv_tokens"]) * 327_680 / GIB
    assert 0 < short_gib < 0.025 * found["terms"][0]["gib"]


@pytest.mark.parametrize(("name", "tolerance"), [("C05", 0.02), ("C06", 0.01)])
def test_c05_c06_bytes_of_a_token(name: str, tolerance: float) -> None:
    found = fit(config("Qwen3-235B-A22B-FP8"), "h100-sxm", "--tensor-parallel", 4)
    logged = expected(name)["kv_gib_per_gpu"] * GIB / expected(name)["kv_tokens"]
    assert found["kv_bytes_per_token_per_gpu"] == pytest.approx(logged, rel=tolerance)


def test_c09_a_cache_smaller_than_the_context(tmp_path: Path) -> None:
    model = str(shape(tmp_path, "Llama-2-7b-hf"))
    said = CASES["C09"]["inputs"]
    tokens, context = said["blocks"] * said["block_size"], said["max_model_len"]
    step = ("--max-num-batched-tokens", context, "--max-num-seqs", 256, "--context", context)
    options = ("--tensor-parallel", 1, "--memory-utilization", 1, *step)
    # a GPU with just so much more than the other terms take: 2 x 32 x 128 x 32 x 2 bytes a token
    whole = fit(model, "generic-80gb", *options)
    taken = (whole["terms"][0]["gib"] - whole["kv_gib_per_gpu"]) * GIB
    memory = round(taken) + tokens * 524_288
    gpu = f"name: just\nmemory_bytes: {memory}\nbandwidth_gb_per_s: 1000\ntflops: {{fp16: 100}}\n"
    (tmp_path / "gpus").mkdir()
    written(tmp_path / "gpus", gpu, "just.yaml")
    found = fit(model, "just", *options, "--catalogue", tmp_path)
    assert found["largest_context"] == expected("C09")["kv_tokens"]
    assert found["kv_tokens"] == pytest.approx(expected("C09")["kv_tokens"])
    assert found["fits"] == expected("C09")["fits"]
    shorter = (*options, "--context", tokens, "--catalogue", tmp_path)
    assert fit(model, "just", *shorter)["max_sequences"] == 1


def test_c13_blocks_that_share_a_scale_stay_whole() -> None:
    path = config("Qwen3-235B-A22B-FP8")
    ran = optimise("fit", path, "--gpu", "h100-sxm", "--tensor-parallel", 8, "--format", "json")
    assert ran.code == 1
    why = "width 1536 / 8 = 192 is not a multiple of the block 128; legal: 1, 2, 4"
    assert why in ran.err
    assert set(ran.data) == {"status", "errors"}
    assert ran.data["errors"][0]["message"].endswith(why)
    assert fit(path, "h100-sxm", "--tensor-parallel", 4)["tensor_parallel"] == 4


def test_c14_the_same_across_nodes(tmp_path: Path) -> None:
    llm = llm_of_config(shape(tmp_path, "DeepSeek-V3"))  # R1 is this shape
    node = 32
    why = "MLP width 18432 / 32 = 576 is not a multiple of the block 128"
    assert why_illegal(llm, "fp8-block", llm.kv_heads, 32, node) == why
    assert why_illegal(llm, "fp8-block", llm.kv_heads, 16, node) is None
    assert "replicas across nodes are refused" in (
        why_illegal(llm, "fp8-block", llm.kv_heads, 16, 8) or ""
    )


@pytest.mark.parametrize("name", ["C16", "C20", "C23", "C25"])
def test_measured_caches_are_within_a_gib_and_a_half(name: str) -> None:
    from tests.memory.table import found

    start, said = next(one for one in found() if one[0].name == name)
    assert said["kv_gib_per_gpu"] == pytest.approx(start.kv_gib, abs=1.5)
    assert said["fits"] == expected(name)["fits"]
    if "peak_activation_gib" in expected(name):
        peak = expected(name)["peak_activation_gib"]
        assert -said["terms"][3]["gib"] == pytest.approx(peak, abs=0.15)


def test_c17_fp8_holds_twice_the_tokens() -> None:
    at = ("--tensor-parallel", 1, "--memory-utilization", 0.92)
    whole = fit(config("Qwen3-8B"), "a100-sxm-80gb", *at)
    half = fit(config("Qwen3-8B"), "a100-sxm-80gb", *at, "--kv-cache", "fp8")
    ratio = half["kv_tokens"] / whole["kv_tokens"]
    assert ratio == pytest.approx(expected("C17")["ratio"], rel=1e-4)
    assert whole["kv_tokens"] == pytest.approx(expected("C17")["kv_tokens_bf16"], rel=0.05)
    assert half["kv_tokens"] == pytest.approx(expected("C17")["kv_tokens_fp8"], rel=0.05)


def test_c28_caches_and_weights_by_arithmetic(tmp_path: Path) -> None:
    want, tokens = expected("C28"), CASES["C28"]["inputs"][0]["tokens"]
    paths = (shape(tmp_path, "DeepSeek-V3"), config("DeepSeek-V2"), config("Qwen2.5-0.5B"))
    caches = [imported(path, tokens)["kv_bytes_per_sequence"] / GIB for path in paths]
    assert caches == pytest.approx(want["kv_gib"], abs=1e-5)
    assert imported(paths[2])["params_total"] == want["qwen25_05b_params"]

    def weights(name: str, gpu: str = "h100-sxm", size: int = 1) -> float:
        found = fit(config(name), gpu, "--tensor-parallel", size, "--context", 1)
        return float(found["weight_gib_per_gpu"] * size)

    small = weights("Qwen2.5-0.5B")
    assert small == pytest.approx(want["qwen25_05b_weights_gib"], rel=1e-4)
    assert weights("DeepSeek-V2", "h200", 8) == pytest.approx(
        want["deepseek_v2_weights_gib"], rel=1e-4
    )
    fp8 = weights("Qwen3-8B-FP8-dynamic")
    assert fp8 == pytest.approx(want["qwen3_8b_fp8_dynamic_weights_gib"], abs=0.005)


def test_c28_padding_of_gpt_oss_is_named() -> None:
    llm = llm_of_config(Path(config("gpt-oss-20b")))
    dense, experts = dense_and_expert_bytes(llm, WEIGHT_FORMATS["mxfp4"])
    assert padded_frac(llm) == 3072 / 2880
    by_shapes = (dense + experts / padded_frac(llm)) / GIB
    assert by_shapes == pytest.approx(expected("C28")["gpt_oss_20b_weights_gib"], abs=0.006)


def test_c29_128k_tokens_of_three_llamas(tmp_path: Path) -> None:
    names = ("Meta-Llama-3.1-8B", "Meta-Llama-3.1-70B", "Meta-Llama-3.1-405B")
    tokens = CASES["C29"]["inputs"]["tokens"]
    found = [
        imported(shape(tmp_path, name), tokens)["kv_bytes_per_sequence"] / GIB for name in names
    ]
    assert found == pytest.approx(expected("C29")["kv_gib"], rel=0.005)
    old = imported(MODELS["hugging-quants/Meta-Llama-3.1-405B-Instruct-AWQ-INT4"], tokens)
    assert old["kv_bytes_per_sequence"] / GIB == pytest.approx(123.05, rel=0.005)  # the trap


def test_c31_a_hybrid_keeps_a_cache_in_a_quarter_of_its_layers() -> None:
    want, said = expected("C31"), CASES["C31"]["inputs"]
    model = imported(config("Qwen3.6-27B"), said["cells"])
    full = [run for run in model["shape"]["cache"] if run["kind"] == "full"]
    assert [run["layers"] for run in full] == [said["attention_layers"]]
    assert model["kv_bytes_per_token"] * said["cells"] / 2**20 == want["kv_mib"]
    state = model["kv_bytes_per_sequence"] - model["kv_bytes_per_token"] * said["cells"]
    # recurrent: 48 layers x 48 heads x 128 x 128 in 32 bits; convolution: 3 inputs of 10,240,
    # which that engine keeps in 32 bits and this model, as vLLM, in 16
    recurrent, convolution = 48 * 48 * 128 * 128 * 4, 48 * 3 * 10_240 * 2
    assert state == recurrent + convolution
    theirs = want["sequences"] * (recurrent + 2 * convolution) / 2**20
    assert theirs == want["recurrent_state_mib"]


def test_c40_five_users_at_128k() -> None:
    users, context = CASES["C40"]["inputs"]["users"], CASES["C40"]["inputs"]["context"]

    def at_once(gpu: str, size: int, cache: str) -> int:
        ran = optimise(
            *("fit", "llama-3.1-70b", "--gpu", gpu, "--weights", "int8", "--context", context),
            *("--tensor-parallel", size, "--kv-cache", cache, "--format", "json"),
        )
        return int(ran.data["max_sequences"])

    found = fit(
        "llama-3.1-70b", "h200", "--weights", "int8", "--tensor-parallel", 2, "--context", context
    )
    per_user = found["kv_bytes_per_token_per_gpu"] * 2 * context
    assert users * per_user / GIB == expected("C40")["kv_gib_fp16_total"]
    weights = found["weight_gib_per_gpu"] * 2
    assert weights == pytest.approx(expected("C40")["weights_gib"], abs=0.05)
    assert at_once("h100-sxm", 4, "fp8") >= users
    assert at_once("h100-sxm", 2, "fp16") < users
    assert at_once("h100-sxm", 2, "fp8") < users
    assert at_once("h200", 2, "fp16") < users <= at_once("h200", 2, "fp8")
    ran = optimise("fit", "llama-3.1-70b", "--gpu", "h100-sxm", "--tensor-parallel", 3)
    assert (ran.code, ran.out) == (1, "")
    assert "3 does not divide 64 attention heads" in ran.err


def test_c42_a_hundred_users_need_more_than_one_gpu() -> None:
    want, said = expected("C42"), CASES["C42"]["inputs"]
    users, context = said["concurrent"], said["tokens_each"]
    found = fit("llama-2-13b", "a100-sxm-80gb", "--tensor-parallel", 1, "--context", context)
    assert found["weight_gib_per_gpu"] == pytest.approx(want["weights_gib"], abs=0.005)
    per_user = found["kv_bytes_per_token_per_gpu"] * context / GIB
    assert (per_user, users * per_user) == (want["kv_gib_per_seq"], want["kv_gib_total"])
    assert found["max_sequences"] < users
    short = fit("llama-2-13b", "a100-sxm-80gb", "--tensor-parallel", 1, "--context", 550)
    longer = fit("llama-2-13b", "a100-sxm-80gb", "--tensor-parallel", 1, "--context", 700)
    assert longer["max_sequences"] < users <= short["max_sequences"]


def test_c44_fp8_on_an_a100_halves_memory_and_not_time() -> None:
    note = (
        "a100-sxm-80gb has no fp8 figure: fp8 weights take their own bytes but compute at its "
        "16-bit rate"
    )
    at = ("--tensor-parallel", 2, "--context", 8192)
    whole = fit("llama-3.1-70b", "a100-sxm-80gb", *at)
    half = fit("llama-3.1-70b", "a100-sxm-80gb", *at, "--weights", "fp8")
    # embedding and head, 2 x 128256 x 8192, stay in 16 bits
    kept = 2 * 128_256 * 8192
    assert half["weight_gib_per_gpu"] * 2 * GIB == pytest.approx(70_553_706_496 + kept)
    assert note in half["assumed"]
    assert note not in whole["assumed"]
    assert not any("fp8 figure" in line for line in fit("llama-3.1-70b", "h100-sxm")["assumed"])
    a100 = catalogue().gpu("a100-sxm-80gb")
    assert a100.flops_per_s(WEIGHT_FORMATS["fp8"]) == a100.flops_per_s(WEIGHT_FORMATS["fp16"])


def test_c46_an_unknown_gpu_is_no_other_gpu(tmp_path: Path) -> None:
    ran = optimise("fit", "llama-3.1-8b", "--gpu", "rtx-8000", "--format", "json")
    assert ran.code == 1
    assert "unknown GPU 'rtx-8000'" in ran.err
    assert "fits" not in ran.data
    near = optimise("fit", "llama-3.1-8b", "--gpu", "h10-sxm", "--format", "json")
    assert "h100-sxm" in near.data["errors"][0]["nearest"]
    (tmp_path / "gpus").mkdir()
    path = written(tmp_path / "gpus", "name: rtx-8000\nmemory_gb: 48\n", "rtx-8000.yaml")
    ran = optimise("fit", "llama-3.1-8b", "--gpu", "rtx-8000", "--catalogue", tmp_path)
    assert ran.code == 1
    for field in ("bandwidth_gb_per_s", "tflops"):
        assert f"error: {path}:1: {field}: missing" in ran.err


def brief(
    traffic: str, model: str, gpu: str, sizes: list[int], most: int, much: int, **levers: Any
) -> Case:
    said = {
        "name": "most-traffic",
        "brief": {
            traffic: much if traffic == "concurrent_users" else much / 100,
            "prompt_tokens": 500,
            "answer_tokens": 200,
            "ttft_target_s": 100,
            "tpot_target_ms": 1000,
        },
        "model": model,
        "hardware": {"gpus": [gpu], "usd_per_gpu_hour": 1.0},
        "levers": {"tensor_parallel": sizes, **levers},
        "assumptions": {"memory": "itemised", "headroom": 1.0},
        "limits": {"most_gpus": most},
    }
    return Case.of_text(yaml.safe_dump(said))


def best_layout(
    traffic: str, model: str, gpu: str, sizes: list[int], most: int, **levers: Any
) -> tuple[int, int]:
    """Replicas and their size where so many GPUs serve the most traffic, by bisection."""
    best, low, high = None, 1, 4096
    while low < high:
        middle = (low + high + 1) // 2
        outcome = plan(brief(traffic, model, gpu, sizes, most, middle, **levers))
        if isinstance(outcome, Planned):
            best, low = outcome.design, middle
        else:
            high = middle - 1
    assert best is not None
    return best.replicas, best.configuration.tensor_parallel


def test_c12_six_small_gpus() -> None:
    path = config("Qwen1.5-32B-Chat")
    assert fit(path, "t4", "--weights", "int4", "--context", 2048)["tensor_parallel"] == 2
    ran = optimise("fit", path, "--gpu", "t4", "--weights", "int4", "--tensor-parallel", 6)
    assert (ran.code, ran.out) == (1, "")
    assert "6 does not divide 40 attention heads; legal: 1, 2, 4, 8" in ran.err
    # the most requests: 4 and 2 idle would hold more sequences, but compute at two thirds
    layout = best_layout("requests_per_s", path, "t4", [1, 2, 4, 6], 6, weights="int4")
    assert layout == (3, 2)  # 3 replicas of 2


def test_c41_eight_replicas_of_one() -> None:
    path = config("Qwen2-7B-Instruct")
    ran = optimise("fit", path, "--gpu", "a100-sxm-80gb", "--tensor-parallel", 8)
    assert (ran.code, ran.out) == (1, "")
    assert "8 does not divide 28 attention heads; legal: 1, 2, 4" in ran.err
    # a vLLM server on an A100 runs 256 sequences at once
    most = {"most": 256}
    layout = best_layout("concurrent_users", path, "a100-sxm-80gb", [1, 2, 4, 8], 8, batch=most)
    assert layout == (8, 1)


def test_c41_the_illegal_size_alone_is_refused(tmp_path: Path) -> None:
    path = config("Qwen2-7B-Instruct")
    case = brief("concurrent_users", path, "a100-sxm-80gb", [8], 8, 10)
    text = yaml.safe_dump(case.model_dump(mode="json", exclude_unset=True))
    file = written(tmp_path, text)
    line = next(n for n, said in enumerate(text.splitlines(), 1) if "tensor_parallel" in said)
    why = "8 does not divide 28 attention heads; legal: 1, 2, 4"
    refused(file, f"{line}: levers.tensor_parallel: {why}")
