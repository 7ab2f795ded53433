"""The verdict by hand: figures, margins, boundaries, each requirement alone, each bottleneck."""

import math
from collections.abc import Mapping

import pytest

from optimiser import Case
from optimiser.planning.design import Configuration, Design
from optimiser.planning.rental import rentals
from optimiser.planning.verify import Check, Verdict, verify
from optimiser.units import TOLERANCE
from tests.strategies import case_of

EXACT = 1e-12


def by_hand(changes: Mapping[str, object] | None = None) -> Case:
    """10e9 parameters, 10 layers, 8 heads of 100, 4 of them KV; 60 GB, 1 TB/s, 100 TFLOP/s.

    On one GPU in fp16: weights 20 GB; KV 2 x 10 x 4 x 100 x 2 = 16,000 bytes a token; a request of
    2000 + 1000 tokens takes 48 MB; a decode step reads 2500 tokens or 40 MB of each sequence.
    """
    case = case_of(
        {
            "name": "by-hand",
            "brief": {
                "requests_per_s": 2.0,
                "prompt_tokens": 2000,
                "answer_tokens": 1000,
                "ttft_target_s": 0.5,
                "tpot_target_ms": 40.0,
            },
            "model": {
                "name": "tiny",
                "params": 10e9,
                "layers": 10,
                "attention_heads": 8,
                "kv_heads": 4,
                "head_dim": 100,
            },
            "hardware": {
                "gpus": [
                    {
                        "name": "round",
                        "memory_gb": 60.0,
                        "bandwidth_gb_per_s": 1000.0,
                        "tflops": {"fp16": 100.0, "fp8": 400.0},
                        "usd_per_hour": 3.0,
                    }
                ]
            },
            "assumptions": {"efficiency": 1.0, "headroom": 1.25, "memory_reserve": 0.2},
        }
    )
    return case.changed(dict(changes or {}))


def judged(
    case: Case,
    batch: int = 500,
    replicas: int = 4,
    *,
    weights: str = "fp16",
    kv_cache: str = "fp16",
    kv_heads: int = 4,
    tensor_parallel: int = 1,
) -> Verdict:
    gpu = case.hardware.gpus[0]
    (rental,) = rentals(case, gpu)
    chosen = Configuration(weights, kv_cache, kv_heads, gpu, tensor_parallel, rental)
    return verify(case, Design(chosen, batch, replicas))


def check(verdict: Verdict, requirement: str) -> Check:
    (found,) = [c for c in verdict.checks if c.requirement == requirement]
    return found


def failed(verdict: Verdict) -> list[str]:
    assert verdict.complies == all(c.holds for c in verdict.checks)
    return [c.requirement for c in verdict.checks if not c.holds]


def test_figures_of_a_design() -> None:
    figures = judged(by_hand()).figures
    # step: (20e9 + 500 x 40e6) / 1e12 = 40 ms; arithmetic 20e9 x 500 / 1e14 = 100 ms: slower
    assert figures.tpot_ms == pytest.approx(100, rel=EXACT)
    assert figures.tpot_alone_ms == pytest.approx(20.04, rel=EXACT)  # (20 + 0.04) GB / 1 TB/s
    # prefill: 20e9 x 2000 / 1e14 = 400 ms of arithmetic, 20 ms of reads
    assert figures.ttft_ms == pytest.approx(400, rel=EXACT)
    assert figures.prefill_bound == "compute"
    assert figures.prefill_tflop == pytest.approx(40, rel=EXACT)
    # a request: 1000 x 100 ms / 500 + 400 ms = 0.6 s
    assert figures.requests_per_s_per_replica == pytest.approx(1 / 0.6, rel=EXACT)
    assert figures.time_in_system_s == pytest.approx(100.4, rel=EXACT)
    assert figures.in_flight == pytest.approx(200.8, rel=EXACT)  # at 2/s, without the headroom
    assert figures.answer_tokens_per_s_per_replica == pytest.approx(5000, rel=EXACT)
    # 4 x $3 = $12/h; 2 x 3600 = 7200 requests an hour of 1000 tokens: 12 / 7.2 M
    assert figures.usd_per_hour == 12.0
    assert figures.usd_per_month == 8760.0
    assert figures.usd_per_thousand_requests == pytest.approx(12 / 7.2, rel=EXACT)
    assert figures.usd_per_million_answer_tokens == pytest.approx(12 / 7.2, rel=EXACT)
    assert figures.weight_gb == pytest.approx(20, rel=EXACT)
    assert figures.kv_gb_per_request == pytest.approx(0.048, rel=EXACT)
    assert figures.kv_mib_per_token == pytest.approx(16_000 / 2**20, rel=EXACT)
    assert figures.weight_read_gb_per_step == pytest.approx(20, rel=EXACT)
    assert figures.kv_read_gb_per_step == pytest.approx(20, rel=EXACT)  # 500 x 40 MB
    # (60 x 0.8 - 20) GB / 48 MB = 583.3, whatever the case's own limit on the batch
    assert figures.largest_batch_that_fits == 583
    capped = judged(by_hand({"levers.batch": {"most": 500}})).figures
    assert capped.largest_batch_that_fits == 583


def test_figures_of_a_replica_of_several_gpus() -> None:
    """8 GPUs share weights and arithmetic by 8 and the cache by its 4 heads."""
    case = by_hand({"assumptions.efficiency": 0.5})
    figures = judged(case, batch=100, replicas=3, tensor_parallel=8, kv_cache="int8").figures
    # a GPU: weights 2.5 GB; KV 8,000 / 4 = 2,000 bytes a token; bandwidth 0.5 TB/s; 50 TFLOP/s
    # reads: (2.5e9 + 100 x 2500 x 2000 = 0.5e9) / 0.5e12 = 6 ms
    # arithmetic: 2.5e9 x 100 / 50e12 = 5 ms
    assert figures.tpot_ms == pytest.approx(6, rel=EXACT)
    # prefill: 2.5e9 x 2000 / 50e12 = 100 ms
    assert figures.ttft_ms == pytest.approx(100, rel=EXACT)
    assert figures.requests_per_s_per_replica == pytest.approx(1 / 0.16, rel=EXACT)
    # totals of a replica: 8 x 2.5 GB; 8 x 2,000 bytes (heads are held twice) x 3000 tokens
    assert figures.weight_gb == pytest.approx(20, rel=EXACT)
    assert figures.kv_gb_per_request == pytest.approx(0.048, rel=EXACT)
    assert figures.kv_mib_per_token == pytest.approx(16_000 / 2**20, rel=EXACT)
    assert figures.kv_read_gb_per_step == pytest.approx(4, rel=EXACT)
    assert figures.weight_read_gb_per_step == pytest.approx(20, rel=EXACT)
    assert figures.usd_per_hour == 3 * 8 * 3.0
    # (48 - 2.5) GB / (3000 x 2,000 = 6 MB) = 7583.3
    assert figures.largest_batch_that_fits == 7583


def test_formats() -> None:
    case = by_hand()
    # int4: 5 GB of weights, arithmetic as before; fp8: 10 GB and four times the rate
    four = judged(case, batch=1, weights="int4").figures
    assert four.tpot_alone_ms == pytest.approx(5.04, rel=EXACT)
    assert four.ttft_ms == pytest.approx(400, rel=EXACT)
    eight = judged(case, batch=1, weights="fp8").figures
    assert eight.tpot_alone_ms == pytest.approx(10.04, rel=EXACT)
    assert eight.ttft_ms == pytest.approx(100, rel=EXACT)
    # a prompt of one token: arithmetic 0.2 ms, so the reads of the weights decide
    short = judged(by_hand({"brief.prompt_tokens": 1}), batch=1).figures
    assert short.ttft_ms == pytest.approx(20, rel=EXACT)
    assert short.prefill_bound == "memory"


def test_requirements_and_margins() -> None:
    case = by_hand({"brief.tpot_target_ms": 125.0})
    verdict = judged(case)
    memory = check(verdict, "hardware.gpus")
    # 20 GB + 500 x 48 MB = 44 of 60 x 0.8 = 48 GB
    assert (memory.required, memory.actual) == pytest.approx((48, 44), rel=EXACT)
    assert memory.margin_frac == pytest.approx(4 / 48, rel=1e-9)
    ttft = check(verdict, "brief.ttft_target_s")
    assert (ttft.required, ttft.actual) == pytest.approx((0.5, 0.4), rel=EXACT)
    assert ttft.margin_frac == pytest.approx(0.2, rel=1e-9)
    tpot = check(verdict, "brief.tpot_target_ms")
    assert (tpot.required, tpot.actual) == pytest.approx((125, 100), rel=EXACT)
    assert tpot.margin_frac == pytest.approx(0.2, rel=1e-9)
    # 2/s x 1.25 asked; 4 / 0.6 there
    rate = check(verdict, "brief.requests_per_s")
    assert (rate.required, rate.actual) == pytest.approx((2.5, 4 / 0.6), rel=EXACT)
    assert rate.margin_frac == pytest.approx((4 / 0.6 - 2.5) / 2.5, rel=1e-9)
    assert [c.unit for c in verdict.checks] == ["GB per GPU", "s", "ms", "requests/s"]
    assert verdict.complies


EASY = {"brief.tpot_target_ms": 125.0}


@pytest.mark.parametrize(
    ("changes", "design", "requirement"),
    [
        ({"brief.tpot_target_ms": 99.0}, {}, "brief.tpot_target_ms"),
        ({**EASY, "brief.ttft_target_s": 0.39}, {}, "brief.ttft_target_s"),
        ({**EASY, "assumptions.memory_reserve": 0.3}, {}, "hardware.gpus"),  # 42 GB for 44
        ({**EASY, "brief.requests_per_s": 5.34}, {}, "brief.requests_per_s"),  # 6.675 > 6.667
        ({**EASY, "limits.most_gpus": 3}, {}, "limits.most_gpus"),
        ({**EASY, "limits.usd_per_hour": 11.99}, {}, "limits.usd_per_hour"),
        ({**EASY, "limits.least_replicas": 5}, {}, "limits.least_replicas"),
        ({**EASY, "levers.batch": {"most": 499}}, {}, "levers.batch.most"),
        (
            {**EASY, "brief.requests_per_s": None, "brief.concurrent_users": 2001.0},
            {"replicas": 4, "weights": "fp8"},
            "brief.concurrent_users",
        ),
    ],
)
def test_each_requirement_fails_alone(
    changes: dict[str, object], design: dict[str, object], requirement: str
) -> None:
    assert failed(judged(by_hand(changes), **design)) == [requirement]


def test_limits_that_hold_are_listed() -> None:
    changes: dict[str, object] = {
        **EASY,
        "limits.most_gpus": 4,
        "limits.usd_per_hour": 12.0,
        "limits.least_replicas": 4,
        "levers.batch": {"most": 500},
    }
    verdict = judged(by_hand(changes))
    assert failed(verdict) == []
    # a batch within the case's own limit is not a requirement to show
    assert "levers.batch.most" not in [c.requirement for c in verdict.checks]
    for name in ("limits.most_gpus", "limits.usd_per_hour", "limits.least_replicas"):
        assert check(verdict, name).margin_frac == 0
    loose = judged(by_hand({**EASY, "limits.least_replicas": 2, "limits.most_gpus": 16}))
    assert check(loose, "limits.least_replicas").margin_frac == 1.0
    assert check(loose, "limits.most_gpus").margin_frac == 0.75
    assert [c.unit for c in loose.checks][-2:] == ["GPUs", "replicas"]


def test_gpus_of_a_replica_count_towards_the_limit() -> None:
    case = by_hand({**EASY, "limits.most_gpus": 7})
    verdict = judged(case, replicas=4, tensor_parallel=2)
    assert check(verdict, "limits.most_gpus").actual == 8
    assert failed(verdict) == ["limits.most_gpus"]


def test_users() -> None:
    changes = {"brief.requests_per_s": None, "brief.concurrent_users": 2000.0}
    verdict = judged(by_hand({**EASY, **changes}), weights="fp8")
    # at the promised pace, 0.5 s + 1000 x 125 ms = 125.5 s: 15.94/s asked, x 1.25
    rate = check(verdict, "brief.requests_per_s")
    assert rate.required == pytest.approx(2000 / 125.5 * 1.25, rel=EXACT)
    # fp8: arithmetic 25 ms, reads (10e9 + 20e9) / 1e12 = 30 ms; 1000 x 30 / 500 + 100 = 160 ms
    assert rate.actual == pytest.approx(4 / 0.16, rel=EXACT)
    users = check(verdict, "brief.concurrent_users")
    assert (users.required, users.actual, users.unit) == (2000.0, 2000.0, "sequences")
    assert verdict.complies


@pytest.mark.parametrize("upper", [True, False])
def test_boundaries_are_inclusive(upper: bool) -> None:
    sign = 1 if upper else -1
    for beyond, holds in ((0.0, True), (0.9 * TOLERANCE, True), (2 * TOLERANCE, False)):
        found = Check("x", 3.0, 3.0 * (1 + sign * beyond), "", upper)
        assert found.holds is holds
    assert Check("x", 3.0, 2.0, "", upper).holds is upper
    assert Check("x", 4.0, 2.0, "", upper).margin_frac == (0.5 if upper else -0.5)
    assert TOLERANCE == 1e-9


@pytest.mark.parametrize(("extra_bytes", "fits"), [(0, 583), (48e6 * 0.999, 583), (48e6, 584)])
def test_largest_batch_meets_memory_exactly(extra_bytes: float, fits: int) -> None:
    # 583 requests of 48 MB beside 20 GB of weights, nothing held back
    memory_gb = (20e9 + 583 * 48e6 + extra_bytes) / 1e9
    gpu = by_hand().hardware.gpus[0].model_dump(exclude_unset=True) | {"memory_gb": memory_gb}
    case = by_hand({"hardware.gpus": [gpu], "assumptions.memory_reserve": 0.0})
    assert judged(case).figures.largest_batch_that_fits == fits


def test_largest_batch_where_nothing_fits() -> None:
    gpu = by_hand().hardware.gpus[0].model_dump(exclude_unset=True) | {"memory_gb": 5.0}
    verdict = judged(by_hand({"hardware.gpus": [gpu]}), batch=1)
    assert verdict.figures.largest_batch_that_fits == 0
    assert "hardware.gpus" in failed(verdict)


def bottleneck(
    changes: Mapping[str, object], batch: int, bandwidth: float = 1000.0, tflops: float = 100.0
) -> str:
    gpu = by_hand().hardware.gpus[0].model_dump(exclude_unset=True)
    gpu |= {"bandwidth_gb_per_s": bandwidth, "tflops": {"fp16": tflops}}
    case = by_hand({"hardware.gpus": [gpu], **changes})
    return judged(case, batch=batch).figures.bottleneck


def test_prefill_compute() -> None:
    # prompt 100,000, answer 10: prefill 20 s, decode 10 x 22 ms
    changes = {"brief.prompt_tokens": 100_000, "brief.answer_tokens": 10}
    assert bottleneck(changes, 1) == "prefill_compute"


def test_decode_compute() -> None:
    # 500: arithmetic 100 ms, reads 40 ms; decode 1000 x 100 / 500 = 200 ms against prefill: 2 ms
    assert bottleneck({"brief.prompt_tokens": 10}, 500) == "decode_compute"


def test_kv_reads() -> None:
    # ten times the arithmetic: 500 sequences read 20 GB of cache, as much as the weights
    assert bottleneck({}, 500, tflops=1000.0) == "kv_reads"


@pytest.mark.parametrize("tpot", [40.0, 1e6])
def test_weight_reads_or_memory(tpot: float) -> None:
    # 499 sequences read 19.96 GB of cache beside 20 GB of weights: less
    changes = {"brief.tpot_target_ms": tpot}
    assert bottleneck(changes, 499, tflops=1000.0) == "weight_reads"


def test_memory_capacity() -> None:
    """Weights are most of the reads, and the batch is as large as memory allows."""
    # 28 GB: 28 x 0.8 = 22.4 GB; 2.4 GB / 48 MB = 50 requests
    gpu = by_hand().hardware.gpus[0].model_dump(exclude_unset=True)
    gpu |= {"memory_gb": 28.0, "tflops": {"fp16": 1000.0}}
    base: dict[str, object] = {"hardware.gpus": [gpu]}

    def at(batch: int, changes: Mapping[str, object]) -> str:
        return judged(by_hand({**base, **changes}), batch=batch).figures.bottleneck

    # 51 sequences would take (20 + 51 x 0.04) GB / 1 TB/s = 22.04 ms
    assert at(50, {"brief.tpot_target_ms": 22.04}) == "memory_capacity"
    assert at(50, {"brief.tpot_target_ms": 22.03}) == "weight_reads"  # the target keeps it there
    assert at(49, {}) == "weight_reads"  # memory would allow one more
    assert at(50, {"levers.batch": {"most": 50}}) == "weight_reads"  # the case's own limit
    assert at(50, {"levers.batch": {"most": 51}}) == "memory_capacity"


def test_a_prefill_that_only_reads_weights() -> None:
    """A short prompt and a one-token answer: prefill takes most, and reads weights."""
    changes = {"brief.prompt_tokens": 100, "brief.answer_tokens": 1}
    # prefill: arithmetic 20 ms x (100 / 1000) at 1000 TFLOP/s = 2 ms, reads 20 ms; decode
    # 20.06 ms / 2 sequences: half of it
    assert bottleneck(changes, 2, tflops=1000.0) == "weight_reads"


def test_prefill_and_decode_alike_is_decode() -> None:
    # one answer token at batch 1: decode reads 20 GB + 0.001 GB, prefill 20 GB
    changes = {"brief.prompt_tokens": 1, "brief.answer_tokens": 1}
    assert bottleneck(changes, 1, tflops=1000.0) == "weight_reads"


def test_arithmetic_and_reads_alike_is_arithmetic() -> None:
    # batch 250: reads 20 GB + 10 GB = 30 ms; arithmetic 20e9 x 250 / F = 30 ms at F = 166.67e12
    flops = 20e9 * 250 / 0.03 / 1e12
    assert bottleneck({"brief.prompt_tokens": 2000}, 250, tflops=flops * 0.9999) in (
        "decode_compute",
        "prefill_compute",
    )
    long = {"brief.prompt_tokens": 200, "brief.answer_tokens": 4600}  # the same 2500 of context
    assert bottleneck(long, 250, tflops=flops * 0.9999) == "decode_compute"
    assert bottleneck(long, 250, tflops=flops * 1.0001) == "weight_reads"


def test_price_is_in_whole_nano_dollars() -> None:
    gpu = by_hand().hardware.gpus[0].model_dump(exclude_unset=True) | {"usd_per_hour": 1 / 3}
    figures = judged(by_hand({"hardware.gpus": [gpu]}), replicas=3).figures
    assert figures.usd_per_hour == 0.999999999
    assert not math.isclose(figures.usd_per_hour, 1.0, rel_tol=1e-10)
