"""What one deployment measured of itself, beside what the catalogue's constants predict."""

from pathlib import Path

from pydantic import Field

from optimiser.errors import CatalogueError, InputError
from optimiser.schema import Schema, validated
from optimiser.yaml_io import read


class Scales(Schema):
    """Factors on the predicted times; `optimise calibrate` writes them."""

    decode_scale: float = Field(default=1.0, gt=0, le=100)
    """Measured over predicted decode steps."""
    prefill_scale: float = Field(default=1.0, gt=0, le=100)
    """Measured over predicted prefill."""
    ttft_offset_s: float | None = Field(default=None, ge=0, le=1000)
    """Time to first token beside prefill and waiting; the engine's own where nothing is said."""
    source: str | None = None
    """The benchmark runs behind them."""


def read_scales(path: Path) -> Scales:
    """The scales in a file. Raises CatalogueError with every mistake at once."""
    try:
        document = read(path)
    except InputError as error:
        raise CatalogueError(error.mistakes) from error
    scales = validated(Scales, document, {})
    if isinstance(scales, list):
        raise CatalogueError(scales)
    return scales
