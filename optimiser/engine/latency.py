"""The measured fidelity: how long steps, prompts and requests take on a real engine.

Every function is vectorised: columns of shape (n_configurations,) against batches that broadcast
with them, (n_batches, 1) for all pairs. The form is a roofline by part with measured rates and
floors, fitted to published runs by `calibration/fit.py`. In the batch, a step is a sum of maxima
of terms that are affine, or concave from 0, so that step / batch and the request's cost decrease
and are convex; TPOT and TTFT rise.
"""

from typing import TypeAlias

import numpy as np

from optimiser.engine.latency_parts import LatencyColumns
from optimiser.engine.replicas import Floats, Ints

Batch: TypeAlias = Floats | Ints | float

CHUNK_TOKENS = 8192
"""Prompt tokens that engines put in one step at most."""


def step_s(columns: LatencyColumns, decoding: Batch, tokens: Batch) -> Floats:
    """One step, s: `decoding` sequences get a token each, `tokens` pass through the weights.

    Attention and dense weights, read and multiplied + the head, for the decoding sequences +
    the experts + cache, links and floors. A step without decoding has no head. Shape: `decoding`
    and `tokens` broadcast against (n_configurations,).
    """
    weights = _together_s(columns, columns.weight_read_s, tokens * columns.weight_token_s)
    head = _together_s(columns, columns.head_read_s, decoding * columns.head_token_s)
    rest = decoding * columns.sequence_s + links_s(columns, tokens) + columns.floor_s
    total: Floats = weights + head * (np.asarray(decoding) > 0) + expert_s(columns, tokens) + rest
    return total


def _together_s(columns: LatencyColumns, read_s: Floats, multiply_s: Floats) -> Floats:
    """Weights read and multiplied at once, s: max(read, multiply) + u * min(read, multiply).

    The same as (1 - u) * max + u * (read + multiply), which keeps what both of these keep.
    """
    longer = np.maximum(read_s, multiply_s)
    return longer + columns.unhidden_frac * np.minimum(read_s, multiply_s)


def links_s(columns: LatencyColumns, tokens: Batch) -> Floats:
    """All-reduces beside their latency, s: m * token + large * (1 - exp(-m / m_large))."""
    growing: Floats = tokens * columns.link_token_s
    if not np.any(columns.link_large_s):
        return growing
    return growing - columns.link_large_s * np.expm1(-tokens / columns.link_large_tokens)


def expert_s(columns: LatencyColumns, tokens: Batch) -> Floats:
    """Routed experts in a step, s: distinct experts read, m tokens multiplied.

    `tokens` tokens with k of E experts each touch E * (1 - (1 - k/E)^m) distinct ones on average.
    """
    if not np.any(columns.experts_per_token):
        return np.zeros(np.broadcast_shapes(np.shape(tokens), columns.experts.shape))
    untouched = np.log1p(-np.minimum(columns.experts_per_token / columns.experts, ALL_BUT_ONE))
    distinct = -columns.experts * np.expm1(tokens * untouched)
    return _together_s(columns, distinct * columns.expert_read_s, tokens * columns.expert_token_s)


ALL_BUT_ONE = 1 - 2**-20
"""Stands for 1 as the share of experts that a token uses, whose logarithm is needed."""


def prefill_s(columns: LatencyColumns) -> Floats:
    """One prompt alone, s, shape (n_configurations,).

    scale * (chunks * step(0, chunk) + causal attention); the weights are read for each chunk.
    """
    chunks = np.ceil(columns.prompt_tokens / CHUNK_TOKENS)
    chunk = np.minimum(columns.prompt_tokens, CHUNK_TOKENS)
    alone = chunks * step_s(columns, 0.0, chunk) + columns.prompt_attention_s
    return columns.prefill_scale * alone


def decode_step_s(columns: LatencyColumns, batch: Batch) -> Floats:
    """The step of a batch that only decodes, s: scale * step(b, b)."""
    return columns.decode_scale * step_s(columns, batch, batch)


def shared_step_s(columns: LatencyColumns, batch: Batch) -> Floats:
    """What all sequences of a decode step share, s, unscaled: step(b, b) - b * sequence.

    Rises with the batch: a step of fewer sequences, of any classes, shares no more.
    """
    alone: Floats = step_s(columns, batch, batch) - batch * columns.sequence_s
    return alone


def tpot_s(columns: LatencyColumns, concurrency: Batch, synchrony: Batch = 0.0) -> Floats:
    """Mean time per output token under load, s.

    step(C, C) + (1 - s/2) * (C - 1) * P / answer: each of the others' prompts stalls the batch
    once an answer, by its marginal cost P. `synchrony` s is 0 for arrivals that are spread out,
    1 where all arrive at once.
    """
    return _tpot_s(columns, concurrency, synchrony, decode_step_s(columns, concurrency))


def ttft_s(columns: LatencyColumns, concurrency: Batch, synchrony: Batch = 0.0) -> Floats:
    """Mean time to first token under load, s.

    offset + w * step(C, C) + prefill + s * (C - 1) / 2 * P.
    """
    return _ttft_s(columns, concurrency, synchrony, decode_step_s(columns, concurrency))


def residence_s(columns: LatencyColumns, concurrency: Batch, synchrony: Batch = 0.0) -> Floats:
    """A request from arrival to last token, s: TTFT + (answer - 1) * TPOT."""
    step = decode_step_s(columns, concurrency)
    tpot = _tpot_s(columns, concurrency, synchrony, step)
    ttft = _ttft_s(columns, concurrency, synchrony, step)
    return ttft + (columns.answer_tokens - 1) * tpot


def throughput(columns: LatencyColumns, concurrency: Batch, synchrony: Batch = 0.0) -> Floats:
    """Answer tokens of a replica, tokens/s: concurrency * answer / residence (Little's law)."""
    residence = residence_s(columns, concurrency, synchrony)
    return concurrency * columns.answer_tokens / residence


def request_replica_s(columns: LatencyColumns, batch: Batch) -> Floats:
    """Replica-seconds that one request costs at a batch: residence(b) / b.

    Decreasing and convex in the batch: offset + prefill - P is never below 0, since the prefill's
    marginal cost P is at most the prefill alone.
    """
    return residence_s(columns, batch) / batch


def marginal_prefill_s(columns: LatencyColumns) -> Floats:
    """What a prompt adds to steps that decode, s: its share of the prefill alone."""
    return columns.prefill_share * prefill_s(columns)


def _tpot_s(columns: LatencyColumns, batch: Batch, synchrony: Batch, step: Floats) -> Floats:
    stall = marginal_prefill_s(columns) / columns.answer_tokens
    others = np.maximum(np.asarray(batch) - 1, 0)
    stalls: Floats = (1 - np.asarray(synchrony) / 2) * others * stall
    return step + stalls


def _ttft_s(columns: LatencyColumns, batch: Batch, synchrony: Batch, step: Floats) -> Floats:
    others = np.maximum(np.asarray(batch) - 1, 0)
    queue: Floats = np.asarray(synchrony) / 2 * others * marginal_prefill_s(columns)
    return columns.ttft_offset_s + columns.wait_steps * step + prefill_s(columns) + queue
