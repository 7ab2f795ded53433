"""The review of a validation: errors by quantity, GPU, engine, model and group."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from optimiser.review.numbers import count, per_cent
from optimiser.review.review import Review, Table
from optimiser.studies.validation import Accuracy, Errors, Keep, Validation

QUANTITIES = {
    "tpot": "Time per output token",
    "ttft": "Time to first token",
    "throughput": "Throughput",
}
COLUMNS = (
    *("", "rows", "ideal: mean", "median", "p90", "bias"),
    *("measured: mean", "median", "p90", "bias"),
)
UNSEEN = "all, groups not seen"
NOTES = (
    "an error is |predicted / measured - 1|, a bias the mean of predicted / measured - 1",
    "ideal: every part at the GPU's peaks; links, floors, stalls and queueing free",
    "measured: the shipped constants; requests as synchronised as closed-loop benchmarks keep them",
    "TTFT: rows whose requests the cache holds",
)
STORED = "groups not seen: each row by a fit without its model, GPU and engine (10 folds)"
NONE = ("",) * 4


def validate_review(found: Validation) -> Review:
    """Predicted against measured, ideal beside measured."""
    everything = found.ratios.accuracy(found.everything)
    reasons = [("Rows left out", found.reasons), ("TTFT not compared", found.ttft_reasons)]
    return Review(
        title=f"{found.source}: predicted against measured",
        headline=f"{count(len(found.rows), 'row')} · {headline(everything)}",
        good=True,
        steps=(),
        tables=(
            *(_quantity(found, name) for name in QUANTITIES),
            _groups(found),
            *(_reasons(title, counted) for title, counted in reasons if counted),
        ),
        closing=(),
        notes=NOTES if found.unseen_ratios is None else (*NOTES, STORED),
        data=_data(found),
    )


def headline(accuracy: Accuracy) -> str:
    """Mean and median error of each quantity."""
    names = {"tpot": "TPOT", "ttft": "TTFT", "throughput": "throughput"}
    parts = []
    for kind, name in names.items():
        of: Errors | None = getattr(accuracy, kind)
        if of is not None:
            parts.append(f"{name} {per_cent(of.mean_frac)} off (median {per_cent(of.median_frac)})")
    return ", ".join(parts)


def slices(found: Validation) -> Iterator[tuple[str, Keep]]:
    """All rows, then those of each GPU, engine and model."""
    yield "all", found.everything
    for gpu in sorted({row.gpu for row in found.rows}):
        yield gpu, found.where(lambda row, name=gpu: row.gpu == name)  # type: ignore[misc]
    for engine in sorted({row.engine for row in found.rows}):
        yield engine, found.where(lambda row, name=engine: row.engine == name)  # type: ignore[misc]
    for model in sorted({row.model for row in found.rows}):
        yield model, found.where(lambda row, name=model: row.model == name)  # type: ignore[misc]


def _quantity(found: Validation, kind: str) -> Table:
    rows = []
    for name, keep in slices(found):
        ideal: Errors | None = getattr(found.ideal_ratios.accuracy(keep), kind)
        measured: Errors | None = getattr(found.ratios.accuracy(keep), kind)
        if measured is None:
            continue
        rows.append((name, f"{measured.rows:,}", *_cells(ideal), *_cells(measured)))
        if name == "all" and found.unseen_ratios is not None:
            unseen: Errors | None = getattr(found.unseen_ratios.accuracy(keep), kind)
            rows.append((UNSEEN, f"{unseen.rows if unseen else 0:,}", *NONE, *_cells(unseen)))
    return Table(QUANTITIES[kind], COLUMNS, tuple(rows))


def _cells(of: Errors | None) -> tuple[str, ...]:
    if of is None:
        return NONE
    errors = (of.mean_frac, of.median_frac, of.p90_frac)
    return (*map(per_cent, errors), f"{of.bias_frac * 100:+.0f} %")


def _groups(found: Validation) -> Table:
    columns = (
        *("model", "GPU", "engine", "rows", "TPOT: ideal", "measured"),
        *("TTFT: ideal", "measured", "throughput: ideal", "measured"),
    )
    rows = []
    for group in found.groups:
        keep = _of_group(found, group)
        ideal, measured = found.ideal_ratios.accuracy(keep), found.ratios.accuracy(keep)
        cells = [_mean(getattr(way, kind)) for kind in QUANTITIES for way in (ideal, measured)]
        rows.append((*group, f"{int(keep.sum()):,}", *cells))
    return Table("Mean error by group", columns, tuple(rows), text=(0, 1, 2))


def _of_group(found: Validation, group: tuple[str, str, str]) -> Keep:
    return found.where(lambda row: (row.model, row.gpu, row.engine) == group)


def _mean(of: Errors | None) -> str:
    return "" if of is None else per_cent(of.mean_frac)


def _reasons(title: str, reasons: Mapping[str, int]) -> Table:
    rows = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    return Table(title, ("", "rows"), tuple((why, f"{n:,}") for why, n in rows))


def _data(found: Validation) -> dict[str, Any]:
    data: dict[str, Any] = {
        "rows": len(found.rows),
        "left_out": found.reasons,
        "overall": _both(found, found.everything),
        "groups": [_group_data(found, group) for group in found.groups],
        "ttft_left_out": found.ttft_reasons,
    }
    if found.unseen_ratios is not None:
        data["leave_groups_out"] = accuracy_data(found.unseen_ratios.accuracy(found.everything))
    return data


def _group_data(found: Validation, group: Sequence[str]) -> dict[str, Any]:
    model, gpu, engine = group
    keep = _of_group(found, (model, gpu, engine))
    named = {"model": model, "gpu": gpu, "engine": engine, "rows": int(keep.sum())}
    return {**named, **_both(found, keep)}


def _both(found: Validation, keep: Keep) -> dict[str, Any]:
    return {
        "ideal": accuracy_data(found.ideal_ratios.accuracy(keep)),
        "measured": accuracy_data(found.ratios.accuracy(keep)),
    }


def accuracy_data(accuracy: Accuracy) -> dict[str, float | None]:
    """Errors for programs: null where no row can be compared."""
    data: dict[str, float | None] = {}
    for kind in QUANTITIES:
        of: Errors | None = getattr(accuracy, kind)
        data[f"{kind}_mean_error_frac"] = None if of is None else of.mean_frac
        data[f"{kind}_median_error_frac"] = None if of is None else of.median_frac
        data[f"{kind}_p90_error_frac"] = None if of is None else of.p90_frac
        data[f"{kind}_bias"] = None if of is None else of.bias_frac
    return data
