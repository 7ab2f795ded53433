"""Sizes that cannot split a model: named, with the legal ones, and without any figure."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from optimiser import Case, plan
from optimiser.catalogue.llm import CacheLayers, Llm
from optimiser.engine.memory import kv_bytes
from optimiser.errors import CaseError
from optimiser.planning.legal import legal_sizes, why_illegal
from optimiser.planning.planner import Planned
from tests.cli.running import optimise, written
from tests.memory.measured import config

BASE: dict[str, Any] = {
    "name": "m",
    "params": 1e9,
    "layers": 4,
    "attention_heads": 28,
    "kv_heads": 4,
    "head_dim": 128,
}


def model(**changes: Any) -> Llm:
    return Llm.model_validate({**BASE, **changes})


def sizes(llm: Llm, node: int, weights: str = "fp16") -> list[int]:
    return legal_sizes(llm, weights, llm.kv_heads, node)


def test_28_heads_with_4_kv_heads() -> None:
    # 7 and 14 divide 28 but neither divide 4 nor are divided by it; 28 is 7 x 4
    assert sizes(model(), 8) == [1, 2, 4]
    assert sizes(model(), 32) == [1, 2, 4, 28]
    assert sizes(model(ffn_size=18_944), 32) == [1, 2, 4]  # 18944 / 28 is no whole number


def test_71_heads_and_one_kv_head() -> None:
    falcon = model(attention_heads=71, kv_heads=1)
    assert sizes(falcon, 8) == [1]
    assert sizes(falcon, 71) == [1, 71]


@pytest.mark.parametrize(
    ("heads", "kv_heads", "legal"),
    [
        (64, 8, [1, 2, 4, 8]),
        (64, 64, [1, 2, 4, 8]),
        (40, 40, [1, 2, 4, 5, 8]),
        (40, 8, [1, 2, 4, 8]),  # 5 divides 40 heads but not 8 KV heads
        (12, 2, [1, 2, 4, 6]),
        (96, 8, [1, 2, 4, 8]),  # 3 and 6 do not go with 8
        (32, 1, [1, 2, 4, 8]),
        (128, 1, [1, 2, 4, 8]),
    ],
)
def test_attention_and_kv_heads(heads: int, kv_heads: int, legal: list[int]) -> None:
    assert sizes(model(attention_heads=heads, kv_heads=kv_heads), 8) == legal


def test_a_model_without_attention_has_no_heads_to_divide() -> None:
    state = CacheLayers(layers=4, kind="state", state_bytes=1024)
    mamba = model(attention_heads=0, kv_heads=0, head_dim=0, cache=(state,), ffn_size=5120)
    assert sizes(mamba, 8) == [1, 2, 4, 5, 8]


@pytest.mark.parametrize(
    ("changes", "weights", "size", "why"),
    [
        ({}, "fp16", 8, "8 does not divide 28 attention heads"),
        ({}, "fp16", 7, "7 neither divides 4 KV heads nor is divided by them"),
        ({"ffn_size": 18_946}, "fp16", 4, "4 does not divide the MLP width 18946"),
        ({"expert_ffn_size": 766}, "fp16", 4, "4 does not divide the expert width 766"),
        (
            {"ffn_size": 18_944},
            "fp8-block",
            4,
            None,  # 18944 / 4 = 4736 = 37 x 128
        ),
        (
            {"ffn_size": 18_944, "expert_ffn_size": 768},
            "fp8-block",
            4,
            "expert width 768 / 4 = 192 is not a multiple of the block 128",
        ),
        ({"expert_ffn_size": 768}, "fp8", 4, None),  # a scale for each channel: nothing to cut
        ({"expert_ffn_size": 700}, "fp8-block", 1, None),  # one GPU cuts nothing
    ],
)
def test_what_did_not_divide_is_named(
    changes: dict[str, Any], weights: str, size: int, why: str | None
) -> None:
    llm = model(**changes)
    assert why_illegal(llm, weights, llm.kv_heads, size, 32) == why


def test_more_than_a_node_is_refused() -> None:
    llm = model(attention_heads=64, kv_heads=8)
    why = "16 is more than the 8 GPUs of a node; replicas across nodes are refused"
    assert why_illegal(llm, "fp16", 8, 16, 8) == why
    assert why_illegal(llm, "fp16", 8, 16, 16) is None


@pytest.mark.parametrize(("size", "held"), [(1, 8), (2, 4), (4, 2), (8, 1), (16, 1), (32, 1)])
def test_kv_heads_are_shared_out_and_then_repeated(size: int, held: int) -> None:
    llm = model(attention_heads=64, kv_heads=8)
    assert kv_bytes(llm, 8, 2, size, 100) == 2 * held * 128 * 4 * 2 * 100


def test_a_latent_cache_is_kept_whole_by_each_gpu() -> None:
    latent = CacheLayers(layers=61, kind="latent", kv_heads=1, head_dim=576, numbers_per_token=576)
    llm = model(attention_heads=128, kv_heads=1, head_dim=192, cache=(latent,))
    assert {kv_bytes(llm, 1, 2, size, 1000) for size in (1, 2, 8)} == {61 * 576 * 2 * 1000}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("qwen2.5-7b", (8,), "8 does not divide 28 attention heads; legal: 1, 2, 4"),
        ("qwen2.5-7b", (7,), "7 neither divides 4 KV heads nor is divided by them; legal: 1, 2, 4"),
        ("falcon-7b", (2,), "2 does not divide 71 attention heads; legal: 1"),
        (
            "llama-3.1-70b",
            (16,),
            "16 is more than the 8 GPUs of a node; replicas across nodes are refused; "
            "legal: 1, 2, 4, 8",
        ),
        (
            "qwen3-30b-a3b",
            (4, "--weights", "fp8-block"),
            "width 768 / 4 = 192 is not a multiple of the block 128; legal: 1, 2",
        ),
    ],
)
def test_fit_refuses_and_prints_no_figures(
    name: str, options: tuple[object, ...], message: str
) -> None:
    arguments = ("fit", name, "--gpu", "h100-sxm", "--tensor-parallel", *options)
    ran = optimise(*arguments)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: --tensor-parallel: ")
    assert ran.err.endswith(f"{message}\n")
    as_json = optimise(*arguments, "--format", "json")
    assert as_json.code == 1
    assert set(as_json.data) == {"status", "errors"}
    assert as_json.data["errors"][0]["where"] == "--tensor-parallel"
    assert as_json.data["errors"][0]["message"].endswith(message)


def test_fit_finds_the_smallest_legal_size_that_fits() -> None:
    def size(*options: object) -> object:
        return optimise("fit", *options, "--format", "json").data["tensor_parallel"]

    assert size("llama-3.1-70b", "--gpu", "h100-sxm", "--context", 16_000) == 4
    assert size("llama-3.1-70b", "--gpu", "h200", "--context", 4000) == 2
    # 3 or 5 GPUs would do where 2 do not: they are not legal
    assert size(config("Qwen1.5-32B-Chat"), "--gpu", "l4", "--context", 2048) == 4


CASE = {
    "name": "sizes",
    "brief": {
        "requests_per_s": 1,
        "prompt_tokens": 1000,
        "answer_tokens": 100,
        "ttft_target_s": 10,
        "tpot_target_ms": 100,
    },
    "model": "qwen2.5-7b",
    "hardware": {"gpus": ["h100-sxm"], "usd_per_gpu_hour": 2.0},
}


def case(tensor_parallel: object, **levers: Any) -> str:
    return yaml.safe_dump({**CASE, "levers": {"tensor_parallel": tensor_parallel, **levers}})


def test_a_list_drops_illegal_sizes_with_the_reason(tmp_path: Path) -> None:
    path = written(tmp_path, case([1, 2, 3, 8]))
    ran = optimise(path, "--no-levers", "--format", "json")
    assert ran.code == 0
    assert ran.data["design"]["tensor_parallel"] in (1, 2)
    assert ran.data["excluded"] == [
        {
            "what": "tensor parallel 3 on h100-sxm",
            "why": "3 does not divide 28 attention heads",
        },
        {
            "what": "tensor parallel 8 on h100-sxm",
            "why": "8 does not divide 28 attention heads",
        },
    ]
    text = optimise(path, "--no-levers").out
    assert "3 does not divide 28 attention heads" in text


@pytest.mark.parametrize("size", [8, [8], [3, 8]])
def test_a_case_of_illegal_sizes_alone_is_an_error(tmp_path: Path, size: object) -> None:
    path = written(tmp_path, case(size))
    ran = optimise(path, "--format", "json")
    assert ran.code == 1
    assert set(ran.data) == {"status", "errors"}
    error = ran.data["errors"][0]
    assert error["field"] == "levers.tensor_parallel"
    assert "8 does not divide 28 attention heads" in error["message"]
    assert error["message"].endswith("legal: 1, 2, 4")
    assert optimise(path).out == ""


def test_a_size_that_only_some_formats_allow_is_left_out_for_the_others() -> None:
    text = case([4], weights=["fp8-block", "fp16"]).replace("qwen2.5-7b", "qwen3-30b-a3b")
    outcome = plan(Case.of_text(text))
    assert isinstance(outcome, Planned)
    assert outcome.design.configuration.weights == "fp16"
    assert any("is not a multiple of the block 128" in why for _, why in outcome.excluded)


def test_sizes_of_the_library_are_errors_too() -> None:
    with pytest.raises(CaseError, match="legal: 1, 2, 4"):
        plan(Case.of_text(case(8)))
