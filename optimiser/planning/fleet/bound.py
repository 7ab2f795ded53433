"""The bound side: ever less relaxed programs over clusters of pools, until one is exact."""

import numpy as np

from optimiser.engine.replicas import Floats, Ints
from optimiser.planning.fleet.cluster import Clusters, cluster
from optimiser.planning.fleet.race import Race
from optimiser.planning.fleet.rows import Columns, table
from optimiser.planning.fleet.sift import Sifted
from optimiser.planning.fleet.solve_rows import Ear, run_whole

FIRST_CAP_FRAC = 0.06
"""Pools that would cost more than this beyond the bound wait until the bound gets there."""


def prove(race: Race, sifted: Sifted) -> None:
    """Raise the race's bound until it meets the cheapest fleet, or the time is over."""
    cap_frac = FIRST_CAP_FRAC
    while not race.over:
        to_beat = race.upper_usd - race.step_usd - sifted.bound_usd
        cut = min(to_beat, cap_frac * sifted.bound_usd)
        kept = np.flatnonzero(sifted.extra_usd <= max(cut, 0.0) + 1e-9)
        valid_to = sifted.bound_usd + cut
        is_all = len(kept) == len(race.fleet.pools)
        if is_all:
            valid_to = np.inf
        elif cut == to_beat:
            # a fleet with any other pool is no cheaper than the one at hand
            valid_to = race.upper_usd
        part = race.fleet.of(kept)
        joined = cluster(part, sifted, sifted.extra_usd[kept])
        _refine(race, joined, kept, valid_to)
        cap_frac *= 2


def _refine(race: Race, joined: Clusters, kept: Ints, valid_to: float) -> None:
    """Solve, split the clusters that the solution uses, solve again, up to where it is valid."""
    target: float | None = None
    while not race.over and race.lower_usd < valid_to - 1e-9:
        rows, columns = table(joined.fleet, totals=True)
        solved = run_whole(
            rows,
            columns.whole,
            _ear(race, joined, columns, kept, valid_to),
            seconds=race.left_s,
            target=target,
            presolve=False,
        )
        race.prove(min(solved.bound, valid_to))
        if race.over or not len(solved.values):
            return
        is_short = bool((solved.values[columns.short] > 1e-6).any())
        if is_short and solved.status == "optimal":
            if valid_to == np.inf:
                race.is_infeasible = True
            race.prove(min(solved.bound, valid_to))
            return
        n_pools, n_classes = len(joined.members), joined.fleet.n_classes
        replicas = solved.values[columns.replicas]
        used = np.flatnonzero(replicas > 0.5)
        if all(len(joined.members[k]) == 1 for k in used):
            _offer(race, joined, replicas, kept)
            if target is None or solved.status == "optimal":
                return
            target = None
            continue
        shares = columns.shares(solved.values, n_pools, n_classes)
        joined = joined.split(used, shares, replicas)
        target = race.lower_usd + race.step_usd / 20


def _offer(race: Race, joined: Clusters, replicas: Floats, kept: Ints) -> None:
    whole = np.zeros(len(race.fleet.pools), dtype=np.int64)
    for k in np.flatnonzero(replicas > 0.5):
        whole[kept[joined.members[k][0]]] = round(float(replicas[k]))
    race.offer(whole)


def _ear(race: Race, joined: Clusters, columns: Columns, kept: Ints, valid_to: float) -> Ear:
    def heard(_: float, values: Floats) -> None:
        if (values[columns.short] > 1e-6).any():
            return
        replicas = values[columns.replicas]
        used = np.flatnonzero(replicas > 0.5)
        race.relax(kept[np.concatenate([joined.members[k] for k in used])])
        if all(len(joined.members[k]) == 1 for k in used):
            _offer(race, joined, replicas, kept)

    return Ear(
        bound=lambda bound: race.prove(min(bound, valid_to)),
        values=heard,
        stop=lambda: race.over or race.lower_usd >= valid_to,
    )
