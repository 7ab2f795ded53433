"""Histograms of request lengths: CSV files with `count`, `mean_prompt` and `mean_answer`."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from optimiser.errors import CaseError, Mistake

MOST_ROWS = 1000
"""Different lengths that a class is planned with; joining like ones loses little."""


@dataclass(frozen=True, slots=True)
class LengthRow:
    """Requests of about one length."""

    prompt_tokens: float
    answer_tokens: float
    count: float


def read_histogram(path: Path, where: str, field: str) -> tuple[LengthRow, ...]:
    """The rows of a histogram that count anything. Raises CaseError."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [
                LengthRow(float(r["mean_prompt"]), float(r["mean_answer"]), float(r["count"]))
                for r in csv.DictReader(file)
            ]
        _check(rows)
    except (OSError, KeyError, ValueError, TypeError) as error:
        message = f"cannot read lengths from {path}: {error}"
        raise CaseError([Mistake(where, field, message)]) from error
    return tuple(row for row in rows if row.count)


def _check(rows: Sequence[LengthRow]) -> None:
    for number, row in enumerate(rows, 2):
        figures = (row.count, row.prompt_tokens, row.answer_tokens)
        if not all(math.isfinite(figure) and figure >= 0 for figure in figures):
            raise ValueError(f"line {number}: expected counts and lengths of 0 or more")
    if not any(row.count for row in rows):
        raise ValueError("no requests in it")
    if len(rows) > MOST_ROWS:
        raise ValueError(f"{len(rows):,} rows, expected at most {MOST_ROWS:,}: join like lengths")


def mean_lengths(rows: Sequence[LengthRow]) -> tuple[int, int]:
    """Mean prompt and answer, whole tokens."""
    total = sum(row.count for row in rows)
    prompt = sum(row.count * row.prompt_tokens for row in rows) / total
    answer = sum(row.count * row.answer_tokens for row in rows) / total
    return _whole(prompt), _whole(answer)


def shares(rows: Sequence[LengthRow]) -> dict[tuple[int, int], float]:
    """Share of all requests of each prompt and answer, whole tokens."""
    total, found = sum(row.count for row in rows), dict[tuple[int, int], float]()
    for row in rows:
        lengths = _whole(row.prompt_tokens), _whole(row.answer_tokens)
        found[lengths] = found.get(lengths, 0.0) + row.count / total
    return found


def _whole(tokens: float) -> int:
    return max(1, round(tokens))
