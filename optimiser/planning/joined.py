"""Spaces of several cases side by side, so that one program chooses among the cases too."""

from collections.abc import Sequence

import numpy as np

from optimiser.engine.replicas import Floats, Ints
from optimiser.planning.configurations import Need, Space


def joined(spaces: Sequence[Space]) -> tuple[Space, Ints]:
    """One space of all configurations, and for each the place of the space that it came from.

    The cases share their limits and their kind of traffic; everything else may differ. The first
    case stands for all where rows quote a case.
    """
    sizes = [len(space) for space in spaces]
    origin = np.repeat(np.arange(len(spaces)), sizes)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    first = spaces[0]
    together = Space(
        first.case,
        tuple(c for space in spaces for c in space.configurations),
        tuple(dict.fromkeys(pair for space in spaces for pair in space.excluded)),
        np.concatenate([space.unit_nano_usd for space in spaces]),
        np.concatenate([space.unit_replicas for space in spaces]),
        np.concatenate([space.unit_gpus for space in spaces]),
        np.concatenate([space.batch_by_memory for space in spaces]),
        np.concatenate([space.batch_by_tpot for space in spaces]),
        np.concatenate([space.batch_by_ttft for space in spaces]),
        tuple(
            _need([space.needs[i] for space in spaces], origin, starts)
            for i in range(len(first.needs))
        ),
    )
    return together, origin


def _need(needs: Sequence[Need], origin: Ints, starts: Ints) -> Need:
    def replicas(index: Ints, batch: Ints) -> Floats:
        index, batch = np.broadcast_arrays(index, batch)
        out = np.empty(index.shape)
        for place in np.unique(origin[index]):
            mine = origin[index] == place
            out[mine] = needs[place].replicas(index[mine] - starts[place], batch[mine])
        return out

    return Need(needs[0].name, needs[0].field, replicas)
