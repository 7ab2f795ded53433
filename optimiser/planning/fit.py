"""Whether a model fits on a GPU type, term by term, and what is left for its cache."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from optimiser.catalogue.formats import CACHE_FORMATS, WEIGHT_FORMATS, Format
from optimiser.catalogue.gpu import Gpu
from optimiser.catalogue.llm import Llm
from optimiser.engine import itemised, memory
from optimiser.errors import CaseError, Mistake
from optimiser.planning.legal import legal_sizes, why_illegal
from optimiser.planning.rental import GPUS_PER_NODE
from optimiser.units import TOLERANCE, at_most, gib

Value = TypeVar("Value", int, float, str)
LONGEST_CONTEXT = 2**30


@dataclass(frozen=True, slots=True)
class Asked:
    """What to fit; None takes the default that `Fit.assumed` names."""

    llm: Llm
    gpu: Gpu
    tensor_parallel: int | None = None
    weights: str | None = None
    kv_cache: str | None = None
    context: int | None = None
    memory_utilization: float | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """The terms of one GPU's memory, and the cache that they leave."""

    llm: Llm
    gpu: Gpu
    tensor_parallel: int
    context: int
    weight_gib_per_gpu: float
    kv_bytes_per_token_per_gpu: float
    """Every layer that caches, windows ignored."""
    kv_gib_per_gpu: float
    """Left for the cache; negative where the rest does not fit."""
    kv_tokens: float
    """Sequences at the context, fractional, times the context."""
    max_sequences: int
    largest_context: int
    shortfall_gib: float
    """What one sequence at the context lacks; 0 where it fits."""
    terms: tuple[tuple[str, float], ...]
    """Name and GiB, in the order they are taken off the device."""
    assumed: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether one sequence at the context fits."""
        return self.max_sequences >= 1


def fit(asked: Asked) -> Fit:
    """Fit a model on a GPU type, at the smallest tensor-parallel size that fits if none is given.

    Raises CaseError where a figure of the model is missing, or where the size is not legal.
    """
    llm, gpu = asked.llm, asked.gpu
    missing = llm.missing_for_memory
    if missing:
        message = f"{llm.name} does not say its {', '.join(missing)}: import its config.json"
        raise CaseError([Mistake("model", "", message)])
    weights, node = asked.weights or llm.own_format, gpu.gpus_per_node or GPUS_PER_NODE
    if weights not in WEIGHT_FORMATS:
        message = f"{llm.name} is stored in {weights}; say what to count with --weights"
        raise CaseError([Mistake("model", "", f"{message}: {', '.join(WEIGHT_FORMATS)}")])
    sizes = legal_sizes(llm, weights, llm.kv_heads, node)
    if asked.tensor_parallel is not None:
        reason = why_illegal(llm, weights, llm.kv_heads, asked.tensor_parallel, node)
        if reason:
            message = f"{reason}; legal: {', '.join(map(str, sizes))}"
            raise CaseError([Mistake("--tensor-parallel", "", message)])
        return _fit(asked, asked.tensor_parallel)
    tried = [_fit(asked, size) for size in sizes]
    return next((found for found in tried if found.fits), tried[-1])


def _fit(asked: Asked, size: int) -> Fit:
    llm, gpu, assumed = asked.llm, asked.gpu, list[str]()

    def given(value: Value | None, default: Value, what: str) -> Value:
        if value is None:
            assumed.append(f"{what}: {default}")
            return default
        return value

    step = itemised.default_step(gpu)
    fmt = WEIGHT_FORMATS[asked.weights or llm.own_format]
    given(asked.weights, llm.own_format, "weights, as the checkpoint")
    cache = given(asked.kv_cache, "fp16", "KV cache")
    context = given(asked.context, llm.max_context or 4096, "context, the model's longest")
    utilization = given(asked.memory_utilization, itemised.UTILIZATION, "memory utilization")
    server = "a vLLM server's for this device"
    tokens = given(asked.max_num_batched_tokens, step.tokens, f"max_num_batched_tokens, {server}")
    sequences = given(asked.max_num_seqs, step.sequences, f"max_num_seqs, {server}")
    assumed.append("CUDA graphs: captured outside of the budget")
    if llm.max_context is not None and context > llm.max_context:
        assumed.append(f"context {context} is beyond the model's longest, {llm.max_context}")
    assumed += _arithmetic(gpu, fmt)

    held = sum(memory.dense_and_expert_bytes(llm, fmt)) / size
    computing = itemised.computing_bytes(llm, size, tokens)
    sampling = itemised.sampling_bytes(llm, tokens)
    sampling += sequences * itemised.sampler_bytes_per_sequence(llm)
    other = itemised.non_torch_bytes(size)
    budget = gpu.capacity_bytes * utilization
    left = budget - held - max(computing, sampling) - other

    def cached(tokens: float) -> float:
        width = CACHE_FORMATS[cache].bytes_per_number
        return memory.kv_bytes(llm, llm.kv_heads, width, size, tokens)

    per_sequence = cached(context)
    at_once = max(0.0, left) / per_sequence
    longest = min(llm.max_context or LONGEST_CONTEXT, LONGEST_CONTEXT)
    return Fit(
        llm=llm,
        gpu=gpu,
        tensor_parallel=size,
        context=context,
        weight_gib_per_gpu=gib(held),
        kv_bytes_per_token_per_gpu=_per_token(llm, cache, size),
        kv_gib_per_gpu=gib(left),
        kv_tokens=at_once * context,
        max_sequences=int(at_once * (1 + TOLERANCE)),
        largest_context=_largest(lambda tokens: at_most(cached(tokens), left), longest),
        shortfall_gib=gib(max(0.0, per_sequence - left)),
        terms=(
            ("device", gib(gpu.capacity_bytes)),
            ("outside the budget", -gib(gpu.capacity_bytes - budget)),
            ("weights", -gib(held)),
            ("activation peak", -gib(max(computing, sampling))),
            ("non-torch", -gib(other)),
            ("CUDA graphs", 0.0),
            ("left for the KV cache", gib(left)),
        ),
        assumed=tuple(assumed),
    )


def _arithmetic(gpu: Gpu, weights: Format) -> Iterator[str]:
    """What a GPU cannot compute in, and what it does instead."""
    if not gpu.has_bf16:
        yield f"{gpu.name} has no bf16: 16-bit weights and arithmetic are fp16"
    if not gpu.computes(weights):
        yield (
            f"{gpu.name} has no {weights.computes_in} figure: {weights.name} weights take their "
            "own bytes but compute at its 16-bit rate"
        )


def _per_token(llm: Llm, cache: str, size: int) -> float:
    """Bytes that one more token takes on one GPU while no window is full."""
    width = CACHE_FORMATS[cache].bytes_per_number
    return memory.kv_bytes(llm, llm.kv_heads, width, size, 1) - memory.kv_bytes(
        llm, llm.kv_heads, width, size, 0
    )


def _largest(holds: Callable[[int], bool], most: int) -> int:
    """The largest whole number, 0 to `most`, at which a condition that turns false holds."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low
