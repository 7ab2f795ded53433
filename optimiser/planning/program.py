"""The mixed-integer program of a case as named PuLP variables and rows, and its cuts.

What the rows say is in `build.py`. A capacity row is a line under the whole points (b, N_d(b)) of
every configuration of a group at once; a cut is one more line, of the slope that holds a
configuration to its exact whole need.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pulp

from optimiser.engine.replicas import Ints
from optimiser.planning.configurations import Need, Space
from optimiser.planning.cuts import hull_edge, line_heights
from optimiser.planning.design import Design
from optimiser.units import usd

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
        self.row(f"settled_{legal_name(name)}", whole, pulp.LpConstraintLE, value)

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


def settle(program: Program, nano_usd_per_hour: int) -> None:
    """Hold the cost to what the cost program proved least.

    One group alone is paid for, so the cost is a number of its units: rows of ones, which no
    solver's floating point can misread, where nano-dollars are beyond the tolerance of some.
    """
    for group in program.groups:
        most = nano_usd_per_hour // group.unit_nano_usd
        program.row(f"settled_cost_{group.label}", [(group.units, 1)], pulp.LpConstraintLE, most)


def legal_name(name: str) -> str:
    """A name that every LP reader takes."""
    return re.sub(r"[^A-Za-z0-9_.]+", "_", name)
