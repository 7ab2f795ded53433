"""The review of a sweep."""

from typing import Any

from optimiser.planning.cheapest import identity
from optimiser.planning.design import Design
from optimiser.planning.planner import Planned
from optimiser.review import data
from optimiser.review.chart import winner_text
from optimiser.review.numbers import count, plain, rounded, usd
from optimiser.review.review import Review, Table
from optimiser.review.rows import COLUMNS, cells, configuration_text, row_data
from optimiser.studies.crossover import Crossover
from optimiser.studies.pareto import Front, rounded_up
from optimiser.studies.slack import FURTHEST, Slack, Way
from optimiser.studies.sweep import Sweep, shown

NONE = "none complies"


def sweep_review(found: Sweep) -> Review:
    """The cost curve, where the winner changes, the front, and the slack."""
    tables = [*_curve(found), *_crossovers(found), *_front(found), *_slack(found)]
    planned = found.baseline.planned
    notes = []
    if found.front is not None and not found.front.complete:
        notes.append(f"the front goes on: only its {len(found.front.rows)} cheapest are listed")
    if found.slack is None and planned is None:
        notes.append("the case as it stands has no design, so no slack")
    if found.slack:
        notes.append(f"slack: each input alone, up and down by at most a factor of {FURTHEST}")
    return Review(
        title=_title(found),
        headline=_headline(found),
        good=planned is not None or any(point.row.planned for point in found.points),
        steps=(),
        tables=tuple(tables),
        closing=(),
        notes=tuple(notes),
        data={
            "baseline": row_data(found.baseline),
            "rows": [{**row_data(point.row), "at": point.at} for point in found.points],
            "crossovers": [_crossover_data(one) for one in found.crossovers],
            "pareto": [] if found.front is None else _front_data(found.front),
            "slack": [_slack_data(found, one) for one in found.slack or ()],
        },
    )


def _title(found: Sweep) -> str:
    baseline = found.baseline
    varied = ", ".join(axis.field for axis in found.axes)
    over = f" over {varied}" if varied else ""
    planned = baseline.planned
    as_is = NONE if planned is None else _short(planned)
    return f"{baseline.name}{over}; as it stands: {as_is}"


def _short(planned: Planned) -> str:
    design = planned.design
    text = f"{design.replicas:,} × {configuration_text(design.configuration)}"
    return f"{text}, {usd(planned.verdict.figures.usd_per_hour)}/h"


def _headline(found: Sweep) -> str:
    parts = []
    if found.points:
        plans = [point.row.planned for point in found.points]
        costs = [planned.verdict.figures.usd_per_hour for planned in plans if planned]
        parts.append(count(len(found.points), "point"))
        parts.append(f"{usd(min(costs))}/h to {usd(max(costs))}/h" if costs else NONE)
        n_without = sum(planned is None for planned in plans)
        if costs and n_without:
            parts.append(f"no design at {n_without:,} of them")
        winners = {identity(planned.design.configuration) for planned in plans if planned}
        parts.append(count(len(winners), "winner"))
        parts.append(count(len(found.crossovers), "crossover"))
    if found.front is not None:
        parts.append(f"Pareto front of {count(len(found.front.rows), 'design')}")
    return " · ".join(parts) or "slack"


def _curve(found: Sweep) -> list[Table]:
    if not found.points:
        return []
    fields = [axis.field for axis in found.axes]
    rows = tuple(
        (
            *(_value(point.at[field]) for field in fields),
            *cells(point.row, found.baseline.planned),
        )
        for point in found.points
    )
    words = [i for i, axis in enumerate(found.axes) if not axis.numbers]
    at = len(fields)
    text = (*words, at, at + len(COLUMNS) - 1)
    return [Table("Cost curve", (*fields, *COLUMNS), rows, text=text)]


def _crossovers(found: Sweep) -> list[Table]:
    line = found.line
    if line is None or not found.crossovers:
        return []
    others = [axis.field for axis in found.axes if axis is not line]
    rows = tuple(
        (
            *(_value(one.others[field]) for field in others),
            _value(one.last_before),
            _value(one.value),
            *_both(one),
        )
        for one in found.crossovers
    )
    at = len(others)
    columns = (*others, "up to", "wins", "from", "wins")
    swapped = tuple((*row[: at + 1], row[at + 2], row[at + 1], row[at + 3]) for row in rows)
    title = f"Crossovers along {line.field}"
    return [Table(title, columns, swapped, text=(*range(at), at + 1, at + 3))]


def _both(one: Crossover) -> tuple[str, str]:
    """Both winners; with their offers where nothing else tells them apart."""
    sides = [None if p is None else p.design.configuration for p in (one.before, one.after)]
    texts = [NONE if side is None else configuration_text(side) for side in sides]
    if texts[0] == texts[1]:
        texts = [NONE if side is None else winner_text(side) for side in sides]
    return texts[0], texts[1]


def _front(found: Sweep) -> list[Table]:
    front = found.front
    if front is None or not front.rows:
        return []
    rows = tuple(
        (rounded(rounded_up(target), 6), *cells(row, found.baseline.planned))
        for target, row in zip(front.targets, front.rows, strict=True)
    )
    title = f"Pareto front of cost against {_reached(front)}"
    return [Table(title, (front.field, *COLUMNS), rows, text=(1, len(COLUMNS)))]


def _reached(front: Front) -> str:
    return "TTFT" if front.field == "brief.ttft_target_s" else "TPOT"


def _slack(found: Sweep) -> list[Table]:
    if not found.slack:
        return []
    rows = tuple(
        (
            one.field,
            "× 1" if one.field.startswith("price") else _value(one.value),
            *_way(one, one.down),
            *_way(one, one.up),
        )
        for one in found.slack
    )
    columns = ("input", "now", "down to", "then", "up to", "then")
    return [Table("Slack: the design stays", columns, rows, text=(0, 3, 5))]


def _way(one: Slack, way: Way) -> tuple[str, str]:
    if way.changes_at is None:
        return ("at its limit" if way.holds_to == one.value else "never changes"), ""
    then = NONE
    if way.design is not None:
        then = f"{way.design.replicas:,} × {configuration_text(way.design.configuration)}"
    sign = "× " if one.field.startswith("price") else ""
    return f"{sign}{_value(way.holds_to)}", then


def _value(value: object) -> str:
    if isinstance(value, float):
        return rounded(value, 6)
    return plain(value) if isinstance(value, int) and not isinstance(value, bool) else shown(value)


def _crossover_data(one: Crossover) -> dict[str, Any]:
    return {
        "field": one.field,
        "at": one.others,
        "last_before": one.last_before,
        "value": one.value,
        "before": _identity(one.before),
        "after": _identity(one.after),
    }


def _identity(planned: Planned | None) -> dict[str, Any] | None:
    return None if planned is None else identity(planned.design.configuration)._asdict()


def _front_data(front: Front) -> list[dict[str, Any]]:
    return [
        {**row_data(row), "at": {front.field: target}}
        for target, row in zip(front.targets, front.rows, strict=True)
    ]


def _slack_data(found: Sweep, one: Slack) -> dict[str, Any]:
    return {
        "field": one.field,
        "value": one.value,
        "down": _way_data(found, one.down),
        "up": _way_data(found, one.up),
    }


def _way_data(found: Sweep, way: Way) -> dict[str, Any]:
    design: Design | None = way.design
    planned = found.baseline.planned
    shown_design = data.design(planned.case, design) if planned and design else None
    return {"holds_to": way.holds_to, "changes_at": way.changes_at, "design": shown_design}
