"""Exhaustive search over a case: every configuration, batch and replica count, one at a time.

For tests only. It shares the case's values and units with the product and nothing else: the
formulas are those of `golden/seed.json`, written out again.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from optimiser.case import Case
from optimiser.catalogue.gpu import Gpu

SLACK = 1e-9
NOTHING: frozenset[str] = frozenset()

WEIGHT_BYTES = {"fp32": 4.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5}
CACHE_BYTES = {"fp16": 2.0, "fp8": 1.0, "int8": 1.0}
WEIGHT_ORDER = ("fp32", "fp16", "fp8", "int8", "int4")
CACHE_ORDER = ("fp16", "fp8", "int8")


@dataclass(frozen=True)
class Choice:
    """One configuration of a case, in the oracle's own words."""

    weights: str
    kv_cache: str
    kv_heads: int
    gpu: Gpu
    tensor_parallel: int


@dataclass(frozen=True)
class Answer:
    """The cheapest design."""

    nano_usd: int
    choice: Choice
    batch: int
    replicas: int

    @property
    def gpus(self) -> int:
        return self.replicas * self.choice.tensor_parallel


def choices(case: Case) -> Iterator[Choice]:
    heads = case.model.attention_heads
    for gpu in case.hardware.gpus:
        for size in case.levers.tensor_parallel:
            for kv_heads in case.levers.kv_heads or [case.model.kv_heads]:
                splits = kv_heads % size == 0 or size % kv_heads == 0
                if heads % size != 0 or not splits:
                    continue
                for weights in case.levers.weights:
                    for cache in case.levers.kv_cache:
                        yield Choice(weights, cache, kv_heads, gpu, size)


def memory_gb(choice: Choice) -> float:
    if choice.gpu.memory_bytes is not None:
        return choice.gpu.memory_bytes / 1e9
    return choice.gpu.memory_gb


def usable_bytes(case: Case, choice: Choice) -> float:
    return memory_gb(choice) * 1e9 * (1 - case.assumptions.memory_reserve)


def weight_bytes(case: Case, choice: Choice) -> float:
    return case.model.params * WEIGHT_BYTES[choice.weights] / choice.tensor_parallel


def kv_bytes_per_token(case: Case, choice: Choice) -> float:
    model = case.model
    whole = 2 * model.layers * choice.kv_heads * model.head_dim * CACHE_BYTES[choice.kv_cache]
    return whole / min(choice.tensor_parallel, choice.kv_heads)


def peak_flops(case: Case, choice: Choice) -> float:
    rates = choice.gpu.tflops
    sixteen = rates.get("fp16", rates.get("bf16"))
    rate = rates.get(choice.weights, sixteen) if choice.weights in ("fp8", "fp32") else sixteen
    return rate * 1e12 * case.assumptions.efficiency


def bandwidth(case: Case, choice: Choice) -> float:
    return choice.gpu.bandwidth_gb_per_s * 1e9 * case.assumptions.efficiency


def flops_per_token(case: Case, choice: Choice) -> float:
    return 2 * case.model.params / choice.tensor_parallel


def prefill_s(case: Case, choice: Choice) -> float:
    work = flops_per_token(case, choice) * case.brief.prompt_tokens
    return max(
        work / peak_flops(case, choice), weight_bytes(case, choice) / bandwidth(case, choice)
    )


def step_s(case: Case, choice: Choice, batch: int) -> float:
    context = case.brief.prompt_tokens + case.brief.answer_tokens / 2
    read = weight_bytes(case, choice) + batch * context * kv_bytes_per_token(case, choice)
    work = flops_per_token(case, choice) * batch
    return max(work / peak_flops(case, choice), read / bandwidth(case, choice))


def request_replica_s(case: Case, choice: Choice, batch: int) -> float:
    decode = case.brief.answer_tokens * step_s(case, choice, batch) / batch
    return decode + prefill_s(case, choice)


def memory_bytes(case: Case, choice: Choice, batch: int) -> float:
    tokens = case.brief.prompt_tokens + case.brief.answer_tokens
    return weight_bytes(case, choice) + batch * tokens * kv_bytes_per_token(case, choice)


def rate(case: Case) -> float:
    brief = case.brief
    if brief.requests_per_s is not None:
        return brief.requests_per_s
    pace_s = brief.ttft_target_s + brief.answer_tokens * (brief.tpot_target_ms / 1000)
    return brief.concurrent_users / pace_s


def nano_price(case: Case, choice: Choice) -> int:
    each = case.hardware.usd_per_gpu_hour
    if each is None:
        each = choice.gpu.usd_per_hour
    return round(each * 1e9) * choice.tensor_parallel


def runs(case: Case, choice: Choice, batch: int, without: frozenset[str] = NOTHING) -> bool:
    """Whether one replica at a batch keeps its promises, whatever the traffic."""
    brief = case.brief
    if "hardware.gpus" not in without:
        used = memory_bytes(case, choice, batch)
        if used > usable_bytes(case, choice) * (1 + SLACK):
            return False
    if "brief.tpot_target_ms" not in without:
        limit_s = brief.tpot_target_ms / 1000
        if step_s(case, choice, batch) > limit_s * (1 + SLACK):
            return False
    if "brief.ttft_target_s" not in without:
        return prefill_s(case, choice) <= brief.ttft_target_s * (1 + SLACK)
    return True


def serves(case: Case, choice: Choice, batch: int, replicas: int) -> bool:
    """Whether so many replicas carry the traffic."""
    demand = rate(case) * case.assumptions.headroom
    capacity = replicas / request_replica_s(case, choice, batch)
    if capacity < demand * (1 - SLACK):
        return False
    users = case.brief.concurrent_users
    return users is None or replicas * batch >= users * (1 - SLACK)


def fewest_replicas(
    case: Case, choice: Choice, batch: int, without: frozenset[str] = NOTHING
) -> int:
    replicas = 1
    if case.limits.least_replicas is not None and "limits.least_replicas" not in without:
        replicas = case.limits.least_replicas
    if {"brief.requests_per_s", "brief.concurrent_users"} & without:
        return replicas
    # start well below the answer, then count up one at a time
    need = rate(case) * case.assumptions.headroom * request_replica_s(case, choice, batch)
    replicas = max(replicas, math.floor(need) - 2)
    if case.brief.concurrent_users is not None:
        replicas = max(replicas, math.floor(case.brief.concurrent_users / batch) - 2)
    while not serves(case, choice, batch, replicas):
        replicas += 1
    return replicas


def affordable(
    case: Case, choice: Choice, replicas: int, without: frozenset[str] = NOTHING
) -> bool:
    limits = case.limits
    if limits.most_gpus is not None and "limits.most_gpus" not in without:
        gpus = replicas * choice.tensor_parallel
        if gpus > limits.most_gpus * (1 + SLACK):
            return False
    if limits.usd_per_hour is not None and "limits.usd_per_hour" not in without:
        cost = replicas * nano_price(case, choice)
        return cost <= limits.usd_per_hour * 1e9 * (1 + SLACK)
    return True


def designs(case: Case, without: frozenset[str] = NOTHING) -> Iterator[Answer]:
    """Every compliant configuration and batch, with the fewest replicas that do."""
    for choice in choices(case):
        for batch in range(1, case.levers.batch.most + 1):
            if not runs(case, choice, batch, without):
                continue
            replicas = fewest_replicas(case, choice, batch, without)
            if affordable(case, choice, replicas, without):
                yield Answer(replicas * nano_price(case, choice), choice, batch, replicas)


def order(case: Case, answer: Answer) -> tuple[object, ...]:
    choice = answer.choice
    return (
        answer.nano_usd,
        abs(math.log2(case.model.kv_heads / choice.kv_heads)),
        max(0.0, 16 - 8 * WEIGHT_BYTES[choice.weights]),
        max(0.0, 16 - 8 * CACHE_BYTES[choice.kv_cache]),
        answer.gpus,
        choice.tensor_parallel,
        -answer.batch,
        choice.gpu.name,
        WEIGHT_ORDER.index(choice.weights),
        CACHE_ORDER.index(choice.kv_cache),
        -choice.kv_heads,
    )


def cheapest(case: Case) -> Answer | None:
    """The one best design, or None where nothing complies."""
    return min(designs(case), key=lambda answer: order(case, answer), default=None)


def feasible(case: Case, without: frozenset[str] = NOTHING) -> bool:
    """Whether anything complies once some requirements are dropped."""
    return next(designs(case, without), None) is not None


DELETION_ORDER = (
    "limits.most_gpus",
    "limits.usd_per_hour",
    "limits.least_replicas",
    "brief.ttft_target_s",
    "brief.tpot_target_ms",
    "brief.requests_per_s",
    "brief.concurrent_users",
    "hardware.gpus",
)


def asked_for(case: Case) -> list[str]:
    """The fields that a case states, in the order in which deletion tries them."""
    stated = []
    for name in DELETION_ORDER:
        section, field = name.split(".")
        if getattr(getattr(case, section), field) is not None:
            stated.append(name)
    return stated


def conflicts(case: Case) -> list[tuple[str, ...]]:
    """Minimal conflicting sets, one after the other, until what is left complies."""
    found: list[tuple[str, ...]] = []
    relaxed = NOTHING
    while not feasible(case, relaxed):
        kept = [name for name in asked_for(case) if name not in relaxed]
        dropped = relaxed
        for name in tuple(kept):
            if not feasible(case, dropped | {name}):
                dropped |= {name}
                kept.remove(name)
        assert kept, "nothing left to relax"
        found.append(tuple(kept))
        relaxed |= set(kept)
    return found
