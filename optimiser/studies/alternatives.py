"""Why the other GPU types lost: the case again with each of them alone."""

from dataclasses import dataclass

from optimiser.planning.explain import Conflict
from optimiser.planning.planner import Infeasible, Planned, plan


@dataclass(frozen=True, slots=True)
class Alternative:
    """A GPU type of the case that the plan does not use, and the best that it could do."""

    gpu: str
    planned: Planned | None
    """Its cheapest compliant design, where it has one."""
    usd_per_hour_above: float | None
    """How much dearer that is than the plan."""
    conflicts: tuple[Conflict, ...] = ()
    """Why it cannot comply, otherwise."""


def other_gpus(planned: Planned, solver_name: str = "cp-sat") -> tuple[Alternative, ...]:
    """Every other GPU type of the case, the cheapest first, those that cannot comply last."""
    chosen = planned.design.configuration.gpu.name
    found = []
    for gpu in planned.case.hardware.gpus:
        if gpu.name == chosen:
            continue
        alone = {"hardware.gpus": [gpu.model_dump(exclude_unset=True)]}
        outcome = plan(planned.case.changed(alone), solver_name=solver_name)
        if isinstance(outcome, Planned):
            best = planned.verdict.figures.usd_per_hour
            above = outcome.verdict.figures.usd_per_hour - best
            found.append(Alternative(gpu.name, outcome, above))
        elif isinstance(outcome, Infeasible):
            found.append(Alternative(gpu.name, None, None, outcome.conflicts))
    return tuple(sorted(found, key=_cheapest_first))


def _cheapest_first(alternative: Alternative) -> tuple[bool, float, str]:
    above = alternative.usd_per_hour_above
    return above is None, above or 0.0, alternative.gpu
