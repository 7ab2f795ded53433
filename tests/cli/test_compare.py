"""`optimise compare`: each row a plain plan of the changed case, sorted, with its winner."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import CASES, optimise

CHAT = CASES / "chat-7b.yaml"
LLAMA = CASES / "llama-3.1-8b.yaml"
ROW = {"name", "status", "design", "figures", "utilization_frac"}
SAVED = {"gpus_saved", "usd_saved_per_month"}


def compared(*arguments: object) -> dict[str, Any]:
    ran = optimise("compare", *arguments, "--format", "json")
    assert ran.code == 0
    data: dict[str, Any] = ran.data
    return data


def plain(*arguments: object) -> dict[str, Any]:
    data: dict[str, Any] = optimise(*arguments, "--no-levers", "--format", "json").data
    return data


def same(row: dict[str, Any], alone: dict[str, Any], baseline: dict[str, Any]) -> None:
    """A row is what a plain plan of its case says, its savings those beside the baseline."""
    assert row["status"] == alone["status"]
    assert row["design"] == alone["design"]
    assert row["figures"] == alone["figures"]
    saved = baseline["figures"]["usd_per_month"] - alone["figures"]["usd_per_month"]
    assert row["usd_saved_per_month"] == pytest.approx(saved)
    fewer = baseline["design"]["rented_gpus"] - alone["design"]["rented_gpus"]
    assert row["gpus_saved"] == fewer


def test_settings_as_rows() -> None:
    settings = {
        "brief.requests_per_s=50": {"gpus": 11},
        "brief.tpot_target_ms=8": {"gpus": 9},
        "levers.kv_heads=8": {"gpus": 1},
        "levers.weights=[int8, int4]": {"gpus": 2},
    }
    arguments = [part for setting in settings for part in ("--set", setting)]
    found = compared(CHAT, *arguments)
    assert set(found) == {"baseline", "rows", "winner"}
    baseline = found["baseline"]
    assert set(baseline) == ROW | SAVED
    assert (baseline["name"], baseline["gpus_saved"], baseline["usd_saved_per_month"]) == (
        "chat-7b",
        0,
        0,
    )
    same(baseline, plain(CHAT), baseline)
    rows = {row["name"]: row for row in found["rows"]}
    assert set(rows) == set(settings)
    for name, expected in settings.items():
        assert set(rows[name]) == ROW | SAVED
        same(rows[name], plain(CHAT, "--set", name), baseline)
        assert rows[name]["design"]["gpus"] == expected["gpus"]
    costs = [row["figures"]["usd_per_hour"] for row in found["rows"]]
    assert costs == sorted(costs) == [2.0, 4.0, 18.0, 22.0]
    assert found["winner"] == "levers.kv_heads=8"
    # 10/s over 3 x 6.283/s
    assert baseline["utilization_frac"] == pytest.approx(10 / (3 * 6.2831), rel=1e-4)


def test_gpus_models_and_offers_as_rows() -> None:
    offer = "aws-us-east-1-p5.48xlarge"
    found = compared(
        LLAMA, "--gpu", "l4", "--gpu", "h200", "--model", "mistral-7b", "--offer", offer
    )
    baseline = found["baseline"]
    same(baseline, plain(LLAMA), baseline)
    changed = {
        "l4": ["hardware.gpus=l4"],
        "h200": ["hardware.gpus=h200"],
        "mistral-7b": ["model=mistral-7b"],
        offer: ["hardware.gpus=h100-sxm", f"hardware.offers.names={offer}"],
    }
    rows = {row["name"]: row for row in found["rows"]}
    assert set(rows) == set(changed)
    for name, settings in changed.items():
        arguments = [part for setting in settings for part in ("--set", setting)]
        same(rows[name], plain(LLAMA, *arguments), baseline)
    # two GPUs do the work, with the model's own formats; eight are rented
    assert (rows[offer]["design"]["gpus"], rows[offer]["design"]["rented_gpus"]) == (2, 8)
    assert rows[offer]["figures"]["usd_per_hour"] == 55.04
    assert rows[offer]["gpus_saved"] == baseline["design"]["rented_gpus"] - 8


def test_a_stated_price_holds_only_for_the_gpus_that_it_names() -> None:
    found = compared(CHAT, "--gpu", "generic-80gb", "--gpu", "h200")
    rows = {row["name"]: row for row in found["rows"]}
    assert rows["generic-80gb"]["figures"]["usd_per_hour"] == 6.0
    settings = ("--set", "hardware.gpus=h200", "--set", "hardware.usd_per_gpu_hour=null")
    same(rows["h200"], plain(CHAT, *settings), found["baseline"])
    assert rows["h200"]["design"]["offer"] is not None


def test_every_gpu_of_the_catalogue_without_alternatives() -> None:
    found = compared(LLAMA)
    names = {row["name"] for row in found["rows"]}
    assert len(names) >= 15
    assert {"l4", "l40s", "a100-sxm-80gb", "h100-sxm", "h200", "b200", "mi300x"} <= names
    planned = [row for row in found["rows"] if "design" in row]
    assert all(row["design"]["gpu"] == row["name"] for row in planned)
    costs = [row["figures"]["usd_per_hour"] for row in planned]
    assert costs == sorted(costs)
    cheapest = planned[0]
    baseline = found["baseline"]
    dearer = baseline["figures"]["usd_per_hour"] <= cheapest["figures"]["usd_per_hour"]
    assert found["winner"] == (baseline["name"] if dearer else cheapest["name"])
    # those that cannot comply come last, with the reason
    assert [row["status"] for row in found["rows"][len(planned) :]] == ["infeasible"] * (
        len(found["rows"]) - len(planned)
    )


def test_alternatives_that_cannot_comply() -> None:
    found = compared(CHAT, "--set", "brief.tpot_target_ms=7", "--set", "brief.tpot_target_ms=8")
    first, last = found["rows"]
    assert (first["name"], last["name"]) == ("brief.tpot_target_ms=8", "brief.tpot_target_ms=7")
    assert last["status"] == "infeasible"
    assert set(last) == {"name", "status", "conflict", "conflicts"} | SAVED
    assert last["gpus_saved"] is None
    assert last["usd_saved_per_month"] is None
    alone = optimise(CHAT, "--set", "brief.tpot_target_ms=7", "--format", "json")
    assert alone.code == 3
    assert (last["conflict"], last["conflicts"]) == (
        alone.data["conflict"],
        alone.data["conflicts"],
    )
    text = optimise("compare", CHAT, "--set", "brief.tpot_target_ms=7").out
    assert "cannot comply: brief.tpot_target_ms 7 → 7.05" in text


def test_a_tie_goes_to_the_baseline() -> None:
    found = compared(CHAT, "--set", "brief.ttft_target_s=0.9")
    assert found["winner"] == "chat-7b"
    text = optimise("compare", CHAT, "--set", "brief.ttft_target_s=0.9").out
    assert "cheapest: chat-7b" in text
    assert "→ chat-7b (baseline)" in text
    assert text.rstrip().endswith("no alternative is cheaper than the case as it stands")


def test_why_the_winner_wins() -> None:
    text = optimise("compare", CHAT, "--set", "levers.kv_heads=8").out
    # one GPU at $2 for 2 TB/s, as the baseline's three: no cheaper in any resource
    assert "→ levers.kv_heads=8" in text
    (why,) = [line for line in text.splitlines() if " wins over " in line]
    assert why.startswith("levers.kv_heads=8 wins over chat-7b with 1 GPU against 3")
    # a GPU of the same speed at half the price
    cheap = optimise("compare", CHAT, "--set", "hardware.usd_per_gpu_hour=1").out
    (why,) = [line for line in cheap.splitlines() if " wins over " in line]
    assert why == (
        "hardware.usd_per_gpu_hour=1 wins over chat-7b: its bottleneck is KV reads, and a TB/s of "
        "bandwidth costs $0.500 an hour there, 50 % less"
    )


def test_the_only_one_that_complies() -> None:
    arguments = ("--baseline", "brief.tpot_target_ms=7", "--set", "brief.tpot_target_ms=50")
    ran = optimise("compare", CHAT, *arguments)
    assert ran.code == 0
    assert "brief.tpot_target_ms=50 is the only one that complies" in ran.out


def test_nothing_complies() -> None:
    arguments = ("--baseline", "brief.tpot_target_ms=7", "--set", "brief.tpot_target_ms=6")
    ran = optimise("compare", CHAT, *arguments, "--format", "json")
    assert ran.code == 3
    assert ran.data["winner"] is None
    assert [ran.data["baseline"]["status"], ran.data["rows"][0]["status"]] == ["infeasible"] * 2
    assert "no alternative complies" in optimise("compare", CHAT, *arguments).out


def test_baseline_settings_are_of_every_row() -> None:
    settings = ("--baseline", "brief.requests_per_s=50", "--set", "levers.kv_heads=8")
    found = compared(CHAT, *settings)
    assert found["baseline"]["design"]["gpus"] == 11
    both = ("--set", "brief.requests_per_s=50", "--set", "levers.kv_heads=8")
    same(found["rows"][0], plain(CHAT, *both), found["baseline"])


@pytest.mark.parametrize("solver", ["highs", "cbc"])
def test_another_solver_finds_the_same(solver: str) -> None:
    arguments = ("--gpu", "l4", "--set", "brief.requests_per_s=7")
    assert compared(LLAMA, *arguments, "--solver", solver) == compared(LLAMA, *arguments)


@pytest.mark.parametrize(
    ("arguments", "message", "nearest"),
    [
        (("--gpu", "h10-sxm"), "unknown GPU 'h10-sxm'", "h100-sxm"),
        (("--model", "llama-3.1-8"), "unknown model 'llama-3.1-8'", "llama-3.1-8b"),
        (("--offer", "aws-us-east-1-p5.48xlarg"), "unknown offer", "aws-us-east-1-p5.48xlarge"),
        (("--set", "brief.tpot_target=8"), "unknown key", "tpot_target_ms"),
        (("--set", "levers.weights=fp9"), "unknown weight format 'fp9'", "fp8"),
        # one wrong name among right ones
        (("--gpu", "h200", "--gpu", "h20o"), "unknown GPU 'h20o'", "h200"),
    ],
)
def test_what_is_asked_for_by_name_must_exist(
    arguments: tuple[str, ...], message: str, nearest: str
) -> None:
    ran = optimise("compare", CHAT, *arguments)
    assert (ran.code, ran.out) == (1, "")
    assert message in ran.err
    as_json = optimise("compare", CHAT, *arguments, "--format", "json")
    assert as_json.code == 1
    assert as_json.data["status"] == "error"
    assert nearest in ran.err
    (error,) = as_json.data["errors"]
    assert nearest in error["nearest"] or nearest in error["message"]


def test_one_alternative_is_told_in_the_singular() -> None:
    text = optimise("compare", CHAT, "--set", "brief.requests_per_s=5").out
    assert text.startswith("chat-7b: 1 alternative\n")


def test_columns_markdown_and_files(tmp_path: Path) -> None:
    text = optimise("compare", CHAT, "--set", "brief.requests_per_s=50").out
    (head,) = [line for line in text.splitlines() if "bottleneck" in line and "design" in line]
    assert " ".join(head.split()) == "design GPUs TTFT TPOT $/1M $/month change used bottleneck"
    assert "+267 %" in text  # $22 against $6
    assert "| design" in optimise("compare", CHAT, "--gpu", "h200", "--format", "markdown").out
    place = tmp_path / "compared.txt"
    ran = optimise("compare", CHAT, "--set", "brief.requests_per_s=50", "-o", place)
    assert (ran.code, ran.out) == (0, "")
    assert place.read_text(encoding="utf-8") == text


def test_every_bad_option_is_told_at_once() -> None:
    ran = optimise(
        *("compare", CHAT, "--gpu", "h10000", "--model", "lama-3.1-8b", "--offer", "nobodys-offer"),
        *("--gpu", "l5", "--set", "brief.request_per_s=5", "--set", "nonsense"),
    )
    assert ran.code == 1
    lines = ran.err.splitlines()
    for told in (
        "h10000",
        "lama-3.1-8b",
        "nobodys-offer",
        "'l5'",
        "brief.request_per_s",
        "nonsense",
    ):
        assert sum(told in line for line in lines) == 1, (told, lines)
