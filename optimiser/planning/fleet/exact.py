"""The exact worth of a few pools, by one linear program of many small blocks."""

import numpy as np

from optimiser.engine.replicas import Floats
from optimiser.planning.fleet.pools import Pools
from optimiser.planning.fleet.pricing import bound_of
from optimiser.planning.fleet.rows import INFINITE, Table
from optimiser.planning.fleet.solve_rows import continuous, run


def exact_worth(pools: Pools, value: Floats) -> Floats:
    """What one replica of each pool is worth, proved by the program's own multipliers.

    Still an upper bound where the solver's duals are off by its tolerance.
    """
    u = np.where(pools.able, value, 0.0)
    n_pools, n_resources, _ = pools.need.shape
    table = Table()
    rows = np.zeros((n_pools, n_resources), dtype=np.int64)
    for p in range(n_pools):
        classes = np.flatnonzero(u[p] > 0)
        columns = table.columns(-u[p, classes], 0.0, 1.0)
        for r in range(n_resources):
            need = pools.need[p, r, classes]
            rows[p, r] = table.row(columns.tolist(), need.tolist(), -INFINITE, 1.0)
    duals = run(continuous(table)).row_duals
    return bound_of(pools, u, -duals[rows])
