"""`optimise sweep` as users meet it: what it prints, writes and refuses."""

import csv
import importlib.util
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from optimiser.catalogue.load import shipped
from tests.cli.running import Ran, optimise

CHAT = shipped("cases") / "chat-7b.yaml"
OPEN = shipped("cases") / "chat-7b-open.yaml"
RATE = "brief.requests_per_s=1:40:log:7"


def sweep(*arguments: object) -> Ran:
    """Run `optimise sweep` with these arguments."""
    ran = optimise("sweep", *arguments)
    assert "internal error" not in ran.err, ran.err
    return ran


def test_text_has_curve_crossovers_front_and_slack() -> None:
    ran = sweep(OPEN, "--vary", RATE, "--pareto", "brief.tpot_target_ms")
    assert ran.code == 0
    for title in (
        "Cost curve",
        "Crossovers along brief.requests_per_s",
        "Pareto front of cost against TPOT",
        "Slack: the design stays",
    ):
        assert title in ran.out.splitlines()
    assert "7 points · $2.00/h to $8.00/h" in ran.out
    assert re.search(r"^ +40 +4 × generic-80gb, fp16/fp16, 8 KV heads", ran.out, re.MULTILINE)


def test_json_has_every_part() -> None:
    data = sweep(OPEN, "--vary", RATE, "--pareto", "brief.tpot_target_ms", "--format=json").data
    assert list(data) == ["baseline", "rows", "crossovers", "pareto", "slack"]
    assert data["baseline"]["design"]["gpus"] == 1
    assert len(data["rows"]) == 7
    for row in data["rows"]:
        assert list(row["at"]) == ["brief.requests_per_s"]
        assert row["status"] == "optimal"
        assert {"name", "design", "figures", "gpus_saved", "usd_saved_per_month"} <= set(row)
    for one in data["crossovers"]:
        assert one["field"] == "brief.requests_per_s"
        assert one["last_before"] < one["value"]
        assert one["before"] != one["after"]
    targets = [row["at"]["brief.tpot_target_ms"] for row in data["pareto"]]
    costs = [row["figures"]["usd_per_hour"] for row in data["pareto"]]
    assert targets == sorted(targets, reverse=True)
    assert costs == sorted(costs)
    assert {one["field"] for one in data["slack"]} > {"brief.requests_per_s", "brief.ttft_target_s"}
    for one in data["slack"]:
        assert set(one["up"]) == {"holds_to", "changes_at", "design"}


def test_rows_that_do_not_comply_carry_their_conflict() -> None:
    data = sweep(CHAT, "--vary", "brief.tpot_target_ms=5,50", "--no-slack", "--format=json").data
    short, long = data["rows"]
    assert short["status"] == "infeasible"
    assert short["conflict"]["requirements"] == ["brief.tpot_target_ms"]
    assert (long["status"], "conflict" in long) == ("optimal", False)
    assert data["slack"] == []


def test_a_sweep_of_nothing_that_complies_ends_with_3() -> None:
    ran = sweep(CHAT, "--vary", "brief.tpot_target_ms=1,2", "--set", "brief.tpot_target_ms=3")
    assert ran.code == 3
    assert "none complies" in ran.out
    assert "the case as it stands has no design, so no slack" in ran.out


def test_without_vary_it_says_the_slack() -> None:
    ran = sweep(CHAT)
    assert ran.code == 0
    assert "Slack: the design stays" in ran.out
    assert "Cost curve" not in ran.out


def test_files_hold_what_json_holds(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    names = ("rows.csv", "rows.parquet", "rows.json", "rows.md", "rows.txt")
    outputs = [argument for name in names for argument in ("-o", tmp_path / name)]
    axes = ["--vary", "brief.tpot_target_ms=5,50", "--vary", "hardware.gpus=generic-80gb,h200"]
    ran = sweep(CHAT, *axes, *outputs)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    data = json.loads((tmp_path / "rows.json").read_text())
    printed = sweep(CHAT, *axes, "--format=json").data
    assert _timeless(data) == _timeless(printed)
    with (tmp_path / "rows.csv").open(newline="") as file:
        from_csv = list(csv.DictReader(file))
    from_parquet = parquet.read_table(tmp_path / "rows.parquet").to_pylist()
    assert list(from_csv[0]) == list(from_parquet[0])
    assert len(from_csv) == len(from_parquet) == len(data["rows"]) == 4
    for text, typed, row in zip(from_csv, from_parquet, data["rows"], strict=True):
        expected = {**row["at"], "name": row["name"], "status": row["status"]}
        expected |= {f"design.{k}": v for k, v in row.get("design", {}).items()}
        expected |= {f"figures.{k}": v for k, v in row.get("figures", {}).items()}
        for column, value in typed.items():
            if column in expected:
                assert value == expected[column]
                assert text[column] == ("" if value is None else str(expected[column]))
        assert (typed["conflict"] is None) == (row["status"] == "optimal")
        if typed["conflict"]:
            assert json.loads(typed["conflict"]) == row["conflict"]
            assert json.loads(text["conflict"]) == row["conflict"]
    assert (tmp_path / "rows.md").read_text().startswith("# chat-7b over brief.tpot_target_ms")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names)


def _timeless(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _timeless(value) for key, value in data.items() if key != "seconds"}
    return [_timeless(item) for item in data] if isinstance(data, list) else data


def test_plots_are_drawn_by_their_ending(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names = ("curve.png", "curve.svg", "curve.html")
    outputs = [argument for name in names for argument in ("-o", tmp_path / name)]
    ran = sweep(OPEN, "--vary", RATE, "--pareto", "brief.tpot_target_ms", *outputs)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG\r\n")
    svg = (tmp_path / "curve.svg").read_text()
    ElementTree.fromstring(svg)
    for words in (
        "chat-7b-open: cheapest design over brief.requests_per_s",
        "requests/s",
        "$ a month",
        "$ per 1M answer tokens",
        "TPOT reached, ms",
        "crossover",
        "generic-80gb, fp16/int8, 8 KV heads",
    ):
        assert words in svg
    page = (tmp_path / "curve.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<svg" in page
    assert "<h2>Cost curve</h2>" in page
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="https?:', page)


@pytest.mark.parametrize(
    "axes",
    [
        ["hardware.gpus=generic-80gb,h200"],
        ["hardware.gpus=generic-80gb,h200", "model=llama-2-7b,llama-3.1-8b"],
        ["brief.tpot_target_ms=1:50:log:5", "hardware.gpus=generic-80gb,h200"],
        ["brief.tpot_target_ms=1,2"],
        ["assumptions.memory_reserve=0:0.5:linear:3"],
    ],
)
def test_every_kind_of_sweep_can_be_drawn(axes: list[str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "curve.svg"
    ran = sweep(CHAT, *(a for axis in axes for a in ("--vary", axis)), "--no-slack", "-o", path)
    assert ran.code == 0
    assert "NaN" not in path.read_text()


def test_a_missing_plot_library_is_said_before_anything_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "optimiser.review.plot.find_spec",
        lambda name: None if name == "matplotlib" else find(name),
    )
    ran = sweep(CHAT, "--vary", RATE, "-o", tmp_path / "rows.csv", "-o", tmp_path / "curve.png")
    assert ran.code == 1
    assert ran.err == "error: a plot needs matplotlib: pip install 'optimise[plot]'\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vary", "brief.rate"], "--vary brief.rate: expected field=from:to:log|linear:n"),
        (["--vary", "brief.prompt_token=1,2"], "did you mean brief.prompt_tokens"),
        (["--vary", "hardware.gpus=1:9:log:3"], "is not a number"),
        (["--vary", "brief.requests_per_s=1:9:log:1"], "expected a whole number from 2"),
        (["--vary", "brief.requests_per_s=9:1:log:5"], "9 is not below 1"),
        (["--vary", "brief.requests_per_s=1:9:log:1000000"], "at most 100,000 are planned"),
        (["--vary", "brief.prompt_tokens=many,5"], "expected a whole number"),
        (["--vary", "model=llama-2-7c,llama-2-7b"], "did you mean llama-2-7b"),
        (["--vary", RATE, "-o", "{}/rows.xlsx"], "unknown ending"),
        (["--vary", RATE, "-o", "{}/none/rows.csv"], "no such directory"),
        (["-o", "{}/other.csv"], "nothing to put there without --vary"),
        (["--vary", RATE, "--pareto", "brief.requests_per_s"], "Invalid value for '--pareto'"),
        (["--no-slack"], "nothing to do"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    ran = sweep(CHAT, *(a.format(tmp_path) for a in arguments), "-o", tmp_path / "rows.json")
    assert ran.code == (2 if "Usage" in ran.err else 1)
    assert message in ran.err
    assert ran.err.count("error: ") <= 1
    assert list(tmp_path.iterdir()) == []


def test_mistakes_come_as_json_too() -> None:
    ran = sweep(CHAT, "--vary", "brief.request=1,2", "--format=json")
    assert ran.code == 1
    (error,) = ran.data["errors"]
    assert error["field"] == "brief.request"
    assert error["message"] == "unknown field"


def test_progress_shows_on_a_terminal_once_it_takes_a_second(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from optimiser.cli import progress as module

    monkeypatch.setattr(module, "QUIET_S", -1.0)
    progress = module.Line(on_terminal=True)
    progress("points", 1, 20)
    progress("points", 2, 20)
    progress.clear()
    err = capsys.readouterr().err
    assert "1 of 20 points" in err
    assert err.endswith(f"\r{'':14}\r")
    module.Line(on_terminal=False)("points", 1, 20)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(module, "LINE_EVERY_S", -1.0)
    module.Line(on_terminal=False)("points", 1, 20)
    assert capsys.readouterr().err == "1 of 20 points\n"
