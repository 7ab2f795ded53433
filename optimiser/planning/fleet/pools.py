"""A fleet to plan, as plain arrays: what may be rented and what each class takes of it."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optimiser.engine.replicas import Floats, Ints
from optimiser.units import usd

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pools:
    """One row a pool: replicas of one configuration that run at one step time."""

    need: Floats
    """Replicas that the whole demand of a class takes of a resource, shape (n_pools, n_resources,
    n_classes); 0 where the class may not use the pool."""
    able: Bools
    """Whether a class may use a pool, shape (n_pools, n_classes)."""
    configuration: Ints
    """What the replicas of a pool are; neighbours in step time share it."""
    step: Floats
    """Step time, to tell neighbours by."""
    rental: Ints
    """How the replicas are rented."""
    units: Floats
    """Units of that rental that one replica takes."""

    def __len__(self) -> int:
        return len(self.rental)

    def of(self, index: Ints | Bools) -> "Pools":
        """Some of the pools."""
        return Pools(
            self.need[index],
            self.able[index],
            self.configuration[index],
            self.step[index],
            self.rental[index],
            self.units[index],
        )


@dataclass(frozen=True, slots=True)
class Fleet:
    """Pools to choose among, prices and limits."""

    pools: Pools
    unit_nano_usd: Ints
    """Price of a unit of each rental for an hour; units are rented whole."""
    stock_use: Floats
    """What one unit of a rental takes of a limited stock, shape (n_stocks, n_rentals)."""
    stock_most: Floats
    """How much there is of each."""
    demand: Floats
    """Requests per second of each class, for the share that spot serves."""
    spot: Bools
    """Whether a rental may be taken back at any time."""
    most_spot_frac: float | None = None
    """Largest share of all requests that spot replicas may serve."""
    most_pools: int | None = None
    """Most different pools."""
    spare: int = 0
    """Replicas that each open pool has beside those that its traffic needs."""
    slices: int | None = None
    """Equal parts of each class that are each served by one pool; None where any share may be."""

    least_replicas: int = 0
    """Fewest replicas in all."""

    @property
    def n_classes(self) -> int:
        """Classes of traffic."""
        return len(self.demand)

    @property
    def replica_usd(self) -> Floats:
        """What a replica of each pool costs an hour as its share of the rented units, dollars."""
        return self.pools.units * usd(1) * self.unit_nano_usd[self.pools.rental]

    @property
    def replica_stock(self) -> Floats:
        """What a replica of each pool takes of each stock, shape (n_pools, n_stocks)."""
        taken = self.stock_use[:, self.pools.rental] * self.pools.units
        return np.asarray(taken.T)

    @property
    def step_usd(self) -> float:
        """Every fleet costs a whole multiple of this."""
        prices = [int(price) for price in np.unique(self.unit_nano_usd)]
        return usd(math.gcd(*prices))

    @property
    def counts_pools(self) -> bool:
        """Whether it matters which pools are open, beside how many replicas they have."""
        return self.most_pools is not None or self.spare > 0

    def of(self, index: Ints | Bools) -> "Fleet":
        """The fleet with some of its pools."""
        return replace(self, pools=self.pools.of(index))

    def cost_nano_usd(self, replicas: Ints) -> int:
        """Cost of so many replicas of each pool, whole units rented."""
        return int(self.units_rented(replicas) @ self.unit_nano_usd)

    def units_rented(self, replicas: Ints) -> Ints:
        """Whole units of each rental that hold so many replicas of each pool."""
        taken = np.bincount(
            self.pools.rental, self.pools.units * replicas, minlength=len(self.unit_nano_usd)
        )
        return np.asarray(np.ceil(taken - 1e-9).astype(np.int64))

    def within_limits(self, replicas: Ints) -> bool:
        """Whether stock and the number of pools allow so many replicas."""
        taken = self.stock_use @ self.units_rented(replicas)
        if (taken > self.stock_most * (1 + 1e-9)).any():
            return False
        if replicas.sum() < self.least_replicas:
            return False
        return self.most_pools is None or int(np.count_nonzero(replicas)) <= self.most_pools
