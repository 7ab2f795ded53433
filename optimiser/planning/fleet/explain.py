"""Why no fleet serves a case, and the nearest stock, rate or target that works."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from optimiser.fleet_case import FleetCase
from optimiser.planning.fleet.assemble import assemble
from optimiser.planning.fleet.planner import FleetInfeasible
from optimiser.planning.fleet.search import search
from optimiser.planning.nearest import least_that_works
from optimiser.planning.solvers.base import Status

SECONDS = 10.0
LARGEST = 10**6


@dataclass(frozen=True, slots=True)
class FleetNearest:
    """One requirement, and the nearest value that would work, all else kept."""

    requirement: str
    asked: float
    works_at: float | None


@dataclass(frozen=True, slots=True)
class FleetConflict:
    """Requirements that cannot all be met."""

    requirements: tuple[str, ...]
    nearest: tuple[FleetNearest, ...]


def explain_fleet(outcome: FleetInfeasible) -> FleetConflict:
    """The requirements in the way: changing any one that has a nearest value is enough."""
    case = outcome.case
    found = [one for one in _tried(outcome) if one.works_at is not None]
    if not found:
        found = [FleetNearest(field, asked, None) for field, asked in _asked(case)]
    return FleetConflict(tuple(one.requirement for one in found), tuple(found))


def _asked(case: FleetCase) -> Iterator[tuple[str, float]]:
    for gpu, most in (case.hardware.stock or {}).items():
        yield f"hardware.stock.{gpu}", float(most)
    for i, workload in enumerate(case.workloads):
        yield f"workloads.{i}.{workload.traffic_field}", _traffic(case, i)


def _tried(outcome: FleetInfeasible) -> Iterator[FleetNearest]:
    case, fleet = outcome.case, outcome.assembled.fleet
    unable = np.flatnonzero(~fleet.pools.able.any(axis=0))
    if len(unable):
        yield from (one for w in unable for one in _targets(case, int(w)))
        return
    if outcome.over_budget_usd is not None:
        budget = case.limits.usd_per_hour or 0.0
        yield FleetNearest("limits.usd_per_hour", budget, outcome.over_budget_usd)
        return
    for row, (field, most) in enumerate(
        zip(outcome.assembled.names.stocks, fleet.stock_most, strict=True)
    ):
        works = least_that_works(_with_stock(outcome, row), float(most), float(LARGEST), True)
        yield FleetNearest(field, float(most), works)
    times = _most_traffic(outcome)
    for i in range(len(case.workloads)):
        asked = _traffic(case, i)
        works_at = None if times is None else times * asked
        field = f"workloads.{i}.{case.workloads[i].traffic_field}"
        # all classes together: the share of the traffic that can be served
        yield FleetNearest(field, asked, works_at)


def _traffic(case: FleetCase, i: int) -> float:
    workload = case.workloads[i]
    return workload.requests_per_s or workload.concurrent_users or 0.0


def _with_stock(outcome: FleetInfeasible, row: int) -> Callable[[float], bool]:
    fleet = outcome.assembled.fleet

    def works(value: float) -> bool:
        most = fleet.stock_most.copy()
        most[row] = value
        return search(replace(fleet, stock_most=most), SECONDS).status in (
            Status.OPTIMAL,
            Status.FEASIBLE,
        )

    return works


def _most_traffic(outcome: FleetInfeasible) -> float | None:
    """The largest share of all traffic, to a thousandth, that can be served."""
    fleet = outcome.assembled.fleet
    low, high = 0.0, 1.0
    for _ in range(10):
        middle = (low + high) / 2
        pools = replace(fleet.pools, need=fleet.pools.need * middle)
        found = search(replace(fleet, pools=pools), SECONDS)
        works = found.status in (Status.OPTIMAL, Status.FEASIBLE)
        low, high = (middle, high) if works else (low, middle)
    return low or None


def _targets(case: FleetCase, w: int) -> Iterator[FleetNearest]:
    """The targets of a class that no pool can serve."""
    if case.measured is not None or not case.workloads:
        return
    workload = case.workloads[w]
    for name in ("tpot_target_ms", "ttft_target_s"):
        asked = float(getattr(workload, name))

        def works(value: float, name: str = name) -> bool:
            made = workload.changed(**{name: value})
            return bool(assemble(case.changed(workloads=(made,))).fleet.pools.able.any())

        yield FleetNearest(
            f"workloads.{w}.{name}", asked, least_that_works(works, asked, asked * 1e4, False)
        )
