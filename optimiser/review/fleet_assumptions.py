"""What a fleet rests on: its traffic, its spare replicas, and measured latency."""

from collections.abc import Iterator

from optimiser.planning.deployment import is_estimated
from optimiser.planning.fleet.planned import PlannedPool
from optimiser.planning.fleet.planner import FleetPlanned
from optimiser.planning.margin import is_measured
from optimiser.review import assumptions as single
from optimiser.review.fleet_bars import gpu_of, pool_spread


def assumptions(outcome: FleetPlanned) -> list[str]:
    """What a reader could take otherwise, and what measured times rest on."""
    return [*_traffic(outcome), *_measured(outcome)]


def _traffic(outcome: FleetPlanned) -> Iterator[str]:
    case = outcome.case
    named = [one.name for one in case.workloads if one.histogram is not None]
    if named:
        yield f"{', '.join(named)}: first token on average over the histogram, not of each row"
    named = [one.name for one in case.workloads if one.concurrent_users is not None]
    if named:
        yield f"{', '.join(named)}: users send at the rate of the promised pace"
    if case.limits.survive:
        yield f"used: of the replicas beside {case.limits.survive} spare in each pool"


def _measured(outcome: FleetPlanned) -> list[str]:
    """Engine, constants of each GPU type, margin, memory and error bars; none of the roofline."""
    cases = outcome.assembled.cases
    if not cases or not is_measured(cases[0]):
        return []
    case = cases[0]
    gpus = {gpu.name: gpu for gpu in map(gpu_of, outcome.pools) if gpu is not None}
    engine = "" if "serving_engine" in case.assumptions.model_fields_set else " (the default)"
    lines = [f"latency as measured servers have it, {case.assumptions.serving_engine}{engine}"]
    lines += [single.constants_line(case, gpu) for gpu in gpus.values()]
    lines += [*single.planned_at(case), single.memory_line(case), single.headroom_line(case)]
    bars: dict[str, str] = {}
    for pool in outcome.pools:
        found = pool_spread(outcome, pool, "tpot")
        if found is not None:
            bars[found.group] = f"{found.rows:,} of {found.group}"
    lines.append(
        "error bars: 8 of 10 runs that no fit had seen lie within; runs: "
        + ", ".join(bars.values())
    )
    return lines


def mark(outcome: FleetPlanned, pool: PlannedPool) -> str:
    """Marks a pool whose times rest on another GPU's measurements."""
    gpu, cases = gpu_of(pool), outcome.assembled.cases
    return ", ESTIMATED" if gpu is not None and is_estimated(cases[0], gpu) else ""
