"""The independent check of a fleet: the true step time of every pool's mix, in scalar code.

With y requests per second of a class on n replicas, prefills take Σ y · P of every n replica-
seconds and decoding has the rest. In steps of τ a replica then runs

    B_w(τ) = y_w · S_w · τ / (n - Σ y · P)

sequences of each class on average, and a step takes

    t(τ) = max((weights read at ΣB + Σ B_w · cache read) / bandwidth, Σ B_w · FLOPs / rate)

The fleet settles at the least τ with t(τ) = τ. It must be within every class's target there, the
sequences must fit in memory, and their number in the case's limit.
"""

from collections.abc import Sequence

from optimiser.planning.design import Design
from optimiser.planning.margin import is_measured, slo_margin
from optimiser.planning.mix import Mix, Routed, memory_frac_of, overwhelmed
from optimiser.planning.scalar import Replica, replica_of
from optimiser.planning.settle_measured import settle_alone, settle_measured
from optimiser.planning.verify import Check
from optimiser.units import at_most, gb, ms

STEPS = 200
"""Halvings of the interval that holds the step time."""


def settle(design: Design, working: int, routed: Sequence[Routed], *, alone: bool = False) -> Mix:
    """Where so many working replicas of a design settle under a mix of classes.

    `alone`: the one class of its case. With measured times its replicas then run the design's
    batch, as those of one workload do.
    """
    if routed and is_measured(routed[0].case):
        if alone:
            return settle_alone(design, working, routed[0])
        return settle_measured(design, working, routed)
    parts = [
        (replica_of(case, design), rate / working) for one in routed for case, rate in one.parts
    ]
    prefill_s = {
        one.case.name: one.mean(lambda case: replica_of(case, design).prefill_s) for one in routed
    }
    if not parts:
        return Mix(0.0, 0.0, 0.0, 0.0, prefill_s, prefill_s, 0.0)
    busy = sum(rate * part.prefill_s for part, rate in parts)
    if busy >= 1:
        return overwhelmed(prefill_s, busy)
    # sequences for each second of step time
    running = [(part, rate * part.answer / (1 - busy)) for part, rate in parts]
    step_s = _step_s(running)
    counts = [(part, each * step_s) for part, each in running]
    total = sum(count for _, count in counts)
    memory_frac = memory_frac_of(counts)
    return Mix(step_s, step_s, total, memory_frac, prefill_s, prefill_s, busy)


def _step_s(running: Sequence[tuple[Replica, float]]) -> float:
    """The least step time that the mix keeps to; inf where there is none."""
    first = running[0][0]

    def overrun_s(step_s: float) -> float:
        total = sum(each * step_s for _, each in running)
        unread = first.expert_bytes * first.experts_missed_frac**total
        cache = sum(each * step_s * part.kv_read_bytes_per_sequence for part, each in running)
        return (first.weight_bytes - unread + cache) / first.bytes_per_s - step_s

    arithmetic = sum(each * part.decode_flops for part, each in running) / first.flops_per_s
    reads = sum(each * part.kv_read_bytes_per_sequence for part, each in running)
    if not at_most(arithmetic, 1.0) or reads >= first.bytes_per_s:
        return float("inf")
    low, high = 0.0, first.weight_bytes / (first.bytes_per_s - reads) * (1 + 1e-12)
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if overrun_s(middle) > 0 else (low, middle)
    return high


def check_pool(
    name: str, design: Design, mix: Mix, routed: Sequence[Routed], most_batch: int
) -> list[Check]:
    """Every requirement that a pool must meet for the classes that it serves."""
    checks = []
    for one in routed:
        brief, field = one.case.brief, f"workloads.{one.case.name}"
        margin = slo_margin(one.case)
        checks += [
            Check(
                f"{field}.ttft_target_s",
                brief.ttft_target_s * margin,
                mix.ttft_s[one.case.name],
                "s",
                upper=True,
            ),
            Check(
                f"{field}.tpot_target_ms",
                brief.tpot_target_ms * margin,
                ms(mix.tpot_s),
                "ms",
                upper=True,
            ),
        ]
        if one.rows:
            replicas = [replica_of(case, design) for case, _ in one.rows]
            usable, longest = replicas[0].usable_bytes, max(r.memory_bytes(1) for r in replicas)
            unit = "GB per GPU"
            checks.append(Check(f"{field}.histogram", gb(usable), gb(longest), unit, upper=True))
    usable_gb = gb(replica_of(routed[0].case, design).usable_bytes)
    used_gb = mix.memory_frac * usable_gb
    most = float(most_batch)
    checks += [
        Check(f"pools.{name}.memory", usable_gb, used_gb, "GB per GPU", upper=True),
        Check(f"pools.{name}.batch", most, mix.sequences, "sequences", upper=True),
    ]
    return checks
