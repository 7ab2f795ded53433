"""Lines under the whole needs of configurations: the capacity rows of the program.

A need N_d(b) falls as the batch grows, and the need it is rounded up from is convex. The lower
convex hull of the whole points (b, N_d(b)) therefore lies nowhere below the exact need, and its
edges, whose coefficients are whole, cut off every whole point that falls short and none that does
not.
"""

import math

import numpy as np

from optimiser.engine.replicas import Floats, Ints
from optimiser.planning.configurations import Need, Space


def hull_edge(needed: Ints, at: int) -> tuple[int, int]:
    """The edge of the lower convex hull of the points (i, needed[i]) above index `at`.

    As (q, p): q · needed + p · i is the same at both ends and nowhere less. q and p are whole and
    share no factor. `needed` never increases. Starts from the chord of the two ends and moves to
    the farthest point below it until there is none.
    """
    low, high = 0, len(needed) - 1
    while high > low:
        q, p = high - low, int(needed[low] - needed[high])
        heights = q * needed[low : high + 1] + p * np.arange(q + 1)
        lowest = int(heights.argmin())
        if heights[lowest] >= heights[0]:
            shared = math.gcd(q, p)
            return q // shared, p // shared
        if low + lowest <= at:
            low += lowest
        else:
            high = low + lowest
    return 1, 0


def line_heights(space: Space, need: Need, members: Ints, q: Ints | int, p: Ints | int) -> Ints:
    """For each member a whole height h with q · N(b) + p · b >= h at every batch that fits.

    The least of the convex q · need(b) + p · b, by bisection on its slope, rounded up as far as
    whole points allow; 0 where nothing fits. `q` and `p` are one slope, or one a member.
    """
    most = space.batch_by_memory[members]

    def height(batch: Ints) -> Floats:
        return q * need.replicas(members, batch) + p * batch

    low, high = np.ones(len(members), dtype=np.int64), np.maximum(most, 1)
    while (low < high).any():
        middle = (low + high) // 2
        falling = height(middle + 1) < height(middle)
        low = np.where(falling & (low < high), middle + 1, low)
        high = np.where(falling, high, np.maximum(middle, low))
    # the margin covers the needs' own tolerance and the rounding of floating-point sums
    least = np.ceil(height(low) * (1 - 2e-9)).astype(np.int64)
    return np.where(most > 0, least, 0)
