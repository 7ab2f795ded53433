"""Solve, ask the engine, cut, solve again: until program and engine agree or time is up."""

import time
from dataclasses import dataclass, replace
from typing import Any, Generic

from optimiser.errors import SolverError
from optimiser.planning.program import Answer, Program
from optimiser.planning.solvers.base import Limits, Solution, Solve, Status
from optimiser.units import nano_usd


@dataclass(slots=True)
class Run:
    """One plan's solver, clock and counter."""

    solve: Solve
    workers: int = 1
    deadline: float | None = None
    """Time on `time.perf_counter` after which no solver is started."""
    rounds: int = 0

    def call(self, program: Program[Any]) -> Solution:
        """Solve a program in the time that is left; undecided where none is."""
        left = None if self.deadline is None else self.deadline - time.perf_counter()
        if left is not None and left <= 0:
            return Solution(Status.UNDECIDED, {}, None, None)
        self.rounds += 1
        return self.solve(program.problem, Limits(left, self.workers))


@dataclass(frozen=True, slots=True)
class Found(Generic[Answer]):
    """Where the loop ended: an answer that the engine agrees with, and what is proved of it."""

    status: Status
    answer: Answer | None = None
    cost_nano_usd: int = 0
    bound_nano_usd: int | None = None
    """Only of a cost program: nothing that complies costs less."""
    value: int = 0
    """Objective at the solution, in the program's own unit, for whole objectives."""


def search(program: Program[Answer], run: Run) -> Found[Answer]:
    """The best answer of a program. Raises SolverError where a cut changes nothing.

    Every program solved on the way has fewer rows than the case asks for, so its bound is a true
    bound; and what it proposes, given the replicas that the engine asks for, is an answer. A time
    limit therefore returns the cheapest such answer with the last bound.
    """
    best: Found[Answer] = Found(Status.UNDECIDED)
    while True:
        solution = run.call(program)
        if solution.status is Status.INFEASIBLE:
            return Found(Status.INFEASIBLE)
        if solution.status is Status.UNDECIDED:
            return best
        answer = program.answer(solution.values)
        bound = None if solution.bound is None else nano_usd(solution.bound)
        agreed = program.agreed(answer)
        if agreed is not None and solution.status is Status.OPTIMAL:
            value = round(solution.objective or 0.0)
            return Found(Status.OPTIMAL, agreed, program.cost_nano_usd(agreed), bound, value)
        best = _cheaper(program, best, program.repaired(answer), bound)
        if solution.status is Status.FEASIBLE:
            return best
        if not program.cut_off(answer):
            raise SolverError("a cut did not change the solution: please report this case")


def _cheaper(
    program: Program[Answer], best: Found[Answer], answer: Answer | None, bound: int | None
) -> Found[Answer]:
    """The cheaper of what was found and another answer, with the newest bound."""
    known = best.bound_nano_usd if bound is None else bound
    if answer is None:
        return replace(best, bound_nano_usd=known)
    cost = program.cost_nano_usd(answer)
    if best.answer is not None and best.cost_nano_usd <= cost:
        return replace(best, bound_nano_usd=known)
    return Found(Status.FEASIBLE, answer, cost, known)
