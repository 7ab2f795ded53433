"""What a fleet is compared with, and what its limits are worth: all by solving again."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from optimiser.fleet_case import FleetCase
from optimiser.planning.fleet.assemble import assemble
from optimiser.planning.fleet.assembled import Assembled
from optimiser.planning.fleet.planner import FleetPlanned
from optimiser.planning.fleet.search import search
from optimiser.planning.fleet.separate import one_pool_per_class
from optimiser.planning.fleet.sift import sift
from optimiser.planning.solvers.base import Status
from optimiser.units import usd_per_month

SECONDS = 10.0
"""Most seconds of one of the solves."""
MORE_TPOT_MS = 10.0
MOST_ROWS = 12


@dataclass(frozen=True, slots=True)
class Worth:
    """One limit made looser."""

    change: str
    usd_saved_per_month: float
    is_proved: bool
    """Else it saves at least so much."""


@dataclass(frozen=True, slots=True)
class FleetStudy:
    """A fleet beside what else could be had."""

    single_gpu: str | None
    single_gpu_usd: float | None
    """Dollars per hour of the best fleet of one GPU type; None where none serves all."""
    per_class_usd: float | None
    """Dollars per hour of the cheapest fleet that gives each class a pool of its own."""
    worth: tuple[Worth, ...]

    @staticmethod
    def saved_frac(outcome: FleetPlanned, other_usd: float | None) -> float | None:
        """What the fleet saves against another, as a share of the other."""
        return None if other_usd is None else 1 - outcome.usd_per_hour / other_usd


def study_fleet(outcome: FleetPlanned, seconds: float = 4 * SECONDS) -> FleetStudy:
    """Compare a fleet, and price its limits, in about so many seconds."""
    deadline = time.perf_counter() + seconds
    assembled = outcome.assembled
    gpu, cost = _single_gpu(assembled)
    per_class = one_pool_per_class(assembled)
    worth: list[Worth] = []
    if outcome.status == "optimal":
        for change, case in _looser(outcome):
            if time.perf_counter() >= deadline or len(worth) >= MOST_ROWS:
                break
            fleet = assemble(case).fleet
            # most limits are worth nothing, which is quicker to show than what one is worth
            cheaper_usd = outcome.usd_per_hour - fleet.step_usd / 2
            if search(fleet, SECONDS, cheaper_usd).usd_per_hour > cheaper_usd:
                continue
            found = search(fleet, SECONDS)
            saved = outcome.usd_per_hour - found.usd_per_hour
            if saved > 1e-9:
                proved = found.status is Status.OPTIMAL
                worth.append(Worth(change, usd_per_month(saved), proved))
    worth.sort(key=lambda row: -row.usd_saved_per_month)
    return FleetStudy(gpu, cost, per_class, tuple(worth))


def _single_gpu(assembled: Assembled) -> tuple[str | None, float | None]:
    """The GPU type whose fleet alone is cheapest."""
    best: tuple[str | None, float | None] = (None, None)
    parts = []
    for gpu in dict.fromkeys(pool.gpu for pool in assembled.pools):
        part = assembled.fleet.of(assembled.of_gpu(gpu))
        if part.pools.able.any(axis=0).all():
            parts.append((sift(part).bound_usd, gpu, part))
    for bound_usd, gpu, part in sorted(parts, key=lambda one: one[0]):
        if best[1] is not None and bound_usd >= best[1]:
            break
        found = search(part, SECONDS)
        if len(found.replicas) and (best[1] is None or found.usd_per_hour < best[1]):
            best = gpu, found.usd_per_hour
    return best


def _looser(outcome: FleetPlanned) -> Iterator[tuple[str, FleetCase]]:
    """The case with one limit looser, for the limits that could bind."""
    case = outcome.case
    for gpu, most in (case.hardware.stock or {}).items():
        if outcome.rented_gpus.get(gpu, 0) > 0.5 * most:
            stock = {**(case.hardware.stock or {}), gpu: most + 1}
            hardware = case.hardware.model_copy(update={"stock": stock})
            yield f"hardware.stock.{gpu} {most} → {most + 1}", case.changed(hardware=hardware)
    limits = case.limits
    if limits.most_pools is not None:
        more = limits.model_copy(update={"most_pools": limits.most_pools + 1})
        name = f"limits.most_pools {limits.most_pools} → {limits.most_pools + 1}"
        yield name, case.changed(limits=more)
    if case.measured is not None or not case.workloads:
        return
    for i, workload in enumerate(case.workloads):
        now = workload.tpot_target_ms or 0.0
        looser = workload.changed(tpot_target_ms=now + MORE_TPOT_MS)
        classes = (*case.workloads[:i], looser, *case.workloads[i + 1 :])
        name = f"workloads.{workload.name}.tpot_target_ms {now:g} → {now + MORE_TPOT_MS:g}"
        yield name, case.changed(workloads=classes)
