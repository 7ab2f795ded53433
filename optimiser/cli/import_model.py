"""`optimise import config.json`: any Hugging Face model as a catalogue file."""

import json
from datetime import datetime
from pathlib import Path

import click

from optimiser.files import write


@click.command("import", epilog="Example: optimise import ./Qwen3-8B/config.json -o qwen3-8b.yaml")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--name", help="Name in the catalogue.  [default: the output's or the folder's]")
@click.option(
    "--context", type=click.IntRange(1, 10**9), help="Tokens for the cache of a sequence."
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="A catalogue file, or the counts and the shape for programs.",
)
@click.option(
    "--as-of",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="YYYY-MM-DD",
    help="Date of the config.  [default: today]",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file.")
def command(
    config: Path,
    name: str | None,
    context: int | None,
    format_name: str,
    as_of: datetime | None,
    output: Path | None,
) -> None:
    """Read CONFIG, a Hugging Face config.json on disk, as a model.

    Parameters are counted from the shapes alone; where model.safetensors.index.json lies beside
    the config, its exact weight bytes are taken. An architecture that is not known is an error.
    """
    from optimiser.catalogue.hf_import import llm_of_config, shape_at
    from optimiser.review.model import model_data, model_yaml

    named = name or (output.stem if output and output.suffix in (".yaml", ".yml") else None)
    llm = llm_of_config(config, named, (as_of or datetime.now()).date().isoformat())
    if format_name == "json":
        data = model_data(llm, shape_at(config), context)
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    else:
        text = model_yaml(llm)
    if output is None:
        click.echo(text, nl=False)
    else:
        write(output, text)
