"""What can be deployed, in domain words."""

from dataclasses import dataclass

from optimiser.catalogue.gpu import Gpu
from optimiser.names import count
from optimiser.planning.rental import Rental


@dataclass(frozen=True, slots=True)
class Configuration:
    """The discrete choices of one replica."""

    weights: str
    kv_cache: str
    kv_heads: int
    gpu: Gpu
    tensor_parallel: int
    rental: Rental

    @property
    def label(self) -> str:
        """The choices in one line, such as `fp16 weights, int8 cache, 8 KV heads, l4 x 2`."""
        return (
            f"{self.weights} weights, {self.kv_cache} cache, {count(self.kv_heads, 'KV head')}, "
            f"{self.gpu.name} x {self.tensor_parallel}"
        )


def fixed_levers(weights: str, kv_cache: str, kv_heads: int) -> dict[str, object]:
    """Changes that fix a case's formats and KV heads; some models have no KV heads to fix."""
    return {
        "levers.weights": weights,
        "levers.kv_cache": kv_cache,
        "levers.kv_heads": kv_heads or None,
    }


@dataclass(frozen=True, slots=True)
class Design:
    """A configuration, its batch and how many replicas of it run."""

    configuration: Configuration
    batch: int
    replicas: int

    @property
    def gpus(self) -> int:
        """GPUs that the replicas run on."""
        return self.replicas * self.configuration.tensor_parallel

    @property
    def label(self) -> str:
        """The design in one line."""
        replicas = count(self.replicas, "replica")
        return f"{replicas} of {self.configuration.label}, batch {self.batch}"

    @property
    def units(self) -> int:
        """Priced units: instances of an offer, or replicas where each GPU is priced alone."""
        chosen = self.configuration
        return -(-self.replicas // chosen.rental.replicas_per_unit(chosen.tensor_parallel))

    @property
    def rented_gpus(self) -> int:
        """GPUs that are paid for: those of whole instances, idle ones included."""
        chosen = self.configuration
        return self.units * chosen.rental.gpus_per_unit(chosen.tensor_parallel)

    @property
    def nano_usd_per_hour(self) -> int:
        """Cost in whole nano-dollars."""
        chosen = self.configuration
        return self.units * chosen.rental.nano_usd_per_unit(chosen.tensor_parallel)
