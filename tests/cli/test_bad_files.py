"""Files that cannot be a case: each is refused with its place, without a traceback."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import CHAT, edited, optimise, refused, written

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MAPPING_BOMB = "a: &a {x: 1, y: 2}\n" + "".join(
    f"{name}: &{name} {{p: *{before}, q: *{before}, r: *{before}}}\n"
    for before, name in zip("abcdefghijklmnop", "bcdefghijklmnopq", strict=True)
)

UNREADABLE = {
    "empty": ("", ": the file is empty, a case or a table was expected"),
    "comment only": ("# to do\n", ": the file is empty, a case or a table was expected"),
    "empty document": (
        "---\n...\n",
        "2: found nothing, expected a case with name, brief, model, hardware",
    ),
    "a scalar": ("hello\n", "1: found 'hello', expected a case with name, brief, model, hardware"),
    "a list": (
        "\n- 1\n- 2\n",
        "2: found [1, 2], expected a case with name, brief, model, hardware",
    ),
    "a number": ("7", "1: found 7, expected a case with name, brief, model, hardware"),
    "tab": (
        edited(4, "\tprompt_tokens: 1000"),
        "4: not valid YAML: while scanning a plain scalar (line 3), found a tab character "
        "that violates indentation",
    ),
    "unclosed bracket": (
        edited(10, "  gpus: [generic-80gb"),
        "11: not valid YAML: while parsing a flow sequence (line 10), did not find expected "
        "',' or ']'",
    ),
    "several documents": (
        CHAT + "---\nname: other\n",
        "23: not valid YAML: expected a single document in the stream (line 1), "
        "but found another document",
    ),
    "undefined alias": (
        edited(4, "  prompt_tokens: *length"),
        "4: not valid YAML: found undefined alias",
    ),
    "not UTF-8": (CHAT.encode() + b"# caf\xe9\n", "23: not UTF-8 text"),
    "UTF-16": (CHAT.encode("utf-16"), "1: not UTF-8 text"),
    "NUL byte": (
        edited(3, "  requests_per_s: 1\0"),
        "3: not valid YAML: character #x0000 is not allowed",
    ),
    "control character": (
        edited(8, "model: llama\a"),
        "8: not valid YAML: character #x0007 is not allowed",
    ),
    "1,000 deep list": (
        edited(22, "limits: " + "[" * 1000 + "]" * 1000),
        "22: not valid YAML: exceeded maximum nesting depth",
    ),
    "1,000 deep mapping": (
        edited(22, "limits: " + "{a: " * 1000 + "1" + "}" * 1000),
        "22: not valid YAML: exceeded maximum nesting depth",
    ),
    "100 deep": (edited(22, "limits: " + "[" * 100 + "]" * 100), "22: nested over 40 deep"),
    "a loop of aliases": (edited(22, "limits: &a {again: *a}"), "22: nested over 40 deep"),
    "billion laughs": (BOMB, "1: more than 20,000 values once its aliases are expanded"),
    "billion mappings": (MAPPING_BOMB, "1: more than 20,000 values once its aliases are expanded"),
    "5 MB": (
        CHAT + "#" * 5_000_000,
        ": more than 100,000 bytes, too large for a case",
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_is_no_case(tmp_path: Path, name: str) -> None:
    text, expected = UNREADABLE[name]
    path = written(tmp_path, text)
    refused(path, expected)


@pytest.mark.parametrize("n_values", [19_000, 99_000])
def test_a_long_but_flat_file_is_read_or_refused(tmp_path: Path, n_values: int) -> None:
    path = written(tmp_path, "[" + "1," * (n_values // 2) + "]")
    assert optimise(path).code == 1


def test_a_missing_file_names_the_files_like_it(tmp_path: Path) -> None:
    written(tmp_path, CHAT, "chat-large.yaml")
    written(tmp_path, CHAT, "other.yaml")
    near = tmp_path / "chat-large.yaml"
    refused(tmp_path / "chat-larg.yaml", f": no such file (did you mean {near}?)")
    refused(tmp_path / "zzzzzzzzzzzzzz.yaml", ": no such file")
    refused(tmp_path / "no-folder" / "chat.yaml", ": no such file")


def test_a_missing_bare_name_names_the_shipped_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = optimise("chat7b")
    assert ran.err == "error: chat7b: no such file or shipped case (did you mean chat-7b?)\n" or (
        ran.err.startswith("error: chat7b: no such file or shipped case (did you mean chat-7b or ")
    )
    assert (ran.code, ran.out) == (1, "")


def test_a_directory(tmp_path: Path) -> None:
    refused(tmp_path, ": is a directory, a YAML file was expected")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, CHAT)
    opened = Path.open

    def denied(self: Path, *arguments: Any) -> Any:
        if self == path:
            raise PermissionError(13, "Permission denied")
        return opened(self, *arguments)

    monkeypatch.setattr(Path, "open", denied)
    refused(path, ": cannot be read: Permission denied")


def test_an_endless_file() -> None:
    refused(Path("/dev/zero"), ": more than 100,000 bytes, too large for a case")


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b.yaml", ""])
def test_names_that_no_file_can_have(name: str) -> None:
    ran = optimise(name)
    assert ran.code == 1
    assert ran.out == ""
    assert ran.err.startswith("error: ")


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    path = written(tmp_path, b"\xef\xbb\xbf" + CHAT.replace("\n", "\r\n").encode())
    assert optimise(path, "--no-levers").code == 0


def test_anchors_and_aliases_work(tmp_path: Path) -> None:
    text = CHAT.replace("weights: fp16", "weights: &sixteen fp16").replace(
        "kv_cache: fp16", "kv_cache: *sixteen"
    )
    assert "*sixteen" in text
    ran = optimise(written(tmp_path, text), "--format", "json", "--no-levers")
    assert ran.code == 0
    assert ran.data["design"]["kv_cache"] == "fp16"


def test_a_mistake_in_an_alias_is_told_where_it_is_used(tmp_path: Path) -> None:
    text = CHAT.replace("answer_tokens: 300", "answer_tokens: &n -3").replace(
        "kv_heads: 32", "kv_heads: *n"
    )
    refused(
        written(tmp_path, text),
        "5: brief.answer_tokens: found -3, expected greater than 0",
        "15: levers.kv_heads[0]: found -3, expected greater than 0",
    )


def test_nothing_is_executed_by_tags(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    tag = f"!!python/object/apply:os.system ['touch {witness}']"
    optimise(written(tmp_path, edited(1, f"name: {tag}")))
    assert not witness.exists()
