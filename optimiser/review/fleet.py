"""Decides what a review of a fleet shows."""

from typing import Any

from optimiser.planning.fleet.conflict import FleetConflict
from optimiser.planning.fleet.planned import PlannedPool
from optimiser.planning.fleet.planner import FleetInfeasible, FleetPlanned, FleetUndecided
from optimiser.review import fleet_data as data
from optimiser.review.assumptions import spot_note
from optimiser.review.fleet_assumptions import mark
from optimiser.review.fleet_conflicts import conflict_lines, conflict_tables
from optimiser.review.numbers import count, gpus, ms, per_cent, significant, usd
from optimiser.review.review import Review, Table
from optimiser.studies.fleet import FleetStudy


def fleet_review(
    outcome: FleetPlanned | FleetInfeasible | FleetUndecided,
    study: FleetStudy | None = None,
    conflicts: tuple[FleetConflict, ...] = (),
) -> Review:
    """The review of a fleet, whatever came of it."""
    if isinstance(outcome, FleetPlanned):
        return _planned(outcome, study)
    if isinstance(outcome, FleetInfeasible):
        return _infeasible(outcome, conflicts)
    return Review(
        title=outcome.case.name,
        headline=f"undecided: no fleet in {outcome.seconds:.2f} s",
        good=False,
        steps=(),
        tables=(),
        closing=("give it more time with --time-limit",),
        notes=(),
        data=data.undecided(outcome),
    )


def _planned(outcome: FleetPlanned, study: FleetStudy | None) -> Review:
    running = sum(pool.gpus for pool in outcome.pools)
    rented = sum(outcome.rented_gpus.values())
    replicas = sum(pool.replicas for pool in outcome.pools)
    values = data.planned(outcome, study)
    tables = [_pools(outcome), _classes(values)]
    if study is not None and study.worth:
        rows = tuple((row.change, usd(row.usd_saved_per_month)) for row in study.worth)
        tables.append(Table("What a looser limit is worth", ("change", "saved a month"), rows))
    return Review(
        title=f"{outcome.case.name} · {count(len(values['classes']), 'workload')}",
        headline=(
            f"{count(len(outcome.pools), 'pool')}, {count(replicas, 'replica')}, "
            f"{gpus(running, rented)}{_range(values['error_bars'])} · "
            f"{usd(outcome.usd_per_hour)} an hour · "
            f"{usd(values['figures']['usd_per_month'])} a month"
        ),
        good=True,
        steps=(),
        tables=tuple(tables),
        closing=(*_compared(outcome, study), _proof(outcome)),
        notes=(
            *values["assumptions"],
            *outcome.notes,
            *spot_note(pool.of.rental for pool in outcome.pools),
        ),
        data=values,
    )


def _pools(outcome: FleetPlanned) -> Table:
    rows = []
    for number, pool in enumerate(outcome.pools, 1):
        mix = pool.mix
        rows.append(
            (
                str(number),
                _what(pool) + mark(outcome, pool),
                f"{pool.replicas:,}",
                f"{pool.gpus:,}",
                ms(mix.tpot_s * 1000) if mix else "",
                per_cent(pool.utilization_frac),
                ", ".join(f"{name} {significant(rate)}/s" for name, rate in pool.routed.items()),
            )
        )
    columns = ("", "pool", "replicas", "GPUs", "TPOT", "used", "routed")
    return Table("Pools", columns, tuple(rows), text=(0, 1, 6))


def _what(pool: PlannedPool) -> str:
    made = pool.of.configuration
    if made is None:
        size = pool.of.gpus_per_replica
        return f"{pool.of.label} ({pool.of.gpu}{f' × {size}' if size > 1 else ''})"
    times = f" × {made.tensor_parallel}" if made.tensor_parallel > 1 else ""
    return f"{pool.of.model} on {made.gpu.name}{times}, {made.weights}/{made.kv_cache}"


def _classes(values: dict[str, object]) -> Table:
    rows = []
    classes = values["classes"]
    assert isinstance(classes, list)
    for one in classes:
        rows.append(
            (
                one["name"],
                significant(one["requests_per_s"]),
                "" if one["ttft_ms"] is None else ms(one["ttft_ms"]),
                "" if one["tpot_ms"] is None else ms(one["tpot_ms"]) + _around(one["error_bars"]),
                ", ".join(str(i + 1) for i in one["pools"]),
            )
        )
    measured = any(one["error_bars"] for one in classes)
    tpot = "TPOT (8 of 10 measured runs)" if measured else "TPOT"
    return Table("Classes", ("", "req/s", "TTFT", tpot, "in pools"), tuple(rows))


def _around(bars: dict[str, Any] | None) -> str:
    if bars is None:
        return ""
    low, high = bars["tpot_ms"]
    return f" ({low:,.0f} to {high:,.0f})"


def _range(bars: dict[str, Any] | None) -> str:
    if bars is None or bars["gpus"][0] == bars["gpus"][1]:
        return ""
    return f" ({bars['gpus'][0]:,} to {bars['gpus'][1]:,})"


def _compared(outcome: FleetPlanned, study: FleetStudy | None) -> tuple[str, ...]:
    if study is None:
        return ()
    lines = []
    if study.single_gpu_usd is not None:
        saved = study.saved_frac(outcome, study.single_gpu_usd) or 0.0
        lines.append(
            f"mixing saves {per_cent(saved)} against {study.single_gpu} alone "
            f"({usd(study.single_gpu_usd)} an hour)"
        )
    else:
        lines.append("no single GPU type serves all classes")
    if study.per_class_usd is not None:
        saved = study.saved_frac(outcome, study.per_class_usd) or 0.0
        lines.append(
            f"sharing pools saves {per_cent(saved)} against one pool per class "
            f"({usd(study.per_class_usd)} an hour)"
        )
    return tuple(lines)


def _proof(outcome: FleetPlanned) -> str:
    proof = outcome.proof
    cost = usd(proof.objective_usd_per_hour)
    work = f"{proof.solver}, {count(proof.pools, 'pool')} to choose among, {proof.seconds:.2f} s"
    work += f"; {proof.cross_check} agrees" if proof.cross_check else ""
    if outcome.status == "optimal":
        return f"proved cheapest: {cost}/h, bound {cost}/h, gap 0 ({work})"
    bound, gap = usd(proof.bound_usd_per_hour), per_cent(proof.gap_frac)
    return f"not proved cheapest: {cost}/h, bound {bound}/h, gap {gap} ({work})"


def _infeasible(outcome: FleetInfeasible, conflicts: tuple[FleetConflict, ...]) -> Review:
    return Review(
        title=outcome.case.name,
        headline=(
            f"no fleet complies (proved over {count(len(outcome.assembled.pools), 'pool')}, "
            f"{outcome.seconds:.2f} s)"
        ),
        good=False,
        steps=(),
        tables=conflict_tables(outcome.case, conflicts),
        closing=conflict_lines(conflicts),
        notes=(),
        data=data.infeasible(outcome, conflicts),
    )
