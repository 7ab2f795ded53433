"""Slack: the same design just inside, another just outside."""

import pytest

from optimiser import Case, Planned, plan
from optimiser.catalogue.load import shipped
from optimiser.planning.cheapest import identity
from optimiser.planning.design import Design
from optimiser.studies.known import Known
from optimiser.studies.slack import Slack, Way, slack


def load(name: str, *settings: str) -> Case:
    return Case.load(shipped("cases") / f"{name}.yaml", settings)


def slack_of(case: Case) -> dict[str, Slack]:
    known = Known(case)
    planned = known.baseline().planned
    assert planned is not None
    return {one.field: one for one in slack(known, planned)}


def moved(case: Case, one: Slack, value: float) -> Design | None:
    """The design at a value of an input; a price is given as `price of NAME`."""
    if one.field.startswith("price of "):
        changed = case.repriced(one.field.removeprefix("price of "), value)
    else:
        changed = case.changed({one.field: value})
    outcome = plan(changed, explained=False)
    return outcome.design if isinstance(outcome, Planned) else None


def same(one: Design | None, other: Design | None) -> bool:
    if one is None or other is None:
        return one is other
    kept = one.replicas == other.replicas
    return kept and identity(one.configuration) == identity(other.configuration)


CASES = {
    "open": load("chat-7b-open"),
    "users": load("chat-7b").changed({"brief.requests_per_s": None, "brief.concurrent_users": 250}),
    "budget": load("chat-7b-open", "limits.usd_per_hour=2.5", "brief.requests_per_s=12"),
    "rented": load("llama-3.1-8b", "hardware.gpus=[l4, h100-sxm]", "levers.tensor_parallel=[1, 2]"),
    "inline": load("chat-7b").changed(
        {
            "hardware": {
                "gpus": [
                    {
                        "name": name,
                        "memory_gb": memory,
                        "bandwidth_gb_per_s": 2000,
                        "tflops": {"fp16": 300},
                        "usd_per_hour": price,
                    }
                    for name, memory, price in (("small", 40, 1.4), ("large", 80, 2.0))
                ]
            }
        }
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_design_holds_just_inside_and_changes_just_outside(name: str) -> None:
    case = CASES[name]
    own = plan(case)
    assert isinstance(own, Planned)
    found = slack_of(case)
    assert len(found) == 9
    for one in found.values():
        for way in (one.down, one.up):
            assert same(moved(case, one, way.holds_to), own.design), one.field
            if way.changes_at is not None:
                beyond = moved(case, one, way.changes_at)
                assert not same(beyond, own.design), one.field
                assert same(beyond, way.design), one.field


@pytest.mark.parametrize("name", CASES)
def test_the_two_values_are_neighbours_of_three_digits(name: str) -> None:
    for one in slack_of(CASES[name]).values():
        for way in (one.down, one.up):
            if way.changes_at is None:
                continue
            low, high = sorted((way.holds_to, way.changes_at))
            step = high - low
            assert step <= max(1.0 if isinstance(one.value, int) else 0.0, high / 100) * 1.0001


def test_rate_of_the_worked_example() -> None:
    """A replica serves 6.28 requests/s, 4.83 with headroom 1.3: 2 of them 9.67, 3 of them 14.5.

    So 10 requests/s on 3 replicas may fall to what 2 serve and rise to what 3 do.
    """
    case = load("chat-7b")
    planned = plan(case)
    assert isinstance(planned, Planned)
    each = planned.verdict.figures.requests_per_s_per_replica / 1.3
    rate = slack_of(case)["brief.requests_per_s"]
    assert planned.design.replicas == 3
    assert each == pytest.approx(4.83, abs=0.005)
    assert rate.down.changes_at is not None
    assert rate.down.changes_at <= 2 * each < rate.down.holds_to
    assert rate.up.changes_at is not None
    assert rate.up.holds_to <= 3 * each < rate.up.changes_at


def test_what_never_matters_says_so() -> None:
    found = slack_of(load("chat-7b"))
    assert found["brief.tpot_target_ms"].up == Way(5000.0, None, None)
    assert found["price of generic-80gb"].down == Way(0.01, None, None)
    assert found["assumptions.efficiency"].up == Way(1.0, None, None)
    assert found["brief.ttft_target_s"].down.design is None


def test_a_reserve_of_nothing_can_only_grow() -> None:
    reserve = slack_of(load("chat-7b-open", "assumptions.memory_reserve=0"))[
        "assumptions.memory_reserve"
    ]
    assert reserve.down == Way(0, None, None)
    assert reserve.up.changes_at is not None
    assert 0 < reserve.up.changes_at < 1


def test_a_price_scale_scales_the_price_of_one_gpu_type() -> None:
    case = CASES["rented"]
    dear = case.repriced("h100-sxm", 3.0)
    for gpu in case.hardware.gpus:
        factor = 3.0 if gpu.name == "h100-sxm" else 1.0
        prices = [offer.usd_per_hour for offer in case.offers(gpu)]
        assert [o.usd_per_hour for o in dear.offers(gpu)] == [p * factor for p in prices]
    assert load("chat-7b").repriced("generic-80gb", 2.0).hardware.usd_per_gpu_hour == 4.0
