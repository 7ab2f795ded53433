"""The measured latency model: its shape in the batch, its two writings, a hand calculation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimiser.catalogue.calibrated import calibrated
from optimiser.catalogue.hf_config.shape import CacheLayers, Experts, Shape
from optimiser.catalogue.latency_constants import Deployment, LatencyConstants, PartFormat
from optimiser.engine import latency
from optimiser.engine.columns_of_shape import cache_bytes, latency_row, weight_bytes
from optimiser.engine.latency_parts import columns_of
from optimiser.errors import CatalogueError
from optimiser.planning.latency_scalar import Latency
from tests.engine.deployments import CALIBRATION, ENGINES, GPUS, deployments

BATCHES = np.arange(1, 1025, dtype=np.float64)[:, None]
ROUNDING = 1e-11
"""Relative: what sums of a few dozen terms may lose, seen in differences of neighbours."""


@settings(max_examples=150)
@given(deployments(), st.floats(0, 1))
def test_times_rise_with_the_batch_and_the_request_cost_falls_ever_more_slowly(drawn, synchrony):
    columns = columns_of([latency_row(*drawn)])
    for name, times in {
        "step": latency.decode_step_s(columns, BATCHES),
        "TPOT": latency.tpot_s(columns, BATCHES, synchrony),
        "TTFT": latency.ttft_s(columns, BATCHES, synchrony),
    }.items():
        rise = np.diff(times[:, 0])
        assert (rise >= -ROUNDING * times[:-1, 0]).all(), f"{name} falls with the batch: {drawn}"
    cost = latency.request_replica_s(columns, BATCHES)[:, 0]
    slope = np.diff(cost)
    assert (slope <= ROUNDING * cost[:-1]).all(), f"request cost rises with the batch: {drawn}"
    bend = np.diff(slope)
    assert (bend >= -ROUNDING * cost[:-2]).all(), f"request cost is not convex: {drawn}"


@settings(max_examples=150)
@given(deployments(), st.integers(1, 2048), st.floats(0, 1))
def test_columns_and_plain_arithmetic_agree(drawn, batch, synchrony):
    columns, alone = columns_of([latency_row(*drawn)]), Latency(*drawn)
    pairs = {
        "step": (latency.step_s(columns, batch, batch), alone.step_s(batch, batch)),
        "mixed step": (latency.step_s(columns, batch, 9000), alone.step_s(batch, 9000)),
        "prefill": (latency.prefill_s(columns), alone.prefill_s()),
        "TPOT": (latency.tpot_s(columns, batch, synchrony), alone.tpot_s(batch, synchrony)),
        "TTFT": (latency.ttft_s(columns, batch, synchrony), alone.ttft_s(batch, synchrony)),
        "residence": (latency.residence_s(columns, batch), alone.residence_s(batch)),
        "throughput": (latency.throughput(columns, batch), alone.throughput(batch)),
        "cost": (latency.request_replica_s(columns, batch), alone.request_replica_s(batch)),
    }
    for name, (vectorised, scalar) in pairs.items():
        assert vectorised[0] == pytest.approx(scalar, rel=1e-12), name


@given(st.lists(deployments(), min_size=2, max_size=5))
def test_all_pairs_are_the_pairs_one_by_one(drawn):
    rows = [latency_row(*one) for one in drawn]
    together = latency.request_replica_s(columns_of(rows), np.array([[1], [7], [300]]))
    assert together.shape == (3, len(rows))
    for place, row in enumerate(rows):
        for line, batch in enumerate((1, 7, 300)):
            one = latency.request_replica_s(columns_of([row]), batch)[0]
            assert together[line, place] == pytest.approx(one, rel=1e-14)


def test_rows_of_columns_keep_their_order():
    columns = columns_of([latency_row(*_tiny(n_gpus=n)) for n in (1, 2, 4)])
    some = columns.rows(np.array([2, 0]))
    assert some.weight_read_s.tolist() == [columns.weight_read_s[2], columns.weight_read_s[0]]


def _tiny(n_gpus=1, groups=1, **changes) -> tuple[Deployment, LatencyConstants]:
    """1 GB/s and 1 GFLOP/s, all achieved by half; 10 layers of which 4 have experts."""
    shape = Shape(
        architecture="Tiny",
        layers=10,
        hidden_size=100,
        attention_heads=4,
        kv_heads=2,
        head_dim=25,
        ffn_size=1,
        expert_ffn_size=1,
        vocab_size=1,
        max_context=10**6,
        tied_embeddings=False,
        dtype="bfloat16",
        params_total=1000_000 + 3 * 4 * 10_000,
        params_active=0,
        embedding_params=200_000,
        head_params=200_000,
        attention_params=400_000,
        cache=(CacheLayers(10, "full", 2, 25, 100, None, 0),),
        experts=Experts(layers=4, count=3, per_token=1, params_each=10_000),
        quantisation=None,
    )
    sixteen = PartFormat(2, "fp16")
    at = Deployment(
        shape=shape,
        attention=sixteen,
        dense=sixteen,
        experts=sixteen,
        head=sixteen,
        cache_bytes_per_number=2,
        n_gpus=n_gpus,
        attention_groups=groups,
        peak_bytes_per_s=1e9,
        peak_flops_per_s={"fp16": 1e9},
        link_bytes_per_s=1e8,
        prompt_tokens=1000,
        answer_tokens=500,
    )
    constants = {
        "weight_bandwidth_frac": 0.5,
        "fp8_bandwidth_factor": 1.0,
        "cache_bandwidth_frac": 0.5,
        "flop_frac": {"fp16": 0.5},
        "unhidden_frac": 0.0,
        "expert_flop_frac": 0.5,
        "prompt_attention_frac": 1.0,
        "expert_imbalance": 1.25,
        "link_bandwidth_frac": 0.5,
        "link_latency_s": 1e-3,
        "link_large_s": 0.0,
        "link_large_bytes": 1.0,
        "layer_floor_s": 2e-3,
        "fp8_layer_floor_s": 5.0,
        "step_floor_s": 3e-3,
        "expert_layer_floor_s": 4e-3,
        "expert_fp8_floor_s": 5.0,
        "expert_unpack_floor_s": 5.0,
        "sparse_layer_floor_s": 5.0,
        "sequence_s": 1e-4,
        "prefill_share": 0.5,
        "wait_steps": 2.0,
        "grouped_wait_steps": 10.0,
        "ttft_offset_s": 0.1,
        "closed_loop_synchrony": 0.2,
        **changes,
    }
    return at, LatencyConstants(**constants)


def test_a_step_by_hand():
    # Attention and dense: 400,000 + 200,000 parameters (1,000,000 less embedding, head and
    # attention). Read: 1.2 MB at 0.5 GB/s = 2.4 ms; multiply, 2 tokens: 2.4 MFLOP at
    # 0.5 GFLOP/s = 4.8 ms. The slower: 4.8 ms.
    # Head: read 0.4 MB = 0.8 ms; 2 x 200,000 x 2 = 0.8 MFLOP = 1.6 ms. The slower: 1.6 ms.
    # Experts: distinct of 3, one each of 2 tokens: 3 (1 - (2/3)^2) = 5/3; 4 layers x 20 kB at
    # 0.5 GB/s = 0.16 ms each: 0.2667 ms; multiply 2 x 2 x 10,000 x 4 = 0.16 MFLOP at half of
    # 0.5 GFLOP/s = 0.64 ms. The slower: 0.64 ms.
    # Cache: context 1,250 x 100 numbers x 2 bytes x 10 layers = 2.5 MB = 5 ms a sequence;
    # products 4 x 4 heads x 25 x 1,250 x 10 = 5 MFLOP = 10 ms. The slower + 0.1 ms host: 20.2 ms.
    # Floors: 10 x 2 + 3 + 4 x 4 = 39 ms.
    expected_ms = 4.8 + 1.6 + 0.64 + 20.2 + 39
    assert Latency(*_tiny()).step_s(2, 2) == pytest.approx(expected_ms / 1e3, rel=1e-12)


def test_links_and_imbalance_by_hand():
    # Two GPUs halve all of the above but the floors and the host work, experts wait for the
    # slowest of the two (x 1.25), and each of 20 all-reduces takes 1 ms + 2 tokens x 100 x 2 bytes
    # x 2 x 1/2 at 50 MB/s = 8 us.
    expected_ms = (4.8 + 1.6 + 0.64 * 1.25 + 20) / 2 + 0.2 + 39 + 20 * 1.008
    assert Latency(*_tiny(n_gpus=2)).step_s(2, 2) == pytest.approx(expected_ms / 1e3, rel=1e-12)


def test_reading_that_multiplying_does_not_hide_by_hand():
    # The step above, with a quarter of the shorter of each pair on top: 2.4 ms beside 4.8 ms,
    # 0.8 ms beside 1.6 ms, 0.2667 ms beside 0.64 ms.
    at, constants = _tiny(unhidden_frac=0.25)
    expected_ms = 4.8 + 1.6 + 0.64 + 20.2 + 39 + 0.25 * (2.4 + 0.8 + 4 / 15)
    assert Latency(at, constants).step_s(2, 2) == pytest.approx(expected_ms / 1e3, rel=1e-12)


def test_all_reduces_of_large_messages_by_hand():
    # Two GPUs: each sends 2 tokens x 100 x 2 bytes x 2 x 1/2 = 400 bytes; large is 400 bytes, so
    # 1 - 1/e = 0.6321 of the extra 3 ms comes on top of each of 20 all-reduces.
    plain = Latency(*_tiny(n_gpus=2)).step_s(2, 2)
    large = Latency(*_tiny(n_gpus=2, link_large_s=3e-3, link_large_bytes=400.0)).step_s(2, 2)
    assert large - plain == pytest.approx(20 * 3e-3 * 0.6321205588, rel=1e-9)
    alone = Latency(*_tiny(link_large_s=3e-3, link_large_bytes=400.0)).step_s(2, 2)
    assert alone == Latency(*_tiny()).step_s(2, 2)


def test_load_by_hand():
    # Prefill: 1,000 tokens: 1.2 GFLOP at 0.5 GFLOP/s = 2.4 s; experts 4 x 2 x 10,000 x 1,000 = 80
    # MFLOP at 0.25 GFLOP/s = 0.32 s; floors 0.039 s; attention 4 x 4 x 25 x 10 x 1,000^2 / 2 =
    # 2 GFLOP = 4 s. Sum 6.759 s.
    # TPOT, 2 requests, s = 0.5: step 66.24 ms + 0.75 x 1 x 0.5 x 6.759 / 500.
    # TTFT: 0.1 + 2 x 0.06624 + 6.759 + 0.25 x 1 x 0.5 x 6.759.
    alone = Latency(*_tiny())
    tpot, ttft = 0.06624 + 0.75 * 3.3795 / 500, 0.1 + 0.13248 + 6.759 + 0.25 * 3.3795
    assert alone.prefill_s() == pytest.approx(6.759, rel=1e-12)
    assert alone.tpot_s(2, 0.5) == pytest.approx(tpot, rel=1e-12)
    assert alone.ttft_s(2, 0.5) == pytest.approx(ttft, rel=1e-12)
    assert alone.throughput(2, 0.5) == pytest.approx(1000 / (ttft + 499 * tpot), rel=1e-12)


def test_attention_groups_read_their_weights_each_and_share_sequences():
    whole, split = latency_row(*_tiny(n_gpus=4)), latency_row(*_tiny(n_gpus=4, groups=2))
    # 4 GPUs: (0.8 + 0.4) / 4 MB; in two groups of two each holds half of the attention.
    assert whole.weight_read_s == pytest.approx(1.2e6 / 4 / 0.5e9)
    assert split.weight_read_s == pytest.approx((0.8e6 / 2 + 0.4e6 / 4) / 0.5e9)
    assert split.wait_steps == whole.wait_steps + 10
    # 2 KV heads: four GPUs hold each sequence twice over, two groups of two once.
    assert cache_bytes(_tiny(n_gpus=4)[0], 1000) == 1e6
    assert cache_bytes(_tiny(n_gpus=4, groups=2)[0], 1000) == 1e6
    assert weight_bytes(_tiny(n_gpus=4, groups=2)[0]) == pytest.approx(
        (400_000 * 2 * 2 + 720_000 * 2) / 4
    )


@pytest.mark.parametrize("gpu", GPUS)
def test_every_gpu_has_constants_for_all_it_computes(gpu):
    from optimiser.catalogue.load import default_catalogue

    for engine in ENGINES:
        found = calibrated(CALIBRATION, gpu, engine)
        assert set(default_catalogue().gpu(gpu).tflops) <= set(found.constants.flop_frac)
        assert found.estimated == (found.borrowed_from is not None)
        assert 0 < found.constants.weight_bandwidth_frac <= 1
        assert 0 < found.constants.prefill_share <= 1
        assert all(value >= 1 for value in found.deviation.values())


def test_unknown_gpus_and_engines_are_refused_by_name():
    with pytest.raises(CatalogueError, match="h300"):
        calibrated(CALIBRATION, "h300", "vllm")
    with pytest.raises(CatalogueError, match="vlm"):
        calibrated(CALIBRATION, "h200", "vlm")
