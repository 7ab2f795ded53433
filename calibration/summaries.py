"""Groups of runs that are published as medians only: what a run achieves of its peak.

`achieved_efficiency.csv` gives, for some groups without rows of their own, the median over a few
workloads of (weights + cache read) / TPOT / peak bandwidth, and of 2 x parameters x prompt / TTFT /
peak FLOP/s. The fit compares the same medians of its predictions.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibration.parameters import spread_over
from calibration.parts import Parts
from optimiser.catalogue.latency_constants import Deployment
from optimiser.engine.columns_of_shape import cache_bytes
from optimiser.engine.latency import tpot_s, ttft_s
from optimiser.engine.replicas import Floats
from optimiser.studies.measurements import Names, deployment, slots

CONDITION = re.compile(r"(?P<model>\S+) TP(?P<tp>\d) concurrency ?(?P<band><=8|32-64|<=4)")
SOURCE = re.compile(r"e2e (?P<what>TPOT|TTFT) (?P<engine>\w+)")
CONCURRENCIES = {"<=8": (4, 8), "32-64": (32, 64), "<=4": (4,)}
LENGTHS = ((1024, 1024), (1024, 8192), (8192, 1024))
"""Prompt and answer tokens of the runs behind three-workload medians."""
SHORT_LENGTHS = tuple((p, a) for p in (1024, 2048, 4096) for a in (128, 256, 512))
"""Of those behind nine-workload medians, one concurrency (8) where few run at once."""


@dataclass(frozen=True)
class Summaries:
    """Medians, and the runs behind each."""

    parts: Parts
    gpus: list[str]
    engines: list[str]
    running: Floats
    work: Floats
    """What the run's fraction has above its time: s at peak."""
    median: np.ndarray
    """Which median a run belongs to."""
    measured: Floats
    of_tpot: np.ndarray
    models: list[str]
    """The architecture behind each median."""

    def log_errors(self, values: dict[str, float]) -> Floats:
        """log(predicted time / measured time), by median."""
        at = spread_over(values, self.gpus, self.engines)
        columns = self.parts.columns(at)
        synchrony = at["closed_loop_synchrony"]
        tpot, ttft = (of(columns, self.running, synchrony) for of in (tpot_s, ttft_s))
        fraction = self.work / np.where(self.of_tpot[self.median], tpot, ttft)
        count = range(len(self.measured))
        said = np.array([np.median(fraction[self.median == number]) for number in count])
        return np.log(self.measured / said)


def summaries(
    rows: Sequence[Mapping[str, str]], names: Names, known: set[tuple[str, str, str]]
) -> Summaries:
    """Medians of groups (architecture, GPU, engine) that are not `known` by rows."""
    at, gpus, engines, running, work, median = [], [], [], [], [], []
    measured, of_tpot, models = [], [], []
    for row in rows:
        source, condition = SOURCE.match(row["source"]), CONDITION.match(row["condition"])
        if source is None or condition is None:
            continue
        config, gpu = names.config(condition["model"]), names.gpu(row["gpu"])
        engine = names.engine(source["engine"])
        if config is None or gpu is None or (config, gpu.name, engine) in known:
            continue
        several = config == "meta-llama/Meta-Llama-3.1-70B"
        loads = CONCURRENCIES[condition["band"]]
        if not several and condition["band"] == "<=8":
            loads = (8,)
        for lengths in LENGTHS if several else SHORT_LENGTHS:
            one = deployment(names, config, gpu, row["dtype"], int(condition["tp"]), lengths)
            for load in loads:
                at.append(one)
                gpus.append(gpu.name)
                engines.append(engine)
                running.append(min(load, max(slots(one, gpu.capacity_bytes), 1)))
                is_tpot = source["what"] == "TPOT"
                work.append(_read_s(one, load) if is_tpot else _multiply_s(one, row["dtype"]))
                median.append(len(measured))
        measured.append(float(row["median"]))
        of_tpot.append(source["what"] == "TPOT")
        models.append(config)
    return Summaries(
        Parts.of(at),
        gpus,
        engines,
        np.array(running, dtype=float),
        np.array(work),
        np.array(median),
        np.array(measured),
        np.array(of_tpot),
        models,
    )


def _read_s(at: Deployment, load: float) -> float:
    """The table counts every parameter in the weights' format, and an 8-bit cache."""
    context = at.prompt_tokens + at.answer_tokens / 2
    cache = load * cache_bytes(replace(at, cache_bytes_per_number=1.0), context)
    weights = at.shape.params_total * at.dense.bytes_per_param / at.n_gpus
    return (weights + cache) / at.peak_bytes_per_s


def _multiply_s(at: Deployment, dtype: str) -> float:
    flops = 2 * at.shape.params_total * at.prompt_tokens / at.n_gpus
    return flops / at.peak_flops_per_s[dtype]
