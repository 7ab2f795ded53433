"""The pipeline: a case in, a proved and verified design out, or why there is none."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from optimiser.case import Case
from optimiser.errors import SolverError, VerificationError
from optimiser.planning import explain
from optimiser.planning.build import build
from optimiser.planning.configurations import Space, configurations
from optimiser.planning.cut_loop import Found, Run, search
from optimiser.planning.design import Design
from optimiser.planning.export import save_failure, save_program
from optimiser.planning.one_pool import Chosen, OnePool
from optimiser.planning.order import preferences
from optimiser.planning.solvers.base import Status, solver
from optimiser.planning.verify import Verdict, verify
from optimiser.units import usd


@dataclass(frozen=True, slots=True)
class Proof:
    """What is known about the cost, and from whom."""

    objective_usd_per_hour: float
    bound_usd_per_hour: float | None
    """No compliant design costs less; None where the solver gave no bound."""
    solver: str
    rounds: int
    """Times that the cost program was solved, with cuts added between."""
    configurations: int
    """Configurations that the program chose among."""
    seconds: float
    cross_check: str | None = None
    """The second solver that found the same design, where one was asked."""

    @property
    def gap_frac(self) -> float | None:
        """(objective - bound) / objective."""
        if self.bound_usd_per_hour is None:
            return None
        return (self.objective_usd_per_hour - self.bound_usd_per_hour) / self.objective_usd_per_hour


@dataclass(frozen=True, slots=True)
class Planned:
    """A design that the verifier accepts: proved cheapest, or the best in the time given."""

    case: Case
    design: Design
    verdict: Verdict
    proof: Proof
    excluded: tuple[tuple[str, str], ...] = ()
    """Combinations of levers left out: what, and why."""
    notes: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """`optimal` where bound = objective, else `feasible`."""
        return "optimal" if self.proof.gap_frac == 0 else "feasible"


@dataclass(frozen=True, slots=True)
class Infeasible:
    """Proved: no design complies. Each conflict with the nearest values that would work."""

    case: Case
    conflicts: tuple[explain.Conflict, ...]
    solver: str
    configurations: int
    seconds: float
    status: str = "infeasible"


@dataclass(frozen=True, slots=True)
class Undecided:
    """Neither a design nor a proof that there is none, in the time given."""

    case: Case
    solver: str
    configurations: int
    seconds: float
    status: str = "undecided"


def plan(
    case: Case,
    *,
    solver_name: str = "cp-sat",
    time_limit_s: float | None = None,
    workers: int = 1,
    cross_check: bool = False,
    save_lp: Path | None = None,
    explained: bool = True,
) -> Planned | Infeasible | Undecided:
    """The cheapest compliant design of a case, proved by a solver and verified by scalar code.

    Without `explained` an infeasible case is returned without its conflicts. Raises CaseError for
    a case that allows no legal configuration, SolverError, and VerificationError where the
    verifier or the cross-check disagrees.
    """
    start = time.perf_counter()
    space = configurations(case)
    deadline = None if time_limit_s is None else start + time_limit_s
    run = Run(solver(solver_name), workers, deadline)
    program = build(space)
    found = search(program, run)
    rounds = run.rounds
    if save_lp is not None:
        _cut_beyond_tpot(program, run)
        save_program(program, case, save_lp)
    if found.status is Status.INFEASIBLE:
        if space.compliant.any():
            raise SolverError(f"{solver_name} finds no design where the engine does: please report")
        conflicts = explain.conflicts(space, run.solve) if explained else ()
        return Infeasible(case, conflicts, solver_name, len(space), time.perf_counter() - start)
    if found.answer is None:
        return Undecided(case, solver_name, len(space), time.perf_counter() - start)
    design, notes = found.answer.design, list[str]()
    if found.status is Status.OPTIMAL:
        ranked = settle_ties(space, found.cost_nano_usd, run)
        design = ranked.answer.design if ranked and ranked.answer else design
        if ranked is None:
            notes.append("time limit: equally cheap designs were not ranked")
    verdict = verify(case, design)
    if not verdict.complies:
        failed = ", ".join(check.requirement for check in verdict.checks if not check.holds)
        places = save_failure(program, case)
        raise VerificationError(f"the verifier rejects the design ({failed}); saved {places}")
    proof = Proof(
        objective_usd_per_hour=usd(found.cost_nano_usd),
        bound_usd_per_hour=None if found.bound_nano_usd is None else usd(found.bound_nano_usd),
        solver=solver_name,
        rounds=rounds,
        configurations=len(space),
        seconds=time.perf_counter() - start,
        cross_check=_cross_check(case, design, solver_name) if cross_check else None,
    )
    return Planned(case, design, verdict, proof, space.excluded, tuple(notes))


def _cut_beyond_tpot(program: OnePool, run: Run) -> None:
    """Add the cuts that the program needs where a reader deletes its `tpot` rows."""
    without = build(program.space.relaxed(frozenset({"brief.tpot_target_ms"})))
    search(without, run)
    batch = without.space.largest_batch
    for need in program.space.needs:
        cut = sorted({chosen for name, chosen, _, _ in without.cuts if name == need.name})
        program.cut(need, [(d, int(batch[d])) for d in cut])


def settle_ties(
    space: Space,
    cost_nano_usd: int,
    run: Run,
    first: Sequence[int] = (),
    last: Sequence[int] = (),
) -> Found[Chosen] | None:
    """The preferred one of the designs that cost the least; None where time ran out.

    Each preference runs to a design that the engine agrees with before the next begins; `first` and
    `last` are more of them, a weight for each configuration. Configurations whose largest batch
    cannot reach the settled cost are dominated and dropped; `Chosen.place` counts in the space that
    was given. Raises SolverError where the solver finds none at a cost that it proved.
    """
    cheapest = space.cost_nano_usd(space.fewest_replicas(space.largest_batch))
    able = (space.largest_batch > 0) & (cheapest <= cost_nano_usd)
    kept = np.flatnonzero(able)
    program = build(space.only(kept))
    program.settle(cost_nano_usd)
    found: Found[Chosen] | None = None
    weights = ([given[int(i)] for i in kept] if given else [] for given in (first, last))
    for name, terms in preferences(program, *weights):
        program.minimise(terms)
        found = search(program, run)
        if found.status is Status.INFEASIBLE:
            raise SolverError("the solver loses the design that it proved: please report this case")
        if found.status is not Status.OPTIMAL:
            return None
        program.hold(name, terms, found.value)
    if found is None or found.answer is None:
        return None
    return replace(found, answer=found.answer._replace(place=int(kept[found.answer.place])))


def _cross_check(case: Case, design: Design, solver_name: str) -> str:
    """Plan again with another solver. Raises VerificationError where it finds another design."""
    second = "highs" if solver_name != "highs" else "cp-sat"
    other = plan(case, solver_name=second)
    if not isinstance(other, Planned) or other.design != design:
        found = other.design.label if isinstance(other, Planned) else other.status
        raise VerificationError(f"{solver_name} found {design.label}, but {second} found {found}")
    return second
