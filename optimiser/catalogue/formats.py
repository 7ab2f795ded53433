"""Number formats of weights and KV cache: their size, and the arithmetic they compute in."""

from dataclasses import dataclass

from optimiser.errors import CatalogueError, Mistake
from optimiser.names import nearest
from optimiser.schema import refuse


@dataclass(frozen=True, slots=True)
class Format:
    """A number format that weights or a KV cache may be kept in."""

    name: str
    bytes_per_number: float
    """Scales and zero points included."""
    computes_in: str
    """Key of the GPU's `tflops` at which a model in this format computes."""
    everywhere: bool = True
    """Whether all parameters take the format; else embeddings, head and norms stay in 16 bits, and
    what a checkpoint leaves unquantised stays so."""
    block: int | None = None
    """Side of the square of weights that shares a scale, which no split may cut."""

    @property
    def bits(self) -> float:
        """Bits per number; the program prefers to remove as few as it can."""
        return self.bytes_per_number * 8


def _by_name(*formats: Format) -> dict[str, Format]:
    return {fmt.name: fmt for fmt in formats}


WEIGHT_FORMATS = _by_name(
    Format("fp32", 4, "fp32"),
    Format("fp16", 2, "fp16"),
    # one scale a tensor or channel: too few to count
    Format("fp8", 1, "fp8", everywhere=False),
    # one 4-byte scale for each 128 x 128 block
    Format("fp8-block", 1 + 4 / 128**2, "fp8", everywhere=False, block=128),
    # weight-only, as on the page: bytes shrink for every parameter, arithmetic stays in 16 bits
    Format("int8", 1, "fp16"),
    # weights and activations in 8 bits, one scale a channel
    Format("w8a8-int8", 1, "int8", everywhere=False),
    # 4.25 bits and more: one 8-bit scale for each 32 numbers
    Format("mxfp4", 0.5 + 1 / 32, "fp4", everywhere=False),
    # one 8-bit scale for each 16 numbers
    Format("nvfp4", 0.5 + 1 / 16, "fp4", everywhere=False),
    Format("int4", 0.5, "fp16"),
    # AWQ and GPTQ: a 16-bit scale and a 4-bit zero point for each group of so many numbers
    *(
        Format(f"int4-g{group}", 0.5 + 2.5 / group, "fp16", everywhere=False)
        for group in (128, 64, 32)
    ),
)

CACHE_FORMATS = _by_name(
    Format("fp16", 2, "fp16"), Format("fp8", 1, "fp16"), Format("int8", 1, "fp16")
)

ALIASES = {"bf16": "fp16", "bfloat16": "fp16", "float16": "fp16", "float32": "fp32"}


def weight_format_name(name: object) -> str:
    """The catalogue's name of a weight format; refuses an unknown one."""
    return _refusing(name, WEIGHT_FORMATS, "weight format")


def cache_format_name(name: object) -> str:
    """The catalogue's name of a KV-cache format; refuses an unknown one."""
    return _refusing(name, CACHE_FORMATS, "KV-cache format")


def format_named(option: str, name: str | None, formats: dict[str, Format]) -> str | None:
    """The catalogue's name of a format given by an option. Raises CatalogueError if unknown."""
    if name is None:
        return None
    resolved = ALIASES.get(name.lower(), name.lower())
    if resolved not in formats:
        message = f"unknown format {name!r}, expected one of {', '.join(formats)}"
        raise CatalogueError([Mistake(option, "", message, _near(name, formats))])
    return resolved


def _refusing(name: object, formats: dict[str, Format], what: str) -> str:
    if not isinstance(name, str):
        refuse(f"found {name!r}, expected a {what}: {', '.join(formats)}")
    resolved = ALIASES.get(name.lower(), name.lower())
    if resolved not in formats:
        near = _near(name, formats)
        refuse(f"unknown {what} {name!r}, expected one of {', '.join(formats)}", near)
    return resolved


def _near(name: str, formats: dict[str, Format]) -> tuple[str, ...]:
    aliases = (alias for alias, target in ALIASES.items() if target in formats)
    return nearest(name, [*formats, *aliases])
