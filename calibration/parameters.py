"""What is fitted: names, where each starts and how far a run may pull it from there."""

from dataclasses import dataclass

import numpy as np

from optimiser.engine.replicas import Floats

ENGINES = ("tensorrt-llm", "vllm", "sglang")
HOPPER = ("h100-sxm", "h200")


@dataclass(frozen=True)
class Parameter:
    """A positive constant: log(value) is drawn around log(prior) with a deviation."""

    name: str
    prior: float
    spread: float
    """Standard deviation of the logarithm, before the data speak."""


END_TO_END = (
    Parameter("weight_bandwidth_frac h100-sxm", 0.95, 0.15),
    Parameter("weight_bandwidth_frac h200", 0.86, 0.15),
    Parameter("weight_bandwidth_frac blackwell", 1.0, 0.15),
    Parameter("fp8_bandwidth_factor", 1.0, 0.15),
    Parameter("flop_frac.fp16 hopper", 0.78, 0.3),
    Parameter("flop_frac.fp8 hopper", 0.58, 0.3),
    Parameter("flop_frac.fp16 blackwell", 0.66, 0.3),
    Parameter("flop_frac.fp8 blackwell", 0.49, 0.3),
    Parameter("flop_frac.fp4 blackwell", 0.38, 0.3),
    Parameter("link_bandwidth_frac hopper", 0.369, 0.5),
    Parameter("link_bandwidth_frac blackwell", 0.368, 0.5),
    Parameter("cache_bandwidth_frac", 0.58, 0.3),
    Parameter("expert_flop_frac", 0.25, 0.6),
    Parameter("expert_imbalance", 1.19, 0.2),
    Parameter("link_latency_s", 10.5e-6, 0.7),
    Parameter("layer_floor_s", 44e-6, 0.7),
    Parameter("step_floor_s", 0.09e-3, 0.7),
    Parameter("expert_layer_floor_s", 34e-6, 0.7),
    Parameter("expert_fp8_floor_s", 15e-6, 0.7),
    Parameter("expert_unpack_floor_s", 30e-6, 0.7),
    Parameter("sparse_layer_floor_s", 90e-6, 0.5),
    Parameter("prefill_share", 0.75, 0.4),
    Parameter("wait_steps", 5.1, 0.7),
    Parameter("grouped_wait_steps tensorrt-llm", 34.0, 0.7),
    Parameter("ttft_offset_s tensorrt-llm", 0.022, 1.5),
    Parameter("ttft_offset_s vllm", 0.005, 1.5),
    Parameter("ttft_offset_s sglang", 0.218, 1.5),
    *(Parameter(f"sequence_s {e}", 10e-6, 1.0) for e in ENGINES),
    *(Parameter(f"closed_loop_synchrony {e}", 0.17, 0.6) for e in ENGINES),
    *(Parameter(f"floor_factor {e}", 1.0, 0.3) for e in ENGINES),
    *(Parameter(f"bandwidth_factor {e}", 1.0, 0.15) for e in ENGINES),
    *(Parameter(f"arithmetic_factor {e}", 1.0, 0.25) for e in ENGINES),
)
"""Starting points: the published form that the model grew from, and no difference by engine."""

PRIOR_WEIGHT = 1.2
"""One deviation from its start costs a parameter as much as an error of 120 % costs a row."""

FACTORED = {
    "floor_factor": (
        "link_latency_s",
        "layer_floor_s",
        "step_floor_s",
        "expert_layer_floor_s",
        "expert_fp8_floor_s",
        "expert_unpack_floor_s",
    ),
    "bandwidth_factor": ("weight_bandwidth_frac", "cache_bandwidth_frac"),
    "arithmetic_factor": ("flop_frac.fp16", "flop_frac.fp8", "flop_frac.fp4", "flop_frac.int8"),
}
"""Constants that an engine's factor multiplies."""

ONLY_IN_KERNEL_SUMS = {
    "unhidden_frac": 0.0,
    "prompt_attention_frac": 1.0,
    "link_large_s": 0.0,
    "link_large_bytes": 1.0,
    "fp8_layer_floor_s": 0.0,
}
"""Constants that kernel sums tell apart and end-to-end runs do not: fitted to these as well, they
predict groups that the fit has not seen no better. Here they stand for nothing."""

AT_MOST_ONE = ("weight_bandwidth_frac", "cache_bandwidth_frac", "prefill_share")


def family(gpu: str) -> str:
    """Whose constants a GPU of the end-to-end runs shares."""
    return "hopper" if gpu in HOPPER else "blackwell"


def constants_of(values: dict[str, float], gpu: str, engine: str) -> dict[str, float]:
    """Every constant of a GPU and engine, engine factors applied, by its plain name."""
    found = {}
    for name, value in values.items():
        plain, _, whose = name.partition(" ")
        if whose in ("", gpu, family(gpu), engine):
            found[plain] = value
    found.setdefault("flop_frac.fp4", 1.0)
    found.setdefault("flop_frac.int8", found["flop_frac.fp8"])
    found.setdefault("grouped_wait_steps", 0.0)
    found.update(ONLY_IN_KERNEL_SUMS)
    for factor, names in FACTORED.items():
        by = found.pop(factor)
        for name in names:
            found[name] *= by
    for name in AT_MOST_ONE:
        found[name] = min(found[name], 1.0)
    return found


def spread_over(values: dict[str, float], gpus: list[str], engines: list[str]) -> dict[str, Floats]:
    """The same for many rows, as arrays."""
    pairs = sorted(set(zip(gpus, engines, strict=True)))
    index = {pair: i for i, pair in enumerate(pairs)}
    rows = np.array([index[pair] for pair in zip(gpus, engines, strict=True)])
    sets = [constants_of(values, *pair) for pair in pairs]
    return {name: np.array([s[name] for s in sets])[rows] for name in sets[0]}
