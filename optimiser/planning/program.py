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
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pulp

from optimiser.engine.replicas import Ints
from optimiser.planning.configurations import Need, Space
from optimiser.planning.cuts import hull_edge, line_heights
from optimiser.planning.design import Design
from optimiser.units import budget_nano_usd, usd

LEVEL = (1, 0)
"""Slope of the line that every group has from the start, exact for all of its configurations."""


@dataclass(frozen=True, slots=True)
class Group:
    """The configurations of one GPU type, tensor-parallel size and offer: one price."""

    label: str
    members: Ints
    """Their indices in the space."""
    tensor_parallel: int
    unit_nano_usd: int
    unit_replicas: int
    unit_gpus: int
    replicas: pulp.LpVariable
    units: pulp.LpVariable
    """What is paid for: whole instances, or the replicas themselves."""
    batch: pulp.LpVariable


class Edge(NamedTuple):
    """An edge of one configuration's hull: q · need + p · batch is nowhere below `height`."""

    chosen: int
    q: int
    p: int
    height: int


@dataclass(slots=True)
class Program:
    """The program of a space: a named PuLP problem, and how its values read as a design."""

    space: Space
    problem: pulp.LpProblem
    use: tuple[pulp.LpVariable, ...]
    batch: pulp.LpVariable
    replicas: pulp.LpVariable
    groups: tuple[Group, ...]
    group_of: Ints
    quotes: dict[str, str] = field(default_factory=dict)
    """Row name to the field of the case that it stands for."""
    cuts: set[tuple[str, int, int, int]] = field(default_factory=set)
    """Need, configuration and slope of the lines that are in."""

    def design(self, values: dict[str, int]) -> tuple[int, Design]:
        """The configuration index and the design that the variables' values stand for."""
        chosen = next(i for i, variable in enumerate(self.use) if values[variable.name])
        group = self.groups[self.group_of[chosen]]
        batch, replicas = values[group.batch.name], values[group.replicas.name]
        return chosen, Design(self.space.configurations[chosen], batch, replicas)

    def minimise(self, terms: Iterable[tuple[pulp.LpVariable, float]]) -> None:
        """Replace the objective."""
        self.problem.setObjective(pulp.LpAffineExpression(list(terms)))

    def hold(self, name: str, terms: Iterable[tuple[pulp.LpVariable, float]], value: int) -> None:
        """Hold an objective that has been minimised to its value."""
        whole = [(variable, int(coefficient)) for variable, coefficient in terms]
        self.row(f"settled_{_legal(name)}", whole, pulp.LpConstraintLE, value)

    def cost_terms(self) -> list[tuple[pulp.LpVariable, float]]:
        """The cost, dollars per hour."""
        return [(group.units, usd(group.unit_nano_usd)) for group in self.groups]

    def row(
        self,
        name: str,
        terms: Iterable[tuple[pulp.LpVariable, int]],
        sense: int,
        right: int,
        quote: str = "",
    ) -> None:
        """Add a row of whole coefficients; `quote` is the case's field that it stands for."""
        expression = pulp.LpAffineExpression([(v, c) for v, c in terms if c])
        self.problem.addConstraint(pulp.LpConstraint(expression, sense, name, right))
        if quote:
            self.quotes[name] = quote

    def cut(self, need: Need, points: Sequence[tuple[int, int]]) -> bool:
        """Add the lines that hold configurations to their whole need at a batch each.

        A line lies under the points of its whole group. Returns False where all are in already.
        """
        edges = [edge for edge in (self._edge(need, *point) for point in points) if edge]
        if not edges:
            return False
        members = [self.groups[self.group_of[edge.chosen]].members for edge in edges]
        sizes = [len(each) for each in members]
        q = np.repeat([edge.q for edge in edges], sizes)
        p = np.repeat([edge.p for edge in edges], sizes)
        heights = line_heights(self.space, need, np.concatenate(members), q, p)
        for edge, own in zip(edges, np.split(heights, np.cumsum(sizes)[:-1]), strict=True):
            group = self.groups[self.group_of[edge.chosen]]
            own[group.members == edge.chosen] = edge.height
            terms = [(group.replicas, edge.q), (group.batch, edge.p)]
            terms += [(self.use[d], -int(h)) for d, h in zip(group.members, own, strict=True)]
            name = f"{need.name}_{group.label}_{edge.q}_{edge.p}_{edge.chosen}"
            self.row(name, terms, pulp.LpConstraintGE, 0, need.field)
        return True

    def _edge(self, need: Need, chosen: int, batch: int) -> Edge | None:
        """The edge of a configuration's hull at a batch; None where its line is in already."""
        most = int(self.space.batch_by_memory[chosen])
        batches = np.arange(1, most + 1)
        needed = need.whole(np.full(most, chosen), batches)
        q, p = hull_edge(needed, batch - 1)
        key = (need.name, chosen, q, p)
        if key in self.cuts or (q, p) == LEVEL:
            return None
        self.cuts.add(key)
        return Edge(chosen, q, p, int((q * needed + p * batches).min()))


def build(space: Space) -> Program:
    """The cost program of a space, with one line under each group's need and one at its best."""
    problem = pulp.LpProblem(_legal(space.case.name), pulp.LpMinimize)
    use = tuple(
        problem.add_variable(f"use_{d}_{_legal(c.label)}", cat=pulp.LpBinary)
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
        label = _legal(f"{k}_{gpu}_tp{size}")
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
            name = f"{lever}_{i}_{_legal(str(value))}"
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


def settle(program: Program, nano_usd_per_hour: int) -> None:
    """Hold the cost to what the cost program proved least.

    One group alone is paid for, so the cost is a number of its units: rows of ones, which no
    solver's floating point can misread, where nano-dollars are beyond the tolerance of some.
    """
    for group in program.groups:
        most = nano_usd_per_hour // group.unit_nano_usd
        program.row(f"settled_cost_{group.label}", [(group.units, 1)], pulp.LpConstraintLE, most)


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


def _legal(name: str) -> str:
    """A name that every LP reader takes."""
    return re.sub(r"[^A-Za-z0-9_.]+", "_", name)
