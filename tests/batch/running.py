"""The command, in this process and in processes of its own."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.cli.running import optimise

COMMAND = [sys.executable, "-m", "optimiser", "batch"]


@dataclass(frozen=True)
class Done:
    """What a run left behind."""

    exit_code: int
    stdout: str
    stderr: str


def invoke(*arguments: object) -> Done:
    """`optimise batch` in this process, one worker."""
    ran = optimise("batch", *arguments, "--jobs", "1")
    assert "internal error" not in ran.err, ran.err
    return Done(ran.code, ran.out, ran.err)


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
