"""Groups the requests of a log by length into a few classes."""

from dataclasses import dataclass

import numpy as np

from optimiser.traffic.log import Floats, Log

ROUNDS = 100
MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Group:
    """Requests of like lengths."""

    name: str
    share_frac: float
    """Of all requests."""
    prompt_tokens: int
    answer_tokens: int
    requests_per_s: float | None
    """On average; None where the log has no times."""
    peak_requests_per_s: float | None
    """In the busiest minute."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """The classes of a log, and what taking their means for their requests loses."""

    groups: tuple[Group, ...]
    errors_frac: tuple[tuple[int, float], ...]
    """Number of groups, and by how much their means misjudge the cache that requests keep in
    memory over time: |Σ n · answer · (prompt + answer / 2) of means ÷ of requests - 1|, summed over
    the groups by their share."""


def group(log: Log, n_groups: int, requests_per_s: float | None = None) -> Grouping:
    """So many groups, by weighted k-means over the logarithms of the lengths.

    `requests_per_s` is the rate of all, where the log has no times.
    """
    place = _grouped(log, n_groups)
    errors = []
    for count in (n_groups, 2 * n_groups, 4 * n_groups):
        at = place if count == n_groups else _grouped(log, count)
        errors.append((int(at.max()) + 1, _error_frac(log, at)))
    groups = [_group(log, place == g, requests_per_s) for g in range(int(place.max()) + 1)]
    named = [_named(one, groups) for one in groups]
    return Grouping(tuple(named), tuple(errors))


def _grouped(log: Log, n_groups: int) -> np.ndarray:
    """The group of each request, in the order of prompt length; deterministic."""
    points = np.log2(np.stack([log.prompt, log.answer], axis=1))
    middle = np.average(points, axis=0, weights=log.count)
    first = int(np.argmin(((points - middle) ** 2).sum(axis=1)))
    centres = [points[first]]
    for _ in range(1, min(n_groups, len(points))):
        away = np.min([((points - c) ** 2).sum(axis=1) for c in centres], axis=0)
        # what is far and common
        centres.append(points[int(np.argmax(away * log.count))])
    found = np.array(centres)
    place = np.zeros(len(points), dtype=np.int64)
    for _ in range(ROUNDS):
        distance = ((points[:, None, :] - found[None]) ** 2).sum(axis=2)
        new = distance.argmin(axis=1)
        moved = np.array(
            [
                np.average(points[new == g], axis=0, weights=log.count[new == g])
                if (new == g).any()
                else found[g]
                for g in range(len(found))
            ]
        )
        if np.array_equal(new, place) and np.allclose(moved, found):
            break
        place, found = new, moved
    order = [int(g) for g in np.lexsort((found[:, 1], found[:, 0])) if (place == g).any()]
    rank = {g: i for i, g in enumerate(order)}
    return np.array([rank[int(g)] for g in place], dtype=np.int64)


def _held(prompt: Floats, answer: Floats) -> Floats:
    """Tokens of cache that a request keeps, summed over its decode steps."""
    return np.asarray(answer * (prompt + answer / 2))


def _error_frac(log: Log, place: np.ndarray) -> float:
    total, wrong = 0.0, 0.0
    for g in range(int(place.max()) + 1):
        at = place == g
        n = log.count[at]
        exact = float((n * _held(log.prompt[at], log.answer[at])).sum())
        prompt, answer = (
            np.average(log.prompt[at], weights=n),
            np.average(log.answer[at], weights=n),
        )
        total += exact
        wrong += abs(float(n.sum() * _held(np.array(prompt), np.array(answer))) - exact)
    return wrong / total


def _group(log: Log, at: np.ndarray, requests_per_s: float | None) -> Group:
    n = log.count[at]
    share = float(n.sum() / log.count.sum())
    mean, peak = None, None
    if log.time_s is not None and log.span_s:
        minutes = np.bincount((log.time_s[at] // MINUTE_S).astype(int), weights=n)
        mean, peak = float(n.sum() / log.span_s), float(minutes.max() / MINUTE_S)
    elif requests_per_s is not None:
        mean = share * requests_per_s
    return Group(
        "",
        share,
        max(1, round(float(np.average(log.prompt[at], weights=n)))),
        max(1, round(float(np.average(log.answer[at], weights=n)))),
        mean,
        peak,
    )


def _named(one: Group, groups: list[Group]) -> Group:
    """A group with a name of its lengths."""
    name = f"p{one.prompt_tokens}-a{one.answer_tokens}"
    same = [g for g in groups if (g.prompt_tokens, g.answer_tokens) == _lengths(one)]
    if len(same) > 1:
        name += f"-{same.index(one) + 1}"
    return Group(
        name,
        one.share_frac,
        one.prompt_tokens,
        one.answer_tokens,
        one.requests_per_s,
        one.peak_requests_per_s,
    )


def _lengths(one: Group) -> tuple[int, int]:
    return one.prompt_tokens, one.answer_tokens
