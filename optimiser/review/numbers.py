"""Numbers as people read them."""

from optimiser.names import count as count

SMALLEST_EXPONENT = -6


def significant(value: float, digits: int = 3) -> str:
    """A number to so many significant digits, thousands separated; an exponent only if tiny."""
    if value == 0:
        return "0"
    scientific = f"{value:.{digits - 1}e}"
    exponent = int(scientific.split("e")[1])
    if exponent < SMALLEST_EXPONENT:
        return scientific
    decimals = digits - 1 - exponent
    return f"{round(value, decimals):,.{max(decimals, 0)}f}"


def plain(value: float) -> str:
    """A number the user gave, as they would write it."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.10g}"


def rounded(value: float, digits: int = 3) -> str:
    """A number to at most so many significant digits, without trailing zeros."""
    return plain(float(f"{value:.{digits}g}"))


def at_least_whole(value: float) -> str:
    """A number to the nearest whole from 10, two significant digits below."""
    return f"{value:,.0f}" if value >= 10 else significant(value, 2)


def ms(value: float) -> str:
    """Milliseconds: two digits below 1, one decimal below 10, whole below 10 s, then seconds."""
    if value < 1:
        return f"{significant(value, 2)} ms"
    if value < 10:
        return f"{value:.1f} ms"
    return f"{value:,.0f} ms" if value < 10_000 else f"{value / 1000:,.1f} s"


def usd(value: float) -> str:
    """Dollars: cents from $1, three significant digits below."""
    return f"${value:,.2f}" if value >= 1 else f"${significant(value)}"


def per_cent(fraction: float) -> str:
    """A fraction as per cent, one decimal below 10 %."""
    shown = fraction * 100
    return f"{shown:.1f} %" if abs(shown) < 10 else f"{shown:.0f} %"


def gpus(running: int, rented: int) -> str:
    """GPUs that run, and those paid for where whole instances have more."""
    text = count(running, "GPU")
    return text if rented == running else f"{text} ({rented:,} rented)"
