"""What-if rows as one level of columns, for tables."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Rows = Sequence[Mapping[str, Any]]
FIRST = ("at", "name", "status", "design", "figures", "utilization_frac")
"""Parts of a row that come first, in this order; the rest follows as it comes."""
NESTED = ("design", "figures")
"""Parts that become a column for each of their values, such as `design.gpu`."""
LARGEST = 2**63
"""Whole numbers from here on are columns of floats."""


def flat(rows: Rows) -> tuple[list[dict[str, Any]], dict[str, type]]:
    """Rows that all have the same columns, and the type of each column.

    Varied fields are columns by their own name. A column of several kinds of values is text;
    structures are JSON text.
    """
    flattened = [_flat(row) for row in rows]
    longest = sorted(flattened, key=len, reverse=True)
    columns = {name: [row.get(name) for row in flattened] for row in longest for name in row}
    types = {name: _type(values) for name, values in columns.items()}
    found = [{name: _typed(row.get(name), types[name]) for name in columns} for row in flattened]
    return found, types


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    parts = sorted(row, key=lambda part: FIRST.index(part) if part in FIRST else len(FIRST))
    found: dict[str, Any] = {}
    for part in parts:
        value = row[part]
        if part == "at":
            found |= value
        elif part in NESTED:
            found |= {f"{part}.{name}": inner for name, inner in value.items()}
        else:
            found[part] = value
    return found


def _type(values: Sequence[Any]) -> type:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return bool
    if kinds == {int} and all(abs(value) < LARGEST for value in values if value is not None):
        return int
    return float if kinds and kinds <= {int, float} else str


def _typed(value: Any, kind: type) -> Any:
    if value is None or isinstance(value, str):
        return value
    if kind is not str:
        return kind(value)
    return json.dumps(value, ensure_ascii=False)
