"""Between which values the least stock, or the most traffic, of a fleet must lie: one program each.

What they find only narrows a search: every value is then asked for by itself.
"""

import math

import numpy as np

from optimiser.planning.fleet.pools import Fleet
from optimiser.planning.fleet.rows import Columns, Table, table
from optimiser.planning.fleet.solve_rows import Solved, run_whole


def least_of_stock(
    fleet: Fleet, most_usd: float | None, use: np.ndarray, seconds: float
) -> tuple[int, int] | None:
    """The least of a stock that serves all demand lies from one number to the other.

    `use`: what a unit of each rental takes of it, shape (n_rentals,). None where nothing is known.
    """
    rows, columns = table(fleet, totals=False)
    rows.serve_all(columns)
    if most_usd is not None:
        rows.within_budget(columns, most_usd)
    solved = _minimised(rows, columns, dict(zip(columns.units.tolist(), use, strict=True)), seconds)
    if not len(solved.values):
        return None
    return math.ceil(solved.bound - 1e-6), round(solved.objective)


def most_of_demand(
    fleet: Fleet, most_usd: float | None, classes: list[int], seconds: float
) -> tuple[float, float] | None:
    """The largest share of the demand of some classes together lies between two.

    All of every other class is served. None where nothing is known.
    """
    if fleet.slices is not None or fleet.most_spot_frac is not None:
        return None  # whole slices, and spot's share, are of the demand that there is
    rows, columns = table(fleet, totals=False)
    if most_usd is not None:
        rows.within_budget(columns, most_usd)
    short = columns.short.tolist()
    for w in range(fleet.n_classes):
        if w not in classes:
            rows.high[short[w]] = 0.0
    for w in classes[1:]:
        rows.row([short[classes[0]], short[w]], [1.0, -1.0], 0.0, 0.0)
    solved = _minimised(rows, columns, {short[classes[0]]: 1.0}, seconds)
    if not len(solved.values):
        return None
    return 1 - solved.objective, 1 - max(solved.bound, 0.0)


def _minimised(rows: Table, columns: Columns, cost: dict[int, float], seconds: float) -> Solved:
    rows.cost = [float(cost.get(column, 0.0)) for column in range(len(rows.cost))]
    return run_whole(rows, columns.whole, seconds=max(seconds, 0.0))
