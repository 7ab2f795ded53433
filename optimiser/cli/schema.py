"""`optimise schema`: the contract of a case file, for editors."""

import click


@click.command("schema", epilog="Example: optimise schema > case.schema.json")
def command() -> None:
    """Print the JSON schema of a case.

    A case names it in its first line: # yaml-language-server: $schema=case.schema.json
    """
    click.echo(schema_text(), nl=False)


def schema_text() -> str:
    """The JSON schema of a case, as a file's text."""
    import json

    from pydantic import TypeAdapter

    from optimiser.case import Case
    from optimiser.fleet_case import FleetCase

    either: TypeAdapter[Case | FleetCase] = TypeAdapter(Case | FleetCase)
    return json.dumps(either.json_schema(), indent=2, ensure_ascii=False) + "\n"
