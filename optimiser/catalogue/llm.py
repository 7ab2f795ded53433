"""An LLM: the shape that decides what it stores, reads and computes."""

from typing import Self

from pydantic import Field, model_validator

from optimiser.catalogue.provenance import Provenance
from optimiser.schema import Schema, refuse


class Llm(Schema):
    """Shape of a decoder-only transformer."""

    name: str = Field(min_length=1)
    """Name shown in reviews."""
    params: float = Field(gt=0, le=1e15)
    """Parameters in all."""
    layers: int = Field(gt=0, le=10_000)
    """Transformer layers."""
    attention_heads: int = Field(gt=0, le=100_000)
    """Query heads of a layer."""
    kv_heads: int = Field(gt=0, le=100_000)
    """Key and value heads of a layer: as many as attention heads for multi-head attention, fewer
    for grouped-query attention (GQA)."""
    head_dim: int = Field(gt=0, le=100_000)
    """Numbers in one head's key or value."""
    sources: dict[str, Provenance] = Field(default_factory=dict)
    """Source and date of each figure, by field name."""

    @model_validator(mode="after")
    def _heads_share_evenly(self) -> Self:
        if self.attention_heads % self.kv_heads:
            refuse(
                f"kv_heads {self.kv_heads} does not divide attention_heads {self.attention_heads}"
            )
        return self
