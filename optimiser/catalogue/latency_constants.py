"""What the measured latency model needs to know: a deployment, and the constants fitted to runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from optimiser.catalogue.hf_config.shape import Shape


@dataclass(frozen=True, slots=True)
class PartFormat:
    """How one part of the weights is stored and computed."""

    bytes_per_param: float
    """Scales included: 0.5625 for 4 bits with a byte for each 16 numbers."""
    compute: str
    """The arithmetic that multiplies it: a format of the GPU (fp16, fp8, fp4, int8)."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One replica and the requests it serves: facts only, nothing measured."""

    shape: Shape
    attention: PartFormat
    dense: PartFormat
    """MLPs, shared experts, state mixers, routers and norms."""
    experts: PartFormat
    """Routed experts; ignored where the model has none."""
    head: PartFormat
    cache_bytes_per_number: float
    n_gpus: int
    attention_groups: int
    """Attention data-parallel groups; 1 where every GPU holds a slice of each sequence's heads."""
    peak_bytes_per_s: float
    peak_flops_per_s: Mapping[str, float]
    """Dense arithmetic of one GPU by format."""
    link_bytes_per_s: float
    """One direction, per GPU."""
    prompt_tokens: float
    answer_tokens: float
    cached_tokens: float = 0.0
    """Tokens of the prompt found in a prefix cache: attended to, not computed again."""
    sparse_tokens: int | None = None
    """Tokens that a sparse-attention layer reads at most; null where every layer reads them all."""


@dataclass(frozen=True, slots=True)
class LatencyConstants:
    """What the hardware and the engine achieve; fitted, see `calibration/`."""

    weight_bandwidth_frac: float
    """Share of the peak bandwidth at which weights are read."""
    fp8_bandwidth_factor: float
    """What weights that are computed in fp8 achieve of `weight_bandwidth_frac`."""
    cache_bandwidth_frac: float
    flop_frac: Mapping[str, float]
    """Share of the peak arithmetic by format."""
    unhidden_frac: float
    """Of the shorter of reading and multiplying weights, the share not hidden behind the longer."""
    expert_flop_frac: float
    """What grouped expert products achieve of `flop_frac`."""
    prompt_attention_frac: float
    """What causal attention over a prompt achieves of `flop_frac`."""
    expert_imbalance: float
    """Slowest over mean GPU in expert layers, where there is more than one GPU."""
    link_bandwidth_frac: float
    link_latency_s: float
    """One all-reduce, whatever its size."""
    link_large_s: float
    """More of an all-reduce whose message is large: it takes a protocol of more steps."""
    link_large_bytes: float
    """What is large: the extra grows as 1 - exp(-bytes that a GPU sends / these)."""
    layer_floor_s: float
    """A layer's launches and small kernels."""
    fp8_layer_floor_s: float
    """More of it where dense weights are computed in fp8: activations are quantised."""
    step_floor_s: float
    """Scheduling and sampling of a step."""
    expert_layer_floor_s: float
    """Routing and sorting, a layer with experts."""
    expert_fp8_floor_s: float
    """More of it where experts are computed in fp8: activations are quantised by block."""
    expert_unpack_floor_s: float
    """More of it where experts below 8 bits are computed in 16: they are unpacked first."""
    sparse_layer_floor_s: float
    """Choosing the tokens that a sparse-attention layer reads."""
    sequence_s: float
    """Host work for each sequence in a step."""
    prefill_share: float
    """Marginal cost of a prompt that shares steps with decoding, of its cost alone; at most 1."""
    wait_steps: float
    """Decode steps between a request's arrival and its first token, beside its own prefill."""
    grouped_wait_steps: float
    """More of them with attention data parallel."""
    ttft_offset_s: float
    """Front end, tokeniser and scheduler before the first token."""
    closed_loop_synchrony: float
    """How synchronised a closed-loop benchmark of this engine keeps its requests, 0 to 1."""
    decode_scale: float = 1.0
    """This deployment's decode steps over the model's, where a run of its own says so."""
    prefill_scale: float = 1.0
    """This deployment's prefill over the model's."""
