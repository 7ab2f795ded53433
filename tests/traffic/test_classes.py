"""Request logs as classes: layouts, rates, accuracy, and what cannot be read."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from optimiser.cli.main import cli
from optimiser.errors import InputError
from optimiser.traffic.group import group
from optimiser.traffic.log import Log, read_log

NOTHING: dict[str, str | None] = {"prompt": None, "answer": None, "time": None}


def test_two_kinds_of_request_are_told_apart() -> None:
    prompt = np.array([100.0] * 60 + [4000.0] * 30)
    answer = np.array([20.0] * 60 + [500.0] * 30)
    found = group(Log(prompt, answer, np.ones(90), np.arange(90.0) * 2), 2)
    assert [(g.prompt_tokens, g.answer_tokens) for g in found.groups] == [(100, 20), (4000, 500)]
    # 60 requests in 178 s, one every two seconds in each full minute
    assert found.groups[0].requests_per_s == pytest.approx(60 / 178)
    assert found.groups[0].peak_requests_per_s == pytest.approx(30 / 60)
    assert found.errors_frac[0][1] == pytest.approx(0.0, abs=1e-12)


def test_one_group_misjudges_the_cache_by_hand() -> None:
    """Means 2050 and 260: 260 * (2050 + 130) = 566800 against the mean of 2200 and 2125000."""
    log = Log(np.array([100.0, 4000.0]), np.array([20.0, 500.0]), np.ones(2), None)
    exact = (20 * (100 + 10) + 500 * (4000 + 250)) / 2
    assert group(log, 1).errors_frac[0] == (1, pytest.approx(1 - 260 * (2050 + 130) / exact))


def test_azure_layout(tmp_path: Path) -> None:
    path = tmp_path / "azure.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:16:46.9951690,396,109\n"
    )
    log = read_log(path, NOTHING)
    assert log.prompt.tolist() == [374, 396]
    assert log.span_s == pytest.approx(60.314579, abs=1e-5)


def test_mooncake_layout(tmp_path: Path) -> None:
    path = tmp_path / "mooncake.jsonl"
    path.write_text(
        '{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46]}\n'
        '{"timestamp": 30535, "input_length": 6472, "output_length": 26, "hash_ids": [46]}\n'
    )
    log = read_log(path, NOTHING)
    assert log.answer.tolist() == [52, 26]
    assert log.span_s == pytest.approx(3.053)


def test_columns_by_name_and_rates_without_times(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("in,out\n10,5\n10,5\n2000,90\n2000,90\n")
    log = read_log(path, {"prompt": "in", "answer": "out", "time": None})
    rates = [g.requests_per_s for g in group(log, 2, requests_per_s=8.0).groups]
    assert rates == [4.0, 4.0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\n1,2\n", "name those of prompt and answer"),
        ("ContextTokens,GeneratedTokens\n", "no requests"),
        ("ContextTokens,GeneratedTokens\nx,2\n", "expected numbers"),
        ("ContextTokens,GeneratedTokens\n0,0\n", "at least one prompt"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=told):
        read_log(path, NOTHING)


def test_the_command_writes_workloads_that_a_case_takes() -> None:
    asked = ["classes", "cases/traffic/azure_conv_hist.csv", "--groups", "3"]
    result = CliRunner().invoke(cli, [*asked, "--requests-per-s", "9", "--format", "json"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.output)
    assert sum(w["requests_per_s"] for w in data["workloads"]) == pytest.approx(9, rel=1e-3)
    errors = [row["cache_error_frac"] for row in data["accuracy"]]
    assert [row["groups"] for row in data["accuracy"]] == [3, 6, 12]
    assert all(0 <= error < 0.02 for error in errors)
    text = CliRunner().invoke(cli, [*asked, "--requests-per-s", "9"]).output
    assert "of requests" in text
    assert text.count("- name:") == 3
