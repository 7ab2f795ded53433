"""Hybrids: a rule says what kind each layer is, and each kind has its own block."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from optimiser.catalogue.hf_config.fields import LAYERS_MOST, Fields
from optimiser.catalogue.hf_config.modules import Block
from optimiser.catalogue.hf_config.part import Part
from optimiser.catalogue.hf_config.windows import layer_types

KindRule = Callable[[Fields, int], list[str]]
"""(config, layers) -> one kind a layer."""

DESCRIBED = ("num_experts", "state_size", "linear_num_value_heads")
"""Fields of parts that a config may describe though none of its layers uses them."""

NEMOTRON_KINDS = {
    "M": "state",
    "mamba": "state",
    "linear_attention": "state",
    "*": "full",
    "attention": "full",
    "full_attention": "full",
    "-": "mlp",
    "mlp": "mlp",
    "E": "moe",
    "moe": "moe",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleaved:
    """Different parts on different layers."""

    kinds: KindRule
    parts: Mapping[str, Part]

    def blocks(self, fields: Fields, layers: int) -> list[Block]:
        """One block a layer; a part that no layer uses is not read."""
        kinds = self.kinds(fields, layers)
        for name in DESCRIBED:
            fields.raw(name)
        built = {kind: self.parts[kind].blocks(fields, layers) for kind in set(kinds)}
        return [built[kind][index] for index, kind in enumerate(kinds)]


def periodic(fields: Fields, layers: int) -> list[str]:
    """Jamba: one attention layer in `attn_layer_period`, from `attn_layer_offset`."""
    period = fields.whole("attn_layer_period")
    offset = fields.whole("attn_layer_offset", least=0)
    if offset >= period and fields.sound("attn_layer_period", "attn_layer_offset"):
        fields.reject("attn_layer_offset", offset, f"less than the period of {period}")
    return ["full" if index % period == offset else "state" for index in range(layers)]


def at_indices(fields: Fields, layers: int) -> list[str]:
    """Bamba: the attention layers of `attn_layer_indices`."""
    indices = set(fields.items("attn_layer_indices", of=int) or ())
    inside = all(isinstance(index, int) and 0 <= index < layers for index in indices)
    if (not indices or not inside) and fields.sound("attn_layer_indices", "num_hidden_layers"):
        found = fields.raw("attn_layer_indices")
        fields.reject("attn_layer_indices", found, f"the numbers of layers below {layers}")
    return ["full" if index in indices else "state" for index in range(layers)]


def one_full_in_interval(fields: Fields, layers: int) -> list[str]:
    """Qwen3-Next: `layer_types`, else the last of each `full_attention_interval` is full."""
    kinds = layer_types(fields, layers, "full", "state")
    every = fields.whole("full_attention_interval")
    return kinds or ["state" if (index + 1) % every else "full" for index in range(layers)]


def as_listed(fields: Fields, layers: int) -> list[str]:
    """Granite hybrids: `layer_types`, which must be there."""
    kinds = layer_types(fields, layers, "full", "state")
    if kinds is None and fields.sound("layer_types"):
        fields.reject("layer_types", None, f"a list with a kind for each of {layers} layers")
    return kinds or ["full"] * layers


def nemotron_pattern(fields: Fields, layers: int) -> list[str]:
    """Nemotron-H: a letter a layer in `hybrid_override_pattern`, or a word in a list."""
    pattern = fields.raw("hybrid_override_pattern")
    if pattern is None:
        pattern = fields.items("layers_block_type", of=str)
    letters = list(pattern)[: LAYERS_MOST + 1] if isinstance(pattern, str | list) else []
    known = all(isinstance(letter, str) and letter in NEMOTRON_KINDS for letter in letters)
    if not known or not letters or len(letters) > LAYERS_MOST:
        fields.reject(
            "hybrid_override_pattern", pattern, "a letter of M, *, - and E for each layer"
        )
        return ["full"] * layers
    if len(letters) != layers:
        if fields.sound("num_hidden_layers"):
            expected = f"{layers} letters, one for each layer"
            fields.reject("hybrid_override_pattern", pattern, expected)
        return ["full"] * layers
    return [NEMOTRON_KINDS[letter] for letter in letters]
