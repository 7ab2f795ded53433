"""Reads request logs: Azure's and Mooncake's layouts, histograms, or any columns by name."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimiser.errors import InputError, Mistake
from optimiser.units import MS_PER_S

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Layout:
    """Names of the columns of a log."""

    prompt: str
    answer: str
    time: str | None = None
    time_unit_s: float = 1.0
    """Seconds of one unit where times are numbers."""
    count: str | None = None
    """Requests that a row stands for."""


LAYOUTS = {
    "azure": Layout("ContextTokens", "GeneratedTokens", "TIMESTAMP"),
    "mooncake": Layout("input_length", "output_length", "timestamp", 1 / MS_PER_S),
    "histogram": Layout("mean_prompt", "mean_answer", None, 1.0, "count"),
    "plain": Layout("prompt_tokens", "answer_tokens", "time_s"),
}


@dataclass(frozen=True, slots=True)
class Log:
    """Requests, or kinds of them with how many there were."""

    prompt: Floats
    answer: Floats
    count: Floats
    time_s: Floats | None
    """From the first request; None where the log has no times."""

    @property
    def span_s(self) -> float | None:
        """Seconds from the first to the last request."""
        return None if self.time_s is None else float(self.time_s.max(initial=0.0))


def read_log(path: Path, columns: Mapping[str, str | None]) -> Log:
    """The requests of a CSV, JSON-lines or Parquet file; `columns` name what a layout does not.

    Raises InputError where the file or its columns cannot be used.
    """
    rows = list(_rows(path))
    if not rows:
        raise _fault(path, "no requests in it")
    layout = _layout(path, list(rows[0]), columns)
    try:
        prompt = np.array([float(row[layout.prompt]) for row in rows])
        answer = np.array([float(row[layout.answer]) for row in rows])
        count = np.ones(len(rows))
        if layout.count is not None:
            count = np.array([float(row[layout.count]) for row in rows])
        time_s = None if layout.time is None else _times(rows, layout)
    except (TypeError, ValueError) as error:
        raise _fault(path, f"expected numbers: {error}") from error
    used = (prompt >= 1) & (answer >= 1) & (count > 0)
    if not used.any():
        raise _fault(path, "no request with at least one prompt and one answer token")
    return Log(prompt[used], answer[used], count[used], None if time_s is None else time_s[used])


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        if path.suffix == ".parquet":
            yield from _parquet(path)
        elif path.suffix in (".jsonl", ".ndjson"):
            with path.open(encoding="utf-8") as file:
                yield from (json.loads(line) for line in file if line.strip())
        else:
            with path.open(newline="", encoding="utf-8-sig") as file:
                yield from csv.DictReader(file)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise _fault(path, f"cannot be read: {error}") from error


def _parquet(path: Path) -> list[dict[str, Any]]:
    try:
        from pyarrow import parquet  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise _fault(path, "Parquet needs the package pyarrow: install it") from error
    found: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return found


def _layout(path: Path, names: Sequence[str], columns: Mapping[str, str | None]) -> Layout:
    named = {key: name for key, name in columns.items() if name}
    known = next((one for one in LAYOUTS.values() if {one.prompt, one.answer} <= set(names)), None)
    if known is None and not {"prompt", "answer"} <= set(named):
        listing = ", ".join(names)
        raise _fault(path, f"columns {listing}: name those of prompt and answer tokens")
    base = known or Layout(named["prompt"], named["answer"])
    layout = Layout(
        named.get("prompt", base.prompt),
        named.get("answer", base.answer),
        named.get("time", base.time),
        base.time_unit_s,
        base.count,
    )
    used = [layout.prompt, layout.answer, layout.count]
    missing = [name for name in (*used, named.get("time")) if name and name not in names]
    if missing:
        raise _fault(path, f"no column {', '.join(missing)}; there are {', '.join(names)}")
    if layout.time not in names:
        return Layout(layout.prompt, layout.answer, None, 1.0, layout.count)
    return layout


def _times(rows: Sequence[Mapping[str, Any]], layout: Layout) -> Floats:
    """Seconds from the earliest request."""
    values = [row[layout.time or ""] for row in rows]
    try:
        times = np.array([float(value) * layout.time_unit_s for value in values])
    except (TypeError, ValueError):
        times = np.array([_moment(str(value)) for value in values])
    return np.asarray(times - times.min())


def _moment(text: str) -> float:
    """A date and time as seconds; fractions beyond microseconds are cut."""
    head, dot, tail = text.strip().partition(".")
    fraction = tail[:6] if tail[:1].isdigit() else ""
    digits = "".join(c for c in fraction if c.isdigit())
    moment = datetime.fromisoformat(head.replace("Z", "+00:00"))
    return moment.timestamp() + (float(f"0.{digits}") if dot and digits else 0.0)


def _fault(path: Path, message: str) -> InputError:
    return InputError([Mistake(str(path), "", message)])
