"""Number formats of weights and KV cache: their size, and the arithmetic they compute in."""

from dataclasses import dataclass

from optimiser.names import nearest
from optimiser.schema import refuse


@dataclass(frozen=True, slots=True)
class Format:
    """A number format that weights or a KV cache may be kept in."""

    name: str
    bytes_per_number: float
    computes_in: str
    """Key of the GPU's `tflops` at which a model in this format computes."""

    @property
    def bits(self) -> float:
        """Bits per number; the program prefers to remove as few as it can."""
        return self.bytes_per_number * 8


WEIGHT_FORMATS = {
    fmt.name: fmt
    for fmt in (
        Format("fp32", 4, "fp32"),
        Format("fp16", 2, "fp16"),
        Format("fp8", 1, "fp8"),
        # weight-only, as on the page: bytes shrink, arithmetic stays in 16 bits
        Format("int8", 1, "fp16"),
        Format("int4", 0.5, "fp16"),
    )
}

CACHE_FORMATS = {
    fmt.name: fmt
    for fmt in (Format("fp16", 2, "fp16"), Format("fp8", 1, "fp16"), Format("int8", 1, "fp16"))
}

ALIASES = {"bf16": "fp16", "bfloat16": "fp16", "float16": "fp16", "float32": "fp32"}


def weight_format_name(name: object) -> str:
    """The catalogue's name of a weight format; refuses an unknown one."""
    return _known(name, WEIGHT_FORMATS, "weight format")


def cache_format_name(name: object) -> str:
    """The catalogue's name of a KV-cache format; refuses an unknown one."""
    return _known(name, CACHE_FORMATS, "KV-cache format")


def _known(name: object, formats: dict[str, Format], what: str) -> str:
    if not isinstance(name, str):
        refuse(f"found {name!r}, expected a {what}: {', '.join(formats)}")
    resolved = ALIASES.get(name.lower(), name.lower())
    if resolved not in formats:
        near = nearest(name, [*formats, *(a for a in ALIASES if ALIASES[a] in formats)])
        refuse(f"unknown {what} {name!r}, expected one of {', '.join(formats)}", near)
    return resolved
