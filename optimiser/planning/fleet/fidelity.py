"""The pools of classes in the fidelity that their case asks for."""

from collections.abc import Sequence

from optimiser.engine.replicas import Floats, Ints
from optimiser.planning.fleet import measured_shares, shares
from optimiser.planning.fleet.grid import pool_grid
from optimiser.planning.fleet.measured_grid import Grid, alone_grid, mixed_grid
from optimiser.planning.fleet.pools import Bools
from optimiser.planning.fleet.shares import Offered


def pools_worth_considering(
    offered: Sequence[Offered], most: Ints, alone: bool
) -> tuple[Grid, Floats, Bools]:
    """The pools, what each class takes of them, and who may use them.

    `most`: largest batch on each configuration. `alone`: the case has one class only.
    """
    if offered[0].latency is None:
        grid = Grid(*pool_grid(offered, most, alone))
        return grid, *shares.shares(
            offered, grid.configuration, grid.step_s, grid.most_batch, alone
        )
    if alone:
        grid = alone_grid(offered[0])
        return grid, *measured_shares.shares_alone(offered[0], grid)
    grid = mixed_grid(offered)
    return grid, *measured_shares.measured_shares(offered, grid)


def resources_of(is_measured: bool) -> list[str]:
    """Names of what a class takes of a pool."""
    return list(measured_shares.RESOURCES if is_measured else shares.RESOURCES)
