"""A GPU: what it holds, how fast it reads and how fast it computes."""

from typing import Self

from pydantic import Field, model_validator

from optimiser.catalogue.formats import Format
from optimiser.catalogue.provenance import Provenance
from optimiser.schema import Schema, refuse
from optimiser.units import bytes_of_gb, flops_of_tflops

KNOWN_RATES = ("fp32", "fp16", "fp8", "fp4", "int8")


class Gpu(Schema):
    """One accelerator, by its data sheet and its driver."""

    name: str = Field(min_length=1)
    """Name shown in reviews."""
    vendor: str | None = None
    """Maker."""
    memory_gb: float | None = Field(default=None, gt=0, le=1e6)
    """Memory in GB (1e9 bytes); give this or `memory_bytes`."""
    memory_bytes: int | None = Field(default=None, gt=0, le=10**15)
    """Memory in bytes, as the driver reports it."""
    bandwidth_gb_per_s: float = Field(gt=0, le=1e9)
    """Peak memory bandwidth, GB/s."""
    tflops: dict[str, float] = Field(min_length=1)
    """Dense peak per number format, TFLOP/s: `{fp16: 989, fp8: 1979}`; `bf16` counts as `fp16`."""
    has_bf16: bool = True
    """Whether 16-bit brain floats are supported."""
    link: str | None = None
    """What joins the GPUs of one node."""
    link_gb_per_s: float | None = Field(default=None, gt=0)
    """Link speed of one GPU in one direction, GB/s."""
    gpus_per_node: int | None = Field(default=None, gt=0)
    """Most GPUs joined in one node as usually sold."""
    latency_like: str | None = None
    """GPU of the catalogue whose measured constants stand in for this one's, as an estimate."""
    usd_per_hour: float | None = Field(default=None, gt=0, le=1e6)
    """Price of one GPU for an hour; a case's inline GPU states it, the catalogue has offers."""
    sources: dict[str, Provenance] = Field(default_factory=dict)
    """Source and date of each figure, by field name."""

    @model_validator(mode="after")
    def _says_its_memory_once(self) -> Self:
        if (self.memory_gb is None) == (self.memory_bytes is None):
            refuse("expected memory_gb or memory_bytes, one of the two")
        return self

    @model_validator(mode="after")
    def _rates_are_known(self) -> Self:
        unknown = [name for name in self.tflops if name not in {*KNOWN_RATES, "bf16"}]
        if unknown:
            refuse(f"tflops: unknown format {unknown[0]!r}, expected {', '.join(KNOWN_RATES)}")
        wrong = [name for name, rate in self.tflops.items() if not 0 < rate <= 1e9]
        if wrong:
            rate = self.tflops[wrong[0]]
            refuse(f"tflops.{wrong[0]}: found {rate!r}, expected a number greater than 0")
        return self

    @property
    def capacity_bytes(self) -> float:
        """Memory of one GPU, bytes."""
        if self.memory_bytes is not None:
            return float(self.memory_bytes)
        return bytes_of_gb(self.memory_gb or 0.0)

    @property
    def latency_name(self) -> str:
        """The GPU whose measured constants are used."""
        return self.latency_like or self.name

    def computes(self, fmt: Format) -> bool:
        """Whether the GPU has a figure for the arithmetic of a format."""
        return self._tflops(fmt.computes_in) is not None

    def flops_per_s(self, fmt: Format) -> float | None:
        """Peak for weights in a format, FLOP/s: its own rate, else the 16-bit one, else None."""
        rate = self._tflops(fmt.computes_in) or self._tflops("fp16")
        return None if rate is None else flops_of_tflops(rate)

    def _tflops(self, key: str) -> float | None:
        return self.tflops.get(key) or (self.tflops.get("bf16") if key == "fp16" else None)
