"""The search for the cheapest fleet: a bound from below and fleets from above, side by side."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optimiser.engine.replicas import Floats, Ints
from optimiser.planning.fleet.bound import prove
from optimiser.planning.fleet.hunt import hunt, look_widely
from optimiser.planning.fleet.pools import Fleet
from optimiser.planning.fleet.race import Race
from optimiser.planning.fleet.sift import Sifted, sift
from optimiser.planning.solvers.base import Status

NO_LIMIT_S = 1e9


@dataclass(frozen=True, slots=True)
class FleetFound:
    """Where a search ended."""

    status: Status
    replicas: Ints
    """Of each pool; empty without a fleet."""
    shares: Floats
    """Share of each class's demand that each pool serves, shape (n_pools, n_classes)."""
    usd_per_hour: float
    bound_usd_per_hour: float
    seconds: float
    history: tuple[tuple[float, float, float], ...] = ()
    """Seconds, cost and bound at each change."""

    @property
    def gap_frac(self) -> float:
        """(cost - bound) / cost."""
        return (self.usd_per_hour - self.bound_usd_per_hour) / self.usd_per_hour


def search(
    fleet: Fleet, time_limit_s: float | None = None, enough_usd: float | None = None
) -> FleetFound:
    """The cheapest fleet that serves all demand, with a true bound on the cost.

    `enough_usd`: stop at any fleet that costs no more, or once it is proved that none does.
    """
    started = time.perf_counter()
    deadline = started + (NO_LIMIT_S if time_limit_s is None else time_limit_s)
    race = Race(fleet, deadline, enough_usd, started)
    sifted = sift(fleet)
    race.prove(sifted.bound_usd)
    failures: list[BaseException] = []

    def watched(looking: Callable[[Race, Sifted], None]) -> None:
        try:
            looking(race, sifted)
        except BaseException as error:
            failures.append(error)
            race.stopped = True

    beside = [
        threading.Thread(target=watched, args=(looking,), daemon=True)
        for looking in (hunt, look_widely)
    ]
    for thread in beside:
        thread.start()
    try:
        prove(race, sifted)
    finally:
        race.stopped = True
        for thread in beside:
            thread.join()
    if failures:
        raise failures[0]
    return _result(race)


def _result(race: Race) -> FleetFound:
    seconds = time.perf_counter() - race.started
    if race.replicas is None:
        status = Status.INFEASIBLE if race.is_infeasible else Status.UNDECIDED
        empty = np.zeros((0, race.fleet.n_classes))
        none = np.zeros(0, dtype=np.int64)
        return FleetFound(status, none, empty, math.inf, race.lower_usd, seconds)
    assert race.shares is not None
    status = Status.OPTIMAL if race.met else Status.FEASIBLE
    bound = race.upper_usd if race.met else race.lower_usd
    history = tuple(race.history)
    return FleetFound(status, race.replicas, race.shares, race.upper_usd, bound, seconds, history)
