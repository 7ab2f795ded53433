"""The vocabulary of counting: a model is layers, a layer is blocks, a block is named modules."""

from dataclasses import dataclass
from typing import Literal

from optimiser.catalogue.hf_config.shape import CacheLayers

Role = Literal["attention", "state", "mlp", "expert", "router", "norm"]


@dataclass(frozen=True, slots=True)
class Module:
    """Parameters that share a name and a fate: a matrix with its bias, a norm, a router."""

    path: str
    """Dotted name inside its layer, such as `self_attn.q_proj`."""
    role: Role
    matrix: int
    """Numbers that a quantiser may pack; 0 where it never does."""
    plain: int = 0
    """Numbers that stay in the checkpoint's dtype: biases, norms, routers, convolutions."""
    copies: int = 1
    """Times it is stored in a layer: the number of routed experts."""
    used: int = 1
    """Copies that one token passes through."""

    @property
    def stored_params(self) -> int:
        """Parameters in a layer, all copies."""
        return self.copies * (self.matrix + self.plain)

    @property
    def active_params(self) -> int:
        """Parameters that one token passes through."""
        return self.used * (self.matrix + self.plain)


@dataclass(frozen=True, slots=True)
class Block:
    """One part of a layer: its attention, its state mixer, its MLP or its experts."""

    modules: tuple[Module, ...] = ()
    cache: CacheLayers | None = None
    """What one such layer keeps for each sequence."""
    heads: int = 0
    head_dim: int = 0
    ffn_width: int = 0
    """Width of the widest dense MLP in it, 0 for none."""
    expert_width: int = 0
    inner_width: int = 0
    """Width inside a state mixer."""


def linear(path: str, role: Role, inputs: int, outputs: int, *, bias: bool = False) -> Module:
    """A dense projection, its bias kept in the checkpoint's dtype."""
    return Module(path, role, inputs * outputs, outputs if bias else 0)


def kept(path: str, role: Role, params: int) -> Module:
    """Parameters that no quantiser packs."""
    return Module(path, role, 0, params)
