"""What the two sides of the search share: the cheapest fleet, the bound, and when to stop."""

import math
import threading
import time
from dataclasses import dataclass, field

import numpy as np

from optimiser.engine.replicas import Floats, Ints
from optimiser.planning.fleet.pools import Fleet
from optimiser.planning.fleet.routing import SERVED, carries, route
from optimiser.units import at_least, usd

GRACE_S = 3.0
"""What a search may take beyond its limit to have a fleet at all."""

UNUSED = 1e-9
"""Sum of the shares of all classes below which a pool carries nothing."""


@dataclass(slots=True)
class Race:
    """One search for one fleet."""

    fleet: Fleet
    deadline: float
    """On `time.perf_counter`."""
    enough_usd: float | None = None
    """A cost that is as good as any lower one, where only that matters."""
    started: float = field(default_factory=time.perf_counter)
    upper_usd: float = math.inf
    lower_usd: float = 0.0
    replicas: Ints | None = None
    """The cheapest fleet found, replicas of each pool."""
    shares: Floats | None = None
    """Share of each class that each pool of it serves."""
    is_infeasible: bool = False
    history: list[tuple[float, float, float]] = field(default_factory=list)
    """Seconds, upper and lower bound at each change."""
    relaxed: Ints | None = None
    """Pools that the latest relaxed solution could mean."""
    n_relaxed: int = 0
    stopped: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def step_usd(self) -> float:
        """What two fleets of different cost differ by at least."""
        return self.fleet.step_usd

    @property
    def at_hand(self) -> tuple[float, Ints | None]:
        """What the cheapest fleet costs, and its pools."""
        with self.lock:
            own = None if self.replicas is None else np.flatnonzero(self.replicas)
            return self.upper_usd, own

    @property
    def met(self) -> bool:
        """Whether no cheaper fleet can exist."""
        return self.upper_usd - self.lower_usd < 0.5 * min(self.step_usd, 1e-3)

    @property
    def settled(self) -> bool:
        """Whether it is known that there is, or is not, a fleet that is cheap enough."""
        if self.enough_usd is None:
            return False
        if self.replicas is not None and at_least(self.enough_usd, self.upper_usd):
            return True
        return not at_least(self.enough_usd, self.lower_usd)

    @property
    def over(self) -> bool:
        """Whether to stop."""
        if self.stopped or self.met or self.settled or self.is_infeasible:
            return True
        return time.perf_counter() >= self.deadline

    @property
    def still_owes_a_fleet(self) -> bool:
        """Whether time is up without any fleet, so that the first one may take a little longer."""
        late_s = time.perf_counter() - self.deadline
        return self.replicas is None and not self.is_infeasible and 0 <= late_s < GRACE_S

    @property
    def age_s(self) -> float:
        """Seconds since it started."""
        return time.perf_counter() - self.started

    @property
    def left_s(self) -> float:
        """Seconds left."""
        return max(0.0, self.deadline - time.perf_counter())

    def offer(self, replicas: Ints, shares: Floats | None = None) -> bool:
        """Keep a fleet if it serves all and is cheaper than the last.

        `shares`: how the solver that found it would route the demand, where it said so.
        """
        if shares is not None and not self.fleet.least_replicas:
            # what a rented instance has room for costs nothing, but idle it opens a pool
            replicas = np.where(shares.sum(axis=1) > UNUSED, replicas, 0)
        cost = usd(self.fleet.cost_nano_usd(replicas))
        if cost >= self.upper_usd - 1e-9 or not self.fleet.within_limits(replicas):
            return False
        if shares is not None and self.fleet.slices is not None:
            shares = np.round(shares * self.fleet.slices) / self.fleet.slices
        if shares is None or not carries(self.fleet, replicas, shares):
            served, shares = route(self.fleet, replicas)
            if served < SERVED:
                return False
        with self.lock:
            if cost >= self.upper_usd - 1e-9:
                return False
            self.upper_usd, self.replicas, self.shares = cost, replicas.copy(), shares
            self._note()
        return True

    def prove(self, bound_usd: float) -> None:
        """Raise the bound, to the next whole price step above it."""
        if not math.isfinite(bound_usd):
            return
        step = self.step_usd
        rounded = math.ceil(bound_usd / step - 1e-4) * step
        with self.lock:
            if rounded > self.lower_usd:
                self.lower_usd = min(rounded, self.upper_usd)
                self._note()

    def relax(self, pools: Ints) -> None:
        """Hand over the pools that a relaxed solution could mean."""
        with self.lock:
            self.relaxed, self.n_relaxed = pools, self.n_relaxed + 1

    def _note(self) -> None:
        self.history.append((time.perf_counter() - self.started, self.upper_usd, self.lower_usd))


def round_up(values: Floats) -> Ints:
    """Whole numbers no smaller, but for a solver's tolerance."""
    return np.ceil(values - 1e-6).astype(np.int64)
