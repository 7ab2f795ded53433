"""An LLM: the shape that decides what it stores, reads and computes."""

from functools import cached_property
from typing import Literal, Self

from pydantic import Field, model_validator

from optimiser.catalogue.provenance import Provenance
from optimiser.schema import Schema, refuse

Heads = Field(ge=0, le=100_000)


class CacheLayers(Schema):
    """A run of layers that keep the same thing for each sequence."""

    layers: int = Field(gt=0, le=10_000)
    """How many layers."""
    kind: Literal["full", "window", "chunk", "latent", "state"] = "full"
    """Full attention, a sliding window, chunks, one latent vector a token, or a constant state."""
    kv_heads: int = Field(default=0, ge=0, le=100_000)
    """Heads that tensor parallel can share out; 1 for a latent cache, 0 for a state."""
    head_dim: int = Field(default=0, ge=0, le=100_000)
    """Numbers in one head."""
    numbers_per_token: int = Field(default=0, ge=0)
    """Numbers cached in one layer for one token; 0 for a state."""
    window_tokens: int | None = Field(default=None, gt=0)
    """Most tokens that a layer keeps; all of them where nothing is said."""
    state_bytes: int = Field(default=0, ge=0)
    """Constant bytes of one layer for one sequence."""

    def tokens_kept(self, context: float) -> float:
        """Tokens that a layer keeps of a context."""
        return context if self.window_tokens is None else min(context, self.window_tokens)


class Experts(Schema):
    """The routed experts; shared experts count as dense."""

    layers: int = Field(gt=0)
    """Layers that have experts."""
    count: int = Field(gt=0)
    """Experts in one layer."""
    per_token: int = Field(gt=0)
    """Experts that one token is sent to in one layer."""
    params_each: int = Field(gt=0)
    """Parameters of one expert in one layer."""


class Stored(Schema):
    """What the checkpoint itself says of the format of its weights."""

    format: str
    """Weight format."""
    params: int = Field(gt=0)
    """Parameters kept in that format; the others keep 16 bits."""
    block: int | None = Field(default=None, gt=0)
    """Weights that share a scale: a group's size, or the side of a block."""


class Llm(Schema):
    """Shape of a decoder-only language model.

    The first six fields are enough to plan as the page does. With the rest, which `optimise
    import` fills in from a config.json, parts of the model are told apart.
    """

    name: str = Field(min_length=1, max_length=80)
    """Name shown in reviews."""
    params: float = Field(gt=0, le=1e15)
    """Parameters in all."""
    layers: int = Field(gt=0, le=10_000)
    """Transformer layers."""
    attention_heads: int = Heads
    """Query heads of a layer."""
    kv_heads: int = Heads
    """Key and value heads of a layer: as many as attention heads for multi-head attention, fewer
    for grouped-query attention (GQA)."""
    head_dim: int = Heads
    """Numbers in one head's key or value."""
    architecture: str | None = None
    """Architecture by the name its config gives."""
    active_params: float | None = Field(default=None, gt=0)
    """Parameters that one token passes through, embedding and head in full."""
    embedding_params: int | None = Field(default=None, ge=0)
    """Input embedding."""
    head_params: int | None = Field(default=None, ge=0)
    """Output head; 0 where it is the embedding."""
    attention_params: int | None = Field(default=None, ge=0)
    """Attention layers' projections."""
    hidden_size: int | None = Field(default=None, gt=0)
    """Width of the residual stream."""
    ffn_size: int | None = Field(default=None, gt=0)
    """Width of the widest dense MLP."""
    expert_ffn_size: int | None = Field(default=None, gt=0)
    """Width of one routed expert."""
    vocab_size: int | None = Field(default=None, gt=0)
    """Tokens that the head scores."""
    max_context: int | None = Field(default=None, gt=0)
    """Longest context, tokens."""
    cache: tuple[CacheLayers, ...] = Field(default=(), strict=False)
    """What each layer caches; full attention everywhere where nothing is said."""
    experts: Experts | None = None
    """Routed experts of a mixture of experts."""
    stored: Stored | None = None
    """Quantisation of the checkpoint itself."""
    weight_bytes: int | None = Field(default=None, gt=0)
    """Bytes of the checkpoint's tensors, from its index file."""
    aliases: tuple[str, ...] = Field(default=(), strict=False)
    """Other names that tables of measurements use."""
    sources: dict[str, Provenance] = Field(default_factory=dict)
    """Source and date of each figure, by field name."""

    @model_validator(mode="after")
    def _heads_share_evenly(self) -> Self:
        if not self.attention_heads:
            if not self.cache:
                refuse("attention_heads is 0: expected `cache` to say what layers keep instead")
            return self
        if not self.kv_heads or not self.head_dim:
            refuse("kv_heads and head_dim: expected numbers greater than 0")
        if self.attention_heads % self.kv_heads:
            refuse(
                f"kv_heads {self.kv_heads} does not divide attention_heads {self.attention_heads}"
            )
        return self

    @property
    def detailed(self) -> bool:
        """Whether parts of the model are told apart."""
        return self.embedding_params is not None

    @cached_property
    def cache_layers(self) -> tuple[CacheLayers, ...]:
        """What each layer caches."""
        whole = CacheLayers(
            layers=self.layers,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            numbers_per_token=2 * self.kv_heads * self.head_dim,
        )
        return self.cache or (whole,)

    @property
    def missing_for_memory(self) -> list[str]:
        """Fields that the itemised memory model needs and that are not given."""
        needed = ("hidden_size", "ffn_size", "vocab_size")
        return [name for name in needed if getattr(self, name) is None]

    @property
    def own_format(self) -> str:
        """The weight format that the checkpoint comes in."""
        return self.stored.format if self.stored else "fp16"

    @property
    def expert_params(self) -> int:
        """Parameters of all routed experts."""
        experts = self.experts
        return experts.layers * experts.count * experts.params_each if experts else 0

    @property
    def matmul_params(self) -> float:
        """Parameters that one token is multiplied with: active ones less the embedding look-up."""
        active = self.active_params or self.params
        return active - (self.embedding_params or 0) if self.head_params else active
