"""The command, in this process and in processes of its own."""

import json
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from optimiser.cli.main import cli

COMMAND = [sys.executable, "-m", "optimiser", "batch"]


def invoke(*arguments: object) -> Result:
    """`optimise batch` in this process, one worker: a fault of the test is a traceback."""
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(cli, ["batch", *words, "--jobs", "1"], catch_exceptions=False)


def run(*arguments: object, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """`optimise batch` in a process of its own."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


def start(*arguments: object) -> subprocess.Popen[str]:
    """The same, left running as the head of a process group."""
    command = [*COMMAND, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
