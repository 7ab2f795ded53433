"""What a pool carries, and where it settles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from optimiser.case import Case
from optimiser.planning.scalar import Replica


@dataclass(frozen=True, slots=True)
class Routed:
    """What one pool is to carry of one class."""

    case: Case
    """The class alone."""
    requests_per_s: float
    rows: tuple[tuple[Case, float], ...] = ()
    """Cases of the lengths of its histogram with their shares; the class itself where none."""

    @property
    def parts(self) -> list[tuple[Case, float]]:
        """Requests per second of each length."""
        return [(case, share * self.requests_per_s) for case, share in self.lengths]

    @property
    def lengths(self) -> tuple[tuple[Case, float], ...]:
        """Each length with its share of the requests."""
        return self.rows or ((self.case, 1.0),)

    def mean(self, of: Callable[[Case], float]) -> float:
        """The mean of something over the requests."""
        return sum(share * of(case) for case, share in self.lengths)


@dataclass(frozen=True, slots=True)
class Mix:
    """Where a pool settles."""

    step_s: float
    """A decode step; inf where its replicas cannot keep up."""
    tpot_s: float
    """Time per token that is felt."""
    sequences: float
    """On one replica, on average."""
    memory_frac: float
    """Of what may be used."""
    prefill_s: dict[str, float]
    """One prompt alone of each class, by its name."""
    ttft_s: dict[str, float]
    """Time to first token of each class."""
    prefill_frac: float
    """Share of the time that prefills take."""


def overwhelmed(prefill_s: dict[str, float], prefill_frac: float) -> Mix:
    """What replicas come to that cannot keep up."""
    never = float("inf")
    late = dict.fromkeys(prefill_s, never)
    return Mix(never, never, never, never, prefill_s, late, prefill_frac)


def memory_frac_of(counts: Sequence[tuple[Replica, float]]) -> float:
    """Memory that so many sequences of each class take of what may be used."""
    first, total = counts[0][0], sum(count for _, count in counts)
    held = first.weight_bytes + sum(count * part.kv_held_bytes for part, count in counts)
    sampling = first.sampling_bytes + total * first.sampler_bytes_per_sequence
    return (held + max(first.working_bytes, sampling)) / first.usable_bytes
