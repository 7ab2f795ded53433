"""`optimise compare CASE`: hardware, models, offers and anything else, side by side."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from optimiser.cli.options import case_options, emit, load_case, output_options, solver_option
from optimiser.errors import InputError, Mistake

if TYPE_CHECKING:
    from optimiser.studies.rows import Changes

INFEASIBLE = 3


@click.command(
    "compare", epilog="Example: optimise compare cases/llama-3.1-8b.yaml --gpu l4 --gpu h200"
)
@partial(case_options, override="--baseline")
@click.option("--gpu", "gpus", multiple=True, help="The case on one GPU type. Repeatable.")
@click.option("--model", "models", multiple=True, help="The case with another model. Repeatable.")
@click.option("--offer", "offers", multiple=True, help="The case on one offer. Repeatable.")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="FIELD=VALUE",
    help="The case with a field changed, such as brief.requests_per_s=50. Repeatable.",
)
@output_options
@solver_option
def command(
    case_path: str,
    settings: tuple[str, ...],
    folder: str | None,
    gpus: tuple[str, ...],
    models: tuple[str, ...],
    offers: tuple[str, ...],
    changes: tuple[str, ...],
    format_name: str,
    output: Path | None,
    solver_name: str,
) -> None:
    """Compare alternatives to CASE, a row each, cheapest first.

    Each --gpu, --model, --offer and --set is one alternative; --baseline overrides a field of all.
    Without any, every GPU type of the catalogue that has a price is compared. Exit code 3 where
    nothing complies.
    """
    from optimiser.catalogue.load import catalogue
    from optimiser.review.compare import compare_review
    from optimiser.studies.compare import (
        compare,
        every_gpu,
        gpu_change,
        model_change,
        offer_change,
    )
    from optimiser.yaml_io import parse_setting

    def setting_change(setting: str) -> "Changes":
        return dict([parse_setting(setting)])

    case, known = load_case(case_path, settings, folder), catalogue(folder)
    asked: list[tuple[str, Callable[[], Changes]]] = [
        *((name, partial(gpu_change, case, name)) for name in gpus),
        *((name, partial(model_change, case, name)) for name in models),
        *((name, partial(offer_change, known, name)) for name in offers),
        *((setting, partial(setting_change, setting)) for setting in changes),
    ]
    alternatives, mistakes = [], list[Mistake]()
    for name, change_of in asked:
        try:
            change = change_of()
            case.changed(change)  # what was asked for by name must be valid
            alternatives.append((name, change))
        except InputError as error:
            mistakes += error.mistakes
    if mistakes:
        raise InputError(dict.fromkeys(mistakes))
    found = compare(case, alternatives or every_gpu(case, known), solver_name)
    emit(compare_review(found), format_name, output)
    if found.winner is None:
        sys.exit(INFEASIBLE)
