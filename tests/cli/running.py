"""Runs the command line in this process, as the `optimise` script would."""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from optimiser.cli.main import main

WEIGHTS = (
    "fp32, fp16, fp8, fp8-block, int8, w8a8-int8, mxfp4, nvfp4, int4, int4-g128, int4-g64, int4-g32"
)
"""Weight formats as messages list them."""
ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "cases"

CHAT = """\
name: chat-7b
brief:
  requests_per_s: 10
  prompt_tokens: 1000
  answer_tokens: 300
  ttft_target_s: 1.0
  tpot_target_ms: 50
model: llama-2-7b
hardware:
  gpus: [generic-80gb]
  usd_per_gpu_hour: 2.00
levers:
  weights: fp16
  kv_cache: fp16
  kv_heads: 32
  tensor_parallel: 1
  batch: {most: 512}
assumptions:
  efficiency: 1.0
  headroom: 1.3
  memory_reserve: 0.10
limits: {}
"""
"""The worked example; tests cite its lines, so name stands on line 1 and limits on line 22."""


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Standard output as JSON; fails unless it is one JSON value and nothing else."""
        return json.loads(self.out)


def optimise(*arguments: object) -> Ran:
    """Run `optimise` with these arguments."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        patch.object(sys, "argv", ["optimise", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    assert isinstance(code, int)
    ran = Ran(code, out.getvalue(), err.getvalue())
    assert "Traceback" not in ran.out + ran.err
    assert "internal error" not in ran.err, ran.err
    return ran


def edited(line: int, text: str) -> str:
    """The worked example with one of its lines, counted from 1, replaced."""
    lines = CHAT.splitlines()
    lines[line - 1] = text
    return "\n".join(lines) + "\n"


def written(folder: Path, text: str | bytes, name: str = "case.yaml") -> Path:
    """A file in a folder."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refused(path: Path, *expected: str, arguments: tuple[object, ...] = ()) -> None:
    """Check that planning a file fails with exactly these mistakes, in text and in JSON.

    Each is `LINE: text` without the file's name, or `: text` for the file as a whole.
    """
    lines = [f"error: {path}{':' if text[0].isdigit() else ''}{text}" for text in expected]
    text = optimise(path, *arguments)
    assert text.err.splitlines() == lines
    assert (text.code, text.out) == (1, "")
    as_json = optimise(path, *arguments, "--format", "json")
    assert as_json.code == 1
    assert as_json.err == text.err
    assert set(as_json.data) == {"status", "errors"}
    assert as_json.data["status"] == "error"
    assert [_line(error) for error in as_json.data["errors"]] == lines


def _line(error: dict[str, Any]) -> str:
    field = f" {error['field']}:" if error["field"] else ""
    near = f" (did you mean {' or '.join(error['nearest'])}?)" if error["nearest"] else ""
    return f"error: {error['where']}:{field} {error['message']}{near}"
