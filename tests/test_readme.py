"""The README is run: each console block of an `optimise` command shows its real output."""

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.running import ROOT, optimise

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKES = {"make run": "optimise cases/chat-7b.yaml"}
"""What a make target runs once it has installed what it needs."""
BLOCK = re.compile(r"^( *)```console\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
SECONDS = re.compile(r'\d+\.\d+ s\b(?=\)|;| \()|(?<="seconds": )[\d.e-]+')


@dataclass(frozen=True)
class Example:
    """A command and what the README says it prints."""

    command: str
    expected: str


def examples(text: str) -> list[Example]:
    """Commands of all console blocks, each with the lines up to the next one."""
    found = []
    for indent, body in BLOCK.findall(text):
        lines = [line.removeprefix(indent) for line in body.split("\n")]
        for part in re.split(r"^\$ ", "\n".join(lines), flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            command = MAKES.get(command.strip(), command.strip())
            found.append(Example(command, expected.strip("\n")))
    return found


def runnable(example: Example) -> bool:
    """Installing, cloning and testing are left to the reader."""
    return example.command.split()[0] == "optimise"


def masked(text: str) -> str:
    lines = (line.rstrip() for line in SECONDS.sub("N s", text).splitlines())
    return "\n".join(lines).strip("\n")


EXAMPLES = [example for example in examples(README) if runnable(example)]


def test_the_readme_shows_commands() -> None:
    written = "```" in README
    assert EXAMPLES or not written, "the README has blocks, but no console block runs optimise"
    for example in EXAMPLES:
        assert not re.search(r"[|<>;&]", example.command), f"no shell here: {example.command}"


def test_the_examples_print_what_the_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order, in a copy of what a checkout's root holds for them."""
    shutil.copytree(ROOT / "cases", tmp_path / "cases")
    monkeypatch.chdir(tmp_path)
    for example in EXAMPLES:
        ran = optimise(*shlex.split(example.command, comments=True)[1:])
        printed, expected = masked(ran.out + ran.err), masked(example.expected)
        assert re.fullmatch(pattern(expected), printed, re.DOTALL), (
            f"{example.command} prints\n{printed}\nbut the README says\n{expected}"
        )


def pattern(expected: str) -> str:
    """A line of three dots stands for any lines."""
    parts = re.split(r"^\.\.\.$", expected, flags=re.MULTILINE)
    return ".*".join(re.escape(part) for part in parts)


def test_blocks_are_found_and_compared() -> None:
    text = "x\n```console\n$ make run\n$ optimise a  # note\nout\n\n  more\n$ optimise b\n```\n"
    assert examples(text) == [
        Example("optimise cases/chat-7b.yaml", ""),
        Example("optimise a  # note", "out\n\n  more"),
        Example("optimise b", ""),
    ]
    assert re.fullmatch(pattern("a\n...\nz"), "a\nb\nc\nz", re.DOTALL)
    assert not re.fullmatch(pattern("a\nz"), "a\nb\nz", re.DOTALL)
    assert masked("cheap (cp-sat, 0.05 s)") == masked("cheap (cp-sat, 1.25 s)")
    assert masked("10 req/s × 9.75 s = 98") != masked("10 req/s × 9.76 s = 98")
