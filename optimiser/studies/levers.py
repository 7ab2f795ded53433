"""The page's lever ranking (step 5): the whole plan again with each change switched on."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from optimiser.catalogue.formats import CACHE_FORMATS, WEIGHT_FORMATS
from optimiser.planning.design import fixed_levers
from optimiser.planning.planner import Planned, plan
from optimiser.studies.rows import Changes
from optimiser.units import usd_per_month

GROUPED_KV_HEADS = 8
"""The grouped-query attention that the ranking tries: what 7B to 70B models ship with."""


@dataclass(frozen=True, slots=True)
class LeverRow:
    """One change and the plan it leads to."""

    name: str
    planned: Planned
    gpus_saved: int
    usd_saved_per_month: float


def rank_levers(planned: Planned, solver_name: str = "cp-sat") -> tuple[LeverRow, ...]:
    """The changes to a design that save a GPU, most saved first.

    The baseline is the design: its GPU type and formats are kept, one change is switched on at a
    time, and everything else of the case stays as it is, tensor-parallel sizes included. GPUs are
    those paid for: of whole instances, where an offer is rented. At equal saving, KV heads nearest
    the model's own come first, then requests/s per GPU.
    """
    baseline = planned.case.changed(baseline_changes(planned))
    rows = []
    for name, change in _changes(planned):
        changed = plan(baseline.changed(change), solver_name=solver_name, explained=False)
        if isinstance(changed, Planned) and changed.design.rented_gpus < planned.design.rented_gpus:
            saved = planned.verdict.figures.usd_per_hour - changed.verdict.figures.usd_per_hour
            gpus_saved = planned.design.rented_gpus - changed.design.rented_gpus
            rows.append(LeverRow(name, changed, gpus_saved, usd_per_month(saved)))
    return tuple(sorted(rows, key=_preference))


def baseline_changes(planned: Planned) -> Changes:
    """The case fixed at its design: GPU type, formats and KV heads; the rest as it is."""
    chosen = planned.design.configuration
    return {
        "hardware.gpus": [chosen.gpu.model_dump(exclude_unset=True)],
        **fixed_levers(chosen.weights, chosen.kv_cache, chosen.kv_heads),
    }


def _changes(planned: Planned) -> Iterator[tuple[str, dict[str, object]]]:
    """Each change that makes something smaller than the design has it."""
    chosen, heads = planned.design.configuration, planned.case.model.attention_heads
    if chosen.kv_heads > GROUPED_KV_HEADS and heads % GROUPED_KV_HEADS == 0:
        yield f"GQA ({GROUPED_KV_HEADS} KV heads)", {"levers.kv_heads": GROUPED_KV_HEADS}
    if CACHE_FORMATS[chosen.kv_cache].bits > CACHE_FORMATS["int8"].bits:
        yield "int8 KV cache", {"levers.kv_cache": "int8"}
    bits = WEIGHT_FORMATS[chosen.weights].bits
    for name in ("int4", "int8", "fp8"):
        if name == "fp8" and not chosen.gpu.computes(WEIGHT_FORMATS[name]):
            continue  # without its own rate it is int8 by another name
        if bits > WEIGHT_FORMATS[name].bits:
            yield f"{name} weights", {"levers.weights": name}


def _preference(row: LeverRow) -> tuple[float, float, float]:
    design, figures = row.planned.design, row.planned.verdict.figures
    chosen, own = design.configuration, row.planned.case.model.kv_heads
    steps = 0.0 if own == chosen.kv_heads else abs(math.log2(own / chosen.kv_heads))
    per_gpu = figures.requests_per_s_per_replica / chosen.tensor_parallel
    return -row.gpus_saved, steps, -per_gpu
