"""One replica of one design in plain scalar code: the verifier's own engine.

Nothing here is shared with the vectorised engine, the program or the solvers. The formulas are
the page's, steps 2 to 5, and for models whose parts are known the same with those parts.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from optimiser.case import Case
from optimiser.catalogue.formats import CACHE_FORMATS, WEIGHT_FORMATS, Format
from optimiser.catalogue.gpu import Gpu
from optimiser.catalogue.llm import CacheLayers, Llm
from optimiser.planning.deployment import constants, deployment
from optimiser.planning.design import Design
from optimiser.planning.latency_scalar import Latency
from optimiser.units import BYTES_PER_GIB, at_most, bytes_of_gb


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of a design; everything is per GPU."""

    weight_bytes: float
    expert_bytes: float
    """Of the weights, those of routed experts."""
    experts_missed_frac: float
    """Share of the experts that one token leaves unread."""
    working_bytes: float
    """Itemised memory beside weights and cache while a pass is computed."""
    sampling_bytes: float
    """The same while tokens are sampled, less what grows with the batch."""
    sampler_bytes_per_sequence: float
    kv_held_bytes: float
    """Cache of one finished request."""
    kv_read_bytes_per_sequence: float
    """Cache that a decode step reads of one sequence, on average."""
    usable_bytes: float
    decode_flops: float
    prefill_flops: float
    bytes_per_s: float
    flops_per_s: float
    prompt: int
    answer: int

    def weight_read_bytes(self, tokens: int) -> float:
        """Weights read by a pass over so many tokens."""
        unread = self.expert_bytes * math.pow(self.experts_missed_frac, tokens)
        return self.weight_bytes - unread

    def kv_read_bytes(self, batch: int) -> float:
        """Cache read by a decode step."""
        return batch * self.kv_read_bytes_per_sequence

    def decode_compute_s(self, batch: int) -> float:
        """Arithmetic of a decode step, s."""
        return self.decode_flops * batch / self.flops_per_s

    def decode_read_s(self, batch: int) -> float:
        """Memory reads of a decode step, s."""
        return (self.weight_read_bytes(batch) + self.kv_read_bytes(batch)) / self.bytes_per_s

    def step_s(self, batch: int) -> float:
        """One decode step, s: the slower of arithmetic and reads."""
        return max(self.decode_compute_s(batch), self.decode_read_s(batch))

    @property
    def prefill_compute_s(self) -> float:
        """Arithmetic of one prompt, s."""
        return self.prefill_flops / self.flops_per_s

    @property
    def prefill_read_s(self) -> float:
        """Weights read for one prompt, s."""
        return self.weight_read_bytes(self.prompt) / self.bytes_per_s

    @property
    def prefill_s(self) -> float:
        """One prompt, s: the slower of the two."""
        return max(self.prefill_compute_s, self.prefill_read_s)

    def memory_bytes(self, batch: int) -> float:
        """Memory in use at a batch: the larger of computing and sampling."""
        held = self.weight_bytes + batch * self.kv_held_bytes
        sampling = self.sampling_bytes + batch * self.sampler_bytes_per_sequence
        return held + max(self.working_bytes, sampling)

    @property
    def largest_batch(self) -> int:
        """Most sequences that fit, by memory alone."""
        spare = self.usable_bytes - self.weight_bytes
        low, high = 0, max(0, math.floor(spare / self.kv_held_bytes)) + 2
        while low < high:
            middle = (low + high + 1) // 2
            if at_most(self.memory_bytes(middle), self.usable_bytes):
                low = middle
            else:
                high = middle - 1
        return low


class Pace(Protocol):
    """Times of one replica at a batch, s."""

    def ttft_s(self, batch: int) -> float:
        """Time to first token."""

    def tpot_s(self, batch: int) -> float:
        """Mean time per output token after the first."""

    def request_replica_s(self, batch: int) -> float:
        """Replica-seconds that one request costs."""

    def residence_s(self, batch: int) -> float:
        """One request from arrival to last token."""


@dataclass(frozen=True, slots=True)
class IdealPace:
    """The page's times: a prefill alone, then steps that the batch shares."""

    replica: Replica

    def ttft_s(self, batch: int) -> float:
        """The prefill, whatever the batch."""
        return self.replica.prefill_s

    def tpot_s(self, batch: int) -> float:
        """One decode step."""
        return self.replica.step_s(batch)

    def request_replica_s(self, batch: int) -> float:
        """Its share of the decode steps, and its prefill."""
        return self.replica.answer * self.replica.step_s(batch) / batch + self.replica.prefill_s

    def residence_s(self, batch: int) -> float:
        """Prefill, and a step for each answer token."""
        return self.replica.prefill_s + self.replica.answer * self.replica.step_s(batch)


def pace_of(case: Case, design: Design, replica: Replica) -> Pace:
    """The times of a design in the fidelity that its case asks for."""
    if case.assumptions.latency == "ideal":
        return IdealPace(replica)
    chosen = design.configuration
    return Latency(deployment(case, chosen), constants(case, chosen.gpu))


def replica_of(case: Case, design: Design) -> Replica:
    """The replica of a design, from the case's own figures."""
    llm, chosen, assumed = case.model, design.configuration, case.assumptions
    shards, weights = chosen.tensor_parallel, WEIGHT_FORMATS[chosen.weights]
    dense, routed = _weight_bytes(llm, weights)
    prompt, answer = case.brief.prompt_tokens, case.brief.answer_tokens
    working, sampling, per_sequence, usable_frac = 0.0, 0.0, 0.0, 1 - assumed.memory_reserve
    if assumed.memory == "itemised":
        usable_frac = assumed.memory_utilization
        hidden, ffn = llm.hidden_size or 0, llm.ffn_size or 0
        tokens = assumed.max_num_batched_tokens or _step_tokens(chosen.gpu)
        other = (0.13 if shards == 1 else 0.55) * BYTES_PER_GIB
        working = other + 2 * tokens * 3 * (ffn / shards + hidden)
        sampling = other + 2 * tokens * hidden
        per_sequence = 39.0 * (llm.vocab_size or 0)
    attention = _attention_flops(llm)
    cached = prompt * assumed.prefix_cached_frac
    multiplied = 2 * _multiplied_params(llm)
    return Replica(
        weight_bytes=(dense + routed) / shards,
        expert_bytes=routed / shards,
        experts_missed_frac=1 - llm.experts.per_token / llm.experts.count if llm.experts else 0.0,
        working_bytes=working,
        sampling_bytes=sampling,
        sampler_bytes_per_sequence=per_sequence,
        kv_held_bytes=_kv_bytes(case, design, prompt + answer),
        kv_read_bytes_per_sequence=_kv_bytes(case, design, prompt + answer / 2),
        usable_bytes=chosen.gpu.capacity_bytes * usable_frac,
        decode_flops=(multiplied + attention(prompt + answer / 2)) / shards,
        prefill_flops=(
            prompt * (multiplied + attention(prompt / 2))
            - cached * (multiplied + attention(cached / 2))
        )
        / shards,
        bytes_per_s=bytes_of_gb(chosen.gpu.bandwidth_gb_per_s) * assumed.efficiency,
        flops_per_s=(chosen.gpu.flops_per_s(weights) or 0.0) * assumed.efficiency,
        prompt=prompt,
        answer=answer,
    )


def _weight_bytes(llm: Llm, fmt: Format) -> tuple[float, float]:
    """Bytes of the dense part and of the routed experts, in a format."""
    routed = 0
    if llm.experts:
        routed = llm.experts.layers * llm.experts.count * llm.experts.params_each
    total = llm.params
    if fmt.everywhere or llm.embedding_params is None:
        kept = 0.0
    elif llm.stored and llm.stored.format == fmt.name:
        kept = total - llm.stored.params
    elif fmt.name == "mxfp4" and routed:
        kept = total - routed
    else:
        kept = float(llm.embedding_params + (llm.head_params or 0))
    kept_routed = max(0.0, kept - (total - routed))
    kept_dense = kept - kept_routed
    routed_bytes = kept_routed * 2 + (routed - kept_routed) * fmt.bytes_per_number
    dense_bytes = kept_dense * 2 + (total - routed - kept_dense) * fmt.bytes_per_number
    if fmt.name == "mxfp4" and llm.expert_ffn_size:
        routed_bytes *= -(-llm.expert_ffn_size // 256) * 256 / llm.expert_ffn_size
    own = llm.stored.format if llm.stored else "fp16"
    if llm.weight_bytes and fmt.name == own:
        dense_bytes = max(0.0, llm.weight_bytes - routed_bytes)
    return dense_bytes, routed_bytes


def _kv_bytes(case: Case, design: Design, context: float) -> float:
    """Cache of one sequence of a context on one GPU."""
    llm, chosen = case.model, design.configuration
    width = CACHE_FORMATS[chosen.kv_cache].bytes_per_number
    shards = chosen.tensor_parallel
    if not llm.cache:
        heads_per_gpu = chosen.kv_heads / min(shards, chosen.kv_heads)
        return 2 * llm.layers * heads_per_gpu * llm.head_dim * width * context
    return sum(_run_bytes(run, llm, chosen.kv_heads, shards, width, context) for run in llm.cache)


def _run_bytes(
    run: CacheLayers, llm: Llm, kv_heads: int, shards: int, width: float, context: float
) -> float:
    tokens = context if run.window_tokens is None else min(context, run.window_tokens)
    if run.kind == "state":
        return run.layers * run.state_bytes / shards
    per_token = run.layers * run.numbers_per_token * width
    if run.kind == "latent":
        return per_token * tokens
    heads = max(1, run.kv_heads * kv_heads // llm.kv_heads)
    return per_token * tokens * heads / run.kv_heads / min(shards, heads)


def _multiplied_params(llm: Llm) -> float:
    """Parameters in the matrix products of one token; an embedding look-up is none."""
    active = llm.active_params if llm.active_params is not None else llm.params
    return active - (llm.embedding_params or 0 if llm.head_params else 0)


def _attention_flops(llm: Llm) -> Callable[[float], float]:
    def flops(context: float) -> float:
        if llm.embedding_params is None:
            return 0.0
        runs = llm.cache or (None,)
        total = 0.0
        for run in runs:
            if run is None:
                total += llm.layers * llm.head_dim * context
            elif run.kind != "state":
                tokens = context if run.window_tokens is None else min(context, run.window_tokens)
                width = run.numbers_per_token if run.kind == "latent" else run.head_dim
                total += run.layers * width * tokens
        return 4 * llm.attention_heads * total

    return flops


def _step_tokens(gpu: Gpu) -> int:
    """Tokens that vLLM puts into a step by default: 8192 on large devices, the A100 excepted."""
    return (
        8192
        if gpu.capacity_bytes >= 70 * BYTES_PER_GIB and "a100" not in gpu.name.lower()
        else 2048
    )
