"""A fleet's program as a named PuLP problem, for any solver and for export."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pulp

from optimiser.engine.replicas import Ints
from optimiser.planning.fleet.pools import Fleet
from optimiser.planning.fleet.rows import Columns, table


@dataclass(frozen=True, slots=True)
class Names:
    """What pools, classes, rentals, stocks and resources are called."""

    pools: Sequence[str]
    classes: Sequence[str]
    rentals: Sequence[str]
    stocks: Sequence[str]
    resources: Sequence[str]


@dataclass(frozen=True, slots=True)
class NamedProgram:
    """The problem, and how its values read as replicas."""

    fleet: Fleet
    problem: pulp.LpProblem
    replicas: tuple[pulp.LpVariable, ...]

    def replicas_of(self, values: dict[str, float]) -> Ints:
        """Replicas of each pool, less those that a pool without traffic may have been given."""
        return np.array([round(values[v.name]) for v in self.replicas], dtype=np.int64)


def numbered(fleet: Fleet) -> Names:
    """Names by number."""
    return Names(
        pools=[f"p{i}" for i in range(len(fleet.pools))],
        classes=[f"c{i}" for i in range(fleet.n_classes)],
        rentals=[f"r{i}" for i in range(len(fleet.unit_nano_usd))],
        stocks=[f"s{i}" for i in range(len(fleet.stock_most))],
        resources=[f"resource{i}" for i in range(fleet.pools.need.shape[1])],
    )


def named(fleet: Fleet, names: Names, title: str = "fleet") -> NamedProgram:
    """The plain program of a fleet, every variable and row named."""
    rows, columns = table(fleet, totals=False)
    rows.serve_all(columns)
    problem = pulp.LpProblem(_legal(title), pulp.LpMinimize)
    whole = set(columns.whole.tolist())
    variables = []
    for i, name in enumerate(_variable_names(columns, names)):
        high = rows.high[i]
        variables.append(
            problem.add_variable(
                name,
                rows.low[i],
                None if math.isinf(high) else high,
                cat=pulp.LpInteger if i in whole else pulp.LpContinuous,
            )
        )
    costs = [(v, c) for v, c in zip(variables, rows.cost, strict=True) if c]
    problem.setObjective(pulp.LpAffineExpression(costs))
    for r, label in enumerate(rows.labels):
        span = slice(rows.starts[r], rows.starts[r + 1])
        terms = list(zip((variables[i] for i in rows.index[span]), rows.value[span], strict=True))
        low, high = rows.row_low[r], rows.row_high[r]
        sense, right = pulp.LpConstraintLE, high
        if low == high:
            sense = pulp.LpConstraintEQ
        elif math.isinf(high):
            sense, right = pulp.LpConstraintGE, low
        expression = pulp.LpAffineExpression(terms)
        name = _row_name(label, names)
        problem.addConstraint(pulp.LpConstraint(expression, sense, name, right))
    return NamedProgram(fleet, problem, tuple(variables[i] for i in columns.replicas))


def _variable_names(columns: Columns, names: Names) -> list[str]:
    found = [f"replicas_{_legal(p)}" for p in names.pools]
    found += [f"rented_{_legal(r)}" for r in names.rentals]
    found += [f"short_{_legal(c)}" for c in names.classes]
    if len(columns.open):
        found += [f"open_{_legal(p)}" for p in names.pools]
    found += [
        f"share_{_legal(names.classes[w])}_{_legal(names.pools[p])}"
        for p, w in zip(columns.pair_pool, columns.pair_class, strict=True)
    ]
    return found


def _row_name(label: tuple[str, int, int], names: Names) -> str:
    kind, at, second = label
    if kind == "demand":
        return f"demand_{_legal(names.classes[at])}"
    if kind == "need":
        return f"{_legal(names.resources[second])}_{_legal(names.pools[at])}"
    if kind in ("link", "open"):
        return f"{kind}_{_legal(names.classes[second])}_{_legal(names.pools[at])}"
    if kind == "idle":
        return f"idle_{_legal(names.pools[at])}"
    if kind == "rented":
        return f"rented_{_legal(names.rentals[at])}"
    if kind == "stock":
        return f"stock_{_legal(names.stocks[at])}"
    return f"limit_{kind}"


def _legal(name: str) -> str:
    """A name that every LP reader takes."""
    return re.sub(r"[^A-Za-z0-9_.]+", "_", name)
