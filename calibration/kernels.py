"""The kernel-sum fits: one set of constants for each GPU and source, no host time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from calibration.end_to_end import deviations
from calibration.gpus import BORROWED_DEVIATION
from calibration.parameters import Parameter
from calibration.parts import Parts
from calibration.report import ideal_values
from calibration.statistics import errors, rounded
from optimiser.engine.latency import prefill_s, step_s
from optimiser.engine.replicas import Floats
from optimiser.studies.measurements import Names, deployment
from optimiser.units import MS_PER_S

KERNEL = (
    Parameter("weight_bandwidth_frac", 0.75, 0.3),
    Parameter("fp8_bandwidth_factor", 1.0, 0.2),
    Parameter("cache_bandwidth_frac", 0.75, 0.3),
    Parameter("flop_frac.fp16", 0.7, 0.3),
    Parameter("flop_frac.fp8", 0.6, 0.3),
    Parameter("unhidden_frac", 0.3, 1.0),
    Parameter("prompt_attention_frac", 0.7, 0.5),
    Parameter("link_bandwidth_frac", 0.35, 0.5),
    Parameter("link_latency_s", 5e-6, 1.0),
    Parameter("link_large_s", 10e-6, 1.0),
    Parameter("link_large_bytes", 2e5, 1.0),
    Parameter("layer_floor_s", 15e-6, 1.0),
    Parameter("fp8_layer_floor_s", 10e-6, 1.0),
)
PRIOR_WEIGHT = 0.1
KNEE = 0.03


@dataclass(frozen=True)
class KernelTable:
    """Rows of one GPU and source."""

    parts: Parts
    decoding: Floats
    """Sequences of a decode step; 0 in a prefill."""
    measured_s: Floats
    """The head left out of prefills, where one token alone passes it."""
    has_head: bool
    models: np.ndarray

    @property
    def decode(self) -> np.ndarray:
        """Which rows are decode steps."""
        return self.decoding > 0


def kernel_table(rows: Sequence[Mapping[str, str]], names: Names, source: str) -> KernelTable:
    """Rows of one GPU as deployments: `aic` or `vidur` says which columns there are."""
    at, decoding, measured, models = [], [], [], []
    for row in rows:
        config, gpu = names.config(row["model"]), names.gpu(row["gpu"])
        if config is None or gpu is None:
            continue
        tokens, batch = float(row["context_or_prompt"]), float(row["batch"])
        decode = row["phase"] == "decode"
        lengths = (tokens, 0.0)
        precision = row.get("dtype", "bf16")
        at.append(deployment(names, config, gpu, precision, int(row["tp"]), lengths))
        decoding.append(batch if decode else 0.0)
        total = float(row["kernels_ms"] if source == "aic" else row["measured_ms"])
        head = float(row["lmhead_ms"] or 0) if source == "aic" and not decode else 0.0
        measured.append((total - head) / MS_PER_S)
        models.append(config)
    return KernelTable(
        Parts.of(at),
        np.array(decoding),
        np.array(measured),
        source == "aic",
        np.array(models),
    )


def predict_kernels(values: Mapping[str, float], table: KernelTable) -> Floats:
    """Kernel seconds of each row."""
    at = {**ideal_values(), **values}
    columns = table.parts.columns(at)
    if not table.has_head:
        none = np.zeros_like(columns.head_read_s)
        columns = replace(columns, head_read_s=none, head_token_s=none)
    decode = step_s(columns, table.decoding, table.decoding)
    return np.where(table.decode, decode, prefill_s(columns))


def fit_kernels(table: KernelTable) -> dict[str, float]:
    """The constants that suit a GPU's kernel sums."""
    start = np.log([p.prior for p in KERNEL])
    spread = np.array([p.spread for p in KERNEL])

    def values(z: Floats) -> dict[str, float]:
        logs = np.exp(start + spread * z)
        return {p.name: float(v) for p, v in zip(KERNEL, logs, strict=True)}

    def residuals(z: Floats) -> Floats:
        scaled = (predict_kernels(values(z), table) / table.measured_s - 1) / KNEE
        robust = np.sign(scaled) * KNEE * np.sqrt(2 * (np.sqrt(1 + scaled**2) - 1))
        return np.concatenate([robust, PRIOR_WEIGHT * z])

    found = least_squares(residuals, np.zeros(len(start)), max_nfev=80)
    return values(found.x)


def kernel_fits(rows: list[dict[str, str]], names: Names, source: str) -> dict[str, dict[str, Any]]:
    """Constants, their deviations and their errors, by GPU of a source's table."""
    found = {}
    for gpu in sorted({row["gpu"] for row in rows}):
        own = [row for row in rows if row["gpu"] == gpu]
        table = kernel_table(own, names, source)
        constants = {name: rounded(value) for name, value in fit_kernels(table).items()}
        models = sorted({row["model"] for row in own})
        jackknife = [
            fit_kernels(kernel_table([r for r in own if r["model"] != model], names, source))
            for model in models
        ]
        said, ideal = predict_kernels(constants, table), predict_kernels({}, table)
        found[gpu] = {
            "has_links": any(int(row["tp"]) > 1 for row in own),
            "constants": constants,
            "deviation": deviations(jackknife)
            if len(models) > 1
            else dict.fromkeys(constants, BORROWED_DEVIATION),
            "accuracy": {
                phase: {
                    "measured": errors(said[keep], table.measured_s[keep]),
                    "ideal": errors(ideal[keep], table.measured_s[keep]),
                }
                for phase, keep in (("decode", table.decode), ("prefill", ~table.decode))
            },
        }
    return found
