"""What residuals say: errors, the share of a target to plan at, error bars."""

import numpy as np

from optimiser.engine.replicas import Floats

FEWEST_ROWS = 15
"""A group with fewer rows has no error bar of its own."""
EXCESS = 1.05
MISSED = 0.1


def errors(predicted: Floats, measured: Floats) -> dict[str, float]:
    """Mean, median and 90th percentile of |predicted / measured - 1|, and the mean signed error."""
    known = np.isfinite(measured)
    ratio = predicted[known] / measured[known] - 1
    if not len(ratio):
        return {"rows": 0}
    size = np.abs(ratio)
    return {
        "rows": len(ratio),
        "mean_error_frac": float(size.mean()),
        "median_error_frac": float(np.median(size)),
        "p90_error_frac": float(np.quantile(size, 0.9)),
        "bias_frac": float(ratio.mean()),
    }


def slo_margin(predicted: Floats, measured: Floats) -> float:
    """Largest share of a target to plan at, so that few runs miss the target by much.

    With predicted = share * target, a run misses by more than 5 % where measured / predicted >
    1.05 / share; at most 10 % of runs may. At most 1.
    """
    over = np.sort(measured / predicted)[::-1]
    allowed = int(MISSED * len(over))
    return float(min(EXCESS / over[allowed], 1.0))


def error_bar(predicted: Floats, measured: Floats) -> dict[str, float]:
    """10th and 90th percentile of measured / predicted: 8 of 10 runs lie between."""
    factor = measured / predicted
    return {
        "rows": len(factor),
        "low_factor": float(np.quantile(factor, 0.1)),
        "high_factor": float(np.quantile(factor, 0.9)),
    }


def rounded(value: float) -> float:
    """A number as it is written: 4 significant digits."""
    return float(f"{value:.4g}")
