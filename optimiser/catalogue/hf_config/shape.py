"""What a config says, as numbers that every other part can use: the public result."""

from dataclasses import dataclass
from typing import Literal

CacheKind = Literal["full", "window", "chunk", "latent", "state"]


@dataclass(frozen=True, slots=True)
class CacheLayers:
    """A run of layers that keep the same thing for each sequence."""

    layers: int
    kind: CacheKind
    kv_heads: int
    """Heads that the cache can be sharded by; 1 for a latent cache, 0 for a state."""
    head_dim: int
    numbers_per_token: int
    """Cached numbers a layer a token: 2 x kv_heads x head_dim; a latent's kv_lora_rank +
    qk_rope_head_dim, stored once; 0 for a state."""
    window_tokens: int | None
    """Most tokens that a layer keeps; null where it keeps all of them."""
    state_bytes: int
    """Constant bytes a layer a sequence (state layers): recurrent and convolution state, at the
    widths described in `state.py`."""


@dataclass(frozen=True, slots=True)
class Experts:
    """The routed experts; shared experts count as dense."""

    layers: int
    count: int
    per_token: int
    params_each: int
    """Parameters of one expert in one layer, biases included."""


@dataclass(frozen=True, slots=True)
class Quantisation:
    """What the checkpoint itself states about the format of its weights."""

    method: str
    """`quant_method`, as the file spells it."""
    format: str
    """fp8, fp8-block, mxfp4, nvfp4, w8a8-int8, int8 (weight-only), int4 or int4-gN."""
    block: int | None
    """Weights that share a scale: group size, or the side of a square block."""
    params: int
    """Parameters stored in that format; the rest keep the shape's `dtype`."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A language model's architecture. A model without attention has 0 heads of 0 numbers."""

    architecture: str
    layers: int
    hidden_size: int
    attention_heads: int
    kv_heads: int
    """The most that a layer has; 1 for latent attention, whose one vector serves all heads."""
    head_dim: int
    """Numbers of a query-key product a head; the position part included for latent attention."""
    ffn_size: int
    """Width of the widest dense MLP (shared experts and state mixers are dense); of one routed
    expert where the model has nothing dense."""
    expert_ffn_size: int | None
    vocab_size: int
    max_context: int
    """Tokens, as `context.py` reads it."""
    tied_embeddings: bool
    dtype: str
    """float32, float16 or bfloat16; bfloat16 where the file states none, which is what engines
    serve such a checkpoint in."""
    params_total: int
    """The language model only: no vision tower, no multi-token-prediction layers."""
    params_active: int
    """Parameters a token passes through, input embedding and head in full."""
    embedding_params: int
    """Token embedding; position tables are in the total only."""
    head_params: int
    """0 where tied to the embedding, which is counted once."""
    attention_params: int
    """Projections, biases, norms and sinks of the attention layers; state layers excluded."""
    cache: tuple[CacheLayers, ...]
    experts: Experts | None
    quantisation: Quantisation | None

    def kv_bytes_per_token(self, bytes_per_number: float = 2) -> float:
        """Cache bytes that one more token costs: every layer that caches, windows ignored."""
        return bytes_per_number * sum(run.layers * run.numbers_per_token for run in self.cache)

    def kv_bytes_per_sequence(self, context: int, bytes_per_number: float = 2) -> float:
        """Cache bytes of a sequence of `context` tokens: windows applied, states included."""
        return sum(
            run.layers
            * (
                bytes_per_number
                * run.numbers_per_token
                * (context if run.window_tokens is None else min(context, run.window_tokens))
                + run.state_bytes
            )
            for run in self.cache
        )
