"""Every lever alone, why it does what it does, the best pairs and the best set."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from optimiser.catalogue.formats import CACHE_FORMATS, WEIGHT_FORMATS
from optimiser.catalogue.load import Catalogue
from optimiser.planning.planner import Planned
from optimiser.studies.lever_sets import best_sets, set_changes
from optimiser.studies.options import DEFAULT_SHARES, Lever, Shares, levers_of
from optimiser.studies.rows import Row, row

Measure = Literal["gpus", "cost", "tpot"]
MOST_PAIRS = 3


@dataclass(frozen=True, slots=True)
class LeverResult:
    """A lever pulled alone."""

    lever: Lever
    row: Row
    why: str
    """What bounds its effect, from the baseline's own figures."""
    helps: bool
    """Whether it is kept under the measure that was asked."""


@dataclass(frozen=True, slots=True)
class LeverStudy:
    """What to change next."""

    planned: Planned
    measure: Measure
    depth: int
    results: tuple[LeverResult, ...]
    """Best first; those that do not help last."""
    pairs: tuple[Row, ...]
    best: Row | None
    """The best set of at most `depth` levers."""


def study_levers(
    planned: Planned,
    known: Catalogue,
    measure: Measure = "gpus",
    depth: int = 2,
    shares: Shares = DEFAULT_SHARES,
    solver_name: str = "cp-sat",
) -> LeverStudy:
    """Pull every lever of a design alone, and find the best pairs and the best set."""
    levers = levers_of(planned, known, shares)
    results = []
    for lever in levers:
        changes = set_changes(planned, [lever])
        found = row(lever.name, planned.case, changes, planned, solver_name)
        results.append(
            LeverResult(lever, found, why(planned, lever), _helps(planned, lever, found, measure))
        )
    pairs = best_sets(planned, levers, 2, MOST_PAIRS, exactly=True, solver_name=solver_name)
    best = best_sets(planned, levers, depth, solver_name=solver_name)
    return LeverStudy(
        planned,
        measure,
        depth,
        tuple(sorted(results, key=_order(planned, measure))),
        tuple(pairs),
        best[0] if best else None,
    )


def _helps(planned: Planned, lever: Lever, found: Row, measure: Measure) -> bool:
    if found.planned is None or found.gpus_saved is None or found.usd_saved_per_month is None:
        return False
    if measure == "gpus" and lever.kind in HARDWARE:
        return found.usd_saved_per_month > 0  # a GPU of another type is not the same GPU
    if measure == "gpus":
        return found.gpus_saved > 0
    if measure == "cost":
        return found.usd_saved_per_month > 0
    return found.planned.verdict.figures.tpot_ms < planned.verdict.figures.tpot_ms


HARDWARE = ("gpu", "spot")


def _order(
    planned: Planned, measure: Measure
) -> Callable[[LeverResult], tuple[bool, bool, float, float, float]]:
    """Those that help first, changes to the deployment before other hardware; then the measure.

    At equal saving, KV heads nearest the model's own first, then requests/s per GPU.
    """

    def key(result: LeverResult) -> tuple[bool, bool, float, float, float]:
        found = result.row
        hardware = result.lever.kind in HARDWARE
        if found.planned is None:
            return True, hardware, 0.0, 0.0, 0.0
        figures, chosen = found.planned.verdict.figures, found.planned.design.configuration
        own = planned.case.model.kv_heads
        steps = 0.0 if own == chosen.kv_heads else abs(math.log2(own / chosen.kv_heads))
        saved = {
            "gpus": float(found.gpus_saved or 0),
            "cost": found.usd_saved_per_month or 0.0,
            "tpot": planned.verdict.figures.tpot_ms - figures.tpot_ms,
        }[measure]
        per_gpu = figures.requests_per_s_per_replica / chosen.tensor_parallel
        return not result.helps, hardware, -saved, steps, -per_gpu

    return key


def why(planned: Planned, lever: Lever) -> str:
    """What bounds a lever's effect: the share of the work that it can touch at all."""
    figures, design = planned.verdict.figures, planned.design
    chosen, brief = design.configuration, planned.case.brief
    weights, cache = figures.weight_read_gb_per_step, figures.kv_read_gb_per_step
    weights_frac = weights / (weights + cache)
    decode_s = brief.answer_tokens * figures.tpot_ms / design.batch
    prefill_frac = figures.ttft_ms / (figures.ttft_ms + decode_s)
    if lever.kind == "weights":
        kept = _ratio(lever, "levers.weights", WEIGHT_FORMATS[chosen.weights].bits)
        most = weights_frac * (1 - kept)
        return (
            f"weights are {_percent(weights_frac)} of the bytes of a step: {lever.name} cannot "
            f"save more than {_percent(most)} of them"
        )
    if lever.kind in ("kv_cache", "kv_heads"):
        if lever.kind == "kv_cache":
            kept = _ratio(lever, "levers.kv_cache", CACHE_FORMATS[chosen.kv_cache].bits)
        else:
            kept = float(str(lever.changes["levers.kv_heads"])) / chosen.kv_heads
        most = (1 - weights_frac) * (1 - kept)
        return (
            f"the KV cache is {_percent(1 - weights_frac)} of the bytes of a step: {lever.name} "
            f"saves up to {_percent(most)} of them, and lets the batch grow"
        )
    if lever.kind in ("prefix", "prompt"):
        return f"prefill is {_percent(prefill_frac)} of what a request costs"
    if lever.kind == "answer":
        return f"decoding is {_percent(1 - prefill_frac)} of what a request costs"
    if lever.kind == "target":
        margin = {check.requirement: check.margin_frac for check in planned.verdict.checks}
        field = next(iter(lever.changes))
        spare = margin.get(field, 0.0)
        return f"the target has {_percent(spare)} to spare" if spare > 0.01 else "the target binds"
    if lever.kind == "efficiency":
        return "every pass gets faster by the same share"
    return lever.text.how.rstrip(".")


def _ratio(lever: Lever, path: str, bits: float) -> float:
    formats = WEIGHT_FORMATS if path == "levers.weights" else CACHE_FORMATS
    return formats[str(lever.changes[path])].bits / bits


def _percent(fraction: float) -> str:
    return f"{fraction * 100:.0f} %"
