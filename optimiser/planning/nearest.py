"""The nearest value that works, to three significant digits, by bisection."""

from collections.abc import Callable

DIGITS = 3
_FIRST_STEP = 100
_STEPS_PER_DECADE = 900


def least_that_works(
    works: Callable[[float], bool], asked: float, furthest: float, whole: bool = False
) -> float | None:
    """The smallest three-digit value above `asked` that works, or None up to `furthest`.

    `works` must stay true once it is. With `whole` the value is a whole number.
    """
    if whole:
        exact = _first_true(lambda n: works(float(n)), int(asked) + 1, int(furthest))
        return None if exact is None else value_at(place_of(float(exact), up=True))
    low, high = place_of(asked, up=True), place_of(furthest, up=False)
    found = _first_true(lambda place: works(value_at(place)), low, high)
    return None if found is None else value_at(found)


def most_that_works(
    works: Callable[[float], bool], asked: float, furthest: float, whole: bool = False
) -> float | None:
    """The largest three-digit value below `asked` that works, or None down to `furthest`."""
    if whole:
        exact = _first_true(lambda n: works(float(-n)), 1 - int(asked), -int(furthest))
        return None if exact is None else value_at(place_of(float(-exact), up=False))
    low, high = -place_of(asked, up=False), -place_of(furthest, up=True)
    found = _first_true(lambda place: works(value_at(-place)), low, high)
    return None if found is None else value_at(-found)


def value_at(place: int) -> float:
    """The value at a place in the row of three-digit values: 1.00, 1.01 … 9.99, 10.0 and on."""
    decade, step = divmod(place, _STEPS_PER_DECADE)
    return float(f"{_FIRST_STEP + step}e{decade - DIGITS + 1}")


def place_of(value: float, up: bool) -> int:
    """The place of the nearest three-digit value that is not below (or not above) a value."""
    mantissa, exponent = f"{value:.{DIGITS - 1}e}".split("e")
    step = int(mantissa.replace(".", "")) - _FIRST_STEP
    place = int(exponent) * _STEPS_PER_DECADE + step
    if up and value_at(place) < value:
        return place + 1
    if not up and value_at(place) > value:
        return place - 1
    return place


def _first_true(works: Callable[[int], bool], low: int, high: int) -> int | None:
    """The smallest whole number in low … high that works, given that larger ones do too."""
    if low > high or not works(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if works(middle):
            high = middle
        else:
            low = middle + 1
    return low
