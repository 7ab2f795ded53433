"""How long a pass takes (steps 3 and 4 of the page): the slower of arithmetic and memory reads."""

import numpy as np

from optimiser.catalogue.llm import Llm
from optimiser.engine.replicas import Floats, Ints, Lengths, Replicas


def token_flops(llm: Llm, context: float) -> float:
    """Arithmetic of one more token at a context on the whole replica, FLOP.

    2 * parameters that it is multiplied with; where the model's parts are known, also attention's
    own 4 * heads * head_dim * context in every layer (a latent's heads work on the whole vector).
    """
    return 2 * llm.matmul_params + _attention_flops(llm, context)


def prompt_flops(llm: Llm, tokens: int, cached_frac: float = 0.0) -> float:
    """Arithmetic of one prompt on the whole replica, FLOP: each token sees those before it.

    A cached prefix is not computed again, but the rest attends to it.
    """
    return _pass_flops(llm, tokens) - _pass_flops(llm, tokens * cached_frac)


def _pass_flops(llm: Llm, tokens: float) -> float:
    return tokens * (2 * llm.matmul_params + _attention_flops(llm, tokens / 2))


def _attention_flops(llm: Llm, context: float) -> float:
    if not llm.detailed:
        return 0.0
    return sum(
        4
        * run.layers
        * llm.attention_heads
        * (run.numbers_per_token if run.kind == "latent" else run.head_dim)
        * run.tokens_kept(context)
        for run in llm.cache_layers
        if run.kind != "state"
    )


def read_bytes(replicas: Replicas, tokens: Ints | int) -> Floats:
    """Weights read in a pass over so many tokens, bytes.

    All dense weights, and of the experts those that any token is sent to: 1 - (1 - k/E)^tokens of
    them are expected. Shape: `tokens` broadcast against (n_configurations,).
    """
    if not replicas.expert_bytes.any():
        return replicas.read_bytes
    return replicas.read_bytes + replicas.expert_bytes * (1 - replicas.expert_missed_frac**tokens)


def prefill_s(replicas: Replicas, lengths: Lengths) -> Floats:
    """Time to put one prompt through, s, shape (n_configurations,).

    max(FLOPs / rate, weight bytes / bandwidth). Source: seed step 3.
    """
    compute_s = replicas.prefill_flops / replicas.flops_per_s
    read_s = read_bytes(replicas, lengths.prompt) / replicas.bytes_per_s
    return np.maximum(compute_s, read_s)


def decode_step_s(replicas: Replicas, batch: Ints) -> Floats:
    """Time for one more token of every sequence in the batch, s.

    max(FLOPs / rate, (weights + batch * cache read) / bandwidth).
    Shape: `batch` broadcast against (n_configurations,). Source: seed step 4.
    """
    compute_s = replicas.decode_flops * batch / replicas.flops_per_s
    read = read_bytes(replicas, batch) + batch * replicas.kv_read_bytes
    return np.maximum(compute_s, read / replicas.bytes_per_s)
