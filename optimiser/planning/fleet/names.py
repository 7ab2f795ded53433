"""What the pools, classes, rentals, stocks and resources of a fleet are called."""

from collections.abc import Sequence
from dataclasses import dataclass

from optimiser.planning.fleet.pools import Fleet


@dataclass(frozen=True, slots=True)
class Names:
    """A name for each, in the order of the fleet's arrays."""

    pools: Sequence[str]
    classes: Sequence[str]
    rentals: Sequence[str]
    stocks: Sequence[str]
    """Fields of the case, such as `hardware.stock.l4`."""
    resources: Sequence[str]


def numbered(fleet: Fleet) -> Names:
    """Names by number."""
    return Names(
        pools=[f"p{i}" for i in range(len(fleet.pools))],
        classes=[f"c{i}" for i in range(fleet.n_classes)],
        rentals=[f"r{i}" for i in range(len(fleet.unit_nano_usd))],
        stocks=[f"s{i}" for i in range(len(fleet.stock_most))],
        resources=[f"resource{i}" for i in range(fleet.pools.need.shape[1])],
    )
