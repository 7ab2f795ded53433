"""What a program reads of a plan: keys that stay, values in the units their names say."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from optimiser.case import Case
from optimiser.planning.deployment import is_estimated
from optimiser.planning.design import Design
from optimiser.planning.explain import Conflict
from optimiser.planning.planner import Infeasible, Planned, Undecided
from optimiser.planning.verify import Figures, Verdict
from optimiser.review import assumptions as assumed
from optimiser.review.bars import Bars, bars_of
from optimiser.studies.alternatives import Alternative
from optimiser.studies.levers import LeverRow


def planned(
    outcome: Planned, levers: Sequence[LeverRow], alternatives: Sequence[Alternative]
) -> dict[str, Any]:
    """A plan that has a design."""
    proof = outcome.proof
    return {
        "status": outcome.status,
        "case": outcome.case.name,
        "design": design(outcome.case, outcome.design),
        "figures": figures(outcome.verdict.figures),
        "error_bars": _bars(bars_of(outcome)),
        "proof": {
            "objective_usd_per_hour": proof.objective_usd_per_hour,
            "bound_usd_per_hour": proof.bound_usd_per_hour,
            "gap_frac": proof.gap_frac,
            "solver": proof.solver,
            "rounds": proof.rounds,
            "configurations": proof.configurations,
            "seconds": proof.seconds,
            "cross_check": proof.cross_check,
        },
        "verdict": verdict(outcome.verdict),
        "levers": [
            {
                "name": row.name,
                "gpus": row.planned.design.rented_gpus,
                "gpus_saved": row.gpus_saved,
                "usd_per_million_answer_tokens": (
                    row.planned.verdict.figures.usd_per_million_answer_tokens
                ),
                "usd_saved_per_month": row.usd_saved_per_month,
            }
            for row in levers
        ],
        "other_gpus": [_alternative(one) for one in alternatives],
        "defaults": assumed.defaults(outcome.case),
        "assumptions": assumed.assumptions(outcome.case, outcome.design),
        "excluded": [{"what": what, "why": why} for what, why in outcome.excluded],
        "notes": list(outcome.notes),
    }


def design(case: Case, chosen_design: Design) -> dict[str, Any]:
    """A design as JSON values."""
    chosen = chosen_design.configuration
    return {
        "model": case.model.name,
        "gpu": chosen.gpu.name,
        "gpus": chosen_design.gpus,
        "replicas": chosen_design.replicas,
        "tensor_parallel": chosen.tensor_parallel,
        "batch": chosen_design.batch,
        "weights": chosen.weights,
        "kv_cache": chosen.kv_cache,
        "kv_heads": chosen.kv_heads,
        "rented_gpus": chosen_design.rented_gpus,
        "offer": chosen.rental.offer.name if chosen.rental.offer else None,
        "term": chosen.rental.term,
        "estimated": is_estimated(case, chosen.gpu),
    }


def figures(values: Figures) -> dict[str, Any]:
    """The figures as JSON values."""
    return {item.name: getattr(values, item.name) for item in fields(values)}


def verdict(checked: Verdict) -> list[dict[str, Any]]:
    """The verdict as JSON values."""
    return [
        {
            "requirement": check.requirement,
            "required": check.required,
            "actual": check.actual,
            "unit": check.unit,
            "margin_frac": check.margin_frac,
            "holds": check.holds,
        }
        for check in checked.checks
    ]


def infeasible(outcome: Infeasible) -> dict[str, Any]:
    """A case that nothing meets: `conflict` is the first of `conflicts`."""
    conflicts = [_conflict(conflict) for conflict in outcome.conflicts]
    return {
        "status": outcome.status,
        "case": outcome.case.name,
        "conflict": conflicts[0] if conflicts else None,
        "conflicts": conflicts,
        "proof": _work(outcome),
    }


def undecided(outcome: Undecided) -> dict[str, Any]:
    """A case that the time was too short for."""
    return {"status": outcome.status, "case": outcome.case.name, "proof": _work(outcome)}


def _bars(bars: Bars | None) -> dict[str, Any] | None:
    return None if bars is None else asdict(bars)


def _alternative(one: Alternative) -> dict[str, Any]:
    found = one.planned
    return {
        "gpu": one.gpu,
        "status": "infeasible" if found is None else found.status,
        "design": None if found is None else design(found.case, found.design),
        "usd_per_hour": None if found is None else found.verdict.figures.usd_per_hour,
        "usd_per_hour_above": one.usd_per_hour_above,
        "conflicts": [_conflict(conflict) for conflict in one.conflicts],
    }


def _conflict(conflict: Conflict) -> dict[str, Any]:
    return {
        "requirements": list(conflict.requirements),
        "nearest": [asdict(nearest) for nearest in conflict.nearest],
    }


def _work(outcome: Infeasible | Undecided) -> dict[str, Any]:
    return {
        "solver": outcome.solver,
        "configurations": outcome.configurations,
        "seconds": outcome.seconds,
    }
