"""The cells of a table of measurements: numbers as text, and what is wrong with a row's."""

import math
from collections.abc import Mapping

LARGEST = 1e9
TIMES = ("ttft_ms", "tpot_ms")
NUMBERS = ("isl", "osl", "concurrency", *TIMES)
COUNTS = ("n_gpus", "tp", "attn_dp")
COLUMNS = ("engine", "model", "gpu", *NUMBERS)
"""Without these a table says nothing; `tp` or `n_gpus` is needed too."""

Row = Mapping[str, str]


def whole(text: str) -> int:
    """A count, also one that was written as `8.0`. Raises ValueError."""
    value = float(text)
    if value != int(value):
        raise ValueError(text)
    return int(value)


def fault_in(row: Row) -> str | None:
    """Why a row with times cannot be read; null where it can."""
    for name in NUMBERS:
        if name == "concurrency" and row[name].strip().lower() == "inf":
            continue
        if not _is_positive(row[name]):
            return f"{name} is not a positive number"
    tokens = row.get("out_tok_s_per_gpu")
    if tokens and not _is_positive(tokens):
        return "out_tok_s_per_gpu is not a positive number"
    if not (row.get("n_gpus") or row.get("tp")):
        return "neither tp nor n_gpus says how many GPUs"
    for name in COUNTS:
        if row.get(name) and not _is_count(row[name]):
            return f"{name} is not a whole number of GPUs"
    return None


def _is_positive(text: str) -> bool:
    try:
        value = float(text)
    except ValueError:
        return False
    return math.isfinite(value) and 0 < value <= LARGEST


def _is_count(text: str) -> bool:
    try:
        return 0 < whole(text) <= LARGEST
    except (ValueError, OverflowError):
        return False
