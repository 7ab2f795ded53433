"""Three solvers and exhaustive search agree on the cost and on the design, over drawn cases."""

import pytest

from optimiser import Infeasible, Planned, plan
from optimiser.units import usd
from tests import oracle
from tests.strategies import TWISTS, draw_case

SOLVERS = ("cp-sat", "highs", "cbc")
CHUNK = 10
CHUNKS = 36
REPEATED = 30


def of_design(planned: Planned) -> tuple[object, ...]:
    chosen = planned.design.configuration
    return (
        chosen.weights,
        chosen.kv_cache,
        chosen.kv_heads,
        chosen.gpu.name,
        chosen.tensor_parallel,
        planned.design.batch,
        planned.design.replicas,
    )


def of_answer(answer: oracle.Answer) -> tuple[object, ...]:
    choice = answer.choice
    return (
        choice.weights,
        choice.kv_cache,
        choice.kv_heads,
        choice.gpu.name,
        choice.tensor_parallel,
        answer.batch,
        answer.replicas,
    )


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_solvers_and_exhaustive_search_agree(chunk: int) -> None:
    planned_ones = 0
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        case = draw_case(seed)
        best = oracle.cheapest(case)
        for solver in SOLVERS:
            outcome = plan(case, solver_name=solver, explained=False)
            where = f"seed {seed}, {solver}"
            if best is None:
                assert isinstance(outcome, Infeasible), where
                continue
            assert isinstance(outcome, Planned), where
            assert outcome.status == "optimal", where
            assert outcome.proof.objective_usd_per_hour == usd(best.nano_usd), where
            assert outcome.proof.bound_usd_per_hour == usd(best.nano_usd), where
            assert outcome.proof.gap_frac == 0, where
            assert of_design(outcome) == of_answer(best), where
            assert outcome.verdict.complies, where
            assert outcome.verdict.figures.usd_per_hour == usd(best.nano_usd), where
            assert outcome.design.gpus == best.gpus, where
        planned_ones += best is not None
    assert planned_ones >= 3  # the draw is not mostly of cases that nothing meets


def test_enough_cases_are_drawn_and_every_boundary_among_them() -> None:
    assert CHUNK * CHUNKS >= 300
    assert len(TWISTS) <= CHUNK * CHUNKS // 20  # each twist at least twenty times


@pytest.mark.parametrize("seed", range(0, REPEATED * 7, 7))
def test_one_case_always_gives_one_design(seed: int) -> None:
    case = draw_case(seed)
    best = oracle.cheapest(case)
    expected = None if best is None else of_answer(best)
    for workers in (1, 2):
        for _ in range(10):
            outcome = plan(case, workers=workers, explained=False)
            found = of_design(outcome) if isinstance(outcome, Planned) else None
            assert found == expected, f"{workers} workers"
