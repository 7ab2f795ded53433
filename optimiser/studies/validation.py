"""Predicted against measured, row by row: errors of the measured fidelity and of the ideal one."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optimiser.catalogue.calibrated import calibrated
from optimiser.catalogue.latency_constants import LatencyConstants
from optimiser.catalogue.load import shipped
from optimiser.engine.columns_of_shape import latency_row
from optimiser.engine.latency import throughput, tpot_s, ttft_s
from optimiser.engine.latency_parts import columns_of
from optimiser.engine.replicas import Floats
from optimiser.errors import CatalogueError
from optimiser.studies.measurements import Measured, Names, read_rows, usable

Keep = NDArray[np.bool_]

IDEAL = LatencyConstants(
    weight_bandwidth_frac=1.0,
    fp8_bandwidth_factor=1.0,
    cache_bandwidth_frac=1.0,
    flop_frac=dict.fromkeys(("fp32", "fp16", "fp8", "fp4", "int8"), 1.0),
    unhidden_frac=0.0,
    expert_flop_frac=1.0,
    prompt_attention_frac=1.0,
    expert_imbalance=1.0,
    link_bandwidth_frac=float("inf"),
    link_latency_s=0.0,
    link_large_s=0.0,
    link_large_bytes=1.0,
    layer_floor_s=0.0,
    fp8_layer_floor_s=0.0,
    step_floor_s=0.0,
    expert_layer_floor_s=0.0,
    expert_fp8_floor_s=0.0,
    expert_unpack_floor_s=0.0,
    sparse_layer_floor_s=0.0,
    sequence_s=0.0,
    prefill_share=0.0,
    wait_steps=0.0,
    grouped_wait_steps=0.0,
    ttft_offset_s=0.0,
    closed_loop_synchrony=0.0,
)
"""The ideal roofline: peaks reached, links, floors and host work free, no stalls and no queue."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Of predicted / measured - 1, over some rows."""

    rows: int
    mean_frac: float
    median_frac: float
    p90_frac: float
    bias_frac: float
    """The mean with its sign; above 0 where too much is predicted."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Errors of one way to predict; null where no row can be compared."""

    tpot: Errors | None
    ttft: Errors | None
    throughput: Errors | None


@dataclass(frozen=True, slots=True)
class Predictions:
    """What a model says of each row, or what was measured; NaN where there is nothing."""

    tpot_s: Floats
    ttft_s: Floats
    tokens_per_s: Floats
    """Answer tokens of the replica."""

    def over(self, measured: "Predictions") -> "Predictions":
        """Ratios to what was measured."""
        return Predictions(
            self.tpot_s / measured.tpot_s,
            self.ttft_s / measured.ttft_s,
            self.tokens_per_s / measured.tokens_per_s,
        )

    def accuracy(self, keep: Keep) -> Accuracy:
        """Of ratios, over some of the rows."""
        return Accuracy(
            errors(self.tpot_s[keep]), errors(self.ttft_s[keep]), errors(self.tokens_per_s[keep])
        )


@dataclass(frozen=True, slots=True)
class Validation:
    """The rows of a table that can be compared, and how they compare."""

    source: str
    rows: tuple[Measured, ...]
    left_out: Mapping[int, str]
    """Reason of each row that is not compared, by its line."""
    predicted: Predictions
    ideal_ratios: Predictions
    ratios: Predictions
    """Predicted / measured."""
    unseen_ratios: Predictions | None
    """The same by fits that had not seen a row's group; null where none is stored."""

    def where(self, is_in: Callable[[Measured], bool]) -> Keep:
        """The rows for which something holds."""
        return np.array([is_in(row) for row in self.rows], dtype=bool)

    @property
    def everything(self) -> Keep:
        """All rows."""
        return np.ones(len(self.rows), dtype=bool)

    @property
    def reasons(self) -> dict[str, int]:
        """How many rows each reason leaves out."""
        return dict(sorted(Counter(self.left_out.values()).items()))

    @property
    def ttft_reasons(self) -> dict[str, int]:
        """How many compared rows each reason leaves out of the comparison of TTFT."""
        found = Counter(row.ttft_left_out for row in self.rows if row.ttft_left_out is not None)
        return dict(sorted(found.items()))

    @property
    def groups(self) -> tuple[tuple[str, str, str], ...]:
        """Model, GPU and engine of each group, in order."""
        return tuple(sorted({(row.model, row.gpu, row.engine) for row in self.rows}))


def validate_shipped(names: Names) -> Validation:
    """The shipped runs, and the residuals of fits that had not seen a row's group."""
    folder = shipped("models")
    path = folder / "measurements" / "e2e.csv"
    found = validate(read_rows(path), names, path.name)
    residuals = {
        int(row["line"]): row for row in read_rows(folder / "calibration" / "residuals.csv")
    }

    def stored(kind: str) -> Floats:
        name = f"{kind}_leave_groups_out"
        cells = [residuals.get(row.line, {}).get(name) for row in found.rows]
        return np.array([float(cell) if cell else np.nan for cell in cells])

    compared = ~np.isnan(found.ratios.ttft_s)
    unseen = Predictions(
        stored("tpot"), np.where(compared, stored("ttft"), np.nan), stored("throughput")
    )
    return Validation(
        found.source,
        found.rows,
        found.left_out,
        found.predicted,
        found.ideal_ratios,
        found.ratios,
        unseen,
    )


def validate(rows: Sequence[Mapping[str, str]], names: Names, source: str) -> Validation:
    """The rows of a table, predicted with the shipped constants."""
    readable, left_out = usable(rows, names)
    kept, constants = [], []
    for row in readable:
        found = _constants(row, names)
        if isinstance(found, str):
            left_out[row.line] = found
        else:
            kept.append(row)
            constants.append(found)
    measured = Predictions(
        np.array([row.tpot_s for row in kept]),
        np.array([row.ttft_s if row.ttft_left_out is None else np.nan for row in kept]),
        np.array([row.tokens_per_s or np.nan for row in kept]),
    )
    predicted = predict(kept, constants)
    return Validation(
        source=source,
        rows=tuple(kept),
        left_out=dict(sorted(left_out.items())),
        predicted=predicted,
        ideal_ratios=predict(kept, [IDEAL] * len(kept)).over(measured),
        ratios=predicted.over(measured),
        unseen_ratios=None,
    )


def predict(rows: Sequence[Measured], constants: Sequence[LatencyConstants]) -> Predictions:
    """Each row at the sequences that fit, under its own constants.

    A table of closed-loop benchmarks: each engine keeps its requests as synchronised as the fit
    found. No TTFT where more requests are in the server than its cache holds.
    """
    if not rows:
        return Predictions(*(np.zeros(0) for _ in range(3)))
    pairs = zip(rows, constants, strict=True)
    columns = columns_of([latency_row(row.at, found) for row, found in pairs])
    running = np.array([row.running for row in rows])
    synchrony = np.array([found.closed_loop_synchrony for found in constants])
    compared = np.array([row.ttft_left_out is None for row in rows])
    return Predictions(
        tpot_s(columns, running, synchrony),
        np.where(compared, ttft_s(columns, running, synchrony), np.nan),
        throughput(columns, running, synchrony),
    )


def errors(ratios: Floats) -> Errors | None:
    """Errors of predicted / measured; NaN is left out."""
    known = ratios[~np.isnan(ratios)] - 1
    if not len(known):
        return None
    size = np.abs(known)
    return Errors(
        rows=len(known),
        mean_frac=float(size.mean()),
        median_frac=float(np.median(size)),
        p90_frac=float(np.quantile(size, 0.9)),
        bias_frac=float(known.mean()),
    )


def calibration_folder() -> Path:
    """The shipped constants."""
    return shipped("models") / "calibration"


def _constants(row: Measured, names: Names) -> LatencyConstants | str:
    """What the GPU and engine of a row achieve, or why that is not known."""
    gpu = names.gpu(row.gpu)
    if gpu is None:
        return f"unknown GPU {row.gpu}"
    try:
        return calibrated(calibration_folder(), gpu.latency_name, row.engine).constants
    except CatalogueError as error:
        return error.mistakes[0].message
