"""The Pareto front equals the one of every design there is."""

import math

import numpy as np
import pytest

from optimiser import Case, Planned, plan
from optimiser.catalogue.load import shipped
from optimiser.planning.verify import verify
from optimiser.studies import pareto as fronts
from optimiser.studies.known import Known
from optimiser.studies.pareto import pareto, rounded_up

TPOT, TTFT = "brief.tpot_target_ms", "brief.ttft_target_s"


def load(name: str, *settings: str) -> Case:
    return Case.load(shipped("cases") / f"{name}.yaml", settings)


def cost_and_latency(planned: Planned, field: str) -> tuple[float, float]:
    figures = planned.verdict.figures
    reached = figures.tpot_ms if field == TPOT else figures.ttft_ms / 1000
    return figures.usd_per_hour, reached


def front_of(case: Case, field: str) -> list[tuple[float, float]]:
    found = pareto(Known(case), field)
    assert found.complete
    return [cost_and_latency(row.planned, field) for row in found.rows if row.planned]


def every_design(case: Case, field: str) -> list[tuple[float, float]]:
    """Cost and latency of each configuration at each batch with the replicas it needs there."""
    from optimiser.planning.configurations import configurations
    from optimiser.planning.design import Design

    loose = case.changed({field: fronts.LOOSEST[field]})
    space = configurations(loose)
    found = []
    for i, configuration in enumerate(space.configurations):
        for batch in range(1, int(space.batch_by_memory[i]) + 1):
            at = np.full(len(space), batch)
            design = Design(configuration, batch, int(space.fewest_replicas(at)[i]))
            verdict = verify(loose, design)
            if verdict.complies:
                figures = verdict.figures
                reached = figures.tpot_ms if field == TPOT else figures.ttft_ms / 1000
                found.append((figures.usd_per_hour, reached))
    return found


def undominated(designs: list[tuple[float, float]]) -> list[tuple[float, float]]:
    kept, quickest = [], math.inf
    for cost, reached in sorted(designs):
        if reached < quickest * (1 - 1e-9):
            kept.append((cost, reached))
            quickest = reached
    return kept


@pytest.mark.parametrize("field", [TPOT, TTFT])
@pytest.mark.parametrize("rate", [3, 17])
def test_the_front_is_that_of_every_design(field: str, rate: float) -> None:
    case = load("chat-7b-open", f"brief.requests_per_s={rate}", "levers.batch.most=64")
    expected = undominated(every_design(case, field))
    found = front_of(case, field)
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-9)


def test_the_front_of_several_gpu_types() -> None:
    case = load(
        "llama-3.1-8b",
        "hardware.gpus=[l4, l40s]",
        "levers.tensor_parallel=[1, 2]",
        "levers.batch.most=24",
        "levers.kv_cache=fp16",
        "brief.requests_per_s=2",
    )
    expected = undominated(every_design(case, TPOT))
    found = front_of(case, TPOT)
    assert len(expected) > 3
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("traffic", ["requests_per_s", "concurrent_users"])
def test_each_design_is_the_plan_at_its_target_and_a_tighter_one_costs_more(traffic: str) -> None:
    case = load("chat-7b-open")
    if traffic == "concurrent_users":
        case = case.changed({"brief.requests_per_s": None, "brief.concurrent_users": 60})
    found = pareto(Known(case), TPOT)
    last = math.inf
    assert len(found.rows) > 2
    for target, row in zip(found.targets, found.rows, strict=True):
        assert row.planned is not None
        plain = plan(case.changed({TPOT: target}))
        assert isinstance(plain, Planned)
        assert plain.design == row.planned.design
        cost, reached = cost_and_latency(plain, TPOT)
        assert reached <= target * (1 + 1e-9) < last
        last = target
        tighter = plan(case.changed({TPOT: target * (1 - 2e-6)}), explained=False)
        if isinstance(tighter, Planned):
            assert tighter.verdict.figures.usd_per_hour > cost


def test_a_long_front_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fronts, "MOST_DESIGNS", 2)
    found = pareto(Known(load("chat-7b-open")), TPOT)
    assert (len(found.rows), found.complete) == (2, False)


def test_a_case_that_nothing_meets_has_an_empty_front() -> None:
    found = pareto(Known(load("chat-7b", "brief.ttft_target_s=0.001")), TPOT)
    assert (found.rows, found.complete) == ((), True)


def test_a_target_is_shown_such_that_it_can_be_met() -> None:
    assert rounded_up(5.99365321) == 5.99366
    assert rounded_up(1.9110992) == 1.9111
    assert rounded_up(2.0) == 2.0
