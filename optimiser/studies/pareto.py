"""The Pareto front of cost against the latency that is reached, from the loosest target inwards.

At each cost the tightest target that costs no more is found exactly: a target just under what the
last design reaches, or half way to what is known to cost more, until the one costs more. The next
design is the cheapest one under that target. Nothing is read off a grid of targets.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from optimiser.planning.verify import verify
from optimiser.studies.known import Known
from optimiser.studies.rows import Row
from optimiser.units import TOLERANCE

LOOSEST = {"brief.tpot_target_ms": 1e9, "brief.ttft_target_s": 1e6}
"""The targets that a front can be drawn over, with the loosest value of each."""
MOST_DESIGNS = 200
JUST_UNDER = 1 - 3 * TOLERANCE
"""A target that what was reached misses, boundary tolerance included."""
CLOSEST = 1 + 1e-6
"""Where demand itself depends on the target, its boundary is found this closely."""


@dataclass(frozen=True, slots=True)
class Reached:
    """The cheapest design under a target."""

    target: float
    nano_usd: float
    achieved: float
    """In the unit of the target."""


@dataclass(frozen=True, slots=True)
class Front:
    """Designs of which none is both cheaper and quicker than another, the cheapest first."""

    field: str
    targets: tuple[float, ...]
    rows: tuple[Row, ...]
    complete: bool
    """False where the front has more designs than are listed."""


def pareto(known: Known, field: str) -> Front:
    """The front over a target of the case. Raises SolverError where a plan disagrees."""
    front = _Front(known, field)
    found = front.look(LOOSEST[field])
    best: list[Reached] = []
    while found is not None and len(best) < MOST_DESIGNS:
        tightest = front.tighten(found)
        best.append(tightest)
        found = front.look(tightest.target * JUST_UNDER)
    kept = list(_undominated(best))
    for reached in kept:
        changes = {field: reached.target}
        known.confirm(changes, known.cheapest(changes).design)
    name = field.split(".")[-1]
    rows = [known.row(f"{name}={rounded_up(r.target)}", {field: r.target}) for r in kept]
    return Front(field, tuple(r.target for r in kept), tuple(rows), found is None)


def rounded_up(target: float) -> float:
    """A target to six significant digits, such that what meets the target meets it too."""
    rounded = float(f"{target:.6g}")
    return rounded if rounded >= target else float(f"{target * (1 + 1e-6):.6g}")


def _undominated(found: list[Reached]) -> Iterator[Reached]:
    """Those that no later one, which is quicker, equals in cost."""
    cheapest = math.inf
    kept = []
    for reached in reversed(found):
        if reached.nano_usd < cheapest:
            cheapest = reached.nano_usd
            kept.append(reached)
    yield from reversed(kept)


@dataclass(frozen=True, slots=True)
class _Front:
    known: Known
    field: str

    def look(self, target: float) -> Reached | None:
        """The cheapest design under a target, None where none complies."""
        found = self.known.cheapest({self.field: target})
        if found.design is None:
            return None
        figures = verify(found.space.case, found.design).figures
        is_ttft = self.field == "brief.ttft_target_s"
        achieved = figures.ttft_ms / 1000 if is_ttft else figures.tpot_ms
        return Reached(target, found.design.nano_usd_per_hour, min(achieved, target))

    def tighten(self, found: Reached) -> Reached:
        """The tightest target, and its design, that costs no more."""
        too_tight = 0.0
        while True:
            found = self._at_achieved(found)
            under = self.look(found.target * JUST_UNDER)
            if under is None or under.nano_usd > found.nano_usd:
                return found
            found = under
            if found.target <= too_tight * CLOSEST:
                return found
            middle = self._middle(too_tight, found.target)
            half_way = self.look(middle)
            if half_way is None or half_way.nano_usd > found.nano_usd:
                too_tight = middle
            else:
                found = half_way

    def _at_achieved(self, found: Reached) -> Reached:
        """The same at the target that it reaches, where that costs no more."""
        same = self.look(found.achieved)
        return found if same is None or same.nano_usd > found.nano_usd else same

    @staticmethod
    def _middle(low: float, high: float) -> float:
        return math.sqrt(low * high) if low > 0 else high / 2
