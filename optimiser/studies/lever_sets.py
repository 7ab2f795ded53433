"""The best set of levers of at most so many, chosen by the program.

Levers that are lever variables of the program (formats, KV heads, GPU types) stay what they are;
those that change the brief or the assumptions (lengths, targets, prefix cache, efficiency, price
term) each make a case of their own. The configurations of all of these cases with few enough
changes stand side by side in one program, whose optimum is the best set.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from optimiser.case import Case
from optimiser.errors import CaseError
from optimiser.planning.build import build
from optimiser.planning.configurations import Space, configurations
from optimiser.planning.cut_loop import Run, search
from optimiser.planning.design import Configuration
from optimiser.planning.joined import joined
from optimiser.planning.planner import Planned, settle_ties
from optimiser.planning.solvers.base import Status, solver
from optimiser.studies.levers import baseline_changes
from optimiser.studies.options import Lever
from optimiser.studies.rows import Row, row

IN_PROGRAM = {"weights", "kv_cache", "kv_heads", "gpu"}
"""Groups whose levers are variables of the program."""


@dataclass(frozen=True, slots=True)
class _Segment:
    """A case with some levers of the brief pulled, and the room that is left for others."""

    pulled: tuple[Lever, ...]
    case: Case


def best_sets(
    planned: Planned,
    levers: Sequence[Lever],
    depth: int,
    most_rows: int = 1,
    exactly: bool = False,
    solver_name: str = "cp-sat",
) -> list[Row]:
    """The cheapest sets of at most (or exactly) `depth` levers, best first.

    At equal cost fewer levers win, then the order of designs, then that of the levers. Each is
    planned again as a plain case, so a row equals what `optimise` says of the changed case.
    """
    pulled, space = _choices(planned, levers, depth, exactly)
    rows: list[Row] = []
    kept = np.arange(len(pulled))
    while len(kept) and len(rows) < most_rows:
        chosen = _cheapest(space.only(kept), [pulled[i] for i in kept], solver_name)
        if chosen is None:
            break
        best = pulled[kept[chosen]]
        rows.append(_row(planned, best, solver_name))
        kept = np.array([i for i in kept if pulled[i] != best], dtype=np.int64)
    return rows


def set_changes(planned: Planned, levers: Sequence[Lever]) -> dict[str, object]:
    """The changes of several levers together, over the fixed design."""
    changes = dict(baseline_changes(planned))
    for lever in levers:
        changes.update(lever.changes)
    return changes


def _row(planned: Planned, levers: tuple[Lever, ...], solver_name: str) -> Row:
    name = " + ".join(lever.name for lever in levers) or "no lever"
    return row(name, planned.case, set_changes(planned, levers), planned, solver_name)


def _cheapest(space: Space, sets: list[tuple[Lever, ...]], solver_name: str) -> int | None:
    """Index of the configuration of the cheapest design, fewest levers first at equal cost."""
    n_levers = [len(levers) for levers in sets]
    names = [tuple(lever.name for lever in levers) for levers in sets]
    place = {name: i for i, name in enumerate(dict.fromkeys(names))}
    run = Run(solver(solver_name))
    found = search(build(space), run)
    if found.status is not Status.OPTIMAL:
        return None
    places = [place[name] for name in names]
    ranked = settle_ties(space, found.cost_nano_usd, run, first=n_levers, last=places)
    best = (ranked or found).answer
    return best.place if best else None


def _choices(
    planned: Planned, levers: Sequence[Lever], depth: int, exactly: bool
) -> tuple[list[tuple[Lever, ...]], Space]:
    """All configurations within the depth, and the levers that each one pulls."""
    pulled: list[tuple[Lever, ...]] = []
    spaces: list[Space] = []
    for segment in _segments(planned, levers, depth):
        try:
            space = configurations(segment.case)
        except CaseError:
            continue  # no legal size: no instance of that GPU holds a replica, say
        sets = [_pulled(segment, c, planned, levers) for c in space.configurations]
        fits = [
            i
            for i, found in enumerate(sets)
            if (len(found) == depth if exactly else len(found) <= depth)
        ]
        if fits:
            spaces.append(space.only(np.array(fits)))
            pulled += [sets[i] for i in fits]
    if not spaces:
        return [], configurations(planned.case).only(np.array([], dtype=np.int64))
    return pulled, joined(spaces)[0]


def _segments(planned: Planned, levers: Sequence[Lever], depth: int) -> Iterator[_Segment]:
    """Every set of the brief's levers within the depth, with the program's levers all open."""
    fixed = baseline_changes(planned)
    opened: dict[str, list[object]] = {}
    for lever in levers:
        if lever.group in IN_PROGRAM and lever.group != "gpu":
            for path, value in lever.changes.items():
                opened.setdefault(path, [fixed[path]]).append(value)
    outside = [lever for lever in levers if lever.group not in IN_PROGRAM]
    gpus = [lever for lever in levers if lever.group == "gpu"]
    for size in range(depth + 1):
        for pulled in combinations(outside, size):
            if len({lever.group for lever in pulled}) < size:
                continue
            changes = {**fixed, **opened}
            for lever in pulled:
                changes.update(lever.changes)
            for gpu in [None, *(gpus if size < depth else [])]:
                more = (gpu,) if gpu else ()
                try:
                    case = planned.case.changed({**changes, **(gpu.changes if gpu else {})})
                    yield _Segment(pulled + more, case)
                except CaseError:
                    continue  # such a set is no valid case: no price on that term, say


def _pulled(
    segment: _Segment, configuration: Configuration, planned: Planned, levers: Sequence[Lever]
) -> tuple[Lever, ...]:
    """The levers that a configuration of a segment stands for."""
    own = planned.design.configuration
    pulled = list(segment.pulled)
    for field in ("weights", "kv_cache", "kv_heads"):
        value = getattr(configuration, field)
        if value != getattr(own, field):
            path = f"levers.{field}"
            pulled += [lever for lever in levers if lever.changes.get(path) == value]
    return tuple(pulled)
