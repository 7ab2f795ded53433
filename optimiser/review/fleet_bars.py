"""Error bars of a fleet: what measured runs say its predictions are worth."""

import math
from dataclasses import dataclass

from optimiser.catalogue.gpu import Gpu
from optimiser.planning.fleet.planned import PlannedPool
from optimiser.planning.fleet.planner import FleetPlanned
from optimiser.planning.margin import Spread, spread
from optimiser.units import ms


@dataclass(frozen=True, slots=True)
class ClassBars:
    """What 8 of 10 measured runs lay between, applied to the slowest pool of a class."""

    tpot_ms: tuple[float, float]
    ttft_ms: tuple[float, float]
    group: str
    """The runs that the time per token rests on."""
    rows: int


def gpu_of(pool: PlannedPool) -> Gpu | None:
    """The GPU of a pool; None where the pool was measured."""
    return None if pool.of.configuration is None else pool.of.configuration.gpu


def pool_spread(outcome: FleetPlanned, pool: PlannedPool, what: str) -> Spread | None:
    """The spread of a quantity on a pool's GPU; None for the roofline and measured rates."""
    gpu = gpu_of(pool)
    return None if gpu is None else spread(outcome.assembled.cases[0], gpu, what)


def class_bars(outcome: FleetPlanned, name: str) -> ClassBars | None:
    """The error bars of a class; None without measured latency."""
    used = [(p, p.mix) for p in outcome.pools if p.mix is not None and name in p.routed]
    if not used:
        return None
    slowest, slow = max(used, key=lambda one: one[1].tpot_s)
    latest, late = max(used, key=lambda one: one[1].ttft_s[name])
    tpot = pool_spread(outcome, slowest, "tpot")
    ttft = pool_spread(outcome, latest, "ttft")
    if tpot is None or ttft is None:
        return None
    return ClassBars(
        _around(ms(slow.tpot_s), tpot), _around(ms(late.ttft_s[name]), ttft), tpot.group, tpot.rows
    )


def gpu_bars(outcome: FleetPlanned) -> tuple[int, int] | None:
    """GPUs that the demand takes if throughput is at either end everywhere; None without bars."""
    fewest, most, spare = 0, 0, outcome.assembled.fleet.spare
    headroom = outcome.case.assumptions.headroom
    for pool in outcome.pools:
        throughput = pool_spread(outcome, pool, "throughput")
        if throughput is None:
            return None
        need = pool.utilization_frac * headroom * max(pool.replicas - spare, 1)
        low, high = (math.ceil(need / f) + spare for f in (throughput.high, throughput.low))
        fewest += min(low, pool.replicas) * pool.of.gpus_per_replica
        most += max(high, pool.replicas) * pool.of.gpus_per_replica
    return fewest, most


def _around(value: float, factors: Spread) -> tuple[float, float]:
    return value * factors.low, value * factors.high
