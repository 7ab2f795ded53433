"""From replicas to pools: what a class takes of a replica at a step time, resource by resource.

With y requests per second of a class on n replicas that decode in steps of τ:

    bandwidth  Σ y · (S · τ · cache read / (bandwidth · τ - weights read) + prefill)  ≤ n
    memory     Σ y · (S · τ · cache held / (usable - fixed)               + prefill)  ≤ n
    sampling   the same while tokens are sampled
    compute    Σ y · (S · FLOPs of a token / rate                         + prefill)  ≤ n
    batch      Σ y · (S · τ / most sequences                              + prefill)  ≤ n

S: answer tokens. Each row says that decoding gets the time that prefills leave.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimiser.engine.latency_parts import LatencyColumns
from optimiser.engine.replicas import Floats, Ints, Lengths, Replicas
from optimiser.engine.roofline import prefill_s, read_bytes
from optimiser.planning.fleet.parts import Part, Taken, together
from optimiser.planning.fleet.pools import Bools
from optimiser.units import TOLERANCE


@dataclass(frozen=True, slots=True)
class Offered:
    """The traffic and the promises of one class, and its figures on each configuration."""

    requests_per_s: float
    """With headroom."""
    lengths: Lengths
    ttft_target_s: float
    tpot_target_s: float
    """Targets that are planned at, the margin taken off."""
    replicas: Replicas
    admitted: Bools
    """Configurations that the class accepts."""
    users: float = 0.0
    """Users who always have one request in flight."""
    latency: LatencyColumns | None = None
    """Its times on each configuration as measured servers have them; None for the roofline."""
    most_batch: int = 10**6
    """Most sequences of a replica that it accepts to be in; used with measured times."""
    parts: tuple[Part, ...] = ()
    """The rows of its histogram; `replicas` and `latency` are then their means."""

    @property
    def parts_or_self(self) -> tuple[Part, ...]:
        """The rows of its histogram, else the class as the one row of its means."""
        return self.parts or (Part(1.0, self.lengths, self.replicas, self.latency),)


RESOURCES = ("bandwidth", "memory", "sampling", "compute", "batch")


def shares(
    offered: Sequence[Offered],
    configuration: Ints,
    step_s: Floats,
    most_batch: Ints,
    alone: bool = False,
) -> tuple[Floats, Bools]:
    """Replicas that each class's whole demand takes of each resource of each pool, and who may.

    `configuration`, `step_s` and `most_batch` (most sequences of a replica) say what the pools
    are. `alone`: one class, whose `most_batch` is its largest compliant whole batch, so that
    nothing else binds. Shapes: (n_pools, n_resources, n_classes) and (n_pools, n_classes).
    """
    needs, able = [], []
    for one in offered:
        own_most = np.minimum(most_batch, one.most_batch)
        found = together(
            [
                (part.share, _taken(part, configuration, step_s, most_batch, own_most, alone))
                for part in one.parts_or_self
            ]
        )
        fits = (
            one.admitted[configuration]
            & (step_s <= one.tpot_target_s * (1 + TOLERANCE))
            & (found.first_s <= one.ttft_target_s * (1 + TOLERANCE))
            & found.fits
        )
        need = one.requests_per_s * (found.occupied_s + found.prompt_s[:, None])
        if one.users:
            need = np.maximum(need, one.users / found.slots)
        needs.append(np.where(fits[:, None], need, 0.0))
        able.append(fits)
    return np.stack(needs, axis=2), np.stack(able, axis=1)


def _taken(
    part: Part,
    configuration: Ints,
    step_s: Floats,
    most_batch: Ints,
    own_most: Ints,
    alone: bool,
) -> Taken:
    """`own_most`: sequences of the class alone that its levers allow, and the pool."""
    at = part.replicas.rows(configuration)
    prefill = prefill_s(at, part.lengths)
    left = np.stack(
        [
            at.bytes_per_s * step_s - read_bytes(at, most_batch),
            at.usable_bytes - at.fixed_bytes,
            at.usable_bytes - at.sampler_fixed_bytes,
            at.flops_per_s * step_s,
            own_most.astype(np.float64),
        ],
        axis=1,
    )
    taken = np.stack(
        [
            at.kv_read_bytes,
            at.kv_held_bytes,
            at.kv_held_bytes + at.sampler_bytes,
            at.decode_flops,
            np.ones(len(step_s)),
        ],
        axis=1,
    )
    # exact: in a mix the verifier's tolerance must do for what the steps make of an excess
    sequences = left / taken
    if alone:
        sequences = np.repeat(most_batch[:, None].astype(float), len(RESOURCES), axis=1)
    return Taken(prefill, prefill, part.lengths.answer * step_s, sequences)


def binding(need: Floats) -> list[int]:
    """The resources that are scarcest somewhere: not those below another everywhere."""
    kept = list(range(need.shape[1]))
    for r in range(need.shape[1]):
        if any((need[:, r] <= need[:, other]).all() for other in kept if other != r):
            kept.remove(r)
    return kept
