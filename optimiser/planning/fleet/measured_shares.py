"""What a class takes of a replica with measured latency, resource by resource.

A pool's replicas decode in steps of at most τ and promise a time per token of T. With y requests
per second of a class on n replicas, prefills take r = Σ y · P / n of their time, P the marginal
cost of a prompt, and a request keeps its slot for TTFT + (S - 1) · τ / (1 - r), S answer tokens:

    step      Σ y · ((TTFT + (S - 1) · τ) / ((τ / scale - shared) / sequence)  + P)  ≤ n
    memory    the same over (usable - fixed) / cache held
    sampling  the same while tokens are sampled
    batch     the same over the most sequences
    promise   Σ y · P / (1 - τ / T)  ≤ n

TTFT = offset + waits · τ + the prompt alone. `shared` is what a step takes whatever the lengths,
at the most sequences; `sequence` what it takes for one of the class. The rows charge the time to
the first token over 1 - r too, which is on the safe side, so that the mix settles below τ.
"""

from collections.abc import Sequence

import numpy as np

from optimiser.engine import latency
from optimiser.engine.replicas import Floats
from optimiser.planning.fleet.measured_grid import Grid, columns_of
from optimiser.planning.fleet.parts import Part, Taken, together
from optimiser.planning.fleet.pools import Bools
from optimiser.planning.fleet.shares import Offered
from optimiser.units import TOLERANCE

RESOURCES = ("step", "memory", "sampling", "batch", "promise")


def measured_shares(offered: Sequence[Offered], grid: Grid) -> tuple[Floats, Bools]:
    """Replicas that each class's whole demand takes of each resource of each pool, and who may.

    Shapes: (n_pools, n_resources, n_classes) and (n_pools, n_classes).
    """
    found = [_shares(one, grid) for one in offered]
    return np.stack([need for need, _ in found], axis=2), np.stack([a for _, a in found], axis=1)


def _shares(one: Offered, grid: Grid) -> tuple[Floats, Bools]:
    promise_s = np.asarray(grid.promise_s)
    found = together([(part.share, _taken(part, grid)) for part in one.parts_or_self])
    spare_frac = 1 - grid.step_s / promise_s
    able = (
        one.admitted[grid.configuration]
        & (promise_s <= one.tpot_target_s * (1 + TOLERANCE))
        & (found.first_s <= one.ttft_target_s * (1 + TOLERANCE))
        & (grid.most_batch <= one.most_batch)
        & (spare_frac > TOLERANCE)
        & found.fits
    )
    need = one.requests_per_s * (found.occupied_s + found.prompt_s[:, None])
    if one.users:
        need = np.maximum(need, one.users / found.slots)
    promise = one.requests_per_s * found.prompt_s / np.where(able, spare_frac, 1.0)
    need = np.concatenate([need, promise[:, None]], axis=1)
    return np.where(able[:, None], need, 0.0), able


def _taken(part: Part, grid: Grid) -> Taken:
    columns = columns_of(part).rows(grid.configuration)
    replicas = part.replicas.rows(grid.configuration)
    first_s = columns.ttft_offset_s + columns.wait_steps * grid.step_s
    first_s = first_s + latency.prefill_s(columns)
    usable = replicas.usable_bytes * (1 + TOLERANCE)
    own_s = grid.step_s / columns.decode_scale - latency.shared_step_s(columns, grid.most_batch)
    slots = [
        own_s / columns.sequence_s,
        (usable - replicas.fixed_bytes) / replicas.kv_held_bytes,
        (usable - replicas.sampler_fixed_bytes) / (replicas.kv_held_bytes + replicas.sampler_bytes),
        grid.most_batch.astype(np.float64),
    ]
    return Taken(
        first_s,
        latency.marginal_prefill_s(columns),
        first_s + (columns.answer_tokens - 1) * grid.step_s,
        np.stack(slots, axis=1),
    )


def shares_alone(one: Offered, grid: Grid) -> tuple[Floats, Bools]:
    """The same for one class with nothing beside it: whole batches in a closed loop.

    need = demand · residence(b) / b, as one workload alone is planned.
    """
    columns = columns_of(one).rows(grid.configuration)
    need = one.requests_per_s * latency.request_replica_s(columns, grid.most_batch)
    if one.users:
        need = np.maximum(need, one.users / grid.most_batch)
    every = np.repeat(need[:, None, None], len(RESOURCES), axis=1)
    return every, np.ones((len(need), 1), dtype=bool)
