"""The base of every schema, and the translation of its errors into a user's words."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from optimiser.errors import Mistake
from optimiser.names import nearest
from optimiser.yaml_io import Document, Location, dotted


class Schema(BaseModel):
    """Closed, frozen and strict: what a file says is what it means."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )


AnySchema = TypeVar("AnySchema", bound=Schema)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one field, found by a check that looks at several."""

    field: str
    message: str
    nearest: tuple[str, ...] = ()


def refuse(message: str, near: tuple[str, ...] = ()) -> NoReturn:
    """Fail validation of the current value with a message for the user."""
    raise PydanticCustomError("refused", "{message}", {"message": message, "nearest": near})


def refuse_all(problems: Sequence[Problem]) -> None:
    """Fail validation with every problem at once; does nothing where there is none."""
    if problems:
        text = "; ".join(f"{problem.field}: {problem.message}" for problem in problems)
        raise PydanticCustomError("problems", "{text}", {"text": text, "problems": problems})


def validated(
    schema: type[AnySchema], document: Document, context: Mapping[str, Any]
) -> AnySchema | list[Mistake]:
    """The document as an instance of `schema`, or all of its mistakes."""
    try:
        return schema.model_validate(document.data, context=dict(context))
    except ValidationError as error:
        return mistakes(schema, error, document.where)


def mistakes(
    schema: type[Schema], error: ValidationError, where: Callable[[Location], str]
) -> list[Mistake]:
    """A pydantic error as mistakes with places, wording and nearest names, in reading order."""
    found = []
    for detail in error.errors(include_url=False):
        location = detail["loc"]
        if detail["type"] == "problems":
            for problem in detail["ctx"]["problems"]:
                place = (*location, *problem.field.split("."))
                found.append(Mistake(where(place), dotted(place), problem.message, problem.nearest))
            continue
        message, near = _wording(schema, detail)
        found.append(Mistake(where(location), dotted(location), message, near))
    return found


def _wording(schema: type[Schema], detail: ErrorDetails) -> tuple[str, tuple[str, ...]]:
    kind = detail["type"]
    if kind == "refused":
        return detail["msg"], tuple(detail["ctx"]["nearest"])
    if kind == "extra_forbidden":
        valid = sorted(_fields_at(schema, detail["loc"][:-1]))
        near = nearest(str(detail["loc"][-1]), valid)
        listing = "" if near else f"; expected one of {', '.join(valid)}"
        return f"unknown key{listing}", near
    if kind == "missing":
        return "missing", ()
    expected = _EXPECTED.get(kind, detail["msg"][:1].lower() + detail["msg"][1:])
    expected = expected.removeprefix("input should be ").removeprefix("value should be ")
    return f"found {shown(detail['input'])}, expected {expected}", ()


_EXPECTED = {
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "text",
    "model_type": "a section with fields",
    "model_attributes_type": "a section with fields",
    "dict_type": "a section with fields",
    "string_too_short": "text that is not empty",
    "too_short": "at least one entry",
    "tuple_type": "a list",
    "list_type": "a list",
}


_YAML_CONSTANTS = {None: "nothing", True: "true", False: "false"}


def shown(value: object) -> str:
    """A value as a message quotes it."""
    text = _YAML_CONSTANTS[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _fields_at(schema: type[BaseModel], location: Location) -> set[str]:
    """The valid keys of the section at `location`."""
    sections: list[type[BaseModel]] = [schema]
    for part in location:
        if isinstance(part, int):
            continue
        sections = [
            inner
            for section in sections
            if part in section.model_fields
            for inner in _schemas_in(section.model_fields[part].annotation)
        ]
    return {name for section in sections for name in section.model_fields}


def _schemas_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _schemas_in(argument)
