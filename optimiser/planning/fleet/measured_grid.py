"""The pools to consider with measured latency: step times, each with the promise it keeps to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from optimiser.engine import latency, memory
from optimiser.engine.latency_parts import LatencyColumns
from optimiser.engine.replicas import Floats, Ints
from optimiser.engine.serving import largest_batch_where
from optimiser.planning.fleet.parts import Part
from optimiser.planning.fleet.pools import Bools
from optimiser.planning.fleet.shares import Offered
from optimiser.units import TOLERANCE

SHARES_OF_BATCH = (1.0, 0.7, 0.5)
"""A class in a mix with longer prompts is best at shorter steps than alone. With these the bound
of `cases/fleet-azure.yaml` is within 0.1 % of that of a grid three times as fine."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Pools before their needs are known, one row each."""

    configuration: Ints
    step_s: Floats
    """Decode step that a replica keeps to."""
    most_batch: Ints
    """Most sequences of a replica."""
    promise_s: Floats | None = None
    """Longest time per token that is felt, stalls of prefills included; None for the roofline."""


def columns_of(one: Offered | Part) -> LatencyColumns:
    """The measured times of a class, or of a part of it."""
    if one.latency is None:
        raise ValueError("the class has no measured times")
    return one.latency


def alone_grid(one: Offered) -> Grid:
    """The pools of one class with nothing beside it: its largest batch on each configuration.

    In a closed loop, as one workload is planned: the prompts of the b - 1 others stall each answer.
    """
    columns = columns_of(one)
    limit_s = one.tpot_target_s * (1 + TOLERANCE)
    batches = _largest(one, lambda batch: latency.tpot_s(columns, batch) <= limit_s)
    return _grid(_points(one, batches, one.tpot_target_s))


def mixed_grid(offered: Sequence[Offered]) -> Grid:
    """Steps of each class's own batches under each promise that is tight enough for it.

    The largest batch at which replicas full of the class keep the promise, and shares of it.
    """
    found: set[tuple[int, float, int, float]] = set()
    promises = sorted({one.tpot_target_s for one in offered})
    for one in offered:
        for promise_s in promises:
            if promise_s > one.tpot_target_s * (1 + TOLERANCE):
                continue
            largest = _largest_when_full(one, promise_s)
            for share in SHARES_OF_BATCH:
                batches = np.ceil(largest * share).astype(np.int64)
                found |= _points(one, batches, promise_s)
    return _grid(found)


def _largest(one: Offered, keeps: Callable[[Ints], Bools]) -> Ints:
    """A class's largest batch on each configuration at which times hold, 0 where none does."""
    columns = columns_of(one)
    first_s = one.ttft_target_s * (1 + TOLERANCE)

    def holds(batch: Ints) -> Bools:
        at = np.maximum(batch, 1)
        return np.asarray(keeps(at) & (latency.ttft_s(columns, at) <= first_s))

    by_latency = largest_batch_where(holds, len(one.replicas), one.most_batch)
    by_memory = memory.largest_batch(one.replicas, one.most_batch)
    return np.where(one.admitted, np.minimum(by_latency, by_memory), 0)


def _largest_when_full(one: Offered, promise_s: float) -> Ints:
    """The largest batch b whose steps τ, stretched by prefills of full replicas, keep a promise.

    A request takes (TTFT + (S - 1) · τ) / b + P of a replica, so that prefills take the share
    P / that, and the promise is kept where τ · (1 + b · P / (TTFT + (S - 1) · τ)) is at most it.
    A batch of one is taken wherever its step is shorter: replicas need not be full.
    """
    columns = columns_of(one)
    prompt_s = latency.marginal_prefill_s(columns)

    def keeps(batch: Ints) -> Bools:
        step_s = latency.decode_step_s(columns, batch)
        residence_s = latency.ttft_s(columns, batch) + (columns.answer_tokens - 1) * step_s
        felt_s = step_s * np.where(batch > 1, 1 + batch * prompt_s / residence_s, 1 + TOLERANCE)
        return np.asarray(felt_s <= promise_s)

    return _largest(one, keeps)


def _points(one: Offered, batches: Ints, promise_s: float) -> set[tuple[int, float, int, float]]:
    steps = latency.decode_step_s(columns_of(one), np.maximum(batches, 1))
    return {(int(d), float(steps[d]), int(batches[d]), promise_s) for d in np.flatnonzero(batches)}


def _grid(points: set[tuple[int, float, int, float]]) -> Grid:
    grid = sorted(points)
    return Grid(
        np.array([d for d, _, _, _ in grid], dtype=np.int64),
        np.array([step for _, step, _, _ in grid]),
        np.array([batch for _, _, batch, _ in grid], dtype=np.int64),
        np.array([promise for _, _, _, promise in grid]),
    )
