"""The program of one workload in one pool: lever choices, batch and replicas.

What its rows say is in `build.py`. A capacity row is a line under the whole points (b, N_d(b)) of
every configuration of a group at once; a cut is one more line, of the slope that holds a
configuration to its exact whole need.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pulp

from optimiser.engine.replicas import Ints
from optimiser.planning.configurations import Need, Space
from optimiser.planning.cuts import hull_edge, line_heights
from optimiser.planning.design import Design
from optimiser.planning.program import Program, legal_name
from optimiser.units import budget_nano_usd

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
    batch: pulp.LpVariable


class Edge(NamedTuple):
    """An edge of one configuration's hull: q · need + p · batch is nowhere below `height`."""

    chosen: int
    q: int
    p: int
    height: int


class Chosen(NamedTuple):
    """A configuration's index in the space, and a design of it."""

    place: int
    design: Design


class OnePool(Program[Chosen]):
    """The program of a space, to be given its rows by `build`."""

    def __init__(self, space: Space) -> None:
        """The variables, without a row."""
        super().__init__(space.case.name)
        self.space = space
        self.cuts: set[tuple[str, int, int, int]] = set()
        """Need, configuration and slope of the lines that are in."""
        self.use = tuple(
            self.variable(f"use_{d}_{legal_name(c.label)}", 0, 1)
            for d, c in enumerate(space.configurations)
        )
        keys = [(c.gpu.name, c.tensor_parallel, c.rental) for c in space.configurations]
        order = {key: k for k, key in enumerate(dict.fromkeys(keys))}
        self.group_of: Ints = np.array([order[key] for key in keys], dtype=np.int64)
        # no design needs more replicas than one that serves a single sequence at a time
        most = space.fewest_replicas(np.ones(len(space), dtype=np.int64))
        self.groups = tuple(self._group(k, most) for k in range(len(order)))
        self.batch = self.variable("batch", 1, space.case.levers.batch.most)
        most_replicas = max(group.replicas.upBound for group in self.groups)
        self.replicas = self.variable("replicas", 1, most_replicas)

    def _group(self, k: int, most: Ints) -> Group:
        members = np.flatnonzero(self.group_of == k)
        first, space = members[0], self.space
        chosen = space.configurations[first]
        label = legal_name(f"{k}_{chosen.gpu.name}_tp{chosen.tensor_parallel}")
        return Group(
            label=label,
            members=members,
            tensor_parallel=chosen.tensor_parallel,
            unit_nano_usd=int(space.unit_nano_usd[first]),
            unit_replicas=int(space.unit_replicas[first]),
            unit_gpus=int(space.unit_gpus[first]),
            replicas=self.variable(f"replicas_{label}", 0, int(most[members].max())),
            batch=self.variable(f"batch_{label}", 0, space.case.levers.batch.most),
        )

    def answer(self, values: dict[str, int]) -> Chosen:
        """The configuration and the design that the variables' values stand for."""
        chosen = next(i for i, variable in enumerate(self.use) if values[variable.name])
        group = self.groups[self.group_of[chosen]]
        batch, replicas = values[group.batch.name], values[group.replicas.name]
        return Chosen(chosen, Design(self.space.configurations[chosen], batch, replicas))

    def agreed(self, answer: Chosen) -> Chosen | None:
        """The design, or the same one at its largest batch, if its replicas meet every need there.

        The batch costs nothing, so where the solver left it short of what its replicas need,
        moving it up changes no objective that was asked for.
        """
        chosen, design = answer
        for batch in dict.fromkeys((design.batch, int(self.space.largest_batch[chosen]))):
            if not self._short(chosen, batch, design.replicas):
                return Chosen(chosen, replace(design, batch=batch))
        return None

    def repaired(self, answer: Chosen) -> Chosen | None:
        """The configuration at its largest batch with the replicas it needs, within the limits."""
        chosen, space = answer.place, self.space
        batch = int(space.largest_batch[chosen])
        replicas = int(space.fewest_replicas(space.largest_batch)[chosen])
        design = Design(space.configurations[chosen], batch, replicas)
        most, budget = space.case.limits.most_gpus, space.case.limits.usd_per_hour
        if most is not None and design.rented_gpus > most:
            return None
        if budget is not None and design.nano_usd_per_hour > budget_nano_usd(budget):
            return None
        return Chosen(chosen, design)

    def cut_off(self, answer: Chosen) -> bool:
        """Cut at the configuration's largest batch: what is short there is short at any batch."""
        chosen, batch = answer.place, int(self.space.largest_batch[answer.place])
        short = self._short(chosen, batch, answer.design.replicas)
        added = [self.cut(self.space.needs[i], [(chosen, batch)]) for i in short]
        return any(added)

    def cost_nano_usd(self, answer: Chosen) -> int:
        """The design's cost."""
        return answer.design.nano_usd_per_hour

    def settle(self, nano_usd_per_hour: int) -> None:
        """Hold the cost to what the cost program proved least.

        One group alone is paid for, so the cost is a number of its units: rows of ones, which no
        solver's floating point can misread, where nano-dollars are beyond the tolerance of some.
        """
        for (units, price), group in zip(self.paid, self.groups, strict=True):
            most = nano_usd_per_hour // price
            self.row(f"settled_cost_{group.label}", [(units, 1)], pulp.LpConstraintLE, most)

    def _short(self, chosen: int, batch: int, replicas: int) -> list[int]:
        """Indices of the needs that so many replicas do not meet at a batch."""
        index, at = np.array([chosen]), np.array([batch])
        needs = self.space.needs
        return [i for i, n in enumerate(needs) if int(n.whole(index, at)[0]) > replicas]

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
