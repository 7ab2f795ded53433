"""Error bars: what measured runs say a prediction is worth."""

import math
from dataclasses import dataclass

from optimiser.planning.margin import Spread, spread
from optimiser.planning.planner import Planned


@dataclass(frozen=True, slots=True)
class Bars:
    """What 8 of 10 measured runs lay between, applied to a plan's figures."""

    tpot_ms: tuple[float, float]
    ttft_ms: tuple[float, float]
    gpus: tuple[int, int]
    """GPUs that the demand takes if throughput is at either end."""
    group: str
    """The runs that it rests on."""
    rows: int


def bars_of(planned: Planned) -> Bars | None:
    """The error bars of a plan with the measured fidelity; None for the ideal roofline."""
    case, design, figures = planned.case, planned.design, planned.verdict.figures
    gpu = design.configuration.gpu
    tpot, ttft = spread(case, gpu, "tpot"), spread(case, gpu, "ttft")
    throughput = spread(case, gpu, "throughput")
    if tpot is None or ttft is None or throughput is None:
        return None
    need = case.brief.rate * case.assumptions.headroom / figures.requests_per_s_per_replica
    size = design.configuration.tensor_parallel
    fewest, most = (math.ceil(need / factor) * size for factor in (throughput.high, throughput.low))
    return Bars(
        _around(figures.tpot_ms, tpot),
        _around(figures.ttft_ms, ttft),
        (min(fewest, design.gpus), max(most, design.gpus)),
        tpot.group,
        tpot.rows,
    )


def _around(value: float, factors: Spread) -> tuple[float, float]:
    return value * factors.low, value * factors.high
