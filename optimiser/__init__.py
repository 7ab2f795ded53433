"""The cheapest compliant design to serve an LLM, proved cheapest and verified."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimiser.case import Case
    from optimiser.planning.planner import Infeasible, Planned, Undecided, plan

__version__ = "0.1.0"
__all__ = ["Case", "Infeasible", "Planned", "Undecided", "plan"]

_HOMES = {
    "Case": "optimiser.case",
    "Infeasible": "optimiser.planning.planner",
    "Planned": "optimiser.planning.planner",
    "Undecided": "optimiser.planning.planner",
    "plan": "optimiser.planning.planner",
}


def __getattr__(name: str) -> Any:
    """Import the public names when they are first used, so that the command line starts fast."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
