"""What a solver may say, what is believed of it, and what happens to one that lies."""

import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import pulp
import pytest

from optimiser import Case, Infeasible, Planned, Undecided, plan
from optimiser.catalogue.load import shipped
from optimiser.errors import SolverError, VerificationError
from optimiser.planning import planner
from optimiser.planning.build import build
from optimiser.planning.configurations import configurations
from optimiser.planning.cut_loop import Run, search
from optimiser.planning.solvers import cbc
from optimiser.planning.solvers.base import (
    Limits,
    Solution,
    Solve,
    Status,
    integer_objective,
    solver,
    whole_values,
)
from optimiser.planning.solvers.milp import solve_scaled
from optimiser.planning.verify import Verdict
from tests import oracle
from tests.strategies import case_of, draw_case, draw_real_case, fewer_gpus

SOLVERS = ("cp-sat", "highs", "cbc")


def chat_7b(*settings: str, name: str = "chat-7b") -> Case:
    return Case.load(shipped("cases") / f"{name}.yaml", settings)


def knapsack(prices: tuple[float, ...] = (0.3, 0.2), need: int = 7) -> pulp.LpProblem:
    """Cheapest x, y in 0 … 9 with 2 x + y >= need, 3 y >= x."""
    problem = pulp.LpProblem("small", pulp.LpMinimize)
    x = problem.add_variable("x", 0, 9, cat=pulp.LpInteger)
    y = problem.add_variable("y", 0, 9, cat=pulp.LpInteger)
    problem.setObjective(pulp.LpAffineExpression([(x, prices[0]), (y, prices[1])]))
    rows = (
        ("need", [(x, 2), (y, 1)], pulp.LpConstraintGE, need),
        ("mix", [(x, -1), (y, 3)], pulp.LpConstraintGE, 0),
    )
    for name, terms, sense, right in rows:
        expression = pulp.LpAffineExpression(terms)
        problem.addConstraint(pulp.LpConstraint(expression, sense, name, right))
    return problem


@pytest.mark.parametrize("name", SOLVERS)
def test_optimal(name: str) -> None:
    # x = 3, y = 1 costs 1.1; x = 2, y = 3 costs 1.2; x = 4, y = 2 costs 1.6
    found = solver(name)(knapsack(), Limits())
    assert found.status is Status.OPTIMAL
    assert found.values == {"x": 3, "y": 1}
    assert found.objective == pytest.approx(1.1, rel=1e-12)
    assert found.bound == pytest.approx(1.1, rel=1e-12)


@pytest.mark.parametrize("name", SOLVERS)
def test_infeasible(name: str) -> None:
    found = solver(name)(knapsack(need=28), Limits())  # 2 x 9 + 9 = 27
    assert found == Solution(Status.INFEASIBLE, {}, None, None)


@pytest.mark.parametrize("name", SOLVERS)
def test_infeasible_for_whole_numbers_only(name: str) -> None:
    problem = knapsack()
    x, y = problem.variables()
    expression = pulp.LpAffineExpression([(x, 2), (y, -2)])
    problem.addConstraint(pulp.LpConstraint(expression, pulp.LpConstraintEQ, "odd", 1))
    assert solver(name)(problem, Limits()).status is Status.INFEASIBLE


@pytest.mark.parametrize("name", SOLVERS)
def test_equalities_and_upper_limits(name: str) -> None:
    problem = knapsack()
    x, y = problem.variables()
    for row, terms, sense, right in (
        ("exactly", [(x, 1), (y, 2)], pulp.LpConstraintEQ, 8),
        ("at_most", [(x, 1)], pulp.LpConstraintLE, 2),
    ):
        expression = pulp.LpAffineExpression(terms)
        problem.addConstraint(pulp.LpConstraint(expression, sense, row, right))
    found = solver(name)(problem, Limits())
    assert found.values == {"x": 2, "y": 3}  # 2 + 6 = 8, 2 x 2 + 3 = 7
    assert found.objective == pytest.approx(1.2, rel=1e-12)


@pytest.mark.parametrize("name", SOLVERS)
def test_negative_objectives(name: str) -> None:
    """As the order among ties has them: the largest batch is the least of its negative."""
    problem = knapsack(prices=(-1, 0))
    found = solver(name)(problem, Limits())
    assert (found.status, found.objective, found.bound) == (Status.OPTIMAL, -9.0, -9.0)
    assert found.values["x"] == 9


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("price", [0.333333333, 2.0, 1234.567890123, 31415.926535897])
def test_bounds_are_exact_whatever_the_price(name: str, price: float) -> None:
    found = solver(name)(knapsack(prices=(price, 0.123456789)), Limits())
    assert found.status is Status.OPTIMAL
    assert found.bound == found.objective


@pytest.mark.parametrize("name", SOLVERS)
def test_the_objective_is_left_as_it_was(name: str) -> None:
    problem = knapsack()
    before = dict(problem.objective.items())
    solver(name)(problem, Limits())
    assert dict(problem.objective.items()) == before


def test_an_unknown_solver() -> None:
    with pytest.raises(SolverError, match="expected one of cp-sat, highs, cbc"):
        solver("gurobi")


def test_a_solver_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    from optimiser.planning.solvers import base

    monkeypatch.setitem(base.SOLVERS, "highs", "optimiser.planning.solvers.no_such_module")
    with pytest.raises(SolverError, match="not installed"):
        solver("highs")


def test_highs_beside_other_users_of_it_is_never_silently_undecided() -> None:
    """HiGHS takes one number of threads a process; where that fails, it must be said."""
    script = (
        "import highspy\n"
        "other = highspy.Highs()\n"
        "other.setOptionValue('output_flag', False)\n"
        "other.setOptionValue('threads', 2)\n"
        "other.addVar(0, 1)\n"
        "other.run()\n"
        "from optimiser import Case, plan\n"
        "from optimiser.catalogue.load import shipped\n"
        "from optimiser.errors import SolverError\n"
        "case = Case.load(shipped('cases') / 'chat-7b.yaml')\n"
        "try:\n"
        "    print('status', plan(case, solver_name='highs').status)\n"
        "except SolverError:\n"
        "    print('status said')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    status = [line for line in done.stdout.splitlines() if line.startswith("status")]
    assert status in (["status optimal"], ["status said"]), done.stderr


# The objective as whole numbers.


def test_integer_objective() -> None:
    scaled = integer_objective(knapsack(prices=(0.333333333, 2.0)))
    assert [whole for _, whole in scaled.terms] == [333_333_333, 2_000_000_000]
    assert scaled.unit == 1e-9
    scaled = integer_objective(knapsack(prices=(2.0, 3.0)))
    assert ([whole for _, whole in scaled.terms], scaled.unit) == ([2, 3], 1.0)
    scaled = integer_objective(knapsack(prices=(0.5, -0.75)))
    assert ([whole for _, whole in scaled.terms], scaled.unit) == ([2, -3], 0.25)


def test_objectives_that_are_no_multiple_of_a_nano_dollar() -> None:
    with pytest.raises(SolverError, match="1e-9"):
        integer_objective(knapsack(prices=(1 / 3, 2.0)))
    with pytest.raises(SolverError, match="1e-9"):
        integer_objective(knapsack(prices=(0.0000000015, 2.0)))


def test_objectives_that_would_overflow() -> None:
    # 9 x 5e8 x 1e9 = 4.5e18, just under 2^62 = 4.61e18; the second term adds 9
    assert integer_objective(knapsack(prices=(5e8, 1e-9))).unit == 1e-9
    with pytest.raises(SolverError, match="too many digits"):
        integer_objective(knapsack(prices=(5.2e8, 1e-9)))
    with pytest.raises(SolverError, match="too many digits"):
        integer_objective(knapsack(prices=(-5.2e8, 1e-9)))
    # a common factor is taken out first
    assert integer_objective(knapsack(prices=(5e12, 1e12))).unit == 1e12


# Values, checked.


def test_whole_values() -> None:
    problem = knapsack()
    assert whole_values(problem, {"x": 3 - 1e-6, "y": 1 + 1e-6}) == {"x": 3, "y": 1}
    with pytest.raises(SolverError, match="whole number"):
        whole_values(problem, {"x": 3.4, "y": 1})
    with pytest.raises(SolverError, match="whole number"):
        whole_values(problem, {"x": 3 - 2e-4, "y": 1})
    with pytest.raises(SolverError, match="row need"):
        whole_values(problem, {"x": 2, "y": 2})
    with pytest.raises(SolverError, match="row mix"):
        whole_values(problem, {"x": 4, "y": 1})


def test_whole_values_of_other_senses() -> None:
    problem = knapsack()
    x, y = problem.variables()
    for name, sense, right in (
        ("at_most", pulp.LpConstraintLE, 5),
        ("exactly", pulp.LpConstraintEQ, 4),
    ):
        expression = pulp.LpAffineExpression([(x, 1), (y, 1)])
        problem.addConstraint(pulp.LpConstraint(expression, sense, name, right))
    assert whole_values(problem, {"x": 3, "y": 1}) == {"x": 3, "y": 1}
    with pytest.raises(SolverError, match="row exactly"):
        whole_values(problem, {"x": 3, "y": 2})
    with pytest.raises(SolverError, match="row at_most"):
        whole_values(problem, {"x": 3, "y": 3})


def returned(x: float, y: float, status: Status, bound: float | None) -> Solution:
    """What is believed of a floating-point solver that returns these values."""
    problem = knapsack()

    def run() -> tuple[Status, float | None]:
        for variable, value in zip(problem.variables(), (x, y), strict=True):
            variable.varValue = value
        return status, bound

    return solve_scaled(problem, run)


def test_optimal_is_said_only_where_bound_and_objective_meet() -> None:
    # 0.3 x + 0.2 y in steps of 0.1: 3 and 1 cost 11 steps
    assert returned(3, 1, Status.OPTIMAL, 11.0).status is Status.OPTIMAL
    assert returned(3, 1, Status.OPTIMAL, 10.9999999).status is Status.OPTIMAL  # rounds up to 11
    assert returned(3, 1, Status.OPTIMAL, 10.2).bound == pytest.approx(1.1)
    short = returned(3, 1, Status.OPTIMAL, 9.5)
    assert (short.status, short.bound) == (Status.FEASIBLE, pytest.approx(1.0))
    assert short.objective == pytest.approx(1.1)
    unknown = returned(3, 1, Status.OPTIMAL, None)
    assert (unknown.status, unknown.bound) == (Status.FEASIBLE, None)
    for nothing in (float("inf"), float("-inf"), float("nan")):
        found = returned(3, 1, Status.FEASIBLE, nothing)
        assert (found.status, found.bound) == (Status.FEASIBLE, None)
    stopped = returned(3, 1, Status.FEASIBLE, 11.0)
    assert stopped.status is not Status.OPTIMAL or stopped.bound == stopped.objective


def test_a_bound_is_never_above_the_objective() -> None:
    found = returned(3, 1, Status.FEASIBLE, 12.0)
    assert found.bound is not None
    assert found.objective is not None
    assert found.bound <= found.objective


def test_a_whole_bound_is_not_rounded_up_by_noise() -> None:
    """A bound a hair above a whole step is that step."""
    found = returned(4, 2, Status.FEASIBLE, 11.0000001)
    assert found.objective == pytest.approx(1.6)
    assert found.bound == pytest.approx(1.1)


@pytest.mark.parametrize(("x", "y"), [(2.6, 2), (2, 2), (4, 1)])
def test_values_that_break_the_program_are_an_error(x: float, y: float) -> None:
    with pytest.raises(SolverError):
        returned(x, y, Status.OPTIMAL, 11.0)


def test_no_values_where_there_is_no_solution() -> None:
    for status in (Status.INFEASIBLE, Status.UNDECIDED):
        assert returned(0, 0, status, 1.0) == Solution(status, {}, None, None)


# CBC's word, which PuLP garbles.

FINISHED = "Result - Optimal solution found\n\nObjective value:  11.00000000\nLower bound:  9.000\n"
STOPPED = (
    "Result - Stopped on time limit\n\nObjective value: 14.0\nLower bound:   9.500\nGap: 0.4\n"
)
NO_BOUND = "Result - Stopped on time limit\n"


def said(
    status: int, sol_status: int, log: str, in_time: bool = False
) -> tuple[Status, float | None]:
    problem = knapsack()
    for variable, value in zip(problem.variables(), (3, 1), strict=True):
        variable.varValue = value
    problem.status, problem.sol_status = status, sol_status
    return cbc._outcome(problem, log, in_time)


def test_cbc_timed_out_is_not_optimal() -> None:
    optimal = (pulp.LpStatusOptimal, pulp.LpSolutionOptimal)
    assert said(*optimal, FINISHED) == (Status.OPTIMAL, pytest.approx(1.1))
    assert said(*optimal, STOPPED) == (Status.FEASIBLE, 9.5)
    assert said(*optimal, NO_BOUND) == (Status.FEASIBLE, None)
    found = pulp.LpSolutionIntegerFeasible
    assert said(pulp.LpStatusOptimal, found, STOPPED) == (Status.FEASIBLE, 9.5)


def test_cbc_without_a_solution() -> None:
    nothing = pulp.LpSolutionNoSolutionFound
    assert said(pulp.LpStatusNotSolved, nothing, STOPPED) == (Status.UNDECIDED, None)
    infeasible = "Result - Problem proven infeasible\n"
    for sol_status in (pulp.LpSolutionInfeasible, nothing):
        found = said(pulp.LpStatusInfeasible, sol_status, infeasible)
        assert found == (Status.INFEASIBLE, None)
        # its pre-processing says so without a result line, and means it where there was time
        found = said(pulp.LpStatusInfeasible, sol_status, "Pre-processing says", in_time=True)
        assert found == (Status.INFEASIBLE, None)


def test_cbc_stopped_in_its_preprocessing_has_proved_nothing() -> None:
    """Out of time there, CBC reports the problem infeasible, which it is not."""
    log = (
        "seconds was changed from 1e+100 to 0.02\n"
        "Continuous objective value is 613 - 0.00 seconds\n"
        "Cgl0000I Cut generators found to be infeasible! (or unbounded)\n"
        "Pre-processing says infeasible or unbounded\n"
        "Total time (CPU seconds):       0.01   (Wallclock seconds):       0.04\n"
    )
    found = said(pulp.LpStatusInfeasible, pulp.LpSolutionNoSolutionFound, log)
    assert found == (Status.UNDECIDED, None)


def test_cbc_stopped_again_and_again_never_claims_infeasibility() -> None:
    program = build(configurations(large_case()))
    for step in range(12):
        found = solver("cbc")(program.problem, Limits(0.004 + 0.004 * step))
        assert found.status is not Status.INFEASIBLE


# Time limits.


@cache
def large_case() -> Case:
    """2,520 configurations: 7 GPUs, 5 weight and 3 cache formats, 6 head counts, 4 sizes."""
    gpus = [
        {
            "name": f"gpu-{i}",
            "memory_gb": memory_gb,
            "bandwidth_gb_per_s": bandwidth,
            "tflops": {"fp16": tflops, "fp8": 2.0 * tflops},
            "usd_per_hour": price,
        }
        for i, (memory_gb, bandwidth, tflops, price) in enumerate(
            [
                (80.0, 2000.0, 300.0, 2.003),
                (48.0, 864.0, 360.0, 0.997),
                (24.0, 600.0, 125.0, 0.613),
                (141.0, 4800.0, 989.0, 3.791),
                (96.0, 1597.0, 503.0, 1.607),
                (64.0, 1230.0, 181.0, 1.409),
                (192.0, 5300.0, 1307.0, 5.107),
            ]
        )
    ]
    return case_of(
        {
            "name": "large",
            "brief": {
                "requests_per_s": 811.0,
                "prompt_tokens": 900,
                "answer_tokens": 250,
                "ttft_target_s": 1.0,
                "tpot_target_ms": 37.0,
            },
            "model": {
                "name": "model",
                "params": 8.03e9,
                "layers": 32,
                "attention_heads": 32,
                "kv_heads": 32,
                "head_dim": 128,
            },
            "hardware": {"gpus": gpus},
            "levers": {
                "weights": ["fp16", "fp8", "int8", "int4", "fp32"],
                "kv_cache": ["fp16", "fp8", "int8"],
                "kv_heads": [32, 16, 8, 4, 2, 1],
                "tensor_parallel": [1, 2, 4, 8],
                "batch": {"most": 512},
            },
        }
    )


@cache
def large_optimum() -> float:
    """Cheapest by the engine, at the largest batch of each configuration: more is never dearer."""
    case = large_case()
    costs = []
    for choice in oracle.choices(case):
        if not oracle.runs(case, choice, 1):
            continue
        low, high = 1, case.levers.batch.most
        while low < high:
            middle = (low + high + 1) // 2
            if oracle.runs(case, choice, middle):
                low = middle
            else:
                high = middle - 1
        (lot,) = oracle.lots(case, choice.gpu, choice.tensor_parallel)
        costs.append(oracle.fewest_replicas(case, choice, low) * lot.nano_usd)
    return min(costs) / 1e9


def test_the_large_case_is_large() -> None:
    assert len(configurations(large_case())) >= 2000


@pytest.mark.parametrize("name", SOLVERS)
def test_the_large_case_is_planned_without_a_limit(name: str) -> None:
    outcome = plan(large_case(), solver_name=name)
    assert isinstance(outcome, Planned)
    assert outcome.status == "optimal"
    assert outcome.proof.objective_usd_per_hour == pytest.approx(large_optimum(), rel=1e-12)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("seconds", [0.01, 0.05, 0.1, 0.2, 0.4])
def test_a_time_limit_is_never_called_a_proof(name: str, seconds: float) -> None:
    start = time.perf_counter()
    outcome = plan(large_case(), solver_name=name, time_limit_s=seconds)
    took = time.perf_counter() - start
    assert took < seconds + 5
    optimum = large_optimum()
    if isinstance(outcome, Undecided):
        assert (outcome.status, outcome.solver) == ("undecided", name)
        return
    assert isinstance(outcome, Planned)
    assert seconds > 0.01 or outcome.status != "optimal"
    assert outcome.verdict.complies
    proof = outcome.proof
    assert proof.objective_usd_per_hour >= optimum * (1 - 1e-12)
    if outcome.status == "optimal":
        assert proof.bound_usd_per_hour == proof.objective_usd_per_hour
        assert proof.objective_usd_per_hour == pytest.approx(optimum, rel=1e-12)
        return
    assert outcome.status == "feasible"
    if proof.bound_usd_per_hour is None:
        assert proof.gap_frac is None
        return
    assert proof.bound_usd_per_hour <= optimum * (1 + 1e-12)
    gap = 1 - proof.bound_usd_per_hour / proof.objective_usd_per_hour
    assert proof.gap_frac == pytest.approx(gap)
    assert proof.gap_frac > 0


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("seconds", [0.0001, 0.003, 0.02, 0.06, 0.15])
def test_a_solver_stopped_early_has_a_true_bound(name: str, seconds: float) -> None:
    program = build(configurations(large_case()))
    found = solver(name)(program.problem, Limits(seconds))
    assert found.status is not Status.INFEASIBLE
    optimum = large_optimum()
    if found.bound is not None:
        assert found.bound <= optimum * (1 + 1e-9)
    if found.status is Status.OPTIMAL:
        assert found.bound == found.objective
    if found.status is Status.UNDECIDED:
        assert found.values == {}


@pytest.mark.parametrize("name", SOLVERS)
def test_no_time_at_all(name: str) -> None:
    outcome = plan(chat_7b(), solver_name=name, time_limit_s=0.0)
    assert isinstance(outcome, Undecided)


# Solvers that lie.


def lying(
    monkeypatch: pytest.MonkeyPatch, lie: Callable[[Solution, pulp.LpProblem], Solution]
) -> None:
    honest = solver("cp-sat")

    def solve(problem: pulp.LpProblem, limits: Limits) -> Solution:
        return lie(honest(problem, limits), problem)

    monkeypatch.setattr(planner, "solver", lambda name: solve)


def test_optimal_with_a_lower_bound_is_feasible(monkeypatch: pytest.MonkeyPatch) -> None:
    def lie(truth: Solution, problem: pulp.LpProblem) -> Solution:
        return Solution(Status.OPTIMAL, truth.values, truth.objective, 4.5)

    lying(monkeypatch, lie)
    outcome = plan(chat_7b())
    assert isinstance(outcome, Planned)
    assert outcome.status == "feasible"
    assert outcome.proof.bound_usd_per_hour == 4.5
    assert outcome.proof.gap_frac == pytest.approx(0.25)  # (6 - 4.5) / 6


def test_optimal_without_a_bound_is_feasible(monkeypatch: pytest.MonkeyPatch) -> None:
    def lie(truth: Solution, problem: pulp.LpProblem) -> Solution:
        return Solution(Status.OPTIMAL, truth.values, truth.objective, None)

    lying(monkeypatch, lie)
    outcome = plan(chat_7b())
    assert isinstance(outcome, Planned)
    assert (outcome.status, outcome.proof.gap_frac) == ("feasible", None)


def with_values(truth: Solution, changes: dict[str, int]) -> Solution:
    values = {
        name: next((new for key, new in changes.items() if name.startswith(key)), value)
        for name, value in truth.values.items()
    }
    return Solution(truth.status, values, truth.objective, truth.bound)


def test_a_design_short_of_replicas_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    lying(monkeypatch, lambda truth, _: with_values(truth, {"replicas": 2}))
    with pytest.raises(SolverError, match="cut did not change"):
        plan(chat_7b())


def test_a_design_that_breaks_its_rows_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lying(monkeypatch, lambda truth, _: with_values(truth, {"batch": 300}))
    with pytest.raises((SolverError, VerificationError)) as caught:
        plan(chat_7b())
    if isinstance(caught.value, VerificationError):
        assert caught.value.exit_code == 5


def test_more_replicas_than_allowed_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    lying(monkeypatch, lambda truth, _: with_values(truth, {"replicas": 7}))
    with pytest.raises((SolverError, VerificationError)):
        plan(chat_7b("limits.most_gpus=4"))


def test_infeasible_where_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    lying(monkeypatch, lambda truth, _: Solution(Status.INFEASIBLE, {}, None, None))
    with pytest.raises(SolverError):
        plan(chat_7b())


def test_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    lying(monkeypatch, lambda truth, _: Solution(Status.UNDECIDED, {}, None, None))
    outcome = plan(chat_7b())
    assert isinstance(outcome, Undecided)
    assert (outcome.status, outcome.configurations) == ("undecided", 1)


def test_feasible_is_repaired_and_keeps_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped solver's replicas are those that the engine asks for, at the largest batch."""

    def stopped(truth: Solution, problem: pulp.LpProblem) -> Solution:
        short = with_values(truth, {"replicas": 1, "batch": 3})
        return Solution(Status.FEASIBLE, short.values, 2.0, 1.5)

    lying(monkeypatch, stopped)
    outcome = plan(chat_7b())
    assert isinstance(outcome, Planned)
    assert (outcome.status, outcome.design.replicas, outcome.design.batch) == ("feasible", 3, 85)
    assert outcome.proof.objective_usd_per_hour == 6.0
    assert outcome.proof.bound_usd_per_hour == 1.5
    assert outcome.proof.gap_frac == pytest.approx(0.75)
    # where the limits do not allow what the engine asks for, there is no design
    for limit in ("limits.most_gpus=2", "limits.usd_per_hour=5.9"):
        lying(monkeypatch, lambda truth, problem: _made_up(problem))
        assert isinstance(plan(chat_7b(limit)), Undecided)
    for limit in ("limits.most_gpus=3", "limits.usd_per_hour=6"):
        lying(monkeypatch, lambda truth, problem: _made_up(problem))
        assert isinstance(plan(chat_7b(limit)), Planned)


def _made_up(problem: pulp.LpProblem) -> Solution:
    """One replica at batch 1 of the first configuration."""
    values = dict.fromkeys((variable.name for variable in problem.variables()), 1)
    return Solution(Status.FEASIBLE, values, 2.0, None)


def test_stopped_while_ranking_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def stopped(truth: Solution, problem: pulp.LpProblem) -> Solution:
        calls.append(problem)
        first = calls[0]
        return truth if problem is first else Solution(Status.UNDECIDED, {}, None, None)

    lying(monkeypatch, stopped)
    outcome = plan(chat_7b(name="chat-7b-open"))
    assert isinstance(outcome, Planned)
    assert outcome.status == "optimal"  # the cost is proved all the same
    assert outcome.proof.objective_usd_per_hour == 2.0
    assert any("not ranked" in note for note in outcome.notes)
    assert outcome.verdict.complies


# A second opinion, and a verifier that says no.


@pytest.mark.parametrize(("name", "second"), [("cp-sat", "highs"), ("highs", "cp-sat")])
def test_cross_check_names_the_second_solver(name: str, second: str) -> None:
    outcome = plan(chat_7b(name="chat-7b-open"), solver_name=name, cross_check=True)
    assert isinstance(outcome, Planned)
    assert outcome.proof.cross_check == second


def test_cross_check_of_cbc_is_by_another() -> None:
    outcome = plan(chat_7b(), solver_name="cbc", cross_check=True)
    assert isinstance(outcome, Planned)
    assert outcome.proof.cross_check in ("cp-sat", "highs")
    without = plan(chat_7b())
    assert isinstance(without, Planned)
    assert without.proof.cross_check is None


def _solvers(monkeypatch: pytest.MonkeyPatch, second: Solve) -> None:
    monkeypatch.setattr(planner, "solver", lambda name: second if name == "highs" else solver(name))


def test_cross_check_finds_a_disagreement(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = solver("highs")

    def prefers_another(problem: pulp.LpProblem, limits: Limits) -> Solution:
        """Maximises the index of `use` in place of any order among them."""
        asked = problem.objective
        if not (len(asked) and next(iter(asked)).name.startswith("use")):
            return honest(problem, limits)
        uses = [v for v in problem.variables() if v.name.startswith("use")]
        reverse = [(v, -int(v.name.split("_")[1])) for v in uses]
        problem.setObjective(pulp.LpAffineExpression([t for t in reverse if t[1]]))
        found = honest(problem, limits)
        problem.setObjective(asked)
        value = sum(weight * found.values[v.name] for v, weight in asked.items())
        return Solution(found.status, found.values, value, value)

    _solvers(monkeypatch, prefers_another)
    with pytest.raises(VerificationError, match="highs found") as caught:
        plan(chat_7b(name="chat-7b-open"), cross_check=True)
    assert caught.value.exit_code == 5


def test_cross_check_by_a_solver_that_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _solvers(monkeypatch, lambda problem, limits: Solution(Status.UNDECIDED, {}, None, None))
    with pytest.raises(VerificationError, match="undecided"):
        plan(chat_7b(), cross_check=True)


def test_a_rejected_design_is_saved_for_a_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    honest = planner.verify

    def refuses(case: Case, design: object) -> Verdict:
        verdict = honest(case, design)
        checks = [
            type(c)(c.requirement, 1.0, c.actual, c.unit, c.upper)
            if c.requirement == "brief.tpot_target_ms"
            else c
            for c in verdict.checks
        ]
        return Verdict(tuple(checks), verdict.figures)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(planner, "verify", refuses)
    with pytest.raises(VerificationError, match=r"brief\.tpot_target_ms") as caught:
        plan(chat_7b())
    assert caught.value.exit_code == 5
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["chat-7b-failed.lp", "chat-7b-failed.yaml"]
    assert all(name in str(caught.value) for name in files)
    text = (tmp_path / "chat-7b-failed.lp").read_text(encoding="utf-8")
    assert "tpot_0_generic_80gb_tp1" in text
    monkeypatch.undo()
    again = plan(Case.load(tmp_path / "chat-7b-failed.yaml"))
    assert isinstance(again, Planned)
    assert again.design.gpus == 3


# The loop.


def test_rounds_are_counted_and_the_deadline_is_kept() -> None:
    program = build(configurations(draw_case(0)))
    calls: list[Limits] = []

    def solve(problem: pulp.LpProblem, limits: Limits) -> Solution:
        calls.append(limits)
        return solver("cp-sat")(problem, limits)

    run = Run(solve, workers=2, deadline=time.perf_counter() + 50)
    found = search(program, run)
    assert found.status is Status.OPTIMAL
    assert run.rounds == len(calls) >= 1
    assert all(limits.workers == 2 for limits in calls)
    assert all(0 < limits.seconds <= 50 for limits in calls)
    late = Run(solve, deadline=time.perf_counter() - 1)
    assert search(build(configurations(draw_case(0))), late).status is Status.UNDECIDED
    assert late.rounds == 0


@pytest.mark.parametrize("name", SOLVERS)
def test_costs_beyond_a_solvers_tolerance_do_not_lose_the_design(name: str) -> None:
    """Nano-dollar prices without a common factor: CBC called the settled program infeasible."""
    case = fewer_gpus(Random(0), draw_real_case(177, twisted=False))
    best = oracle.cheapest(case)
    outcome = plan(case, solver_name=name)
    assert best is not None
    assert isinstance(outcome, Planned)
    assert outcome.notes == ()
    chosen, choice = outcome.design.configuration, best.choice
    assert (chosen.weights, chosen.kv_cache, chosen.kv_heads) == (
        choice.weights,
        choice.kv_cache,
        choice.kv_heads,
    )
    assert (chosen.gpu, chosen.tensor_parallel) == (choice.gpu, choice.tensor_parallel)


def test_a_design_that_is_lost_while_ranking_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def loses(truth: Solution, problem: pulp.LpProblem) -> Solution:
        calls.append(problem)
        lost = Solution(Status.INFEASIBLE, {}, None, None)
        return truth if problem is calls[0] else lost

    lying(monkeypatch, loses)
    with pytest.raises(SolverError, match="loses the design"):
        plan(chat_7b(name="chat-7b-open"))


def test_infeasible_outcome_of_each_solver() -> None:
    for name in SOLVERS:
        outcome = plan(chat_7b("limits.most_gpus=2"), solver_name=name)
        assert isinstance(outcome, Infeasible)
        assert outcome.solver == name
        assert outcome.conflicts[0].requirements[0] == "limits.most_gpus"


def test_status_words() -> None:
    assert [status.value for status in Status] == [
        "optimal",
        "feasible",
        "infeasible",
        "undecided",
    ]
