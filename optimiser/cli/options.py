"""Options that commands share, and the way results leave."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from optimiser.cli.main import FORMAT_KEY
from optimiser.yaml_io import write

if TYPE_CHECKING:
    from optimiser.case import Case
    from optimiser.fleet_case import FleetCase
    from optimiser.review.review import Review

FOLDER_VARIABLE = "OPTIMISE_CATALOGUE"
Command = TypeVar("Command", bound=Callable[..., Any])
PRESENTERS = {"text": "terminal", "json": "as_json", "markdown": "markdown"}


def remember_format(ctx: click.Context, _: click.Parameter, value: str) -> str:
    """Lets errors come out in the format that was asked for."""
    ctx.meta[FORMAT_KEY] = value
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


def output_options(command: Command) -> Command:
    """The format and place of the result."""
    command = click.option(
        "--format",
        "format_name",
        type=click.Choice(list(PRESENTERS)),
        default="text",
        show_default=True,
        callback=remember_format,
        is_eager=True,
        help="How to print the result.",
    )(command)
    return click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        help="Write the result to a file instead of printing it.",
    )(command)


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
    from optimiser.catalogue.load import shipped

    place = Path(path)
    if not place.exists():
        example = shipped("cases") / f"{place.name.removesuffix('.yaml')}.yaml"
        if example.is_file() and place.parent.name in ("", "cases"):
            return example
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


def emit(review: "Review", format_name: str, output: Path | None) -> None:
    """Print a review, or write it whole to a file."""
    presenter = import_module(f"optimiser.review.{PRESENTERS[format_name]}")
    text: str = presenter.render(review)
    if output is None:
        click.echo(text, nl=False)
    else:
        write(output, click.unstyle(text))
