"""Programs and cases as files: for anyone's solver, and for a fault report."""

from pathlib import Path
from typing import Any, Protocol

import yaml

from optimiser.case import Case
from optimiser.files import replacing, write
from optimiser.planning.program import Program

WHOLE_NAMES = ("limit", "stock")
"""Rows that are no family: each stands for a field of its own."""


class Cited(Protocol):
    """A case whose fields are rows of a program."""

    @property
    def name(self) -> str:
        """Of the case."""

    def where(self, field: str) -> str:
        """`file:line` of a field."""


def save_program(program: Program[Any], case: Cited, path: Path, note: str = "") -> None:
    """Write the cost program, all cuts included, in LP format with a note on its rows.

    Raises InputError where the place cannot be written.
    """
    with replacing(path) as temporary:
        program.problem.writeLP(str(temporary))
        body = temporary.read_text(encoding="utf-8")
        temporary.write_text(_header(program, case, note) + body, encoding="utf-8")


def _header(program: Program[Any], case: Cited, note: str) -> str:
    """Comment lines that say which field of the case each family of rows stands for."""
    families: dict[str, str] = {}
    for row, quote in program.quotes.items():
        family = row if row.startswith(WHOLE_NAMES) else row.split("_", 1)[0]
        families[family] = quote
    lines = [f"\\ cost program of {case.name}: the optimum is dollars per hour"]
    lines += [f"\\ {note}"] if note else []
    lines += [f"\\ rows {f}*: {q} ({case.where(q)})" for f, q in families.items()]
    return "".join(f"{line}\n" for line in lines)


def save_failure(program: Program[Any], case: Case) -> str:
    """Save the program and the case beside the user, for a report; says where."""
    stem = "".join(c if c.isalnum() or c in "-_." else "-" for c in case.name)
    lp, brief = Path(f"{stem}-failed.lp"), Path(f"{stem}-failed.yaml")
    save_program(program, case, lp)
    write(brief, yaml.safe_dump(case.model_dump(mode="json", exclude_unset=True), sort_keys=False))
    return f"{lp} and {brief}"
