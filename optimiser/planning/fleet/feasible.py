"""Whether any fleet serves all demand, whatever it costs or for at most so much."""

import math
import time
from typing import NamedTuple

import numpy as np

from optimiser.engine.replicas import Ints
from optimiser.planning.fleet.pools import Fleet
from optimiser.planning.fleet.race import Race
from optimiser.planning.fleet.rows import table
from optimiser.planning.fleet.search import search
from optimiser.planning.fleet.solve_rows import run_whole
from optimiser.planning.solvers.base import Status
from optimiser.units import at_least

FIRST_S = 1.0
"""Most seconds of a first search."""


class Answer(NamedTuple):
    """Whether there is a fleet."""

    works: bool | None
    """None where the time was too short to tell."""
    replicas: Ints | None = None
    """Of each pool, of a fleet that works."""


NO = Answer(False)
UNKNOWN = Answer(None)


def feasible(fleet: Fleet, most_usd: float | None, seconds: float) -> Answer:
    """Whether a fleet within the limits, and the dollars per hour, serves all demand."""
    if not fleet.pools.able.any(axis=0).all():
        return NO
    if seconds <= 0:
        return UNKNOWN
    deadline = time.perf_counter() + seconds
    if most_usd is not None:
        # what is far from the budget is soon told, what is near it by one program
        told = _by_search(fleet, most_usd, min(FIRST_S, seconds))
        if told.works is not None:
            return told
    told = _by_one_program(fleet, most_usd, deadline)
    if told.works is not None:
        return told
    return _by_search(fleet, most_usd, deadline - time.perf_counter())


def _by_search(fleet: Fleet, most_usd: float | None, seconds: float) -> Answer:
    enough = math.inf if most_usd is None else most_usd
    found = search(fleet, seconds, enough)
    if len(found.replicas) and at_least(enough, found.usd_per_hour):
        return Answer(True, found.replicas)
    if found.status is Status.INFEASIBLE or not at_least(enough, found.bound_usd_per_hour):
        return NO
    return UNKNOWN


def _by_one_program(fleet: Fleet, most_usd: float | None, deadline: float) -> Answer:
    """One program that minimises nothing: quick, and the fleet that it finds is checked."""
    rows, columns = table(fleet, totals=False)
    rows.serve_all(columns)
    if most_usd is not None:
        rows.within_budget(columns, most_usd)
    rows.cost = [0.0] * len(rows.cost)
    # more replicas than carry all of the demand help no one
    most = np.ceil(fleet.pools.need.max(axis=1).sum(axis=1)) + 1 + fleet.spare
    for column, replicas in zip(columns.replicas, most + fleet.least_replicas, strict=True):
        rows.high[column] = float(replicas)
    race = Race(fleet, deadline)
    solved = run_whole(rows, columns.whole, seconds=race.left_s)
    if solved.status == "infeasible":
        return NO
    if not len(solved.values):
        return UNKNOWN
    found = np.round(solved.values[columns.replicas]).astype(np.int64)
    race.offer(found, columns.shares(solved.values, len(fleet.pools), fleet.n_classes))
    if race.replicas is None or (most_usd is not None and not at_least(most_usd, race.upper_usd)):
        return UNKNOWN
    return Answer(True, race.replicas)
