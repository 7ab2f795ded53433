"""`optimise import`: every shape of the table, a round trip, a case beside it, and broken files."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.running import CHAT, Ran, optimise, written

ROWS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "model_shapes.json").read_text()
)
BY_NAME = {row["model"].split("/")[1]: row for row in ROWS}
NULL_WIDTHS = "Llama-3_3-Nemotron-Super-49B-v1"
READABLE = [name for name in BY_NAME if name != NULL_WIDTHS]
SMALL = BY_NAME["Qwen3-0.6B"]


def imported(folder: Path, data: object, *options: object) -> Ran:
    """`optimise import` of a config that holds this."""
    path = written(folder, json.dumps(data), "config.json")
    return optimise("import", path, *options, "--format", "json")


def refused(ran: Ran, *messages: str) -> None:
    """Check for exit 1, nothing but errors on stdout, and these on stderr."""
    assert ran.code == 1
    assert set(ran.data) == {"status", "errors"}
    assert all(line.startswith("error: ") for line in ran.err.splitlines())
    for message in messages:
        assert message in ran.err


@pytest.mark.parametrize("name", READABLE)
def test_every_shape_of_the_table(tmp_path: Path, name: str) -> None:
    row, context = BY_NAME[name], 5000
    data = imported(tmp_path, row, "--context", context).data
    counted, active = row.get("counted_params_b"), row.get("counted_active_params_b")
    if counted is not None:
        assert data["params_total"] == pytest.approx(counted * 1e9, rel=0.001)
    if active is not None:
        assert data["params_active"] == pytest.approx(active * 1e9, rel=0.005)
    runs = data["shape"]["cache"]
    per_token = sum(2 * run["layers"] * run["numbers_per_token"] for run in runs)
    assert data["kv_bytes_per_token"] == per_token
    kept = sum(
        2 * run["layers"] * run["numbers_per_token"] * min(context, run["window_tokens"] or context)
        + run["layers"] * run["state_bytes"]
        for run in runs
    )
    assert (data["context"], data["kv_bytes_per_sequence"]) == (context, kept)


@pytest.mark.parametrize(
    ("name", "context", "kv_bytes"),
    [
        ("Meta-Llama-3.1-8B", 5000, 5000 * 131_072),
        ("Mistral-7B-v0.1", 5000, 4096 * 131_072),  # a window on all layers
        ("gemma-2-9b", 5000, (21 * 5000 + 21 * 4096) * 2 * 8 * 256 * 2),
        ("gemma-2-9b", 4096, 42 * 4096 * 2 * 8 * 256 * 2),
        ("gpt-oss-120b", 5000, 18 * (5000 + 128) * 2 * 8 * 64 * 2),
        ("DeepSeek-V3", 5000, 5000 * 61 * 576 * 2),  # latent: no factor of 2
        ("falcon-7b", 5000, 5000 * 32 * 2 * 1 * 64 * 2),
    ],
)
def test_cache_of_a_sequence(tmp_path: Path, name: str, context: int, kv_bytes: int) -> None:
    data = imported(tmp_path, BY_NAME[name], "--context", context).data
    assert data["kv_bytes_per_sequence"] == kv_bytes


def test_the_context_is_the_models_longest_where_none_is_given(tmp_path: Path) -> None:
    data = imported(tmp_path, SMALL).data
    assert data["context"] == SMALL["max_position_embeddings"]
    assert data["kv_bytes_per_sequence"] == data["context"] * data["kv_bytes_per_token"]


def test_null_widths_are_all_named(tmp_path: Path) -> None:
    ran = imported(tmp_path, BY_NAME[NULL_WIDTHS])
    refused(ran, "intermediate_size: found null, expected a whole number above 0")
    fields = {error["field"] for error in ran.data["errors"]}
    assert fields == {"block_configs", "intermediate_size", "num_key_value_heads"}
    path = tmp_path / "config.json"
    ran = optimise("import", path, "-o", tmp_path / "out.yaml")
    assert (ran.code, ran.out) == (1, "")
    assert not (tmp_path / "out.yaml").exists()


@pytest.mark.parametrize("name", READABLE)
def test_what_is_written_loads_and_says_the_same(tmp_path: Path, name: str) -> None:
    config = written(tmp_path, json.dumps(BY_NAME[name]), "config.json")
    (tmp_path / "llms").mkdir()
    output = tmp_path / "llms" / "mine.yaml"
    ran = optimise("import", config, "--as-of", "2026-01-02", "-o", output)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    told = yaml.safe_load(output.read_text())
    assert told["name"] == "mine"
    figures = set(told) - {"name", "architecture", "sources"}
    assert set(told["sources"]) == figures
    assert all(
        origin == {"source": str(config), "as_of": "2026-01-02"}
        for origin in told["sources"].values()
    )
    at = ("--gpu", "b300", "--context", 1000, "--format", "json")
    by_file = optimise("fit", config, *at).data
    by_name = optimise("fit", "mine", *at, "--catalogue", tmp_path).data
    assert {**by_name, "model": ""} == {**by_file, "model": ""}


CASE = """\
name: mine
brief: {requests_per_s: 2, prompt_tokens: 500, answer_tokens: 100, ttft_target_s: 2,
  tpot_target_ms: 50}
model: MODEL
hardware: {gpus: [l4], usd_per_gpu_hour: 0.8}
assumptions: {memory: itemised}
"""


def test_an_imported_model_plans_by_its_name(tmp_path: Path) -> None:
    config = written(tmp_path, json.dumps(SMALL), "config.json")
    (tmp_path / "llms").mkdir()
    optimise("import", config, "-o", tmp_path / "llms" / "mine.yaml")
    case = written(tmp_path, CASE.replace("MODEL", "mine"))
    unknown = optimise(case, "--no-levers")
    assert (unknown.code, unknown.out) == (1, "")
    assert "unknown model 'mine'" in unknown.err
    ran = optimise(case, "--no-levers", "--catalogue", tmp_path, "--format", "json")
    assert (ran.code, ran.data["design"]["model"]) == (0, "mine")


@pytest.mark.parametrize("spelled", ["./model/config.json", "model/config.json"])
def test_a_case_names_a_config_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelled: str
) -> None:
    (tmp_path / "model").mkdir()
    written(tmp_path / "model", json.dumps(SMALL), "config.json")
    case = written(tmp_path, CASE.replace("MODEL", spelled))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    ran = optimise(case, "--no-levers", "--format", "json")
    assert (ran.code, ran.data["design"]["model"]) == (0, "model")


def test_a_case_whose_config_is_broken_names_the_line_and_the_fields(tmp_path: Path) -> None:
    written(tmp_path, json.dumps({**SMALL, "hidden_size": -1, "vocab_size": "x"}), "config.json")
    case = written(tmp_path, CASE.replace("MODEL", "./config.json"))
    ran = optimise(case, "--format", "json")
    refused(ran, f"{case}:4: model: ")
    assert "hidden_size" in ran.err


def test_the_index_beside_it_gives_exact_bytes(tmp_path: Path) -> None:
    total = 1_503_300_328
    index = {"metadata": {"total_size": total}, "weight_map": {}}
    written(tmp_path, json.dumps(index), "model.safetensors.index.json")
    assert imported(tmp_path, SMALL).data["weight_bytes"] == total
    at = ("--gpu", "l4", "--tensor-parallel", 1, "--format", "json")
    said = optimise("fit", tmp_path / "config.json", *at).data
    assert said["weight_gib_per_gpu"] * 2**30 == pytest.approx(total)
    # another format than the checkpoint's own is counted from the shapes
    other = optimise("fit", tmp_path / "config.json", *at, "--weights", "fp8").data
    (tmp_path / "model.safetensors.index.json").unlink()
    without = optimise("fit", tmp_path / "config.json", *at, "--weights", "fp8").data
    assert other["weight_gib_per_gpu"] == without["weight_gib_per_gpu"]
    assert imported(tmp_path, SMALL).data["weight_bytes"] is None


@pytest.mark.parametrize(
    "index",
    ["{", "[]", "{}", '{"metadata": 3}', '{"metadata": {"total_size": "many"}}']
    + [f'{{"metadata": {{"total_size": {size}}}}}' for size in ("0", "-5", "true", "1.5", "1e400")],
)
def test_a_bad_index_is_an_error(tmp_path: Path, index: str) -> None:
    written(tmp_path, index, "model.safetensors.index.json")
    refused(imported(tmp_path, SMALL), "model.safetensors.index.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b"not json", "JSON"),
        (b"\xff\xfe\x00", "JSON"),
        (b"[1, 2]", "object"),
        (b"3", "object"),
        (b"null", "object"),
        (b'{"model_type": "llama"', "JSON"),
        (b"[" * 100_000, "JSON"),
        (b'{"a":' * 50_000, "JSON"),
    ],
)
def test_what_is_no_config_is_said(tmp_path: Path, content: bytes, message: str) -> None:
    path = written(tmp_path, content, "config.json")
    refused(optimise("import", path, "--format", "json"), message)


def test_missing_files_directories_and_huge_files(tmp_path: Path) -> None:
    missing = tmp_path / "config.json"
    refused(optimise("import", missing, "--format", "json"), f"{missing}: no such file")
    refused(optimise("import", tmp_path, "--format", "json"), "config.json: no such file")
    written(tmp_path, json.dumps(SMALL), "config.json")
    whole = optimise("import", tmp_path, "--format", "json")
    assert whole.data["name"] == tmp_path.name
    huge = written(tmp_path, b'{"a": "' + b"x" * 6_000_000 + b'"}', "huge.json")
    refused(optimise("import", huge, "--format", "json"), "a config.json was expected")


def test_an_unknown_architecture_is_never_guessed(tmp_path: Path) -> None:
    data = {**SMALL, "model_type": "brandnew", "architectures": ["BrandNewForCausalLM"]}
    refused(imported(tmp_path, data), "brandnew")
    near = {**SMALL, "model_type": "qwen4", "architectures": ["Qwen4ForCausalLM"]}
    refused(imported(tmp_path, near), "qwen4")


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    config = written(tmp_path, json.dumps(SMALL), "config.json")
    ran = optimise("import", config, "-o", tmp_path / "no" / "such" / "folder.yaml")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: ")


def test_the_worked_example_takes_a_config(tmp_path: Path) -> None:
    written(tmp_path, json.dumps(BY_NAME["Llama-2-7b-hf"]), "config.json")
    case = written(tmp_path, CHAT.replace("model: llama-2-7b", "model: ./config.json"))
    ran = optimise(case, "--no-levers", "--format", "json")
    assert (ran.code, ran.data["design"]["weights"]) == (0, "fp16")


numbers = st.one_of(
    st.integers(-3, 70), st.integers(), st.floats(), st.sampled_from([10**400, 1e300, 5e-324, 0.5])
)
values = st.recursive(
    st.one_of(numbers, st.booleans(), st.none(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
FIELDS = sorted({key for row in ROWS for key in row if key not in ("quirks", "source")})


@settings(max_examples=200)
@given(
    st.sampled_from(READABLE),
    st.lists(st.tuples(st.sampled_from(FIELDS), st.one_of(numbers, values)), max_size=3),
    st.lists(st.sampled_from(FIELDS), max_size=2),
    st.sampled_from(["import", "fit"]),
)
def test_mutated_configs(
    name: str, changes: list[tuple[str, Any]], removed: list[str], command: str
) -> None:
    data = {**BY_NAME[name], **dict(changes)}
    for field in removed:
        data.pop(field, None)
    with TemporaryDirectory() as folder:
        path = written(Path(folder), json.dumps(data), "config.json")
        options = ("--gpu", "h200", "--tensor-parallel", 1) if command == "fit" else ()
        ran = optimise(command, path, *options, "--format", "json")
    if ran.code == 1:
        assert "error: " in ran.err
        assert ran.data["status"] == "error"
    elif command == "import":
        assert ran.code == 0
        for key in ("params_total", "params_active", "kv_bytes_per_sequence"):
            assert ran.data[key] > 0
    else:
        assert ran.code in (0, 3)
        assert ran.data["weight_gib_per_gpu"] > 0


@settings(max_examples=100)
@given(st.binary(max_size=60))
def test_random_bytes(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = written(Path(folder), content, "config.json")
        refused(optimise("import", path, "--format", "json"))
