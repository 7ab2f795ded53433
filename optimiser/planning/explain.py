"""Why nothing complies: which requirements conflict, and the nearest values that would work.

Whether a brief with some requirements relaxed can be met is asked of the engine, for all
configurations at once, so that a search over values takes milliseconds. Every value that is
reported is then confirmed by the program.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from optimiser.case import Case
from optimiser.errors import SolverError
from optimiser.planning.build import build
from optimiser.planning.configurations import Space, configurations
from optimiser.planning.cut_loop import Run, search
from optimiser.planning.nearest import least_that_works, most_that_works
from optimiser.planning.solvers.base import Solve, Status
from optimiser.units import gb

Fields = frozenset[str]
NOTHING: Fields = frozenset()


@dataclass(frozen=True, slots=True)
class Requirement:
    """A field of the case that can be relaxed, and how."""

    field: str
    upper: bool
    """Whether a larger value relaxes it."""
    furthest: float
    """The last value to try."""
    whole: bool = False


REQUIREMENTS = (
    Requirement("limits.most_gpus", upper=True, furthest=1e9, whole=True),
    Requirement("limits.usd_per_hour", upper=True, furthest=1e12),
    Requirement("limits.least_replicas", upper=False, furthest=1, whole=True),
    Requirement("brief.ttft_target_s", upper=True, furthest=1e6),
    Requirement("brief.tpot_target_ms", upper=True, furthest=1e9),
    Requirement("brief.requests_per_s", upper=False, furthest=1e-9),
    Requirement("brief.concurrent_users", upper=False, furthest=1e-9),
    Requirement("hardware.gpus", upper=True, furthest=1e6),
)
"""In the order in which their deletion is tried: limits, ttft, tpot, rate, memory."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The nearest value of one requirement that would work, all else kept."""

    requirement: str
    asked: float
    works_at: float | None
    """None where no value helps."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A minimal set of requirements that cannot all be met."""

    requirements: tuple[str, ...]
    nearest: tuple[Nearest, ...]


def conflicts(space: Space, solve: Solve) -> tuple[Conflict, ...]:
    """The conflicts of an infeasible case, found by deletion, until what is left complies.

    What one conflict names is relaxed before the next is looked for, so independent conflicts are
    all found. Raises SolverError where the engine finds the case feasible after all.
    """
    case = space.case
    fields = [r.field for r in REQUIREMENTS if asked(case, r.field) is not None]
    sets: list[Fields] = []
    relaxed = NOTHING
    while not _complies(case, relaxed):
        found = _minimal(case, [f for f in fields if f not in relaxed], relaxed)
        if not found:
            break
        sets.append(found)
        relaxed |= found
    if not sets:
        raise SolverError("the solver finds no design where the engine does: please report")
    return tuple(
        Conflict(
            tuple(field for field in fields if field in members),
            tuple(
                _nearest(case, requirement, relaxed - members, solve)
                for requirement in REQUIREMENTS
                if requirement.field in members
            ),
        )
        for members in sets
    )


def asked(case: Case, field: str) -> float | None:
    """The value of a requirement in a case, None where the case does not ask for it.

    For `hardware.gpus` it is the least memory of a GPU, GB.
    """
    if field == "hardware.gpus":
        return min(gb(gpu.capacity_bytes) for gpu in case.hardware.gpus)
    section, name = field.split(".")
    value = getattr(getattr(case, section), name)
    return None if value is None else float(value)


def with_value(case: Case, requirement: Requirement, value: float) -> Case:
    """The case with a requirement set to a value; `hardware.gpus` is the least memory of each."""
    if requirement.field == "hardware.gpus":
        return case.changed({"hardware.gpus": _with_memory(case, value)})
    return case.changed({requirement.field: int(value) if requirement.whole else value})


def _with_memory(case: Case, least_gb: float) -> list[dict[str, object]]:
    gpus = []
    for gpu in case.hardware.gpus:
        fields = gpu.model_dump(exclude_unset=True, exclude={"memory_bytes", "memory_gb"})
        gpus.append({**fields, "memory_gb": max(least_gb, gb(gpu.capacity_bytes))})
    return gpus


def _minimal(case: Case, fields: Iterable[str], relaxed: Fields) -> Fields:
    """Delete each requirement in turn if the rest still conflict; what stays is minimal."""
    kept = list(fields)
    for field in tuple(kept):
        deleted = relaxed | {field} | {f for f in fields if f not in kept}
        if not _complies(case, frozenset(deleted)):
            kept.remove(field)
    return frozenset(kept)


def _nearest(case: Case, requirement: Requirement, relaxed: Fields, solve: Solve) -> Nearest:
    now = asked(case, requirement.field)
    if now is None:
        raise ValueError(f"{requirement.field} is not asked for")

    def works(value: float) -> bool:
        return _complies(with_value(case, requirement, value), relaxed)

    look = least_that_works if requirement.upper else most_that_works
    value = look(works, now, requirement.furthest, requirement.whole)
    if value is not None:
        space = _relaxed(with_value(case, requirement, value), relaxed)
        if search(build(space), Run(solve)).status is Status.INFEASIBLE:
            raise SolverError(f"the solver rejects {requirement.field} = {value}: please report")
    if value is not None and requirement.whole:
        value = int(value)
    return Nearest(requirement.field, now, value)


def _relaxed(case: Case, fields: Fields) -> Space:
    """The space of a case without some of its requirements."""
    limits = {field: None for field in fields if field.startswith("limits.")}
    return configurations(case.changed(limits) if limits else case).relaxed(fields)


def _complies(case: Case, relaxed: Fields) -> bool:
    """Whether any configuration, at its largest batch, meets all that is not relaxed."""
    return bool(_relaxed(case, relaxed).compliant.any())
