"""The engine against arithmetic by hand, and against the verifier's scalar code on drawn cases."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimiser import Case
from optimiser.engine import memory
from optimiser.engine.replicas import Lengths, Replicas
from optimiser.engine.roofline import decode_step_s, prefill_s
from optimiser.engine.serving import largest_batch_where, request_replica_s
from optimiser.planning.columns import columns
from optimiser.planning.configurations import configurations
from optimiser.planning.design import Design
from optimiser.planning.verify import verify
from tests.strategies import SEEDS, case_of, draw_case, draw_real_case

EXACT = 1e-12


def two_replicas() -> Replicas:
    """Round numbers: A reads 10 GB at 1 TB/s and computes 2 GFLOP a token at 100 TFLOP/s; B is A
    on half the bandwidth and a tenth of the arithmetic. A sequence holds 0.12 GB of cache, of which
    a step reads 0.1 GB; a prompt of 800 tokens is 1,600 GFLOP."""
    two = np.ones(2)
    return Replicas(
        usable_bytes=np.array([20e9, 10.3e9]),
        fixed_bytes=10e9 * two,
        kv_held_bytes=0.12e9 * two,
        sampler_fixed_bytes=10e9 * two,
        sampler_bytes=0 * two,
        read_bytes=10e9 * two,
        expert_bytes=0 * two,
        expert_missed_frac=0 * two,
        kv_read_bytes=0.1e9 * two,
        decode_flops=2e9 * two,
        prefill_flops=1.6e12 * two,
        bytes_per_s=np.array([1e12, 0.5e12]),
        flops_per_s=np.array([1e14, 1e13]),
    )


LENGTHS = Lengths(prompt=800, answer=400)


def test_lengths() -> None:
    assert LENGTHS.full_context == 1200
    assert LENGTHS.decode_context == 1000
    assert Lengths(10, 5).decode_context == 12.5


def test_largest_batch_that_fits() -> None:
    # A: (20 - 10) GB / 0.12 GB = 83.3; B: 0.3 / 0.12 = 2.5
    assert memory.largest_batch(two_replicas(), 512).tolist() == [83, 2]
    assert memory.largest_batch(two_replicas(), 50).tolist() == [50, 2]


@pytest.mark.parametrize(
    ("usable", "fits"),
    [
        (10e9 + 3 * 0.12e9, 3),
        ((10e9 + 3 * 0.12e9) * (1 - 9e-10), 3),  # within the tolerance of 1e-9
        ((10e9 + 3 * 0.12e9) * (1 - 3e-9), 2),
        (10e9 + 4 * 0.12e9 - 1000, 3),
        (10e9, 0),
        (5e9, 0),  # the weights alone do not fit
    ],
)
def test_memory_boundary_is_inclusive(usable: float, fits: int) -> None:
    row = replace(two_replicas().rows(np.array([0])), usable_bytes=np.array([usable]))
    assert memory.largest_batch(row, 512).tolist() == [fits]


@pytest.mark.parametrize(
    ("sampler_fixed", "sampler_each", "fits"),
    [
        (10e9, 0.0, 83),  # no sampler: (20 - 10) / 0.12
        (10e9, 0.08e9, 50),  # (20 - 10) / (0.12 + 0.08)
        (11e9, 0.03e9, 60),  # (20 - 11) / 0.15
        (4e9, 0.05e9, 83),  # (20 - 4) / 0.17 = 94.1: computing decides
    ],
)
def test_computing_and_sampling_both_bound_the_batch(
    sampler_fixed: float, sampler_each: float, fits: int
) -> None:
    row = replace(
        two_replicas().rows(np.array([0])),
        sampler_fixed_bytes=np.array([sampler_fixed]),
        sampler_bytes=np.array([sampler_each]),
    )
    assert memory.largest_batch(row, 512).tolist() == [fits]


def test_prefill() -> None:
    # A: 1.6e12 / 1e14 = 16 ms of arithmetic, 10 ms of reads; B: 160 ms and 20 ms
    assert prefill_s(two_replicas(), LENGTHS) == pytest.approx([0.016, 0.16], rel=EXACT)
    # five tokens: 0.1 ms and 1 ms of arithmetic, so the reads decide: 10 and 20 ms
    short = replace(two_replicas(), prefill_flops=np.array([1e10, 1e10]))
    assert prefill_s(short, Lengths(5, 1)) == pytest.approx([0.01, 0.02], rel=EXACT)


def test_decode_step() -> None:
    # one sequence: (10e9 + 1e8) / 1e12 = 10.1 ms; on B 20.2 ms
    one = decode_step_s(two_replicas(), np.array([1, 1]))
    assert one == pytest.approx([0.0101, 0.0202], rel=EXACT)
    # 500: A (10e9 + 500 x 1e8) / 1e12 = 60 ms of reads against 10 ms of arithmetic; B: 120 ms of
    # reads against 2e9 x 500 / 1e13 = 100 ms
    many = decode_step_s(two_replicas(), np.array([500, 500]))
    assert many == pytest.approx([0.060, 0.120], rel=EXACT)


def test_decode_step_bound_by_arithmetic() -> None:
    # B with a hundredth of the cache: 500 x 1e6 = 0.5 GB: 21 ms of reads, 100 ms of arithmetic
    small = replace(two_replicas(), kv_read_bytes=np.array([1e6, 1e6]))
    found = decode_step_s(small, np.array([500, 500]))
    assert found == pytest.approx([0.0105, 0.100], rel=EXACT)


def test_experts_are_read_as_tokens_reach_them() -> None:
    """8 GB of experts, a quarter used by each token: 1 - 0.75^b of them by b tokens."""
    experts = replace(
        two_replicas(),
        read_bytes=np.array([2e9, 2e9]),
        expert_bytes=np.array([8e9, 8e9]),
        expert_missed_frac=np.array([0.75, 0.75]),
    )
    # one token: 2 + 8 x 0.25 = 4 GB; two: 2 + 8 x 0.4375 = 5.5 GB; cache 0.1 GB each
    found = decode_step_s(experts, np.array([[1], [2]]))
    assert found == pytest.approx(np.array([[0.0041, 0.0082], [0.0057, 0.0114]]), rel=EXACT)
    # a prompt of one token reads as a step of one: 4 GB
    one = replace(experts, prefill_flops=np.array([1e9, 1e9]))
    assert prefill_s(one, Lengths(1, 1)) == pytest.approx([0.004, 0.008], rel=EXACT)
    # 2,000 tokens reach all: 10 GB, 10 ms, against 16 ms of arithmetic on A
    assert prefill_s(experts, Lengths(2000, 1)) == pytest.approx([0.016, 0.16], rel=EXACT)
    # every token on every expert
    every = replace(experts, expert_missed_frac=np.array([0.0, 0.0]))
    assert decode_step_s(every, np.array([1, 1])) == pytest.approx([0.0101, 0.0202], rel=EXACT)


def test_shapes_broadcast() -> None:
    batches = np.array([[1], [500]])
    found = decode_step_s(two_replicas(), batches)
    assert found.shape == (2, 2)
    assert found == pytest.approx(np.array([[0.0101, 0.0202], [0.060, 0.120]]), rel=EXACT)
    assert len(two_replicas()) == 2
    assert two_replicas().rows(np.array([1])).bytes_per_s.tolist() == [0.5e12]


def test_what_one_request_costs() -> None:
    # A at 500: 400 tokens x 60 ms / 500 + 16 ms = 64 ms; B: 400 x 120 / 500 + 160 = 256 ms
    found = request_replica_s(two_replicas(), LENGTHS, np.array([500, 500]))
    assert found == pytest.approx([0.064, 0.256], rel=EXACT)
    # A alone: 400 x 10.1 ms + 16 ms = 4.056 s
    alone = request_replica_s(two_replicas(), LENGTHS, np.array([1, 1]))
    assert alone == pytest.approx([4.056, 8.24], rel=EXACT)


def test_largest_batch_where() -> None:
    limits = np.array([0, 1, 7, 63, 64, 65, 1000])
    found = largest_batch_where(lambda batch: batch <= limits, len(limits), 64)
    assert found.tolist() == [0, 1, 7, 63, 64, 64, 64]


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=20), st.integers(1, 4096))
def test_largest_batch_where_asks_only_legal_batches(limits: list[int], most: int) -> None:
    asked = []

    def holds(batch: np.ndarray) -> np.ndarray:
        asked.append(batch)
        return batch <= np.array(limits)

    found = largest_batch_where(holds, len(limits), most)
    assert found.tolist() == [min(limit, most) for limit in limits]
    assert len(asked) <= math.ceil(math.log2(most + 1)) + 1
    assert all((batch >= 0).all() and (batch <= most).all() for batch in asked)


def lengths_of(case: Case) -> Lengths:
    return Lengths(case.brief.prompt_tokens, case.brief.answer_tokens)


def engine_of(case: Case) -> Replicas:
    return columns(case, configurations(case).configurations, lengths_of(case))


def drawn(seed: int) -> Case:
    """Of the page's models and of real ones in turn."""
    return draw_case(seed) if seed % 3 == 0 else draw_real_case(seed)


@given(SEEDS)
@settings(max_examples=120)
def test_cost_of_a_request_falls_and_is_convex(seed: int) -> None:
    """What the exactness of the program rests on, for models of every kind."""
    case = drawn(seed)
    engine, batches = engine_of(case), np.arange(1, 400)[:, None]
    steps = decode_step_s(engine, batches)
    assert (np.diff(steps, axis=0) >= -1e-12 * steps[-1]).all(), f"seed {seed}: a step shrinks"
    cost = request_replica_s(engine, lengths_of(case), batches)
    falls = -np.diff(cost, axis=0)
    assert (falls >= -1e-12 * cost[0]).all(), f"seed {seed}: f rises with the batch"
    assert (np.diff(falls, axis=0) <= 1e-12 * cost[0]).all(), f"seed {seed}: f is not convex"


@given(st.integers(2, 400), st.data())
def test_experts_alone_are_convex(count: int, data: st.DataObject) -> None:
    used = data.draw(st.integers(1, count))
    share = data.draw(st.floats(0, 1))
    row = replace(
        two_replicas(),
        read_bytes=10e9 * np.array([1 - share, 1.0]),
        expert_bytes=10e9 * np.array([share, 0.0]),
        expert_missed_frac=np.array([1 - used / count, 0.0]),
    )
    per_token = decode_step_s(row, np.arange(1, 600)[:, None]) / np.arange(1, 600)[:, None]
    falls = -np.diff(per_token, axis=0)
    assert (falls >= -1e-12 * per_token[0]).all()
    assert (np.diff(falls, axis=0) <= 1e-12 * per_token[0]).all()


@given(SEEDS, st.integers(1, 300))
@settings(max_examples=150)
def test_scalar_verifier_and_engine_agree(seed: int, batch: int) -> None:
    case = drawn(seed)
    space, engine, lengths = configurations(case), engine_of(case), lengths_of(case)
    batches = np.full(len(space), batch)
    steps = decode_step_s(engine, batches)
    prefills = prefill_s(engine, lengths)
    costs = request_replica_s(engine, lengths, batches)
    fits = memory.largest_batch(engine, 10**6)
    reads = engine.read_bytes + engine.expert_bytes * (1 - engine.expert_missed_frac**batch)
    for i, configuration in enumerate(space.configurations):
        verdict = verify(case, Design(configuration, batch, 1))
        figures = verdict.figures
        assert figures.tpot_ms == pytest.approx(steps[i] * 1000, rel=EXACT)
        assert figures.ttft_ms == pytest.approx(prefills[i] * 1000, rel=EXACT)
        assert figures.requests_per_s_per_replica == pytest.approx(1 / costs[i], rel=EXACT)
        assert min(figures.largest_batch_that_fits, 10**6) == fits[i]
        size = configuration.tensor_parallel
        held = (engine.read_bytes[i] + engine.expert_bytes[i]) * size
        assert figures.weight_gb == pytest.approx(held / 1e9, rel=EXACT)
        assert figures.weight_read_gb_per_step == pytest.approx(reads[i] * size / 1e9, rel=EXACT)
        kv_gb = engine.kv_held_bytes[i] * size / 1e9
        assert figures.kv_gb_per_request == pytest.approx(kv_gb, rel=EXACT)
        used = next(c for c in verdict.checks if c.requirement == "hardware.gpus")
        assert used.required == pytest.approx(engine.usable_bytes[i] / 1e9, rel=EXACT)
        computing = engine.fixed_bytes[i] + batch * engine.kv_held_bytes[i]
        sampling = engine.sampler_fixed_bytes[i] + batch * (
            engine.kv_held_bytes[i] + engine.sampler_bytes[i]
        )
        assert used.actual == pytest.approx(max(computing, sampling) / 1e9, rel=EXACT)


def hand_case() -> Case:
    """8e9 parameters, 10 layers, 8 heads (4 KV heads) of 100, on 100 GB, 1 TB/s, 100 TFLOP/s."""
    return case_of(
        {
            "name": "by-hand",
            "brief": {
                "requests_per_s": 4.0,
                "prompt_tokens": 1000,
                "answer_tokens": 500,
                "ttft_target_s": 0.5,
                "tpot_target_ms": 40.0,
            },
            "model": {
                "name": "tiny",
                "params": 8e9,
                "layers": 10,
                "attention_heads": 8,
                "kv_heads": 4,
                "head_dim": 100,
            },
            "hardware": {
                "gpus": [
                    {
                        "name": "round",
                        "memory_gb": 100.0,
                        "bandwidth_gb_per_s": 1000.0,
                        "tflops": {"fp16": 100.0, "fp8": 250.0},
                        "usd_per_hour": 3.0,
                    }
                ]
            },
            "levers": {
                "weights": ["fp16", "int8", "int4", "fp8"],
                "kv_cache": ["fp16", "int8"],
                "tensor_parallel": [1, 8],
                "batch": {"most": 10_000},
            },
            "assumptions": {"efficiency": 0.8, "headroom": 1.5, "memory_reserve": 0.25},
        }
    )


def hand_row(weights: str, cache: str, size: int) -> tuple[Case, Replicas, int]:
    case = hand_case()
    space = configurations(case)
    index = next(
        i
        for i, c in enumerate(space.configurations)
        if (c.weights, c.kv_cache, c.tensor_parallel) == (weights, cache, size)
    )
    return case, engine_of(case).rows(np.array([index])), index


@pytest.mark.parametrize(
    ("weights", "cache", "size", "weight", "kv", "flops", "rate"),
    [
        # 16 GB; 2 x 10 x 4 x 100 x 2 = 16,000 bytes a token; 16 GFLOP a token at 80 TFLOP/s
        ("fp16", "fp16", 1, 16e9, 16_000, 16e9, 80e12),
        ("int8", "fp16", 1, 8e9, 16_000, 16e9, 80e12),  # weight-only: arithmetic stays in 16 bits
        ("int4", "int8", 1, 4e9, 8_000, 16e9, 80e12),
        ("fp8", "int8", 1, 8e9, 8_000, 16e9, 200e12),  # its own rate, 250 x 0.8
        # 8 GPUs: an eighth of weights and arithmetic, but 4 KV heads split only four ways
        ("fp16", "fp16", 8, 2e9, 4_000, 2e9, 80e12),
        ("int4", "int8", 8, 0.5e9, 2_000, 2e9, 80e12),
    ],
)
def test_columns_of_a_configuration(
    weights: str, cache: str, size: int, weight: float, kv: float, flops: float, rate: float
) -> None:
    _, row, _ = hand_row(weights, cache, size)
    for column in (row.read_bytes, row.fixed_bytes, row.sampler_fixed_bytes):
        assert column == pytest.approx([weight], rel=EXACT)
    assert row.expert_bytes.tolist() == row.expert_missed_frac.tolist() == [0.0]
    assert row.sampler_bytes.tolist() == [0.0]
    assert row.kv_held_bytes == pytest.approx([kv * 1500], rel=EXACT)  # 1000 + 500 tokens
    assert row.kv_read_bytes == pytest.approx([kv * 1250], rel=EXACT)  # 1000 + 500 / 2
    assert row.decode_flops == pytest.approx([flops], rel=EXACT)
    assert row.prefill_flops == pytest.approx([flops * 1000], rel=EXACT)
    assert row.flops_per_s == pytest.approx([rate], rel=EXACT)
    assert row.usable_bytes == pytest.approx([75e9], rel=EXACT)  # 100 GB less a quarter
    assert row.bytes_per_s == pytest.approx([0.8e12], rel=EXACT)


def test_bounds_and_needs_of_a_configuration() -> None:
    _, row, index = hand_row("fp16", "fp16", 1)
    space = configurations(hand_case())
    # (75 - 16) GB / (1500 x 16 kB = 24 MB) = 2458.3
    assert space.batch_by_memory[index] == 2458
    # 40 ms x 0.8e12 = 32 GB in a step: 16 GB of cache / (1250 x 16 kB = 20 MB) = 800 sequences;
    # arithmetic: 16e9 b / 80e12 = 0.2 ms a sequence, so 200
    assert space.batch_by_tpot[index] == 200
    # 16e9 x 1000 / 80e12 = 200 ms, under half a second
    assert space.batch_by_ttft[index] == space.case.levers.batch.most
    assert space.largest_batch[index] == 200
    # step(200) = 40 ms: 500 x 40 ms / 200 + 200 ms = 0.3 s; 4 x 1.5 x 0.3 = 1.8: 2 replicas
    cost = request_replica_s(row, lengths_of(hand_case()), np.array([200]))
    assert cost == pytest.approx([0.3], rel=EXACT)
    (need,) = space.needs
    at = np.array([200])
    assert need.replicas(np.array([index]), at) == pytest.approx([1.8], rel=EXACT)
    assert need.whole(np.array([index]), at).tolist() == [2]
    assert (need.name, need.field) == ("capacity", "brief.requests_per_s")
    assert (space.unit_nano_usd[index], space.unit_gpus[index]) == (3 * 10**9, 1)
    *_, eight = hand_row("fp16", "fp16", 8)
    assert (space.unit_nano_usd[eight], space.unit_gpus[eight]) == (24 * 10**9, 8)
    assert space.unit_replicas.tolist() == [1] * len(space)
    assert len(space) == 4 * 2 * 2
