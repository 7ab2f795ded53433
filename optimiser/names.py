"""The nearest valid name to one that was mistyped, and nouns as they are counted."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, valid: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """Up to `most` valid names that look like `name`, the closest first."""
    by_folded = {candidate.lower(): candidate for candidate in valid}
    found = get_close_matches(name.lower(), by_folded, n=most, cutoff=0.6)
    return tuple(by_folded[folded] for folded in found)


def count(value: int, noun: str) -> str:
    """A counted noun, in the plural unless there is one."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"
