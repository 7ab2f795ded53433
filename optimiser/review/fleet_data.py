"""What a program reads of a fleet: the keys of a one-workload plan, and `pools`."""

from dataclasses import asdict
from typing import Any

from optimiser.planning.fleet.conflict import FleetConflict
from optimiser.planning.fleet.planned import PlannedPool
from optimiser.planning.fleet.planner import FleetInfeasible, FleetPlanned, FleetUndecided
from optimiser.review.fleet_assumptions import assumptions
from optimiser.review.fleet_bars import class_bars, gpu_bars
from optimiser.studies.fleet import FleetStudy
from optimiser.units import HOURS_PER_MONTH, ms


def planned(outcome: FleetPlanned, study: FleetStudy | None) -> dict[str, Any]:
    """A fleet as JSON values."""
    proof = outcome.proof
    pools = [_pool(outcome, pool) for pool in outcome.pools]
    bars = gpu_bars(outcome)
    return {
        "status": outcome.status,
        "case": outcome.case.name,
        "design": pools[0]["design"] if len(pools) == 1 else None,
        "pools": pools,
        "classes": classes(outcome),
        "figures": {
            "usd_per_hour": outcome.usd_per_hour,
            "usd_per_month": outcome.usd_per_hour * HOURS_PER_MONTH,
            "gpus": sum(pool.gpus for pool in outcome.pools),
            "rented_gpus": sum(outcome.rented_gpus.values()),
            "rented_gpus_by_type": dict(outcome.rented_gpus),
        },
        "error_bars": None if bars is None else {"gpus": bars},
        "proof": {
            "objective_usd_per_hour": proof.objective_usd_per_hour,
            "bound_usd_per_hour": proof.bound_usd_per_hour,
            "gap_frac": proof.gap_frac,
            "solver": proof.solver,
            "pools": proof.pools,
            "seconds": proof.seconds,
            "cross_check": proof.cross_check,
        },
        "verdict": [
            {
                "requirement": check.requirement,
                "required": check.required,
                "actual": check.actual,
                "unit": check.unit,
                "margin_frac": check.margin_frac if check.required else None,
                "holds": check.holds,
            }
            for check in outcome.checks
        ],
        "savings": None if study is None else _savings(outcome, study),
        "worth": [] if study is None else [_worth(row) for row in study.worth],
        "levers": [],
        "other_gpus": [],
        "assumptions": assumptions(outcome),
        "excluded": [{"what": what, "why": why} for what, why in outcome.assembled.excluded],
        "notes": list(outcome.notes),
    }


def _pool(outcome: FleetPlanned, pool: PlannedPool) -> dict[str, Any]:
    of, chosen = pool.of, pool.of.configuration
    design: dict[str, Any] = {
        "pool": of.label,
        "model": of.model,
        "gpu": of.gpu,
        "gpus": pool.gpus,
        "replicas": pool.replicas,
        "tensor_parallel": of.gpus_per_replica,
        "batch": pool.design.batch if pool.design else None,
        "weights": chosen.weights if chosen else None,
        "kv_cache": chosen.kv_cache if chosen else None,
        "kv_heads": chosen.kv_heads if chosen else None,
        "offer": of.rental.offer.name if of.rental.offer else None,
        "term": of.rental.term,
    }
    return {
        "design": design,
        "replicas": pool.replicas,
        "spare_replicas": outcome.case.limits.survive,
        "routed": dict(pool.routed),
        "utilization_frac": pool.utilization_frac,
        "tpot_ms": ms(pool.mix.tpot_s) if pool.mix else None,
        "ttft_ms": {n: ms(s) for n, s in pool.mix.ttft_s.items()} if pool.mix else None,
        "sequences": pool.mix.sequences if pool.mix else None,
    }


def classes(outcome: FleetPlanned) -> list[dict[str, Any]]:
    """Each class: its rate, and the slowest first and further tokens that it sees."""
    found = []
    names = outcome.assembled.names.classes
    for name, rate in zip(names, outcome.assembled.rates, strict=True):
        bars = class_bars(outcome, name)
        used = [p.mix for p in outcome.pools if p.mix is not None and name in p.routed]
        found.append(
            {
                "name": name,
                "requests_per_s": float(rate),
                "ttft_ms": max((ms(mix.ttft_s[name]) for mix in used), default=None),
                "tpot_ms": max((ms(mix.tpot_s) for mix in used), default=None),
                "pools": [i for i, pool in enumerate(outcome.pools) if name in pool.routed],
                "error_bars": None if bars is None else asdict(bars),
            }
        )
    return found


def _savings(outcome: FleetPlanned, study: FleetStudy) -> dict[str, Any]:
    return {
        "best_single_gpu": study.single_gpu,
        "best_single_gpu_usd_per_hour": study.single_gpu_usd,
        "saved_against_single_gpu_frac": study.saved_frac(outcome, study.single_gpu_usd),
        "one_pool_per_class_usd_per_hour": study.per_class_usd,
        "saved_against_one_pool_per_class_frac": study.saved_frac(outcome, study.per_class_usd),
    }


def _worth(row: Any) -> dict[str, Any]:
    return {
        "change": row.change,
        "usd_saved_per_month": row.usd_saved_per_month,
        "is_proved": row.is_proved,
    }


def infeasible(outcome: FleetInfeasible, conflicts: tuple[FleetConflict, ...]) -> dict[str, Any]:
    """A case that no fleet serves."""
    told = [_conflict(one) for one in conflicts]
    return {
        "status": outcome.status,
        "case": outcome.case.name,
        "conflict": told[0] if told else None,
        "conflicts": told,
        "proof": {"pools": len(outcome.assembled.pools), "seconds": outcome.seconds},
    }


def _conflict(conflict: FleetConflict) -> dict[str, Any]:
    return {
        "requirements": list(conflict.requirements),
        "nearest": [
            {
                "requirement": one.requirement,
                "class": one.workload,
                "asked": one.asked,
                "works_at": one.works_at,
                "is_proved": one.is_proved,
            }
            for one in conflict.nearest
        ],
        "is_minimal": conflict.is_minimal,
        "all_traffic_frac": conflict.all_traffic_frac,
    }


def undecided(outcome: FleetUndecided) -> dict[str, Any]:
    """A case that the time was too short for."""
    return {
        "status": outcome.status,
        "case": outcome.case.name,
        "proof": {"bound_usd_per_hour": outcome.bound_usd_per_hour, "seconds": outcome.seconds},
    }
