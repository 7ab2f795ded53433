"""From a case to its fleet: every configuration and step time that some class may use."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from optimiser.case import Case
from optimiser.errors import CaseError, Mistake
from optimiser.fleet_case import FleetCase
from optimiser.planning.design import Configuration
from optimiser.planning.fleet.assembled import Assembled, PoolOf
from optimiser.planning.fleet.fidelity import pools_worth_considering, resources_of
from optimiser.planning.fleet.measured import assemble_measured
from optimiser.planning.fleet.names import Names
from optimiser.planning.fleet.offered import offered_of
from optimiser.planning.fleet.pools import Fleet, Pools
from optimiser.planning.fleet.rented import Rented, choices
from optimiser.planning.fleet.shares import binding
from optimiser.planning.legal import why_illegal
from optimiser.planning.margin import is_measured
from optimiser.planning.rental import ways_to_rent
from optimiser.units import TOLERANCE, ms

Key = tuple[str, int, str, int, str]
"""GPU, tensor parallel, weights, KV heads, cache format."""


def assemble(case: FleetCase) -> Assembled:
    """The fleet of a case. Raises CaseError where no combination is legal."""
    if case.measured is not None:
        return assemble_measured(case)
    cases = tuple(case.case_of(workload) for workload in case.classes)
    lengths = tuple(map(case.rows_of, case.classes, cases))
    excluded: dict[tuple[str, str], None] = {}
    rented, pools = Rented(), list[PoolOf]()
    rows: list[tuple[np.ndarray, np.ndarray, int, float, int, float]] = []
    any_legal = False
    models = dict.fromkeys(one.model.name for one in cases)
    for model in models:
        members = [w for w, one in enumerate(cases) if one.model.name == model]
        any_legal |= _add_model(
            case,
            [(cases[w], lengths[w]) for w in members],
            members,
            len(cases),
            rented,
            pools,
            rows,
            excluded,
        )
    if not any_legal:
        told = "; ".join(f"{what}: {why}" for what, why in excluded)
        raise CaseError([Mistake(case.where("levers"), "levers", f"nothing is legal ({told})")])
    use, most, stocks = rented.stocks(case)
    n_classes = len(cases)
    need, resources = np.zeros((0, 1, n_classes)), resources_of(is_measured(cases[0]))
    able = np.zeros((0, n_classes), dtype=bool)
    if rows:
        need = np.stack([row[0] for row in rows])
        kept = binding(need)
        need, resources = need[:, kept], [resources[r] for r in kept]
        able = np.stack([row[1] for row in rows])
    if len(cases) == 1 and len(lengths[0]) == 1:
        need = need * (1 - TOLERANCE)
    fleet = Fleet(
        pools=Pools(
            need=need,
            able=able,
            configuration=np.array([row[2] for row in rows], dtype=np.int64),
            step=np.array([row[3] for row in rows], dtype=float),
            rental=np.array([row[4] for row in rows], dtype=np.int64),
            units=np.array([row[5] for row in rows], dtype=float),
        ),
        unit_nano_usd=rented.unit_nano_usd,
        stock_use=use,
        stock_most=most,
        demand=np.array([one.brief.rate for one in cases]),
        spot=np.array(rented.spot, dtype=bool),
        most_spot_frac=case.limits.most_spot_frac,
        most_pools=case.limits.most_pools,
        spare=case.limits.survive,
        slices=case.slices if case.routing == "whole" else None,
        least_replicas=case.limits.least_replicas or 0,
    )
    names = Names(
        pools=[f"{i}_{pool.label}" for i, pool in enumerate(pools)],
        classes=[workload.name for workload in case.classes],
        rentals=rented.names,
        stocks=stocks,
        resources=resources,
    )
    rates = np.array([one.brief.rate for one in cases])
    return Assembled(
        case, fleet, tuple(pools), cases, rates, rented.unit_gpus, names, tuple(excluded), lengths
    )


def _add_model(
    case: FleetCase,
    classes: Sequence[tuple[Case, tuple[tuple[Case, float], ...]]],
    members: Sequence[int],
    n_classes: int,
    rented: Rented,
    pools: list[PoolOf],
    rows: list[tuple[np.ndarray, np.ndarray, int, float, int, float]],
    excluded: dict[tuple[str, str], None],
) -> bool:
    """The pools of one model, for the classes that ask for it; whether any may be built."""
    cases = [one for one, _ in classes]
    accepted = [_legal(one, excluded) for one in cases]
    keys = list(dict.fromkeys(key for found in accepted for key in found))
    if not keys:
        return False
    chosen = [_configuration(case, key) for key in keys]
    offered = [
        offered_of(one, rows_of, chosen, np.array([key in mine for key in keys]))
        for (one, rows_of), mine in zip(classes, accepted, strict=True)
    ]
    alone = n_classes == 1 and len(classes[0][1]) == 1
    most = np.full(len(keys), max(one.levers.batch.most for one in cases), dtype=np.int64)
    grid, need, able = pools_worth_considering(offered, most, alone)
    first = max((row[2] for row in rows), default=-1) + 1
    model = cases[0].model.name
    for p in np.flatnonzero(able.any(axis=1)):
        made, step_s = chosen[grid.configuration[p]], float(grid.step_s[p])
        promise_s = None if grid.promise_s is None else float(grid.promise_s[p])
        every_need = np.zeros((need.shape[1], n_classes))
        every_able = np.zeros(n_classes, dtype=bool)
        every_need[:, list(members)], every_able[list(members)] = need[p], able[p]
        for rental in choices(case, made.gpu, made.tensor_parallel):
            place, units = rented.of(made.gpu.name, rental, made.tensor_parallel)
            told = f"{model}_{made.gpu.name}_tp{made.tensor_parallel}_{made.weights}"
            label = f"{told}_{made.kv_cache}_{ms(step_s):.3g}ms"
            if promise_s is not None:
                label += f"_for_{ms(promise_s):.3g}ms"
            pools.append(
                PoolOf(
                    label,
                    made.gpu.name,
                    made.tensor_parallel,
                    rental,
                    model,
                    replace(made, rental=rental),
                    step_s,
                    int(grid.most_batch[p]),
                    promise_s,
                )
            )
            kind = first + int(grid.configuration[p])
            rows.append((every_need, every_able, kind, step_s, place, units))
    return True


def _legal(one: Case, excluded: dict[tuple[str, str], None]) -> dict[Key, None]:
    """The configurations that a class accepts and that can be built."""
    found: dict[Key, None] = {}
    for gpu, size in product(one.hardware.gpus, one.levers.tensor_parallel):
        node = max(rental.node for rental in ways_to_rent(one.hardware, gpu, one.offers(gpu)))
        for weights, heads in product(one.weights, one.kv_heads):
            reason = why_illegal(one.model, weights, heads, size, node)
            if reason:
                excluded[f"{one.model.name}, tensor parallel {size} on {gpu.name}", reason] = None
                continue
            for cache in one.levers.kv_cache:
                found[gpu.name, size, weights, heads, cache] = None
    return found


def _configuration(case: FleetCase, key: Key) -> Configuration:
    name, size, weights, heads, cache = key
    gpu = next(one for one in case.hardware.gpus if one.name == name)
    rental = ways_to_rent(case.hardware, gpu, case.offers(gpu))[0]
    return Configuration(weights, cache, heads, gpu, size, rental)
