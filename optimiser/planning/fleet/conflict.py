"""Requirements of a fleet that cannot all be met."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FleetNearest:
    """One requirement, and the nearest value that would work, all else kept."""

    requirement: str
    asked: float
    works_at: float | None
    """None where no value is known to help."""
    is_proved: bool = True
    """Whether no nearer value works, or none at all where it is None."""
    workload: str | None = None
    """The class that the requirement is of."""


@dataclass(frozen=True, slots=True)
class FleetConflict:
    """A set of requirements that cannot all be met."""

    requirements: tuple[str, ...]
    nearest: tuple[FleetNearest, ...]
    is_minimal: bool = True
    """Whether it is proved that without any one of them the others can be met."""
    all_traffic_frac: float | None = None
    """Share of the traffic of all classes together that can be served, all else kept."""
