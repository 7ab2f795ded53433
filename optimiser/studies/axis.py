"""What a sweep varies: a field of the case and its values, in the user's short form."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, get_args

import numpy as np

from optimiser.case import Case
from optimiser.errors import InputError, Mistake
from optimiser.names import nearest
from optimiser.schema import Schema
from optimiser.yaml_io import parse

Kind = Literal["number", "whole", "values", "section"]
Spacing = Literal["log", "linear"]
MOST_POINTS = 100_000
OPTION = "--vary"
FORM = "expected field=from:to:log|linear:n, or field=value,value,…"


@dataclass(frozen=True, slots=True)
class Axis:
    """A field and the values it takes, in the order they were asked for."""

    field: str
    values: tuple[Any, ...]
    kind: Kind
    spacing: Spacing | None = None
    """How a range was asked to be spaced; None for a list of values."""

    @property
    def numbers(self) -> tuple[float, ...]:
        """The values in rising order where they are numbers of a field that is one, else none."""
        if self.kind not in ("number", "whole") or not all(map(_is_number, self.values)):
            return ()
        return tuple(sorted(self.values))

    @property
    def whole(self) -> bool:
        """Whether the field takes whole numbers only."""
        return self.kind == "whole"


def parse_axes(settings: Sequence[str]) -> tuple[Axis, ...]:
    """The axes that `field=…` settings ask for. Raises InputError with all of their mistakes."""
    axes, mistakes = list[Axis](), list[Mistake]()
    for setting in settings:
        try:
            axes.append(_axis(setting))
        except InputError as error:
            mistakes += error.mistakes
    fields = [axis.field for axis in axes]
    for i, one in enumerate(fields):
        for other in fields[:i]:
            if one == other or one.startswith(f"{other}.") or other.startswith(f"{one}."):
                also = "" if one == other else f", and {other} contains it or is part of it"
                mistakes.append(Mistake(OPTION, one, f"is varied twice{also}"))
    n_points = math.prod(len(axis.values) for axis in axes)
    if not mistakes and n_points > MOST_POINTS:
        message = f"{n_points:,} points, at most {MOST_POINTS:,} are planned"
        mistakes.append(Mistake(OPTION, "", message))
    if mistakes:
        raise InputError(mistakes)
    return tuple(axes)


def fields_of(schema: type[Schema] = Case, prefix: str = "") -> dict[str, Kind]:
    """Every field of a case by its dotted path, and what it takes."""
    found: dict[str, Kind] = {}
    for name, info in schema.model_fields.items():
        path, annotation = prefix + name, info.annotation
        is_schema = isinstance(annotation, type) and issubclass(annotation, Schema)
        if is_schema:
            found[path] = "values" if path == "model" else "section"
            found |= fields_of(annotation, f"{path}.")  # type: ignore[arg-type]
            continue
        types = set(get_args(annotation) or (annotation,)) - {NoneType}
        found[path] = "number" if types == {float} else "whole" if types == {int} else "values"
    return found


def _axis(setting: str) -> Axis:
    origin = f"{OPTION} {setting}"
    field, equals, text = setting.partition("=")
    field, text = field.strip(), text.strip()
    if not equals or not field or not text:
        raise InputError([Mistake(origin, "", FORM)])
    known = fields_of()
    if field not in known or known[field] == "section":
        raise InputError([_unknown(origin, field, known)])
    kind = known[field]
    if ":" in text and not text.startswith(("[", "{", '"', "'")):
        spacing, values = _range(origin, field, kind, text)
    else:
        spacing, values = None, _listed(origin, field, text)
    return Axis(field, values, kind, spacing)


def _unknown(origin: str, field: str, known: dict[str, Kind]) -> Mistake:
    inside = [name for name in known if name.startswith(f"{field}.")]
    if inside:
        return Mistake(origin, field, f"is a section; name one of its fields: {', '.join(inside)}")
    leaves = [name for name, kind in known.items() if kind != "section"]
    ending = [name for name in leaves if name.split(".")[-1] == field.split(".")[-1]]
    return Mistake(origin, field, "unknown field", tuple(ending[:3]) or nearest(field, leaves))


def _range(origin: str, field: str, kind: Kind, text: str) -> tuple[Spacing, tuple[Any, ...]]:
    def refuse(message: str) -> InputError:
        return InputError([Mistake(origin, field, message)])

    parts = [part.strip() for part in text.split(":")]
    if len(parts) != 4:
        raise refuse(FORM)
    if kind not in ("number", "whole"):
        raise refuse("is not a number, so it has no range; list its values, separated by commas")
    ends = [_number(part) for part in parts[:2]]
    for end, part in zip(ends, parts, strict=False):
        if end is None:
            raise refuse(f"found {part!r}, expected a number")
    low, high = (float(end) for end in ends if end is not None)
    if parts[2] not in ("log", "linear"):
        raise refuse(f"found {parts[2]!r}, expected log or linear")
    spacing: Spacing = "log" if parts[2] == "log" else "linear"
    if not parts[3].isdecimal() or int(parts[3][:9]) < 2:
        raise refuse(f"found {parts[3]!r} points, expected a whole number from 2")
    if int(parts[3][:9]) > MOST_POINTS:
        raise refuse(f"{parts[3]} points, at most {MOST_POINTS:,} are planned")
    if low >= high:
        raise refuse(f"{parts[0]} is not below {parts[1]}")
    if spacing == "log" and low <= 0:
        raise refuse("a logarithmic range starts above 0")
    spaced = np.geomspace if spacing == "log" else np.linspace
    points = [low, *(float(v) for v in spaced(low, high, int(parts[3]))[1:-1]), high]
    return spacing, _distinct([round(p) for p in points] if kind == "whole" else points)


def _listed(origin: str, field: str, text: str) -> tuple[Any, ...]:
    try:
        values = parse(f"[{text}]", origin).data
    except InputError:
        values = None
    if not isinstance(values, list) or not values:
        raise InputError([Mistake(origin, field, FORM)])
    return _distinct(values)


def _distinct(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple({repr(value): value for value in values}.values())


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def points(axes: Sequence[Axis]) -> Iterator[dict[str, Any]]:
    """Every combination of the axes' values; the last axis moves fastest."""
    if not axes:
        yield {}
        return
    for value in axes[0].values:
        for rest in points(axes[1:]):
            yield {axes[0].field: value, **rest}
