"""Round-up dives: solve the relaxation, raise a pool to whole replicas, solve again."""

import numpy as np

from optimiser.engine.replicas import Ints
from optimiser.planning.fleet.race import Race, round_up
from optimiser.planning.fleet.rows import INFINITE, table
from optimiser.planning.fleet.sift import Sifted
from optimiser.planning.fleet.solve_rows import continuous, run

MOST_STEPS = 400


def dive(race: Race, sifted: Sifted, pools: Ints) -> None:
    """One dive over some pools and those of the relaxation; offers what it ends with.

    The relaxation rounded up is offered first: dear, but at hand in no time.
    """
    chosen = np.unique(np.concatenate([pools, sifted.looked_at]))
    part = race.fleet.of(chosen)
    rows, columns = table(part, totals=False)
    highs = continuous(rows)
    low = np.zeros(len(chosen))
    high = np.full(len(chosen), INFINITE)

    def rounded() -> Ints:
        whole = np.zeros(len(race.fleet.pools), dtype=np.int64)
        whole[chosen] = round_up(replicas)
        return whole

    for number in range(MOST_STEPS):
        if number and race.over and not race.still_owes_a_fleet:
            return
        solved = run(highs)
        if solved.status != "optimal" or (solved.values[columns.short] > 1e-7).any():
            return
        replicas = solved.values[columns.replicas]
        if number == 0:
            race.offer(rounded())
        away = np.ceil(replicas - 1e-6) - replicas
        open_ = np.flatnonzero(np.abs(replicas - np.round(replicas)) > 1e-6)
        if len(open_) == 0:
            break
        # the least rounding first; whole parts of large pools come with it
        k = int(open_[np.argmin(away[open_])])
        old = low[k], high[k]
        low[k] = float(np.ceil(replicas[k] - 1e-6))
        highs.changeColBounds(int(columns.replicas[k]), low[k], high[k])
        tried = run(highs)
        if tried.status != "optimal" or (tried.values[columns.short] > 1e-7).any():
            low[k], high[k] = old[0], float(np.floor(replicas[k]))
            highs.changeColBounds(int(columns.replicas[k]), low[k], high[k])
    race.offer(rounded())
