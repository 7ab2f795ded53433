"""The rows of one workload in one pool: lever choices, batch, replicas, each quoting the case.

With one workload the program is

    replicas_k, units_k as in `program.py`      k: a GPU type, a tensor-parallel size and an offer
    choose_one  Σ use[d] = 1                                d: a configuration
    weights[q] = Σ use[d] over the d with weights q, and so for every lever
    memory_k    batch[k] ≤ Σ batch by memory(d) · use[d]
    tpot_k      batch[k] ≤ Σ batch by TPOT(d) · use[d]
    ttft_k      batch[k] ≤ Σ batch by TTFT(d) · use[d]
    capacity_k  q · replicas[k] + p · batch[k] ≥ Σ least(d) · use[d]

where least(d) is the least of q · N_d(b) + p · b over the batches that fit. Each capacity row is a
line under the whole points (b, N_d(b)) of every configuration at once: one slope -p/q, one height
for each configuration. A row whose slope is an edge of d's lower convex hull holds d to its exact
whole need there; all coefficients are whole, so no solver rounds anything.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pulp

from optimiser.planning.configurations import Space
from optimiser.planning.one_pool import OnePool
from optimiser.planning.program import Rented, legal_name
from optimiser.units import budget_nano_usd


def build(space: Space) -> OnePool:
    """The cost program of a space, with one line under each group's need and one at its best."""
    program = OnePool(space)
    _choices(program)
    _latency_and_memory(program)
    _limits(program, _rent(program))
    _first_cuts(program)
    return program


def _rent(program: OnePool) -> list[pulp.LpVariable]:
    """Instances are rented whole: each holds so many replicas."""
    return program.rent(
        [
            Rented(
                label=group.label,
                unit_nano_usd=group.unit_nano_usd,
                holds=((group.replicas, Fraction(1, group.unit_replicas)),),
                most=int(group.replicas.upBound),
            )
            for group in program.groups
        ]
    )


def _choices(program: OnePool) -> None:
    """One configuration, the levers that it fixes, and the totals of batch and replicas."""
    configurations = program.space.configurations
    program.row("choose_one", [(use, 1) for use in program.use], pulp.LpConstraintEQ, 1)
    levers: dict[str, Callable[[int], object]] = {
        "weights": lambda d: configurations[d].weights,
        "kv_cache": lambda d: configurations[d].kv_cache,
        "kv_heads": lambda d: configurations[d].kv_heads,
        "gpu": lambda d: configurations[d].gpu.name,
        "tensor_parallel": lambda d: configurations[d].tensor_parallel,
    }
    for lever, value_of in levers.items():
        users: dict[object, list[pulp.LpVariable]] = {}
        for d, use in enumerate(program.use):
            users.setdefault(value_of(d), []).append(use)
        for i, (value, uses) in enumerate(users.items()):
            name = f"{lever}_{i}_{legal_name(str(value))}"
            chosen = program.variable(name, 0, 1)
            terms = [(chosen, -1), *((use, 1) for use in uses)]
            program.row(f"choice_{name}", terms, pulp.LpConstraintEQ, 0)
    for total, parts in (
        (program.batch, [group.batch for group in program.groups]),
        (program.replicas, [group.replicas for group in program.groups]),
    ):
        terms = [(total, -1), *((part, 1) for part in parts)]
        program.row(f"total_{total.name}", terms, pulp.LpConstraintEQ, 0)


def _latency_and_memory(program: OnePool) -> None:
    space = program.space
    for group in program.groups:
        uses = [(program.use[d], d) for d in group.members]
        running = [(group.batch, 1), *((use, -1) for use, _ in uses)]
        program.row(f"running_{group.label}", running, pulp.LpConstraintGE, 0)
        for name, bounds, quote in (
            ("memory", space.batch_by_memory, "hardware.gpus"),
            ("tpot", space.batch_by_tpot, "brief.tpot_target_ms"),
            ("ttft", space.batch_by_ttft, "brief.ttft_target_s"),
        ):
            terms = [(group.batch, 1), *((use, -int(bounds[d])) for use, d in uses)]
            program.row(f"{name}_{group.label}", terms, pulp.LpConstraintLE, 0, quote)


def _limits(program: OnePool, units: list[pulp.LpVariable]) -> None:
    limits = program.space.case.limits
    if limits.most_gpus is not None:
        name, quote = "limit_most_gpus", "limits.most_gpus"
        use = [group.unit_gpus for group in program.groups]
        program.limit_stock(name, units, use, limits.most_gpus, quote)
    if limits.usd_per_hour is not None:
        most = budget_nano_usd(limits.usd_per_hour)
        program.limit_cost("limit_usd_per_hour", most, "limits.usd_per_hour")
    if limits.least_replicas is not None:
        for group in program.groups:
            terms = [(group.replicas, 1)]
            terms += [(program.use[d], -limits.least_replicas) for d in group.members]
            name = f"limit_least_replicas_{group.label}"
            program.row(name, terms, pulp.LpConstraintGE, 0, "limits.least_replicas")


def _first_cuts(program: OnePool) -> None:
    """For each group: the level line of its largest batches, and the edge of its most promising."""
    space = program.space
    allowed, fits = space.largest_batch, space.batch_by_memory
    every = np.arange(len(space))
    for need in space.needs:
        level = np.where(fits > 0, need.whole(every, np.maximum(fits, 1)), 0)
        promise = np.where(allowed > 0, need.replicas(every, np.maximum(allowed, 1)), np.inf)
        points = []
        for group in program.groups:
            terms = [
                (group.replicas, 1),
                *((program.use[d], -int(level[d])) for d in group.members),
            ]
            program.row(
                f"{need.name}_{group.label}_level", terms, pulp.LpConstraintGE, 0, need.field
            )
            best = int(group.members[np.argmin(promise[group.members])])
            if allowed[best] > 0:
                points.append((best, int(allowed[best])))
        program.cut(need, points)
