"""What a replica sustains (step 5 of the page): the cost of a request in replica-seconds."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from optimiser.engine.replicas import Floats, Ints, Lengths, Replicas
from optimiser.engine.roofline import decode_step_s, prefill_s


def request_replica_s(replicas: Replicas, lengths: Lengths, batch: Ints) -> Floats:
    """Replica-seconds that one request costs at a batch.

    answer tokens * step(batch) / batch + prefill: decreasing and convex in the batch.
    Shape: `batch` broadcast against (n_configurations,). Source: seed step 5.
    """
    step_s = decode_step_s(replicas, batch)
    return lengths.answer * step_s / batch + prefill_s(replicas, lengths)


def largest_batch_where(
    holds: Callable[[Ints], NDArray[np.bool_]], n_configurations: int, most: int
) -> Ints:
    """The largest batch, 0 to `most`, at which a condition holds, for each configuration.

    The condition must hold below the answer and fail above it. Bisection: about log2(most) calls.
    """
    low = np.zeros(n_configurations, dtype=np.int64)
    high = np.full(n_configurations, most, dtype=np.int64)
    while (low < high).any():
        middle = (low + high + 1) // 2
        good = holds(middle)
        low = np.where(good, middle, low)
        high = np.where(good, high, middle - 1)
    return low
