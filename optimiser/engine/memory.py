"""What fits (step 2 of the page): weights once, a KV cache for each sequence."""

import numpy as np

from optimiser.engine.replicas import Floats, Ints, Lengths, Replicas
from optimiser.units import TOLERANCE


def weight_bytes(params: float, bytes_per_number: Floats, tensor_parallel: Ints) -> Floats:
    """Weights on one GPU, bytes: params * bytes per parameter / tensor parallel."""
    return params * bytes_per_number / tensor_parallel


def kv_bytes_per_token(
    layers: int, kv_heads: Ints, head_dim: int, bytes_per_number: Floats, tensor_parallel: Ints
) -> Floats:
    """KV cache on one GPU for each token, bytes.

    2 (key and value) * layers * KV heads * head_dim * bytes per number, shared among the GPUs as
    far as there are KV heads to share. Source: seed step 2.
    """
    shards = np.minimum(tensor_parallel, kv_heads)
    return 2 * layers * kv_heads * head_dim * bytes_per_number / shards


def largest_batch(replicas: Replicas, lengths: Lengths, most: int) -> Ints:
    """Most sequences that fit beside the weights, shape (n_configurations,), 0 to `most`.

    weights + batch * full context * KV bytes per token <= usable memory, boundary included.
    """
    per_sequence = replicas.kv_bytes_per_token * lengths.full_context
    spare = replicas.usable_bytes * (1 + TOLERANCE) - replicas.weight_bytes
    fits = np.floor(spare / per_sequence)
    return np.clip(fits, 0, most).astype(np.int64)
