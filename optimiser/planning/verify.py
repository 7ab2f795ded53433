"""The independent check: a design recomputed in plain scalar code, requirement by requirement.

Nothing here is shared with the engine, the program or the solvers, so that an error in any of them
shows as a failed verdict. The formulas are the page's, steps 2 to 6.
"""

from dataclasses import dataclass
from typing import Literal

from optimiser.case import Case
from optimiser.planning.design import Design
from optimiser.planning.margin import slo_margin
from optimiser.planning.scalar import Pace, Replica, pace_of, replica_of
from optimiser.units import (
    BYTES_PER_MIB,
    FLOPS_PER_TFLOP,
    S_PER_HOUR,
    TOKENS_PER_MILLION,
    at_least,
    at_most,
    gb,
    ms,
    s_of_ms,
    usd,
    usd_per_month,
)

Bottleneck = Literal[
    "weight_reads", "kv_reads", "decode_compute", "prefill_compute", "memory_capacity"
]


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement of the case against what the design does."""

    requirement: str
    """Field of the case that asks for it."""
    required: float
    actual: float
    unit: str
    upper: bool
    """Whether `required` is an upper limit (else a lower one)."""

    @property
    def holds(self) -> bool:
        """Whether the requirement is met, boundary included."""
        return (at_most if self.upper else at_least)(self.actual, self.required)

    @property
    def margin_frac(self) -> float:
        """Spare ÷ required: positive where the requirement holds with room."""
        spare = self.required - self.actual if self.upper else self.actual - self.required
        return spare / self.required


@dataclass(frozen=True, slots=True)
class Figures:
    """What a design does and costs."""

    ttft_ms: float
    tpot_ms: float
    usd_per_million_answer_tokens: float
    usd_per_thousand_requests: float
    usd_per_hour: float
    usd_per_month: float
    requests_per_s_per_replica: float
    in_flight: float
    """Requests in the system by Little's law, at the rate without headroom."""
    largest_batch_that_fits: int
    """By memory alone, not capped by the case's own limit."""
    weight_gb: float
    """Weights of one replica."""
    kv_gb_per_request: float
    """KV cache of one finished request on one replica."""
    bottleneck: Bottleneck
    kv_mib_per_token: float
    tpot_alone_ms: float
    """Decode step with one sequence."""
    prefill_tflop: float
    prefill_bound: Literal["compute", "memory"]
    answer_tokens_per_s_per_replica: float
    time_in_system_s: float
    weight_read_gb_per_step: float
    kv_read_gb_per_step: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Every requirement checked, and the figures behind the checks."""

    checks: tuple[Check, ...]
    figures: Figures

    @property
    def complies(self) -> bool:
        """Whether every requirement holds."""
        return all(check.holds for check in self.checks)


def verify(case: Case, design: Design) -> Verdict:
    """Recompute a design and check it against every requirement of the case."""
    replica = replica_of(case, design)
    pace = pace_of(case, design, replica)
    figures = _figures(case, design, replica, pace)
    return Verdict(tuple(_checks(case, design, replica, figures)), figures)


def _checks(case: Case, design: Design, replica: Replica, figures: Figures) -> list[Check]:
    brief, limits = case.brief, case.limits
    used_gb = gb(replica.memory_bytes(design.batch))
    capacity = design.replicas * figures.requests_per_s_per_replica
    margin = slo_margin(case)
    ttft_target_s, ttft_s = brief.ttft_target_s * margin, s_of_ms(figures.ttft_ms)
    tpot_target_ms = brief.tpot_target_ms * margin
    checks = [
        Check("hardware.gpus", gb(replica.usable_bytes), used_gb, "GB per GPU", upper=True),
        Check("brief.ttft_target_s", ttft_target_s, ttft_s, "s", upper=True),
        Check("brief.tpot_target_ms", tpot_target_ms, figures.tpot_ms, "ms", upper=True),
        Check(
            "brief.requests_per_s",
            brief.rate * case.assumptions.headroom,
            capacity,
            "requests/s",
            upper=False,
        ),
    ]
    if brief.concurrent_users is not None:
        slots = float(design.replicas * design.batch)
        users = brief.concurrent_users
        checks.append(Check("brief.concurrent_users", users, slots, "sequences", upper=False))
    if limits.most_gpus is not None:
        gpus, most = float(design.rented_gpus), float(limits.most_gpus)
        checks.append(Check("limits.most_gpus", most, gpus, "GPUs", upper=True))
    if limits.usd_per_hour is not None:
        budget = limits.usd_per_hour
        checks.append(Check("limits.usd_per_hour", budget, figures.usd_per_hour, "$/h", upper=True))
    if limits.least_replicas is not None:
        least, replicas = float(limits.least_replicas), float(design.replicas)
        checks.append(Check("limits.least_replicas", least, replicas, "replicas", upper=False))
    most = case.levers.batch.most
    if design.batch > most:
        batch = float(design.batch)
        checks.append(Check("levers.batch.most", float(most), batch, "sequences", upper=True))
    return checks


def _figures(case: Case, design: Design, replica: Replica, pace: Pace) -> Figures:
    brief, chosen = case.brief, design.configuration
    tpot_s = pace.tpot_s(design.batch)
    request_s = pace.request_replica_s(design.batch)
    time_in_system_s = pace.residence_s(design.batch)
    price = usd(design.nano_usd_per_hour)
    requests_per_hour = brief.rate * S_PER_HOUR
    shards = chosen.tensor_parallel
    return Figures(
        ttft_ms=ms(pace.ttft_s(design.batch)),
        tpot_ms=ms(tpot_s),
        usd_per_million_answer_tokens=price
        / (requests_per_hour * brief.answer_tokens)
        * TOKENS_PER_MILLION,
        usd_per_thousand_requests=price / requests_per_hour * 1000,
        usd_per_hour=price,
        usd_per_month=usd_per_month(price),
        requests_per_s_per_replica=1 / request_s,
        in_flight=brief.rate * time_in_system_s,
        largest_batch_that_fits=replica.largest_batch,
        weight_gb=gb(replica.weight_bytes * shards),
        kv_gb_per_request=gb(replica.kv_held_bytes * shards),
        bottleneck=bottleneck(case, design, replica, pace),
        kv_mib_per_token=replica.kv_held_bytes
        * shards
        / (brief.prompt_tokens + brief.answer_tokens)
        / BYTES_PER_MIB,
        tpot_alone_ms=ms(pace.tpot_s(1)),
        prefill_tflop=replica.prefill_flops * shards / FLOPS_PER_TFLOP,
        prefill_bound="compute"
        if replica.prefill_compute_s >= replica.prefill_read_s
        else "memory",
        answer_tokens_per_s_per_replica=design.batch / tpot_s,
        time_in_system_s=time_in_system_s,
        weight_read_gb_per_step=gb(replica.weight_read_bytes(design.batch) * shards),
        kv_read_gb_per_step=gb(replica.kv_read_bytes(design.batch) * shards),
    )


def bottleneck(case: Case, design: Design, replica: Replica, pace: Pace) -> Bottleneck:
    """What a replica spends its time on, and so what to change first.

    Judged by the roofline of the replica in either fidelity. Of the replica-seconds that one
    request costs, the larger of prefill and decode decides:

    - `prefill_compute`: prefill takes more than decode, and is bound by arithmetic.
    - `decode_compute`: decode takes more, and its step is bound by arithmetic.
    - `kv_reads`: decode takes more, is bound by memory reads, and reads at least as many bytes of
      KV cache as of weights.
    - `memory_capacity`: reads of weights take most, and memory is what keeps the batch from
      growing to share them.
    - `weight_reads`: reads of weights take most, and something other than memory bounds the batch.
    """
    batch = design.batch
    weights_read, kv_read = replica.weight_read_bytes(batch), replica.kv_read_bytes(batch)
    decode_s = replica.answer * replica.step_s(batch) / batch
    if replica.prefill_s > decode_s:
        if replica.prefill_compute_s >= replica.prefill_read_s:
            return "prefill_compute"
    elif replica.decode_compute_s(batch) >= replica.decode_read_s(batch):
        return "decode_compute"
    elif kv_read >= weights_read:
        return "kv_reads"
    target_s = s_of_ms(case.brief.tpot_target_ms) * slo_margin(case)
    grows = at_most(pace.tpot_s(batch + 1), target_s)
    if replica.largest_batch <= batch < case.levers.batch.most and grows:
        return "memory_capacity"
    return "weight_reads"
