"""What a GPU costs: by the GPU, or by the whole instance of an offer."""

from collections.abc import Sequence
from dataclasses import dataclass

from optimiser.case import Case
from optimiser.case_sections import Hardware
from optimiser.catalogue.gpu import Gpu
from optimiser.catalogue.offer import Offer, Term
from optimiser.units import nano_usd

GPUS_PER_NODE = 8
"""GPUs that share a node where neither the GPU nor an offer says otherwise."""


@dataclass(frozen=True, slots=True)
class Rental:
    """One way to rent a GPU type."""

    nano_usd_per_hour: int
    """Price of `gpus` GPUs."""
    gpus: int
    """GPUs that are rented together: 1 where each is priced alone."""
    node: int
    """Most GPUs that one replica may span."""
    offer: Offer | None = None
    term: Term = "on-demand"

    def replicas_per_unit(self, tensor_parallel: int) -> int:
        """Replicas that one priced unit holds; GPUs left over stay idle."""
        return max(1, self.gpus // tensor_parallel)

    def nano_usd_per_unit(self, tensor_parallel: int) -> int:
        """Price of one unit: the instance, or the GPUs of one replica."""
        alone = self.offer is None
        return self.nano_usd_per_hour * tensor_parallel if alone else self.nano_usd_per_hour

    def gpus_per_unit(self, tensor_parallel: int) -> int:
        """GPUs that one unit is charged for."""
        return tensor_parallel if self.offer is None else self.gpus


def rentals(case: Case, gpu: Gpu) -> tuple[Rental, ...]:
    """The ways that a case allows to rent a GPU: its own price, the GPU's, or the offers."""
    return ways_to_rent(case.hardware, gpu, case.offers(gpu))


def ways_to_rent(hardware: Hardware, gpu: Gpu, offers: Sequence[Offer]) -> tuple[Rental, ...]:
    """The ways to rent a GPU: the hardware's own price, the GPU's, or the offers."""
    node = gpu.gpus_per_node or GPUS_PER_NODE
    price = hardware.usd_per_gpu_hour or gpu.usd_per_hour
    if price is not None:
        return (Rental(nano_usd(price), 1, node),)
    found = []
    for offer in offers:
        for term in hardware.offers.terms:
            usd_per_hour = offer.price(term)
            if usd_per_hour is not None:
                size = offer.gpus_per_instance
                found.append(Rental(nano_usd(usd_per_hour), size, size, offer, term))
    return tuple(found)


def undominated(
    choices: tuple[Rental, ...], tensor_parallel: int, count_gpus: bool
) -> tuple[Rental, ...]:
    """The rentals worth considering for replicas of a size.

    One is dominated where, for any number of replicas, another costs no more: its price times the
    units that replace one unit is no higher, and with `count_gpus` neither are its GPUs. Among
    equals the first stays.
    """
    kept: list[Rental] = []
    for choice in choices:
        if choice.node < tensor_parallel:
            continue
        if any(_replaces(other, choice, tensor_parallel, count_gpus) for other in kept):
            continue
        kept = [k for k in kept if not _replaces(choice, k, tensor_parallel, count_gpus)]
        kept.append(choice)
    return tuple(kept)


def _replaces(other: Rental, one: Rental, tensor_parallel: int, count_gpus: bool) -> bool:
    held = one.replicas_per_unit(tensor_parallel)
    units = -(-held // other.replicas_per_unit(tensor_parallel))
    price = other.nano_usd_per_unit(tensor_parallel) * units
    gpus = other.gpus_per_unit(tensor_parallel) * units
    no_dearer = price <= one.nano_usd_per_unit(tensor_parallel)
    return no_dearer and (not count_gpus or gpus <= one.gpus_per_unit(tensor_parallel))
