"""A fleet from a table of measured rates, in place of the engine."""

import csv
from dataclasses import dataclass

import numpy as np

from optimiser.errors import CaseError, Mistake
from optimiser.fleet_case import FleetCase
from optimiser.planning.fleet.assembled import Assembled, PoolOf
from optimiser.planning.fleet.names import Names
from optimiser.planning.fleet.pools import Fleet, Pools
from optimiser.planning.fleet.rented import Rented, choices
from optimiser.planning.rental import Rental
from optimiser.units import TOLERANCE

COLUMNS = ("pool", "gpu", "gpus_per_replica", "workload", "requests_per_s")


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement: what one replica of a pool sustains of a workload."""

    pool: str
    gpu: str
    gpus_per_replica: int
    workload: str
    requests_per_s: float


def read_table(case: FleetCase) -> list[Row]:
    """The rows of the case's table. Raises CaseError with every mistake at once."""
    path = case.path(case.measured or "")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            lines = list(reader)
    except (OSError, UnicodeDecodeError) as error:
        message = f"cannot read {path}: {error}"
        raise CaseError([Mistake(case.where("measured"), "measured", message)]) from error
    if missing:
        message = f"missing columns {', '.join(missing)}; expected {', '.join(COLUMNS)}"
        raise CaseError([Mistake(f"{path}:1", "", message)])
    rows, mistakes = [], []
    gpus = [gpu.name for gpu in case.hardware.gpus]
    classes = [workload.name for workload in case.classes]
    for number, line in enumerate(lines, 2):
        text = {name: (line[name] or "").strip() for name in COLUMNS}
        where = f"{path}:{number}"
        for column, known in (("gpu", gpus), ("workload", classes)):
            if text[column] not in known:
                message = f"found {text[column]!r}, expected one of {', '.join(known)}"
                mistakes.append(Mistake(where, column, message))
        try:
            size, rate = int(text["gpus_per_replica"]), float(text["requests_per_s"])
        except ValueError:
            size, rate = 0, -1.0
        if size < 1 or not 0 <= rate < 1e12:
            found = f"{text['gpus_per_replica']!r} and {text['requests_per_s']!r}"
            message = f"found {found}, expected a count of GPUs and requests per second"
            mistakes.append(Mistake(where, "gpus_per_replica, requests_per_s", message))
            continue
        rows.append(Row(text["pool"], text["gpu"], size, text["workload"], rate))
    mistakes += _contradictions(rows, str(path))
    if mistakes:
        raise CaseError(mistakes)
    return rows


def _contradictions(rows: list[Row], path: str) -> list[Mistake]:
    found, seen = [], set()
    made = {row.pool: (row.gpu, row.gpus_per_replica) for row in rows}
    for row in rows:
        if made[row.pool] != (row.gpu, row.gpus_per_replica):
            found.append(Mistake(path, "pool", f"{row.pool!r} has two GPU types or sizes"))
        if (row.pool, row.workload) in seen:
            found.append(Mistake(path, "pool", f"{row.pool!r} has two rows of {row.workload!r}"))
        seen.add((row.pool, row.workload))
    return list(dict.fromkeys(found))


def assemble_measured(case: FleetCase) -> Assembled:
    """The fleet of a case's table. Raises CaseError."""
    rows = read_table(case)
    classes = [workload.name for workload in case.classes]
    rates = np.array([_rate(case, i) for i in range(len(classes))])
    demand = rates * case.assumptions.headroom
    rented, pools, of_pool, units = Rented(), list[PoolOf](), list[int](), list[float]()
    index: list[int] = []
    kinds = {row.pool: (row.gpu, row.gpus_per_replica) for row in rows if row.requests_per_s > 0}
    for k, (name, (gpu, size)) in enumerate(kinds.items()):
        for choice in _choices(case, gpu, size):
            place, taken = rented.of(gpu, choice, size)
            pools.append(PoolOf(name, gpu, size, choice))
            of_pool.append(place)
            units.append(taken)
            index.append(k)
    rate_of = {(row.pool, row.workload): row.requests_per_s for row in rows}
    need = np.zeros((len(pools), 1, len(classes)))
    for p, pool in enumerate(pools):
        for w, name in enumerate(classes):
            rate = rate_of.get((pool.label, name), 0.0)
            if rate > 0:
                need[p, 0, w] = demand[w] / rate * (1 - TOLERANCE)
    use, most, stocks = rented.stocks(case)
    fleet = Fleet(
        pools=Pools(
            need,
            need[:, 0] > 0,
            np.array(index, dtype=np.int64),
            np.zeros(len(pools)),
            np.array(of_pool, dtype=np.int64),
            np.array(units),
        ),
        unit_nano_usd=rented.unit_nano_usd,
        stock_use=use,
        stock_most=most,
        demand=rates,
        spot=np.array(rented.spot, dtype=bool),
        most_spot_frac=case.limits.most_spot_frac,
        most_pools=case.limits.most_pools,
        spare=case.limits.survive,
        slices=case.slices if case.routing == "whole" else None,
        least_replicas=case.limits.least_replicas or 0,
    )
    labels = [f"{i}_{pool.label}" for i, pool in enumerate(pools)]
    names = Names(labels, classes, rented.names, stocks, ["capacity"])
    return Assembled(case, fleet, tuple(pools), (), rates, rented.unit_gpus, names)


def _choices(case: FleetCase, gpu: str, size: int) -> tuple[Rental, ...]:
    known = next(one for one in case.hardware.gpus if one.name == gpu)
    return choices(case, known, size)


def _rate(case: FleetCase, i: int) -> float:
    workload = case.classes[i]
    if workload.requests_per_s is not None:
        return workload.requests_per_s
    field = f"workloads.{i}.concurrent_users"
    message = "measured rates need requests_per_s"
    raise CaseError([Mistake(case.where(field), field, message)])
