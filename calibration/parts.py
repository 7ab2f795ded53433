"""Deployments taken apart by constant, so that new constants need no second look at the shapes.

Every column of the latency model is linear in one over its constants, or a maximum of two such
terms; so the columns at any constants follow from rows at unit constants.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optimiser.catalogue.latency_constants import Deployment, LatencyConstants
from optimiser.engine.columns_of_shape import latency_row
from optimiser.engine.latency_parts import LatencyColumns, LatencyParts, columns_of
from optimiser.engine.replicas import Floats

FORMATS = ("fp16", "fp8", "fp4", "int8")

UNIT = LatencyConstants(
    weight_bandwidth_frac=1.0,
    fp8_bandwidth_factor=1.0,
    cache_bandwidth_frac=1.0,
    flop_frac=dict.fromkeys(FORMATS, 1.0),
    unhidden_frac=0.0,
    expert_flop_frac=1.0,
    prompt_attention_frac=1.0,
    expert_imbalance=1.0,
    link_bandwidth_frac=1.0,
    link_large_s=1.0,
    link_large_bytes=1.0,
    link_latency_s=0.0,
    layer_floor_s=0.0,
    fp8_layer_floor_s=0.0,
    step_floor_s=0.0,
    expert_layer_floor_s=0.0,
    expert_fp8_floor_s=0.0,
    expert_unpack_floor_s=0.0,
    sparse_layer_floor_s=0.0,
    sequence_s=0.0,
    prefill_share=1.0,
    wait_steps=0.0,
    grouped_wait_steps=0.0,
    ttft_offset_s=0.0,
    closed_loop_synchrony=0.0,
)
FLOORS = (
    *(name for name in UNIT.__dataclass_fields__ if name.endswith("_floor_s")),
    "link_latency_s",
)

Values = Mapping[str, Floats | float]


@dataclass(frozen=True)
class Parts:
    """A table's deployments at unit constants."""

    whole: LatencyColumns
    by_format: dict[str, LatencyColumns]
    """Arithmetic of one format; the others infinitely fast."""
    not_fp8: LatencyColumns
    """Reading fp8 weights takes no time."""
    cache_s: Floats
    score_s: Floats
    floors: dict[str, Floats]
    """How often a step pays each floor."""
    several_gpus: Floats
    several_groups: Floats

    @classmethod
    def of(cls, deployments: Sequence[Deployment]) -> "Parts":
        """Takes deployments apart."""

        def rows(constants: LatencyConstants) -> LatencyColumns:
            return columns_of([latency_row(at, constants) for at in deployments])

        fast = dict.fromkeys(FORMATS, math.inf)
        by_format = {fmt: rows(replace(UNIT, flop_frac={**fast, fmt: 1.0})) for fmt in FORMATS}
        no_cache = replace(UNIT, cache_bandwidth_frac=math.inf)
        return cls(
            whole=rows(UNIT),
            by_format=by_format,
            not_fp8=rows(replace(UNIT, fp8_bandwidth_factor=math.inf)),
            cache_s=rows(replace(UNIT, flop_frac=fast)).sequence_s,
            score_s=rows(no_cache).sequence_s,
            floors={name: rows(replace(UNIT, **{name: 1.0})).floor_s for name in FLOORS},
            several_gpus=np.array([float(at.n_gpus > 1) for at in deployments]),
            several_groups=np.array([float(at.attention_groups > 1) for at in deployments]),
        )

    def columns(self, at: Values) -> LatencyColumns:
        """The columns with the constants `at`; flop fractions are `flop_frac.fp16` and so on."""
        whole = self.whole
        imbalance = 1 + (at["expert_imbalance"] - 1) * self.several_gpus

        def arithmetic(column: str) -> Floats:
            return np.sum(
                [getattr(self.by_format[f], column) / at[f"flop_frac.{f}"] for f in FORMATS], axis=0
            )

        def reading(column: str) -> Floats:
            rest = getattr(self.not_fp8, column)
            fp8 = (getattr(whole, column) - rest) / at["fp8_bandwidth_factor"]
            return (rest + fp8) / at["weight_bandwidth_frac"]

        score_s = self.score_s / at["flop_frac.fp16"]
        floor_s = np.sum([self.floors[name] * at[name] for name in FLOORS], axis=0)
        none = np.zeros(len(self.several_gpus))
        return LatencyParts(
            weight_read_s=reading("weight_read_s"),
            weight_token_s=arithmetic("weight_token_s"),
            head_read_s=reading("head_read_s"),
            head_token_s=arithmetic("head_token_s"),
            experts=whole.experts,
            experts_per_token=whole.experts_per_token,
            expert_read_s=reading("expert_read_s") * imbalance,
            expert_token_s=arithmetic("expert_token_s") * imbalance / at["expert_flop_frac"],
            unhidden_frac=none + at["unhidden_frac"],
            sequence_s=np.maximum(self.cache_s / at["cache_bandwidth_frac"], score_s)
            + at["sequence_s"],
            link_token_s=whole.link_token_s / at["link_bandwidth_frac"],
            link_large_s=whole.link_large_s * at["link_large_s"],
            link_large_tokens=whole.link_large_tokens * at["link_large_bytes"],
            floor_s=floor_s,
            prompt_tokens=whole.prompt_tokens,
            answer_tokens=whole.answer_tokens,
            prompt_attention_s=whole.prompt_attention_s
            / at["flop_frac.fp16"]
            / at["prompt_attention_frac"],
            prefill_share=none + at["prefill_share"],
            wait_steps=at["wait_steps"] + at["grouped_wait_steps"] * self.several_groups,
            ttft_offset_s=none + at["ttft_offset_s"],
            decode_scale=none + 1,
            prefill_scale=none + 1,
        )

    def rows(self, keep: np.ndarray) -> "Parts":
        """The same for some of the deployments."""
        index = np.flatnonzero(keep)
        return Parts(
            self.whole.rows(index),
            {fmt: columns.rows(index) for fmt, columns in self.by_format.items()},
            self.not_fp8.rows(index),
            self.cache_s[index],
            self.score_s[index],
            {name: floor[index] for name, floor in self.floors.items()},
            self.several_gpus[index],
            self.several_groups[index],
        )
