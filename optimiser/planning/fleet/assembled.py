"""A fleet with what its pools and classes stand for."""

from dataclasses import dataclass, replace

import numpy as np

from optimiser.case import Case
from optimiser.engine.replicas import Floats, Ints
from optimiser.fleet_case import FleetCase
from optimiser.planning.design import Configuration
from optimiser.planning.fleet.names import Names
from optimiser.planning.fleet.pools import Fleet
from optimiser.planning.mix import Routed
from optimiser.planning.rental import Rental


@dataclass(frozen=True, slots=True)
class PoolOf:
    """What the replicas of a pool are."""

    label: str
    gpu: str
    gpus_per_replica: int
    rental: Rental
    model: str | None = None
    configuration: Configuration | None = None
    """None where the pool was measured."""
    step_s: float = 0.0
    most_batch: int = 0
    promise_s: float | None = None
    """Longest time per token that it keeps to, prefills included; None where steps alone count."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """The arrays of a fleet and the words for them."""

    case: FleetCase
    fleet: Fleet
    pools: tuple[PoolOf, ...]
    cases: tuple[Case, ...]
    """The case of each class alone; empty where the rates were measured."""
    rates: Floats
    """Requests per second of each class, without headroom."""
    unit_gpus: Ints
    """GPUs of one unit of each rental."""
    names: Names
    excluded: tuple[tuple[str, str], ...] = ()
    rows: tuple[tuple[tuple[Case, float], ...], ...] = ()
    """Of each class, the cases of its lengths with their shares of its requests."""

    @property
    def is_alone(self) -> bool:
        """Whether there is one class of one length: replicas then run whole batches of it."""
        return len(self.rows) == 1 and len(self.rows[0]) == 1

    def routed(self, w: int, requests_per_s: float) -> Routed:
        """So much of one class, for the verifier."""
        rows = self.rows[w] if len(self.rows[w]) > 1 else ()
        return Routed(self.cases[w], requests_per_s, rows)

    def of_gpu(self, gpu: str) -> Ints:
        """The pools of one GPU type."""
        return np.flatnonzero([pool.gpu == gpu for pool in self.pools])

    def only(self, index: Ints) -> "Assembled":
        """With some of its pools."""
        names = replace(self.names, pools=[self.names.pools[i] for i in index])
        kept = tuple(self.pools[i] for i in index)
        return replace(self, fleet=self.fleet.of(index), pools=kept, names=names)
