"""`optimise fit`: its notes, its boundaries, its mistakes; formats by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from optimiser.catalogue.formats import CACHE_FORMATS, WEIGHT_FORMATS
from optimiser.catalogue.gpu import Gpu
from optimiser.catalogue.hf_import import llm_of_config
from optimiser.engine.itemised import StepSize, default_step
from optimiser.engine.memory import dense_and_expert_bytes
from tests.cli.running import optimise, written
from tests.memory.measured import config

H100 = ("--gpu", "h100-sxm", "--tensor-parallel", 1)


def fit(model: str, *options: object) -> dict[str, Any]:
    data: dict[str, Any] = optimise("fit", model, *options, "--format", "json").data
    return data


BYTES_BY_HAND = {
    "fp32": 4,
    "fp16": 2,
    "fp8": 1,
    "fp8-block": 1 + 4 / 16_384,  # one fp32 scale for each 128 x 128 weights
    "int8": 1,
    "w8a8-int8": 1,
    "mxfp4": 17 / 32,  # 32 numbers of 4 bits and one of 8: 16 + 1 bytes
    "nvfp4": 9 / 16,  # 16 numbers of 4 bits and one of 8: 8 + 1 bytes
    "int4": 0.5,
    # a group's numbers, a 16-bit scale and a 4-bit zero point
    "int4-g128": (64 + 2 + 0.5) / 128,
    "int4-g64": (32 + 2 + 0.5) / 64,
    "int4-g32": (16 + 2 + 0.5) / 32,
}


def test_bytes_of_a_number() -> None:
    assert {n: fmt.bytes_per_number for n, fmt in WEIGHT_FORMATS.items()} == BYTES_BY_HAND
    cache = {n: fmt.bytes_per_number for n, fmt in CACHE_FORMATS.items()}
    assert cache == {"fp16": 2, "fp8": 1, "int8": 1}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Qwen3-8B: 8,190,735,360 parameters, of which embedding and head 2 x 151936 x 4096
        ("fp16", 8_190_735_360 * 2),
        ("fp8", 8_190_735_360 + 2 * 151_936 * 4096),
        ("w8a8-int8", 8_190_735_360 + 2 * 151_936 * 4096),
        ("int8", 8_190_735_360),  # the page's: every parameter
        ("int4", 8_190_735_360 // 2),
        ("int4-g128", 6_946_075_648 * 66.5 / 128 + 2 * 151_936 * 4096 * 2),
    ],
)
def test_what_stays_unquantised(name: str, expected: float) -> None:
    llm = llm_of_config(Path(config("Qwen3-8B")))
    assert sum(dense_and_expert_bytes(llm, WEIGHT_FORMATS[name])) == pytest.approx(expected)
    said = fit(config("Qwen3-8B"), *H100, "--weights", name)
    assert said["weight_gib_per_gpu"] == pytest.approx(expected / 2**30)


def test_mxfp4_is_of_the_experts_alone() -> None:
    llm = llm_of_config(Path(config("gpt-oss-20b")))
    dense, experts = dense_and_expert_bytes(llm, WEIGHT_FORMATS["mxfp4"])
    matrices = 24 * 32 * 3 * 2880 * 2880
    biases = 24 * 32 * 3 * 2880
    assert experts == pytest.approx((matrices * 17 / 32 + biases * 2) * 3072 / 2880)
    assert dense == (llm.params - matrices - biases) * 2


@pytest.mark.parametrize(
    ("gpu", "weights", "note"),
    [
        ("a100-sxm-80gb", "fp8", "a100-sxm-80gb has no fp8 figure"),
        ("h100-sxm", "fp8", None),
        ("l4", "fp8", None),
        ("h100-sxm", "mxfp4", "h100-sxm has no fp4 figure"),
        ("b200", "mxfp4", None),
        ("t4", "fp16", "t4 has no bf16: 16-bit weights and arithmetic are fp16"),
        ("t4", "int4", "t4 has no bf16: 16-bit weights and arithmetic are fp16"),
        ("v100-32gb", "bf16", "v100-32gb has no bf16: 16-bit weights and arithmetic are fp16"),
        ("a10g", "bf16", None),
    ],
)
def test_arithmetic_that_a_gpu_lacks_is_said(gpu: str, weights: str, note: str | None) -> None:
    assumed = fit("llama-3.1-8b", "--gpu", gpu, "--weights", weights)["assumed"]
    notes = [line for line in assumed if " has no " in line]
    assert (note is None) == (not notes)
    assert note is None or any(line.startswith(note) for line in notes)


@pytest.mark.parametrize(
    ("gpu", "step"),
    [
        ("h100-sxm", StepSize(8192, 1024)),
        ("mi300x", StepSize(8192, 1024)),
        ("rtx-pro-6000", StepSize(8192, 1024)),
        ("a100-sxm-80gb", StepSize(2048, 256)),
        ("l40s", StepSize(2048, 256)),
    ],
)
def test_what_a_server_puts_into_a_step(gpu: str, step: StepSize) -> None:
    from optimiser.catalogue.load import catalogue

    assert default_step(catalogue().gpu(gpu)) == step


def test_an_a100_by_another_name_is_one() -> None:
    mine = Gpu(name="my-A100", memory_gb=85, bandwidth_gb_per_s=2000, tflops={"fp16": 312})
    assert default_step(mine) == StepSize(2048, 256)


def test_every_term_of_one_fit_by_hand() -> None:
    # Llama-3.1-8B on one H100: 8,030,261,248 parameters, 2 x 8 x 128 x 32 x 2 bytes a token
    said = fit("llama-3.1-8b", *H100, "--context", 16_000)
    device = 79.18
    sampler = (39 * 1024 * 128_256 + 2 * 8192 * 4096) / 2**30
    mlp = 2 * 8192 * (3 * 14_336 + 3 * 4096) / 2**30
    assert sampler > mlp
    weights = 8_030_261_248 * 2 / 2**30
    left = 0.9 * device - weights - sampler - 0.13
    terms = {term["name"]: term["gib"] for term in said["terms"]}
    assert terms == pytest.approx(
        {
            "device": device,
            "outside the budget": -0.1 * device,
            "weights": -weights,
            "activation peak": -sampler,
            "non-torch": -0.13,
            "CUDA graphs": 0,
            "left for the KV cache": left,
        }
    )
    assert said["kv_tokens"] == pytest.approx(left * 2**30 / 131_072)
    assert said["max_sequences"] == int(left * 2**30 / 131_072 / 16_000)
    assert said["largest_context"] == 131_072  # the model's own
    assert said["shortfall_gib"] == 0


def test_a_long_prompt_in_one_step_outweighs_the_sampler() -> None:
    said = fit("llama-3.1-8b", *H100, "--max-num-batched-tokens", 131_072, "--max-num-seqs", 1)
    mlp = 2 * 131_072 * (3 * 14_336 + 3 * 4096) / 2**30
    assert said["terms"][3] == {"name": "activation peak", "gib": pytest.approx(-mlp)}


def test_what_is_lacking_and_the_largest_context() -> None:
    context = 131_072
    ran = optimise("fit", "llama-3.1-8b", "--gpu", "l4", "--tensor-parallel", 1, "--format", "json")
    said = ran.data
    assert (ran.code, said["fits"], said["max_sequences"]) == (3, False, 0)
    assert said["context"] == context
    lacking = context * 131_072 / 2**30 - said["kv_gib_per_gpu"]
    assert said["shortfall_gib"] == pytest.approx(lacking)
    largest = said["largest_context"]
    assert 0 < largest < context
    at = ("--gpu", "l4", "--tensor-parallel", 1, "--context")
    assert optimise("fit", "llama-3.1-8b", *at, largest).code == 0
    assert optimise("fit", "llama-3.1-8b", *at, largest + 1).code == 3


def test_weights_that_do_not_fit_leave_less_than_nothing() -> None:
    at = ("--gpu", "t4", "--tensor-parallel", 1)
    ran = optimise("fit", "llama-3.1-70b", *at, "--format", "json")
    assert ran.code == 3
    assert ran.data["kv_gib_per_gpu"] < 0
    assert (ran.data["kv_tokens"], ran.data["largest_context"]) == (0, 0)
    text = optimise("fit", "llama-3.1-70b", *at)
    assert text.code == 3
    assert "does not fit: a sequence of 131,072 tokens lacks" in text.out


def test_a_context_beyond_the_models_is_said() -> None:
    assumed = fit("llama-3.1-8b", *H100, "--context", 200_000)["assumed"]
    assert "context 200000 is beyond the model's longest, 131072" in assumed


def test_fp8_cache_holds_twice_as_much() -> None:
    whole, half = fit("llama-3.1-8b", *H100), fit("llama-3.1-8b", *H100, "--kv-cache", "fp8")
    assert half["kv_tokens"] == pytest.approx(2 * whole["kv_tokens"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("llama-3.1-8", "--gpu", "l4"), "unknown model 'llama-3.1-8'"),
        (("llama-3.1-8b", "--gpu", "l5"), "unknown GPU 'l5'"),
        (("llama-3.1-8b", "--gpu", "l4", "--weights", "fp9"), "unknown format 'fp9'"),
        (("llama-3.1-8b", "--gpu", "l4", "--kv-cache", "fp4"), "unknown format 'fp4'"),
        (("./no/config.json", "--gpu", "l4"), "no such file"),
    ],
)
def test_mistakes_are_named(arguments: tuple[object, ...], message: str) -> None:
    ran = optimise("fit", *arguments)
    assert (ran.code, ran.out) == (1, "")
    assert message in ran.err


def test_a_format_that_is_only_stored_is_named(tmp_path: Path) -> None:
    data = json.loads(Path(config("Meta-Llama-3-8B")).read_text())
    data["quantization_config"] = {"quant_method": "awq", "bits": 4, "group_size": 256}
    path = written(tmp_path, json.dumps(data), "config.json")
    ran = optimise("fit", path, "--gpu", "l4")
    assert (ran.code, ran.out) == (1, "")
    assert "is stored in int4-g256; say what to count with --weights" in ran.err
    assert optimise("fit", path, "--gpu", "l4", "--weights", "int4-g128").code in (0, 3)


@pytest.mark.parametrize(
    "option",
    [
        ("--tensor-parallel", 0),
        ("--context", 0),
        ("--memory-utilization", 0),
        ("--memory-utilization", 1.1),
        ("--max-num-seqs", 0),
        ("--max-num-batched-tokens", -1),
    ],
)
def test_options_out_of_range_are_usage_errors(option: tuple[object, ...]) -> None:
    assert optimise("fit", "llama-3.1-8b", "--gpu", "l4", *option).code == 2
