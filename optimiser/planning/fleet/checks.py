"""Every requirement of a fleet's case, checked against the fleet that was found."""

import math
from collections.abc import Sequence

from optimiser.planning.fleet.assembled import Assembled
from optimiser.planning.fleet.planned import PlannedPool
from optimiser.planning.rental import Rental
from optimiser.planning.verify import Check
from optimiser.planning.verify_fleet import check_pool
from optimiser.units import usd


def verify(assembled: Assembled, pools: Sequence[PlannedPool]) -> list[Check]:
    """Check every requirement of the case against the fleet, with the headroom's load."""
    case = assembled.case
    headroom, limits = case.assumptions.headroom, case.limits
    checks: list[Check] = []
    place = {one.name: w for w, one in enumerate(assembled.cases)}
    for number, pool in enumerate(pools):
        if pool.design is None or pool.mix is None or not pool.routed:
            continue
        routed = [
            assembled.routed(place[name], rate * headroom) for name, rate in pool.routed.items()
        ]
        most = max(one.case.levers.batch.most for one in routed)
        checks += check_pool(str(number), pool.design, pool.mix, routed, most)
    for name, rate in zip(assembled.names.classes, assembled.rates, strict=True):
        served = sum(pool.routed.get(name, 0.0) for pool in pools)
        field = f"workloads.{name}.requests_per_s"
        checks.append(Check(field, float(rate), served, "requests/s", upper=False))
    worst = max((pool.utilization_frac * headroom for pool in pools), default=0.0)
    checks.append(Check("assumptions.headroom", 1.0, worst, "of capacity", upper=True))
    cost = sum(_cost(assembled, pools))
    rented = _rented(assembled, pools)
    for gpu, most_gpus in (case.hardware.stock or {}).items():
        taken = float(rented.get(gpu, 0))
        checks.append(Check(f"hardware.stock.{gpu}", float(most_gpus), taken, "GPUs", upper=True))
    if limits.most_gpus is not None:
        total = float(sum(rented.values()))
        checks.append(Check("limits.most_gpus", float(limits.most_gpus), total, "GPUs", upper=True))
    if limits.usd_per_hour is not None:
        checks.append(Check("limits.usd_per_hour", limits.usd_per_hour, cost, "$/h", upper=True))
    if limits.most_pools is not None:
        number_of = float(len(pools))
        checks.append(
            Check("limits.most_pools", float(limits.most_pools), number_of, "pools", upper=True)
        )
    if limits.least_replicas is not None:
        replicas = float(sum(pool.replicas for pool in pools))
        least = float(limits.least_replicas)
        checks.append(Check("limits.least_replicas", least, replicas, "replicas", upper=False))
    return checks


def _groups(pools: Sequence[PlannedPool]) -> dict[tuple[str, Rental, int], list[PlannedPool]]:
    """Pools that are rented together."""
    found: dict[tuple[str, Rental, int], list[PlannedPool]] = {}
    for pool in pools:
        size = pool.of.gpus_per_replica
        rental = pool.of.rental
        even = rental.offer is None or (rental.gpus % size == 0 and size & (size - 1) == 0)
        found.setdefault((pool.of.gpu, rental, 0 if even else size), []).append(pool)
    return found


def _units(pools: Sequence[PlannedPool]) -> int:
    rental = pools[0].of.rental
    if rental.offer is None:
        return sum(pool.gpus for pool in pools)
    held = sum(p.replicas / rental.replicas_per_unit(p.of.gpus_per_replica) for p in pools)
    return math.ceil(held - 1e-9)


def _cost(assembled: Assembled, pools: Sequence[PlannedPool]) -> list[float]:
    return [
        usd(_units(group) * group[0].of.rental.nano_usd_per_hour)
        for group in _groups(pools).values()
    ]


def _rented(assembled: Assembled, pools: Sequence[PlannedPool]) -> dict[str, int]:
    found: dict[str, int] = {}
    for group in _groups(pools).values():
        gpu, rental = group[0].of.gpu, group[0].of.rental
        found[gpu] = found.get(gpu, 0) + _units(group) * rental.gpus
    return found
