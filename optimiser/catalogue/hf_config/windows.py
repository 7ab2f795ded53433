"""How far back each attention layer looks: all tokens, a sliding window, or a chunk."""

from collections.abc import Callable
from typing import NamedTuple

from optimiser.catalogue.hf_config.fields import TOKENS_MOST, Fields
from optimiser.catalogue.hf_config.shape import CacheKind


class Span(NamedTuple):
    """What one attention layer keeps."""

    kind: CacheKind
    tokens: int | None


FULL = Span("full", None)

WindowRule = Callable[[Fields, int], list[Span]]
"""(config, layers) -> one span a layer."""

LAYER_TYPES = {
    "full_attention": "full",
    "attention": "full",
    "indexed_attention": "full",
    "linear_attention": "state",
    "mamba": "state",
    "sliding_attention": "window",
    "chunked_attention": "chunk",
}


def full(fields: Fields, layers: int) -> list[Span]:
    """Every layer keeps every token."""
    return [FULL] * layers


def layer_types(fields: Fields, layers: int, *kinds: str) -> list[str] | None:
    """The file's own list of what each layer is, as some of these kinds; null for none."""
    names = fields.items("layer_types", of=str, length=layers)
    if names is None:
        return None
    allowed = [name for name, kind in LAYER_TYPES.items() if kind in kinds]
    strange = sorted({str(name) for name in names}.difference(allowed))
    if strange:
        fields.reject("layer_types", strange[0], "layers of " + ", ".join(allowed))
        return None
    return [LAYER_TYPES[str(name)] for name in names]


def listed(otherwise: Callable[[Fields, int], list[bool]]) -> WindowRule:
    """`layer_types` where the file has it, else a rule that says which layers slide."""

    def rule(fields: Fields, layers: int) -> list[Span]:
        window = _window(fields)
        kinds = layer_types(fields, layers, "full", "window")
        slides = otherwise(fields, layers) if kinds is None else [k == "window" for k in kinds]
        stated = fields.raw("sliding_window") is not None
        if not stated and kinds is not None and any(slides):
            fields.reject("sliding_window", None, "a window, since layer_types has sliding layers")
        return [window if slide else FULL for slide in slides]

    return rule


def one_full_in(period: int) -> WindowRule:
    """The last of every `period` layers is full (Gemma-2 2, Cohere-2 and OLMo-3 4, Gemma-3 6)."""

    def slides(fields: Fields, layers: int) -> list[bool]:
        every = fields.optional("sliding_window_pattern") or period
        return [(index + 1) % every != 0 for index in range(layers)]

    return listed(slides)


def every_layer(fields: Fields, layers: int) -> list[Span]:
    """One sliding window for all layers, where the file states one (Mistral, Phi-3)."""
    return listed(lambda fields, layers: [True] * layers)(fields, layers)


def optional_from_layer(fields: Fields, layers: int) -> list[Span]:
    """Qwen: off unless `use_sliding_window`, then from layer `max_window_layers` on."""
    if not fields.flag("use_sliding_window", default=False):
        layer_types(fields, layers, "full", "window")
        return [FULL] * layers

    def slides(fields: Fields, layers: int) -> list[bool]:
        first = fields.whole("max_window_layers", least=0)
        return [index >= first for index in range(layers)]

    return listed(slides)(fields, layers)


def chunked(fields: Fields, layers: int) -> list[Span]:
    """Llama-4: layers with rotary positions see their chunk, those without see everything.

    `layer_types` says which, else the ones of `no_rope_layers`, else every layer but the last of
    each `no_rope_layer_interval`.
    """
    tokens = fields.optional("attention_chunk_size", most=TOKENS_MOST)
    kinds = layer_types(fields, layers, "full", "chunk")
    rotary = fields.items("no_rope_layers", of=int)
    every = fields.whole("no_rope_layer_interval")
    if kinds is not None:
        inside = [kind == "chunk" for kind in kinds]
    elif rotary:
        if len(rotary) != layers and fields.sound("num_hidden_layers"):
            fields.reject("no_rope_layers", rotary, f"a list of {layers} whole numbers")
        inside = [bool(value) for value in [*rotary, *[0] * layers][:layers]]
    else:
        inside = [(index + 1) % every != 0 for index in range(layers)]
    if tokens is None:
        return [FULL] * layers
    return [Span("chunk", tokens) if chunk else FULL for chunk in inside]


def _window(fields: Fields) -> Span:
    on = fields.flag("use_sliding_window", default=True)
    tokens = fields.optional("sliding_window", most=TOKENS_MOST)
    return Span("window", tokens) if on and tokens is not None else FULL
