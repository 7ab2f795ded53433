"""Where the winning configuration changes along a number, to three significant digits.

Between two values the engine is asked again at the middle until the change stands between two
neighbouring three-digit values. A stretch with the same winner at both ends is left out only where
no other configuration can win inside: the cost of each moves one way along the field, so inside the
stretch it lies between its costs at the ends. Every crossover is planned on both sides.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from optimiser.errors import CaseError
from optimiser.planning.cheapest import Cheapest, Identity
from optimiser.planning.planner import Planned
from optimiser.studies.axis import Axis
from optimiser.studies.known import Known, identity_of
from optimiser.studies.lattice import lattice
from optimiser.studies.rows import Changes

ONE_WAY = (
    "brief.requests_per_s",
    "brief.concurrent_users",
    "brief.prompt_tokens",
    "brief.answer_tokens",
    "brief.ttft_target_s",
    "brief.tpot_target_ms",
    "hardware.usd_per_gpu_hour",
    "levers.batch.most",
    "assumptions.efficiency",
    "assumptions.headroom",
    "assumptions.memory_reserve",
    "assumptions.memory_utilization",
    "assumptions.max_num_batched_tokens",
    "assumptions.prefix_cached_frac",
    "limits.most_gpus",
    "limits.usd_per_hour",
    "limits.least_replicas",
)
"""Fields along which the cost of a configuration only rises or only falls."""
MIXED_FOR_USERS = ("brief.answer_tokens",)
"""Not so where users set the rate: longer answers are more work of fewer requests."""


@dataclass(frozen=True, slots=True)
class Crossover:
    """A change of the winning configuration along a field."""

    field: str
    others: dict[str, Any]
    """Values of the other fields that are varied."""
    last_before: float
    """The last three-digit value at which the one before wins."""
    value: float
    """The first at which the one after does."""
    before: Planned | None
    """None where nothing complies."""
    after: Planned | None


def crossovers(known: Known, axis: Axis, others: dict[str, Any]) -> list[Crossover]:
    """Every change of the winner along an axis of numbers, the other fields at the values given."""
    numbers = axis.numbers
    if len(numbers) < 2:
        return []
    found = []
    line = _Line(known, axis, others, lattice(numbers[0], numbers[-1], axis.whole))
    for i, j in line.changes(sorted({line.place(number) for number in numbers})):
        sides = []
        for place in (i, j):
            changes = line.at(place)
            winner = line.cheapest(place)
            known.confirm(changes, winner.design if winner else None)
            outcome = known.outcome(changes)
            sides.append(outcome if isinstance(outcome, Planned) else None)
        before, after = sides
        values = line.values
        found.append(Crossover(axis.field, others, values[i], values[j], before, after))
    return found


@dataclass(frozen=True, slots=True)
class _Line:
    """The three-digit values of one field, all else fixed."""

    known: Known
    axis: Axis
    others: dict[str, Any]
    values: list[float]

    def place(self, value: float) -> int:
        return bisect_left(self.values, value)

    def at(self, place: int) -> Changes:
        return self.known.at({**self.others, self.axis.field: self.values[place]})

    def cheapest(self, place: int) -> Cheapest | None:
        try:
            return self.known.cheapest(self.at(place))
        except CaseError:
            return None

    def changes(self, knots: list[int]) -> Iterator[tuple[int, int]]:
        """Neighbouring places with different winners, in order, between the outermost knots."""
        waiting = list(pairwise(knots))[::-1]
        while waiting:
            low, high = waiting.pop()
            differ = self._winner(low) != self._winner(high)
            if not differ and self._settled(low, high):
                continue
            if high - low > 1:
                middle = (low + high) // 2
                waiting += [(middle, high), (low, middle)]
            elif differ:
                yield low, high

    def _winner(self, place: int) -> Identity | None:
        found = self.cheapest(place)
        return identity_of(found.design) if found else None

    def _settled(self, low: int, high: int) -> bool:
        """Whether the winner at both ends surely wins between them too."""
        first, last = self.cheapest(low), self.cheapest(high)
        users = self.known.case.brief.concurrent_users is not None
        if self.axis.field not in ONE_WAY or (users and self.axis.field in MIXED_FOR_USERS):
            return True
        if first is None or last is None or first.identities != last.identities:
            return True
        least = np.minimum(first.nano_usd, last.nano_usd)
        winner = first.index
        if winner is None:
            return bool(np.isinf(least).all())
        most = max(first.nano_usd[winner], last.nano_usd[winner])
        own = first.changes[winner]
        ahead = np.array([change <= own for change in first.changes])
        rivals = (least < most) | ((least == most) & ahead)
        rivals[winner] = False
        return not rivals.any()
