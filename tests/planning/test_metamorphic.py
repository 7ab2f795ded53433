"""How the optimum must move when the case does; no compliant design counts as infinitely dear."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimiser import Case, Infeasible, Planned, plan
from optimiser.catalogue.load import shipped
from tests.strategies import SEEDS, draw_case

FEW = settings(max_examples=60)


def usd_per_hour(case: Case) -> float:
    outcome = plan(case, explained=False)
    if isinstance(outcome, Infeasible):
        return math.inf
    assert isinstance(outcome, Planned)
    assert outcome.status == "optimal"
    return outcome.proof.objective_usd_per_hour


def gpus_with(case: Case, factor: float, field: str) -> list[dict[str, object]]:
    gpus = []
    for gpu in case.hardware.gpus:
        fields = gpu.model_dump(exclude_unset=True)
        if field == "memory_gb" and "memory_bytes" in fields:
            fields["memory_bytes"] = int(fields["memory_bytes"] * factor)
        else:
            fields[field] *= factor
        gpus.append(fields)
    return gpus


@given(SEEDS, st.floats(1.01, 4))
@FEW
def test_more_traffic_is_never_cheaper(seed: int, factor: float) -> None:
    case = draw_case(seed)
    field = f"brief.{case.brief.traffic_field}"
    now = getattr(case.brief, case.brief.traffic_field)
    assert usd_per_hour(case.changed({field: now * factor})) >= usd_per_hour(case)


@given(SEEDS, st.floats(0.3, 0.99), st.sampled_from(("ttft_target_s", "tpot_target_ms")))
@FEW
def test_a_stricter_target_is_never_cheaper(seed: int, factor: float, name: str) -> None:
    case = draw_case(seed)
    stricter = getattr(case.brief, name) * factor
    assert usd_per_hour(case.changed({f"brief.{name}": stricter})) >= usd_per_hour(case)


@given(SEEDS, st.floats(1.01, 3))
@FEW
def test_a_higher_price_is_never_cheaper(seed: int, factor: float) -> None:
    case = draw_case(seed)
    gpus = [gpu.model_dump(exclude_unset=True) for gpu in case.hardware.gpus]
    gpus[0]["usd_per_hour"] *= factor
    assert usd_per_hour(case.changed({"hardware.gpus": gpus})) >= usd_per_hour(case)


@given(SEEDS, st.floats(0.2, 0.99))
@FEW
def test_less_memory_is_never_cheaper(seed: int, factor: float) -> None:
    case = draw_case(seed)
    less = case.changed({"hardware.gpus": gpus_with(case, factor, "memory_gb")})
    assert usd_per_hour(less) >= usd_per_hour(case)


@given(SEEDS, st.floats(0.0, 0.9))
@FEW
def test_a_larger_reserve_is_never_cheaper(seed: int, extra: float) -> None:
    case = draw_case(seed)
    now = case.assumptions.memory_reserve
    more = now + (1 - now) * extra
    assert usd_per_hour(case.changed({"assumptions.memory_reserve": more})) >= usd_per_hour(case)


@given(SEEDS, st.sampled_from(("efficiency", "headroom")))
@FEW
def test_a_pessimist_never_pays_less(seed: int, name: str) -> None:
    case = draw_case(seed)
    now = getattr(case.assumptions, name)
    worse = now * 0.8 if name == "efficiency" else now * 1.3
    assert usd_per_hour(case.changed({f"assumptions.{name}": worse})) >= usd_per_hour(case)


@given(SEEDS, st.sampled_from(("weights", "kv_cache", "kv_heads", "tensor_parallel", "batch")))
@FEW
def test_opening_a_lever_is_never_dearer(seed: int, lever: str) -> None:
    case = draw_case(seed)
    levers = case.levers
    heads = [h for h in (1, 2, 4, 8, 16, 32) if case.model.attention_heads % h == 0]
    opened: dict[str, object] = {
        "weights": [*levers.weights, "fp16", "int8", "int4", "fp8"],
        "kv_cache": [*levers.kv_cache, "fp16", "int8"],
        "kv_heads": [*case.kv_heads, *heads],
        "tensor_parallel": [*levers.tensor_parallel, 1, 2, 4],
        "batch": {"most": 2 * levers.batch.most},
    }
    assert usd_per_hour(case.changed({f"levers.{lever}": opened[lever]})) <= usd_per_hour(case)


@given(SEEDS)
@FEW
def test_another_gpu_to_choose_is_never_dearer(seed: int) -> None:
    case = draw_case(seed)
    gpus = [gpu.model_dump(exclude_unset=True) for gpu in case.hardware.gpus]
    other = {
        "name": "other",
        "memory_gb": 64.0,
        "bandwidth_gb_per_s": 1800.0,
        "tflops": {"fp16": 200.0},
        "usd_per_hour": 0.9,
    }
    assert usd_per_hour(case.changed({"hardware.gpus": [*gpus, other]})) <= usd_per_hour(case)


@given(SEEDS, st.sampled_from((2, 3, 10, 1000)))
@FEW
def test_scaling_all_prices_scales_the_cost(seed: int, factor: int) -> None:
    case = draw_case(seed).changed({"limits.usd_per_hour": None})
    gpus = [gpu.model_dump(exclude_unset=True) for gpu in case.hardware.gpus]
    for fields in gpus:
        fields["usd_per_hour"] = round(fields["usd_per_hour"], 6)
    base = case.changed({"hardware.gpus": gpus, "hardware.usd_per_gpu_hour": None})
    for fields in gpus:
        fields["usd_per_hour"] = round(fields["usd_per_hour"] * factor, 6)
    scaled = base.changed({"hardware.gpus": gpus})
    before, after = plan(base, explained=False), plan(scaled, explained=False)
    if isinstance(before, Planned):
        assert isinstance(after, Planned)
        assert after.proof.objective_usd_per_hour == pytest.approx(
            before.proof.objective_usd_per_hour * factor, rel=1e-12
        )
        assert after.design.batch == before.design.batch
        assert after.design.replicas == before.design.replicas
        assert after.design.configuration.label == before.design.configuration.label
    else:
        assert isinstance(after, Infeasible)


@given(SEEDS, st.floats(0.3, 3), st.floats(1.0, 3))
@FEW
def test_a_bigger_budget_is_never_worse(seed: int, share: float, factor: float) -> None:
    case = draw_case(seed).changed({"limits.usd_per_hour": None})
    free = usd_per_hour(case)
    if math.isinf(free):
        return
    small = usd_per_hour(case.changed({"limits.usd_per_hour": free * share}))
    large = usd_per_hour(case.changed({"limits.usd_per_hour": free * share * factor}))
    assert free <= large <= small
    assert small == (free if share >= 1 else math.inf)


@given(SEEDS, st.integers(1, 30))
@FEW
def test_more_gpus_allowed_is_never_worse(seed: int, most: int) -> None:
    case = draw_case(seed)
    fewer = usd_per_hour(case.changed({"limits.most_gpus": most}))
    more = usd_per_hour(case.changed({"limits.most_gpus": most + 3}))
    none = usd_per_hour(case.changed({"limits.most_gpus": None}))
    assert none <= more <= fewer


def test_a_more_expensive_answer_is_not_always_a_larger_fleet() -> None:
    """The page's three variants of the target, in the order of their strictness."""
    costs = []
    for target in (50, 20, 8):
        case = Case.load(shipped("cases") / "chat-7b.yaml", [f"brief.tpot_target_ms={target}"])
        costs.append(usd_per_hour(case))
    assert costs == [6.0, 6.0, 18.0]
