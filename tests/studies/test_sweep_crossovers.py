"""Crossovers: the winner before and after each, planned; none left out between them."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimiser import Case, Planned, plan
from optimiser.catalogue.load import shipped
from optimiser.planning.cheapest import Cheapest, Identity, identity
from optimiser.planning.configurations import configurations
from optimiser.planning.nearest import place_of, value_at
from optimiser.studies.axis import parse_axes
from optimiser.studies.crossover import Crossover, crossovers
from optimiser.studies.known import Known
from optimiser.studies.lattice import lattice


def load(name: str, *settings: str) -> Case:
    return Case.load(shipped("cases") / f"{name}.yaml", settings)


def found_along(case: Case, setting: str) -> list[Crossover]:
    (axis,) = parse_axes([setting])
    return crossovers(Known(case), axis, {})


def winner(case: Case, field: str, value: float) -> Identity | None:
    outcome = plan(case.changed({field: value}), explained=False)
    return identity(outcome.design.configuration) if isinstance(outcome, Planned) else None


SWEEPS = [
    ("chat-7b-open", "brief.requests_per_s=1:20:log:5"),
    ("chat-7b-open", "brief.tpot_target_ms=1:60:log:4"),
    ("chat-7b-open", "brief.prompt_tokens=500:2000:linear:4"),
    ("chat-7b-open", "assumptions.memory_reserve=0:0.8:linear:3"),
    ("llama-3.1-8b", "brief.requests_per_s=5:40:log:4"),
    ("llama-3.1-8b", "brief.ttft_target_s=0.01:1:log:3"),
]


@pytest.mark.parametrize(("name", "setting"), SWEEPS)
def test_each_crossover_is_confirmed_on_both_sides(name: str, setting: str) -> None:
    case = load(name)
    found = found_along(case, setting)
    assert found
    for one in found:
        before, after = (winner(case, one.field, value) for value in (one.last_before, one.value))
        assert before != after
        assert before == _identity(one.before)
        assert after == _identity(one.after)


@pytest.mark.parametrize(("name", "setting"), SWEEPS)
def test_a_crossover_lies_between_neighbouring_three_digit_values(name: str, setting: str) -> None:
    for one in found_along(load(name), setting):
        if isinstance(one.value, int) and one.value <= 1000:
            assert one.value == one.last_before + 1
        elif one.last_before > 0:
            place = place_of(one.last_before, up=True)
            assert value_at(place) == one.last_before
            assert value_at(place + 1) == one.value


@pytest.mark.parametrize(("name", "setting"), SWEEPS)
def test_winners_follow_each_other_without_a_gap(name: str, setting: str) -> None:
    case, (axis,) = load(name), parse_axes([setting])
    found = found_along(case, setting)
    for one, following in pairwise(found):
        assert one.value <= following.last_before
        assert _identity(one.after) == _identity(following.before)
    low, high = axis.numbers[0], axis.numbers[-1]
    assert winner(case, axis.field, low) == _identity(found[0].before)
    assert winner(case, axis.field, high) == _identity(found[-1].after)


@pytest.mark.parametrize(
    "setting",
    [
        "brief.requests_per_s=10:30:log:2",
        "brief.answer_tokens=100:500:linear:2",
        "brief.tpot_target_ms=1:40:log:2",
    ],
)
def test_all_are_found_however_few_points_are_asked_for(setting: str) -> None:
    """Against every three-digit value, one by one: several changes between two points."""
    case, (axis,) = load("chat-7b-open"), parse_axes([setting])
    values = lattice(*axis.numbers, axis.whole)
    winners = []
    for value in values:
        design = Cheapest(configurations(case.changed({axis.field: value}))).design
        winners.append(identity(design.configuration) if design else None)
    changes = [values[i] for i in range(1, len(values)) if winners[i] != winners[i - 1]]
    assert len(changes) > 2
    assert [one.value for one in found_along(case, setting)] == changes


def test_a_change_that_ends_as_it_began_is_found() -> None:
    """At 10 and at 30 requests/s the same wins, and others in between."""
    case = load("chat-7b-open")
    field = "brief.requests_per_s"
    assert winner(case, field, 10) == winner(case, field, 30)
    assert len(found_along(case, f"{field}=10,30")) > 4


def test_where_nothing_complies_is_a_side_too() -> None:
    """chat-7b reads 13.5 GB of weights at 2,000 GB/s: no token is quicker than 6.7 ms."""
    found = found_along(load("chat-7b"), "brief.tpot_target_ms=1:50:log:3")
    assert found[0].before is None
    assert found[0].after is not None
    alone = found[0].after.verdict.figures.tpot_alone_ms
    assert alone > 6.7
    assert found[0].last_before < alone <= found[0].value


@pytest.mark.parametrize("setting", ["levers.kv_heads=8,32", "hardware.gpus=l4,h200"])
def test_there_is_nothing_between_choices(setting: str) -> None:
    assert found_along(load("chat-7b-open"), setting) == []


def _identity(planned: Planned | None) -> Identity | None:
    return None if planned is None else identity(planned.design.configuration)


@settings(max_examples=40)
@given(
    rate=st.floats(0.5, 60),
    tpot=st.floats(2, 60),
    prompt=st.integers(100, 4000),
    most_gpus=st.none() | st.integers(1, 12),
)
def test_the_engine_alone_sees_what_the_program_proves(
    rate: float, tpot: float, prompt: int, most_gpus: int | None
) -> None:
    case = load("chat-7b-open").changed(
        {
            "brief.requests_per_s": rate,
            "brief.tpot_target_ms": tpot,
            "brief.prompt_tokens": prompt,
            "limits.most_gpus": most_gpus,
        }
    )
    outcome = plan(case, explained=False)
    expected = outcome.design if isinstance(outcome, Planned) else None
    assert Cheapest(configurations(case)).design == expected


@given(low=st.floats(1e-6, 1e6), factor=st.floats(1.001, 1000))
def test_a_lattice_rises_from_end_to_end_by_three_digits(low: float, factor: float) -> None:
    high = low * factor
    values = lattice(low, high)
    assert (values[0], values[-1]) == (low, high)
    assert all(a < b for a, b in pairwise(values))
    assert all(float(f"{value:.3g}") == value for value in values[1:-1])
    assert len(values) <= 900 * math.log10(factor) + 903


def test_a_lattice_of_whole_numbers() -> None:
    assert lattice(8, 12, whole=True) == [8, 9, 10, 11, 12]
    assert lattice(997, 1025, whole=True) == [997, 998, 999, 1000, 1010, 1020, 1025]
    assert lattice(0, 0.5)[:3] == [0, 0.0005, 0.000501]
