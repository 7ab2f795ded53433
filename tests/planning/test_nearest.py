"""The row of three-digit values, and the searches along it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimiser.planning.nearest import least_that_works, most_that_works, place_of, value_at


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (7.0415, 7.05, 7.04),
        (0.044933, 0.045, 0.0449),
        (9.995, 10.0, 9.99),
        (9.9951, 10.0, 9.99),
        (7.05, 7.05, 7.05),
        (1.0, 1.0, 1.0),
        (1234.0, 1240.0, 1230.0),
        (0.0010001, 0.00101, 0.001),
        (99.99, 100.0, 99.9),
        (1e9, 1e9, 1e9),
    ],
)
def test_places_on_both_sides(value: float, up: float, down: float) -> None:
    assert value_at(place_of(value, up=True)) == up
    assert value_at(place_of(value, up=False)) == down


def test_the_row_of_values() -> None:
    assert [value_at(place) for place in (0, 1, 899, 900, 901, -1)] == [
        1.0,
        1.01,
        9.99,
        10.0,
        10.1,
        0.999,
    ]


@given(st.floats(1e-8, 1e9))
def test_places_enclose_the_value(value: float) -> None:
    up, down = place_of(value, up=True), place_of(value, up=False)
    assert value_at(down) <= value <= value_at(up)
    assert up - down in (0, 1)
    assert (up == down) == (value_at(up) == value)


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e7))
def test_least_that_works(asked: float, threshold: float) -> None:
    found = least_that_works(lambda value: value >= threshold, asked, 1e6)
    if threshold > 1e6:
        assert found is None
        return
    assert found is not None
    assert found >= threshold
    assert found >= asked
    before = value_at(place_of(found, up=False) - 1)
    assert before < threshold or before < asked


@given(st.floats(1e-6, 1e6), st.floats(1e-9, 1e6))
def test_most_that_works(asked: float, threshold: float) -> None:
    found = most_that_works(lambda value: value <= threshold, asked, 1e-6)
    if threshold < 1e-6:
        assert found is None
        return
    assert found is not None
    assert found <= threshold
    assert found <= asked
    after = value_at(place_of(found, up=True) + 1)
    assert after > threshold or after > asked


@pytest.mark.parametrize(
    ("asked", "threshold", "found"),
    [(1, 3, 3.0), (1, 2, 2.0), (4, 999, 999.0), (4, 1234, 1240.0), (4, 1e9, 1e9), (4, 2e9, None)],
)
def test_least_whole_number(asked: float, threshold: float, found: float | None) -> None:
    assert least_that_works(lambda n: n >= threshold, asked, 1e9, whole=True) == found


@pytest.mark.parametrize(
    ("asked", "threshold", "found"),
    [(12, 4, 4.0), (12, 11, 11.0), (5000, 1239, 1230.0), (12, 1, 1.0), (12, 0, None)],
)
def test_most_whole_number(asked: float, threshold: float, found: float | None) -> None:
    assert most_that_works(lambda n: n <= threshold, asked, 1, whole=True) == found


def test_whole_numbers_are_asked_as_whole_numbers() -> None:
    asked = []

    def works(value: float) -> bool:
        asked.append(value)
        return value >= 100

    assert least_that_works(works, 1, 1000, whole=True) == 100.0
    assert all(value == int(value) and value > 1 for value in asked)


def test_the_last_value_that_may_be_tried_is_tried() -> None:
    assert least_that_works(lambda value: value >= 1e6, 5.0, 1e6) == 1e6
    assert most_that_works(lambda value: value <= 1e-9, 5.0, 1e-9) == 1e-9
    assert least_that_works(lambda value: True, 2e6, 1e6) is None
