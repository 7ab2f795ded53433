"""Tables of measurements in, predictions beside them out."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from optimiser.errors import InputError, Mistake
from optimiser.names import nearest
from optimiser.studies.measured_cells import COLUMNS
from optimiser.studies.validation import Validation
from optimiser.units import ms

PREDICTED = {
    "predicted_tpot_ms": float,
    "predicted_ttft_ms": float,
    "predicted_tok_s_per_gpu": float,
    "reason": str,
}
"""Columns that are written beside a table's own."""
DIGITS = 6
LARGEST_FILE_BYTES = 256 * 2**20


def read_measurements(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV with the columns of the shipped runs, absent cells empty.

    Raises InputError where it is no such table.
    """
    text = _text(path)
    if not text.strip():
        raise _refused(path, "the file is empty, a table with a header was expected")
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), restval="", strict=True)
        header = [name.strip() for name in reader.fieldnames or ()]
        mistakes = _mistakes(path, header)
        if mistakes:
            raise InputError(mistakes)
        reader.fieldnames = header
        rows = []
        for row in reader:
            if None in row:
                raise _refused(path, "more cells than the header has columns", reader.line_num)
            rows.append(row)
    except csv.Error as error:
        raise _refused(path, f"not CSV: {error}", reader.line_num + 1) from error
    if not rows:
        raise _refused(path, "the table has a header but no rows")
    return rows


def with_predictions(
    rows: Sequence[dict[str, str]], found: Validation
) -> tuple[list[dict[str, Any]], dict[str, type]]:
    """Each row with what is predicted of it, and the type of every column.

    Where a prediction is missing, `reason` says why: the row is left out, or its TTFT alone.
    """
    places = {row.line: place for place, row in enumerate(found.rows)}
    written: list[dict[str, Any]] = []
    for line, row in enumerate(rows, start=2):
        place = places.get(line)
        beside: dict[str, Any] = dict.fromkeys(PREDICTED)
        if place is None:
            beside["reason"] = found.left_out[line]
        else:
            measured, said = found.rows[place], found.predicted
            beside["predicted_tpot_ms"] = _shown(ms(said.tpot_s[place]))
            if measured.ttft_left_out is None:
                beside["predicted_ttft_ms"] = _shown(ms(said.ttft_s[place]))
            else:
                beside["reason"] = f"no TTFT: {measured.ttft_left_out}"
            per_gpu = said.tokens_per_s[place] / measured.at.n_gpus
            beside["predicted_tok_s_per_gpu"] = _shown(per_gpu)
        written.append({**row, **beside})
    return written, {**dict.fromkeys(rows[0], str), **PREDICTED}


def _shown(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _text(path: Path) -> str:
    try:
        if path.is_dir():
            raise _refused(path, "is a directory, a CSV file was expected")
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE_BYTES + 1)
    except FileNotFoundError:
        raise _refused(path, "no such file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _refused(path, f"cannot be read: {reason}") from error
    if len(raw) > LARGEST_FILE_BYTES:
        raise _refused(path, "larger than 256 MiB")
    if b"\0" in raw:
        raise _refused(path, "not CSV: binary data")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(path, "not CSV: not UTF-8 text") from error


def _mistakes(path: Path, header: list[str]) -> list[Mistake]:
    """What is wrong with the columns: all of it."""
    where, needed = f"{path}:1", list(COLUMNS)
    missing = [name for name in needed if name not in header]
    if not {"tp", "n_gpus"} & set(header):
        missing.append("tp")
    if len(missing) > len(needed):
        message = f"not a table of measurements: a header with {', '.join(missing)} was expected"
        return [Mistake(where, "", message)]
    others = [name for name in header if name and name not in needed]
    found = [
        Mistake(where, "", f"the column {name!r} is missing", nearest(name, others))
        for name in missing
    ]
    twice = sorted({name for name in header if header.count(name) > 1})
    return found + [Mistake(where, "", f"the column {name!r} stands twice") for name in twice]


def _refused(path: Path, message: str, line: int | None = None) -> InputError:
    where = str(path) if line is None else f"{path}:{line}"
    return InputError([Mistake(where, "", message)])
