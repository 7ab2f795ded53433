"""Exhaustive search over a case: every configuration, offer, batch and replica count, one by one.

For tests only. It shares the case's values and units with the product and nothing else: the
formulas are those of `golden/seed.json`, and for real models those of the engine's docstrings,
written out again.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from optimiser.case import Case
from optimiser.catalogue.gpu import Gpu
from optimiser.planning.deployment import constants, deployment
from optimiser.planning.latency_scalar import Latency

SLACK = 1e-9
NOTHING: frozenset[str] = frozenset()

WEIGHT_BYTES = {
    "fp32": 4.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "fp8-block": 1 + 4 / 16_384,
    "int8": 1.0,
    "w8a8-int8": 1.0,
    "mxfp4": 17 / 32,
    "nvfp4": 9 / 16,
    "int4": 0.5,
    "int4-g128": 66.5 / 128,
    "int4-g64": 34.5 / 64,
    "int4-g32": 18.5 / 32,
}
OF_EVERY_PARAMETER = ("fp32", "fp16", "int8", "int4")
OWN_RATE = {
    "fp32": "fp32",
    "fp8": "fp8",
    "fp8-block": "fp8",
    "w8a8-int8": "int8",
    "mxfp4": "fp4",
    "nvfp4": "fp4",
}
CACHE_BYTES = {"fp16": 2.0, "fp8": 1.0, "int8": 1.0}
WEIGHT_ORDER = tuple(WEIGHT_BYTES)
CACHE_ORDER = ("fp16", "fp8", "int8")
GIB = 2**30


@dataclass(frozen=True)
class Choice:
    """One configuration of a case, in the oracle's own words."""

    weights: str
    kv_cache: str
    kv_heads: int
    gpu: Gpu
    tensor_parallel: int


@dataclass(frozen=True)
class Lot:
    """What is paid for at once: the GPUs of one replica, or one instance of an offer."""

    nano_usd: int
    gpus: int
    replicas: int


@dataclass(frozen=True)
class Answer:
    """The cheapest design."""

    nano_usd: int
    choice: Choice
    batch: int
    replicas: int
    rented_gpus: int

    @property
    def gpus(self) -> int:
        return self.replicas * self.choice.tensor_parallel


def choices(case: Case) -> Iterator[Choice]:
    model = case.model
    heads = model.attention_heads
    widths = [width for width in (model.ffn_size, model.expert_ffn_size) if width]
    for gpu in case.hardware.gpus:
        for size in case.levers.tensor_parallel:
            if not lots(case, gpu, size) or any(width % size for width in widths):
                continue
            for kv_heads in case.levers.kv_heads or [model.kv_heads]:
                splits = kv_heads == 0 or kv_heads % size == 0 or size % kv_heads == 0
                if heads % size != 0 or not splits:
                    continue
                for weights in case.levers.weights or [own_format(case)]:
                    for cache in case.levers.kv_cache:
                        yield Choice(weights, cache, kv_heads, gpu, size)


def lots(case: Case, gpu: Gpu, size: int) -> list[Lot]:
    """Every way to pay for replicas of a size; a replica stays within an instance, or a node."""
    price = case.hardware.usd_per_gpu_hour
    if price is None:
        price = gpu.usd_per_hour
    if price is not None:
        node = gpu.gpus_per_node or 8
        return [Lot(round(price * 1e9) * size, size, 1)] if size <= node else []
    found = []
    wanted = case.hardware.offers
    for offer in case._catalogue.offers(gpu.name):
        if wanted.names is not None and offer.name not in wanted.names:
            continue
        if wanted.clouds is not None and offer.cloud not in wanted.clouds:
            continue
        if wanted.regions is not None and offer.region not in wanted.regions:
            continue
        held = offer.gpus_per_instance // size
        prices = {"on-demand": offer.usd_per_hour, "spot": offer.spot_usd_per_hour}
        found += [
            Lot(round(prices[term] * 1e9), offer.gpus_per_instance, held)
            for term in wanted.terms
            if held and prices[term] is not None
        ]
    return found


def own_format(case: Case) -> str:
    return case.model.stored.format if case.model.stored else "fp16"


def memory_gb(choice: Choice) -> float:
    if choice.gpu.memory_bytes is not None:
        return choice.gpu.memory_bytes / 1e9
    return choice.gpu.memory_gb


def itemised(case: Case) -> bool:
    return case.assumptions.memory == "itemised"


def usable_frac(case: Case) -> float:
    if itemised(case):
        return case.assumptions.memory_utilization
    return 1 - case.assumptions.memory_reserve


def usable_bytes(case: Case, choice: Choice) -> float:
    return memory_gb(choice) * 1e9 * usable_frac(case)


def routed_params(case: Case) -> int:
    experts = case.model.experts
    return experts.layers * experts.count * experts.params_each if experts else 0


def quantised_params(case: Case, weights: str) -> float:
    """How many parameters take a format; the others stay in 16 bits."""
    model = case.model
    if weights in OF_EVERY_PARAMETER or model.embedding_params is None:
        return model.params
    if weights == own_format(case):
        return model.stored.params
    if weights == "mxfp4" and model.experts:
        return routed_params(case)
    return model.params - model.embedding_params - (model.head_params or 0)


def expert_bytes(case: Case, choice: Choice) -> float:
    """Routed experts on one GPU; they are the first to be quantised."""
    model, width = case.model, WEIGHT_BYTES[choice.weights]
    routed = routed_params(case)
    small = min(routed, quantised_params(case, choice.weights))
    held = small * width + (routed - small) * 2.0
    if choice.weights in OF_EVERY_PARAMETER:
        held = routed * width
    if choice.weights == "mxfp4" and model.expert_ffn_size:
        held *= math.ceil(model.expert_ffn_size / 256) * 256 / model.expert_ffn_size
    return held / choice.tensor_parallel


def weight_bytes(case: Case, choice: Choice) -> float:
    """All weights on one GPU."""
    model, width = case.model, WEIGHT_BYTES[choice.weights]
    routed = expert_bytes(case, choice)
    if model.weight_bytes is not None and choice.weights == own_format(case):
        return max(model.weight_bytes / choice.tensor_parallel, routed)
    routed_small = min(routed_params(case), quantised_params(case, choice.weights))
    small = quantised_params(case, choice.weights) - routed_small
    large = model.params - routed_params(case) - small
    return (small * width + large * 2.0) / choice.tensor_parallel + routed


def weights_read_bytes(case: Case, choice: Choice, tokens: float) -> float:
    """Weights that a pass reads: of each layer's experts the distinct ones that tokens go to."""
    experts = case.model.experts
    if not experts:
        return weight_bytes(case, choice)
    distinct = experts.count * (1 - (1 - experts.per_token / experts.count) ** tokens)
    routed = expert_bytes(case, choice)
    return weight_bytes(case, choice) - routed + routed * distinct / experts.count


def kv_bytes(case: Case, choice: Choice, context: float) -> float:
    """Cache of one sequence on one GPU."""
    model, width = case.model, CACHE_BYTES[choice.kv_cache]
    if not model.cache:
        whole = 2 * model.layers * choice.kv_heads * model.head_dim * width * context
        return whole / min(choice.tensor_parallel, choice.kv_heads)
    total = 0.0
    for run in model.cache:
        if run.kind == "state":
            total += run.layers * run.state_bytes / choice.tensor_parallel
            continue
        tokens = min(context, run.window_tokens or context)
        if run.kind == "latent":
            total += run.layers * run.numbers_per_token * tokens * width
            continue
        heads = max(1, choice.kv_heads * run.kv_heads // model.kv_heads)
        on_one = heads / min(heads, choice.tensor_parallel)
        total += run.layers * run.numbers_per_token / run.kv_heads * on_one * tokens * width
    return total


def peak_flops(case: Case, choice: Choice) -> float:
    rates = choice.gpu.tflops
    sixteen = rates.get("fp16", rates.get("bf16"))
    rate = rates.get(OWN_RATE.get(choice.weights, "fp16"), sixteen)
    return rate * 1e12 * case.assumptions.efficiency


def bandwidth(case: Case, choice: Choice) -> float:
    return choice.gpu.bandwidth_gb_per_s * 1e9 * case.assumptions.efficiency


def flops_per_token(case: Case, choice: Choice, context: float) -> float:
    """Products with the parameters, and where parts are known attention's own."""
    model = case.model
    active = model.active_params or model.params
    if model.head_params:
        active -= model.embedding_params
    work = 2 * active
    if model.embedding_params is not None:
        plain = [(model.layers, model.head_dim, None)]
        runs = [
            (run.layers, run.numbers_per_token if run.kind == "latent" else run.head_dim, run)
            for run in model.cache
            if run.kind != "state"
        ]
        for layers, width, run in runs if model.cache else plain:
            kept = context if run is None else min(context, run.window_tokens or context)
            work += 4 * layers * model.attention_heads * width * kept
    return work / choice.tensor_parallel


def prefill_s(case: Case, choice: Choice) -> float:
    prompt = case.brief.prompt_tokens
    cached = prompt * case.assumptions.prefix_cached_frac
    work = flops_per_token(case, choice, prompt / 2) * prompt
    work -= flops_per_token(case, choice, cached / 2) * cached
    read = weights_read_bytes(case, choice, prompt)
    return max(work / peak_flops(case, choice), read / bandwidth(case, choice))


def step_s(case: Case, choice: Choice, batch: int) -> float:
    context = case.brief.prompt_tokens + case.brief.answer_tokens / 2
    read = weights_read_bytes(case, choice, batch) + batch * kv_bytes(case, choice, context)
    work = flops_per_token(case, choice, context) * batch
    return max(work / peak_flops(case, choice), read / bandwidth(case, choice))


def measured(case: Case, choice: Choice) -> Latency | None:
    """The latency model's scalar twin, where the case asks for it; tests hold it to the engine."""
    if case.assumptions.latency == "ideal":
        return None
    return Latency(deployment(case, choice), constants(case, choice.gpu))  # type: ignore[arg-type]


def tpot_s(case: Case, choice: Choice, batch: int) -> float:
    twin = measured(case, choice)
    return twin.tpot_s(batch) if twin else step_s(case, choice, batch)


def ttft_s(case: Case, choice: Choice, batch: int) -> float:
    twin = measured(case, choice)
    return twin.ttft_s(batch) if twin else prefill_s(case, choice)


def planned_at(case: Case) -> float:
    """Share of the targets: the case's own, else all of them by the roofline."""
    own = case.assumptions.slo_margin
    if own is None:
        assert case.assumptions.latency == "ideal", "a measured draw states its margin"
        return 1.0
    return own


def request_replica_s(case: Case, choice: Choice, batch: int) -> float:
    twin = measured(case, choice)
    if twin:
        return twin.request_replica_s(batch)
    decode = case.brief.answer_tokens * step_s(case, choice, batch) / batch
    return decode + prefill_s(case, choice)


def memory_bytes(case: Case, choice: Choice, batch: int) -> float:
    """What is in use at the fullest moment: computing a step, or sampling from it."""
    tokens = case.brief.prompt_tokens + case.brief.answer_tokens
    held = weight_bytes(case, choice) + batch * kv_bytes(case, choice, tokens)
    if not itemised(case):
        return held
    model, size = case.model, choice.tensor_parallel
    step = case.assumptions.max_num_batched_tokens
    if step is None:
        large = memory_gb(choice) * 1e9 >= 70 * GIB and "a100" not in choice.gpu.name.lower()
        step = 8192 if large else 2048
    computing = 2 * step * 3 * (model.ffn_size / size + model.hidden_size)
    sampling = 2 * step * model.hidden_size + batch * 39 * model.vocab_size
    return held + (0.13 if size == 1 else 0.55) * GIB + max(computing, sampling)


def rate(case: Case) -> float:
    brief = case.brief
    if brief.requests_per_s is not None:
        return brief.requests_per_s
    pace_s = brief.ttft_target_s + brief.answer_tokens * (brief.tpot_target_ms / 1000)
    return brief.concurrent_users / pace_s


def instances(lot: Lot, replicas: int) -> int:
    """Fewest lots that hold so many replicas, counted up."""
    count = max(1, replicas // lot.replicas - 1)
    while count * lot.replicas < replicas:
        count += 1
    return count


def runs(case: Case, choice: Choice, batch: int, without: frozenset[str] = NOTHING) -> bool:
    """Whether one replica at a batch keeps its promises, whatever the traffic."""
    brief = case.brief
    if "hardware.gpus" not in without:
        used = memory_bytes(case, choice, batch)
        if used > usable_bytes(case, choice) * (1 + SLACK):
            return False
    if "brief.tpot_target_ms" not in without:
        limit_s = brief.tpot_target_ms / 1000 * planned_at(case)
        if tpot_s(case, choice, batch) > limit_s * (1 + SLACK):
            return False
    if "brief.ttft_target_s" not in without:
        limit_s = brief.ttft_target_s * planned_at(case)
        return ttft_s(case, choice, batch) <= limit_s * (1 + SLACK)
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


def affordable(case: Case, gpus: int, cost: int, without: frozenset[str] = NOTHING) -> bool:
    """Whether the limits allow so many rented GPUs at a cost."""
    limits = case.limits
    counted = limits.most_gpus is not None and "limits.most_gpus" not in without
    if counted and gpus > limits.most_gpus * (1 + SLACK):
        return False
    if limits.usd_per_hour is not None and "limits.usd_per_hour" not in without:
        return cost <= limits.usd_per_hour * 1e9 * (1 + SLACK)
    return True


def designs(case: Case, without: frozenset[str] = NOTHING) -> Iterator[Answer]:
    """Every compliant configuration, batch and offer, with the fewest replicas that do."""
    for choice in choices(case):
        rented = lots(case, choice.gpu, choice.tensor_parallel)
        for batch in range(1, case.levers.batch.most + 1):
            if not runs(case, choice, batch, without):
                continue
            replicas = fewest_replicas(case, choice, batch, without)
            for lot in rented:
                count = instances(lot, replicas)
                cost, gpus = count * lot.nano_usd, count * lot.gpus
                if affordable(case, gpus, cost, without):
                    yield Answer(cost, choice, batch, replicas, gpus)


def order(case: Case, answer: Answer) -> tuple[object, ...]:
    choice = answer.choice
    return (
        answer.nano_usd,
        abs(math.log2(case.model.kv_heads / choice.kv_heads)) if choice.kv_heads else 0.0,
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
