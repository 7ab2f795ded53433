"""The whole program of a fleet: its rows, its cuts, and what any solver makes of it."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import highspy
import numpy as np
import pulp
import pytest

from optimiser.errors import VerificationError
from optimiser.fleet_case import FleetCase
from optimiser.planning.cut_loop import Run
from optimiser.planning.cut_loop import search as cut_loop
from optimiser.planning.fleet import planner
from optimiser.planning.fleet.names import numbered
from optimiser.planning.fleet.pools import Fleet
from optimiser.planning.fleet.shared_pools import SharedPools
from optimiser.planning.fleet.solve_program import solve_program
from optimiser.planning.fleet.whole_rows import whole_cut, whole_loads, whole_units
from optimiser.planning.solvers.base import Solution, Status, solver
from tests.cli.running import ROOT
from tests.planning.fleet import drawn


def azure() -> FleetCase:
    """The shipped fleet on the roofline, which is quicker to plan."""
    settings = ["assumptions.latency=ideal", "assumptions.efficiency=0.7"]
    return FleetCase.load(ROOT / "cases" / "fleet-azure.yaml", settings)


def settled(fleet: Fleet) -> SharedPools:
    """A fleet's program with every cut that its optimum took."""
    program = SharedPools(fleet, numbered(fleet))
    cut_loop(program, Run(solver("cp-sat")))
    return program


def holds(program: SharedPools, values: dict[str, int]) -> bool:
    """Whether whole values meet every row."""
    for row in program.problem.constraints():
        left = row.constant + sum(c * values[v.name] for v, c in row.items())
        if (row.sense <= 0 and left > 0) or (row.sense >= 0 and left < 0):
            return False
    return True


@pytest.mark.parametrize("seed", range(16))
def test_no_cut_excludes_a_fleet_that_serves_all(seed: int) -> None:
    fleet = replace(drawn.twisted(seed, drawn.fleet(seed)), slices=None)
    program, tried = settled(fleet), 0
    for count in product(range(4), repeat=len(fleet.pools)):
        replicas = np.array(count)
        if not (drawn.fits(fleet, replicas) and drawn.carries(fleet, replicas)):
            continue
        if fleet.spare and (replicas == 1).any():
            continue  # a pool of spare replicas alone is not open
        values = {f"replicas_p{p}": n for p, n in enumerate(count)}
        values |= {f"open_p{p}": int(n > 0) for p, n in enumerate(count)}
        units = drawn.rented(fleet, replicas)
        values |= {f"instances_r{o}": n for o, n in enumerate(units)}
        assert holds(program, values), count
        tried += 1
    assert tried or program.fleet.stock_most.size or fleet.most_pools or fleet.most_spot_frac == 0


@pytest.mark.parametrize("seed", range(24))
def test_every_coefficient_is_whole_and_every_variable_bounded(seed: int) -> None:
    program = settled(drawn.twisted(seed, drawn.fleet(seed)))
    for row in program.problem.constraints():
        assert all(coefficient == int(coefficient) for coefficient in row.values())
        assert row.constant == int(row.constant)
    for variable in program.problem.variables():
        assert variable.cat == pulp.LpInteger
        assert variable.upBound is not None


@pytest.mark.parametrize("solver_name", ["fleet", "cp-sat", "highs", "cbc"])
def test_anyones_solver_finds_the_optimum_of_a_saved_fleet(
    tmp_path: Path, solver_name: str
) -> None:
    case, path = azure(), tmp_path / "fleet.lp"
    outcome = planner.plan_fleet(case, solver_name=solver_name, save_lp=path)
    assert isinstance(outcome, planner.FleetPlanned)
    highs = highspy.Highs()
    highs.silent()
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("mip_rel_gap", 0.0)
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
    highs.run()
    found = highs.getInfo().objective_function_value
    assert found == pytest.approx(outcome.usd_per_hour, rel=1e-6)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert any("hardware.stock.h200" in line and "fleet-azure.yaml:" in line for line in lines)


def test_a_saved_program_says_where_cuts_are_missing(tmp_path: Path) -> None:
    case, path = azure(), tmp_path / "fleet.lp"
    outcome = planner.plan_fleet(case, solver_name="highs", time_limit_s=1e-6, save_lp=path)
    assert outcome.status == "undecided"
    assert "cuts are missing" in path.read_text(encoding="utf-8").splitlines()[1]


def test_an_answer_that_is_short_gets_the_replicas_that_it_lacks() -> None:
    # Two classes take 0.6 of a replica of the first pool each: one replica carries 5/6 of all
    # demand, so 1 / (5/6) = 1.2 of them carry it all: two.
    need = np.array([[[0.6, 0.6]], [[2.0, 2.0]]])
    fleet = replace(drawn.fleet(0, 2, 2), most_spot_frac=None)
    pools = replace(fleet.pools.of(np.array([0, 1])), need=need, able=need[:, 0] > 0)
    program = SharedPools(replace(fleet, pools=pools), numbered(replace(fleet, pools=pools)))
    assert program.agreed(np.array([1, 0])) is None
    assert program.repaired(np.array([1, 0])).tolist() == [2, 0]
    assert program.repaired(np.array([2, 0])).tolist() == [2, 0]
    assert program.repaired(np.array([0, 0])) is None
    assert program.cut_off(np.array([1, 0]))


def test_a_solver_that_runs_out_of_time_leaves_a_fleet_and_a_true_bound() -> None:
    fleet = drawn.fleet(2, n_classes=3, n_gpus=3, per_gpu=2)
    proved, _ = solve_program(fleet, numbered(fleet), "highs")
    real = solver("highs")

    def hasty(problem: pulp.LpProblem, limits: object) -> Solution:
        found = real(problem, limits)
        return Solution(Status.FEASIBLE, found.values, found.objective, found.bound)

    found = cut_loop(SharedPools(fleet, numbered(fleet)), Run(hasty))
    assert found.status is Status.FEASIBLE
    assert drawn.carries(fleet, found.answer)
    assert found.bound_nano_usd <= proved.usd_per_hour * 1e9 <= found.cost_nano_usd


def test_a_second_road_is_asked_and_must_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    case = azure()
    for name, second in (("fleet", "highs"), ("cp-sat", "highs"), ("highs", "fleet")):
        outcome = planner.plan_fleet(case, solver_name=name, cross_check=True)
        assert isinstance(outcome, planner.FleetPlanned)
        assert outcome.proof.cross_check == second
    real = planner.search
    dear = lambda fleet, limit: replace(  # noqa: E731
        real(fleet, limit), usd_per_hour=99.0, bound_usd_per_hour=99.0
    )
    monkeypatch.setattr(planner, "search", dear)
    with pytest.raises(VerificationError, match="exclude each other"):
        planner.plan_fleet(case, solver_name="highs", cross_check=True)


def test_classes_whose_names_differ_in_a_mark_have_rows_of_their_own() -> None:
    fleet = drawn.fleet(3)
    names = replace(numbered(fleet), classes=["a b", "a-b"])
    rows = [row.name for row in SharedPools(fleet, names).problem.constraints()]
    assert {"demand_a_b", "demand_a_b_1"} <= set(rows)
    assert SharedPools(replace(fleet, slices=1), names).problem.constraints()


def test_whole_coefficients_by_hand() -> None:
    # 2/3 and 1/4 of a replica: 8 and 3 of 12 parts
    assert whole_loads(np.array([2 / 3, 0.25])) == ([8, 3], 12)
    # a measured rate leaves room for the tolerance, and is the fraction that it stands for
    assert whole_loads(np.array([1.125 * (1 - 1e-9)])) == ([9], 8)
    # no simple fraction: of a billion steps, rounded up
    assert whole_loads(np.array([0.123456789123])) == ([123456790], 10**9)
    # 0.3 n + 0.71 m >= 0.9: 0.333... and 0.788... of 100 steps, rounded up
    assert whole_cut(np.array([0.3, 0.71]), 0.9, 100) == ([34, 79], 100)
    assert whole_units(0.125) * 8 == 1
    assert whole_units(1 / 3) * 3 == 1
