"""What-if rows as tables and as values for programs."""

from typing import Any

from optimiser.errors import CaseError
from optimiser.planning.deployment import is_estimated
from optimiser.planning.design import Configuration
from optimiser.planning.planner import Infeasible, Planned
from optimiser.review import data
from optimiser.review.numbers import count, ms, per_cent, usd
from optimiser.review.review import BOTTLENECKS
from optimiser.studies.rows import Row


def design_text(planned: Planned) -> str:
    """A design in a few words."""
    design = planned.design
    chosen = configuration_text(design.configuration)
    text = f"{design.replicas:,} × {chosen}, batch {design.batch:,}"
    return f"{text}, ESTIMATED" if is_estimated(planned.case, design.configuration.gpu) else text


def configuration_text(chosen: Configuration) -> str:
    """A configuration in a few words, its rental left out."""
    gpus = chosen.gpu.name
    if chosen.tensor_parallel > 1:
        gpus += f" × {chosen.tensor_parallel}"
    return f"{gpus}, {chosen.weights}/{chosen.kv_cache}, {chosen.kv_heads} KV heads"


def utilization_frac(planned: Planned) -> float:
    """Share of the fleet's capacity that the plain rate takes, without headroom."""
    capacity = planned.design.replicas * planned.verdict.figures.requests_per_s_per_replica
    return planned.case.brief.rate / capacity


def why_not(row: Row) -> str:
    """Why a row has no design, and the nearest brief that works."""
    if isinstance(row.outcome, CaseError):
        return "; ".join(mistake.message for mistake in row.outcome.mistakes)
    if not isinstance(row.outcome, Infeasible):
        return row.status
    parts = []
    for conflict in row.outcome.conflicts:
        works = [
            f"{n.requirement} {n.asked:g} → {n.works_at:g}"
            for n in conflict.nearest
            if n.works_at is not None
        ]
        parts.append(" or ".join(works) or f"{', '.join(conflict.requirements)}: no value helps")
    return f"cannot comply: {' and '.join(parts)}"


def cells(row: Row, baseline: Planned | None) -> tuple[str, ...]:
    """Design, GPUs, TTFT, TPOT, prices, saving, utilisation and bottleneck of a row."""
    planned = row.planned
    if planned is None:
        return (why_not(row), *[""] * 8)
    figures = planned.verdict.figures
    change = ""
    if baseline is not None:
        change = f"{figures.usd_per_hour / baseline.verdict.figures.usd_per_hour - 1:+.0%}"
    return (
        design_text(planned),
        f"{planned.design.rented_gpus:,}",
        ms(figures.ttft_ms),
        ms(figures.tpot_ms),
        usd(figures.usd_per_million_answer_tokens),
        usd(figures.usd_per_month),
        change.replace("%", " %"),
        per_cent(utilization_frac(planned)),
        BOTTLENECKS[figures.bottleneck],
    )


COLUMNS = ("design", "GPUs", "TTFT", "TPOT", "$/1M", "$/month", "change", "used", "bottleneck")


def row_data(row: Row) -> dict[str, Any]:
    """A row as JSON values."""
    found: dict[str, Any] = {"name": row.name, "status": row.status}
    planned = row.planned
    if planned is not None:
        found["design"] = data.design(planned.case, planned.design)
        found["figures"] = data.figures(planned.verdict.figures)
        found["utilization_frac"] = utilization_frac(planned)
    found["gpus_saved"] = row.gpus_saved
    found["usd_saved_per_month"] = row.usd_saved_per_month
    if isinstance(row.outcome, Infeasible):
        infeasible = data.infeasible(row.outcome)
        found["conflict"], found["conflicts"] = infeasible["conflict"], infeasible["conflicts"]
    if isinstance(row.outcome, CaseError):
        found["error"] = str(row.outcome)
    return found


def gpus_text(row: Row) -> str:
    """GPUs saved, in words."""
    if row.gpus_saved is None:
        return ""
    return f"{count(row.gpus_saved, 'GPU')} saved"
