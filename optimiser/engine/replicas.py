"""The engine's input: what each configuration holds, reads and computes, as columns."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Replicas:
    """One row a configuration; every column has shape (n_configurations,) and is per GPU."""

    weight_bytes: Floats
    """Weights that one GPU holds and reads in each pass, bytes."""
    kv_bytes_per_token: Floats
    """KV cache that one GPU keeps for each token of each sequence, bytes."""
    usable_bytes: Floats
    """Memory left for weights and cache, bytes."""
    bytes_per_s: Floats
    """Memory bandwidth that is reached, bytes/s."""
    flops_per_token: Floats
    """Arithmetic of one token on one GPU, FLOP."""
    flops_per_s: Floats
    """Arithmetic rate that is reached, FLOP/s."""

    def __len__(self) -> int:
        return len(self.weight_bytes)

    def rows(self, index: Ints) -> "Replicas":
        """The same columns for some of the configurations."""
        return Replicas(
            self.weight_bytes[index],
            self.kv_bytes_per_token[index],
            self.usable_bytes[index],
            self.bytes_per_s[index],
            self.flops_per_token[index],
            self.flops_per_s[index],
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
