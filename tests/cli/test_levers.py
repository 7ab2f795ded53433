"""`optimise levers`: each row a plain plan of the changed case, ranked, explained, and in sets."""

from functools import cache
from typing import Any

import pytest

from tests.cli.running import CASES, optimise

CHAT = CASES / "chat-7b.yaml"


@cache
def levers(*arguments: object) -> dict[str, Any]:
    ran = optimise("levers", CHAT, *arguments, "--format", "json")
    assert ran.code == 0
    data: dict[str, Any] = ran.data
    return data


def by_name(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in found["rows"]}


def test_what_the_page_says() -> None:
    found = levers()
    first = found["rows"][0]
    assert (first["name"], first["gpus_saved"], first["helps"]) == ("GQA (8 KV heads)", 2, True)
    assert first["usd_saved_per_month"] == 2 * 2.0 * 730
    rows = by_name(found)
    for name in ("int8 KV cache", "int4 weights", "int8 weights"):
        assert (rows[name]["gpus_saved"], rows[name]["helps"]) == (1, True)
        assert rows[name]["usd_saved_per_month"] == 1460.0
    order = [row["name"] for row in found["rows"]]
    places = [order.index(n) for n in ("int8 KV cache", "int4 weights", "int8 weights")]
    assert places == sorted(places)
    assert rows["int4 weights"]["why"].startswith(
        "weights are 21 % of the bytes of a step: int4 weights cannot save more than 16 %"
    )
    text = optimise("levers", CHAT).out
    assert (
        "weights are 21 % of the bytes of a step: int4 weights cannot save more than 16 %" in text
    )


SETTINGS = {
    "GQA (16 KV heads)": ["levers.kv_heads=16"],
    "GQA (8 KV heads)": ["levers.kv_heads=8"],
    "MQA (1 KV head)": ["levers.kv_heads=1"],
    "int8 KV cache": ["levers.kv_cache=int8"],
    "int8 weights": ["levers.weights=int8"],
    "int4 weights": ["levers.weights=int4"],
    "int4-g128 weights": ["levers.weights=int4-g128"],
    "tensor parallel 2": ["levers.tensor_parallel=[1, 2]"],
    "tensor parallel 8": ["levers.tensor_parallel=[1, 8]"],
    "20 % shorter prompts": ["brief.prompt_tokens=800"],
    "20 % shorter answers": ["brief.answer_tokens=240"],
    "prefix cache, 50 % hit": ["assumptions.prefix_cached_frac=0.5"],
    "TTFT target 1.5 s": ["brief.ttft_target_s=1.5"],
    "TPOT target 75 ms": ["brief.tpot_target_ms=75"],
    "h200 instead": ["hardware.gpus=h200", "hardware.usd_per_gpu_hour=null"],
    "l4 instead": ["hardware.gpus=l4", "hardware.usd_per_gpu_hour=null"],
}


@pytest.mark.parametrize("name", SETTINGS)
def test_each_row_is_a_plain_plan_of_the_changed_case(name: str) -> None:
    found = levers()
    row = by_name(found)[name]
    arguments = [part for setting in SETTINGS[name] for part in ("--set", setting)]
    alone = optimise(CHAT, *arguments, "--no-levers", "--format", "json").data
    assert row["status"] == alone["status"]
    assert row["design"] == alone["design"]
    assert row["figures"] == alone["figures"]
    base = found["baseline"]
    assert row["gpus_saved"] == base["design"]["rented_gpus"] - alone["design"]["rented_gpus"]
    saved = base["figures"]["usd_per_month"] - alone["figures"]["usd_per_month"]
    assert row["usd_saved_per_month"] == pytest.approx(saved)


def test_rows_are_all_there_and_say_what_they_take() -> None:
    found = levers()
    assert set(found) == {"baseline", "by", "depth", "rows", "pairs", "best_set"}
    assert (found["by"], found["depth"]) == ("gpus", 2)
    assert set(SETTINGS) <= set(by_name(found))
    others = [row for row in found["rows"] if row["kind"] == "gpu"]
    assert len(others) >= 12
    for row in found["rows"]:
        assert {"name", "status", "gpus_saved", "usd_saved_per_month", "source"} <= set(row)
        for key in ("effort", "how", "risk", "source", "why"):
            assert len(row[key]) > 3
        assert ("conflict" in row) == (row["status"] == "infeasible")
        assert ("design" in row) == ("figures" in row) == (row["status"] == "optimal")
    efforts = {row["kind"]: row["effort"] for row in found["rows"]}
    assert efforts["kv_heads"] == "retraining"
    assert efforts["kv_cache"] == "flag"
    assert efforts["weights"] == "new checkpoint"
    assert efforts["prompt"] == "product change"


def test_those_that_help_come_first_and_the_deployment_before_other_hardware() -> None:
    rows = levers()["rows"]
    helps = [row["helps"] for row in rows]
    assert helps == sorted(helps, reverse=True)
    kept = [row for row in rows if row["helps"]]
    hardware = [row["kind"] == "gpu" for row in kept]
    assert hardware == sorted(hardware)
    own = [row["gpus_saved"] for row in kept if row["kind"] != "gpu"]
    assert own == sorted(own, reverse=True)
    assert min(own) >= 1
    # a GPU of another type is kept for the money it saves
    assert all(row["usd_saved_per_month"] > 0 for row in kept if row["kind"] == "gpu")


def test_by_cost() -> None:
    rows = levers("--by", "cost")["rows"]
    kept = [row for row in rows if row["helps"]]
    assert all(row["usd_saved_per_month"] > 0 for row in kept)
    for hardware in (True, False):
        saved = [r["usd_saved_per_month"] for r in kept if (r["kind"] == "gpu") == hardware]
        assert saved == sorted(saved, reverse=True)
    assert not any((row["usd_saved_per_month"] or 0) > 0 for row in rows[len(kept) :])


def test_by_tpot() -> None:
    found = levers("--by", "tpot")
    base = found["baseline"]["figures"]["tpot_ms"]
    for row in found["rows"]:
        faster = "figures" in row and row["figures"]["tpot_ms"] < base
        assert row["helps"] == faster
    kept = [r for r in found["rows"] if r["helps"] and r["kind"] != "gpu"]
    tpot = [row["figures"]["tpot_ms"] for row in kept]
    assert tpot == sorted(tpot)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_best_set_is_never_worse_than_its_parts(depth: int) -> None:
    found = levers("--depth", depth, "--by", "cost")
    best = found["best_set"]
    assert len(best["name"].split(" + ")) <= depth
    cost = best["figures"]["usd_per_hour"]
    parts = [row for row in found["rows"] if "figures" in row]
    assert cost <= min(row["figures"]["usd_per_hour"] for row in parts)
    if depth >= 2:
        assert cost <= min(row["figures"]["usd_per_hour"] for row in found["pairs"])
    if depth > 1:
        assert (
            cost
            <= levers("--depth", depth - 1, "--by", "cost")["best_set"]["figures"]["usd_per_hour"]
        )


def test_best_pairs_are_pairs_in_order() -> None:
    pairs = levers()["pairs"]
    assert len(pairs) == 3
    assert all(len(row["name"].split(" + ")) == 2 for row in pairs)
    costs = [row["figures"]["usd_per_hour"] for row in pairs]
    assert costs == sorted(costs)


def test_sizes_of_the_levers() -> None:
    found = levers("--shorter", 0.5, "--cached", 0.9, "--looser", 1 / 4)
    names = set(by_name(found))
    assert {
        "50 % shorter prompts",
        "50 % shorter answers",
        "prefix cache, 90 % hit",
        "TTFT target 1.25 s",
        "TPOT target 62.5 ms",
    } <= names


def test_a_case_without_a_design() -> None:
    ran = optimise("levers", CHAT, "--set", "brief.tpot_target_ms=7", "--format", "json")
    assert ran.code == 3
    assert ran.data["status"] == "infeasible"
    assert ran.data["conflict"]["requirements"] == ["brief.tpot_target_ms"]


def test_replicas_that_other_gpus_cannot_hold() -> None:
    """An instance of one GPU holds no replica of two: its row says so, and the rest goes on."""
    found = levers("--set", "levers.tensor_parallel=2")
    row = by_name(found)["gh200-96gb instead"]
    assert row["status"] == "error"
    assert "2 is more than the 1 GPU of a node" in row["error"]
    assert found["best_set"]["status"] == "optimal"
    text = optimise("levers", CHAT, "--set", "levers.tensor_parallel=2")
    assert text.code == 0
    assert "2 is more than the 1 GPU of a node" in text.out


def test_in_words() -> None:
    text = optimise("levers", CHAT).out
    lines = text.splitlines()
    assert lines[0] == "chat-7b: levers by gpus, baseline 3 GPUs, $6.00/h"
    assert lines[1].startswith("best set of at most 2: ")
    for title in ("Levers", "Best pairs", "No help alone"):
        assert title in lines
    (target,) = [line for line in lines if "TTFT target" in line]
    assert "changes nothing" in target
    assert target.rstrip().endswith("the target has 96 % to spare")
    assert any(line.startswith("GQA (8 KV heads): ") and "Risk: " in line for line in lines)


@pytest.mark.parametrize(
    "arguments",
    [("--by", "money"), ("--depth", "0"), ("--depth", "5"), ("--shorter", "1"), ("--cached", "0")],
)
def test_usage(arguments: tuple[str, ...]) -> None:
    ran = optimise("levers", CHAT, *arguments)
    assert (ran.code, ran.out) == (2, "")


def test_an_unknown_case() -> None:
    ran = optimise("levers", "chat-7", "--format", "json")
    assert ran.code == 1
    assert "chat-7b" in ran.data["errors"][0]["nearest"]
