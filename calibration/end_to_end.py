"""The end-to-end fit: TPOT and TTFT of published runs, robustly, with priors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from calibration.parameters import END_TO_END, PRIOR_WEIGHT, spread_over
from calibration.parts import Parts
from calibration.summaries import Summaries
from optimiser.engine.latency import decode_step_s, prefill_s, tpot_s, ttft_s
from optimiser.engine.replicas import Floats
from optimiser.studies.measurements import Measured

KNEE = 0.1
"""Residuals count squared below, and linearly above."""
TPOT_MEDIAN_WEIGHT = 1.5
TTFT_MEDIAN_WEIGHT = 1.0
"""Of a median of several runs, beside 1 for a row of an average group."""
N_FOLDS = 10
SEED = 0


ARRAYS = (
    "groups",
    "models",
    "concurrency",
    "running",
    "tpot_s",
    "ttft_s",
    "tokens_per_s",
    "compare_ttft",
)


@dataclass(frozen=True)
class Table:
    """Measured rows as arrays."""

    parts: Parts
    gpus: list[str]
    engines: list[str]
    groups: np.ndarray
    models: np.ndarray
    concurrency: Floats
    running: Floats
    tpot_s: Floats
    ttft_s: Floats
    tokens_per_s: Floats
    """NaN where it was not measured."""
    compare_ttft: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Measured], gpus: Sequence[str], models: Sequence[str]) -> "Table":
        """Rows, with each one's catalogue GPU and the architecture its model is an alias of."""
        return cls(
            Parts.of([row.at for row in rows]),
            list(gpus),
            [row.engine for row in rows],
            np.array([row.group for row in rows]),
            np.array(models),
            np.array([row.concurrency for row in rows]),
            np.array([row.running for row in rows]),
            np.array([row.tpot_s for row in rows]),
            np.array([row.ttft_s for row in rows]),
            np.array([row.tokens_per_s or np.nan for row in rows]),
            np.array([row.ttft_left_out is None for row in rows]),
        )

    def rows(self, keep: np.ndarray) -> "Table":
        """Some of the rows."""
        return Table(
            self.parts.rows(keep),
            [g for g, k in zip(self.gpus, keep, strict=True) if k],
            [e for e, k in zip(self.engines, keep, strict=True) if k],
            *(getattr(self, name)[keep] for name in ARRAYS),
        )


@dataclass(frozen=True)
class Predicted:
    """What the model says of each row."""

    tpot_s: Floats
    ttft_s: Floats
    tokens_per_s: Floats


def predict(values: dict[str, float], table: Table) -> Predicted:
    """TPOT at the sequences that fit, TTFT as if all did."""
    at = spread_over(values, table.gpus, table.engines)
    columns = table.parts.columns(at)
    synchrony = at["closed_loop_synchrony"]
    tpot = tpot_s(columns, table.running, synchrony)
    step = decode_step_s(columns, table.running)
    queue = synchrony / 2 * np.maximum(table.concurrency - 1, 0) * columns.prefill_share
    prefill = prefill_s(columns)
    ttft = columns.ttft_offset_s + columns.wait_steps * step + prefill * (1 + queue)
    residence = ttft_s(columns, table.running, synchrony) + (columns.answer_tokens - 1) * tpot
    return Predicted(tpot, ttft, table.running * columns.answer_tokens / residence)


def fit(table: Table, also: Summaries | None = None) -> dict[str, float]:
    """The constants that suit a table's rows, and medians of others, by parameter name."""
    start = np.log([p.prior for p in END_TO_END])
    spread = np.array([p.spread for p in END_TO_END])
    weight = _weights(table.groups)

    def values(z: Floats) -> dict[str, float]:
        logs = start + spread * z
        return {p.name: float(v) for p, v in zip(END_TO_END, np.exp(logs), strict=True)}

    def residuals(z: Floats) -> Floats:
        said = predict(values(z), table)
        tpot = weight * np.log(said.tpot_s / table.tpot_s)
        ttft = (weight * (said.ttft_s / table.ttft_s - 1))[table.compare_ttft]
        medians = np.zeros(0)
        if also is not None:
            share = np.where(also.of_tpot, TPOT_MEDIAN_WEIGHT, TTFT_MEDIAN_WEIGHT)
            medians = share * _robust(also.log_errors(values(z)))
        return np.concatenate([_robust(tpot), _robust(ttft), medians, PRIOR_WEIGHT * z])

    found = least_squares(residuals, np.zeros(len(start)), method="trf", max_nfev=60)
    return values(found.x)


def folds(groups: np.ndarray, n_folds: int) -> np.ndarray:
    """The fold of each row: whole groups, dealt out in a fixed random order."""
    names = np.unique(groups)
    order = np.random.default_rng(SEED).permutation(len(names))
    fold = {names[name]: place % n_folds for place, name in enumerate(order)}
    return np.array([fold[group] for group in groups])


def left_out(
    table: Table, groups: np.ndarray, n_folds: int, also: Summaries | None = None
) -> tuple[Predicted, list[dict[str, float]]]:
    """Each row as predicted by a fit that did not see its fold, and the fits' constants."""
    fold = folds(groups, n_folds)
    said = [np.zeros(len(groups)) for _ in range(3)]
    fits = []
    for number in range(fold.max() + 1):
        out = fold == number
        fits.append(fit(table.rows(~out), also))
        there = predict(fits[-1], table.rows(out))
        for column, name in zip(said, ("tpot_s", "ttft_s", "tokens_per_s"), strict=True):
            column[out] = getattr(there, name)
    return Predicted(*said), fits


def deviations(fits: list[dict[str, float]]) -> dict[str, float]:
    """Multiplicative standard deviation of each constant: jackknife over the folds."""
    logs = {name: np.log([f[name] for f in fits]) for name in fits[0]}
    factor = (len(fits) - 1) / len(fits)
    return {
        name: float(np.exp(np.sqrt(factor * ((v - v.mean()) ** 2).sum())))
        for name, v in logs.items()
    }


def _weights(groups: np.ndarray) -> Floats:
    """Square roots of row weights: a group counts as the square root of its rows."""
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    weight = counts[inverse] ** -0.5
    return np.sqrt(weight / weight.mean())


def _robust(residual: Floats) -> Floats:
    scaled = residual / KNEE
    return np.sign(scaled) * KNEE * np.sqrt(2 * (np.sqrt(1 + scaled**2) - 1))
