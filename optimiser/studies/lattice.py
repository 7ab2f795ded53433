"""The three-digit values of a stretch of numbers: what a refined value is chosen among."""

from optimiser.planning.nearest import DIGITS, place_of, value_at

FINEST_SHARE = 1e-3
"""A stretch that starts at 0 begins with 0 and then this share of its end."""


def lattice(low: float, high: float, whole: bool = False) -> list[float]:
    """The three-digit values from `low` to `high`, in rising order, with both ends in.

    With `whole` only whole numbers.
    """
    if low <= 0:
        return [
            low,
            *lattice(max(1.0, high * FINEST_SHARE) if whole else high * FINEST_SHARE, high, whole),
        ]
    first, last = place_of(low, up=True), place_of(high, up=False)
    if whole:
        hundred = 10 ** (DIGITS - 1)
        ones = range(int(low), min(int(high), hundred - 1) + 1)
        tens = [int(value_at(p)) for p in range(max(first, place_of(hundred, up=True)), last + 1)]
        inside: list[float] = [*ones, *tens]
    else:
        inside = [value_at(place) for place in range(first, last + 1)]
    ends: list[float] = [int(low), int(high)] if whole else [low, high]
    return sorted({*inside, *ends})
