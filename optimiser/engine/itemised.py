"""Memory that an engine takes beside weights and cache, term by term, on one GPU.

Forms and constants were fitted to what vLLM logs at start on text models; see
`models/measurements/README.md`. All in bytes.
"""

from dataclasses import dataclass

from optimiser.catalogue.gpu import Gpu
from optimiser.catalogue.llm import Llm
from optimiser.units import BYTES_PER_GIB

UTILIZATION = 0.9
"""Share of the device that an engine budgets when nothing is said (newest vLLM: 0.92)."""

LARGE_DEVICE_BYTES = 70 * BYTES_PER_GIB
LOGITS_BYTES = 39
"""Sampler's working space for each score of each sequence: fp32 logits, sorted copies, masks."""
NON_TORCH_BYTES = 0.13 * BYTES_PER_GIB
NON_TORCH_PARALLEL_BYTES = 0.55 * BYTES_PER_GIB
"""With more than one GPU: communication buffers too."""


@dataclass(frozen=True, slots=True)
class StepSize:
    """How much an engine puts into one step."""

    tokens: int
    """vLLM `--max-num-batched-tokens`."""
    sequences: int
    """vLLM `--max-num-seqs`."""


def default_step(gpu: Gpu) -> StepSize:
    """What a vLLM server picks for a device: more on large ones, the A100 excepted.

    Source: `EngineArgs.get_batch_defaults` of vLLM, its usage context `OPENAI_API_SERVER`; offline
    the tokens are twice as many on large devices and four times on others.
    """
    large = gpu.capacity_bytes >= LARGE_DEVICE_BYTES and "a100" not in gpu.name.lower()
    return StepSize(8192, 1024) if large else StepSize(2048, 256)


def computing_bytes(llm: Llm, tensor_parallel: int, tokens: int) -> float:
    """Working space of a forward pass: 16-bit MLP and residual activations of every token."""
    hidden, ffn = llm.hidden_size or 0, llm.ffn_size or 0
    return 2 * tokens * (3 * ffn / tensor_parallel + 3 * hidden)


def sampling_bytes(llm: Llm, tokens: int) -> float:
    """What a forward pass leaves in place while tokens are sampled: the hidden states."""
    return 2 * tokens * (llm.hidden_size or 0)


def sampler_bytes_per_sequence(llm: Llm) -> float:
    """Working space of the sampler for one sequence: the head is not sharded there."""
    return LOGITS_BYTES * (llm.vocab_size or 0)


def non_torch_bytes(tensor_parallel: int) -> float:
    """Memory that the driver and the communication library take."""
    return NON_TORCH_BYTES if tensor_parallel == 1 else NON_TORCH_PARALLEL_BYTES
