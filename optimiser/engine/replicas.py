"""The engine's input: what each configuration holds, reads and computes, as columns."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Replicas:
    """One row a configuration; every column has shape (n_configurations,) and is per GPU."""

    usable_bytes: Floats
    """Memory that weights, cache and working space may take."""
    fixed_bytes: Floats
    """What is held whatever the batch: weights, and in the itemised memory model the working space
    of a forward pass."""
    kv_held_bytes: Floats
    """Cache of one sequence at its full length."""
    sampler_fixed_bytes: Floats
    """As `fixed_bytes`, while tokens are sampled instead of computed."""
    sampler_bytes: Floats
    """Working space of the sampler for each sequence."""
    read_bytes: Floats
    """Weights read in every pass, routed experts left out."""
    expert_bytes: Floats
    """Weights of all routed experts; 0 for a dense model."""
    expert_missed_frac: Floats
    """Share of the experts that a single token leaves unread."""
    kv_read_bytes: Floats
    """Cache of one sequence that a decode step reads, at the mean context."""
    decode_flops: Floats
    """Arithmetic of one more token of one sequence, at the mean context, FLOP."""
    prefill_flops: Floats
    """Arithmetic of one prompt, FLOP."""
    bytes_per_s: Floats
    """Memory bandwidth that is reached, bytes/s."""
    flops_per_s: Floats
    """Arithmetic rate that is reached, FLOP/s."""

    def __len__(self) -> int:
        return len(self.usable_bytes)

    def rows(self, index: Ints) -> "Replicas":
        """The same columns for some of the configurations."""
        return Replicas(
            **{column.name: getattr(self, column.name)[index] for column in fields(self)}
        )


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of a request."""

    prompt: int
    answer: int

    @property
    def full_context(self) -> int:
        """Tokens that a finished request has cached: what memory must hold."""
        return self.prompt + self.answer

    @property
    def decode_context(self) -> float:
        """Tokens that a decode step reads on average: the prompt and half of the answer."""
        return self.prompt + self.answer / 2
