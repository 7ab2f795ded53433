"""The measured latency model's columns: what a configuration reads, computes and waits for."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Generic, TypeVar

import numpy as np

from optimiser.engine.replicas import Floats, Ints

Number = TypeVar("Number", float, Floats)


@dataclass(frozen=True, slots=True)
class LatencyParts(Generic[Number]):
    """A row (numbers) or columns (arrays of shape (n_configurations,)).

    Bytes and FLOPs are those of one GPU; rates are what it achieves, constants included.
    """

    weight_read_s: Number
    """Reading the attention and dense weights: bytes / achieved bandwidth."""
    weight_token_s: Number
    """Multiplying them, for each token: 2 x parameters / achieved FLOP/s."""
    head_read_s: Number
    head_token_s: Number
    """The output head, for each decoding sequence."""
    experts: Number
    """Routed experts of a layer; 1 where there are none."""
    experts_per_token: Number
    """0 where there are none."""
    expert_read_s: Number
    """Reading one expert's share in every layer with experts, imbalance included."""
    expert_token_s: Number
    """Multiplying a token's experts in every layer with experts, imbalance included."""
    unhidden_frac: Number
    """Of the shorter of reading and multiplying, what is not hidden behind the longer."""
    sequence_s: Number
    """Each decoding sequence: max(cache bytes / bandwidth, attention FLOPs / rate) + host work."""
    link_token_s: Number
    """All-reducing a token's activations, twice a layer."""
    link_large_s: Number
    """More of all the step's all-reduces where their messages are large; 0 on one GPU."""
    link_large_tokens: Number
    """Tokens of a step whose messages are large."""
    floor_s: Number
    """What a step costs whatever is in it: floors of layers, experts and links."""
    prompt_tokens: Number
    """Those that a prefill computes."""
    answer_tokens: Number
    prompt_attention_s: Number
    """Causal attention over the prompt: FLOPs / achieved FLOP/s."""
    prefill_share: Number
    wait_steps: Number
    ttft_offset_s: Number
    decode_scale: Number
    prefill_scale: Number
    """What a run of this very deployment multiplies decode steps and prefill by; 1 without one."""

    def rows(self: "LatencyParts[Floats]", index: Ints) -> "LatencyParts[Floats]":
        """The same columns for some of the configurations."""
        return LatencyParts(*(getattr(self, field.name)[index] for field in fields(self)))


LatencyRow = LatencyParts[float]
LatencyColumns = LatencyParts[Floats]


def columns_of(rows: Sequence[LatencyRow]) -> LatencyColumns:
    """Rows as columns, in the same order."""
    return LatencyParts(
        *(
            np.array([getattr(row, field.name) for row in rows], dtype=np.float64)
            for field in fields(LatencyParts)
        )
    )
