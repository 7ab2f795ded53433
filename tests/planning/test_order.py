"""The order among designs of equal cost, one step of it at a time, by hand.

A tenth of a request a second needs one replica of anything here, so that everything ties on cost.
"""

import pytest

from optimiser import Planned, plan
from tests.strategies import case_of


def chosen(
    levers: dict[str, object], gpus: dict[str, dict[str, object]] | None = None, own: int = 8
) -> tuple[object, ...]:
    """Weights, cache, KV heads, GPU, GPUs of a replica, batch; 2e9 parameters on 80 GB."""
    base = {
        "memory_gb": 80.0,
        "bandwidth_gb_per_s": 2000.0,
        "tflops": {"fp16": 300.0},
        "usd_per_hour": 2.0,
    }
    data = {
        "name": "ties",
        "brief": {
            "requests_per_s": 0.1,
            "prompt_tokens": 500,
            "answer_tokens": 100,
            "ttft_target_s": 5.0,
            "tpot_target_ms": 100.0,
        },
        "model": {
            "name": "small",
            "params": 2e9,
            "layers": 20,
            "attention_heads": 32,
            "kv_heads": own,
            "head_dim": 128,
        },
        "hardware": {
            "gpus": [{"name": name, **base, **own} for name, own in (gpus or {"one": {}}).items()]
        },
        "levers": {"batch": {"most": 4}, **levers},
    }
    found = set()
    for solver in ("cp-sat", "highs", "cbc"):
        outcome = plan(case_of(data), solver_name=solver)
        assert isinstance(outcome, Planned)
        design = outcome.design
        c = design.configuration
        assert outcome.status == "optimal"
        found.add((c.weights, c.kv_cache, c.kv_heads, c.gpu.name, c.tensor_parallel, design.batch))
    (only,) = found
    return only


HALF = {"usd_per_hour": 1.0}


def test_the_models_own_heads_before_everything() -> None:
    levers = {"kv_heads": [4, 8, 16], "weights": ["int4", "fp16"], "kv_cache": ["int8", "fp16"]}
    assert chosen(levers) == ("fp16", "fp16", 8, "one", 1, 4)
    # one step away on the GPUs with 16-bit weights loses to no step away with int4 (the GPU with
    # room for 2 GB only: 16-bit weights take 4 GB, int4 weights 1 GB)
    small = {"small": {"memory_gb": 2.0}}
    assert chosen({"kv_heads": [8, 4], "weights": ["fp16", "int4"]}, small)[:3] == (
        "int4",
        "fp16",
        8,
    )


@pytest.mark.parametrize(
    ("heads", "best"),
    [([2, 4], 4), ([32, 4], 4), ([1, 32], 32), ([4, 16], 16), ([16, 4], 16), ([1, 2], 2)],
)
def test_fewest_steps_from_the_models_own_then_more_heads(heads: list[int], best: int) -> None:
    # from 8: 4 and 16 are one step, 2 and 32 two, 1 three
    assert chosen({"kv_heads": heads})[2] == best


@pytest.mark.parametrize(
    ("weights", "best"),
    [
        (["int4", "int8", "fp16"], "fp16"),
        (["int4", "int8"], "int8"),
        (["int8", "fp8"], "fp8"),  # alike: the catalogue's order
        (["fp16", "fp32"], "fp32"),  # nothing is removed by either: the catalogue's order
    ],
)
def test_fewest_weight_bits_removed(weights: list[str], best: str) -> None:
    assert chosen({"weights": weights})[0] == best


@pytest.mark.parametrize(("cache", "best"), [(["int8", "fp16"], "fp16"), (["int8", "fp8"], "fp8")])
def test_fewest_cache_bits_removed(cache: list[str], best: str) -> None:
    assert chosen({"kv_cache": cache})[1] == best


def test_more_bits_than_16_are_worth_no_more_than_16() -> None:
    """Of two that remove nothing, the larger batch decides."""
    # 9.0 x 0.9 = 8.1 GB leave 100 MB beside fp32 weights: 2 requests of 600 x 81,920 = 49 MB
    small = {"small": {"memory_gb": 9.0}}
    assert chosen({"weights": ["fp32", "fp16"]}, small) == ("fp16", "fp16", 8, "small", 1, 4)
    assert chosen({"weights": "fp32"}, small) == ("fp32", "fp16", 8, "small", 1, 2)


def test_weight_bits_before_cache_bits() -> None:
    # 4.5 x 0.9 = 4.05 GB leave 50 MB beside 16-bit weights: one request of 49 MB, or two of 25
    assert chosen({"kv_cache": ["fp16", "int8"]}, {"small": {"memory_gb": 4.5}})[1] == "fp16"
    # where only one of the two can be kept, it is the weights': 4.48 x 0.9 = 4.032 GB leave 32 MB,
    # for no request of 49 MB and for one of 25
    tight = {"small": {"memory_gb": 4.48}}
    levers = {"weights": ["fp16", "int8"], "kv_cache": ["fp16", "int8"]}
    assert chosen(levers, tight)[:2] == ("fp16", "int8")


def test_fewest_gpus_then_smallest_tensor_parallel() -> None:
    # two of the cheap GPU cost as much as one of the dear one
    pair = {"cheap": {**HALF, "memory_gb": 3.0}, "dear": {}}
    # 16-bit weights do not fit 3 GB on one, but do on two
    assert chosen({"tensor_parallel": [2, 1]}, pair)[3:5] == ("dear", 1)
    assert chosen({"tensor_parallel": [2]}, {"one": {}})[4] == 2


def test_largest_batch_then_name_of_the_gpu() -> None:
    # 4.6 x 0.9 = 4.14 GB leave 140 MB: two requests of 49 MB
    assert chosen({}, {"able": {"memory_gb": 4.6}, "baker": {}})[3] == "baker"
    assert chosen({}, {"zeta": {}, "able": {}, "mike": {}})[3] == "able"
    assert chosen({}, {"able": {}, "zeta": {}, "mike": {}})[3] == "able"
    # the name comes before the order of formats
    levers = {"weights": ["int8", "fp8"]}
    assert chosen(levers, {"zeta": {}, "able": {}})[:4] == ("fp8", "fp16", 8, "able")
