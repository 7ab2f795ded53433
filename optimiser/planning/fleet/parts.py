"""A class whose requests differ in length: what each kind takes, and all of them together.

A pool's needs are linear in the rates, so that a histogram is a mix of its rows at fixed shares:

    occupied  Σ share · seconds held / slots     of a replica for each request of the class
    slots     Σ share · seconds held / occupied  as the rows are met in flight

One row is the class of means.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimiser.engine.latency_parts import LatencyColumns
from optimiser.engine.replicas import Floats, Lengths, Replicas
from optimiser.planning.fleet.pools import Bools
from optimiser.units import TOLERANCE

MEMORY = (1, 2)
"""Places of memory and sampling among the resources, of either fidelity."""


@dataclass(frozen=True, slots=True)
class Part:
    """Requests of one length in a class, and their figures on each configuration."""

    share: float
    """Of the requests of the class."""
    lengths: Lengths
    replicas: Replicas
    latency: LatencyColumns | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """What one part takes of each pool; shapes (n_pools,) and (n_pools, n_resources)."""

    first_s: Floats
    """Time to first token."""
    prompt_s: Floats
    """Of a replica, for its prompt."""
    held_s: Floats
    """How long a request is one of the sequences of a step."""
    slots: Floats
    """Sequences that a replica runs if it runs no others, by each resource."""


@dataclass(frozen=True, slots=True)
class ClassTaken:
    """The same for a whole class, a request on average."""

    first_s: Floats
    prompt_s: Floats
    occupied_s: Floats
    slots: Floats
    fits: Bools
    """Whether a request of any length fits in memory, and a batch of one is within reach."""


def together(parts: Sequence[tuple[float, Taken]]) -> ClassTaken:
    """The parts of a class by their shares."""
    fits = np.all([(taken.slots > 0).all(axis=1) for _, taken in parts], axis=0)
    slots = [np.where(fits[:, None], taken.slots, 1.0) for _, taken in parts]
    occupied_s = sum(
        share * (taken.held_s[:, None] / each)
        for (share, taken), each in zip(parts, slots, strict=True)
    )
    held_s = sum(share * taken.held_s for share, taken in parts)
    mean = np.asarray(held_s)[:, None] / np.maximum(occupied_s, 1e-300)
    for each in slots:
        fits &= (each[:, MEMORY] >= 1 - TOLERANCE).all(axis=1)
    fits &= (mean >= 1 - TOLERANCE).all(axis=1)
    return ClassTaken(
        np.asarray(sum(share * taken.first_s for share, taken in parts)),
        np.asarray(sum(share * taken.prompt_s for share, taken in parts)),
        np.asarray(occupied_s),
        np.where(fits[:, None], mean, 1.0),
        np.asarray(fits),
    )
