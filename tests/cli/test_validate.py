"""`optimise validate` as users meet it: what it prints, writes and refuses."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from optimiser.catalogue.load import shipped
from optimiser.studies.validation_files import PREDICTED
from tests.cli.running import ROOT, optimise, written

HEADER = "engine,model,gpu,tp,precision,isl,osl,concurrency,ttft_ms,tpot_ms,out_tok_s_per_gpu\n"
ROW = "vllm,meta-llama/Llama-3.1-8B-Instruct,h100,1,bf16,1000,300,16,60,8,1900\n"
FULL = "vllm,Llama-3.1-70B-FP8,h100,1,fp8,1000,300,256,900,30,3000\n"
UNKNOWN = "vllm,Unheard-Of-7B,h100,1,bf16,1000,300,16,60,8,1900\n"
FIGURES = ("mean_error_frac", "median_error_frac", "p90_error_frac", "bias")
KEYS = {f"{kind}_{figure}" for kind in ("tpot", "ttft", "throughput") for figure in FIGURES}


def test_json_has_every_key() -> None:
    ran = optimise("validate", "--format", "json")
    assert (ran.code, ran.err) == (0, "")
    data: dict[str, Any] = ran.data
    named = ["rows", "left_out", "overall", "groups", "ttft_left_out", "leave_groups_out"]
    assert list(data) == named
    assert data["rows"] == sum(group["rows"] for group in data["groups"]) == 1122
    assert sum(data["left_out"].values()) == 1262 - 1122
    assert list(data["overall"]) == ["ideal", "measured"]
    assert set(data["overall"]["ideal"]) == set(data["leave_groups_out"]) == KEYS
    for group in data["groups"]:
        assert list(group) == ["model", "gpu", "engine", "rows", "ideal", "measured"]
        assert set(group["ideal"]) == set(group["measured"]) == KEYS
    seen, unseen = data["overall"]["measured"], data["leave_groups_out"]
    assert seen["tpot_mean_error_frac"] < unseen["tpot_mean_error_frac"] < 0.25
    assert data["ttft_left_out"]["more sequences than the cache holds"] == 55


def test_text_and_markdown_say_the_same() -> None:
    text, markdown = optimise("validate"), optimise("validate", "--format", "markdown")
    for ran in (text, markdown):
        assert ran.code == 0
        for part in ("Time per output token", "Time to first token", "Throughput", "Rows left out"):
            assert part in ran.out
    assert "1,122 rows · TPOT 17 % off" in text.out
    assert "all, groups not seen" in text.out


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + ROW + UNKNOWN + FULL, "runs.csv")
    data = optimise("validate", "--data", path, "--format", "json").data
    assert data["rows"] == 2
    assert data["left_out"] == {"unknown model Unheard-Of-7B": 1}
    assert data["ttft_left_out"] == {"more sequences than the cache holds": 1}
    assert "leave_groups_out" not in data
    full, small = data["groups"]
    assert (full["model"], full["gpu"], full["engine"]) == ("Llama-3.1-70B-FP8", "h100", "vllm")
    assert full["measured"]["ttft_bias"] is None
    assert small["measured"]["ttft_bias"] is not None
    # The prediction of one row follows from its error: |p / 8 - 1| with the sign of the bias.
    assert abs(small["measured"]["tpot_bias"]) == small["measured"]["tpot_mean_error_frac"]


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet"])
def test_predictions_are_written_beside_each_row(tmp_path: Path, name: str) -> None:
    path, out = written(tmp_path, HEADER + ROW + UNKNOWN + FULL, "runs.csv"), tmp_path / name
    ran = optimise("validate", "--data", path, "--predictions", out, "--format", "json")
    assert (ran.code, ran.err) == (0, "")
    known, unknown, full = _read(out)
    assert list(known) == [*HEADER.strip().split(","), *PREDICTED]
    assert known["model"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert not known["reason"]
    small = next(g for g in ran.data["groups"] if g["model"] == known["model"])["measured"]
    for kind, column, measured in (
        ("tpot", "predicted_tpot_ms", 8),
        ("ttft", "predicted_ttft_ms", 60),
        ("throughput", "predicted_tok_s_per_gpu", 1900),
    ):
        assert float(known[column]) / measured - 1 == pytest.approx(small[f"{kind}_bias"], abs=1e-5)
    assert unknown["reason"] == "unknown model Unheard-Of-7B"
    assert not any(unknown[name] for name in PREDICTED if name != "reason")
    assert full["reason"] == "no TTFT: more sequences than the cache holds"
    assert full["predicted_tpot_ms"]
    assert not full["predicted_ttft_ms"]


def _read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = pytest.importorskip("pyarrow.parquet").read_table(path)
        return rows.to_pylist()  # type: ignore[attr-defined,no-any-return]
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return list(csv.DictReader(text.splitlines()))


@pytest.mark.parametrize("ending", ["png", "svg", "html", "json", "md", "txt"])
def test_output_by_ending(tmp_path: Path, ending: str) -> None:
    if ending in ("png", "svg", "html"):
        pytest.importorskip("matplotlib")
    data = written(tmp_path, HEADER + ROW + FULL, "runs.csv")
    path = tmp_path / f"out.{ending}"
    ran = optimise("validate", "--data", data, "-o", path)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    raw = path.read_bytes()
    if ending == "png":
        assert raw.startswith(b"\x89PNG")
    elif ending == "svg":
        text = "".join(ElementTree.fromstring(raw).itertext())
        for label in ("measured TPOT, ms", "measured TTFT, ms", "ideal", "vllm"):
            assert label in text
        assert "mathdefault" not in text
    elif ending == "html":
        assert b"<svg" in raw
        assert b"Mean error by group" in raw
    elif ending == "json":
        assert json.loads(raw)["rows"] == 2
    else:
        assert b"Mean error by group" in raw


def test_a_table_that_nothing_can_be_said_of(tmp_path: Path) -> None:
    path, out = written(tmp_path, HEADER + UNKNOWN * 2, "runs.csv"), tmp_path / "out.csv"
    ran = optimise("validate", "--data", path, "--predictions", out, "--format", "json")
    message = f"{path}: no row can be compared: 2 × unknown model Unheard-Of-7B"
    assert (ran.code, ran.err) == (1, f"error: {message}\n")
    assert ran.data["status"] == "error"
    assert len(_read(out)) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--data", "nothing.csv"), "nothing.csv: no such file"),
        (("-o", "plot.gif"), "-o plot.gif: unknown ending, expected one of .png, .svg, .html"),
        (("-o", "none/plot.svg"), "-o none/plot.svg: cannot be written: no such directory"),
        (
            ("--predictions", "none/rows.csv"),
            "--predictions none/rows.csv: cannot be written",
        ),
        (("--predictions", "rows.txt"), "rows.txt: the ending must be one of .csv, .jsonl"),
    ],
)
def test_mistakes_are_told(arguments: tuple[str, ...], message: str) -> None:
    ran = optimise("validate", *arguments)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"error: {message}")


def test_a_missing_folder_is_found_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    from optimiser.studies import validation

    def working(*_: object) -> None:
        raise AssertionError("worked first")

    monkeypatch.setattr(validation, "validate_shipped", working)
    for option, name in (("-o", "scatter.svg"), ("-o", "all.json"), ("--predictions", "rows.csv")):
        ran = optimise("validate", option, f"none/{name}")
        assert ran.code == 1
        assert "cannot be written: no such directory" in ran.err


def test_the_shipped_table_can_be_given_too() -> None:
    path = shipped("models") / "measurements" / "e2e.csv"
    given = optimise("validate", "--data", path, "--format", "json").data
    default = optimise("validate", "--format", "json").data
    assert "leave_groups_out" in default
    assert given == {name: value for name, value in default.items() if name in given}


def test_neither_scipy_nor_matplotlib_is_imported() -> None:
    code = (
        "import sys; from click.testing import CliRunner\n"
        "from optimiser.cli.validate import command\n"
        "ran = CliRunner().invoke(command, ['--format', 'json'])\n"
        "print(ran.exit_code, [m for m in ('scipy', 'matplotlib') if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert ran.stdout == "0 []\n"
