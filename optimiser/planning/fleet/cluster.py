"""Neighbouring step times of a configuration as one pool: a relaxation with far fewer pools.

A cluster takes the least of each need and serves whoever any member serves, so every fleet of
members is a fleet of clusters at the same cost. Its own solutions are bounds, never fleets.
"""

from dataclasses import dataclass, replace

import numpy as np

from optimiser.engine.replicas import Floats, Ints
from optimiser.planning.fleet.pools import Bools, Fleet, Pools
from optimiser.planning.fleet.sift import Sifted

TIGHT_USD = 1e-4
"""Pools whose extra cost is at most this stay alone, and no cluster gets below it."""
KEPT_FRAC = 0.5
"""Share of its members' smallest extra cost that a cluster must keep."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Clusters over a fleet's pools."""

    of: Fleet
    """The fleet whose pools are the members."""
    members: tuple[Ints, ...]
    fleet: Fleet
    """The fleet whose pools are the clusters."""

    @property
    def is_exact(self) -> bool:
        """Whether every cluster is a single pool."""
        return len(self.members) == len(self.of.pools)

    def split(self, used: Ints, shares: Floats, replicas: Floats) -> "Clusters":
        """Each used cluster in three: left of its member that fits its use best, that, right."""
        parts = []
        for k, members in enumerate(self.members):
            if k not in used or len(members) == 1:
                parts.append(members)
                continue
            best = _fitting(self.of.pools.of(members), shares[k], replicas[k])
            parts += [members[:best], members[best : best + 1], members[best + 1 :]]
        return clusters(self.of, [part for part in parts if len(part)])


def _fitting(pools: Pools, share: Floats, replicas: float) -> int:
    """The member that exceeds its replicas least at these shares."""
    needed = (pools.need @ share).max(axis=1)
    unable = np.where(pools.able, 0.0, share).sum(axis=1)
    return int(np.argmin(needed / max(replicas, 1e-9) + 10 * unable))


def apart(fleet: Fleet) -> Clusters:
    """Every pool on its own."""
    return Clusters(fleet, tuple(np.arange(len(fleet.pools))[:, None]), fleet)


def clusters(fleet: Fleet, members: list[Ints]) -> Clusters:
    """The clusters of given members."""
    pools = fleet.pools
    merged = [_merged(pools, part) for part in members]
    first = np.array([part[0] for part in members], dtype=np.int64)
    one = pools.of(first)
    joined = Pools(
        np.stack([need for need, _ in merged]) if merged else pools.need[:0],
        np.stack([able for _, able in merged]) if merged else pools.able[:0],
        one.configuration,
        one.step,
        one.rental,
        one.units,
    )
    return Clusters(fleet, tuple(members), replace(fleet, pools=joined))


def _merged(pools: Pools, part: Ints) -> tuple[Floats, Bools]:
    able = pools.able[part]
    need = np.where(able[:, None, :], pools.need[part], np.inf).min(axis=0)
    return np.where(np.isfinite(need), need, 0.0), np.asarray(able.any(axis=0))


def cluster(fleet: Fleet, sifted: Sifted, extra_usd: Floats) -> Clusters:
    """Merge neighbours from the left for as long as a cluster keeps its members' extra cost."""
    pools = fleet.pools
    runs = _runs(pools)
    done: list[Ints] = []
    # every run grows by one member at a time, all of them at once
    while runs:
        length = 1
        grows = np.array([extra_usd[run[0]] > TIGHT_USD for run in runs])
        lengths = np.ones(len(runs), dtype=np.int64)
        while grows.any():
            length += 1
            asks = [i for i in np.flatnonzero(grows) if len(runs[i]) >= length]
            grows[:] = False
            if not asks:
                break
            tried = clusters(fleet, [runs[i][:length] for i in asks])
            extra = sifted.extra_of(tried.fleet)
            for i, kept in zip(asks, extra, strict=True):
                least = extra_usd[runs[i][:length]].min()
                newest = extra_usd[runs[i][length - 1]]
                grows[i] = newest > TIGHT_USD and kept >= max(TIGHT_USD, KEPT_FRAC * least)
                if grows[i]:
                    lengths[i] = length
        done += [run[:n] for run, n in zip(runs, lengths, strict=True)]
        runs = [run[n:] for run, n in zip(runs, lengths, strict=True) if len(run) > n]
    done.sort(key=lambda part: int(part[0]))
    return clusters(fleet, done)


def _runs(pools: Pools) -> list[Ints]:
    """The pools of each configuration and rental by step time."""
    order = np.lexsort((pools.step, pools.rental, pools.configuration))
    same = (np.diff(pools.configuration[order]) == 0) & (np.diff(pools.rental[order]) == 0)
    return np.split(order, np.flatnonzero(~same) + 1) if len(order) else []
