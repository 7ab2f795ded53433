"""Three solvers and exhaustive search agree on the cost and on the design, over drawn cases."""

import pytest

from optimiser import Case, Infeasible, Planned, plan
from optimiser.units import usd
from tests import oracle
from tests.strategies import KINDS, TWISTS, draw_case, draw_measured_case, draw_real_case

SOLVERS = ("cp-sat", "highs", "cbc")
CHUNK = 10
CHUNKS = 18
MEASURED_CHUNKS = 30
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


def agree(case: Case, label: str) -> bool:
    """Plan with each solver, compare with exhaustive search; whether anything complies."""
    best = oracle.cheapest(case)
    for solver in SOLVERS:
        outcome = plan(case, solver_name=solver, explained=False)
        where = f"{label}, {solver}"
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
    return best is not None


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_solvers_and_exhaustive_search_agree(chunk: int) -> None:
    seeds = range(chunk * CHUNK, (chunk + 1) * CHUNK)
    planned_ones = [agree(draw_case(seed), f"seed {seed}") for seed in seeds]
    assert sum(planned_ones) >= 3  # the draw is not mostly of cases that nothing meets


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_they_agree_on_real_models_and_whole_instances(chunk: int) -> None:
    seeds = range(chunk * CHUNK, (chunk + 1) * CHUNK)
    planned_ones = [agree(draw_real_case(seed), f"real seed {seed}") for seed in seeds]
    assert sum(planned_ones) >= 3


@pytest.mark.parametrize("chunk", range(MEASURED_CHUNKS))
def test_they_agree_on_measured_latencies(chunk: int) -> None:
    seeds = range(chunk * CHUNK, (chunk + 1) * CHUNK)
    planned_ones = [agree(draw_measured_case(seed), f"measured seed {seed}") for seed in seeds]
    assert sum(planned_ones) >= 3


def test_enough_cases_are_drawn_and_every_boundary_among_them() -> None:
    assert 2 * CHUNK * CHUNKS >= 300
    assert CHUNK * MEASURED_CHUNKS >= 300
    assert len(TWISTS) <= CHUNK * CHUNKS // 10  # each twist at least ten times, of both sorts
    assert len(KINDS) <= CHUNK * CHUNKS // 20  # each kind of model at least twenty times
    cases = [draw_real_case(seed) for seed in range(CHUNK * CHUNKS)]
    offered = [case for case in cases if any(map(case.offers, case.hardware.gpus))]
    assert len(offered) >= 60
    assert sum(case.assumptions.memory == "itemised" for case in cases) >= 60
    assert sum("spot" in case.hardware.offers.terms for case in offered) >= 20
    assert sum(case.assumptions.prefix_cached_frac > 0 for case in cases) >= 20


@pytest.mark.parametrize("seed", range(0, REPEATED * 7, 7))
def test_one_case_always_gives_one_design(seed: int) -> None:
    case = draw_case(seed) if seed % 2 else draw_real_case(seed)
    best = oracle.cheapest(case)
    expected = None if best is None else of_answer(best)
    for workers in (1, 2):
        for _ in range(10):
            outcome = plan(case, workers=workers, explained=False)
            found = of_design(outcome) if isinstance(outcome, Planned) else None
            assert found == expected, f"{workers} workers"
