"""Layers found by architecture search: Nemotron-NAS states each one in `block_configs`.

The global widths are null there; each entry says how many heads share a key and how wide the MLP
is, or that the layer has none. Source: the DeciLM classes published with the models.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from optimiser.catalogue.hf_config.attention import Attention, head_dim_of
from optimiser.catalogue.hf_config.fields import Fields
from optimiser.catalogue.hf_config.mlp import Mlp
from optimiser.catalogue.hf_config.modules import Block, Module, kept, linear
from optimiser.catalogue.hf_config.shape import CacheLayers

TILE = 256
RATIO_MOST = 1000


@dataclass(frozen=True, slots=True)
class SearchedAttention:
    """Grouped attention of a size of its own, a single matrix, or nothing."""

    def blocks(self, fields: Fields, layers: int) -> list[Block]:
        """One block a layer, its norm included."""
        return [self._block(fields, entry) for entry in entries(fields, layers, "attention")]

    def _block(self, fields: Fields, entry: Fields) -> Block:
        hidden, heads = fields.whole("hidden_size"), fields.whole("num_attention_heads")
        norm = kept("input_layernorm", "norm", hidden)
        if entry.flag("no_op", default=False):
            return Block()
        if entry.flag("replace_with_linear", default=False):
            return Block((norm, linear("self_attn.linear_attn", "mlp", hidden, hidden)))
        if entry.raw("window_length") is not None:
            entry.reject("window_length", entry.raw("window_length"), "null: no window")
        shared = entry.whole("n_heads_in_group")
        if (
            heads % shared
            and fields.sound("num_attention_heads")
            and entry.sound("n_heads_in_group")
        ):
            entry.reject("n_heads_in_group", shared, f"a divisor of the {heads} heads")
        kv_heads = max(heads // shared, 1)
        head_dim = head_dim_of(fields, heads)
        modules = (norm, *Attention().modules(fields, heads, kv_heads, head_dim))
        cache = CacheLayers(1, "full", kv_heads, head_dim, 2 * kv_heads * head_dim, None, 0)
        return Block(modules, cache, heads=heads, head_dim=head_dim)


@dataclass(frozen=True, slots=True)
class SearchedMlp:
    """A gated MLP of a width of its own, a single matrix, or nothing."""

    def blocks(self, fields: Fields, layers: int) -> list[Block]:
        """One block a layer, its norm included."""
        return [self._block(fields, entry) for entry in entries(fields, layers, "ffn")]

    def _block(self, fields: Fields, entry: Fields) -> Block:
        hidden = fields.whole("hidden_size")
        norm: tuple[Module, ...] = (kept("post_attention_layernorm", "norm", hidden),)
        if entry.flag("no_op", default=False):
            return Block()
        if entry.flag("replace_with_linear", default=False):
            return Block((*norm, linear("mlp.linear_mlp", "mlp", hidden, hidden)))
        width = entry.optional("intermediate_size") or self._width(entry, hidden)
        return Block(norm + Mlp().block(fields, width).modules, ffn_width=width)

    def _width(self, entry: Fields, hidden: int) -> int:
        """Two thirds of a multiple of the hidden size, rounded up to whole tiles of 256."""
        ratio = entry.raw("ffn_mult")
        number = isinstance(ratio, int | float) and not isinstance(ratio, bool)
        if isinstance(ratio, int | float) and number and 0 < ratio < RATIO_MOST:
            tiles = math.ceil(int(2 * ratio * hidden / 3) / TILE)
            return max(tiles, 1) * TILE
        entry.reject("ffn_mult", ratio, f"a ratio from 0 to {RATIO_MOST}")
        return 1


def entries(fields: Fields, layers: int, name: str) -> list[Fields]:
    """The `attention` or `ffn` object of each layer.

    Where `block_configs` cannot be read, the null widths that it should replace are named too.
    """
    blocks = fields.items("block_configs", of=Mapping, length=layers)
    if blocks is None:
        if fields.sound("block_configs"):
            fields.reject("block_configs", None, f"a list of {layers} objects")
        fields.whole("intermediate_size")
        fields.whole("num_key_value_heads")
        return []
    return [
        fields.inside(block, f"block_configs[{index}]").child(name)  # type: ignore[arg-type]
        for index, block in enumerate(blocks)
    ]
