"""The tables of a plan's review: verdict, levers, and why other GPU types lost."""

from collections.abc import Sequence
from functools import partial

from optimiser.catalogue.gpu import Gpu
from optimiser.planning.deployment import is_estimated
from optimiser.planning.verify import Check, Verdict
from optimiser.review.numbers import count, plain, rounded, significant, usd
from optimiser.review.review import Table
from optimiser.studies.alternatives import Alternative
from optimiser.studies.levers import LeverRow

LABELS = {
    "hardware.gpus": "Memory",
    "brief.ttft_target_s": "First token",
    "brief.tpot_target_ms": "Per token",
    "brief.requests_per_s": "Requests with headroom",
    "brief.concurrent_users": "Users at once",
    "limits.most_gpus": "GPUs",
    "limits.usd_per_hour": "Budget",
    "limits.least_replicas": "Replicas",
    "levers.batch.most": "Batch",
}


COUNTED = ("GPUs", "replicas", "sequences")
"""Units of whole things."""


def conflicting(field: str, asked: float, gpus: Sequence[Gpu]) -> tuple[str, str]:
    """A requirement of a conflict and what is asked; of GPUs, the least memory and whose it is."""
    if field != "hardware.gpus":
        return field, plain(asked)
    of = f" of {min(gpus, key=lambda gpu: gpu.capacity_bytes).name}" if len(gpus) > 1 else ""
    return f"{field} (GB of memory{of})", rounded(asked, 4)


def verdict_table(verdict: Verdict) -> Table:
    """Each requirement: required, actual, margin."""
    return Table(
        "Verdict",
        ("", "required", "actual", "margin"),
        tuple(_check_row(check) for check in verdict.checks),
        tuple(check.holds for check in verdict.checks),
    )


def _check_row(check: Check) -> tuple[str, ...]:
    sign = "≤" if check.upper else "≥"
    shown = plain if check.unit in COUNTED else partial(significant, digits=4)
    return (
        LABELS[check.requirement],
        f"{sign} {shown(check.required)} {check.unit}",
        f"{shown(check.actual)} {check.unit}",
        f"{check.margin_frac * 100:+,.1f} %",
    )


def lever_table(levers: Sequence[LeverRow]) -> tuple[Table, ...]:
    """Changes that save a GPU, where there are any."""
    if not levers:
        return ()
    rows = tuple(
        (
            row.name,
            f"{row.planned.design.rented_gpus:,}",
            f"{row.gpus_saved:,}",
            usd(row.planned.verdict.figures.usd_per_million_answer_tokens),
            usd(row.usd_saved_per_month),
        )
        for row in levers
    )
    return (Table("Levers", ("change", "GPUs", "saved", "per 1M", "saved a month"), rows),)


def alternative_table(alternatives: Sequence[Alternative]) -> tuple[Table, ...]:
    """Why each other GPU type lost."""
    if not alternatives:
        return ()
    rows = tuple((one.gpu, *_why_lost(one)) for one in alternatives)
    return (
        Table("Other GPU types", ("", "best design", "$/h", "why it lost"), rows, text=(0, 1, 3)),
    )


def _why_lost(one: Alternative) -> tuple[str, str, str]:
    if one.planned is None or one.usd_per_hour_above is None:
        broken = [field for conflict in one.conflicts for field in conflict.requirements]
        return "none complies", "", f"fails {', '.join(broken)}"
    design, figures = one.planned.design, one.planned.verdict.figures
    chosen = design.configuration
    what = f"{count(design.gpus, 'GPU')}, {chosen.weights} weights, {chosen.kv_cache} cache"
    if is_estimated(one.planned.case, chosen.gpu):
        what += ", ESTIMATED"
    dearer = f"{usd(one.usd_per_hour_above)}/h dearer" if one.usd_per_hour_above else "same cost"
    return what, usd(figures.usd_per_hour), dearer
