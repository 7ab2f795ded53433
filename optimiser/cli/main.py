"""The command group, and the one place where errors become messages and exit codes."""

import io
import json
import os
import sys
from dataclasses import asdict
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import click
from click_default_group import DefaultGroup

from optimiser import __version__
from optimiser.errors import InputError, Mistake, OptimiseError
from optimiser.names import nearest

COMMANDS = {
    "plan": "Find the cheapest compliant design of a case (the default command).",
    "check": "Say whether a design that you already run complies.",
    "compare": "Compare hardware, models, offers or any other change, side by side.",
    "sweep": "Vary fields: cost curve, crossovers, Pareto front, slack; tables and plots.",
    "classes": "Make classes of traffic from a request log.",
    "levers": "Rank what to change: every lever alone, the best pairs, the best set.",
    "batch": "Rank the levers of thousands of cases, on one machine or a cluster.",
    "fit": "Say whether a model fits on a GPU type, and where the memory goes.",
    "validate": "Compare predicted latency with measured runs, shipped or your own.",
    "calibrate": "Fit a deployment's latency scales to a benchmark run of it.",
    "import": "Read a Hugging Face config.json as a model of the catalogue.",
    "catalogue": "List the models, GPUs and offers that are known, with their sources.",
    "new": "Write a commented case to start from.",
    "schema": "Print the JSON schema of a case.",
}
MODULES = {"import": "import_model"}
"""Commands whose name cannot be a module's."""
INTERRUPTED = 130


class Commands(DefaultGroup):  # type: ignore[misc]
    """Imports a command's module when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands, the main one first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of that name, else the default command with the name as its case."""
        if name not in COMMANDS:
            _refuse_mistyped(name, ctx)
            ctx.arg0 = name  # type: ignore[attr-defined]  # how DefaultGroup passes it on
            name = self.default_cmd_name
        command: click.Command = import_module(f"optimiser.cli.{MODULES.get(name, name)}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _refuse_mistyped(name: str, ctx: click.Context) -> None:
    """Refuse a name that is neither a command nor a case but looks like a command."""
    near = nearest(name, COMMANDS)
    if near and not Path(name).suffix:
        from optimiser.cli.options import is_there, shipped_case

        if not is_there(Path(name)) and shipped_case(name) is None:
            meant = " or ".join(near)
            ctx.fail(f"no command or case {name!r} (did you mean {meant}?)")


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
    """Entry point of the `optimise` script.

    Faults go to stderr, and to stdout as JSON where JSON was asked for.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without, say, ≤
    try:
        sys.exit(cli.main(prog_name="optimise", standalone_mode=False) or 0)
    except OptimiseError as error:
        click.echo("\n".join(f"error: {line}" for line in str(error).splitlines()), err=True)
        _fail(error.exit_code, error.mistakes if isinstance(error, InputError) else (), str(error))
    except click.ClickException as error:
        error.show()
        _fail(error.exit_code, (), error.format_message())
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except OSError as error:
        message = f"cannot read or write{f' {error.filename}' if error.filename else ''}: "
        message += error.strerror or str(error)
        click.echo(f"error: {message}", err=True)
        _fail(1, (), message)
    except Exception as error:
        if os.environ.get("OPTIMISE_TRACEBACK"):
            raise
        message = f"internal error: {type(error).__name__}: {error}"
        click.echo(
            f"{message}\n"
            "This is a fault of the tool: please report it with the case. "
            "OPTIMISE_TRACEBACK=1 shows where it happened.",
            err=True,
        )
        _fail(1, (), message)


def _fail(exit_code: int, mistakes: tuple[Mistake, ...], message: str) -> NoReturn:
    """Exit; where JSON was asked for, say why on stdout too, so that it always holds JSON."""
    arguments = sys.argv[1:]
    if "--format=json" in arguments or ("--format", "json") in pairwise(arguments):
        found = mistakes or (Mistake("", "", message),)
        data = {"status": "error", "errors": [asdict(mistake) for mistake in found]}
        try:
            click.echo(json.dumps(data, indent=2, ensure_ascii=False))
        except BrokenPipeError:  # the reader has left; nothing may be flushed to it at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(exit_code)


if __name__ == "__main__":
    main()
