"""Dense feed-forward blocks."""

from collections.abc import Callable
from dataclasses import dataclass

from optimiser.catalogue.hf_config.fields import Fields
from optimiser.catalogue.hf_config.modules import Block, Module, Role, linear
from optimiser.catalogue.hf_config.switches import NEVER, Switch

WidthRule = Callable[[Fields], int]
"""config -> inner width of the MLP."""


def stated_width(fields: Fields) -> int:
    """`intermediate_size`, under any of its names."""
    return fields.whole("intermediate_size")


def four_times_hidden(fields: Fields) -> int:
    """As stated, else four times the hidden size (GPT-2 and its contemporaries)."""
    return fields.optional("intermediate_size") or 4 * fields.whole("hidden_size")


def halved(fields: Fields) -> int:
    """Qwen-1 states the gate and the up projection together."""
    return max(fields.whole("intermediate_size") // 2, 1)


def expanded(fields: Fields) -> int:
    """MPT: a ratio of the hidden size, unless the nested `ffn_config` states a width."""
    nested = fields.child("ffn_config")
    nested.word("ffn_type", ("mptmlp",))
    stated = nested.optional("ffn_hidden_size")
    return stated or fields.whole("expansion_ratio") * fields.whole("hidden_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlp:
    """Two matrices, or three where a gate multiplies the up projection."""

    gated: bool = True
    width: WidthRule = stated_width
    bias: Switch = NEVER
    path: str = "mlp"

    def blocks(self, fields: Fields, layers: int) -> list[Block]:
        """The same block for each layer."""
        return [self.block(fields, self.width(fields))] * layers

    def block(self, fields: Fields, width: int) -> Block:
        """One MLP of a given inner width."""
        hidden = fields.whole("hidden_size")
        modules = projections(
            self.path, "mlp", hidden, width, gated=self.gated, bias=self.bias.read(fields)
        )
        return Block(modules, ffn_width=width)


def projections(
    path: str, role: Role, hidden: int, width: int, *, gated: bool, bias: bool
) -> tuple[Module, ...]:
    """The matrices of an MLP, under the names most families use."""
    inward = ("gate_proj", "up_proj") if gated else ("up_proj",)
    return (
        *(linear(f"{path}.{name}", role, hidden, width, bias=bias) for name in inward),
        linear(f"{path}.down_proj", role, width, hidden, bias=bias),
    )
