"""The review of a batch."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from optimiser.review.numbers import count, per_cent, usd
from optimiser.review.review import Review, Table
from optimiser.studies.batch_summary import Summary

MOST_FAULTS_SHOWN = 10
MOST_TALLIES_SHOWN = 20


def batch_review(found: Summary, output: Path, n_rows: int) -> Review:
    """How many cases ended how, what they cost in all, and what saves most."""
    ends = [count(found.planned, "plan")]
    ends += [f"{found.infeasible:,} infeasible"] if found.infeasible else []
    ends += [f"{found.undecided:,} undecided"] if found.undecided else []
    ends += [count(found.errors, "error")] if found.errors else []
    return Review(
        title=f"{count(found.cases, 'case')}: {', '.join(ends)}",
        headline=f"{usd(found.usd_per_month)} a month in all, {count(found.rented_gpus, 'GPU')}",
        good=not found.errors,
        steps=(),
        tables=tuple(_tables(found)),
        closing=tuple(filter(None, [_best(found), f"{count(n_rows, 'row')} in {output}"])),
        notes=(),
        data=_data(found, output, n_rows),
    )


def _tables(found: Summary) -> list[Table]:
    tables = []
    if found.tallies:
        what = _noun(found)
        rows = [
            (
                tally.name,
                f"{tally.wins:,}",
                f"{tally.helps:,}",
                f"{tally.gpus_saved:,}",
                usd(tally.usd_saved_per_month) if tally.usd_saved_per_month else "$0",
            )
            for tally in found.tallies[:MOST_TALLIES_SHOWN]
        ]
        title = f"Each {what} alone, over all cases it helps"
        columns = (what, "best in", "helps in", "GPUs saved", "$/month saved")
        tables.append(Table(title, columns, tuple(rows)))
    if found.faults:
        shown = found.faults[:MOST_FAULTS_SHOWN]
        more = f", the first {len(shown)}" if len(found.faults) > len(shown) else ""
        title = f"{count(found.errors, 'error')}{more}"
        tables.append(Table(title, ("case", "error"), tuple(shown), text=(0, 1)))
    return tables


def _best(found: Summary) -> str:
    if not found.tallies or not found.tallies[0].usd_saved_per_month:
        return ""
    first, what = found.tallies[0], _noun(found)
    all_of_them = usd(found.usd_saved_per_month)
    saved = per_cent(found.usd_saved_per_month / found.usd_per_month)
    return (
        f"{first.name} saves most: {usd(first.usd_saved_per_month)} a month; "
        f"the best {what} of each case saves {all_of_them} a month in all ({saved})"
    )


def _noun(found: Summary) -> str:
    return "alternative" if found.kind == "compare" else "lever"


def _data(found: Summary, output: Path, n_rows: int) -> dict[str, Any]:
    return {
        "job": found.kind,
        "output": str(output),
        "rows": n_rows,
        "cases": found.cases,
        "planned": found.planned,
        "infeasible": found.infeasible,
        "undecided": found.undecided,
        "errors": [{"source": source, "error": error} for source, error in found.faults],
        "rented_gpus": found.rented_gpus,
        "usd_per_month": found.usd_per_month,
        "usd_saved_per_month": found.usd_saved_per_month,
        "levers" if found.kind != "compare" else "alternatives": [
            asdict(tally) for tally in found.tallies
        ],
    }
