"""How far each input can move before the design changes, to three significant digits."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from optimiser.case import Case
from optimiser.errors import CaseError
from optimiser.planning.cheapest import Identity
from optimiser.planning.design import Design
from optimiser.planning.margin import slo_margin
from optimiser.planning.planner import Planned
from optimiser.studies.known import PRICE, Known, identity_of
from optimiser.studies.lattice import lattice
from optimiser.studies.rows import Changes

FURTHEST = 100
"""Inputs are moved up and down by at most this factor."""


@dataclass(frozen=True, slots=True)
class Way:
    """How far an input can move one way."""

    holds_to: float
    """The last three-digit value with the same design; the input's own where the next has not."""
    changes_at: float | None
    """The first with another; None where it never changes, within the factor and the field."""
    design: Design | None
    """The design there; None where nothing complies."""


@dataclass(frozen=True, slots=True)
class Slack:
    """How far one input can move before the design changes, batch aside."""

    field: str
    value: float
    down: Way
    up: Way


@dataclass(frozen=True, slots=True)
class _Input:
    field: str
    value: float
    whole: bool
    changes: Callable[[float], Changes]


def slack(known: Known, baseline: Planned) -> tuple[Slack, ...]:
    """The slack of every numeric input of a planned case. Raises SolverError, see `Known`."""
    found = []
    for one in _inputs(known.case, baseline.design):
        value = one.value
        steps = _steps(one)
        above = steps[bisect_right(steps, value) :]
        below = [step for step in reversed(steps) if step < value]
        ways = (_way(known, baseline.design, one, values) for values in (below, above))
        found.append(Slack(one.field, value, *ways))
    return tuple(found)


def _inputs(case: Case, design: Design) -> Iterator[_Input]:
    """Traffic, lengths, targets, the price of the GPU in use, efficiency, headroom, memory."""
    itemised = case.assumptions.memory == "itemised"
    memory = "memory_utilization" if itemised else "memory_reserve"
    pace = "efficiency" if case.assumptions.latency == "ideal" else "slo_margin"
    fields = [
        f"brief.{case.brief.traffic_field}",
        "brief.prompt_tokens",
        "brief.answer_tokens",
        "brief.ttft_target_s",
        "brief.tpot_target_ms",
        f"assumptions.{pace}",
        "assumptions.headroom",
        f"assumptions.{memory}",
    ]
    for field in fields:
        section, name = field.split(".")
        stated = getattr(getattr(case, section), name)
        value = slo_margin(case) if name == "slo_margin" else stated
        if value is not None:
            yield _Input(field, value, isinstance(value, int), _setting(field))
    gpu = design.configuration.gpu.name
    yield _Input(f"price of {gpu}", 1.0, False, lambda scale: {PRICE: (gpu, scale)})


def _steps(one: _Input) -> list[float]:
    """The values that an input is moved through, in rising order."""
    if one.value == 0:
        return lattice(0, 1)
    steps = lattice(one.value / FURTHEST, one.value * FURTHEST, one.whole)
    return [step for step in steps if step >= 1] if one.whole else steps


def _setting(field: str) -> Callable[[float], Changes]:
    return lambda value: {field: value}


def _way(known: Known, design: Design, one: _Input, values: list[float]) -> Way:
    """Double the step until the design changes, then halve back to where it does."""
    own = _whole(design)

    def same(step: int) -> bool:
        try:
            return _whole(known.cheapest(one.changes(values[step])).design) == own
        except CaseError:  # beyond what the field takes
            return False

    holds, step = -1, 1
    while holds + step < len(values) and same(holds + step):
        holds, step = holds + step, step * 2
    changed = min(holds + step, len(values))
    while changed - holds > 1:
        middle = (holds + changed) // 2
        if same(middle):
            holds = middle
        else:
            changed = middle
    if holds >= 0:
        confirmed = known.cheapest(one.changes(values[holds])).design
        known.confirm(one.changes(values[holds]), confirmed)
    holds_to = one.value if holds < 0 else values[holds]
    if changed == len(values):
        return Way(holds_to, None, None)
    try:
        other = known.cheapest(one.changes(values[changed])).design
    except CaseError:
        return Way(holds_to, None, None)
    known.confirm(one.changes(values[changed]), other)
    return Way(holds_to, values[changed], other)


def _whole(design: Design | None) -> tuple[Identity | None, int]:
    """What makes a design another: its configuration and replicas, not its batch."""
    return identity_of(design), design.replicas if design else 0
