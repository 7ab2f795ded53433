"""What can be deployed, in domain words."""

from dataclasses import dataclass

from optimiser.catalogue.gpu import Gpu


@dataclass(frozen=True, slots=True)
class Configuration:
    """The discrete choices of one replica."""

    weights: str
    kv_cache: str
    kv_heads: int
    gpu: Gpu
    tensor_parallel: int

    @property
    def label(self) -> str:
        """The choices in one line, such as `fp16 weights, int8 cache, 8 KV heads, l4 x 2`."""
        return (
            f"{self.weights} weights, {self.kv_cache} cache, {self.kv_heads} KV heads, "
            f"{self.gpu.name} x {self.tensor_parallel}"
        )


@dataclass(frozen=True, slots=True)
class Design:
    """A configuration, its batch and how many replicas of it run."""

    configuration: Configuration
    batch: int
    replicas: int

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.replicas * self.configuration.tensor_parallel
