"""Options that commands share, and the way results leave."""

import math
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from optimiser.errors import CaseError, Mistake
from optimiser.files import write

if TYPE_CHECKING:
    from optimiser.case import Case
    from optimiser.fleet_case import FleetCase
    from optimiser.review.review import Review

FOLDER_VARIABLE = "OPTIMISE_CATALOGUE"
Command = TypeVar("Command", bound=Callable[..., Any])
SUFFIXES = (".yaml", ".yml")
PRESENTERS = {"text": "terminal", "json": "as_json", "markdown": "markdown"}


def _finite(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a number of seconds.")
    return value


def case_options(command: Command, override: str = "--set") -> Command:
    """The case and its overrides."""
    command = click.option(
        override,
        "settings",
        multiple=True,
        metavar="FIELD=VALUE",
        help="Override a field, such as brief.requests_per_s=50. Repeatable; null removes it.",
    )(command)
    return click.argument("case_path", metavar="CASE")(catalogue_option(command))


def catalogue_option(command: Command) -> Command:
    """A folder of the user's own LLMs, GPUs and offers."""
    return click.option(
        "--catalogue",
        "folder",
        envvar=FOLDER_VARIABLE,
        metavar="DIR",
        help="Add the LLMs, GPUs and offers of a folder to the shipped ones.",
    )(command)


def format_option(command: Command) -> Command:
    """The format of what is printed."""
    return click.option(
        "--format",
        "format_name",
        type=click.Choice(list(PRESENTERS)),
        default="text",
        show_default=True,
        help="How to print the result.",
    )(command)


def output_options(command: Command) -> Command:
    """The format and place of the result."""
    return click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        help="Write the result to a file instead of printing it.",
    )(format_option(command))


def solver_option(command: Command) -> Command:
    """Which solver proves the optimum."""
    return click.option(
        "--solver",
        "solver_name",
        type=click.Choice(["cp-sat", "highs", "cbc"]),
        default="cp-sat",
        show_default=True,
        help="Which solver proves the optimum.",
    )(command)


def solver_options(command: Command) -> Command:
    """The solver and what it may use."""
    command = solver_option(command)
    command = click.option(
        "--time-limit",
        "time_limit_s",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        callback=_finite,
        help="Stop then, with the best design found and its bound.  [default: none]",
    )(command)
    return click.option(
        "--workers",
        type=click.IntRange(1, 256),
        default=1,
        show_default=True,
        help="Threads of CP-SAT.",
    )(command)


def place_of(path: str) -> Path:
    """The path of a case, or of the shipped one of that name."""
    place = Path(path)
    if not is_there(place):
        place = shipped_case(path) or place
        _refuse_near_miss(place)
    return place


def _is_fleet(data: object) -> bool:
    """Whether a case is a fleet's, said without importing what fleets need."""
    if not isinstance(data, dict):
        return False
    keys = {"workloads", "measured", "routing", "slices"}
    limits = {"survive", "most_pools", "most_spot_frac"}
    parts = {name: data.get(name) for name in ("hardware", "limits")}
    named = {name: set(part) if isinstance(part, dict) else set() for name, part in parts.items()}
    return bool(keys & set(data) or "stock" in named["hardware"] or limits & named["limits"])


def load_any(path: str, settings: tuple[str, ...], folder: str | None = None) -> "Case | FleetCase":
    """The case at a path: a fleet's where it has what only fleets have."""
    from optimiser.case import Case
    from optimiser.catalogue.load import catalogue
    from optimiser.errors import CaseError, InputError
    from optimiser.yaml_io import override, read

    try:
        document = override(read(place_of(path)), settings)
    except InputError as error:
        raise CaseError(error.mistakes) from error
    if _is_fleet(document.data):
        from optimiser.fleet_case import FleetCase

        return FleetCase.of_document(document, catalogue(folder))
    return _warned(Case.of_document(document, catalogue(folder)))


def load_case(path: str, settings: tuple[str, ...], folder: str | None = None) -> "Case":
    """The case of a single workload at a path, or the shipped one of that name.

    Raises CaseError where it is a fleet's.
    """
    from optimiser.case import Case
    from optimiser.errors import CaseError, Mistake

    case = load_any(path, settings, folder)
    if not isinstance(case, Case):
        message = "this command takes a case with a single brief; plan a fleet with: optimise plan"
        raise CaseError([Mistake(path, "workloads", message)])
    return case


def _warned(case: "Case") -> "Case":
    """The case, with warnings of what look like slips of unit."""
    from optimiser.review.assumptions import warnings

    for warning in warnings(case):
        click.echo(f"warning: {warning}", err=True)
    return case


def shipped_case(name: str) -> Path | None:
    """The file of a shipped case, by its name or by its path in a checkout."""
    from optimiser.catalogue.load import shipped

    stem = name.removeprefix("cases/").removesuffix(".yaml")
    place = shipped("cases") / f"{stem}.yaml"
    return place if place.parent == shipped("cases") and is_there(place) else None


def is_there(path: Path) -> bool:
    """Whether a path leads anywhere; one that cannot be looked at does not."""
    try:
        return path.exists()
    except OSError:
        return False


def _refuse_near_miss(place: Path) -> None:
    """Name the shipped cases where a bare name is like one of theirs."""
    from optimiser.catalogue.load import shipped
    from optimiser.names import nearest

    if not is_there(place) and str(place.parent) == "." and place.suffix not in SUFFIXES:
        near = nearest(place.name, [path.stem for path in shipped("cases").glob("*.yaml")])
        if near:
            raise CaseError([Mistake(str(place), "", "no such file or shipped case", near)])


def emit(review: "Review", format_name: str, output: Path | None) -> None:
    """Print a review, or write it whole to a file."""
    presenter = import_module(f"optimiser.review.{PRESENTERS[format_name]}")
    text: str = presenter.render(review)
    if output is None:
        click.echo(text, nl=False)
    else:
        write(output, click.unstyle(text))
