"""The fleet side: dives, small programs, repairs of relaxed solutions, neighbourhoods."""

import time

import numpy as np

from optimiser.engine.replicas import Floats, Ints
from optimiser.planning.cut_loop import Run
from optimiser.planning.fleet.dive import dive
from optimiser.planning.fleet.names import numbered
from optimiser.planning.fleet.race import Race
from optimiser.planning.fleet.rows import table
from optimiser.planning.fleet.shared_pools import SharedPools
from optimiser.planning.fleet.sift import Sifted
from optimiser.planning.fleet.solve_rows import Ear, run_whole
from optimiser.planning.solvers.base import Status, solver
from optimiser.units import budget_nano_usd

SLICE_S = 2.0
"""Most seconds of one small program: fixed, since slices that grow with the limit find less."""
REPAIR_S = 4.0
WHOLE_S = 2.0
"""Most seconds of the whole program, which settles most fleets at once and the rest not at all."""
FEW, SOME = 40, 90
"""Pools of the two small programs, and of a neighbourhood."""
MANY = 500
"""Pools of the first long program: with fewer the best fleets are left out, and with many more the
solver is lost."""
WIDE_AFTER_S = 3.0
"""When it starts: most fleets are settled by then."""
WAIT_S = 0.05


def hunt(race: Race, sifted: Sifted) -> None:
    """Look for cheaper fleets until the race is over."""
    order = np.argsort(sifted.extra_usd, kind="stable")
    if race.enough_usd is not None:
        exclude_cheaper(race, sifted, WHOLE_S)
    dive(race, sifted, order[: 2 * SOME])
    within(race, order[:FEW], SLICE_S)
    within(race, order[:SOME], SLICE_S)
    exclude_cheaper(race, sifted, WHOLE_S)
    random = np.random.default_rng(0)
    repaired = -1
    fixed_frac = 0.5
    while not race.over:
        if race.relaxed is not None and race.n_relaxed != repaired:
            repaired = race.n_relaxed
            within(race, _with_own(race, race.relaxed), REPAIR_S)
        if race.replicas is None:
            within(race, order[: 3 * SOME], SLICE_S)
            continue
        used = np.flatnonzero(race.replicas)
        frac = fixed_frac + random.uniform(-0.2, 0.2)
        fixed = used[random.random(len(used)) < frac]
        size = int(random.integers(FEW, 2 * SOME))
        near = _with_own(race, order[:size])
        found, ended = within(race, near, SLICE_S, fixed)
        if ended and not found:
            fixed_frac = max(0.2, fixed_frac - 0.02)
        elif not ended:
            fixed_frac = min(0.8, fixed_frac + 0.02)


def look_widely(race: Race, sifted: Sifted) -> None:
    """One program of many pools for as long as it takes, where slices of seconds end too soon."""
    order = np.argsort(sifted.extra_usd, kind="stable")
    while not race.over and (race.replicas is None or race.age_s < WIDE_AFTER_S):
        time.sleep(WAIT_S)
    size = MANY
    while not race.over:
        within(race, _with_own(race, order[:size]), race.left_s)
        if size >= len(order):
            return
        size *= 2


def exclude_cheaper(race: Race, sifted: Sifted, seconds: float) -> None:
    """Look for a cheaper fleet in the whole program of all pools that one could use.

    Cheaper than the fleet at hand, and as cheap as what is enough. Where the program has no
    solution, it is proved that there is none.
    """
    most_usd = race.upper_usd - race.step_usd
    if race.enough_usd is not None:
        most_usd = min(most_usd, race.enough_usd)
    if not np.isfinite(most_usd) or race.fleet.slices is not None or race.over:
        return
    none_usd = min(race.upper_usd, most_usd + race.step_usd / 2)
    kept = np.flatnonzero(sifted.extra_usd <= most_usd - sifted.bound_usd + 1e-9)
    part = race.fleet.of(kept)
    if not part.pools.able.any(axis=0).all():
        race.prove(none_usd)
        return
    program = SharedPools(part, numbered(part), first_prices=sifted.value)
    program.limit_cost("cheaper", budget_nano_usd(most_usd))
    deadline = time.perf_counter() + min(seconds, race.left_s)
    run = Run(solver("cp-sat"), deadline=deadline)
    while not race.over:
        solution = run.call(program)
        if solution.status is Status.INFEASIBLE:
            race.prove(none_usd)
        elif solution.bound is not None:
            race.prove(min(solution.bound, none_usd))
        if not solution.values:
            return
        replicas = program.answer(solution.values)
        whole = np.zeros(len(race.fleet.pools), dtype=np.int64)
        whole[kept] = replicas
        if race.offer(whole) or not program.cut_off(replicas):
            return


def _with_own(race: Race, pools: Ints) -> Ints:
    own = [] if race.replicas is None else [np.flatnonzero(race.replicas)]
    return np.unique(np.concatenate([pools, *own]))


def within(
    race: Race,
    pools: Ints,
    seconds: float,
    fixed: Ints | None = None,
) -> tuple[bool, bool]:
    """The cheapest fleet of some pools that beats the one at hand.

    `fixed`: pools that keep at least their replicas. Returns whether one was found, and whether
    the program was solved to its end.
    """
    if race.over:
        return False, False
    part = race.fleet.of(pools)
    rows, columns = table(part, totals=True)
    if fixed is not None and race.replicas is not None:
        for i in np.flatnonzero(np.isin(pools, fixed)):
            rows.low[columns.replicas[i]] = float(race.replicas[pools[i]])
    rows.serve_all(columns)
    if np.isfinite(race.upper_usd):
        rows.cost_at_most(columns, race.step_usd, race.upper_usd - race.step_usd)
    found = False

    def heard(_: float, values: Floats) -> None:
        nonlocal found
        whole = np.zeros(len(race.fleet.pools), dtype=np.int64)
        whole[pools] = np.round(values[columns.replicas]).astype(np.int64)
        shares = np.zeros((len(race.fleet.pools), race.fleet.n_classes))
        shares[pools] = columns.shares(values, len(pools), race.fleet.n_classes)
        found |= race.offer(whole, shares)

    ear = Ear(values=heard, stop=lambda: race.over)
    solved = run_whole(rows, columns.whole, ear, seconds=min(seconds, race.left_s))
    if len(solved.values):
        heard(0.0, solved.values)
    return found, solved.status != "stopped"
