"""The README's table of the memory model's errors, from the same rows that the tests check.

`python -m tests.memory.table` prints it.
"""

from functools import cache
from statistics import median
from typing import Any

from tests.memory.measured import Measured, left_out, measured

MOST_FRAC, MOST_OF_CARD_FRAC = 0.10, 0.025
"""An error of the cache counts as small within 10 %, or within 2.5 % of the card: near a full card
the rest is small and a relative error says nothing."""

Found = tuple[Measured, dict[str, Any]]


@cache
def found() -> tuple[Found, ...]:
    """Each start, and what `optimise fit` says of it."""
    return tuple((start, start.fit()) for start in measured())


def kv_error_gib(one: Found) -> float:
    return float(one[1]["kv_gib_per_gpu"] - one[0].kv_gib)


def of_card_frac(one: Found) -> float:
    return abs(kv_error_gib(one)) / float(one[1]["terms"][0]["gib"])


def kv_error_frac(one: Found) -> float:
    return abs(kv_error_gib(one) / one[0].kv_gib)


def is_near(one: Found) -> bool:
    return kv_error_frac(one) <= MOST_FRAC or of_card_frac(one) <= MOST_OF_CARD_FRAC


def weights_error_frac(one: Found) -> float | None:
    logged = one[0].weights_gib
    return None if logged is None else abs(one[1]["weight_gib_per_gpu"] / logged - 1)


def table() -> str:
    """The table in Markdown."""
    starts = found()
    weights = [error for one in starts if (error := weights_error_frac(one)) is not None]
    lines = [
        "| against logged starts | starts | median error | worst error |",
        "|---|--:|--:|--:|",
        f"| weights | {len(weights)} | {_percent(weights)} |",
        f"| KV cache, as a share of what was logged | {len(starts)} "
        f"| {_percent([kv_error_frac(one) for one in starts])} |",
        f"| KV cache, as a share of the card | {len(starts)} "
        f"| {_percent([of_card_frac(one) for one in starts])} |",
        "",
        f"KV cache within 10 % of the log or 2.5 % of the card: {sum(map(is_near, starts))} of "
        f"{len(starts)}. Fits or not: "
        f"{sum(said['fits'] == start.fits for start, said in starts)} of {len(starts)} right. "
        "Rows left out: "
        + ", ".join(f"{count} {reason}" for reason, count in left_out().most_common())
        + ".",
    ]
    return "\n".join(lines)


def _percent(errors: list[float]) -> str:
    return f"{100 * median(errors):.1f} % | {100 * max(errors):.1f} %"


if __name__ == "__main__":
    print(table())  # noqa: T201
