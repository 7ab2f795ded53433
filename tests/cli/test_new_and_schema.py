"""`optimise new` and `optimise schema`."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from optimiser import Case
from tests.cli.running import CASES, optimise


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_new_case_plans_as_it_stands(folder: Path) -> None:
    ran = optimise("new", "chat")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "wrote chat.yaml; plan it with: optimise chat.yaml\n"
    assert sorted(path.name for path in folder.iterdir()) == ["case.schema.json", "chat.yaml"]
    first = (folder / "chat.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=case.schema.json"
    assert (folder / "case.schema.json").read_text() == optimise("schema").out
    planned = optimise("chat.yaml", "--format", "json")
    assert planned.code == 0
    assert (planned.data["status"], planned.data["case"]) == ("optimal", "chat")


def test_what_a_new_case_comments_out_can_be_commented_in(folder: Path) -> None:
    optimise("new", "chat")
    text = (folder / "chat.yaml").read_text()
    for line in (
        "# model: {name: mine,",
        "  # usd_per_gpu_hour:",
        "  # kv_heads: 8",
        "  # latency: ideal",
        "  # efficiency: 0.6",
        "  # memory_reserve: 0.10",
    ):
        assert f"\n{line}" in text
        text = text.replace(f"\n{line}", f"\n{line.replace('# ', '', 1)}")
    for line in ("  latency: measured", "  serving_engine:", "  memory: itemised"):
        assert f"\n{line}" in text
        text = text.replace(f"\n{line}", f"\n  # {line.strip()}")
    text = text.replace("model: llama-3.1-8b", "# model: llama-3.1-8b").replace(
        "  #    usd", "    usd"
    )
    inline = text.index("  # - {name: my-gpu")
    text = text[:inline] + text[inline:].replace("  # - {name", "  - {name", 1)
    text = text.replace("  gpus: [l4, l40s, h100-sxm] #", "  gpus: #")
    case = Case.of_text(text)
    assert (case.model.name, case.hardware.gpus[0].name) == ("mine", "my-gpu")
    assert case.hardware.usd_per_gpu_hour == 2.0
    assert case.kv_heads == (8,)


def test_it_does_not_overwrite(folder: Path) -> None:
    (folder / "chat.yaml").write_text("precious")
    ran = optimise("new", "chat")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "error: chat.yaml: is there already; --force replaces it\n"
    assert (folder / "chat.yaml").read_text() == "precious"
    assert not (folder / "case.schema.json").exists()
    assert optimise("new", "chat", "--force").code == 0
    assert Case.load("chat.yaml").name == "chat"


@pytest.mark.parametrize("name", ["chat.yaml", "chat.yml", "sub/chat", "sub/chat.yaml"])
def test_a_name_may_be_a_path(folder: Path, name: str) -> None:
    (folder / "sub").mkdir()
    assert optimise("new", name).code == 0
    path = folder / (name if "." in name else f"{name}.yaml")
    assert Case.load(path).name == "chat"
    assert (path.parent / "case.schema.json").is_file()


@pytest.mark.parametrize(
    "name", ["null", "12", "1e3", "true", "a: b", "a #b", "a b", "- x", "'q", '"', "é", "{x}", "*a"]
)
def test_a_name_that_yaml_would_misread_is_quoted(folder: Path, name: str) -> None:
    ran = optimise("new", "--", name)
    assert ran.code == 0
    assert Case.load(f"{name}.yaml").name == name
    if " " in name:
        assert f"optimise '{name}.yaml'" in ran.out


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "x/", ".yaml", "\x1b[31m"])
def test_a_name_that_no_case_can_have(folder: Path, name: str) -> None:
    ran = optimise("new", name)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"error: NAME: {name!r} cannot name a case\n"
    assert list(folder.iterdir()) == []


def test_a_missing_folder(folder: Path) -> None:
    ran = optimise("new", "no/chat")
    assert ran.err == "error: no/chat.yaml: no such folder: no\n"
    assert (ran.code, list(folder.iterdir())) == (1, [])


def test_the_schema_is_the_one_beside_the_cases() -> None:
    ran = optimise("schema")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (CASES / "case.schema.json").read_text(encoding="utf-8")


def test_every_field_of_the_schema_is_explained() -> None:
    schema = optimise("schema").data

    def walk(node: Any, name: str) -> None:
        for field, inner in node.get("properties", {}).items():
            assert inner.get("description") or inner.get("$ref"), f"{name}.{field}"

    walk(schema, "Case")
    for name, node in schema["$defs"].items():
        assert node.get("description"), name
        assert node["additionalProperties"] is False, name
        walk(node, name)


@pytest.mark.parametrize("path", sorted(CASES.glob("*.yaml")), ids=lambda path: path.stem)
def test_each_shipped_case_names_the_schema_and_fits_it(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# yaml-language-server: $schema=case.schema.json"
    schema = json.loads((CASES / "case.schema.json").read_text(encoding="utf-8"))
    data = yaml.safe_load("\n".join(lines))
    assert data["name"] == path.stem
    assert misfits(data, schema, schema) == []


def test_the_schema_refuses_what_the_checks_refuse() -> None:
    schema = json.loads((CASES / "case.schema.json").read_text(encoding="utf-8"))
    data = yaml.safe_load((CASES / "chat-7b.yaml").read_text(encoding="utf-8"))
    data["brief"]["request_per_s"] = 1
    data["brief"]["ttft_target_s"] = 0
    data["levers"]["batch"] = {"most": "many"}
    assert misfits(data, schema, schema) == [
        "brief.ttft_target_s: 0",
        "brief.request_per_s: unknown",
        "levers.batch.most: 'many'",
    ]


KINDS = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "object": dict,
    "array": list,
    "boolean": bool,
    "null": type(None),
}


def misfits(value: Any, node: dict[str, Any], schema: dict[str, Any], place: str = "") -> list[str]:
    """Where a value breaks a JSON schema, for the keywords that the case's schema uses."""
    known = {
        *("$ref", "$defs", "anyOf", "type", "properties", "required", "additionalProperties"),
        *("items", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength"),
        *("minProperties", "pattern", "enum", "default", "title", "description"),
    }
    assert set(node) <= known, set(node) - known
    if "$ref" in node:
        node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
    if "anyOf" in node:
        tried = [misfits(value, option, schema, place) for option in node["anyOf"]]
        return [] if [] in tried else max(tried, key=len)
    kind = KINDS[node["type"]] if "type" in node else object
    wrong = not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
    if not wrong and isinstance(value, int | float):
        wrong = not (
            node.get("minimum", value) <= value <= node.get("maximum", value)
            and node.get("exclusiveMinimum", value - 1) < value
            and value < node.get("exclusiveMaximum", value + 1)
        )
    if wrong:
        return [f"{place}: {value!r}"]
    found = []
    if isinstance(value, dict):
        fields = node.get("properties", {})
        found += [
            f"{place}.{name}: missing" for name in node.get("required", []) if name not in value
        ]
        for name, inner in value.items():
            here = f"{place}.{name}" if place else name
            if name in fields:
                found += misfits(inner, fields[name], schema, here)
            elif node.get("additionalProperties") is False:
                found.append(f"{here}: unknown")
    if isinstance(value, list):
        for i, inner in enumerate(value):
            found += misfits(inner, node["items"], schema, f"{place}[{i}]")
    return found
