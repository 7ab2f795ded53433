"""A what-if: a changed case, its plan, and what it saves beside the baseline."""

from collections.abc import Mapping
from dataclasses import dataclass

from optimiser.case import Case
from optimiser.errors import CaseError
from optimiser.planning.planner import Infeasible, Planned, Undecided, plan
from optimiser.units import usd_per_month

Changes = Mapping[str, object]
"""Fields of a case by dotted path, and the values to set; None removes a field."""


@dataclass(frozen=True, slots=True)
class Row:
    """One what-if beside the baseline."""

    name: str
    outcome: Planned | Infeasible | Undecided | CaseError
    """Its plan, or why the changed case cannot be planned at all."""
    gpus_saved: int | None = None
    """GPUs paid for, fewer than the baseline's; negative where it takes more."""
    usd_saved_per_month: float | None = None

    @property
    def planned(self) -> Planned | None:
        """The plan, where there is one."""
        return self.outcome if isinstance(self.outcome, Planned) else None

    @property
    def status(self) -> str:
        """How the plan ended; `error` where the changed case is not a valid one."""
        return "error" if isinstance(self.outcome, CaseError) else self.outcome.status


def row(name: str, case: Case, changes: Changes, baseline: Planned | None, solver_name: str) -> Row:
    """Plan a case with changes, and compare it with the baseline."""
    try:
        outcome = plan(case.changed(changes), solver_name=solver_name)
    except CaseError as error:
        return Row(name, error)
    return beside(name, outcome, baseline)


def beside(name: str, outcome: Planned | Infeasible | Undecided, baseline: Planned | None) -> Row:
    """A plan as a row beside the baseline."""
    if baseline is None or not isinstance(outcome, Planned):
        return Row(name, outcome)
    saved = baseline.verdict.figures.usd_per_hour - outcome.verdict.figures.usd_per_hour
    gpus = baseline.design.rented_gpus - outcome.design.rented_gpus
    return Row(name, outcome, gpus, usd_per_month(saved))
