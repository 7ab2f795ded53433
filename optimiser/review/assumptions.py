"""What was assumed, what was left to a default, and what looks like a slip."""

from collections.abc import Iterator

from optimiser.case import Case
from optimiser.catalogue.formats import WEIGHT_FORMATS
from optimiser.planning.design import Design
from optimiser.review.numbers import plain, usd

LONGEST_LIKELY_TTFT_S = 120.0
SHORTEST_LIKELY_TPOT_MS = 1.0


def warnings(case: Case) -> list[str]:
    """Values that are valid but look like a slip of unit."""
    found = []
    ttft, tpot = case.brief.ttft_target_s, case.brief.tpot_target_ms
    if ttft > LONGEST_LIKELY_TTFT_S:
        where = case.where("brief.ttft_target_s")
        meant = f"{plain(ttft / 1000)} if you meant milliseconds"
        found.append(f"{where}: brief.ttft_target_s: {plain(ttft)} is in seconds; write {meant}")
    if tpot < SHORTEST_LIKELY_TPOT_MS:
        where = case.where("brief.tpot_target_ms")
        meant = f"{plain(tpot * 1000)} if you meant seconds"
        found.append(f"{where}: brief.tpot_target_ms: {plain(tpot)} is in ms; write {meant}")
    return found


def defaults(case: Case) -> list[str]:
    """Every default that was used, as `field: value`."""
    return [f"{field}: {value}" for field, value in _defaults(case)]


def _defaults(case: Case) -> Iterator[tuple[str, str]]:
    levers, assumptions = case.levers, case.assumptions
    given = levers.model_fields_set if "levers" in case.model_fields_set else set()
    if "weights" not in given:
        yield "levers.weights", levers.weights[0]
    if "kv_cache" not in given:
        yield "levers.kv_cache", levers.kv_cache[0]
    if levers.kv_heads is None:
        yield "levers.kv_heads", f"{case.model.kv_heads} (the model's own)"
    if "tensor_parallel" not in given:
        yield "levers.tensor_parallel", str(levers.tensor_parallel[0])
    if "batch" not in given or "most" not in levers.batch.model_fields_set:
        yield "levers.batch.most", str(levers.batch.most)
    stated = assumptions.model_fields_set if "assumptions" in case.model_fields_set else set()
    for name in ("efficiency", "headroom", "memory_reserve"):
        if name not in stated:
            yield f"assumptions.{name}", plain(getattr(assumptions, name))


def assumptions(case: Case, design: Design) -> list[str]:
    """What the engine takes for granted about a design, and where its price is from."""
    chosen, assumed = design.configuration, case.assumptions
    lines = [
        f"ideal roofline at {plain(assumed.efficiency * 100)} % efficiency: a pass takes the "
        "slower of arithmetic and memory reads",
        f"{plain(assumed.memory_reserve * 100)} % of memory held back",
        f"headroom {plain(assumed.headroom)} stands in for bursts, queueing and prefill stalls, "
        "which are not modelled",
    ]
    weights = WEIGHT_FORMATS[chosen.weights]
    if not chosen.gpu.computes(weights):
        lines.append(
            f"{chosen.gpu.name} has no {weights.computes_in} figure: {chosen.weights} weights "
            "compute at its 16-bit rate"
        )
    if chosen.tensor_parallel > 1:
        lines.append("tensor parallel: links not modelled")
    if case.brief.concurrent_users is not None:
        lines.append(
            f"{plain(case.brief.concurrent_users)} users at the promised pace are "
            f"{plain(round(case.brief.rate, 4))} requests/s"
        )
    return [*lines, _price(case, design)]


def _price(case: Case, design: Design) -> str:
    gpu = design.configuration.gpu
    price, offer = usd(case.usd_per_gpu_hour(gpu)), case.offer(gpu)
    if offer is None:
        return f"price {price} per GPU-hour, as the case states"
    sold = "" if offer.gpus_per_instance == 1 else f", sold {offer.gpus_per_instance} at a time"
    return (
        f"price {price} per GPU-hour: {offer.cloud} {offer.instance} in {offer.region}, on demand, "
        f"as of {offer.as_of}{sold}"
    )
