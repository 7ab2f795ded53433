"""A program of whole numbers: named variables, rows that quote the case, and what is paid for.

    minimise     Σ price[o] · units[o]                      o: a way to rent a GPU type
    instances_o  units[o] ≥ Σ units a replica[p] · replicas[p]
    stock_l      Σ use[l, o] · units[o] ≤ most[l]

What the traffic asks of the replicas comes from the two kinds of program: `OnePool` for one
workload in one pool, `SharedPools` for any number of workloads that share any number of pools.
Both start with few rows and get more from the engine, as `cut_loop.py` asks it about each
solution; all coefficients are whole, so that no solver rounds anything.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

import pulp

from optimiser.units import usd

Answer = TypeVar("Answer")
Terms = Iterable[tuple[pulp.LpVariable, int]]


@dataclass(frozen=True, slots=True)
class Rented:
    """Replicas that are paid for in the same units."""

    label: str
    unit_nano_usd: int
    holds: tuple[tuple[pulp.LpVariable, Fraction], ...]
    """Replicas, and the units that each takes: 2 GPUs, or a quarter of an instance."""
    most: int
    """Most units that any answer could need."""


class Program(ABC, Generic[Answer]):
    """A named PuLP problem, and how a solver's values read as an answer."""

    def __init__(self, name: str) -> None:
        """An empty program."""
        self.problem = pulp.LpProblem(legal_name(name), pulp.LpMinimize)
        self.quotes: dict[str, str] = {}
        """Row name to the field of the case that it stands for."""
        self.paid: list[tuple[pulp.LpVariable, int]] = []
        """Units, and what one costs an hour in nano-dollars."""

    @abstractmethod
    def answer(self, values: dict[str, int]) -> Answer:
        """What the variables' values stand for."""

    @abstractmethod
    def agreed(self, answer: Answer) -> Answer | None:
        """The answer, or one like it that costs no more, if the engine finds it sufficient."""

    @abstractmethod
    def repaired(self, answer: Answer) -> Answer | None:
        """The answer with the replicas that the engine asks for, if the limits allow them."""

    @abstractmethod
    def cut_off(self, answer: Answer) -> bool:
        """Add rows that exclude an answer that falls short; False where none would be new."""

    @abstractmethod
    def cost_nano_usd(self, answer: Answer) -> int:
        """What an answer costs an hour."""

    def variable(self, name: str, low: int, high: int) -> pulp.LpVariable:
        """Add a whole variable."""
        return self.problem.add_variable(name, low, high, cat=pulp.LpInteger)

    def rent(self, rented: Sequence[Rented]) -> list[pulp.LpVariable]:
        """Pay for replicas: the units of each rental, and the cost as objective.

        Where each replica is one unit and no other replicas share it, they are the units.
        """
        found = []
        for one in rented:
            units = self._units(one)
            found.append(units)
            self.paid.append((units, one.unit_nano_usd))
        self.minimise(self.cost_terms())
        return found

    def _units(self, one: Rented) -> pulp.LpVariable:
        if len(one.holds) == 1 and one.holds[0][1] == 1:
            return one.holds[0][0]
        units = self.variable(f"instances_{one.label}", 0, one.most)
        whole = math.lcm(*(taken.denominator for _, taken in one.holds))
        terms = [(units, whole), *((n, -int(taken * whole)) for n, taken in one.holds)]
        self.row(f"instances_{one.label}", terms, pulp.LpConstraintGE, 0)
        return units

    def limit_stock(
        self, name: str, units: Sequence[pulp.LpVariable], use: Sequence[int], most: int, quote: str
    ) -> None:
        """Rented units draw on a stock: of a GPU type, or of all GPUs that a case allows."""
        terms = zip(units, use, strict=True)
        self.row(name, terms, pulp.LpConstraintLE, most, quote)

    def limit_cost(self, name: str, most_nano_usd: int, quote: str = "") -> None:
        """Cost at most so many nano-dollars, in the largest whole unit that all prices share."""
        step = math.gcd(*(price for _, price in self.paid))
        terms = [(units, price // step) for units, price in self.paid]
        self.row(name, terms, pulp.LpConstraintLE, most_nano_usd // step, quote)

    def cost_terms(self) -> list[tuple[pulp.LpVariable, float]]:
        """The cost, dollars per hour."""
        return [(units, usd(price)) for units, price in self.paid]

    def minimise(self, terms: Iterable[tuple[pulp.LpVariable, float]]) -> None:
        """Replace the objective."""
        self.problem.setObjective(pulp.LpAffineExpression(list(terms)))

    def hold(self, name: str, terms: Iterable[tuple[pulp.LpVariable, float]], value: int) -> None:
        """Hold an objective that has been minimised to its value."""
        whole = [(variable, int(coefficient)) for variable, coefficient in terms]
        self.row(f"settled_{legal_name(name)}", whole, pulp.LpConstraintLE, value)

    def row(self, name: str, terms: Terms, sense: int, right: int, quote: str = "") -> None:
        """Add a row of whole coefficients; `quote` is the case's field that it stands for."""
        expression = pulp.LpAffineExpression([(v, c) for v, c in terms if c])
        self.problem.addConstraint(pulp.LpConstraint(expression, sense, name, right))
        if quote:
            self.quotes[name] = quote


def legal_name(name: str) -> str:
    """A name that every LP reader takes."""
    return re.sub(r"[^A-Za-z0-9_.]+", "_", name)


def legal_names(names: Iterable[str]) -> list[str]:
    """The same, where names that differ only in what LP readers refuse stay apart."""
    found: list[str] = []
    for name in map(legal_name, names):
        found.append(name if name not in found else f"{name}_{len(found)}")
    return found
