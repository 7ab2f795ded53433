"""The bench's fleets, from `fleet_bench.json`: pools as plain arrays."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from optimiser.engine.replicas import Lengths, Replicas
from optimiser.planning.fleet.grid import pool_grid
from optimiser.planning.fleet.pools import Fleet, Pools
from optimiser.planning.fleet.shares import Offered, binding, shares
from optimiser.units import nano_usd

PARAMS, KV_NUMBERS = 8.03e9, 2 * 32 * 8 * 128
BITS = {"fp16": 16, "int8": 8, "int4": 4}
HEADROOM, RESERVE, BANDWIDTH_FRAC, FLOPS_FRAC = 1.2, 0.10, 0.8, 0.6
MOST_BATCH = 4096


def load() -> dict[str, Any]:
    """The bench's file."""
    return json.loads((Path(__file__).parent / "fleet_bench.json").read_text())


def fleet_of(gpus: list[dict[str, Any]], workloads: list[dict[str, Any]]) -> Fleet:
    """The fleet of some GPU types and workloads of the bench's file."""
    chosen = list(product(range(len(gpus)), (1, 2, 4, 8), BITS, ("fp16", "int8")))
    offered = [_offered(gpus, chosen, workload) for workload in workloads]
    most = np.full(len(chosen), MOST_BATCH)
    configuration, step_s, batch = pool_grid(offered, most)
    need, able = shares(offered, configuration, step_s, batch)
    used = able.any(axis=1)
    gpu = np.array([c[0] for c in chosen])
    size = np.array([c[1] for c in chosen])
    return Fleet(
        pools=Pools(
            need[used][:, binding(need[used])],
            able[used],
            configuration[used],
            step_s[used],
            gpu[configuration][used],
            size[configuration][used].astype(float),
        ),
        unit_nano_usd=np.array([nano_usd(g["usd_per_hour"]) for g in gpus]),
        stock_use=np.eye(len(gpus)),
        stock_most=np.array([float(g["stock"]) for g in gpus]),
        demand=np.array([w["requests_per_s"] for w in workloads]),
        spot=np.zeros(len(gpus), dtype=bool),
    )


def _offered(
    gpus: list[dict[str, Any]], chosen: list[tuple[int, int, str, str]], w: dict[str, Any]
) -> Offered:
    lengths = Lengths(w["prompt_tokens"], w["answer_tokens"])
    rows = []
    for g, size, weights, cache in chosen:
        gpu = gpus[g]
        weight = PARAMS * BITS[weights] / 8
        kv = KV_NUMBERS * BITS[cache] / 8
        rows.append(
            (
                gpu["memory_gb"] * 1e9 * size * (1 - RESERVE),
                weight,
                kv * lengths.full_context,
                weight,
                0.0,
                weight,
                0.0,
                0.0,
                kv * lengths.decode_context,
                2 * PARAMS,
                2 * PARAMS * lengths.prompt,
                gpu["bandwidth_tb_per_s"] * 1e12 * size * BANDWIDTH_FRAC,
                gpu["tflops_fp16"] * 1e12 * size * FLOPS_FRAC,
            )
        )
    return Offered(
        requests_per_s=w["requests_per_s"] * HEADROOM,
        lengths=lengths,
        ttft_target_s=w["ttft_target_s"],
        tpot_target_s=w["tpot_target_ms"] / 1000,
        replicas=Replicas(*np.array(rows).T),
        admitted=np.array([c[2] in w["weights"] and c[3] in w["kv_cache"] for c in chosen]),
    )
