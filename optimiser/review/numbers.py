"""Numbers as people read them."""

import math


def significant(value: float, digits: int = 3) -> str:
    """A number to so many significant digits, without an exponent, thousands separated."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, decimals):,.{max(decimals, 0)}f}"


def plain(value: float) -> str:
    """A number the user gave, as they would write it."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.10g}"


def rounded(value: float, digits: int = 3) -> str:
    """A number to at most so many significant digits, without trailing zeros."""
    return plain(float(f"{value:.{digits}g}"))


def ms(value: float) -> str:
    """Milliseconds: one decimal below 10, whole below 10 s."""
    return f"{value:,.1f} ms" if value < 10 else f"{value:,.0f} ms"


def usd(value: float) -> str:
    """Dollars: cents from $1, three significant digits below."""
    return f"${value:,.2f}" if value >= 1 else f"${significant(value)}"


def per_cent(fraction: float) -> str:
    """A fraction as per cent, one decimal below 10 %."""
    shown = fraction * 100
    return f"{shown:.1f} %" if abs(shown) < 10 else f"{shown:.0f} %"


def count(value: int, noun: str) -> str:
    """A counted noun."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"
