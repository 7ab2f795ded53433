"""What an entry of the family table can say."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from optimiser.catalogue.hf_config.fields import Fields
from optimiser.catalogue.hf_config.part import Part
from optimiser.catalogue.hf_config.switches import ALWAYS, NEVER, Switch

NormRule = Callable[[Fields], tuple[str, ...]]
PositionRule = Callable[[Fields], int]


def pre_norms(fields: Fields) -> tuple[str, ...]:
    """One norm before the attention and one before the MLP."""
    return ("input_layernorm", "post_attention_layernorm")


def one_norm(fields: Fields) -> tuple[str, ...]:
    """Attention and MLP run in parallel behind one norm, or the layer is a single block."""
    return ("input_layernorm",)


def four_norms(fields: Fields) -> tuple[str, ...]:
    """Norms before and after both the attention and the MLP (Gemma-2, GLM-4)."""
    return (
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    )


def no_norms(fields: Fields) -> tuple[str, ...]:
    """Norms without parameters, or counted with the blocks."""
    return ()


def no_positions(fields: Fields) -> int:
    """Rotary or linear-bias positions: nothing is learned."""
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Norms:
    """The layer norms of the trunk."""

    names: NormRule = pre_norms
    bias: Switch = NEVER
    """A bias beside each weight."""
    final: Switch = ALWAYS
    embedding: bool = False
    """One more, right after the embedding (Bloom)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Architectures that are counted alike."""

    model_types: tuple[str, ...]
    architectures: tuple[str, ...]
    """Class names with a language-model head; the first is the usual one."""
    mixer: Part
    feed_forward: Part
    norms: Norms = field(default_factory=Norms)
    positions: PositionRule = no_positions
    """Learned position embeddings, in rows of the hidden size."""
    tied: bool = False
    """Whether the class ties the head to the embedding where the file does not say."""
    head_bias: Switch = NEVER
    embedding_width: str | None = None
    """Key of an embedding width that may differ from the hidden size."""
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Other keys than `fields.KEYS` has for a field."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    """What published configs of the family leave out, as its class fills it in."""
    rope_extends_context: bool = True
    """Whether a rope factor multiplies the stated context."""
