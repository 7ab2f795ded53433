"""What is known of a case's changes: each planned once, each looked at by the engine once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optimiser.case import Case
from optimiser.errors import CaseError, SolverError
from optimiser.planning.cheapest import Cheapest, Identity, identity
from optimiser.planning.configurations import configurations
from optimiser.planning.design import Design
from optimiser.planning.planner import Infeasible, Planned, Undecided, plan
from optimiser.studies.compare import gpu_change, model_change
from optimiser.studies.rows import Changes, Row, beside

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

TRAFFIC = ("brief.requests_per_s", "brief.concurrent_users")
OF_OTHER_MEMORY = {
    "reserve": ("assumptions.memory_utilization", "assumptions.max_num_batched_tokens"),
    "itemised": ("assumptions.memory_reserve",),
}
MOST_LOOKS_KEPT = 5_000

PRICE = "price_scale"
"""In place of a field: scales the price of a GPU type, given as (name, scale)."""


@dataclass
class Known:
    """A case, and the plans of its changes so far."""

    case: Case
    solver_name: str = "cp-sat"
    _outcomes: dict[str, Planned | Infeasible | Undecided | CaseError] = field(default_factory=dict)
    _cheapest: dict[str, Cheapest] = field(default_factory=dict)

    def changed(self, changes: Changes) -> Case:
        """The case with changes. Raises CaseError."""
        fields = dict(changes)
        price = fields.pop(PRICE, None)
        case = self.case.changed(fields) if fields else self.case
        return case.repriced(*price) if isinstance(price, tuple) else case

    def outcome(self, changes: Changes) -> Planned | Infeasible | Undecided | CaseError:
        """The plan of the case with changes; the error where they make no valid case."""
        key = repr(sorted(changes.items()))
        if key not in self._outcomes:
            try:
                found = plan(self.changed(changes), solver_name=self.solver_name)
            except CaseError as error:
                self._outcomes[key] = error
            else:
                self._outcomes[key] = found
        return self._outcomes[key]

    def baseline(self) -> Row:
        """The case as it stands."""
        found = self.outcome({})
        if isinstance(found, CaseError):
            raise found
        return beside(self.case.name, found, found if isinstance(found, Planned) else None)

    def row(self, name: str, changes: Changes) -> Row:
        """The plan of the case with changes, beside the baseline."""
        found = self.outcome(changes)
        if isinstance(found, CaseError):
            return Row(name, found)
        return beside(name, found, self.baseline().planned)

    def cheapest(self, changes: Changes) -> Cheapest:
        """What the engine says of the case with changes. Raises CaseError."""
        key = repr(sorted(changes.items()))
        if key not in self._cheapest:
            if len(self._cheapest) >= MOST_LOOKS_KEPT:
                self._cheapest.clear()
            self._cheapest[key] = Cheapest(configurations(self.changed(changes)))
        return self._cheapest[key]

    def at(self, point: Mapping[str, Any]) -> Changes:
        """The changes that set the case's fields to the values of a point.

        A GPU type or a model given by name brings what `compare` gives it: a price that the case
        states holds only for the GPUs it names, and KV heads that are the model's own follow the
        model. Traffic in one unit replaces traffic in the other, and a way of counting memory the
        fields of the other way. What the point itself says wins.
        """
        changes: dict[str, object] = {}
        for name, value in point.items():
            if name == "hardware.gpus" and isinstance(value, str | list):
                changes |= self._gpus([value] if isinstance(value, str) else value)
            elif name == "model" and isinstance(value, str):
                changes |= model_change(self.case, value)
            elif name in TRAFFIC and value is not None:
                changes |= dict.fromkeys(TRAFFIC)
            elif name == "assumptions.memory":
                changes |= dict.fromkeys(OF_OTHER_MEMORY.get(str(value), ()))
        return {
            **changes,
            **{
                k: v
                for k, v in point.items()
                if k not in ("hardware.gpus", "model") or k not in changes
            },
        }

    def _gpus(self, names: Sequence[object]) -> dict[str, object]:
        changes: dict[str, object] = {"hardware.gpus": []}
        for name in names:
            one = (
                gpu_change(self.case, name) if isinstance(name, str) else {"hardware.gpus": [name]}
            )
            both = [*_list(changes["hardware.gpus"]), *_list(one["hardware.gpus"])]
            changes |= {**one, "hardware.gpus": both}
        return changes

    def confirm(self, changes: Changes, expected: Design | None) -> None:
        """Plan a change whose design the engine gave. Raises SolverError where it is another."""
        found = self.outcome(changes)
        design = found.design if isinstance(found, Planned) else None
        if isinstance(found, Undecided) or _rented(design) != _rented(expected):
            raise SolverError(
                f"the plan of {dict(changes)} is not what the engine found: "
                f"{design} for {expected}; please report this case"
            )


def _rented(design: Design | None) -> tuple[Identity | None, int]:
    return identity_of(design), design.units if design else 0


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def identity_of(design: Design | None) -> Identity | None:
    """The identity of a design's configuration."""
    return None if design is None else identity(design.configuration)
