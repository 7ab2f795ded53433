"""Files that results are written to, by their endings."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from optimiser.errors import InputError, Mistake

TEXTS = {".json": "json", ".md": "markdown", ".txt": "text"}
TABLES = (".csv", ".parquet")
PLOTS = (".png", ".svg", ".html")


def refuse_outputs(
    outputs: Sequence[Path], endings: Sequence[str], unfilled: Mapping[str, str] | None = None
) -> None:
    """Raises InputError for every file that could not be written, before any work is done.

    `unfilled`: why there would be nothing to write to files of some endings. Raises OptimiseError
    where a plot is asked for and nothing is there to draw it with.
    """
    mistakes = []
    for path in outputs:
        ending = path.suffix.lower()
        if ending not in endings:
            known = ", ".join(endings)
            mistakes.append(Mistake(f"-o {path}", "", f"unknown ending, expected one of {known}"))
        elif not path.parent.is_dir() or path.is_dir():
            mistakes.append(Mistake(f"-o {path}", "", no_place(path)))
        elif unfilled and ending in unfilled:
            mistakes.append(Mistake(f"-o {path}", "", unfilled[ending]))
    if mistakes:
        raise InputError(mistakes)
    if any(path.suffix.lower() in PLOTS for path in outputs):
        from optimiser.review.plot import require

        require()


def no_place(path: Path) -> str:
    """Why a file cannot be written where it should be."""
    why = "is a directory" if path.is_dir() else "no such directory"
    return f"cannot be written: {why}"
