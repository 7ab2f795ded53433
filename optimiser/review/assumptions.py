"""What was assumed, what was left to a default, and what looks like a slip."""

from collections.abc import Iterable, Iterator

from optimiser.case import Case
from optimiser.catalogue.formats import WEIGHT_FORMATS
from optimiser.catalogue.gpu import Gpu
from optimiser.planning.deployment import provenance
from optimiser.planning.design import Design
from optimiser.planning.margin import slo_margin
from optimiser.planning.rental import Rental
from optimiser.review.numbers import count, plain, usd
from optimiser.studies.options import text_of
from optimiser.units import usd as usd_of_nano

LONGEST_LIKELY_TTFT_S = 120.0
SHORTEST_LIKELY_TPOT_MS = 1.0


def warnings(case: Case) -> list[str]:
    """Values that are valid but look like a slip of unit, or ask more of the model than it has."""
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
    found += [f"{case.where('brief.prompt_tokens')}: {line}" for line in _context(case)]
    return found


def _context(case: Case) -> list[str]:
    tokens, longest = case.brief.prompt_tokens + case.brief.answer_tokens, case.model.max_context
    if longest is None or tokens <= longest:
        return []
    return [
        f"prompt and answer are {plain(tokens)} tokens, beyond the longest context of "
        f"{case.model.name}, {plain(longest)}: it serves them only if its context is extended"
    ]


def defaults(case: Case) -> list[str]:
    """Every default that was used, as `field: value`."""
    return [f"{field}: {value}" for field, value in _defaults(case)]


def _defaults(case: Case) -> Iterator[tuple[str, str]]:
    levers, assumptions = case.levers, case.assumptions
    given = levers.model_fields_set if "levers" in case.model_fields_set else set()
    if levers.weights is None:
        yield "levers.weights", f"{case.model.own_format} (the checkpoint's own)"
    if "kv_cache" not in given:
        yield "levers.kv_cache", levers.kv_cache[0]
    if levers.kv_heads is None:
        yield "levers.kv_heads", f"{case.model.kv_heads} (the model's own)"
    if "tensor_parallel" not in given:
        yield "levers.tensor_parallel", str(levers.tensor_parallel[0])
    if "batch" not in given or "most" not in levers.batch.model_fields_set:
        yield "levers.batch.most", str(levers.batch.most)
    stated = assumptions.model_fields_set if "assumptions" in case.model_fields_set else set()
    names = ["efficiency", "headroom"] if assumptions.latency == "ideal" else ["headroom"]
    if assumptions.memory == "itemised":
        names.append("memory_utilization")
    else:
        names.append("memory_reserve")
    for name in names:
        if name not in stated:
            yield f"assumptions.{name}", plain(getattr(assumptions, name))
    if assumptions.latency == "measured":
        if "serving_engine" not in stated:
            yield "assumptions.serving_engine", assumptions.serving_engine
        if assumptions.slo_margin is None:
            yield "assumptions.slo_margin", plain(slo_margin(case))
    if assumptions.memory == "itemised" and assumptions.max_num_batched_tokens is None:
        yield "assumptions.max_num_batched_tokens", "the engine's own for each GPU"


def assumptions(case: Case, design: Design) -> list[str]:
    """What the engine takes for granted about a design, and where its price is from."""
    chosen, assumed = design.configuration, case.assumptions
    lines = [*_context(case), *_latency(case, design), memory_line(case), headroom_line(case)]
    if assumed.prefix_cached_frac:
        share = plain(assumed.prefix_cached_frac * 100)
        lines.append(f"{share} % of the prompt tokens found in the prefix cache")
    weights = WEIGHT_FORMATS[chosen.weights]
    if not chosen.gpu.computes(weights):
        lines.append(
            f"{chosen.gpu.name} has no {weights.computes_in} figure: {chosen.weights} weights "
            "compute at its 16-bit rate"
        )
    if chosen.tensor_parallel > 1 and assumed.latency == "ideal":
        lines.append("tensor parallel: links not modelled")
    if case.brief.concurrent_users is not None:
        lines.append(
            f"{plain(case.brief.concurrent_users)} users at the promised pace are "
            f"{plain(round(case.brief.rate, 4))} requests/s"
        )
    return [*lines, _price(design)]


def _latency(case: Case, design: Design) -> list[str]:
    """How times are predicted, and from what."""
    assumed, gpu = case.assumptions, design.configuration.gpu
    if assumed.latency == "ideal":
        return [
            f"ideal roofline at {plain(assumed.efficiency * 100)} % efficiency: a pass takes the "
            "slower of arithmetic and memory reads"
        ]
    rests = constants_line(case, gpu)
    return [
        f"latency as measured servers have it, {assumed.serving_engine}; {rests}",
        *planned_at(case),
    ]


def constants_line(case: Case, gpu: Gpu) -> str:
    """What the times of a GPU rest on."""
    found = provenance(case, gpu)
    estimated = " (ESTIMATED: no measurements of this GPU)" if found.estimated else ""
    return f"constants of {gpu.latency_name}: {found.source}, as of {found.as_of}{estimated}"


def planned_at(case: Case) -> list[str]:
    """The margin below the targets, and this deployment's own scales."""
    share = plain(round(slo_margin(case) * 100, 1))
    lines = [f"planned at {share} % of the latency targets"]
    if case.assumptions.calibration is not None:
        lines.append(f"scaled by this deployment's own runs: {case.assumptions.calibration}")
    return lines


def headroom_line(case: Case) -> str:
    """What headroom is for."""
    ideal = case.assumptions.latency == "ideal"
    missing = "bursts, queueing and prefill stalls" if ideal else "bursts and queueing"
    headroom = plain(case.assumptions.headroom)
    return f"headroom {headroom} stands in for {missing}, which are not modelled"


def memory_line(case: Case) -> str:
    """How memory is counted."""
    assumed = case.assumptions
    if assumed.memory == "reserve":
        return f"{plain(assumed.memory_reserve * 100)} % of memory held back"
    return (
        f"memory itemised: {plain(assumed.memory_utilization * 100)} % of the device budgeted; "
        "CUDA graphs taken outside of it"
    )


def spot_note(rentals: Iterable[Rental]) -> tuple[str, ...]:
    """What spot instances risk, where any is rented."""
    if all(rental.term != "spot" for rental in rentals):
        return ()
    return (f"spot price: {text_of('spot').risk}",)


def _price(design: Design) -> str:
    rental = design.configuration.rental
    price = usd(usd_of_nano(rental.nano_usd_per_hour))
    offer = rental.offer
    if offer is None:
        return f"price {price} per GPU-hour, as the case states"
    idle = design.rented_gpus - design.gpus
    rented = f"{count(design.units, 'instance')} of {count(offer.gpus_per_instance, 'GPU')}"
    waste = f", {count(idle, 'GPU')} of them idle" if idle else ""
    spot = "spot" if rental.term == "spot" else "on demand"
    return (
        f"price {price} per hour of {offer.cloud} {offer.instance} in {offer.region}, {spot}, "
        f"as of {offer.as_of}: {rented}{waste}"
    )
