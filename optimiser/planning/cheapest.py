"""The cheapest design as the engine alone sees it: no proof, but fast enough to search over values.

What a search finds this way is confirmed by the program before it is reported.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from optimiser.engine.replicas import Floats
from optimiser.planning.configurations import Space
from optimiser.planning.design import Configuration, Design
from optimiser.planning.order import change, name_order


class Identity(NamedTuple):
    """What makes one configuration another: everything but batch and replicas."""

    gpu: str
    tensor_parallel: int
    weights: str
    kv_cache: str
    kv_heads: int
    offer: str | None
    term: str


def identity(configuration: Configuration) -> Identity:
    """The identity of a configuration."""
    c, rental = configuration, configuration.rental
    offer = None if rental.offer is None else rental.offer.name
    return Identity(
        c.gpu.name, c.tensor_parallel, c.weights, c.kv_cache, c.kv_heads, offer, rental.term
    )


@dataclass(frozen=True)
class Cheapest:
    """Every configuration of a space at its largest batch, and the one that is preferred."""

    space: Space

    @cached_property
    def nano_usd(self) -> Floats:
        """Cost of each configuration for an hour; infinite where it does not comply."""
        replicas = self.space.fewest_replicas(self.space.largest_batch)
        return np.where(self.space.compliant, self.space.cost_nano_usd(replicas), np.inf)

    @cached_property
    def index(self) -> int | None:
        """The configuration that is preferred, None where none complies."""
        least = float(self.nano_usd.min())
        if least == np.inf:
            return None
        tied = np.flatnonzero(self.nano_usd == least)
        return int(tied[0]) if len(tied) == 1 else min(map(int, tied), key=self._preference)

    @cached_property
    def design(self) -> Design | None:
        """The preferred design."""
        return None if self.index is None else self._design(self.index)

    @cached_property
    def identities(self) -> tuple[Identity, ...]:
        """Identity of each configuration."""
        return tuple(map(identity, self.space.configurations))

    @cached_property
    def changes(self) -> list[tuple[float, float, float]]:
        """How far each configuration changes the model: what decides first at equal cost."""
        own = self.space.case.model.kv_heads
        return [change(c, own) for c in self.space.configurations]

    def _design(self, index: int) -> Design:
        batch = self.space.largest_batch
        replicas = self.space.fewest_replicas(batch)
        return Design(self.space.configurations[index], int(batch[index]), int(replicas[index]))

    def _preference(self, index: int) -> tuple[object, ...]:
        """The order of `planning.order`, for designs of equal cost."""
        design = self._design(index)
        chosen = design.configuration
        order = design.gpus, chosen.tensor_parallel, -design.batch, name_order(chosen)
        return self.changes[index], *order
