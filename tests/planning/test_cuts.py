"""Lines under the whole needs, against every point of them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimiser.planning.configurations import configurations
from optimiser.planning.cuts import hull_edge, line_heights
from tests.strategies import SEEDS, convex_needs, draw_case


def heights(needed: np.ndarray, q: int, p: int) -> list[int]:
    """q * N + p * i at each point, in Python's own whole numbers."""
    return [q * int(n) + p * i for i, n in enumerate(needed)]


@pytest.mark.parametrize(
    ("needed", "at", "edge"),
    [
        # hull corners (0, 9), (1, 5), (3, 1), (5, 0); slopes -4, -2, -1/2
        ([9, 5, 4, 1, 1, 0], 0, (1, 4)),
        ([9, 5, 4, 1, 1, 0], 2, (1, 2)),
        ([9, 5, 4, 1, 1, 0], 4, (2, 1)),
        ([9, 5, 4, 1, 1, 0], 5, (2, 1)),
        ([3, 3, 3], 1, (1, 0)),
        ([7], 0, (1, 0)),
        # one long edge of slope -2/3
        ([4, 4, 3, 2], 1, (3, 2)),
        ([10, 8, 6, 4], 3, (1, 2)),  # a common factor is taken out
    ],
)
def test_edge_by_hand(needed: list[int], at: int, edge: tuple[int, int]) -> None:
    assert hull_edge(np.array(needed), at) == edge


@given(convex_needs(), st.data())
def test_an_edge_lies_under_every_point_and_touches_on_both_sides(
    needed: np.ndarray, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(needed) - 1))
    q, p = hull_edge(needed, at)
    assert q >= 1
    assert p >= 0
    assert math.gcd(q, p) == 1
    line = heights(needed, q, p)
    touching = [i for i, height in enumerate(line) if height == min(line)]
    if len(needed) > 1:
        assert touching[0] <= at <= touching[-1]
        assert touching[-1] > touching[0]


@given(convex_needs())
def test_every_short_whole_point_is_below_some_edge(needed: np.ndarray) -> None:
    edges = {hull_edge(needed, at) for at in range(len(needed))}
    least = {edge: min(heights(needed, *edge)) for edge in edges}
    for i, need in enumerate(needed.tolist()):
        q, p = hull_edge(needed, i)
        for short in range(max(0, need - 3), need):
            # whole points that fall short of a need rounded up lie under its own edge
            assert q * short + p * i < least[q, p]
            assert any(a * short + b * i < least[a, b] for a, b in edges)
        assert all(a * need + b * i >= least[a, b] for a, b in edges)


@given(SEEDS, st.integers(1, 12), st.integers(0, 40))
@settings(max_examples=150)
def test_heights_lie_under_every_batch_that_fits(seed: int, q: int, p: int) -> None:
    case = draw_case(seed)
    space = configurations(case)
    members = np.arange(len(space))
    for need in space.needs:
        found = line_heights(space, need, members, q, p)
        for d, most in zip(members.tolist(), space.batch_by_memory.tolist(), strict=True):
            if most == 0:
                assert found[d] == 0
                continue
            batches = np.arange(1, most + 1)
            index = np.full(most, d)
            whole = (q * need.whole(index, batches) + p * batches).min()
            exact = (q * need.replicas(index, batches) + p * batches).min()
            assert found[d] <= whole
            # and is as high as the line of the exact need, rounded up
            assert found[d] >= math.ceil(exact * (1 - 3e-9))


def test_heights_by_hand() -> None:
    """A need of 12 / b: q * 12 / b + p * b is least at the square root of 12 q / p."""
    space = configurations(draw_case(0))

    class Need:
        name, field = "capacity", "brief.requests_per_s"

        def replicas(self, index: np.ndarray, batch: np.ndarray) -> np.ndarray:
            return 12 / (batch + 0.0 * index)

    members = np.arange(len(space))
    open_to_64 = type(space)(**{**_fields(space), "batch_by_memory": np.full(len(space), 64)})
    # q = 1, p = 3: at b = 2, 6 + 6 = 12; q = 4, p = 1: at b = 7, 48 / 7 + 7 = 13.86, up to 14;
    # q = 1, p = 0: at b = 64, 12 / 64, up to 1
    for q, p, height in ((1, 3, 12), (4, 1, 14), (1, 0, 1)):
        assert set(line_heights(open_to_64, Need(), members, q, p).tolist()) == {height}
    # where only 3 fit: 4 x 4 + 3 = 19
    only_3 = type(space)(**{**_fields(space), "batch_by_memory": np.full(len(space), 3)})
    assert set(line_heights(only_3, Need(), members, 4, 1).tolist()) == {19}
    nothing = type(space)(**{**_fields(space), "batch_by_memory": np.zeros(len(space), int)})
    assert set(line_heights(nothing, Need(), members, 4, 1).tolist()) == {0}


def _fields(space: object) -> dict[str, object]:
    return {name: getattr(space, name) for name in space.__dataclass_fields__}
