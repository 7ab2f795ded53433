"""A found fleet in words: each pool with its design, what is routed to it and where it settles."""

import math
from dataclasses import dataclass

import numpy as np

from optimiser.engine.replicas import Floats
from optimiser.planning.design import Design
from optimiser.planning.fleet.assembled import Assembled, PoolOf
from optimiser.planning.fleet.search import FleetFound
from optimiser.planning.mix import Mix, Routed
from optimiser.planning.verify_fleet import settle


@dataclass(frozen=True, slots=True)
class PlannedPool:
    """One pool of a fleet."""

    of: PoolOf
    replicas: int
    routed: dict[str, float]
    """Requests per second of each class, without headroom."""
    utilization_frac: float
    """Of the replicas that carry traffic, at the plain rate."""
    design: Design | None
    """None where the pool was measured."""
    mix: Mix | None

    @property
    def gpus(self) -> int:
        """GPUs that the replicas run on."""
        return self.replicas * self.of.gpus_per_replica


def planned_pools(assembled: Assembled, found: FleetFound) -> tuple[PlannedPool, ...]:
    """The pools that have replicas, in words."""
    fleet, headroom = assembled.fleet, assembled.case.assumptions.headroom
    pools = []
    for p in np.flatnonzero(found.replicas):
        of, replicas = assembled.pools[p], int(found.replicas[p])
        share = found.shares[p] / np.maximum(found.shares.sum(axis=0), 1e-12)
        routed = _routed(assembled, share, 1.0)
        working = replicas - fleet.spare
        used = float((fleet.pools.need[p] @ share).max()) / headroom / max(working, 1)
        design, mix = None, None
        if of.configuration is not None:
            # one class alone runs the whole batch that its replicas were counted at
            alone = assembled.is_alone
            design = Design(of.configuration, of.most_batch if alone else 1, replicas)
            loaded = settle(design, working, _parts(assembled, share, headroom), alone=alone)
            sequences = of.most_batch if alone else loaded.sequences
            batch = max(1, math.ceil(sequences * (1 - 1e-9)))
            design = Design(of.configuration, batch, replicas)
            mix = loaded
        pools.append(PlannedPool(of, replicas, routed, used, design, mix))
    return tuple(pools)


def _routed(assembled: Assembled, share: Floats, times: float) -> dict[str, float]:
    return {
        name: float(share[w] * assembled.rates[w] * times)
        for w, name in enumerate(assembled.names.classes)
        if share[w] > 1e-12
    }


def _parts(assembled: Assembled, share: Floats, headroom: float) -> list[Routed]:
    return [
        assembled.routed(w, float(share[w]) * one.brief.rate * headroom)
        for w, one in enumerate(assembled.cases)
        if share[w] > 1e-12
    ]
