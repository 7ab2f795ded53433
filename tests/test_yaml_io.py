"""YAML scalars by the 1.2 core rules, and files written whole or not at all."""

import math
from pathlib import Path

import pytest

from optimiser.errors import InputError
from optimiser.files import replacing, write
from optimiser.yaml_io import Document, dotted, override, parse, read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("6.74e9", 6.74e9),
        ("1e3", 1000.0),
        ("1E-3", 0.001),
        ("+1.5", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("10", 10),
        ("-3", -3),
        ("010", 10),
        ("0x10", "0x10"),
        ("0o10", "0o10"),
        ("1_000", "1_000"),
        ("1,000", "1,000"),
        ("1:30", "1:30"),
        ("2026-10-25", "2026-10-25"),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("true", True),
        ("FALSE", False),
        ("tRue", "tRue"),
        ("null", None),
        ("~", None),
        ("", None),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("+.Inf", math.inf),
        ("inf", "inf"),
        ("nan", "nan"),
        ("'10'", "10"),
        ('"true"', "true"),
        ("1e400", math.inf),
        ("-1e400", -math.inf),
        ("1e-400", 0.0),
        ("1e-320", 0.0),
        ("1e-100", 1e-100),
        ("9" * 300, int("9" * 300)),
        ("9" * 301, 1e301),
        ("9" * 5000, math.inf),
        ("e5", "e5"),
        (".", "."),
        ("-", [None]),
    ],
)
def test_scalars(text: str, value: object) -> None:
    found = parse(f"x: {text}" if text != "-" else "x:\n  -", "t").data["x"]
    assert found == value
    assert type(found) is type(value)


def test_not_a_number() -> None:
    assert all(math.isnan(parse(f"x: {text}", "t").data["x"]) for text in (".nan", ".NaN", ".NAN"))


def test_every_value_has_its_line() -> None:
    document = parse("a: 1\nb:\n  c: [2,\n    3]\n  d: {e: 4}\n", "file")
    assert document.where(("a",)) == "file:1"
    assert document.where(("b",)) == "file:2"
    assert document.where(("b", "c", 0)) == "file:3"
    assert document.where(("b", "c", 1)) == "file:4"
    assert document.where(("b", "d", "e")) == "file:5"
    # what is not there is where its section is
    assert document.where(("b", "d", "zz")) == "file:5"
    assert document.where(("zz",)) == "file:1"
    assert Document("made", {}).where(("x",)) == "made"


def test_dotted_locations() -> None:
    assert dotted(("hardware", "gpus", 0, "name")) == "hardware.gpus[0].name"
    assert dotted((0, "a")) == "[0].a"
    assert dotted(()) == ""


def test_an_override_leaves_the_document_as_it_was() -> None:
    document = parse("a: {b: [1]}\n", "file")
    changed = override(document, ["a.c=2", "d.e.f=[3]"])
    assert document.data == {"a": {"b": [1]}}
    assert changed.data == {"a": {"b": [1], "c": 2}, "d": {"e": {"f": [3]}}}
    assert changed.where(("a", "b")) == "file:1"
    assert changed.where(("a", "c")) == "--set a.c=2"
    assert changed.where(("d",)) == "--set d.e.f=[3]"
    assert changed.where(("d", "e", "f", 0)) == "--set d.e.f=[3]"
    assert override(changed, []).where(("a", "c")) == "--set a.c=2"


def test_an_override_of_something_that_is_no_section() -> None:
    with pytest.raises(InputError, match="is not a section, so it has no field a"):
        override(parse("- 1", "file"), ["a=1"])


def test_all_duplicates_are_told() -> None:
    with pytest.raises(InputError) as raised:
        parse("a: 1\nb: {c: 1, c: 2}\na: 3\na: 4\n", "file")
    assert [str(mistake) for mistake in raised.value.mistakes] == [
        "file:2: b.c: duplicate key, first given on line 2",
        "file:3: a: duplicate key, first given on line 1",
        "file:4: a: duplicate key, first given on line 1",
    ]


def test_a_written_file_is_whole_and_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, "é\n")
    write(path, "second\n")
    assert path.read_text() == "second\n"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
    assert path.stat().st_mode & 0o777 != 0o600, "as other files, not as temporary ones"


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, "old")

    def fail() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_is_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        write(tmp_path / "file", "x")
    assert list(tmp_path.iterdir()) == []


def test_reading_takes_any_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_bytes(b"a: 1\r\nb: 2\r\n")
    document = read(path)
    assert document.data == {"a": 1, "b": 2}
    assert document.where(("b",)) == f"{path}:2"


def test_a_section_in_a_list_is_set_by_its_place_or_its_name() -> None:
    text = "workloads:\n- {name: chat, rate: 1}\n- {name: code, rate: 2}\ngpus: [l4]\n"
    document = parse(text, "case.yaml")
    made = override(document, ["workloads.0.rate=3", "workloads.code.rate=4", "workloads.1.x.y=5"])
    chat, code = made.data["workloads"]
    assert (chat, code["rate"], code["x"]) == ({"name": "chat", "rate": 3}, 4, {"y": 5})
    assert document.data["workloads"][0]["rate"] == 1
    assert made.where(("workloads", 1, "rate")) == "--set workloads.code.rate=4"
    assert made.where(("workloads", 0, "name")) == "case.yaml:2"
    for setting in ("workloads.2.rate=1", "workloads.other.rate=1", "gpus.0.x=1", "gpus.0=l4"):
        with pytest.raises(InputError, match="is not a section, so it has no field"):
            override(document, [setting])
