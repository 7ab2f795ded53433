"""What a replica of each pool is worth to the classes, at given prices of their demands.

    v_p(u) = max { Σ u·s : Σ X s ≤ 1 for every resource, 0 ≤ s ≤ 1 }

The bound s ≤ 1 holds for one replica since no class needs more than all of its demand. From the
dual: any m ≥ 0 gives Σ m_r + Σ_w (u_w - Σ_r m_r X_rw)⁺ ≥ v_p(u), so what is returned here is never
below the worth, however far the descent over m went.
"""

from itertools import combinations

import numpy as np

from optimiser.engine.replicas import Floats
from optimiser.planning.fleet.pools import Pools

PASSES = 6


def worth(pools: Pools, value: Floats, passes: int = PASSES) -> Floats:
    """An upper bound on what one replica of each pool is worth, shape (n_pools,).

    `value`: what all of a class's demand is worth, shape (n_classes,) or (n_pools, n_classes).
    """
    u = np.where(pools.able, value, 0.0)
    n_pools, n_resources, _ = pools.need.shape
    alone = np.eye(n_resources)
    # from one multiplier to another, else the descent stays in the creases between resources
    swaps = [alone[a] - alone[b] for a, b in combinations(range(n_resources), 2)]
    m = np.zeros((n_pools, n_resources))
    left = u.copy()
    best = np.asarray(left.sum(axis=1))
    for _ in range(passes):
        for direction in (*alone, *swaps):
            taken = np.einsum("r,prw->pw", direction, pools.need)
            step = _best_step(left, taken, direction, m)
            m += step[:, None] * direction
            left -= step[:, None] * taken
        now = m.sum(axis=1) + np.maximum(left, 0.0).sum(axis=1)
        if (now >= best * (1 - 1e-9)).all():
            break
        best = now
    return bound_of(pools, u, m)


def bound_of(pools: Pools, u: Floats, multipliers: Floats) -> Floats:
    """What any multipliers of the resources prove of the worth, shape (n_pools,)."""
    m = np.maximum(multipliers, 0.0)
    left = u - np.einsum("pr,prw->pw", m, pools.need)
    return np.asarray(m.sum(axis=1) + np.maximum(left, 0.0).sum(axis=1))


def _best_step(left: Floats, taken: Floats, direction: Floats, m: Floats) -> Floats:
    """The δ, with m + δ · direction ≥ 0, at δ · Σ direction + Σ_w (left_w - δ · taken_w)⁺ least.

    Exact for each pool: the slope of this convex function rises by |taken_w| at left_w / taken_w.
    """
    moves = taken != 0.0
    at = np.where(moves, left / np.where(moves, taken, 1.0), np.inf)
    order = np.argsort(at, axis=1)
    size = np.take_along_axis(np.abs(taken), order, axis=1)
    slope = direction.sum() - np.maximum(taken, 0.0).sum(axis=1)
    rising = slope[:, None] + np.cumsum(size, axis=1)
    turns = rising >= 0.0
    first = np.argmax(turns, axis=1)
    turning = np.take_along_axis(np.take_along_axis(at, order, axis=1), first[:, None], axis=1)
    low = np.full(len(m), -np.inf)
    high = np.full(len(m), np.inf)
    for r in np.flatnonzero(direction):
        edge = -m[:, r] / direction[r]
        if direction[r] > 0:
            low = np.maximum(low, edge)
        else:
            high = np.minimum(high, edge)
    chosen = np.where(turns.any(axis=1), turning[:, 0], high)
    chosen = np.where(slope >= 0.0, low, chosen)
    chosen = np.clip(chosen, low, high)
    return np.where(np.isfinite(chosen), chosen, 0.0)
