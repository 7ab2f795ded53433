"""What every kind of layer part has in common."""

from dataclasses import dataclass
from typing import Protocol

from optimiser.catalogue.hf_config.fields import Fields
from optimiser.catalogue.hf_config.modules import Block


class Part(Protocol):
    """Reads its own fields of a config."""

    def blocks(self, fields: Fields, layers: int) -> list[Block]:
        """One block for each layer; equal layers share the same object."""
        ...


@dataclass(frozen=True, slots=True)
class Absent:
    """No such part: Mamba has no MLP beside its mixer."""

    def blocks(self, fields: Fields, layers: int) -> list[Block]:
        """Empty blocks."""
        return [Block()] * layers
