"""From a model's shape, a GPU's peaks and fitted constants to one row of the latency model."""

from optimiser.catalogue.hf_config.shape import CacheLayers, Shape
from optimiser.catalogue.latency_constants import Deployment, LatencyConstants, PartFormat
from optimiser.engine.latency_parts import LatencyParts, LatencyRow

LINK_BYTES_PER_NUMBER = 2
"""Activations are all-reduced in 16 bits whatever the weights are."""


def dense_params(shape: Shape) -> int:
    """Parameters that every token passes beside attention, experts, embedding and head."""
    experts = shape.experts
    routed = experts.layers * experts.count * experts.params_each if experts else 0
    outside = shape.embedding_params + shape.head_params + shape.attention_params
    return shape.params_total - outside - routed


def cache_bytes(at: Deployment, tokens: float, *, read: bool = False) -> float:
    """What one GPU keeps of a sequence of `tokens`, bytes; with `read`, what a step reads of it.

    Key-value layers are shared among a group's GPUs as far as there are heads, states among all;
    a latent cache is held in full by each. Windows cap the tokens; sparse attention caps those
    read.
    """
    group = at.n_gpus / at.attention_groups
    most = at.sparse_tokens if read else None
    total = 0.0
    for run in at.shape.cache:
        kept = _reach(run, tokens, most) * run.numbers_per_token * at.cache_bytes_per_number
        shards = group if run.kind == "state" else min(group, run.kv_heads)
        total += run.layers * (kept + run.state_bytes) / shards
    return total


def decode_attention_flops(at: Deployment, tokens: float) -> float:
    """Attention products of one sequence's step on one GPU of its group, FLOP.

    4 * layers * heads * width * tokens read / GPUs; latent layers work on the compressed vector.
    """
    total = 0.0
    for run in at.shape.cache:
        width = run.numbers_per_token if run.kind == "latent" else run.head_dim
        total += run.layers * width * _reach(run, tokens, at.sparse_tokens)
    return 4 * at.shape.attention_heads * total * at.attention_groups / at.n_gpus


def prompt_attention_flops(at: Deployment) -> float:
    """Causal attention over the prompt, FLOP of one GPU: half of all pairs, within the window.

    Pairs within a cached prefix are not computed again.
    """
    total = 0.0
    for run in at.shape.cache:
        if run.kind != "state":
            pairs = _causal_pairs(at, run, at.prompt_tokens)
            total += run.layers * (pairs - _causal_pairs(at, run, at.cached_tokens))
    return 4 * at.shape.attention_heads * at.shape.head_dim * total / at.n_gpus


def _causal_pairs(at: Deployment, run: CacheLayers, tokens: float) -> float:
    reach = _reach(run, tokens, at.sparse_tokens)
    return reach * reach / 2 + (tokens - reach) * reach


def weight_bytes(at: Deployment) -> float:
    """Weights that one GPU holds, bytes; attention once in each data-parallel group."""
    shape, experts = at.shape, at.shape.experts
    shared = dense_params(shape) * at.dense.bytes_per_param
    shared += (shape.head_params + shape.embedding_params) * at.head.bytes_per_param
    if experts:
        routed = experts.layers * experts.count * experts.params_each
        shared += routed * at.experts.bytes_per_param
    attention = shape.attention_params * at.attention.bytes_per_param * at.attention_groups
    return (shared + attention) / at.n_gpus


def latency_row(at: Deployment, constants: LatencyConstants) -> LatencyRow:
    """The row of `latency.py`'s columns for one deployment. Formulas: see each field there."""
    shape, n, groups = at.shape, at.n_gpus, at.attention_groups
    experts = shape.experts
    context = at.prompt_tokens + at.answer_tokens / 2
    dense, attention = dense_params(shape), shape.attention_params
    head = shape.head_params or shape.embedding_params
    imbalance = constants.expert_imbalance if n > 1 else 1.0
    expert_read_s = expert_flops = 0.0
    if experts:
        expert_read_s = experts.layers * experts.params_each * _read_s(at, constants, at.experts)
        expert_flops = 2 * experts.layers * experts.params_each * experts.per_token
    score_s = 1 / _rate(at, constants, "fp16")
    cache_s = cache_bytes(at, context, read=True) / (
        constants.cache_bandwidth_frac * at.peak_bytes_per_s
    )
    message_bytes = shape.hidden_size * LINK_BYTES_PER_NUMBER * 2 * (n - 1) / n
    reduces = 2 * shape.layers if n > 1 else 0
    return LatencyParts(
        weight_read_s=(
            attention * groups * _read_s(at, constants, at.attention)
            + dense * _read_s(at, constants, at.dense)
        )
        / n,
        weight_token_s=2
        * (
            attention / _rate(at, constants, at.attention.compute)
            + dense / _rate(at, constants, at.dense.compute)
        )
        / n,
        head_read_s=head * _read_s(at, constants, at.head) / n,
        head_token_s=2 * head / (n * _rate(at, constants, at.head.compute)),
        experts=float(experts.count if experts else 1),
        experts_per_token=float(experts.per_token if experts else 0),
        expert_read_s=imbalance * expert_read_s / n,
        expert_token_s=imbalance
        * expert_flops
        / (n * _rate(at, constants, at.experts.compute) * constants.expert_flop_frac)
        if experts
        else 0.0,
        unhidden_frac=constants.unhidden_frac,
        sequence_s=max(cache_s, decode_attention_flops(at, context) * score_s) / groups
        + constants.sequence_s,
        link_token_s=reduces
        * message_bytes
        / (constants.link_bandwidth_frac * at.link_bytes_per_s),
        link_large_s=reduces * constants.link_large_s,
        link_large_tokens=constants.link_large_bytes / message_bytes if n > 1 else 1.0,
        floor_s=_floor_s(at, constants),
        prompt_tokens=at.prompt_tokens - at.cached_tokens,
        answer_tokens=at.answer_tokens,
        prompt_attention_s=prompt_attention_flops(at) * score_s / constants.prompt_attention_frac,
        prefill_share=constants.prefill_share,
        wait_steps=constants.wait_steps + (constants.grouped_wait_steps if groups > 1 else 0.0),
        ttft_offset_s=constants.ttft_offset_s,
        decode_scale=constants.decode_scale,
        prefill_scale=constants.prefill_scale,
    )


def _reach(run: CacheLayers, tokens: float, most: int | None) -> float:
    caps = [cap for cap in (run.window_tokens, most) if cap is not None]
    return min([tokens, *caps])


def _rate(at: Deployment, constants: LatencyConstants, compute: str) -> float:
    return at.peak_flops_per_s[compute] * constants.flop_frac[compute]


def _read_s(at: Deployment, constants: LatencyConstants, part: PartFormat) -> float:
    """Reading one parameter of a part, s of one GPU."""
    achieved = constants.weight_bandwidth_frac * at.peak_bytes_per_s
    if part.compute == "fp8":
        achieved *= constants.fp8_bandwidth_factor
    return part.bytes_per_param / achieved


def _floor_s(at: Deployment, constants: LatencyConstants) -> float:
    layers, experts = at.shape.layers, at.shape.experts
    floor = constants.step_floor_s + layers * constants.layer_floor_s
    if at.dense.compute == "fp8":
        floor += layers * constants.fp8_layer_floor_s
    if at.n_gpus > 1:
        floor += 2 * layers * constants.link_latency_s
    if at.sparse_tokens is not None:
        floor += layers * constants.sparse_layer_floor_s
    if experts:
        floor += experts.layers * (
            constants.expert_layer_floor_s + _expert_format_floor_s(at.experts, constants)
        )
    return floor


def _expert_format_floor_s(experts: PartFormat, constants: LatencyConstants) -> float:
    if experts.compute == "fp8":
        return constants.expert_fp8_floor_s
    if experts.compute == "fp16" and experts.bytes_per_param < 1:
        return constants.expert_unpack_floor_s
    return 0.0
