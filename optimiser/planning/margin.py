"""How much of a target is planned at, and how far measured runs spread around predictions."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from optimiser.case import Case
from optimiser.catalogue.gpu import Gpu
from optimiser.catalogue.load import shipped
from optimiser.yaml_io import read


@dataclass(frozen=True, slots=True)
class Spread:
    """Measured over predicted, 8 of 10 runs between the two; of runs that no fit had seen."""

    low: float
    high: float
    rows: int
    group: str
    """The runs that it rests on: the GPU and engine, else the GPU, else the engine, else all."""


def is_measured(case: Case) -> bool:
    """Whether times are those of measured servers."""
    return case.assumptions.latency == "measured"


def slo_margin(case: Case) -> float:
    """Share of the latency targets that is planned at.

    The case's own; else 1 for the ideal roofline, and for the measured model the largest share at
    which at most 10 % of runs that no fit had seen exceed the target by more than 5 %.
    """
    assumed = case.assumptions
    if assumed.slo_margin is not None:
        return assumed.slo_margin
    return 1.0 if assumed.latency == "ideal" else float(_bars()["slo_margin"]["tpot"])


def spread(case: Case, gpu: Gpu, what: str) -> Spread | None:
    """The spread of `tpot`, `ttft` or `throughput` in the nearest group; None for the roofline."""
    if case.assumptions.latency == "ideal":
        return None
    bars, engine, name = _bars(), case.assumptions.serving_engine, gpu.latency_name
    for group, found in (
        (f"{name} {engine}", bars["gpus_and_engines"].get(f"{name} {engine}")),
        (name, bars["gpus"].get(name)),
        (engine, bars["engines"].get(engine)),
        ("all runs", bars["overall"]),
    ):
        if found is not None:
            bar = found[what]
            return Spread(bar["low_factor"], bar["high_factor"], bar["rows"], group)
    return None


@lru_cache(maxsize=1)
def _bars() -> dict[str, Any]:
    path = shipped("models") / "calibration" / "error-bars.yaml"
    bars: dict[str, Any] = read(path).data
    return bars
