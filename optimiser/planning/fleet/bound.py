"""The bound side: ever less relaxed programs over clusters of pools, until one is exact."""

import time
from collections.abc import Callable

import numpy as np

from optimiser.engine.replicas import Floats, Ints
from optimiser.planning.fleet.cluster import Clusters, apart, cluster
from optimiser.planning.fleet.race import Race
from optimiser.planning.fleet.rows import Columns, table
from optimiser.planning.fleet.sift import Sifted
from optimiser.planning.fleet.solve_rows import EXACT, RELAXED, Ear, Solved, run_whole

FIRST_CAP_FRAC = 0.06
"""Pools that would cost more than this beyond the bound wait until the bound gets there."""


FEW = 300
"""Pools that need no clusters: their exact program is solved as soon."""
SOME = 1200
"""Pools whose exact program is solved once their clusters are, in place of splitting those."""
RESTART_S = 4.0
"""Youngest a program may be to go on with the fleet that it was built to beat, once a much cheaper
one is found: with fewer pools and a lower cost to beat, a new one is done sooner."""
RESTART_FRAC = 0.7


def prove(race: Race, sifted: Sifted) -> None:
    """Raise the race's bound until it meets the cheapest fleet, or the time is over."""
    cap_frac = FIRST_CAP_FRAC
    while not race.over:
        # the cheapest fleet's own pools stay, so that every program built here has a solution
        to_beat = race.upper_usd - sifted.bound_usd
        cut = min(to_beat, cap_frac * sifted.bound_usd)
        kept = np.flatnonzero(sifted.extra_usd <= max(cut, 0.0) + 1e-9)
        valid_to = sifted.bound_usd + cut
        is_all = len(kept) == len(race.fleet.pools)
        if is_all:
            valid_to = np.inf
        elif cut == to_beat:
            # a fleet with any other pool is dearer than the one at hand
            valid_to = race.upper_usd
        part = race.fleet.of(kept)
        few = len(kept) <= FEW
        joined = apart(part) if few else cluster(part, sifted, sifted.extra_usd[kept])
        if not _refine(race, joined, kept, valid_to):
            return
        if race.lower_usd >= valid_to - 1e-9:
            cap_frac *= 2


def _refine(race: Race, joined: Clusters, kept: Ints, valid_to: float) -> bool:
    """Solve, split the clusters that the solution uses, solve again, up to where it is valid.

    Returns False where an exact solution holds only to the solver's tolerance: no more is known.
    """
    target: float | None = None
    while not race.over and race.lower_usd < valid_to - 1e-9:
        rows, columns = table(joined.fleet, totals=not joined.is_exact)
        rows.serve_all(columns)
        beaten, own = race.at_hand
        if np.isfinite(beaten) and not joined.is_exact:
            rows.cost_at_most(columns, race.step_usd, beaten)
        up_to = min(valid_to, beaten)
        solved = run_whole(
            rows,
            columns.whole,
            _ear(race, joined, columns, kept, up_to, _restart(race, joined.is_exact)),
            seconds=race.left_s,
            target=target,
            # presolve would substitute the totals away
            presolve=joined.is_exact,
            tolerance=EXACT if joined.is_exact else RELAXED,
        )
        if solved.status == "infeasible":
            # with a fleet at hand that meets every row, the solver has lost its way: no proof
            if own is not None and np.isin(own, kept).all():
                return False
            race.is_infeasible = not np.isfinite(valid_to)
            race.prove(valid_to)
            return True
        if np.isfinite(solved.bound):
            race.prove(min(solved.bound, up_to))
        is_open = solved.status == "stopped" and not _reached(solved, target)
        if race.over or not len(solved.values) or is_open:
            return True
        replicas = solved.values[columns.replicas]
        used = np.flatnonzero(replicas > 0.5)
        shares = columns.shares(solved.values, len(joined.members), joined.fleet.n_classes)
        if all(len(joined.members[k]) == 1 for k in used):
            _offer(race, joined, replicas, shares, kept)
            if solved.status == "optimal":
                return race.upper_usd <= solved.objective + race.step_usd / 2
            target = None
            continue
        if len(kept) <= SOME:
            # the clusters have given their bound: what is left is to find or exclude its fleet
            joined, target = apart(joined.of), None
            continue
        joined = joined.split(used, shares, replicas)
        target = race.lower_usd + race.step_usd / 20
    return True


def _reached(solved: Solved, target: float | None) -> bool:
    return target is not None and solved.objective <= target


def _restart(race: Race, is_exact: bool) -> Callable[[], bool]:
    """Whether a program built now had better be built anew."""
    if is_exact:
        return lambda: False
    built, gap = time.perf_counter(), race.upper_usd - race.lower_usd

    def asked() -> bool:
        if time.perf_counter() - built > RESTART_S:
            return False
        return race.upper_usd - race.lower_usd < RESTART_FRAC * gap

    return asked


def _offer(race: Race, joined: Clusters, replicas: Floats, shares: Floats, kept: Ints) -> None:
    whole = np.zeros(len(race.fleet.pools), dtype=np.int64)
    routed = np.zeros((len(whole), race.fleet.n_classes))
    for k in np.flatnonzero(replicas > 0.5):
        pool = kept[joined.members[k][0]]
        whole[pool], routed[pool] = round(float(replicas[k])), shares[k]
    race.offer(whole, routed)


def _ear(
    race: Race,
    joined: Clusters,
    columns: Columns,
    kept: Ints,
    up_to: float,
    restart: Callable[[], bool],
) -> Ear:
    def heard(_: float, values: Floats) -> None:
        replicas = values[columns.replicas]
        used = np.flatnonzero(replicas > 0.5)
        race.relax(kept[np.concatenate([joined.members[k] for k in used])])
        if all(len(joined.members[k]) == 1 for k in used):
            shares = columns.shares(values, len(joined.members), joined.fleet.n_classes)
            _offer(race, joined, replicas, shares, kept)

    return Ear(
        # an empty tree reads as inf before the solver has looked at its solutions
        bound=lambda bound: race.prove(min(bound, up_to)) if np.isfinite(bound) else None,
        values=heard,
        stop=lambda: race.over or race.lower_usd >= up_to or restart(),
    )
