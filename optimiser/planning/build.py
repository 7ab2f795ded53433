"""The mixed-integer program of a case: lever choices, batch and replicas, rows that quote the case.

With one workload the program is

    minimise    Σ price[k] · units[k]           k: a GPU type, a tensor-parallel size and an offer
    choose_one  Σ use[d] = 1                                d: a configuration
    weights[q] = Σ use[d] over the d with weights q, and so for every lever
    memory_k    batch[k] ≤ Σ batch by memory(d) · use[d]
    tpot_k      batch[k] ≤ Σ batch by TPOT(d) · use[d]
    ttft_k      batch[k] ≤ Σ batch by TTFT(d) · use[d]
    instances_k replicas a unit[k] · units[k] ≥ replicas[k]        where instances are rented whole
    capacity_k  q · replicas[k] + p · batch[k] ≥ Σ least(d) · use[d]

where least(d) is the least of q · N_d(b) + p · b over the batches that fit. Each capacity row is a
line under the whole points (b, N_d(b)) of every configuration at once: one slope -p/q, one height
for each configuration. A row whose slope is an edge of d's lower convex hull holds d to its exact
whole need there; all coefficients are whole, so no solver rounds anything.
"""

import math
from collections.abc import Callable

import numpy as np
import pulp

from optimiser.engine.replicas import Ints
from optimiser.planning.configurations import Space
from optimiser.planning.program import Group, Program, legal_name
from optimiser.units import budget_nano_usd


def build(space: Space) -> Program:
    """The cost program of a space, with one line under each group's need and one at its best."""
    problem = pulp.LpProblem(legal_name(space.case.name), pulp.LpMinimize)
    use = tuple(
        problem.add_variable(f"use_{d}_{legal_name(c.label)}", cat=pulp.LpBinary)
        for d, c in enumerate(space.configurations)
    )
    groups, group_of = _groups(problem, space)
    most_batch = space.case.levers.batch.most
    most_replicas = max(group.replicas.upBound for group in groups)
    program = Program(
        space=space,
        problem=problem,
        use=use,
        batch=problem.add_variable("batch", 1, most_batch, cat=pulp.LpInteger),
        replicas=problem.add_variable("replicas", 1, most_replicas, cat=pulp.LpInteger),
        groups=groups,
        group_of=group_of,
    )
    program.minimise(program.cost_terms())
    _choices(program)
    _latency_and_memory(program)
    _instances(program)
    _limits(program)
    _first_cuts(program)
    return program


def _groups(problem: pulp.LpProblem, space: Space) -> tuple[tuple[Group, ...], Ints]:
    every = np.arange(len(space))
    alone = np.ones(len(space), dtype=np.int64)
    most = space.fewest_replicas(alone)
    keys = [(c.gpu.name, c.tensor_parallel, c.rental) for c in space.configurations]
    order = {key: k for k, key in enumerate(dict.fromkeys(keys))}
    group_of = np.array([order[key] for key in keys], dtype=np.int64)
    most_batch = space.case.levers.batch.most
    groups = []
    for (gpu, size, _), k in order.items():
        members = every[group_of == k]
        first = members[0]
        label = legal_name(f"{k}_{gpu}_tp{size}")
        # no design needs more replicas than one that serves a single sequence at a time
        top = int(most[members].max())
        replicas = problem.add_variable(f"replicas_{label}", 0, top, cat=pulp.LpInteger)
        units = replicas
        if space.unit_replicas[first] > 1:
            units = problem.add_variable(f"instances_{label}", 0, top, cat=pulp.LpInteger)
        groups.append(
            Group(
                label=label,
                members=members,
                tensor_parallel=size,
                unit_nano_usd=int(space.unit_nano_usd[first]),
                unit_replicas=int(space.unit_replicas[first]),
                unit_gpus=int(space.unit_gpus[first]),
                replicas=replicas,
                units=units,
                batch=problem.add_variable(f"batch_{label}", 0, most_batch, cat=pulp.LpInteger),
            )
        )
    return tuple(groups), group_of


def _choices(program: Program) -> None:
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
            chosen = program.problem.add_variable(name, cat=pulp.LpBinary)
            terms = [(chosen, -1), *((use, 1) for use in uses)]
            program.row(f"choice_{name}", terms, pulp.LpConstraintEQ, 0)
    for total, parts in (
        (program.batch, [group.batch for group in program.groups]),
        (program.replicas, [group.replicas for group in program.groups]),
    ):
        terms = [(total, -1), *((part, 1) for part in parts)]
        program.row(f"total_{total.name}", terms, pulp.LpConstraintEQ, 0)


def _latency_and_memory(program: Program) -> None:
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


def _instances(program: Program) -> None:
    """Instances are rented whole: each holds so many replicas."""
    for group in program.groups:
        if group.units is not group.replicas:
            terms = [(group.units, group.unit_replicas), (group.replicas, -1)]
            program.row(f"instances_{group.label}", terms, pulp.LpConstraintGE, 0)


def _limits(program: Program) -> None:
    limits = program.space.case.limits
    if limits.most_gpus is not None:
        terms = [(group.units, group.unit_gpus) for group in program.groups]
        field_name = "limits.most_gpus"
        program.row("limit_most_gpus", terms, pulp.LpConstraintLE, limits.most_gpus, field_name)
    if limits.usd_per_hour is not None:
        field_name = "limits.usd_per_hour"
        most = budget_nano_usd(limits.usd_per_hour)
        _cost_row(program, "limit_usd_per_hour", most, field_name)
    if limits.least_replicas is not None:
        for group in program.groups:
            terms = [(group.replicas, 1)]
            terms += [(program.use[d], -limits.least_replicas) for d in group.members]
            name = f"limit_least_replicas_{group.label}"
            program.row(name, terms, pulp.LpConstraintGE, 0, "limits.least_replicas")


def _cost_row(program: Program, name: str, most_nano_usd: int, quote: str = "") -> None:
    """Cost at most so many nano-dollars, in the largest whole unit that all prices share."""
    prices = [group.unit_nano_usd for group in program.groups]
    step = math.gcd(*prices)
    terms = [(g.units, price // step) for g, price in zip(program.groups, prices, strict=True)]
    program.row(name, terms, pulp.LpConstraintLE, most_nano_usd // step, quote)


def _first_cuts(program: Program) -> None:
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
