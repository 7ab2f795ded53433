"""How the replicas of pools are rented: units that are whole, and the stocks they draw on."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from optimiser.catalogue.gpu import Gpu
from optimiser.engine.replicas import Floats, Ints
from optimiser.fleet_case import FleetCase
from optimiser.planning.rental import Rental, undominated, ways_to_rent


def choices(case: FleetCase, gpu: Gpu, size: int) -> tuple[Rental, ...]:
    """The ways to rent a GPU type that are worth considering for replicas of a size.

    Where spot may serve only a share of the traffic, on-demand is kept beside it.
    """
    limits = case.limits
    counts = limits.most_gpus is not None or gpu.name in (case.hardware.stock or {})
    found = ways_to_rent(case.hardware, gpu, case.offers(gpu))
    if limits.most_spot_frac is None:
        return undominated(found, size, counts)
    by_term = [tuple(r for r in found if r.term == term) for term in ("on-demand", "spot")]
    return tuple(rental for part in by_term for rental in undominated(part, size, counts))


@dataclass(slots=True)
class Rented:
    """The rentals of a fleet as they are gathered."""

    keys: dict[tuple[str, str, str, int], int] = field(default_factory=dict)
    gpus: list[str] = field(default_factory=list)
    rentals: list[Rental] = field(default_factory=list)

    def of(self, gpu: str, rental: Rental, size: int) -> tuple[int, float]:
        """The rental's place and the units of it that a replica of so many GPUs takes.

        Sizes that divide the instance pack without loss, whichever pools they are of; any other
        size has instances of its own.
        """
        alone = rental.offer is None
        shares_units = alone or (rental.gpus % size == 0 and size & (size - 1) == 0)
        name = rental.offer.name if rental.offer else ""
        key = (gpu, name, rental.term, 0 if shares_units else size)
        if key not in self.keys:
            self.keys[key] = len(self.rentals)
            self.gpus.append(gpu)
            self.rentals.append(rental)
        units = float(size) if alone else 1.0 / rental.replicas_per_unit(size)
        return self.keys[key], units

    @property
    def unit_nano_usd(self) -> Ints:
        """Price of a unit of each."""
        return np.array([rental.nano_usd_per_hour for rental in self.rentals], dtype=np.int64)

    @property
    def unit_gpus(self) -> Ints:
        """GPUs of a unit of each."""
        return np.array([rental.gpus for rental in self.rentals], dtype=np.int64)

    @property
    def spot(self) -> list[bool]:
        """Whether each may be taken back."""
        return [rental.term == "spot" for rental in self.rentals]

    @property
    def names(self) -> list[str]:
        """A name for each."""
        found: list[str] = []
        for gpu, rental in zip(self.gpus, self.rentals, strict=True):
            offer = f"_{rental.offer.name}_{rental.term}" if rental.offer else ""
            found.append(f"{len(found)}_{gpu}{offer}")
        return found

    def stocks(self, case: FleetCase) -> tuple[Floats, Floats, list[str]]:
        """What a unit of each rental takes of each limited stock, how much there is, the fields."""
        use, most, names = [], [], []
        for gpu, count in (case.hardware.stock or {}).items():
            use.append([r.gpus if g == gpu else 0 for g, r in self._each])
            most.append(float(count))
            names.append(f"hardware.stock.{gpu}")
        if case.limits.most_gpus is not None:
            use.append([rental.gpus for rental in self.rentals])
            most.append(float(case.limits.most_gpus))
            names.append("limits.most_gpus")
        shape = (len(use), len(self.rentals))
        return np.array(use, dtype=float).reshape(shape), np.array(most), names

    @property
    def _each(self) -> Sequence[tuple[str, Rental]]:
        return list(zip(self.gpus, self.rentals, strict=True))
