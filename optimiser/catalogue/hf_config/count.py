"""From a family's entry and a config's fields to a shape."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from optimiser.catalogue.hf_config.context import max_context
from optimiser.catalogue.hf_config.family import Family
from optimiser.catalogue.hf_config.fields import LAYERS_MOST, Fields
from optimiser.catalogue.hf_config.modules import Block, Module, kept
from optimiser.catalogue.hf_config.quantisation import read_quantisation
from optimiser.catalogue.hf_config.shape import CacheLayers, Experts, Shape

DTYPES = ("bfloat16", "float16", "float32")
UNSTATED_DTYPE = "bfloat16"

STRUCTURE = (
    "num_experts",
    "kv_lora_rank",
    "layer_types",
    "block_configs",
    "hybrid_override_pattern",
    "attn_layer_period",
    "attn_layer_indices",
    "full_attention_interval",
    "state_size",
    "linear_num_value_heads",
    "ffn_config",
    "attn_config",
)
"""Fields that shape a model; a family that does not read one must not meet it."""


def shape_in(fields: Fields, family: Family, architecture: str) -> Shape:
    """The shape of a config of this family; raises ConfigError with every problem found."""
    layers = fields.whole("num_hidden_layers", most=LAYERS_MOST)
    hidden, vocab = fields.whole("hidden_size"), fields.whole("vocab_size")
    context = max_context(fields, rope_extends=family.rope_extends_context)
    norm = hidden * (2 if family.norms.bias.read(fields) else 1)
    norms = Block(tuple(kept(name, "norm", norm) for name in family.norms.names(fields)))
    mixers = family.mixer.blocks(fields, layers)
    feeds = family.feed_forward.blocks(fields, layers)
    stack = [(norms, mixer, feed) for mixer, feed in zip(mixers, feeds, strict=False)]
    quantisation = read_quantisation(fields, stack)

    width = hidden
    if family.embedding_width is not None:
        width = fields.optional(family.embedding_width) or hidden
    tied = fields.flag("tie_word_embeddings", default=family.tied)
    embedding = vocab * width
    head = 0 if tied else embedding + (vocab if family.head_bias.read(fields) else 0)
    rest = family.positions(fields) * hidden + (0 if width == hidden else 2 * width * hidden)
    rest += norm * (family.norms.final.read(fields) + family.norms.embedding)
    dtype = _dtype(fields)
    _refuse_foreign(fields)
    fields.finish()

    blocks = [block for layer in stack for block in layer]
    modules = [module for block in blocks for module in block.modules]
    ends = embedding + head + rest
    return Shape(
        architecture=architecture,
        layers=layers,
        hidden_size=hidden,
        attention_heads=max(block.heads for block in blocks),
        kv_heads=max((b.cache.kv_heads for b in blocks if b.cache is not None), default=0),
        head_dim=max(block.head_dim for block in blocks),
        ffn_size=_widest(blocks),
        expert_ffn_size=max(block.expert_width for block in blocks) or None,
        vocab_size=vocab,
        max_context=context,
        tied_embeddings=tied,
        dtype=dtype,
        params_total=ends + sum(module.stored_params for module in modules),
        params_active=ends + sum(module.active_params for module in modules),
        embedding_params=embedding,
        head_params=head,
        attention_params=sum(m.stored_params for m in modules if m.role == "attention"),
        cache=_runs((block.cache for block in blocks), context),
        experts=_experts(blocks),
        quantisation=quantisation,
    )


def _dtype(fields: Fields) -> str:
    value = fields.raw("torch_dtype")
    if value is None:
        return UNSTATED_DTYPE
    word = value.removeprefix("torch.") if isinstance(value, str) else value
    if word not in DTYPES:
        fields.reject("torch_dtype", value, "one of " + ", ".join(DTYPES))
        return UNSTATED_DTYPE
    return str(word)


def _refuse_foreign(fields: Fields) -> None:
    """Refuse fields that shape other architectures and that this one would silently ignore."""
    for key, value in fields.unused(STRUCTURE).items():
        plain = (
            value is None
            or value is False
            or value in (0, 1, "", [], {})
            or (isinstance(value, list) and all(kind == "full_attention" for kind in value))
        )
        if not plain:
            fields.reject(key, value, "nothing: this architecture has no such field", key=key)


def _widest(blocks: Sequence[Block]) -> int:
    for widths in ("ffn_width", "expert_width", "inner_width"):
        widest: int = max(getattr(block, widths) for block in blocks)
        if widest:
            return widest
    return 0


def _runs(caches: Iterable[CacheLayers | None], context: int) -> tuple[CacheLayers, ...]:
    """Equal layers together, in order of appearance; a window that no context fills is none."""
    counts: Counter[CacheLayers] = Counter()
    for cache in caches:
        if cache is None:
            continue
        if cache.window_tokens is not None and cache.window_tokens >= context:
            counts[replace(cache, kind="full", window_tokens=None)] += 1
        else:
            counts[cache] += 1
    return tuple(replace(cache, layers=layers) for cache, layers in counts.items())


def _experts(blocks: Sequence[Block]) -> Experts | None:
    mixtures = [block for block in blocks if block.expert_width]
    if not mixtures:
        return None
    routed: list[Module] = [module for module in mixtures[0].modules if module.role == "expert"]
    each = sum(module.matrix + module.plain for module in routed)
    return Experts(len(mixtures), routed[0].copies, routed[0].used, each)
