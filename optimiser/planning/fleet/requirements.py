"""The requirements of a fleet's case, and the fleets of that case with some of them changed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from optimiser.fleet_case import FleetCase
from optimiser.fleet_sections import Workload
from optimiser.planning.fleet.assemble import assemble
from optimiser.planning.fleet.assembled import Assembled
from optimiser.planning.fleet.pools import Fleet
from optimiser.units import s_of_ms

LIMITS = ("most_gpus", "usd_per_hour", "least_replicas", "survive", "most_pools", "most_spot_frac")
TARGETS = ("ttft_target_s", "tpot_target_ms")
FURTHEST = {"ttft_target_s": 1e6, "tpot_target_ms": 1e9}
"""As good as no target."""
LEAST_TRAFFIC = 1e-6
"""Of what is asked: as good as none, and not so little that a solver would take it for none."""

Changes = Mapping[str, float | None]
"""Fields and their new values; None takes the requirement away."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A field of the case that can be relaxed."""

    field: str
    asked: float
    workload: int | None = None
    """The class that it is of."""

    @property
    def name(self) -> str:
        """The field without the sections above it."""
        return self.field.split(".", 2)[-1] if self.is_stock else self.field.rsplit(".", 1)[-1]

    @property
    def is_stock(self) -> bool:
        """Whether it says how many GPUs of a type there are."""
        return self.field.startswith("hardware.stock.")

    @property
    def is_whole(self) -> bool:
        """Whether it is a count."""
        return self.workload is None and self.name not in ("usd_per_hour", "most_spot_frac")

    @property
    def is_traffic(self) -> bool:
        """Whether it says how much traffic a class has."""
        return self.workload is not None and self.name not in TARGETS


def requirements(case: FleetCase) -> Iterator[Requirement]:
    """Those of a case, in the order of deletion: limits, stock, TTFT, TPOT, traffic."""
    for name in LIMITS:
        value = getattr(case.limits, name)
        if value is not None and (name != "survive" or value):
            yield Requirement(f"limits.{name}", float(value))
    for gpu, count in (case.hardware.stock or {}).items():
        yield Requirement(f"hardware.stock.{gpu}", float(count))
    for name in TARGETS if case.measured is None else ():
        for w, workload in enumerate(case.classes):
            yield Requirement(field_of(case, w, name), float(getattr(workload, name)), w)
    for w, workload in enumerate(case.classes):
        name = workload.traffic_field
        yield Requirement(field_of(case, w, name), float(getattr(workload, name)), w)


def field_of(case: FleetCase, workload: int, name: str) -> str:
    """The dotted name of a field of a class."""
    return f"brief.{name}" if case.brief is not None else f"workloads.{workload}.{name}"


@dataclass(slots=True)
class Changed:
    """The fleets of a case with some of its requirements changed."""

    assembled: Assembled
    """Of the case as it is."""
    without: frozenset[int] = frozenset()
    """Classes that are left out."""
    _made: dict[tuple[tuple[int, str, float | None], ...], Assembled] = field(default_factory=dict)

    @property
    def case(self) -> FleetCase:
        """The case as it is."""
        return self.assembled.case

    def fleet(self, changes: Changes) -> tuple[Fleet, float | None]:
        """The fleet to look for, and the most dollars per hour that it may cost."""
        asked = {one.field: one for one in requirements(self.case)}
        targets = tuple(
            sorted(
                (one.workload, one.name, changes[one.field])
                for one in asked.values()
                if one.field in changes and one.workload is not None and not one.is_traffic
            )
        )
        if targets not in self._made:
            self._made[targets] = self._with_targets(targets)
        made = self._made[targets]
        fleet = self._limited(made, changes)
        times = np.ones(fleet.n_classes)
        for one in asked.values():
            if one.is_traffic and one.workload is not None and one.field in changes:
                value = changes[one.field]
                times[one.workload] = LEAST_TRAFFIC if value is None else value / one.asked
        fleet = _scaled(fleet, times)
        kept = [w for w in range(fleet.n_classes) if w not in self.without]
        budget = changes.get("limits.usd_per_hour", self.case.limits.usd_per_hour)
        return _of_classes(fleet, kept), budget

    def _limited(self, made: Assembled, changes: Changes) -> Fleet:
        fleet, limits = made.fleet, self.case.limits
        most, kept = fleet.stock_most.copy(), []
        for row, name in enumerate(made.names.stocks):
            value = changes.get(name, most[row])
            if value is not None:
                kept.append(row)
                most[row] = value

        def limit(name: str) -> float | None:
            value: float | None = changes.get(f"limits.{name}", getattr(limits, name))
            return value

        pools = limit("most_pools")
        return replace(
            fleet,
            stock_use=fleet.stock_use[kept],
            stock_most=most[kept],
            most_pools=None if pools is None else int(pools),
            spare=int(limit("survive") or 0),
            least_replicas=int(limit("least_replicas") or 0),
            most_spot_frac=limit("most_spot_frac"),
        )

    def _with_targets(self, targets: tuple[tuple[int, str, float | None], ...]) -> Assembled:
        """The pools where some classes have other targets.

        A class that loses its TPOT target stands beside itself as it was while the pools are
        chosen, so that none is lost to the others: then dropping a requirement never costs a fleet.
        """
        if not targets:
            return self.assembled
        classes, before = list(self.case.classes), list[Workload]()
        for w, name, value in targets:
            if value is None and name == "tpot_target_ms" and len(classes) > 1:
                before.append(classes[w].changed(name=f"{classes[w].name} as asked"))
            classes[w] = classes[w].changed(**{name: FURTHEST[name] if value is None else value})
        n_classes = len(classes)
        made = assemble(self.case.changed(brief=None, workloads=(*classes, *before)))
        fleet = _of_classes(made.fleet, list(range(n_classes)))
        # a step of that target itself is of use to nobody
        useful = fleet.pools.able.any(axis=1)
        useful &= fleet.pools.step < s_of_ms(FURTHEST["tpot_target_ms"])
        names = replace(made.names, classes=made.names.classes[:n_classes])
        made = replace(made, fleet=fleet, rates=made.rates[:n_classes], names=names)
        return made.only(np.flatnonzero(useful))


def _scaled(fleet: Fleet, times: np.ndarray) -> Fleet:
    """The fleet with so many times the traffic of each class."""
    pools = replace(fleet.pools, need=fleet.pools.need * times)
    return replace(fleet, pools=pools, demand=fleet.demand * times)


def _of_classes(fleet: Fleet, kept: list[int]) -> Fleet:
    pools = replace(fleet.pools, need=fleet.pools.need[:, :, kept], able=fleet.pools.able[:, kept])
    return replace(fleet, pools=pools, demand=fleet.demand[kept])
