"""Solve, ask the engine, cut, solve again: until program and engine agree or time is up."""

import time
from dataclasses import dataclass, replace

import numpy as np

from optimiser.engine.replicas import Ints
from optimiser.errors import SolverError
from optimiser.planning.configurations import Space
from optimiser.planning.design import Design
from optimiser.planning.program import Program
from optimiser.planning.solvers.base import Limits, Solution, Solve, Status
from optimiser.units import budget_nano_usd, nano_usd


@dataclass(slots=True)
class Run:
    """One plan's solver, clock and counter."""

    solve: Solve
    workers: int = 1
    deadline: float | None = None
    """Time on `time.perf_counter` after which no solver is started."""
    rounds: int = 0

    def call(self, program: Program) -> Solution:
        """Solve a program in the time that is left; undecided where none is."""
        left = None if self.deadline is None else self.deadline - time.perf_counter()
        if left is not None and left <= 0:
            return Solution(Status.UNDECIDED, {}, None, None)
        self.rounds += 1
        return self.solve(program.problem, Limits(left, self.workers))


@dataclass(frozen=True, slots=True)
class Found:
    """Where the loop ended: a design that the engine agrees with, and what is proved of it."""

    status: Status
    design: Design | None = None
    cost_nano_usd: int = 0
    bound_nano_usd: int | None = None
    """Only of a cost program: no compliant design costs less."""
    chosen: int = -1
    """Index of the design's configuration in the program's space."""
    value: int = 0
    """Objective at the solution, in the program's own unit, for whole objectives."""


def search(program: Program, run: Run) -> Found:
    """The best design of a program. Raises SolverError where a cut changes nothing.

    Every program solved on the way has fewer rows than the case asks for, so its bound is a true
    bound; and every configuration it proposes, given the replicas that the engine asks for, is a
    design. A time limit therefore returns the cheapest such design with the last bound.
    """
    best = Found(Status.UNDECIDED)
    while True:
        solution = run.call(program)
        if solution.status is Status.INFEASIBLE:
            return Found(Status.INFEASIBLE)
        if solution.status is Status.UNDECIDED:
            return best
        chosen, design = program.design(solution.values)
        bound = None if solution.bound is None else nano_usd(solution.bound)
        agreed = _agreed(program.space, chosen, design)
        if agreed is not None and solution.status is Status.OPTIMAL:
            value = round(solution.objective or 0.0)
            return Found(Status.OPTIMAL, agreed, agreed.nano_usd_per_hour, bound, chosen, value)
        best = _cheaper(best, _repaired(program.space, chosen), bound)
        if solution.status is Status.FEASIBLE:
            return best
        if not _cut(program, chosen, design):
            raise SolverError("a cut did not change the solution: please report this case")


def _agreed(space: Space, chosen: int, design: Design) -> Design | None:
    """The design, or the same one at its largest batch, if its replicas meet every need there.

    The batch costs nothing, so where the solver left it short of what its replicas need, moving
    it up changes no objective that was asked for.
    """
    for batch in dict.fromkeys((design.batch, int(space.largest_batch[chosen]))):
        if not _short(space, chosen, batch, design.replicas):
            return Design(design.configuration, batch, design.replicas)
    return None


def _short(space: Space, chosen: int, batch: int, replicas: int) -> list[int]:
    """Indices of the needs that so many replicas do not meet at a batch."""
    index, at = _one(chosen), _one(batch)
    return [i for i, n in enumerate(space.needs) if int(n.whole(index, at)[0]) > replicas]


def _cut(program: Program, chosen: int, design: Design) -> bool:
    """Cut at the configuration's largest batch: what is short there is short at any batch."""
    space, batch = program.space, int(program.space.largest_batch[chosen])
    short = _short(space, chosen, batch, design.replicas)
    added = [program.cut(space.needs[i], [(chosen, batch)]) for i in short]
    return any(added)


def _repaired(space: Space, chosen: int) -> Found:
    """A configuration at its largest batch with the replicas it needs, if the limits allow it."""
    batch = int(space.largest_batch[chosen])
    replicas = int(space.fewest_replicas(space.largest_batch)[chosen])
    design = Design(space.configurations[chosen], batch, replicas)
    limits, cost = space.case.limits, design.nano_usd_per_hour
    most = limits.most_gpus
    budget = limits.usd_per_hour
    if most is not None and design.rented_gpus > most:
        return Found(Status.UNDECIDED)
    if budget is not None and cost > budget_nano_usd(budget):
        return Found(Status.UNDECIDED)
    return Found(Status.FEASIBLE, design, cost, chosen=chosen)


def _cheaper(best: Found, other: Found, bound: int | None) -> Found:
    """The cheaper of two designs, with the newest bound."""
    designs = [found for found in (best, other) if found.design is not None]
    if not designs:
        return Found(Status.UNDECIDED, bound_nano_usd=bound)
    cheapest = min(designs, key=lambda found: found.cost_nano_usd)
    known = best.bound_nano_usd if bound is None else bound
    return replace(cheapest, bound_nano_usd=known)


def _one(value: int) -> Ints:
    return np.array([value], dtype=np.int64)
