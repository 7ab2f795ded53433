"""What fits (step 2 of the page): weights once, a KV cache for each sequence."""

import math

import numpy as np

from optimiser.catalogue.formats import Format
from optimiser.catalogue.llm import Llm
from optimiser.engine.replicas import Ints, Replicas
from optimiser.units import TOLERANCE

UNQUANTISED_BYTES = 2
MXFP4_TILE = 256
"""Width that kernels of mxfp4 experts pad to: 2,880 becomes 3,072, as engines log for gpt-oss."""


def dense_and_expert_bytes(llm: Llm, fmt: Format) -> tuple[float, float]:
    """Bytes of all weights in a format: what every pass reads, and the routed experts.

    Formats of the page take every parameter. Others leave the embeddings, the head and whatever
    the checkpoint itself leaves out in 16 bits. The checkpoint's own format takes its exact bytes
    where an index file gave them.
    """
    experts = llm.expert_params
    dense = llm.params - experts
    if fmt.everywhere or not llm.detailed:
        dense_bytes, expert_bytes = dense * fmt.bytes_per_number, experts * fmt.bytes_per_number
    else:
        quantised = _quantised_params(llm, fmt)
        quantised_experts = min(quantised, experts)
        quantised_dense = quantised - quantised_experts
        saved = UNQUANTISED_BYTES - fmt.bytes_per_number
        expert_bytes = experts * UNQUANTISED_BYTES - quantised_experts * saved
        dense_bytes = dense * UNQUANTISED_BYTES - quantised_dense * saved
    if fmt.name == "mxfp4":
        expert_bytes *= padded_frac(llm)
    if llm.weight_bytes is not None and fmt.name == llm.own_format:
        dense_bytes = max(0.0, llm.weight_bytes - expert_bytes)
    return dense_bytes, expert_bytes


def padded_frac(llm: Llm) -> float:
    """What kernels of 4-bit experts add by padding an expert's width to a multiple of 256."""
    width = llm.expert_ffn_size or MXFP4_TILE
    return math.ceil(width / MXFP4_TILE) * MXFP4_TILE / width


def _quantised_params(llm: Llm, fmt: Format) -> float:
    if llm.stored is not None and llm.stored.format == fmt.name:
        return llm.stored.params
    if fmt.name == "mxfp4" and llm.experts:
        return llm.expert_params
    return llm.params - (llm.embedding_params or 0) - (llm.head_params or 0)


def kv_bytes(
    llm: Llm, kv_heads: int, bytes_per_number: float, tensor_parallel: int, context: float
) -> float:
    """Cache that one GPU keeps for one sequence of a context, bytes.

    Numbers per token scale with the KV heads and are shared among the GPUs as far as there are
    heads to share; a latent cache is kept whole by each GPU; windows cap the context; constant
    states are shared among all. Source: seed step 2, and the models' own configs.
    """
    total = 0.0
    for run in llm.cache_layers:
        total += run.layers * run.state_bytes / tensor_parallel
        if run.kind == "state":
            continue
        scale, shards = 1.0, 1
        if run.kind != "latent":
            heads = max(1, kv_heads * run.kv_heads // llm.kv_heads)
            scale, shards = heads / run.kv_heads, min(tensor_parallel, heads)
        numbers = run.layers * run.numbers_per_token * scale * run.tokens_kept(context)
        total += numbers * bytes_per_number / shards
    return total


def largest_batch(replicas: Replicas, most: int) -> Ints:
    """Most sequences that fit beside the weights, shape (n_configurations,), 0 to `most`.

    fixed + batch * cache of a sequence <= usable memory, boundary included, and the same while
    tokens are sampled.
    """
    usable = replicas.usable_bytes * (1 + TOLERANCE)
    computing = (usable - replicas.fixed_bytes) / replicas.kv_held_bytes
    per_sequence = replicas.kv_held_bytes + replicas.sampler_bytes
    sampling = (usable - replicas.sampler_fixed_bytes) / per_sequence
    fits = np.floor(np.minimum(computing, sampling))
    return np.clip(fits, 0, most).astype(np.int64)
