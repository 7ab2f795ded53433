"""Classes that may use no pool: the memory of a GPU, or the target, that they would need."""

import numpy as np

from optimiser.errors import CaseError
from optimiser.fleet_case import FleetCase
from optimiser.planning.fleet.assemble import assemble
from optimiser.planning.fleet.conflict import FleetConflict, FleetNearest
from optimiser.planning.fleet.pools import Fleet
from optimiser.planning.fleet.requirements import (
    FURTHEST,
    TARGETS,
    Changed,
    Changes,
    field_of,
)
from optimiser.planning.nearest import least_that_works
from optimiser.units import gb

MOST_MEMORY_GB = 1e6


def held_by_no_pool(changed: Changed) -> frozenset[int]:
    """The classes that may use no pool, even without targets."""
    case = changed.case
    unable = _unable(changed.assembled.fleet)
    if not unable or case.measured is not None:
        return unable
    free = {field_of(case, w, name): None for w in unable for name in TARGETS}
    fleet, _ = changed.fleet(free)
    return _unable(fleet)


def _unable(fleet: Fleet) -> frozenset[int]:
    return frozenset(int(w) for w in np.flatnonzero(~fleet.pools.able.any(axis=0)))


def conflict_of_memory(case: FleetCase, workload: int) -> FleetConflict:
    """What such a class lacks: memory of a GPU, else its traffic can be served at no rate."""
    told = case.classes[workload]
    least = min(gb(gpu.capacity_bytes) for gpu in case.hardware.gpus)
    found = FleetNearest("hardware.gpus", least, None, workload=told.name)
    if case.measured is None:
        free = told.changed(**FURTHEST)
        # with its own targets if they can be met at all
        for one in (told, free):
            alone = case.changed(brief=None, workloads=(one,))

            def works(least_gb: float, alone: FleetCase = alone) -> bool:
                return _is_held(alone, least_gb)

            works_at = least_that_works(works, least, MOST_MEMORY_GB)
            if works_at is not None:
                found = FleetNearest("hardware.gpus", least, works_at, workload=told.name)
                return FleetConflict((found.requirement,), (found,))
    name = told.traffic_field
    asked = float(getattr(told, name))
    found = FleetNearest(field_of(case, workload, name), asked, None, workload=told.name)
    return FleetConflict((found.requirement,), (found,))


def _is_held(case: FleetCase, least_gb: float) -> bool:
    gpus = tuple(
        gpu.model_copy(
            update={"memory_bytes": None, "memory_gb": max(least_gb, gb(gpu.capacity_bytes))}
        )
        for gpu in case.hardware.gpus
    )
    hardware = case.hardware.model_copy(update={"gpus": gpus})
    try:
        return bool(assemble(case.changed(hardware=hardware)).fleet.pools.able.any())
    except CaseError:  # no way to build it is legal
        return False


def least_target(
    case: FleetCase, workload: int, name: str, asked: float, lifted: Changes
) -> float | None:
    """The least value, not below what is asked, of a target at which a class may use any pool."""
    free = {
        other: FURTHEST[other] for other in TARGETS if field_of(case, workload, other) in lifted
    }
    told = case.classes[workload].changed(**free)

    def works(value: float) -> bool:
        alone = case.changed(brief=None, workloads=(told.changed(**{name: value}),))
        return bool(assemble(alone).fleet.pools.able.any())

    return asked if works(asked) else least_that_works(works, asked, FURTHEST[name])
