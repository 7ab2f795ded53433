"""Points per second of the latency model, measured beside the ideal roofline.

A point is one (configuration, batch); numpy uses one thread for all of this.

    python bench/latency.py
"""

import json
import time
from collections.abc import Callable
from itertools import product

import numpy as np

from optimiser.catalogue.calibrated import calibrated
from optimiser.catalogue.load import default_catalogue, shipped
from optimiser.engine import latency
from optimiser.engine.columns_of_shape import cache_bytes, latency_row, weight_bytes
from optimiser.engine.latency_parts import columns_of
from optimiser.engine.replicas import Lengths, Replicas
from optimiser.engine.serving import request_replica_s
from optimiser.studies.measurements import deployment, shipped_names

MODELS = ("Llama-3.1-8B", "Llama-3.1-70B", "gpt-oss-120b", "DeepSeek-V3", "Qwen3.5-397B-A17B")
GPUS = ("a100-sxm-80gb", "h100-sxm", "h200", "b200", "b300", "mi300x", "l40s", "gb200")
BATCHES = np.arange(1, 513)[:, None]
LENGTHS = (1024, 512)
REPEATS = 5


def main() -> None:
    """Prints both fidelities' points per second as JSON."""
    names, folder = shipped_names(), shipped("models") / "calibration"
    rows, facts = [], []
    for model, gpu_name, n, precision, engine in product(
        MODELS, GPUS, (1, 2, 4, 8), ("bf16", "fp8"), ("vllm", "sglang", "tensorrt-llm")
    ):
        gpu = default_catalogue().gpu(gpu_name)
        at = deployment(names, str(names.config(model)), gpu, precision, n, LENGTHS)
        constants = calibrated(folder, gpu_name, engine).constants
        rows.append(latency_row(at, constants))
        context = LENGTHS[0] + LENGTHS[1] / 2
        facts.append(
            (
                weight_bytes(at),
                cache_bytes(at, context) / context,
                gpu.capacity_bytes,
                at.peak_bytes_per_s,
                2 * at.shape.params_active / n,
                at.peak_flops_per_s["fp16"],
            )
        )
    columns = columns_of(rows)
    replicas = Replicas(*np.array(facts, dtype=np.float64).T)
    lengths = Lengths(*LENGTHS)
    points = len(rows) * len(BATCHES)
    report = {
        "points": points,
        "ideal_points_per_s": _rate(points, lambda: request_replica_s(replicas, lengths, BATCHES)),
        "measured_points_per_s": _rate(points, lambda: latency.request_replica_s(columns, BATCHES)),
        "measured_all_three_points_per_s": _rate(
            points,
            lambda: (
                latency.tpot_s(columns, BATCHES),
                latency.ttft_s(columns, BATCHES),
                latency.request_replica_s(columns, BATCHES),
            ),
        ),
    }
    print(json.dumps(report, indent=2))


def _rate(points: int, work: Callable[[], object]) -> int:
    best = min(_seconds(work) for _ in range(REPEATS))
    return round(points / best)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
