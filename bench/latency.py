"""Points per second of the latency model, measured beside the ideal roofline.

A point is one (configuration, batch); numpy uses one thread for all of this.

    python bench/latency.py
"""

import json
import math
import time
from collections.abc import Callable
from itertools import product

import numpy as np

from optimiser.catalogue.calibrated import calibrated
from optimiser.catalogue.latency_constants import Deployment
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
        facts.append(_facts(at))
    columns = columns_of(rows)
    replicas = Replicas(**{name: np.array([fact[name] for fact in facts]) for name in facts[0]})
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


def _facts(at: Deployment) -> dict[str, float]:
    """The same deployment as the ideal roofline sees it, every peak reached."""
    shape, experts = at.shape, at.shape.experts
    context = at.prompt_tokens + at.answer_tokens / 2
    held = weight_bytes(at)
    expert_bytes = 0.0
    if experts:
        routed = experts.layers * experts.count * experts.params_each
        expert_bytes = routed * at.experts.bytes_per_param / at.n_gpus
    token_flops = 2 * shape.params_active / at.n_gpus
    return {
        "usable_bytes": math.inf,
        "fixed_bytes": held,
        "kv_held_bytes": cache_bytes(at, at.prompt_tokens + at.answer_tokens),
        "sampler_fixed_bytes": held,
        "sampler_bytes": 0.0,
        "read_bytes": held - expert_bytes,
        "expert_bytes": expert_bytes,
        "expert_missed_frac": 1 - experts.per_token / experts.count if experts else 0.0,
        "kv_read_bytes": cache_bytes(at, context, read=True),
        "decode_flops": token_flops,
        "prefill_flops": token_flops * at.prompt_tokens,
        "bytes_per_s": at.peak_bytes_per_s,
        "flops_per_s": at.peak_flops_per_s["fp16"],
    }


def _rate(points: int, work: Callable[[], object]) -> int:
    best = min(_seconds(work) for _ in range(REPEATS))
    return round(points / best)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
