"""The measured latency model in plain arithmetic, layer by layer, for the verifier.

Written apart from the engine's columns, from the same facts and constants, so that each checks
the other. Times in s.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optimiser.catalogue.hf_config.shape import CacheLayers
from optimiser.catalogue.latency_constants import Deployment, LatencyConstants, PartFormat

CHUNK_TOKENS = 8192
ACTIVATION_BYTES = 2


@dataclass(frozen=True, slots=True)
class Latency:
    """One deployment under one set of constants."""

    at: Deployment
    constants: LatencyConstants

    def step_s(self, decoding: float, tokens: float) -> float:
        """One step: `decoding` sequences get a token each, `tokens` pass through the weights."""
        return self.shared_step_s(decoding, tokens) + decoding * self.sequence_s()

    def shared_step_s(self, decoding: float, tokens: float) -> float:
        """The part of a step that is the same whatever the lengths of its sequences."""
        total = self._attention_and_dense_s(tokens) + self._experts_s(tokens)
        total += self._links_s(tokens) + self._floors_s()
        return total + self._head_s(decoding) if decoding > 0 else total

    def prefill_s(self) -> float:
        """One prompt alone."""
        prompt = self.at.prompt_tokens - self.at.cached_tokens
        chunks = math.ceil(prompt / CHUNK_TOKENS)
        alone = chunks * self.step_s(0, min(prompt, CHUNK_TOKENS)) + self._prompt_attention_s()
        return self.constants.prefill_scale * alone

    def decode_step_s(self, batch: float) -> float:
        """The step of a batch that only decodes."""
        return self.constants.decode_scale * self.step_s(batch, batch)

    def mixed_step_s(self, running: "Sequence[tuple[Latency, float]]") -> float:
        """The step of a batch of several classes on this deployment: each with its sequences."""
        total = sum(count for _, count in running)
        own_s = sum(count * one.sequence_s() for one, count in running)
        return self.constants.decode_scale * (self.shared_step_s(total, total) + own_s)

    def marginal_prefill_s(self) -> float:
        """What a prompt adds to the steps of a replica that decodes."""
        return self.constants.prefill_share * self.prefill_s()

    def first_token_s(self, step_s: float) -> float:
        """Time to first token of a request that comes alone to steps of a length."""
        waits = self.constants.wait_steps
        if self.at.attention_groups > 1:
            waits += self.constants.grouped_wait_steps
        return self.constants.ttft_offset_s + waits * step_s + self.prefill_s()

    def tpot_s(self, concurrency: float, synchrony: float = 0.0) -> float:
        """Mean time per output token with `concurrency` requests in the replica."""
        stall_s = self.marginal_prefill_s() / self.at.answer_tokens
        others = max(concurrency - 1, 0)
        return self.decode_step_s(concurrency) + (1 - synchrony / 2) * others * stall_s

    def ttft_s(self, concurrency: float, synchrony: float = 0.0) -> float:
        """Mean time to first token with `concurrency` requests in the replica."""
        others = max(concurrency - 1, 0)
        queue_s = synchrony / 2 * others * self.marginal_prefill_s()
        return self.first_token_s(self.decode_step_s(concurrency)) + queue_s

    def residence_s(self, concurrency: float, synchrony: float = 0.0) -> float:
        """A request from arrival to last token."""
        decoding_s = (self.at.answer_tokens - 1) * self.tpot_s(concurrency, synchrony)
        return self.ttft_s(concurrency, synchrony) + decoding_s

    def throughput(self, concurrency: float, synchrony: float = 0.0) -> float:
        """Answer tokens of the replica, tokens/s."""
        return concurrency * self.at.answer_tokens / self.residence_s(concurrency, synchrony)

    def request_replica_s(self, batch: float) -> float:
        """Replica-seconds of one request at a batch."""
        return self.residence_s(batch) / batch

    def _attention_and_dense_s(self, tokens: float) -> float:
        at, shape = self.at, self.at.shape
        group = at.n_gpus / at.attention_groups
        attention, dense = shape.attention_params, self._dense_params()
        read_s = self._read_s(at.attention, attention / group)
        read_s += self._read_s(at.dense, dense / at.n_gpus)
        multiply_s = self._multiply_s(at.attention, attention * tokens / at.n_gpus)
        multiply_s += self._multiply_s(at.dense, dense * tokens / at.n_gpus)
        return self._overlapping_s(read_s, multiply_s)

    def _head_s(self, decoding: float) -> float:
        shape = self.at.shape
        share = (shape.head_params or shape.embedding_params) / self.at.n_gpus
        read_s = self._read_s(self.at.head, share)
        return self._overlapping_s(read_s, self._multiply_s(self.at.head, share * decoding))

    def _experts_s(self, tokens: float) -> float:
        experts, constants = self.at.shape.experts, self.constants
        if experts is None:
            return 0.0
        used = min(experts.per_token / experts.count, 1 - 2**-20)
        touched = experts.count * -math.expm1(tokens * math.log1p(-used))
        share = experts.params_each / self.at.n_gpus
        read_s = self._read_s(self.at.experts, touched * share)
        multiply_s = self._multiply_s(self.at.experts, experts.per_token * tokens * share)
        layer_s = self._overlapping_s(read_s, multiply_s / constants.expert_flop_frac)
        slowest = constants.expert_imbalance if self.at.n_gpus > 1 else 1.0
        return slowest * experts.layers * layer_s

    def sequence_s(self) -> float:
        """What a step takes for each sequence of these lengths: its cache, and host work."""
        at, constants = self.at, self.constants
        context = at.prompt_tokens + at.answer_tokens / 2
        group = at.n_gpus / at.attention_groups
        cached, products = 0.0, 0.0
        for run in at.shape.cache:
            reach = self._reach(run, context)
            layer_bytes = reach * run.numbers_per_token * at.cache_bytes_per_number
            holders = group if run.kind == "state" else min(group, run.kv_heads)
            cached += run.layers * (layer_bytes + run.state_bytes) / holders
            width = run.numbers_per_token if run.kind == "latent" else run.head_dim
            products += run.layers * 4 * at.shape.attention_heads * width * reach / group
        read_s = cached / (constants.cache_bandwidth_frac * at.peak_bytes_per_s)
        multiply_s = products / self._flops_per_s("fp16")
        return max(read_s, multiply_s) / at.attention_groups + constants.sequence_s

    def _prompt_attention_s(self) -> float:
        at, flops = self.at, 0.0
        for run in at.shape.cache:
            if run.kind != "state":
                seen = self._pairs(run, at.prompt_tokens) - self._pairs(run, at.cached_tokens)
                flops += run.layers * 4 * at.shape.attention_heads * at.shape.head_dim * seen
        rate = self._flops_per_s("fp16") * self.constants.prompt_attention_frac
        return flops / at.n_gpus / rate

    def _pairs(self, run: CacheLayers, tokens: float) -> float:
        reach = self._reach(run, tokens)
        return reach**2 / 2 + reach * (tokens - reach)

    def _links_s(self, tokens: float) -> float:
        at, n = self.at, self.at.n_gpus
        if n == 1:
            return 0.0
        each_bytes = tokens * at.shape.hidden_size * ACTIVATION_BYTES * 2 * (n - 1) / n
        rate = self.constants.link_bandwidth_frac * at.link_bytes_per_s
        large = 1 - math.exp(-each_bytes / self.constants.link_large_bytes)
        each_s = self.constants.link_latency_s + large * self.constants.link_large_s
        return 2 * at.shape.layers * (each_s + each_bytes / rate)

    def _floors_s(self) -> float:
        at, constants, experts = self.at, self.constants, self.at.shape.experts
        layer_s = constants.layer_floor_s
        if at.dense.compute == "fp8":
            layer_s += constants.fp8_layer_floor_s
        if at.sparse_tokens is not None:
            layer_s += constants.sparse_layer_floor_s
        expert_s = constants.expert_layer_floor_s
        if at.experts.compute == "fp8":
            expert_s += constants.expert_fp8_floor_s
        elif at.experts.compute == "fp16" and at.experts.bytes_per_param < 1:
            expert_s += constants.expert_unpack_floor_s
        expert_layers = experts.layers if experts else 0
        return constants.step_floor_s + at.shape.layers * layer_s + expert_layers * expert_s

    def _dense_params(self) -> int:
        shape, experts = self.at.shape, self.at.shape.experts
        rest = shape.params_total - shape.embedding_params - shape.head_params
        routed = experts.layers * experts.count * experts.params_each if experts else 0
        return rest - shape.attention_params - routed

    def _reach(self, run: CacheLayers, tokens: float) -> float:
        reach = tokens if run.window_tokens is None else min(tokens, run.window_tokens)
        return reach if self.at.sparse_tokens is None else min(reach, self.at.sparse_tokens)

    def _read_s(self, part: PartFormat, params: float) -> float:
        rate = self.constants.weight_bandwidth_frac * self.at.peak_bytes_per_s
        if part.compute == "fp8":
            rate *= self.constants.fp8_bandwidth_factor
        return params * part.bytes_per_param / rate

    def _overlapping_s(self, read_s: float, multiply_s: float) -> float:
        shorter, longer = sorted((read_s, multiply_s))
        return longer + self.constants.unhidden_frac * shorter

    def _multiply_s(self, part: PartFormat, params: float) -> float:
        return 2 * params / self._flops_per_s(part.compute)

    def _flops_per_s(self, compute: str) -> float:
        return self.at.peak_flops_per_s[compute] * self.constants.flop_frac[compute]
