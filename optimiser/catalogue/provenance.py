"""Where a catalogue number comes from."""

from typing import Literal

from pydantic import Field

from optimiser.schema import Schema


class Provenance(Schema):
    """The source of a figure and its date."""

    source: str = Field(min_length=3)
    """Public document that states the figure."""
    as_of: str = Field(pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$")
    """Date of the source: YYYY, YYYY-MM or YYYY-MM-DD, as precise as is known."""
    confidence: Literal["high", "medium", "low"] = "high"
    """How sure the figure is."""
