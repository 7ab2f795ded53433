"""The cases of a batch: files, folders, globs, or the rows of one table over a base case."""

import csv
import glob
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from optimiser.errors import InputError, Mistake
from optimiser.yaml_io import read_text

CASE_ENDINGS = (".yaml", ".yml")
TABLE_ENDINGS = (".csv", ".jsonl", ".parquet")

_FIELD = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")
_WHOLE = re.compile(r"([-+]?[0-9]+)\.0*$")


@dataclass(frozen=True, slots=True)
class CaseInput:
    """One case of a batch, as text, so that it can be sent to another machine."""

    index: int
    """Its place in the batch."""
    source: str
    """The file, or the table and its line."""
    text: str = ""
    """YAML of the case, or of the base case."""
    text_source: str = ""
    """The file of that text."""
    settings: tuple[str, ...] = ()
    """`field=value` overrides."""
    fault: str = ""
    """Why it cannot be read, where it cannot."""


def gather(paths: Sequence[str], base: Path | None = None) -> list[CaseInput]:
    """The cases that paths stand for, in order; a file that is reached twice counts once.

    A file that cannot be read is a case with its fault. Raises InputError where a path stands for
    nothing, and for tables that are mixed with other paths or that have no base.
    """
    tables = [path for path in paths if Path(path).suffix.lower() in TABLE_ENDINGS]
    if tables and len(paths) > 1:
        raise _refused(tables[0], "a table must be the only path")
    if tables and base is None:
        raise _refused(tables[0], "the rows of a table change a base case: give --base case.yaml")
    if base is not None and not tables:
        raise _refused(f"--base {base}", f"needs one table ({', '.join(TABLE_ENDINGS)})")
    if base is not None:
        return _table(Path(tables[0]), base)
    files: dict[Path, Path] = {}
    for path in paths:
        for file in _files(path):
            files.setdefault(file.resolve(), file)
    return [_file(index, file) for index, file in enumerate(files.values())]


def _files(path: str) -> list[Path]:
    """The case files that one path stands for."""
    place = Path(path)
    if place.is_dir():
        found = sorted(p for p in place.iterdir() if p.suffix in CASE_ENDINGS and not p.is_dir())
        if not found:
            raise _refused(path, "holds no *.yaml or *.yml file")
        return found
    if place.exists():
        return [place]
    if not glob.has_magic(path):
        raise _refused(path, "no such file or folder")
    matches = map(Path, sorted(glob.glob(path, recursive=True)))  # noqa: PTH207  # absolute too
    found = [match for match in matches if match.suffix in CASE_ENDINGS and not match.is_dir()]
    if not found:
        raise _refused(path, "matches no *.yaml or *.yml file")
    return found


def _file(index: int, path: Path) -> CaseInput:
    try:
        return CaseInput(index, str(path), read_text(path), str(path))
    except InputError as error:
        return CaseInput(index, str(path), fault=str(error))


def _table(path: Path, base: Path) -> list[CaseInput]:
    text = read_text(base)
    reader = {".csv": _csv, ".jsonl": _jsonl, ".parquet": _parquet}[path.suffix.lower()]
    items = [
        replace(item, index=index, text=text, text_source=str(base))
        for index, item in enumerate(reader(path))
    ]
    if not items:
        raise _refused(str(path), "the table has no rows")
    return items


def _csv(path: Path) -> Iterator[CaseInput]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            _check_header(path, header)
            for cells in reader:
                source = f"{path}:{reader.line_num}"
                if len(cells) > len(header):
                    fault = f"{source}: {len(cells)} cells, the header has {len(header)}"
                    yield CaseInput(0, source, fault=fault)
                elif cells:
                    row = dict(zip(header, cells, strict=False))
                    yield CaseInput(0, source, settings=_settings(row))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _refused(str(path), f"cannot be read as CSV: {error}") from error


def _jsonl(path: Path) -> Iterator[CaseInput]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(str(path), f"cannot be read as JSON lines: {error}") from error
    for number, line in enumerate(lines, 1):
        source = f"{path}:{number}"
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield CaseInput(0, source, fault=f"{source}: not valid JSON: {error}")
            continue
        if not isinstance(row, dict):
            message = f"found {type(row).__name__}, expected an object of fields"
            yield CaseInput(0, source, fault=f"{source}: {message}")
            continue
        flat = dict(_flat(row))
        wrong = [field for field in flat if not _FIELD.match(field)]
        if wrong:
            message = f"{wrong[0]!r} is not a dotted field"
            yield CaseInput(0, source, fault=f"{source}: {message}")
            continue
        # In JSON the type of a value is plain, so text stays text.
        typed = {
            field: json.dumps(value, ensure_ascii=False) if isinstance(value, str) else value
            for field, value in flat.items()
            if field != "name"
        }
        name = {"name": flat["name"]} if "name" in flat else {}
        yield CaseInput(0, source, settings=_settings(name | typed))


def _parquet(path: Path) -> Iterator[CaseInput]:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise _refused(str(path), f"cannot be read as Parquet: {error}") from error
    _check_header(path, table.column_names)
    for number, row in enumerate(table.to_pylist(), 1):
        yield CaseInput(0, f"{path}:{number}", settings=_settings(dict(_flat(row))))


def _check_header(path: Path, header: Sequence[str]) -> None:
    """Raises InputError where a column is no dotted field, or stands twice."""
    wrong = [name for name in header if not _FIELD.match(name)]
    twice = sorted({name for name in header if header.count(name) > 1})
    mistakes = [
        Mistake(
            str(path), "", f"column {name!r} is not a dotted field, such as brief.tpot_target_ms"
        )
        for name in wrong
    ]
    mistakes += [
        Mistake(str(path), "", f"column {name!r} is given twice") for name in twice if name
    ]
    if not header:
        mistakes.append(Mistake(str(path), "", "the table has no header"))
    if mistakes:
        raise InputError(mistakes)


def _settings(row: Mapping[str, object]) -> tuple[str, ...]:
    """Cells as `field=YAML value`, empty ones left out."""
    settings = []
    for field, value in row.items():
        if value is None or (isinstance(value, float) and math.isnan(value)):
            continue
        text = value if isinstance(value, str) else json.dumps(value, default=_plain)
        text = text.strip()
        if text and field == "name":
            text = json.dumps(text, ensure_ascii=False)
        if text:
            # Frames with gaps turn whole numbers into floats; fields for fractions take both.
            whole = _WHOLE.match(text)
            settings.append(f"{field}={whole[1] if whole else text}")
    return tuple(settings)


def _plain(value: object) -> object:
    return float(value) if isinstance(value, Decimal) else str(value)


def _flat(row: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Nested sections as dotted fields."""
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _refused(where: str, message: str) -> InputError:
    return InputError([Mistake(where, "", message)])
