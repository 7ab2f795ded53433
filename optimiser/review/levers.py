"""The review of a lever study."""

from typing import Any

from optimiser.review.numbers import count, ms, usd
from optimiser.review.review import Review, Table
from optimiser.review.rows import row_data, why_not
from optimiser.studies.lever_study import LeverResult, LeverStudy
from optimiser.studies.rows import Row


def levers_review(found: LeverStudy) -> Review:
    """Levers that help, with effort and risk; those that do not, with the reason; the best sets."""
    helping = [result for result in found.results if result.helps]
    others = [result for result in found.results if not result.helps]
    figures = ("GPUs", "saved", "TPOT", "$/1M", "saved a month")
    tables = []
    if helping:
        rows = tuple(map(_helps, helping))
        tables.append(Table("Levers", ("lever", *figures, "takes", "why"), rows, text=(0, 6, 7)))
    if found.pairs:
        rows = tuple((row.name, *_figures(row)) for row in found.pairs)
        tables.append(Table("Best pairs", ("levers", *figures), rows))
    if others:
        rows = tuple((r.lever.name, _nothing(r), r.why) for r in others)
        tables.append(Table("No help alone", ("lever", "result", "why"), rows, text=(0, 1, 2)))
    cost = found.planned.verdict.figures.usd_per_hour
    baseline = f"{count(found.planned.design.rented_gpus, 'GPU')}, {usd(cost)}/h"
    return Review(
        title=f"{found.planned.case.name}: levers by {found.measure}, baseline {baseline}",
        headline=_best(found),
        good=True,
        steps=(),
        tables=tuple(tables),
        closing=tuple(
            f"{r.lever.name}: {r.lever.text.how} Risk: {r.lever.text.risk}" for r in helping[:3]
        ),
        notes=(
            "each row changes the planned design in one way and holds its other levers; "
            "compare and sweep open them again",
        ),
        data={
            "baseline": row_data(Row(found.planned.case.name, found.planned, 0, 0.0)),
            "by": found.measure,
            "depth": found.depth,
            "rows": [_data(result) for result in found.results],
            "pairs": [row_data(row) for row in found.pairs],
            "best_set": None if found.best is None else row_data(found.best),
        },
    )


def _best(found: LeverStudy) -> str:
    best = found.best
    if best is None or best.planned is None:
        return "no set of levers complies"
    saved = _saved(best.usd_saved_per_month or 0.0)
    gpus = count(best.planned.design.rented_gpus, "GPU")
    return f"best set of at most {found.depth}: {best.name}: {gpus}, {saved} saved a month"


def _helps(result: LeverResult) -> tuple[str, ...]:
    return (result.lever.name, *_figures(result.row), result.lever.text.effort, result.why)


def _figures(row: Row) -> tuple[str, ...]:
    planned = row.planned
    if planned is None:
        return why_not(row), "", "", "", ""
    figures = planned.verdict.figures
    return (
        f"{planned.design.rented_gpus:,}",
        f"{row.gpus_saved or 0:+,}",
        ms(figures.tpot_ms),
        usd(figures.usd_per_million_answer_tokens),
        _saved(row.usd_saved_per_month or 0.0),
    )


def _saved(usd_per_month: float) -> str:
    return f"-{usd(-usd_per_month)}" if usd_per_month < 0 else usd(usd_per_month)


def _nothing(result: LeverResult) -> str:
    planned = result.row.planned
    if planned is None:
        return why_not(result.row)
    gpus, saved = result.row.gpus_saved or 0, result.row.usd_saved_per_month or 0.0
    if gpus == 0 and saved == 0:
        return "changes nothing"
    return f"{gpus:+,} GPUs saved, {_saved(saved)} a month"


def _data(result: LeverResult) -> dict[str, Any]:
    text = result.lever.text
    return {
        **row_data(result.row),
        "kind": result.lever.kind,
        "helps": result.helps,
        "why": result.why,
        "effort": text.effort,
        "how": text.how,
        "risk": text.risk,
        "source": text.source,
    }
