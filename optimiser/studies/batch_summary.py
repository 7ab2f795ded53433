"""A whole batch in a few figures, and as flat rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from optimiser.studies.batch_inputs import CaseInput
from optimiser.studies.batch_work import FIGURES, Kind

Answer = dict[str, Any]

WORDS = ("model", "gpu", "weights", "kv_cache", "offer", "term")
COUNTS = ("gpus", "rented_gpus", "replicas", "tensor_parallel", "batch", "kv_heads")
DESIGN = (
    *("model", "gpu", "gpus", "rented_gpus", "replicas", "tensor_parallel", "batch"),
    *("weights", "kv_cache", "kv_heads", "offer", "term"),
)
COLUMNS: dict[str, type] = {
    **dict.fromkeys(("case", "source", "status", "error"), str),
    **{name: int if name in COUNTS else str for name in DESIGN},
    **{name: str if name == "bottleneck" else float for name in FIGURES},
    **dict.fromkeys(("conflict", "nearest"), str),
}
"""The columns that every job has, and what they hold."""
LEVER_COLUMNS: dict[str, type] = {
    "lever": str,
    "lever_rented_gpus": int,
    "lever_usd_per_month": float,
    "gpus_saved": int,
    "usd_saved_per_month": float,
}
COMPARE_COLUMNS: dict[str, type] = {
    "winner": str,
    "winner_rented_gpus": int,
    "winner_usd_per_month": float,
    "gpus_saved": int,
    "usd_saved_per_month": float,
}


def columns(kind: Kind) -> dict[str, type]:
    """The columns of a job's rows, and what they hold; `compare` adds one an alternative."""
    more = {"levers": LEVER_COLUMNS, "compare": COMPARE_COLUMNS, "plan": {}}
    return COLUMNS | more[kind]


def rows(
    items: Sequence[CaseInput], answers: Sequence[Answer], kind: Kind, all_levers: bool = False
) -> Iterator[dict[str, Any]]:
    """A row for each case in order, or one for each of its levers."""
    empty = dict.fromkeys(columns(kind))
    for item, answer in zip(items, answers, strict=True):
        row = {**empty, **answer["row"], "source": item.source}
        if kind == "plan":
            yield row
        elif kind == "compare":
            prices = {
                f"usd_per_month[{option['name']}]": option.get("usd_per_month")
                for option in sorted(answer["options"], key=lambda option: str(option["name"]))
            }
            yield row | _option(best(answer, kind), "winner") | prices
        else:
            options = answer["options"] or [None]
            for option in options if all_levers else options[:1]:
                yield row | _option(option, "lever")


def best(answer: Answer, kind: Kind) -> dict[str, Any] | None:
    """The best lever; or the cheapest of the alternatives and the case itself."""
    options: list[dict[str, Any]] = answer["options"]
    if kind == "levers":
        return options[0] if options else None
    row = answer["row"]
    itself = {
        "name": row["case"],
        "rented_gpus": row.get("rented_gpus"),
        "usd_per_month": row.get("usd_per_month"),
        "gpus_saved": 0,
        "usd_saved_per_month": 0.0,
    }
    priced = [one for one in (itself, *options) if one.get("usd_per_month") is not None]
    return min(priced, key=lambda one: float(one["usd_per_month"])) if priced else None


def _option(option: dict[str, Any] | None, prefix: str) -> dict[str, Any]:
    if option is None:
        return {}
    return {
        prefix: option["name"],
        f"{prefix}_rented_gpus": option["rented_gpus"],
        f"{prefix}_usd_per_month": option["usd_per_month"],
        "gpus_saved": option["gpus_saved"],
        "usd_saved_per_month": option["usd_saved_per_month"],
    }


@dataclass(slots=True)
class Tally:
    """What one lever or alternative does over all cases."""

    name: str
    wins: int = 0
    """Cases in which it is the best."""
    helps: int = 0
    """Cases in which it saves anything."""
    gpus_saved: int = 0
    """Pulled alone in each of the cases that it helps."""
    usd_saved_per_month: float = 0.0
    """The same, in dollars."""


@dataclass(slots=True)
class Summary:
    """A batch in a few figures."""

    kind: Kind
    cases: int = 0
    planned: int = 0
    infeasible: int = 0
    undecided: int = 0
    errors: int = 0
    rented_gpus: int = 0
    usd_per_month: float = 0.0
    """Of all designs together."""
    usd_saved_per_month: float = 0.0
    """With the best lever or alternative of each case."""
    tallies: list[Tally] = field(default_factory=list)
    """The one that saves most first."""
    faults: list[tuple[str, str]] = field(default_factory=list)
    """Source and message of each error."""


def summarise(items: Sequence[CaseInput], answers: Sequence[Answer], kind: Kind) -> Summary:
    """The figures of a batch."""
    found = Summary(kind, cases=len(answers))
    tallies: dict[str, Tally] = {}
    for item, answer in zip(items, answers, strict=True):
        row = answer["row"]
        if row["status"] == "error":
            found.errors += 1
            found.faults.append((item.source, row["error"]))
            continue
        if "usd_per_month" in row:
            found.planned += 1
            found.rented_gpus += row["rented_gpus"]
            found.usd_per_month += row["usd_per_month"]
        found.infeasible += row["status"] == "infeasible"
        found.undecided += row["status"] == "undecided"
        if kind == "plan":
            continue
        for option in answer["options"]:
            tally = tallies.setdefault(option["name"], Tally(option["name"]))
            saved = option.get("usd_saved_per_month") or 0.0
            if saved > 0:
                tally.helps += 1
                tally.gpus_saved += option["gpus_saved"]
                tally.usd_saved_per_month += saved
        winner = best(answer, kind)
        if winner is not None and winner["name"] in tallies:
            tallies[winner["name"]].wins += 1
            found.usd_saved_per_month += winner["usd_saved_per_month"] or 0.0
    found.tallies = sorted(
        tallies.values(), key=lambda one: (-one.usd_saved_per_month, -one.wins, one.name)
    )
    return found
