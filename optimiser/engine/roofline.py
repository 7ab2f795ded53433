"""How long a pass takes (steps 3 and 4 of the page): the slower of arithmetic and memory reads."""

import numpy as np

from optimiser.engine.replicas import Floats, Ints, Lengths, Replicas


def prefill_s(replicas: Replicas, lengths: Lengths) -> Floats:
    """Time to put one prompt through, s, shape (n_configurations,).

    max(FLOPs / rate, weight bytes / bandwidth). Source: seed step 3.
    """
    compute_s = replicas.flops_per_token * lengths.prompt / replicas.flops_per_s
    read_s = replicas.weight_bytes / replicas.bytes_per_s
    return np.maximum(compute_s, read_s)


def decode_step_s(replicas: Replicas, lengths: Lengths, batch: Ints) -> Floats:
    """Time for one more token of every sequence in the batch, s.

    max(FLOPs / rate, (weights + batch * context * KV bytes per token) / bandwidth).
    Shape: `batch` broadcast against (n_configurations,). Source: seed step 4.
    """
    compute_s = replicas.flops_per_token * batch / replicas.flops_per_s
    kv_read = batch * lengths.decode_context * replicas.kv_bytes_per_token
    return np.maximum(compute_s, (replicas.weight_bytes + kv_read) / replicas.bytes_per_s)
