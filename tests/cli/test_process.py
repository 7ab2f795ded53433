"""Real processes: what a shell sees, and what is imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from optimiser import __version__
from tests.cli.running import CASES, CHAT, ROOT, optimise, written

HEAVY = ("ortools", "numpy", "pulp", "pydantic", "highspy")


def python(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=60,
        check=False,
    )


def process(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "optimiser", *arguments, **variables)


def test_stdout_is_json_alone() -> None:
    ran = process("cases/chat-7b.yaml", "--format", "json", "--set", "brief.ttft_target_s=1000")
    assert ran.returncode == 0
    assert json.loads(ran.stdout)["design"]["gpus"] == 3
    assert ran.stderr.startswith("warning: ")


def test_a_bad_case_goes_to_stderr(tmp_path: Path) -> None:
    path = written(tmp_path, CHAT.replace("1000", "many"))
    ran = process(path)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert f"error: {path}:4: brief.prompt_tokens: found 'many'" in ran.stderr


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_any_terminal_encoding(encoding: str) -> None:
    ran = process("chat-7b", "--no-levers", PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "3 GPUs" in ran.stdout


@pytest.mark.parametrize("arguments", [["schema"], ["no-such-case", "--format", "json"]])
def test_a_reader_that_leaves_early_gets_no_traceback(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        ran = subprocess.run(
            [sys.executable, "-m", "optimiser", *arguments],
            cwd=ROOT,
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert "Traceback" not in ran.stderr
    assert "BrokenPipe" not in ran.stderr
    assert ran.returncode == 1


def test_a_shell_can_complete_commands() -> None:
    ran = process(_OPTIMISE_COMPLETE="bash_complete", COMP_WORDS="optimise ", COMP_CWORD="1")
    names = [line.rpartition(",")[2] for line in ran.stdout.splitlines()]
    assert {"plan", "check", "new", "schema"} <= set(names)


@pytest.mark.parametrize("what", ["import optimiser", "import optimiser.cli.main"])
def test_importing_is_light(what: str) -> None:
    code = f"{what}, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert python("-c", code.replace(", sys", "\nimport sys", 1)).stdout == "[]\n"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["plan", "--help"]])
def test_help_is_light(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        f"sys.argv = ['optimise', *{arguments!r}]\n"
        "from optimiser.cli.main import main\n"
        "try:\n    main()\n"
        f"finally:\n    print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)\n"
    )
    ran = python("-c", code)
    assert ran.stderr == "[]\n"
    assert ran.stdout


def test_the_version() -> None:
    assert optimise("--version").out == f"optimise, version {__version__}\n"


@pytest.mark.parametrize("command", [[], ["plan"], ["check"], ["new"], ["schema"]])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_help_shows_an_example(command: list[str], flag: str) -> None:
    ran = optimise(*command, flag)
    assert (ran.code, ran.err) == (0, "")
    assert f"Example: optimise {' '.join(command[:1]) if command != ['plan'] else ''}" in ran.out


def test_the_main_help_lists_every_command() -> None:
    text = optimise("--help").out
    for name in ("plan", "check", "new", "schema"):
        assert f"\n  {name} " in text


def test_no_arguments_show_the_help() -> None:
    ran = optimise()
    assert ran.code == 2
    assert "Usage: optimise [OPTIONS] COMMAND" in ran.out + ran.err
    assert "Example: optimise cases/chat-7b.yaml" in ran.out + ran.err


def test_the_examples_of_the_help_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for command in ([], ["plan"], ["check"]):
        text = " ".join(optimise(*command, "--help").out.split())
        example = text.split("Example: optimise ")[1]
        assert optimise(*example.split()).code in (0, 3)
    monkeypatch.chdir(tmp_path)
    assert optimise("new", "chat").code == 0
    assert optimise("chat.yaml", "--no-levers").code == 0


def fails_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def load(*_: object) -> None:
        raise error

    monkeypatch.setattr("optimiser.case.Case.of_document", load)


def test_a_fault_of_the_tool_is_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from optimiser.cli.main import main

    fails_with(monkeypatch, ZeroDivisionError("by zero"))
    monkeypatch.setattr(sys, "argv", ["optimise", str(CASES / "chat-7b.yaml"), "--format", "json"])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert ended.value.code == 1
    assert err.startswith("internal error: ZeroDivisionError: by zero\n")
    assert "OPTIMISE_TRACEBACK=1" in err
    assert json.loads(out)["errors"][0]["message"] == "internal error: ZeroDivisionError: by zero"
    monkeypatch.setenv("OPTIMISE_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main()


def test_an_interrupt_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    fails_with(monkeypatch, KeyboardInterrupt())
    ran = optimise(CASES / "chat-7b.yaml")
    assert (ran.code, ran.out, ran.err.strip()) == (130, "", "interrupted")


def test_a_failed_verification_has_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from optimiser.errors import VerificationError

    fails_with(monkeypatch, VerificationError("the verifier rejects the design"))
    ran = optimise(CASES / "chat-7b.yaml", "--format=json")
    assert ran.code == 5
    assert ran.err == "error: the verifier rejects the design\n"
    assert ran.data["errors"][0]["message"] == "the verifier rejects the design"


def test_a_full_disk_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    fails_with(monkeypatch, OSError(28, "No space left on device"))
    ran = optimise(CASES / "chat-7b.yaml")
    assert (ran.code, ran.err) == (1, "error: cannot read or write: No space left on device\n")
