"""Drawn cases: one seed always gives one case, with boundaries met exactly in many of them."""

import math
from collections.abc import Mapping
from random import Random

import numpy as np
from hypothesis import strategies as st

from optimiser.case import Case
from optimiser.catalogue.load import Catalogue
from optimiser.catalogue.offer import Offer
from optimiser.errors import CaseError
from optimiser.yaml_io import Document
from tests import oracle

AWKWARD_PRICES = (1 / 3, 2 / 7, 0.1 + 0.2, 1.234567891, 3.9999999994, math.pi, 1e-3 / 7)
PLAIN_PRICES = (0.5, 0.75, 1.0, 1.2, 1.99, 2.0, 2.0, 4.0)


class Shop(Catalogue):
    """A catalogue of some offers alone, kept in memory."""

    def __init__(self, *offers: Offer) -> None:
        super().__init__()
        self.stock = offers

    def offers(self, gpu: str) -> tuple[Offer, ...]:
        return tuple(offer for offer in self.stock if offer.gpu == gpu)

    def names(self, kind: str) -> tuple[str, ...]:
        return tuple(sorted({offer.gpu for offer in self.stock})) if kind == "gpus" else ()


def case_of(data: Mapping[str, object], known: Catalogue | None = None) -> Case:
    return Case.of_document(Document("drawn", dict(data)), known)


def log_uniform(random: Random, low: float, high: float) -> float:
    return math.exp(random.uniform(math.log(low), math.log(high)))


def subset(random: Random, values: tuple[object, ...], most: int | None = None) -> list[object]:
    count = random.randint(1, min(most or len(values), len(values)))
    return random.sample(values, count)


def draw_gpu(random: Random, name: str) -> dict[str, object]:
    tflops = {"fp16": round(log_uniform(random, 20, 500), 1)}
    if random.random() < 0.3:
        tflops = {"bf16": tflops["fp16"]}
    if random.random() < 0.5:
        tflops["fp8"] = round(log_uniform(random, 20, 1000), 1)
    if random.random() < 0.3:
        tflops["fp32"] = round(log_uniform(random, 5, 60), 1)
    gpu: dict[str, object] = {
        "name": name,
        "bandwidth_gb_per_s": round(log_uniform(random, 300, 3500)),
        "tflops": tflops,
        "usd_per_hour": random.choice(PLAIN_PRICES + AWKWARD_PRICES),
    }
    memory_gb = random.choice((16, 24, 40, 48, 80, 80, 96))
    if random.random() < 0.3:
        gpu["memory_bytes"] = int(memory_gb * 0.96 * 2**30)
    else:
        gpu["memory_gb"] = memory_gb
    return gpu


def draw_hardware(random: Random) -> dict[str, object]:
    names = random.sample(("able", "baker", "charlie", "delta"), random.randint(1, 3))
    gpus = [draw_gpu(random, name) for name in names]
    if len(gpus) > 1 and random.random() < 0.4:
        # twins of one price, or one twice the other: ties that only the order can settle
        twin = {**gpus[0], "name": names[1]}
        if random.random() < 0.5:
            twin["usd_per_hour"] = 2 * gpus[0]["usd_per_hour"]
            twin["bandwidth_gb_per_s"] = 2 * gpus[0]["bandwidth_gb_per_s"]
            twin["tflops"] = {key: 2 * value for key, value in gpus[0]["tflops"].items()}
        gpus[1] = twin
    hardware: dict[str, object] = {"gpus": gpus}
    if random.random() < 0.25:
        hardware["usd_per_gpu_hour"] = random.choice(PLAIN_PRICES + AWKWARD_PRICES)
    return hardware


def draw_data(random: Random) -> dict[str, object]:
    attention_heads = random.choice((8, 16, 32))
    own = random.choice([h for h in (1, 2, 4, 8, 16, 32) if attention_heads % h == 0])
    heads = [h for h in (1, 2, 4, 8, 16, 32) if attention_heads % h == 0]
    levers: dict[str, object] = {
        "weights": subset(random, ("fp16", "fp8", "int8", "int4", "fp32"), 3),
        "kv_cache": subset(random, ("fp16", "fp8", "int8")),
        "tensor_parallel": subset(random, (1, 2, 4)),
        "batch": {"most": random.choice((1, 2, 3, 8, 16, 32, 48, 64, 64))},
    }
    if random.random() < 0.7:
        levers["kv_heads"] = [own, *random.sample(heads, random.randint(0, 2))]
    return {
        "name": "drawn",
        "brief": {
            "requests_per_s": float(f"{log_uniform(random, 0.3, 300):.3g}"),
            "prompt_tokens": round(log_uniform(random, 50, 3000)),
            "answer_tokens": round(log_uniform(random, 20, 800)),
            "ttft_target_s": float(f"{log_uniform(random, 0.1, 5):.2g}"),
            "tpot_target_ms": float(f"{log_uniform(random, 12, 200):.2g}"),
        },
        "model": {
            "name": "drawn",
            "params": float(f"{log_uniform(random, 5e8, 1.5e10):.3g}"),
            "layers": random.randint(8, 48),
            "attention_heads": attention_heads,
            "kv_heads": own,
            "head_dim": random.choice((64, 96, 128)),
        },
        "hardware": draw_hardware(random),
        "levers": levers,
        "assumptions": {
            "efficiency": random.choice((1.0, 1.0, 0.7, 0.5, 0.333)),
            "headroom": random.choice((1.0, 1.3, 1.25, 1.7)),
            "memory_reserve": random.choice((0.0, 0.1, 0.1, 0.05)),
        },
        "limits": {},
    }


def plain(random: Random, case: Case) -> Case:
    return case


def tpot_met_exactly(random: Random, case: Case) -> Case:
    """The target is the step of some configuration at some batch."""
    choice, batch = _some_point(random, case)
    return case.changed({"brief.tpot_target_ms": oracle.step_s(case, choice, batch) * 1000})


def ttft_met_exactly(random: Random, case: Case) -> Case:
    choice, _ = _some_point(random, case)
    return case.changed({"brief.ttft_target_s": oracle.prefill_s(case, choice)})


def memory_met_exactly(random: Random, case: Case) -> Case:
    choice, batch = _some_point(random, case)
    exact = oracle.memory_bytes(case, choice, batch) / oracle.usable_frac(case) / 1e9
    gpus = []
    for gpu in case.hardware.gpus:
        fields = gpu.model_dump(exclude_unset=True)
        if gpu.name == choice.gpu.name:
            fields.pop("memory_bytes", None)
            fields["memory_gb"] = exact
        gpus.append(fields)
    return case.changed({"hardware.gpus": gpus})


def replicas_met_exactly(random: Random, case: Case) -> Case:
    """The rate is what a whole number of replicas carries at some batch."""
    choice, batch = _some_point(random, case)
    each = 1 / oracle.request_replica_s(case, choice, batch)
    replicas = random.choice((1, 2, 3, 7, 20))
    return case.changed({"brief.requests_per_s": replicas * each / case.assumptions.headroom})


def users(random: Random, case: Case) -> Case:
    count = random.choice((1, 7, 64, 200, 999))
    return case.changed({"brief.requests_per_s": None, "brief.concurrent_users": float(count)})


def users_met_exactly(random: Random, case: Case) -> Case:
    _, batch = _some_point(random, case)
    count = float(batch * random.choice((1, 2, 5, 13)))
    return case.changed({"brief.requests_per_s": None, "brief.concurrent_users": count})


def budget_met_exactly(random: Random, case: Case) -> Case:
    best = oracle.cheapest(case)
    return case.changed({"limits.usd_per_hour": best.nano_usd / 1e9}) if best else case


def budget_just_missed(random: Random, case: Case) -> Case:
    best = oracle.cheapest(case)
    return case.changed({"limits.usd_per_hour": best.nano_usd / 1e9 * (1 - 1e-6)}) if best else case


def gpus_met_exactly(random: Random, case: Case) -> Case:
    best = oracle.cheapest(case)
    return case.changed({"limits.most_gpus": best.rented_gpus}) if best else case


def fewer_gpus(random: Random, case: Case) -> Case:
    best = oracle.cheapest(case)
    return case.changed({"limits.most_gpus": max(1, best.rented_gpus - 1)}) if best else case


def more_replicas(random: Random, case: Case) -> Case:
    return case.changed({"limits.least_replicas": random.choice((1, 2, 3, 10, 40))})


TWISTS = (
    plain,
    tpot_met_exactly,
    ttft_met_exactly,
    memory_met_exactly,
    replicas_met_exactly,
    users,
    users_met_exactly,
    budget_met_exactly,
    budget_just_missed,
    gpus_met_exactly,
    fewer_gpus,
    more_replicas,
)


def _some_point(random: Random, case: Case) -> tuple[oracle.Choice, int]:
    """A configuration and a batch, one that runs where there is any."""
    points = [
        (choice, batch)
        for choice in oracle.choices(case)
        for batch in (1, 2, 3, 5, 17, case.levers.batch.most)
        if batch <= case.levers.batch.most
    ]
    good = [point for point in points if oracle.runs(case, *point)]
    return random.choice(good or points)


def draw_case(seed: int) -> Case:
    """The case of a seed; every twelfth has the same twist, every fifth has two."""
    random = Random(seed)
    case = case_of(_legal(random))
    if seed % 5 == 4:
        case = random.choice(TWISTS[:5])(random, case)
    return TWISTS[seed % len(TWISTS)](random, case)


def _legal(random: Random) -> dict[str, object]:
    """Drawn data of which some combination is legal."""
    while True:
        data = draw_data(random)
        if next(oracle.choices(case_of(data)), None) is not None:
            return data


# Real models: parts told apart, of every kind, on whole instances.

KINDS = ("dense", "tied", "experts", "mxfp4", "window", "chunk", "latent", "state")


def draw_model(random: Random, kind: str) -> dict[str, object]:
    """A model whose parts are known, its figures consistent with each other."""
    layers, heads = 2 * random.randint(4, 20), random.choice((8, 16, 32))
    own = random.choice([h for h in (1, 2, 4, 8) if heads % h == 0])
    head_dim = random.choice((64, 96, 128))
    hidden, ffn = heads * head_dim, random.choice((3000, 4096, 7168, 8190, 8192))
    vocab = random.choice((32_000, 50_257, 128_256))
    attention = layers * 2 * (hidden * hidden + hidden * own * head_dim)
    embedding = vocab * hidden
    head = 0 if kind == "tied" else embedding
    dense = layers * 3 * hidden * ffn + attention + embedding + head
    model: dict[str, object] = {
        "name": kind,
        "params": float(dense),
        "layers": layers,
        "attention_heads": heads,
        "kv_heads": own,
        "head_dim": head_dim,
        "active_params": float(dense),
        "embedding_params": embedding,
        "head_params": head,
        "attention_params": attention,
        "hidden_size": hidden,
        "ffn_size": ffn,
        "vocab_size": vocab,
    }
    full = {"kind": "full", "kv_heads": own, "head_dim": head_dim}
    full["numbers_per_token"] = 2 * own * head_dim
    if kind in ("window", "chunk"):
        part = random.randint(1, layers - 1)
        near = {**full, "kind": kind, "window_tokens": random.choice((128, 512, 1024, 4096))}
        model["cache"] = [{"layers": part, **near}, {"layers": layers - part, **full}]
    elif kind == "state":
        part = random.randint(1, layers)
        model["cache"] = [{"layers": part, "kind": "state", "state_bytes": 4096 * heads}]
        if part < layers:
            model["cache"] += [{"layers": layers - part, **full}]
        else:
            model |= {"cache": [{**model["cache"][0], "layers": layers - 1}, {"layers": 1, **full}]}
    elif kind == "latent":
        width = random.choice((288, 576))
        only = {"kind": "latent", "kv_heads": 1, "head_dim": width, "numbers_per_token": width}
        model |= {"kv_heads": 1, "cache": [{"layers": layers, **only}]}
    elif kind in ("experts", "mxfp4"):
        count, width = random.choice((8, 16, 64)), random.choice((704, 768, 1024, 2880))
        used, with_experts = random.choice((1, 2, 4)), random.randint(1, layers)
        each = 3 * hidden * width
        model["experts"] = {
            "layers": with_experts,
            "count": count,
            "per_token": used,
            "params_each": each,
        }
        model["expert_ffn_size"] = width
        model["params"] = float(dense + with_experts * count * each)
        model["active_params"] = float(dense + with_experts * used * each)
        if kind == "mxfp4":
            model["stored"] = {"format": "mxfp4", "params": with_experts * count * each * 9 // 10}
    if random.random() < 0.3 and kind != "mxfp4":
        stored = random.randrange(int(model["params"]) // 2, int(model["params"]))
        model["stored"] = {"format": random.choice(("fp8", "int4-g128")), "params": stored}
    if random.random() < 0.3:
        # an index file's own count: a little more than the shapes say
        model["weight_bytes"] = int(model["params"] * random.choice((1.3, 2.1)))
    return model


def draw_offers(random: Random, gpus: list[str]) -> list[Offer]:
    offers = []
    for gpu in gpus:
        each = random.choice(PLAIN_PRICES + AWKWARD_PRICES)
        for size in subset(random, (1, 2, 4, 8)):
            for cloud in subset(random, ("north", "south")):
                price = float(f"{each * size * random.choice((1.0, 1.0, 0.75, 1.5)):.9f}")
                spot = price / 2 if random.random() < 0.4 else None
                offers.append(
                    Offer(
                        name=f"{cloud}-{gpu}-{size}",
                        gpu=gpu,
                        cloud=cloud,
                        region=random.choice(("east", "west")),
                        instance=f"{gpu}-{size}",
                        gpus_per_instance=size,
                        usd_per_hour=price,
                        spot_usd_per_hour=spot,
                        source="drawn",
                        as_of="2026",
                    )
                )
    return offers


def draw_real_data(random: Random, kind: str) -> tuple[dict[str, object], Catalogue]:
    data = draw_data(random)
    data["model"] = model = draw_model(random, kind)
    levers: dict[str, object] = data["levers"]  # type: ignore[assignment]
    formats = ("fp16", "fp8", "int8", "int4", "int4-g128", "w8a8-int8", "mxfp4", "nvfp4")
    levers["weights"] = subset(random, formats, 3)
    levers["tensor_parallel"] = subset(random, (1, 2, 4, 8), 2)
    levers["batch"] = {"most": random.choice((1, 3, 16, 32, 48))}
    levers.pop("kv_heads", None)
    if kind not in ("latent", "state") and random.random() < 0.5:
        levers["kv_heads"] = subset(random, (model["kv_heads"], 1, 4, 8), 2)
    assumed: dict[str, object] = data["assumptions"]  # type: ignore[assignment]
    if random.random() < 0.6:
        del assumed["memory_reserve"]
        assumed |= {"memory": "itemised", "memory_utilization": random.choice((0.9, 0.92, 1.0))}
        if random.random() < 0.6:
            assumed["max_num_batched_tokens"] = random.choice((512, 2048, 8192, 65_536))
    if random.random() < 0.3:
        assumed["prefix_cached_frac"] = random.choice((0.25, 0.5, 0.9))
    gpus: list[dict[str, object]] = data["hardware"]["gpus"]  # type: ignore[index]
    for gpu in gpus:
        if random.random() < 0.3:
            gpu["tflops"] |= {"int8": 300.0, "fp4": 700.0}  # type: ignore[operator]
    offers = []
    if random.random() < 0.75:
        offered = gpus[: random.randint(1, len(gpus))]
        data["hardware"].pop("usd_per_gpu_hour", None)  # type: ignore[attr-defined]
        for gpu in offered:
            del gpu["usd_per_hour"]
        offers = draw_offers(random, [str(gpu["name"]) for gpu in offered])
        wanted: dict[str, object] = {"terms": subset(random, ("on-demand", "spot"))}
        if random.random() < 0.3:
            wanted["clouds"] = ["north"]
        if random.random() < 0.2:
            wanted["regions"] = ["east"]
        data["hardware"]["offers"] = wanted  # type: ignore[index]
    return data, Shop(*offers)


def draw_real_case(seed: int, twisted: bool = True) -> Case:
    """A real model of the kind that the seed gives, on GPUs with prices or offers."""
    random = Random(50_000 + seed)
    while True:
        data, known = draw_real_data(random, KINDS[seed % len(KINDS)])
        try:
            case = case_of(data, known)
        except CaseError:
            continue  # no offer that is admitted
        if next(oracle.choices(case), None) is not None:
            break
    if not twisted:
        return case
    return TWISTS[(seed + seed // len(KINDS)) % len(TWISTS)](random, case)


def draw_measured_case(seed: int) -> Case:
    """A real model timed as measured servers are, on GPUs that stand for measured ones."""
    random = Random(90_000 + seed)
    while True:
        data, known = draw_real_data(random, KINDS[seed % len(KINDS)])
        assumed: dict[str, object] = data["assumptions"]  # type: ignore[assignment]
        assumed.pop("efficiency", None)
        assumed |= {"latency": "measured", "slo_margin": random.choice((0.7, 0.83, 1.0))}
        assumed["serving_engine"] = random.choice(("vllm", "sglang", "tensorrt-llm"))
        for gpu in data["hardware"]["gpus"]:  # type: ignore[index]
            gpu["latency_like"] = random.choice(("h100-sxm", "h200", "b200", "a100-sxm-80gb", "l4"))
            gpu["link_gb_per_s"] = random.choice((32.0, 64.0, 450.0))
        brief: dict[str, object] = data["brief"]  # type: ignore[assignment]
        brief["ttft_target_s"] = log_uniform(random, 0.1, 5.0)
        brief["tpot_target_ms"] = log_uniform(random, 10.0, 200.0)
        try:
            case = case_of(data, known)
        except CaseError:
            continue  # no offer that is admitted
        if next(oracle.choices(case), None) is not None:
            return case


def too_slow_a_target(random: Random, case: Case) -> Case:
    best = min(oracle.step_s(case, choice, 1) for choice in oracle.choices(case))
    return case.changed({"brief.tpot_target_ms": best * 1000 * random.uniform(0.3, 0.999)})


def too_short_a_first_token(random: Random, case: Case) -> Case:
    best = min(oracle.prefill_s(case, choice) for choice in oracle.choices(case))
    return case.changed({"brief.ttft_target_s": best * random.uniform(0.3, 0.999)})


def too_little_memory(random: Random, case: Case) -> Case:
    least = min(oracle.memory_bytes(case, choice, 1) for choice in oracle.choices(case))
    gpus = []
    for gpu in case.hardware.gpus:
        fields = gpu.model_dump(exclude_unset=True)
        fields.pop("memory_bytes", None)
        fields["memory_gb"] = least / 1e9 * random.uniform(0.3, 0.99)
        gpus.append(fields)
    return case.changed({"hardware.gpus": gpus})


def too_few_gpus(random: Random, case: Case) -> Case:
    fewest = min((a.rented_gpus for a in oracle.designs(case)), default=5)
    return case.changed({"limits.most_gpus": max(1, random.randint(fewest // 2, fewest - 1))})


def too_small_a_budget(random: Random, case: Case) -> Case:
    least = min((a.nano_usd for a in oracle.designs(case)), default=10**9)
    budget = max(least / 1e9 * random.uniform(0.2, 0.98), 1e-6)
    return case.changed({"limits.usd_per_hour": budget})


def too_much_redundancy(random: Random, case: Case) -> Case:
    least = random.randint(5, 40)
    return case.changed({"limits.least_replicas": least, "limits.most_gpus": least - 1})


def too_many_users(random: Random, case: Case) -> Case:
    changes = {"brief.requests_per_s": None, "brief.concurrent_users": 5000.0}
    return case.changed({**changes, "limits.most_gpus": random.randint(1, 20)})


def large_ones_too_dear(random: Random, case: Case) -> Case:
    """One GPU lacks memory, the others cost more than the budget allows."""
    least = min(oracle.memory_bytes(case, choice, 1) for choice in oracle.choices(case))
    gpus = [gpu.model_dump(exclude_unset=True) for gpu in case.hardware.gpus]
    if len(gpus) == 1:
        gpus.append({**gpus[0], "name": "other"})
    for i, fields in enumerate(gpus):
        fields.pop("memory_bytes", None)
        fields["memory_gb"] = least / 1e9 * (random.uniform(0.3, 0.99) if i == 0 else 20.0)
        fields["usd_per_hour"] = 0.001 if i == 0 else 5000.0
    changes: dict[str, object] = {"hardware.usd_per_gpu_hour": None, "hardware.gpus": gpus}
    return case.changed({**changes, "limits.usd_per_hour": 4000.0})


FAULTS = (
    too_slow_a_target,
    too_short_a_first_token,
    too_little_memory,
    too_few_gpus,
    too_small_a_budget,
    too_much_redundancy,
    too_many_users,
    large_ones_too_dear,
)


def draw_infeasible(seed: int) -> Case:
    """A case that nothing meets: one fault in half of them, several in the others."""
    random = Random(10_000 + seed)
    while True:
        case = case_of(_legal(random))
        faults = [FAULTS[seed % len(FAULTS)]]
        if seed % 2:
            faults += random.sample(FAULTS[:5], random.randint(1, 2))
        # later faults are measured on the case as it stood before any of them
        for fault in dict.fromkeys(faults):
            case = fault(random, case)
        if not oracle.feasible(case):
            return case


SEEDS = st.integers(0, 100_000)


@st.composite
def convex_needs(draw: st.DrawFn) -> np.ndarray:
    """Whole needs above a random convex decreasing curve: N(b) = ceil(f(b)), b = 1, 2, …."""
    count = draw(st.integers(1, 60))
    falls = sorted(draw(st.lists(st.floats(0, 40), min_size=count, max_size=count)), reverse=True)
    floor = draw(st.floats(0.01, 20))
    curve = [floor + sum(falls[i:]) for i in range(1, count + 1)]
    return np.array([math.ceil(value) for value in curve], dtype=np.int64)
