"""What a review says of a fleet's conflicts."""

from collections.abc import Iterator, Sequence

from optimiser.fleet_case import FleetCase
from optimiser.planning.fleet.conflict import FleetConflict, FleetNearest
from optimiser.review.numbers import per_cent, plain
from optimiser.review.plan_tables import conflicting
from optimiser.review.review import Table


def conflict_tables(case: FleetCase, conflicts: Sequence[FleetConflict]) -> tuple[Table, ...]:
    """A table for each conflict."""
    return tuple(
        Table(
            f"{_title(i, len(conflicts))}: {_outcome(conflict)}",
            ("requirement", "asked", "works at", "in"),
            tuple(_row(case, one) for one in conflict.nearest),
            text=(0, 3),
        )
        for i, conflict in enumerate(conflicts)
    )


def _title(i: int, total: int) -> str:
    return "Conflict" if total == 1 else f"Conflict {i + 1} of {total}"


def _outcome(conflict: FleetConflict) -> str:
    helping = sum(one.works_at is not None for one in conflict.nearest)
    if len(conflict.nearest) == 1:
        return "cannot be met"
    if helping == len(conflict.nearest):
        return "cannot all be met; changing one is enough"
    enough = "; changing one that has a value is enough" if helping else ""
    return f"cannot all be met{enough}"


def _row(case: FleetCase, one: FleetNearest) -> tuple[str, ...]:
    if one.works_at is None:
        works_at = "no value helps" if one.is_proved else "none found"
    else:
        works_at = plain(one.works_at) + ("" if one.is_proved else " (or nearer)")
    field, asked = conflicting(one.requirement, one.asked, case.hardware.gpus)
    name = f"{field}, {one.workload}" if one.workload else field
    return (name, asked, works_at, case.where(one.requirement))


def conflict_lines(conflicts: Sequence[FleetConflict]) -> tuple[str, ...]:
    """What holds of the conflicts as a whole."""
    return tuple(_lines(conflicts))


def _lines(conflicts: Sequence[FleetConflict]) -> Iterator[str]:
    for i, one in enumerate(conflicts):
        of = "" if len(conflicts) == 1 else f"conflict {i + 1}: "
        if one.all_traffic_frac is not None:
            share = per_cent(one.all_traffic_frac)
            yield f"{of}{share} of the traffic of all classes together can be served"
        if not one.is_minimal:
            yield f"{of}not proved minimal: the time was too short to leave some of these out"
    if len(conflicts) > 1:
        yield "each conflict is told with the others lifted; plan again once one is mended"
