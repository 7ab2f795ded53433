"""Why no fleet serves a case: which requirements conflict, and the nearest values that work."""

import time
from collections.abc import Callable, Sequence

from optimiser.errors import SolverError
from optimiser.planning.fleet.conflict import FleetConflict
from optimiser.planning.fleet.nearest import all_traffic, nearest_of
from optimiser.planning.fleet.planner import FleetInfeasible
from optimiser.planning.fleet.questions import Questions
from optimiser.planning.fleet.requirements import (
    TARGETS,
    Changed,
    Changes,
    Requirement,
    requirements,
)
from optimiser.planning.fleet.unable import conflict_of_memory, held_by_no_pool

SECONDS = 30.0
"""Most seconds of all questions."""

Progress = Callable[[str, int, int], None]
"""Told what is being done, how many are done and of how many."""


def explain_fleet(
    outcome: FleetInfeasible, seconds: float = SECONDS, progress: Progress = lambda *_: None
) -> tuple[FleetConflict, ...]:
    """The conflicts of an infeasible fleet, found by deletion, until what is left can be served.

    What one conflict names is relaxed before the next is looked for. Raises SolverError where a
    fleet is found after all.
    """
    case, changed = outcome.case, Changed(outcome.assembled)
    unheld = held_by_no_pool(changed)
    found = [conflict_of_memory(case, w) for w in sorted(unheld)]
    if len(unheld) == len(case.classes):
        return tuple(found)
    changed.without = unheld
    questions = Questions(changed, time.perf_counter() + seconds)
    members = [one for one in requirements(case) if one.workload not in unheld]
    told = questions.works({})
    if told and not unheld:
        raise SolverError("no fleet was found where there is one: please report")
    sets = _sets(questions, members, is_met=bool(told or (told is None and unheld)))
    relaxed = {one.field for kept, _ in sets for one in kept}
    done = 0
    for kept, is_minimal in sets:
        lifted = dict.fromkeys(relaxed - {one.field for one in kept})
        nearest = []
        for one in kept:
            progress("conflicting requirements explained", done, len(relaxed))
            nearest.append(nearest_of(questions, one, lifted))
            done += 1
        share = None
        if any(one.is_traffic for one in kept):
            share = all_traffic(questions, members, lifted)
        fields = tuple(one.field for one in kept)
        found.append(FleetConflict(fields, tuple(nearest), is_minimal, share))
    return tuple(found)


def _sets(
    questions: Questions, members: Sequence[Requirement], is_met: bool
) -> list[tuple[list[Requirement], bool]]:
    """Minimal sets of conflicting requirements, each beside what the earlier ones leave."""
    found: list[tuple[list[Requirement], bool]] = []
    relaxed: dict[str, None] = {}
    while not is_met:
        kept, is_minimal = _minimal(
            questions, [one for one in members if one.field not in relaxed], relaxed
        )
        if not kept:
            break
        found.append((kept, is_minimal))
        relaxed.update(dict.fromkeys(one.field for one in kept))
        is_met = questions.works(relaxed) is not False
    return found


def _minimal(
    questions: Questions, members: Sequence[Requirement], relaxed: Changes
) -> tuple[list[Requirement], bool]:
    """Delete each requirement in turn if the rest still conflict; what stays is minimal.

    Whole blocks are tried first: where the rest conflicts without any of a block, it does so after
    each deletion within it. Also returns whether every question was answered.
    """
    kept: list[Requirement] = []
    deleted = dict(relaxed)
    is_minimal = True

    def without(block: Sequence[Requirement]) -> bool | None:
        return questions.works({**deleted, **dict.fromkeys(one.field for one in block)})

    def thin(block: Sequence[Requirement], works: bool | None) -> None:
        nonlocal is_minimal
        if works is False:
            deleted.update(dict.fromkeys(one.field for one in block))
        elif len(block) == 1:
            kept.append(block[0])
            is_minimal &= works is not None
        else:
            half, before = len(block) // 2, len(kept)
            thin(block[:half], without(block[:half]))
            # with the first half deleted, the second is the whole of the block
            is_known = works is True and len(kept) == before
            thin(block[half:], True if is_known else without(block[half:]))

    for block in _blocks(members):
        thin(block, without(block))
    return kept, is_minimal


def _blocks(members: Sequence[Requirement]) -> list[Sequence[Requirement]]:
    """The limits, the targets and the traffic."""
    targets = [one for one in members if one.name in TARGETS]
    traffic = [one for one in members if one.is_traffic]
    limits = [one for one in members if one.workload is None]
    return [block for block in (limits, targets, traffic) if block]
