"""What a review holds: facts and wording for people, keys and values for programs."""

from dataclasses import dataclass
from typing import Any

BOTTLENECKS = {
    "weight_reads": "weight reads",
    "kv_reads": "KV reads",
    "decode_compute": "decode compute",
    "prefill_compute": "prefill compute",
    "memory_capacity": "memory capacity",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One of the page's steps: a title and its facts, each a line."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under a heading; `ticks` marks each row held or broken where given."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    ticks: tuple[bool, ...] = ()
    text: tuple[int, ...] = (0,)
    """Columns of words, aligned to the left; numbers are aligned to the right."""


@dataclass(frozen=True, slots=True)
class Review:
    """Everything that is shown of a plan, in reading order, and the same for programs."""

    title: str
    headline: str
    good: bool
    steps: tuple[Step, ...]
    tables: tuple[Table, ...]
    closing: tuple[str, ...]
    notes: tuple[str, ...]
    data: dict[str, Any]
