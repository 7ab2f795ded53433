"""Whether a fleet serves a case with some of its requirements changed."""

import time
from dataclasses import dataclass

from optimiser.errors import SolverError
from optimiser.planning.fleet.feasible import feasible
from optimiser.planning.fleet.requirements import Changed, Changes

QUESTION_S = 5.0
"""Most seconds of one question."""


@dataclass(slots=True)
class Questions:
    """Asks whether a fleet serves the case with some requirements changed."""

    changed: Changed
    deadline: float
    """On `time.perf_counter`."""
    n_open: int = 0
    """Questions that could not be answered."""

    @property
    def left_s(self) -> float:
        """Seconds of the next question."""
        return min(QUESTION_S, self.deadline - time.perf_counter())

    def works(self, changes: Changes) -> bool | None:
        """Whether it does; None where that could not be told."""
        if self.left_s <= 0:
            told = None
        else:
            fleet, budget = self.changed.fleet(changes)
            try:
                told = feasible(fleet, budget, self.left_s).works
            except SolverError:
                told = None  # that nothing complies is proved all the same
        self.n_open += told is None
        return told
