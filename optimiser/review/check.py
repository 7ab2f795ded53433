"""The review of a design that the user already runs, beside the optimum."""

from optimiser.case import Case
from optimiser.planning.design import Design
from optimiser.planning.planner import Infeasible, Planned, Undecided
from optimiser.planning.verify import Verdict
from optimiser.review import assumptions as assumed
from optimiser.review import data
from optimiser.review.numbers import count, ms, per_cent, usd
from optimiser.review.plan_tables import LABELS, verdict_table
from optimiser.review.review import Review


def check_review(
    case: Case, design: Design, verdict: Verdict, best: Planned | Infeasible | Undecided
) -> Review:
    """Whether a design complies, and what it costs beside the cheapest compliant one."""
    figures = verdict.figures
    broken = [LABELS[check.requirement].lower() for check in verdict.checks if not check.holds]
    headline = "complies" if verdict.complies else f"does not comply: {', '.join(broken)}"
    return Review(
        title=f"{case.name} · {count(design.gpus, 'GPU')}: {design.configuration.label}, "
        f"batch {design.batch:,}",
        headline=f"{headline} · first token {ms(figures.ttft_ms)} · per token "
        f"{ms(figures.tpot_ms)} · {usd(figures.usd_per_hour)}/h",
        good=verdict.complies,
        steps=(),
        tables=(verdict_table(verdict),),
        closing=(_beside(verdict, best),),
        notes=(
            *(f"default {line}" for line in assumed.defaults(case)),
            *assumed.assumptions(case, design),
        ),
        data={
            "status": "complies" if verdict.complies else "does_not_comply",
            "case": case.name,
            "design": data.design(case, design),
            "figures": data.figures(figures),
            "verdict": data.verdict(verdict),
            "optimum": _optimum(verdict, best),
            "assumptions": assumed.assumptions(case, design),
        },
    )


def _beside(verdict: Verdict, best: Planned | Infeasible | Undecided) -> str:
    if not isinstance(best, Planned):
        return f"optimum of the case: {best.status}"
    cheapest, cost = best.verdict.figures.usd_per_hour, verdict.figures.usd_per_hour
    what = f"{count(best.design.gpus, 'GPU')}, {best.design.configuration.label}"
    difference = f"{per_cent(abs(cost / cheapest - 1))} {'above' if cost >= cheapest else 'below'}"
    beside = "the same" if cost == cheapest else difference
    if not verdict.complies:
        beside += ", but does not comply"
    return f"cheapest compliant design: {usd(cheapest)}/h ({what}); this one is {beside}"


def _optimum(verdict: Verdict, best: Planned | Infeasible | Undecided) -> dict[str, object]:
    if not isinstance(best, Planned):
        return {"status": best.status}
    cheapest = best.verdict.figures.usd_per_hour
    return {
        "status": best.status,
        "design": data.design(best.case, best.design),
        "usd_per_hour": cheapest,
        "usd_per_hour_above": verdict.figures.usd_per_hour - cheapest,
    }
