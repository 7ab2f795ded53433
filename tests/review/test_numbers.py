"""Numbers as people read them."""

import pytest

from optimiser.review import numbers


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0, 3, "0"),
        (13.48, 3, "13.5"),
        (0.5, 3, "0.500"),
        (0.6815744, 2, "0.68"),
        (12345.6, 3, "12,300"),
        (9.996, 3, "10.0"),
        (0.99951, 3, "1.00"),
        (999.6, 3, "1,000"),
        (-2.345, 2, "-2.3"),
        (0.000123, 3, "0.000123"),
        (1.234e-9, 3, "1.23e-09"),
        (123456789, 3, "123,000,000"),
    ],
)
def test_significant(value: float, digits: int, text: str) -> None:
    assert numbers.significant(value, digits) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10, "10"),
        (10.0, "10"),
        (0.1 + 0.2, "0.3"),
        (1234567, "1,234,567"),
        (7.05, "7.05"),
        (0.7 * 100, "70"),
        (1e15, "1e+15"),
        (1e-9, "1e-09"),
    ],
)
def test_plain(value: float, text: str) -> None:
    assert numbers.plain(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.05, "0.050 ms"),
        (7.0415, "7.0 ms"),
        (32.36, "32 ms"),
        (9999.4, "9,999 ms"),
        (12_345, "12.3 s"),
        (1e7, "10,000.0 s"),
    ],
)
def test_ms(value: float, text: str) -> None:
    assert numbers.ms(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(6, "$6.00"), (4380, "$4,380.00"), (0.5555, "$0.555"), (0.0556, "$0.0556"), (0.9996, "$1.00")],
)
def test_usd(value: float, text: str) -> None:
    assert numbers.usd(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.25, "25 %"), (0.0123, "1.2 %"), (0.5678, "57 %"), (0, "0.0 %"), (1.5, "150 %")],
)
def test_per_cent(value: float, text: str) -> None:
    assert numbers.per_cent(value) == text


def test_counts_and_rounding() -> None:
    assert numbers.count(1, "GPU") == "1 GPU"
    assert numbers.count(0, "GPU") == "0 GPUs"
    assert numbers.count(1200, "replica") == "1,200 replicas"
    assert numbers.rounded(3000.0, 4) == "3,000"
    assert numbers.rounded(12.54321) == "12.5"
    assert numbers.at_least_whole(97.54) == "98"
    assert numbers.at_least_whole(0.015) == "0.015"


def test_gpus_that_run_and_gpus_that_are_paid_for() -> None:
    assert numbers.gpus(3, 8) == "3 GPUs (8 rented)"
    assert numbers.gpus(1, 1) == "1 GPU"
