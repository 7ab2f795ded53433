"""The engine's columns of configurations: each part worked out once, then laid side by side."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from optimiser.case import Case
from optimiser.catalogue.formats import CACHE_FORMATS, WEIGHT_FORMATS
from optimiser.catalogue.gpu import Gpu
from optimiser.engine import itemised, memory, roofline
from optimiser.engine.replicas import Lengths, Replicas
from optimiser.planning.design import Configuration
from optimiser.units import bytes_of_gb


def columns(case: Case, chosen: Sequence[Configuration], lengths: Lengths) -> Replicas:
    """What each configuration holds, reads and computes, per GPU."""
    llm, assumed = case.model, case.assumptions
    is_itemised = assumed.memory == "itemised"
    sampler = itemised.sampler_bytes_per_sequence(llm) if is_itemised else 0.0
    experts = llm.experts
    missed = 1 - experts.per_token / experts.count if experts else 0.0
    decode = roofline.token_flops(llm, lengths.decode_context)
    prefill = roofline.prompt_flops(llm, lengths.prompt, assumed.prefix_cached_frac)

    @cache
    def weights(name: str) -> tuple[float, float]:
        return memory.dense_and_expert_bytes(llm, WEIGHT_FORMATS[name])

    @cache
    def kv(heads: int, name: str, size: int) -> tuple[float, float]:
        width = CACHE_FORMATS[name].bytes_per_number
        held = memory.kv_bytes(llm, heads, width, size, lengths.full_context)
        return held, memory.kv_bytes(llm, heads, width, size, lengths.decode_context)

    tokens = {gpu.name: step_tokens(case, gpu) for gpu in case.hardware.gpus}
    rows = []
    for c in chosen:
        size = c.tensor_parallel
        dense, routed = weights(c.weights)
        held, read = kv(c.kv_heads, c.kv_cache, size)
        computing, sampling = 0.0, 0.0
        if is_itemised:
            other = itemised.non_torch_bytes(size)
            computing = other + itemised.computing_bytes(llm, size, tokens[c.gpu.name])
            sampling = other + itemised.sampling_bytes(llm, tokens[c.gpu.name])
        share = (dense + routed) / size
        rows.append(
            (
                c.gpu.capacity_bytes * usable_frac(case),
                share + computing,
                held,
                share + sampling,
                sampler,
                dense / size,
                routed / size,
                missed,
                read,
                decode / size,
                prefill / size,
                bytes_of_gb(c.gpu.bandwidth_gb_per_s) * assumed.efficiency,
                (c.gpu.flops_per_s(WEIGHT_FORMATS[c.weights]) or 0.0) * assumed.efficiency,
            )
        )
    return Replicas(*np.array(rows).T)


def usable_frac(case: Case) -> float:
    """Share of a device that weights, cache and working space may take."""
    assumed = case.assumptions
    if assumed.memory == "itemised":
        return assumed.memory_utilization
    return 1 - assumed.memory_reserve


def step_tokens(case: Case, gpu: Gpu) -> int:
    """Most tokens in one step: the case's, else the engine's default for the device."""
    return case.assumptions.max_num_batched_tokens or itemised.default_step(gpu).tokens
