"""Units and the one tolerance: SI inside, the user's units at the edges, converted here only."""

import math

BYTES_PER_GB = 1e9
BYTES_PER_GIB = 2**30
BYTES_PER_MIB = 2**20
FLOPS_PER_TFLOP = 1e12
MS_PER_S = 1e3
S_PER_HOUR = 3600.0
HOURS_PER_MONTH = 730.0
TOKENS_PER_MILLION = 1e6

NANO_USD_PER_USD = 10**9
"""Prices are compared as whole nano-dollars, so that equal means equal."""

TOLERANCE = 1e-9
"""Relative. A design that meets a limit to within this complies: boundaries are inclusive."""


def gb(n_bytes: float) -> float:
    """Bytes as GB (1e9 bytes)."""
    return n_bytes / BYTES_PER_GB


def gib(n_bytes: float) -> float:
    """Bytes as GiB (2**30 bytes)."""
    return n_bytes / BYTES_PER_GIB


def bytes_of_gb(value_gb: float) -> float:
    """GB (1e9 bytes) as bytes."""
    return value_gb * BYTES_PER_GB


def ms(seconds: float) -> float:
    """Seconds as milliseconds."""
    return seconds * MS_PER_S


def s_of_ms(value_ms: float) -> float:
    """Milliseconds as seconds."""
    return value_ms / MS_PER_S


def flops_of_tflops(value_tflops: float) -> float:
    """TFLOP (1e12) as FLOP; the same factor for rates."""
    return value_tflops * FLOPS_PER_TFLOP


def nano_usd(value_usd: float) -> int:
    """Dollars as whole nano-dollars, to the nearest."""
    return round(value_usd * NANO_USD_PER_USD)


def budget_nano_usd(value_usd: float) -> int:
    """The most whole nano-dollars that meet a budget, boundary included."""
    return math.floor(value_usd * NANO_USD_PER_USD * (1 + TOLERANCE))


def usd(value_nano_usd: float) -> float:
    """Nano-dollars as dollars."""
    return value_nano_usd / NANO_USD_PER_USD


def usd_per_month(usd_per_hour: float) -> float:
    """Dollars per hour as dollars per month of 730 hours."""
    return usd_per_hour * HOURS_PER_MONTH


def at_most(actual: float, limit: float) -> bool:
    """Whether `actual` meets an upper limit, boundary included."""
    return actual <= limit * (1 + TOLERANCE)


def at_least(actual: float, limit: float) -> bool:
    """Whether `actual` meets a lower limit, boundary included."""
    return actual >= limit * (1 - TOLERANCE)
