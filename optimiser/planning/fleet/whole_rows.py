"""Measured figures as whole coefficients: simple fractions stay exact, others are rounded."""

import math
from fractions import Fraction

import numpy as np

from optimiser.engine.replicas import Floats
from optimiser.units import TOLERANCE

LARGEST_DENOMINATOR = 10**4
LARGEST_COMMON = 10**6
FINE = 10**9
"""Steps of a replica's capacity where figures are no simple fractions."""


def whole_units(units: float) -> Fraction:
    """Units of a rental that a replica takes: whole GPUs, or a simple part of an instance."""
    return Fraction(units).limit_denominator(LARGEST_DENOMINATOR)


def whole_loads(loads: Floats) -> tuple[list[int], int]:
    """Loads of one replica as whole numbers, and what a replica carries of them.

    Figures that are simple fractions to within the tolerance stay exact; others are rounded up to
    the next of a replica's billion steps, so that what fits in whole numbers fits.
    """
    close = [Fraction(float(load)).limit_denominator(LARGEST_DENOMINATOR) for load in loads]
    common = math.lcm(*(each.denominator for each in close))
    off = max(abs(float(c) - x) / max(x, 1e-12) for c, x in zip(close, loads, strict=True))
    if common <= LARGEST_COMMON and off <= 2 * TOLERANCE:
        return [int(each * common) for each in close], common
    return np.ceil(loads * FINE - 1e-3).astype(np.int64).tolist(), FINE


def whole_cut(worths: Floats, least: float, steps: int) -> tuple[list[int], int]:
    """Σ worth · n ≥ least in whole numbers: worths rounded up, so that every n that meets it stays.

    Fleets that fall short of `least` by no more than the tolerance stay as well.
    """
    scaled = np.ceil(worths / least * steps - 1e-7).astype(np.int64)
    return scaled.tolist(), math.ceil(steps * (1 - TOLERANCE))
