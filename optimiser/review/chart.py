"""What a plot of a sweep shows, before it is drawn: panels of marks, in the users' units."""

from dataclasses import dataclass
from typing import Any

from optimiser.planning.design import Configuration
from optimiser.planning.planner import Planned
from optimiser.review.rows import configuration_text
from optimiser.studies.axis import Axis
from optimiser.studies.sweep import Sweep, shown

LABELS = {
    "brief.requests_per_s": "requests/s",
    "brief.concurrent_users": "concurrent users",
    "brief.prompt_tokens": "prompt, tokens",
    "brief.answer_tokens": "answer, tokens",
    "brief.ttft_target_s": "TTFT target, s",
    "brief.tpot_target_ms": "TPOT target, ms",
    "hardware.usd_per_gpu_hour": "price of a GPU, $/h",
    "levers.batch.most": "largest batch allowed, sequences",
    "assumptions.efficiency": "efficiency, share of the ideal roofline",
    "assumptions.headroom": "headroom, × demand",
    "assumptions.memory_reserve": "memory held back, share",
    "assumptions.memory_utilization": "memory budgeted, share",
    "assumptions.max_num_batched_tokens": "most tokens in one step",
    "assumptions.prefix_cached_frac": "prompt tokens found in the prefix cache, share",
    "limits.most_gpus": "most GPUs",
    "limits.usd_per_hour": "budget, $/h",
    "limits.least_replicas": "fewest replicas",
}
WIDE = 20
"""Numbers whose ends differ by this factor are drawn on a log scale."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One plan."""

    x: float
    """Its number; its place among the names where the panel has names."""
    y: float | None
    """None where there is no design."""
    winner: str
    line: str
    """What the other varied fields are at."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes."""

    x_label: str
    y_label: str
    log_x: bool
    log_y: bool
    marks: tuple[Mark, ...]
    crossovers: tuple[float, ...] = ()
    names: tuple[str, ...] = ()
    """What stands along x where it is not numbers."""
    stepped: bool = False
    """Whether what holds at a mark holds up to the next."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A title and panels below each other."""

    title: str
    panels: tuple[Panel, ...]


def chart(found: Sweep) -> Chart:
    """The cost curve, in dollars a month and for each million answer tokens, and the front."""
    panels = []
    if found.axes:
        line = found.line or found.axes[0]
        monthly = [(at, _monthly(planned), planned) for at, planned in _plans(found)]
        tokens = [(at, _per_million(planned), planned) for at, planned in _plans(found)]
        panels.append(_curve(found, line, "$ a month", monthly))
        panels.append(_curve(found, line, "$ per 1M answer tokens", tokens))
    if found.front is not None and found.front.rows:
        panels.append(_front(found))
    return Chart(_title(found), tuple(panels))


def winner_text(configuration: Configuration) -> str:
    """A winning configuration, with the offer where it is rented."""
    offer = configuration.rental.offer
    rented = "" if offer is None else f", {offer.instance}"
    spot = " spot" if configuration.rental.term == "spot" else ""
    return f"{configuration_text(configuration)}{rented}{spot}"


def _title(found: Sweep) -> str:
    varied = " and ".join(axis.field for axis in found.axes)
    case = found.baseline.name
    return f"{case}: cheapest design over {varied}" if varied else f"{case}: Pareto front"


def _plans(found: Sweep) -> list[tuple[dict[str, Any], Planned | None]]:
    return [(point.at, point.row.planned) for point in found.points]


def _monthly(planned: Planned | None) -> float | None:
    return None if planned is None else planned.verdict.figures.usd_per_month


def _per_million(planned: Planned | None) -> float | None:
    return None if planned is None else planned.verdict.figures.usd_per_million_answer_tokens


def _curve(
    found: Sweep,
    line: Axis,
    y_label: str,
    points: list[tuple[dict[str, Any], float | None, Planned | None]],
) -> Panel:
    numeric = len(line.numbers) > 1
    names = () if numeric else tuple(map(shown, line.values))
    marks = []
    for at, y, planned in points:
        others = {field: value for field, value in at.items() if field != line.field}
        text = ", ".join(f"{f.split('.')[-1]}={shown(v)}" for f, v in others.items())
        value = at[line.field]
        x = float(value) if numeric else float(names.index(shown(value)))
        marks.append(Mark(x, y, _winner(planned), text))
    return Panel(
        x_label=LABELS.get(line.field, line.field),
        y_label=y_label,
        log_x=line.spacing == "log" or (line.spacing is None and _is_wide(line.numbers)),
        log_y=_is_wide([mark.y for mark in marks if mark.y is not None]),
        marks=tuple(sorted(marks, key=lambda mark: mark.x)),
        crossovers=tuple(one.value for one in found.crossovers if len(found.axes) == 1),
        names=names,
    )


def _front(found: Sweep) -> Panel:
    marks = []
    front = found.front
    is_ttft = front is not None and front.field == "brief.ttft_target_s"
    for row in front.rows if front else ():
        if row.planned is not None:
            figures = row.planned.verdict.figures
            x = figures.ttft_ms if is_ttft else figures.tpot_ms
            marks.append(Mark(x, figures.usd_per_month, _winner(row.planned), "Pareto front"))
    return Panel(
        x_label="TTFT reached, ms" if is_ttft else "TPOT reached, ms",
        y_label="$ a month",
        log_x=_is_wide([mark.x for mark in marks]),
        log_y=_is_wide([mark.y for mark in marks if mark.y is not None]),
        marks=tuple(marks[::-1]),
        stepped=True,
    )


def _winner(planned: Planned | None) -> str:
    return "no design" if planned is None else winner_text(planned.design.configuration)


def _is_wide(values: Any) -> bool:
    numbers = list(values)
    return bool(numbers) and min(numbers) > 0 and max(numbers) >= WIDE * min(numbers)
