"""The command group, and the one place where errors become messages and exit codes."""

import json
import os
import sys
from importlib import import_module
from typing import Any

import click
from click_default_group import DefaultGroup

from optimiser import __version__
from optimiser.errors import InputError, OptimiseError

COMMANDS = {
    "plan": "Find the cheapest compliant design of a case (the default command).",
    "check": "Say whether a design that you already run complies.",
    "compare": "Compare hardware, models, offers or any other change, side by side.",
    "classes": "Make classes of traffic from a request log.",
    "levers": "Rank what to change: every lever alone, the best pairs, the best set.",
    "fit": "Say whether a model fits on a GPU type, and where the memory goes.",
    "import": "Read a Hugging Face config.json as a model of the catalogue.",
    "catalogue": "List the models, GPUs and offers that are known, with their sources.",
    "new": "Write a commented case to start from.",
    "schema": "Print the JSON schema of a case.",
}
MODULES = {"import": "import_model"}
"""Commands whose name cannot be a module's."""
FORMAT_KEY = "optimise.format"
INTERRUPTED = 130


class Commands(DefaultGroup):  # type: ignore[misc]
    """Imports a command's module when it is called; turns faults into messages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands, the main one first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of that name, else the default command with the name as its case."""
        if name not in COMMANDS:
            ctx.arg0 = name  # type: ignore[attr-defined]  # how DefaultGroup passes it on
            name = self.default_cmd_name
        command: click.Command = import_module(f"optimiser.cli.{MODULES.get(name, name)}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; report its faults on stderr, and in JSON too where that was asked."""
        try:
            return super().invoke(ctx)
        except OptimiseError as error:
            _report(error, as_json=ctx.meta.get(FORMAT_KEY) == "json")
            ctx.exit(error.exit_code)


@click.group(
    cls=Commands,
    default="plan",
    default_if_no_args=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: optimise cases/chat-7b.yaml",
)
@click.version_option(__version__, prog_name="optimise")
def cli() -> None:
    """Plan an LLM serving fleet: a brief in, the cheapest compliant design out, proved."""


def main() -> None:
    """Entry point of the `optimise` script."""
    try:
        sys.exit(cli.main(standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if os.environ.get("OPTIMISE_TRACEBACK"):
            raise
        click.echo(
            f"internal error: {type(error).__name__}: {error}\n"
            "This is a fault of the tool: please report it with the case. "
            "OPTIMISE_TRACEBACK=1 shows where it happened.",
            err=True,
        )
        sys.exit(1)


def _report(error: OptimiseError, as_json: bool) -> None:
    click.echo("\n".join(f"error: {line}" for line in str(error).splitlines()), err=True)
    if not as_json:
        return
    mistakes = error.mistakes if isinstance(error, InputError) else ()
    data = {
        "status": "error",
        "errors": [
            {"where": m.where, "field": m.field, "message": m.message, "nearest": list(m.nearest)}
            for m in mistakes
        ]
        or [{"where": "", "field": "", "message": str(error), "nearest": []}],
    }
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
