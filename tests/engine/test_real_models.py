"""Models whose parts are told apart, by hand: experts, windows, latents, states, formats, memory.

Each figure is checked in the engine's columns and in the verifier's scalar code.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from optimiser import Case
from optimiser.catalogue.formats import WEIGHT_FORMATS
from optimiser.catalogue.llm import Llm
from optimiser.engine import itemised, memory, roofline
from optimiser.engine.replicas import Lengths, Replicas
from optimiser.errors import CaseError
from optimiser.planning.columns import columns
from optimiser.planning.configurations import configurations
from optimiser.planning.design import Design
from optimiser.planning.scalar import Replica, replica_of
from optimiser.planning.verify import verify
from tests.strategies import case_of

EXACT = 1e-12
GIB = 2**30

# 4 layers of 8 heads of 16; 4 KV heads: 2 x 4 x 16 = 128 numbers a token in a layer
DENSE: dict[str, Any] = {
    "name": "small",
    "params": 1_000_000,
    "layers": 4,
    "attention_heads": 8,
    "kv_heads": 4,
    "head_dim": 16,
    "embedding_params": 100_000,
    "head_params": 60_000,
    "hidden_size": 128,
    "ffn_size": 512,
    "vocab_size": 1000,
}
# of the million, 3 layers x 8 experts x 25,000 = 600,000 are routed
EXPERTS = {
    "params": 1_000_000,
    "active_params": 550_000,
    "expert_ffn_size": 2880,
    "experts": {"layers": 3, "count": 8, "per_token": 2, "params_each": 25_000},
}
FULL = {"kind": "full", "kv_heads": 4, "head_dim": 16, "numbers_per_token": 128}


def model(**changes: Any) -> Llm:
    return Llm.model_validate({**DENSE, **changes})


def case(
    llm: Mapping[str, Any] | None = None,
    levers: Mapping[str, Any] | None = None,
    assumptions: Mapping[str, Any] | None = None,
    memory_bytes: int = 10 * GIB,
) -> Case:
    """Prompts of 100 and answers of 40 tokens on 1 GB/s and 1 TFLOP/s (fp8: 2)."""
    return case_of(
        {
            "name": "small",
            "brief": {
                "requests_per_s": 1.0,
                "prompt_tokens": 100,
                "answer_tokens": 40,
                "ttft_target_s": 100.0,
                "tpot_target_ms": 1e6,
            },
            "model": {**DENSE, **(llm or {})},
            "hardware": {
                "gpus": [
                    {
                        "name": "slow",
                        "memory_bytes": memory_bytes,
                        "bandwidth_gb_per_s": 1.0,
                        "tflops": {"fp16": 1.0, "fp8": 2.0},
                        "usd_per_hour": 1.0,
                    }
                ]
            },
            "levers": {"batch": {"most": 100_000}, **(levers or {})},
            "assumptions": dict(assumptions or {}),
        }
    )


def both(of: Case) -> tuple[Replicas, Replica]:
    """The engine's row and the verifier's replica of a case with one configuration."""
    chosen = configurations(of).configurations
    assert len(chosen) == 1
    lengths = Lengths(of.brief.prompt_tokens, of.brief.answer_tokens)
    return columns(of, chosen, lengths), replica_of(of, Design(chosen[0], 1, 1))


def exactly(*values: float) -> Any:
    return pytest.approx(list(values), rel=EXACT)


# Experts.


@pytest.mark.parametrize("batch", [1, 2, 5, 40])
def test_distinct_experts_of_a_step(batch: int) -> None:
    """Of 8 experts with 2 a token, 8 x (1 - 0.75^b) are expected: 2, 3.5, 6.1, 8."""
    row, replica = both(case(EXPERTS))
    distinct = 8 * (1 - 0.75**batch)
    assert {1: 2.0, 2: 3.5}.get(batch, distinct) == distinct
    # 400,000 dense parameters and 3 layers of that many experts of 25,000, at two bytes
    read = 2 * (400_000 + 3 * distinct * 25_000)
    assert roofline.read_bytes(row, np.array([batch])) == exactly(read)
    assert replica.weight_read_bytes(batch) == pytest.approx(read, rel=EXACT)
    # all of them are held
    assert row.fixed_bytes == exactly(2e6)
    assert replica.weight_bytes == pytest.approx(2e6, rel=EXACT)


def test_experts_read_for_a_prompt() -> None:
    row, replica = both(case(EXPERTS))
    read_s = (2 * 400_000 + 1_200_000 * (1 - 0.75**100)) / 1e9
    assert roofline.prefill_s(row, Lengths(100, 40)) == exactly(read_s)
    assert replica.prefill_read_s == pytest.approx(read_s, rel=EXACT)
    assert replica.prefill_s == replica.prefill_read_s > replica.prefill_compute_s


def test_arithmetic_is_of_the_active_parameters() -> None:
    row, replica = both(case(EXPERTS))
    # 550,000 active less the look-up of 100,000; attention 4 x 4 layers x 8 x 16 x 120 tokens
    token = 2 * 450_000 + 4 * 4 * 8 * 16 * 120
    assert row.decode_flops == exactly(token)
    assert replica.decode_flops == pytest.approx(token, rel=EXACT)
    # a prompt: each of 100 tokens sees 50 on average
    prompt = 100 * (2 * 450_000 + 4 * 4 * 8 * 16 * 50)
    assert row.prefill_flops == exactly(prompt)
    assert replica.prefill_flops == pytest.approx(prompt, rel=EXACT)


@pytest.mark.parametrize(
    ("changes", "multiplied"),
    [
        ({}, 900_000),  # all but the embedding
        ({"head_params": 0}, 1_000_000),  # tied: the embedding is the head, and multiplied
        ({"active_params": 300_000}, 200_000),
        ({"active_params": 300_000, "head_params": 0}, 300_000),
    ],
)
def test_parameters_of_a_product(changes: dict[str, Any], multiplied: int) -> None:
    assert model(**changes).matmul_params == multiplied
    row, replica = both(case(changes))
    attention = 4 * 4 * 8 * 16 * 120
    assert row.decode_flops == exactly(2 * multiplied + attention)
    assert replica.decode_flops == pytest.approx(2 * multiplied + attention, rel=EXACT)


def test_a_model_of_six_figures_has_no_attention_of_its_own() -> None:
    parts = ("embedding_params", "head_params", "hidden_size", "ffn_size", "vocab_size")
    six = dict.fromkeys(parts)
    row, replica = both(case(six))
    assert row.decode_flops.tolist() == [2e6]
    assert replica.decode_flops == 2e6
    assert row.prefill_flops.tolist() == [2e8]
    assert replica.prefill_flops == 2e8


def test_everything_is_shared_by_the_gpus() -> None:
    row, replica = both(case(EXPERTS, {"tensor_parallel": 2}))
    assert row.read_bytes == exactly(400_000)
    assert row.expert_bytes == exactly(600_000)
    assert row.expert_missed_frac == exactly(0.75)
    assert replica.weight_bytes == pytest.approx(1e6, rel=EXACT)
    assert replica.expert_bytes == pytest.approx(600_000, rel=EXACT)
    assert row.decode_flops == exactly((900_000 + 4 * 4 * 8 * 16 * 120) / 2)
    assert replica.decode_flops == pytest.approx(row.decode_flops[0], rel=EXACT)
    assert replica.prefill_flops == pytest.approx(row.prefill_flops[0], rel=EXACT)
    # 128 numbers x 4 layers x 2 bytes x 140 tokens, on two GPUs
    assert row.kv_held_bytes == exactly(128 * 4 * 2 * 140 / 2)
    assert replica.kv_held_bytes == pytest.approx(128 * 4 * 140, rel=EXACT)


# Caches.

LATENT = {"kind": "latent", "kv_heads": 1, "head_dim": 40, "numbers_per_token": 40}


@pytest.mark.parametrize(
    ("cache", "size", "held", "read"),
    [
        # 140 tokens are held, 120 read; 4 layers x 128 numbers x 2 bytes = 1,024 a token
        ([{"layers": 4, **FULL}], 1, 1024 * 140, 1024 * 120),
        ([{"layers": 4, **FULL}], 2, 512 * 140, 512 * 120),
        ([{"layers": 4, **FULL}], 8, 256 * 140, 256 * 120),  # 4 heads split four ways
        # 3 layers keep at most 50 tokens, one all
        (
            [{"layers": 3, **FULL, "kind": "window", "window_tokens": 50}, {"layers": 1, **FULL}],
            1,
            256 * (3 * 50 + 140),
            256 * (3 * 50 + 120),
        ),
        # a window between the two lengths
        ([{"layers": 4, **FULL, "kind": "window", "window_tokens": 130}], 1, 133_120, 122_880),
        ([{"layers": 4, **FULL, "kind": "chunk", "window_tokens": 64}], 1, 1024 * 64, 1024 * 64),
        ([{"layers": 4, **FULL, "kind": "chunk", "window_tokens": 1000}], 1, 143_360, 122_880),
        # latents: 40 numbers, once, on each GPU
        ([{"layers": 4, **LATENT}], 1, 4 * 40 * 2 * 140, 4 * 40 * 2 * 120),
        ([{"layers": 4, **LATENT}], 8, 4 * 40 * 2 * 140, 4 * 40 * 2 * 120),
        # states: whatever the length, and shared by all GPUs
        (
            [{"layers": 3, "kind": "state", "state_bytes": 6400}, {"layers": 1, **FULL}],
            1,
            3 * 6400 + 256 * 140,
            3 * 6400 + 256 * 120,
        ),
        (
            [{"layers": 3, "kind": "state", "state_bytes": 6400}, {"layers": 1, **FULL}],
            8,
            3 * 800 + 64 * 140,
            3 * 800 + 64 * 120,
        ),
    ],
)
def test_cache_by_kind(cache: list[dict[str, Any]], size: int, held: float, read: float) -> None:
    row, replica = both(case({"cache": cache}, {"tensor_parallel": size}))
    assert row.kv_held_bytes == exactly(held)
    assert row.kv_read_bytes == exactly(read)
    assert replica.kv_held_bytes == pytest.approx(held, rel=EXACT)
    assert replica.kv_read_bytes_per_sequence == pytest.approx(read, rel=EXACT)
    assert replica.kv_read_bytes(7) == pytest.approx(7 * read, rel=EXACT)


def test_a_state_does_not_shrink_with_the_cache_format() -> None:
    cache = [{"layers": 3, "kind": "state", "state_bytes": 6400}, {"layers": 1, **FULL}]
    row, replica = both(case({"cache": cache}, {"kv_cache": "int8"}))
    assert row.kv_held_bytes == exactly(3 * 6400 + 128 * 140)
    assert replica.kv_held_bytes == pytest.approx(3 * 6400 + 128 * 140, rel=EXACT)


@pytest.mark.parametrize(
    ("heads", "size", "held"),
    [
        # layers of 4 KV heads and of 2: at half the heads, 2 and 1
        (4, 1, 2 * (2 * 128 + 2 * 64) * 140),
        (2, 1, 2 * (2 * 64 + 2 * 32) * 140),
        (1, 1, 2 * (2 * 32 + 2 * 32) * 140),  # never less than one head
        (8, 1, 2 * (2 * 256 + 2 * 128) * 140),
        (2, 2, 2 * (2 * 32 + 2 * 32) * 140),  # two heads share out, one does not
        (4, 4, 2 * (2 * 32 + 2 * 32) * 140),
    ],
)
def test_kv_heads_scale_every_run_of_layers(heads: int, size: int, held: float) -> None:
    cache = [
        {"layers": 2, **FULL},
        {"layers": 2, "kind": "full", "kv_heads": 2, "head_dim": 16, "numbers_per_token": 64},
    ]
    row, replica = both(case({"cache": cache}, {"kv_heads": heads, "tensor_parallel": size}))
    assert row.kv_held_bytes == exactly(held)
    assert replica.kv_held_bytes == pytest.approx(held, rel=EXACT)


def test_kv_heads_of_the_page() -> None:
    six = {"embedding_params": None, "head_params": None}
    for heads, size, numbers in ((4, 1, 128), (2, 1, 64), (8, 2, 128), (2, 8, 32)):
        row, replica = both(case(six, {"kv_heads": heads, "tensor_parallel": size}))
        assert row.kv_held_bytes == exactly(numbers * 4 * 2 * 140)
        assert replica.kv_held_bytes == pytest.approx(numbers * 4 * 2 * 140, rel=EXACT)


@pytest.mark.parametrize(
    ("cache", "decode", "prefill"),
    [
        # 4 x layers x 8 heads x 16 x context: 120 in decoding, 50 on average in a prompt
        ([{"layers": 4, **FULL}], 4 * 4 * 128 * 120, 4 * 4 * 128 * 50),
        (
            [{"layers": 3, **FULL, "kind": "window", "window_tokens": 30}, {"layers": 1, **FULL}],
            4 * 128 * (3 * 30 + 120),
            4 * 128 * (3 * 30 + 50),
        ),
        ([{"layers": 4, **FULL, "kind": "chunk", "window_tokens": 60}], 122_880, 4 * 4 * 128 * 50),
        # each head works on the whole latent
        ([{"layers": 4, **LATENT}], 4 * 4 * 8 * 40 * 120, 4 * 4 * 8 * 40 * 50),
        # states attend to nothing
        (
            [{"layers": 3, "kind": "state", "state_bytes": 64}, {"layers": 1, **FULL}],
            4 * 128 * 120,
            4 * 128 * 50,
        ),
    ],
)
def test_arithmetic_of_attention(
    cache: list[dict[str, Any]], decode: float, prefill: float
) -> None:
    row, replica = both(case({"cache": cache}))
    assert row.decode_flops == exactly(1_800_000 + decode)
    assert replica.decode_flops == pytest.approx(1_800_000 + decode, rel=EXACT)
    assert row.prefill_flops == exactly(100 * (1_800_000 + prefill))
    assert replica.prefill_flops == pytest.approx(100 * (1_800_000 + prefill), rel=EXACT)


def test_a_cached_prefix_is_not_computed_again() -> None:
    row, replica = both(case(assumptions={"prefix_cached_frac": 0.75}))
    # 100 tokens that see 50 each, less 75 that see 37.5: what is left are 25 that see 87.5
    whole = 100 * (1_800_000 + 4 * 4 * 128 * 50)
    cached = 75 * (1_800_000 + 4 * 4 * 128 * 37.5)
    rest = 25 * (1_800_000 + 4 * 4 * 128 * 87.5)
    assert whole - cached == rest
    assert row.prefill_flops == exactly(rest)
    assert replica.prefill_flops == pytest.approx(rest, rel=EXACT)
    # memory and decoding stay
    plain, plain_replica = both(case())
    assert row.kv_held_bytes.tolist() == plain.kv_held_bytes.tolist()
    assert row.decode_flops.tolist() == plain.decode_flops.tolist()
    assert replica.step_s(3) == plain_replica.step_s(3)


# Formats.


@pytest.mark.parametrize(
    ("changes", "weights", "dense", "routed"),
    [
        ({}, "fp16", 2e6, 0),
        ({}, "fp32", 4e6, 0),
        # the page's take every parameter
        ({}, "int8", 1e6, 0),
        ({}, "int4", 5e5, 0),
        # embedding and head, 160,000, stay in 16 bits
        ({}, "fp8", 840_000 + 320_000, 0),
        ({}, "w8a8-int8", 840_000 + 320_000, 0),
        ({}, "int4-g128", 840_000 * 66.5 / 128 + 320_000, 0),
        ({}, "mxfp4", 840_000 * 17 / 32 + 320_000, 0),  # no experts: all else
        ({"embedding_params": None, "head_params": None}, "fp8", 1e6, 0),
        ({"head_params": 0}, "fp8", 900_000 + 200_000, 0),
        # what a checkpoint says it keeps in its own format, and no other
        ({"stored": {"format": "fp8", "params": 700_000}}, "fp8", 700_000 + 600_000, 0),
        ({"stored": {"format": "fp8", "params": 700_000}}, "w8a8-int8", 1_160_000, 0),
        # an index file's bytes, for the checkpoint's own format alone
        ({"weight_bytes": 2_100_000}, "fp16", 2_100_000, 0),
        ({"weight_bytes": 2_100_000}, "int8", 1e6, 0),
        ({"weight_bytes": 2_100_000}, "fp8", 1_160_000, 0),
        # experts: 600,000 of the million
        (EXPERTS, "fp16", 800_000, 1_200_000),
        (EXPERTS, "int8", 400_000, 600_000),
        (EXPERTS, "fp8", 240_000 + 320_000, 600_000),
        (EXPERTS, "nvfp4", 240_000 * 9 / 16 + 320_000, 600_000 * 9 / 16),
        # mxfp4 is of the experts alone, their width of 2,880 padded to 3,072
        (EXPERTS, "mxfp4", 800_000, 600_000 * 17 / 32 * 3072 / 2880),
        ({**EXPERTS, "expert_ffn_size": 2816}, "mxfp4", 800_000, 600_000 * 17 / 32),
        (
            # 550,000 of them quantised, 50,000 (biases, say) in 16 bits
            {**EXPERTS, "stored": {"format": "mxfp4", "params": 550_000}},
            "mxfp4",
            800_000,
            (550_000 * 17 / 32 + 100_000) * 3072 / 2880,
        ),
        ({**EXPERTS, "stored": {"format": "fp8", "params": 500_000}}, "fp8", 800_000, 700_000),
        (
            {**EXPERTS, "stored": {"format": "fp8", "params": 900_000}},
            "fp8",
            300_000 + 200_000,
            600_000,
        ),
        ({**EXPERTS, "weight_bytes": 2_050_000}, "fp16", 850_000, 1_200_000),
        ({**EXPERTS, "weight_bytes": 1_000_000}, "fp16", 0, 1_200_000),
    ],
)
def test_bytes_of_weights(
    changes: dict[str, Any], weights: str, dense: float, routed: float
) -> None:
    fmt = WEIGHT_FORMATS[weights]
    assert memory.dense_and_expert_bytes(model(**changes), fmt) == pytest.approx(
        (dense, routed), rel=EXACT
    )
    row, replica = both(case(changes, {"weights": weights}))
    assert row.read_bytes == exactly(dense)
    assert row.expert_bytes == exactly(routed)
    assert replica.weight_bytes == pytest.approx(dense + routed, rel=EXACT)
    assert replica.expert_bytes == pytest.approx(routed, rel=EXACT)
    # fp8 computes at its own rate; int8 and 4-bit rates are not there: 16 bits
    rate = 2e12 if weights == "fp8" else 1e12
    assert row.flops_per_s.tolist() == [rate]
    assert replica.flops_per_s == rate


@pytest.mark.parametrize(
    ("width", "frac"), [(None, 1), (256, 1), (257, 512 / 257), (2880, 16 / 15), (1, 256)]
)
def test_padding(width: int | None, frac: float) -> None:
    assert memory.padded_frac(model(expert_ffn_size=width)) == pytest.approx(frac, rel=EXACT)


# Itemised memory.


def test_the_two_moments_of_itemised_memory() -> None:
    of = case(
        assumptions={
            "memory": "itemised",
            "memory_utilization": 0.8,
            "max_num_batched_tokens": 1000,
        },
        memory_bytes=GIB,
    )
    row, replica = both(of)
    assert row.usable_bytes == exactly(0.8 * GIB)
    # computing: 2 bytes x 1000 tokens x 3 x (512 + 128); sampling: 2 x 1000 x 128, and 39 x 1000 a
    # sequence; both beside 2 MB of weights and the driver's 0.13 GiB
    assert row.fixed_bytes == exactly(2e6 + 0.13 * GIB + 3_840_000)
    assert row.sampler_fixed_bytes == exactly(2e6 + 0.13 * GIB + 256_000)
    assert row.sampler_bytes == exactly(39_000)
    assert row.read_bytes == exactly(2e6)  # working space is not read as weights
    # a sequence holds 1,024 x 140 bytes of cache; up to (3,840,000 - 256,000) / 39,000 = 91.9
    # sequences computing takes more
    kv = 1024 * 140
    assert replica.memory_bytes(91) == pytest.approx(row.fixed_bytes[0] + 91 * kv, rel=EXACT)
    assert replica.memory_bytes(92) == pytest.approx(
        row.sampler_fixed_bytes[0] + 92 * (kv + 39_000), rel=EXACT
    )
    # (0.8 - 0.13) GiB - 2.256 MB = 717.2 MB over 182,360 bytes a sequence: 3932.7
    fits = (0.67 * GIB - 2_256_000) / 182_360
    assert memory.largest_batch(row, 100_000).tolist() == [int(fits)] == [3932]
    assert replica.largest_batch == 3932


def test_computing_bounds_a_small_batch() -> None:
    of = case(
        assumptions={"memory": "itemised", "max_num_batched_tokens": 100_000},
        memory_bytes=GIB,
    )
    row, replica = both(of)
    # (0.9 - 0.13) GiB less 2 MB and 2 x 100,000 x 3 x 640 = 384 MB: 440.8 MB / 143,360 = 3074.9;
    # sampling: less 2 MB and 25.6 MB: 799.2 MB / 182,360 = 4382
    left = 0.77 * GIB - 2e6 - 384e6
    assert memory.largest_batch(row, 100_000).tolist() == [int(left / 143_360)] == [3074]
    assert replica.largest_batch == 3074


def test_two_gpus_share_the_mlp_and_take_more_beside_it() -> None:
    of = case(
        levers={"tensor_parallel": 2},
        assumptions={"memory": "itemised", "max_num_batched_tokens": 1000},
    )
    row, replica = both(of)
    # 0.55 GiB with communication; 2 x 1000 x 3 x (256 + 128); the sampler is not shared
    assert row.fixed_bytes == exactly(1e6 + 0.55 * GIB + 2_304_000)
    assert row.sampler_fixed_bytes == exactly(1e6 + 0.55 * GIB + 256_000)
    assert row.sampler_bytes == exactly(39_000)
    assert replica.memory_bytes(0) == pytest.approx(row.fixed_bytes[0], rel=EXACT)
    assert replica.memory_bytes(1000) == pytest.approx(
        row.sampler_fixed_bytes[0] + 1000 * (1024 * 70 + 39_000), rel=EXACT
    )


@pytest.mark.parametrize(
    ("name", "gib", "tokens"),
    [
        ("slow", 10, 2048),
        ("slow", 69.999, 2048),
        ("slow", 70, 8192),
        ("slow", 141, 8192),
        ("A100-slow", 79, 2048),
    ],
)
def test_tokens_in_a_step_by_default(name: str, gib: float, tokens: int) -> None:
    of = case(assumptions={"memory": "itemised"}, memory_bytes=int(gib * GIB))
    gpu = of.hardware.gpus[0].model_dump(exclude_unset=True)
    row, replica = both(of.changed({"hardware.gpus": [{**gpu, "name": name}]}))
    fixed = 2e6 + 0.13 * GIB + 2 * tokens * 3 * 640
    assert row.fixed_bytes == exactly(fixed)
    assert replica.memory_bytes(0) == pytest.approx(fixed, rel=EXACT)
    expected = itemised.StepSize(tokens, 1024 if tokens == 8192 else 256)
    assert itemised.default_step(of.hardware.gpus[0].model_copy(update={"name": name})) == expected


def test_used_memory_in_the_verdict() -> None:
    of = case(assumptions={"memory": "itemised", "max_num_batched_tokens": 1000}, memory_bytes=GIB)
    (chosen,) = configurations(of).configurations
    check = verify(of, Design(chosen, 1000, 1)).checks[0]
    used = 2e6 + 0.13 * GIB + 256_000 + 1000 * (1024 * 140 + 39_000)
    assert check.requirement == "hardware.gpus"
    assert (check.required, check.actual) == pytest.approx((0.9 * GIB / 1e9, used / 1e9), rel=EXACT)


@pytest.mark.parametrize(
    ("assumptions", "field"),
    [
        ({"memory": "itemised", "memory_reserve": 0.1}, "memory_reserve"),
        ({"memory_utilization": 0.9}, "memory_utilization"),
        ({"max_num_batched_tokens": 8192}, "max_num_batched_tokens"),
        ({"memory": "reserve", "memory_utilization": 0.9}, "memory_utilization"),
    ],
)
def test_one_way_to_count_memory(assumptions: dict[str, Any], field: str) -> None:
    with pytest.raises(CaseError) as caught:
        case(assumptions=assumptions)
    (mistake,) = caught.value.mistakes
    assert mistake.field == f"assumptions.{field}"
    assert "does not go with memory" in mistake.message


def test_itemised_memory_needs_the_models_figures() -> None:
    with pytest.raises(CaseError, match=r"needs the model's hidden_size, vocab_size"):
        case({"hidden_size": None, "vocab_size": None}, assumptions={"memory": "itemised"})
