"""`optimise catalogue gpus|models|offers [NAME]`: what is known, and from where."""

from pathlib import Path

import click

from optimiser.cli.options import catalogue_option, emit, output_options


@click.command("catalogue", epilog="Example: optimise catalogue gpus h100-sxm")
@click.argument("kind", type=click.Choice(["gpus", "models", "offers"]))
@click.argument("name", required=False)
@catalogue_option
@output_options
def command(
    kind: str, name: str | None, folder: str | None, format_name: str, output: Path | None
) -> None:
    """List the known gpus, models or offers, or show NAME with the source of each figure."""
    from optimiser.catalogue.load import catalogue
    from optimiser.review.catalogue import entry_review, list_review

    known = catalogue(folder)
    shown = list_review(known, kind) if name is None else entry_review(known, kind, name)
    emit(shown, format_name, output)
