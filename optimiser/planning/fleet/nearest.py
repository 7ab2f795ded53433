"""The nearest value of a fleet's requirement that works, all else kept."""

from collections.abc import Callable, Sequence
from functools import cache

from optimiser.errors import SolverError
from optimiser.planning.fleet.conflict import FleetNearest
from optimiser.planning.fleet.extremes import least_of_stock, most_of_demand
from optimiser.planning.fleet.questions import Questions
from optimiser.planning.fleet.requirements import (
    FURTHEST,
    LEAST_TRAFFIC,
    TARGETS,
    Changes,
    Requirement,
)
from optimiser.planning.fleet.search import search
from optimiser.planning.fleet.unable import least_target
from optimiser.planning.nearest import least_that_works, most_that_works, place_of, value_at
from optimiser.planning.solvers.base import Status

LARGEST = 10**6
"""The largest count to try."""
SMALLEST_FRAC = 0.001
"""The smallest share to try."""
Works = Callable[[float], bool]


def nearest_of(questions: Questions, one: Requirement, lifted: Changes) -> FleetNearest:
    """The nearest value of a requirement that works, all else kept but what is lifted."""
    if one.name == "usd_per_hour":
        return _least_budget(questions, one, lifted)
    n_open = questions.n_open

    @cache
    def works(value: float) -> bool:
        return questions.works({**lifted, one.field: value}) is True

    value = _nearest_value(questions, works, one, lifted)
    if value is not None and one.is_whole:
        value = int(value)
    classes = questions.changed.case.classes
    workload = None if one.workload is None else classes[one.workload].name
    return FleetNearest(one.field, one.asked, value, questions.n_open == n_open, workload)


def _nearest_value(
    questions: Questions, works: Works, one: Requirement, lifted: Changes
) -> float | None:
    if one.is_traffic:
        return _most_traffic(questions, works, one.asked, [one], lifted)
    if one.name in TARGETS and one.workload is not None:
        # below this the class may use no pool at all
        least = least_target(questions.changed.case, one.workload, one.name, one.asked, lifted)
        if least is None:
            return None
        if works(least):
            return least
        return least_that_works(works, least, FURTHEST[one.name])
    if one.name == "most_spot_frac":
        return least_that_works(works, max(one.asked, SMALLEST_FRAC), 1.0)
    if one.name == "least_replicas":
        return most_that_works(works, one.asked, 1, whole=True)
    if one.name == "survive":
        # counted from 1, since 0 has no three digits
        value = most_that_works(lambda n: works(n - 1), one.asked + 1, 1, whole=True)
        return None if value is None else value - 1
    low = high = int(one.asked) + 1
    if one.name != "most_pools":
        low, high = _between(questions, one, lifted)
    return _least_count(works, max(low, int(one.asked) + 1), high)


def _between(questions: Questions, one: Requirement, lifted: Changes) -> tuple[int, int]:
    """The least of a stock is no less than the first number, and often the second."""
    changed = questions.changed
    fleet, budget = changed.fleet({**lifted, one.field: float(LARGEST)})
    row = [n for n in changed.assembled.names.stocks if n not in lifted].index(one.field)
    found = least_of_stock(fleet, budget, fleet.stock_use[row], questions.left_s)
    return found or (0, 0)


def _least_count(works: Works, low: int, high: int) -> float | None:
    high = max(low, high)
    while not works(float(high)):
        if high >= LARGEST or not works(float(LARGEST)):
            return None
        low, high = high + 1, min(2 * high, LARGEST)
    return least_that_works(works, low - 1, high, whole=True)


def _most_traffic(
    questions: Questions,
    works: Works,
    asked: float,
    members: Sequence[Requirement],
    lifted: Changes,
    least: float = LEAST_TRAFFIC,
) -> float | None:
    """The largest value up to what is asked that works, of traffic or of a share of it."""
    changed = questions.changed
    fleet, budget = changed.fleet(lifted)
    kept = [w for w in range(len(changed.case.classes)) if w not in changed.without]
    places = [kept.index(one.workload) for one in members if one.workload is not None]
    between = most_of_demand(fleet, budget, places, questions.left_s)
    high = asked
    if between is not None and between[0] > least:
        low = value_at(place_of(between[0] * asked, up=False))
        high = min(asked, between[1] * asked)
        if works(low):
            return most_that_works(works, high, low)
    return most_that_works(works, high, asked * least)


def all_traffic(
    questions: Questions, members: Sequence[Requirement], lifted: Changes
) -> float | None:
    """The largest share of the traffic of all classes together that can be served."""
    traffic = [one for one in members if one.is_traffic and one.field not in lifted]
    if len(traffic) < 2:
        return None

    @cache
    def works(share: float) -> bool:
        changes = {one.field: share * one.asked for one in traffic}
        return questions.works({**lifted, **changes}) is True

    return _most_traffic(questions, works, 1.0, traffic, lifted, SMALLEST_FRAC)


def _least_budget(questions: Questions, one: Requirement, lifted: Changes) -> FleetNearest:
    fleet, _ = questions.changed.fleet({**lifted, one.field: None})
    if not fleet.pools.able.any(axis=0).all():
        return FleetNearest(one.field, one.asked, None)
    try:
        found = search(fleet, max(2 * questions.left_s, 1.0))
    except SolverError:
        return FleetNearest(one.field, one.asked, None, is_proved=False)
    cost = found.usd_per_hour if len(found.replicas) else None
    is_proved = found.status in (Status.OPTIMAL, Status.INFEASIBLE)
    return FleetNearest(one.field, one.asked, cost, is_proved)
