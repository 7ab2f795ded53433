"""YAML in, plain data out, with the line of every value.

Plain scalars follow the YAML 1.2 core rules (`6.74e9` is a number, `no` is text), which is what
people expect of a number and what YAML 1.1 readers get wrong.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from optimiser.errors import InputError, Mistake

Location = tuple[str | int, ...]

LARGEST_FILE_BYTES = 100_000
MOST_VALUES = 20_000
DEEPEST_NESTING = 40
LONGEST_INTEGER = 300
SMALLEST_NUMBER = 1e-100
"""Anything nearer to zero is read as zero, so that arithmetic with it stays in range."""

_INTEGER = re.compile(r"[-+]?[0-9]+$")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_SPECIAL_FLOAT = re.compile(r"([-+]?)\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$")
_CONSTANTS = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass
class Document:
    """Plain data with its source, and where in the source each value stands."""

    source: str
    data: Any
    lines: dict[Location, int] = field(default_factory=dict)
    overrides: dict[Location, str] = field(default_factory=dict)

    def where(self, location: Location) -> str:
        """`file:line` of a value, of its nearest parent, or the option that set it."""
        prefixes = [location[:length] for length in range(len(location), -1, -1)]
        for part in prefixes:
            if part in self.overrides:
                return self.overrides[part]
        for part in prefixes:
            if part in self.lines:
                return f"{self.source}:{self.lines[part]}"
        return self.source


def read(path: Path) -> Document:
    """Read a YAML file. Raises InputError with every mistake that reading alone can find."""
    return parse(read_text(path), source=str(path))


def read_text(path: Path) -> str:
    """The text of a file of a sensible size. Raises InputError where it cannot be read."""
    try:
        if path.is_dir():
            raise _unreadable(path, "is a directory, a YAML file was expected")
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE_BYTES + 1)
        if len(raw) > LARGEST_FILE_BYTES:
            raise _unreadable(path, f"more than {LARGEST_FILE_BYTES:,} bytes, too large for a case")
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError([Mistake(f"{path}:{line}", "", "not UTF-8 text")]) from error
    except FileNotFoundError:
        raise _unreadable(path, "no such file", _files_like(path)) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _unreadable(path, f"cannot be read: {reason}") from error


def parse(text: str, source: str) -> Document:
    """Parse YAML text. Raises InputError, see `read`."""
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise InputError([_unparsable(error, source, text.count("\n") + 1)]) from error
    except yaml.reader.ReaderError as error:
        line = text.encode().count(b"\n", 0, error.position) + 1
        reason = f"not valid YAML: character #x{error.character:04x} is not allowed"
        raise InputError([Mistake(f"{source}:{line}", "", reason)]) from error
    except UnicodeEncodeError as error:
        raise InputError([Mistake(source, "", "not UTF-8 text")]) from error
    except RecursionError as error:
        raise InputError([Mistake(source, "", "not valid YAML: nested too deep")]) from error
    if node is None:
        raise InputError([Mistake(source, "", "the file is empty, a case or a table was expected")])
    reader = _Reader(source)
    data = reader.convert(node, ())
    if reader.mistakes:
        raise InputError(reader.mistakes)
    return Document(source, data, reader.lines)


def override(document: Document, settings: Sequence[str], option: str = "--set") -> Document:
    """The document with `path.to.field=YAML value` settings applied; null removes a field.

    An entry of a list goes by its place or its name: `workloads.0.model`, `workloads.chat.model`.
    Raises InputError for settings that are not of that form, all at once.
    """
    data = _copied(document.data)
    origins = dict(document.overrides)
    mistakes: list[Mistake] = []
    for setting in settings:
        origin = f"{option} {setting}"
        try:
            path, value = parse_setting(setting, option)
        except InputError as error:
            mistakes += error.mistakes
            continue
        keys = _places(data, path.split("."))
        problem = _put(data, keys, value)
        if problem:
            mistakes.append(Mistake(origin, path, problem))
        origins[tuple(keys)] = origin
        for depth in range(1, len(keys)):  # sections that only the option makes
            if tuple(keys[:depth]) not in document.lines:
                origins.setdefault(tuple(keys[:depth]), origin)
    if mistakes:
        raise InputError(mistakes)
    return Document(document.source, data, document.lines, origins)


def parse_setting(setting: str, option: str = "--set") -> tuple[str, Any]:
    """The dotted path and the value of a `path.to.field=YAML value`. Raises InputError."""
    origin = f"{option} {setting}"
    path, equals, text = setting.partition("=")
    path = path.strip()
    if not equals or not all(path.split(".")) or not path.isprintable():
        raise InputError([Mistake(origin, "", "expected path.to.field=value")])
    try:
        return path, parse(text, origin).data if text.strip() else None
    except InputError as error:
        raise InputError(Mistake(origin, m.field, m.message) for m in error.mistakes) from error


class _Reader:
    """Turns YAML nodes into plain data, noting lines and mistakes on the way."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines: dict[Location, int] = {}
        self.mistakes: list[Mistake] = []
        self.n_values = 0

    def convert(self, node: yaml.Node, location: Location) -> Any:
        self.lines.setdefault(location, node.start_mark.line + 1)
        self.n_values += 1
        if self.n_values > MOST_VALUES:
            where = f"{self.source}:{node.start_mark.line + 1}"
            message = f"more than {MOST_VALUES:,} values once its aliases are expanded"
            raise InputError([Mistake(where, "", message)])
        if len(location) > DEEPEST_NESTING:
            where = f"{self.source}:{node.start_mark.line + 1}"
            raise InputError([Mistake(where, "", f"nested over {DEEPEST_NESTING} deep")])
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, location)
        if isinstance(node, yaml.SequenceNode):
            return [self.convert(item, (*location, i)) for i, item in enumerate(node.value)]
        return _scalar(str(node.value), quoted=bool(getattr(node, "style", None)))

    def _mapping(self, node: yaml.MappingNode, location: Location) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            where = f"{self.source}:{key_node.start_mark.line + 1}"
            if not isinstance(key_node, yaml.ScalarNode):
                self.mistakes.append(Mistake(where, dotted(location), "a key must be plain text"))
                continue
            key = key_node.value
            here = (*location, key)
            if key in mapping:
                first = self.lines[here]
                message = f"duplicate key, first given on line {first}"
                self.mistakes.append(Mistake(where, dotted(here), message))
                continue
            self.lines[here] = key_node.start_mark.line + 1
            mapping[key] = self.convert(value_node, here)
        return mapping


def dotted(location: Location) -> str:
    """A location as users write it: `hardware.gpus[0].name`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _scalar(text: str, quoted: bool) -> Any:
    if quoted:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if len(text) <= LONGEST_INTEGER and _INTEGER.match(text):
        return int(text)
    if _FLOAT.match(text):
        value = float(text)
        return value if abs(value) >= SMALLEST_NUMBER else 0.0
    special = _SPECIAL_FLOAT.match(text)
    if special:
        if special.group(3):
            return math.nan
        return -math.inf if special.group(1) == "-" else math.inf
    return text


def _places(data: Any, keys: list[str]) -> list[str | int]:
    """The keys, those of sections in lists by their place."""
    found: list[str | int] = []
    for key in keys:
        place: str | int = key
        if isinstance(data, list):
            entries = {str(i): i for i, entry in enumerate(data) if isinstance(entry, dict)}
            names = {str(data[i].get("name")): i for i in reversed(entries.values())}
            place = entries.get(key, names.get(key, key))
            data = data[place] if isinstance(place, int) else None
        else:
            data = data.get(key) if isinstance(data, dict) else None
        found.append(place)
    return found


def _put(data: Any, keys: list[str | int], value: Any) -> str | None:
    """Set a nested key, making sections on the way; returns what stood in the way, if anything."""
    for depth, key in enumerate(keys[:-1]):
        if isinstance(key, int):
            data = data[key]
            continue
        if not isinstance(data, dict):
            return f"{_dotted(keys[:depth])} is not a section, so it has no field {key}"
        if data.get(key) is None:
            data[key] = {}
        data = data[key]
    if not isinstance(data, dict):
        return f"{_dotted(keys[:-1])} is not a section, so it has no field {keys[-1]}"
    if value is None:
        data.pop(keys[-1], None)
    else:
        data[keys[-1]] = value
    return None


def _dotted(keys: Sequence[str | int]) -> str:
    return ".".join(map(str, keys))


def _copied(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _copied(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_copied(value) for value in data]
    return data


def _unparsable(error: Any, source: str, last_line: int) -> Mistake:
    """What the YAML library found, and where the broken part starts if elsewhere."""
    start, found = error.context_mark, error.problem_mark or error.context_mark
    line = min(found.line + 1, last_line) if found else 1
    elsewhere = start is not None and start.line + 1 != line
    begun = f"{error.context} (line {start.line + 1}), " if elsewhere else ""
    return Mistake(f"{source}:{line}", "", f"not valid YAML: {begun}{error.problem}")


def _unreadable(path: Path, message: str, nearest: tuple[str, ...] = ()) -> InputError:
    return InputError([Mistake(str(path), "", message, nearest)])


def _files_like(path: Path) -> tuple[str, ...]:
    from optimiser.names import nearest

    try:
        beside = [p.name for p in path.parent.iterdir() if p.suffix in {".yaml", ".yml"}]
    except OSError:
        return ()
    return tuple(str(path.with_name(name)) for name in nearest(path.name, beside))
