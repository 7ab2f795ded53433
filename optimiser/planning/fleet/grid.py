"""The pools to consider: for each configuration, the step times at which a class is at its best."""

from collections.abc import Sequence

import numpy as np

from optimiser.engine import memory
from optimiser.engine.replicas import Floats, Ints
from optimiser.engine.roofline import decode_step_s, prefill_s
from optimiser.engine.serving import largest_batch_where
from optimiser.planning.fleet.shares import Offered
from optimiser.units import TOLERANCE


def largest_batches(one: Offered, most: Ints) -> Ints:
    """A class's largest compliant batch on each configuration, 0 where it may not run."""
    limit_s = one.tpot_target_s * (1 + TOLERANCE)
    by_step = largest_batch_where(
        lambda batch: decode_step_s(one.replicas, batch) <= limit_s, len(most), int(most.max())
    )
    by_memory = memory.largest_batch(one.replicas, int(most.max()))
    prompt_s = prefill_s(one.replicas, one.lengths)
    runs = one.admitted & (prompt_s <= one.ttft_target_s * (1 + TOLERANCE))
    return np.where(runs, np.minimum(np.minimum(by_step, by_memory), most), 0)


def pool_grid(
    offered: Sequence[Offered], most: Ints, alone: bool = False
) -> tuple[Ints, Floats, Ints]:
    """Configuration, step time and most sequences of each pool worth considering.

    The step times are each class's at its own largest batch, and the targets themselves. With one
    class (`alone`) a replica runs that class's whole batch; a batch of several is an average over
    time and need not be whole.
    """
    found: set[tuple[int, float, int]] = set()
    targets = {one.tpot_target_s for one in offered}
    has_experts = any(one.replicas.expert_bytes.any() for one in offered)
    for one in offered:
        batches = largest_batches(one, most)
        steps = decode_step_s(one.replicas, np.maximum(batches, 1))
        for d in np.flatnonzero(batches):
            bounded = alone or has_experts
            found.add((int(d), float(steps[d]), int(batches[d] if bounded else most[d])))
            if not alone:
                bound = int(batches[d]) if has_experts else int(most[d])
                found.update((int(d), target, bound) for target in targets)
    grid = sorted(found)
    return (
        np.array([d for d, _, _ in grid], dtype=np.int64),
        np.array([step for _, step, _ in grid]),
        np.array([batch for _, _, batch in grid], dtype=np.int64),
    )
