"""A case over ranges of its fields: the cost curve, crossovers, Pareto front and slack."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from optimiser.case import Case
from optimiser.errors import CaseError, Mistake
from optimiser.studies.axis import Axis, points
from optimiser.studies.crossover import Crossover, crossovers
from optimiser.studies.known import Known, Progress
from optimiser.studies.pareto import Front, pareto
from optimiser.studies.rows import Row
from optimiser.studies.slack import Slack, slack

MOST_TRIES = 20
"""Combinations with other values before a value is left for its rows to report."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a sweep."""

    at: dict[str, Any]
    """Values of the varied fields."""
    row: Row


@dataclass(frozen=True, slots=True)
class Sweep:
    """A case over ranges of its fields."""

    baseline: Row
    axes: tuple[Axis, ...]
    points: tuple[Point, ...]
    crossovers: tuple[Crossover, ...]
    front: Front | None
    slack: tuple[Slack, ...] | None
    """None where it was not asked for, or the case itself has no design."""

    @property
    def line(self) -> Axis | None:
        """The axis that the curve runs along: the first of numbers."""
        return next((axis for axis in self.axes if len(axis.numbers) > 1), None)


def sweep(
    case: Case,
    axes: Sequence[Axis],
    front_over: str | None = None,
    with_slack: bool = True,
    solver_name: str = "cp-sat",
    progress: Progress = lambda what, done, total: None,
) -> Sweep:
    """Plan every combination of the axes' values, and study what lies between.

    Crossovers are looked for along the first axis of numbers, for every value of the others.
    Raises CaseError for a value that makes no valid case.
    """
    known = Known(case, solver_name)
    baseline = known.baseline()
    refuse_invalid(known, axes, progress)
    total = math.prod(len(axis.values) for axis in axes) if axes else 0
    found = []
    for at in points(axes) if axes else ():
        name = ", ".join(f"{field.split('.')[-1]}={shown(value)}" for field, value in at.items())
        found.append(Point(at, known.row(name, known.at(at))))
        progress("points", len(found), total)
    _refuse_all_wrong(found)
    swept = Sweep(baseline, tuple(axes), tuple(found), (), None, None)
    line, changed = swept.line, list[Crossover]()
    if line is not None:
        lines = list(points([axis for axis in axes if axis is not line]))
        for done, others in enumerate(lines, 1):
            changed += crossovers(known, line, others)
            progress("lines searched for crossovers", done, len(lines))
    front = pareto(known, front_over) if front_over else None
    planned = baseline.planned
    slacks = slack(known, planned) if with_slack and planned else None
    return Sweep(baseline, tuple(axes), tuple(found), tuple(changed), front, slacks)


def shown(value: object) -> str:
    """A value as a user would write it."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return "+".join(map(shown, value))
    return "null" if value is None else str(value)


def refuse_invalid(
    known: Known, axes: Sequence[Axis], progress: Progress = lambda what, done, total: None
) -> None:
    """Raises CaseError for every value that its own field does not take.

    One that only does not go with the rest of the case is left for its rows to report.
    """
    mistakes: dict[str, Mistake] = {}
    for axis in axes:
        others = [other for other in axes if other is not axis]
        for done, value in enumerate(axis.values, 1):
            for error in _errors(known, axis, value, others):
                mistakes.setdefault(str(error), error)
            progress(f"values of {axis.field} read", done, len(axis.values))
    if mistakes:
        raise CaseError(mistakes.values())


def _errors(known: Known, axis: Axis, value: object, others: Sequence[Axis]) -> Sequence[Mistake]:
    first: Sequence[Mistake] = ()
    for tried, at in enumerate(points(others)):
        if tried == MOST_TRIES:
            return ()
        try:
            known.changed(known.at({axis.field: value, **at}))
        except CaseError as error:
            where = f"--vary {axis.field}={shown(value)}"
            own = [m for m in error.mistakes if _is_of(m.field, axis.field)]
            if not own:
                return ()
            first = first or [Mistake(where, m.field, m.message, m.nearest) for m in own]
        else:
            return ()
    return first


def _is_of(field: str, varied: str) -> bool:
    return field == varied or field.startswith((f"{varied}.", f"{varied}["))


def _refuse_all_wrong(found: Sequence[Point]) -> None:
    """Raises the first error where no point makes a valid case."""
    errors = [point.row.outcome for point in found if isinstance(point.row.outcome, CaseError)]
    if errors and len(errors) == len(found):
        raise errors[0]
