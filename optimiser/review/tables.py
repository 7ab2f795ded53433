"""Rows as a file: CSV, JSON lines or Parquet, by its ending."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optimiser.errors import InputError, Mistake
from optimiser.files import replacing

ENDINGS = (".csv", ".jsonl", ".parquet")


def check_ending(path: Path) -> None:
    """Raises InputError where the ending of a file is not that of a table."""
    if path.suffix.lower() not in ENDINGS:
        message = f"the ending must be one of {', '.join(ENDINGS)}"
        raise InputError([Mistake(str(path), "", message)])


def write_table(
    rows: Sequence[Mapping[str, Any]], path: Path, types: Mapping[str, type] | None = None
) -> None:
    """Write rows whole or not at all; columns stand in the order they are first met.

    `types` (str, bool, int, float) holds for Parquet columns that may be empty. Raises InputError.
    """
    check_ending(path)
    names = list(dict.fromkeys(name for row in rows for name in row))
    with replacing(path) as temporary:
        ending = path.suffix.lower()
        if ending == ".parquet":
            _write_parquet(rows, names, temporary, types or {})
        elif ending == ".csv":
            with temporary.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, names, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
        else:
            lines = (json.dumps(dict(row), ensure_ascii=False) + "\n" for row in rows)
            temporary.write_text("".join(lines), encoding="utf-8")


def _write_parquet(
    rows: Sequence[Mapping[str, Any]], names: list[str], path: Path, types: Mapping[str, type]
) -> None:
    import pyarrow
    import pyarrow.parquet

    arrow = {
        str: pyarrow.string(),
        bool: pyarrow.bool_(),
        int: pyarrow.int64(),
        float: pyarrow.float64(),
    }
    columns = [
        pyarrow.array([row.get(name) for row in rows], type=arrow.get(types.get(name, object)))
        for name in names
    ]
    pyarrow.parquet.write_table(pyarrow.table(columns, names=names), path)
