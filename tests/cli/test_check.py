"""`optimise check`: does a design that already runs comply, and what does it cost?"""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import CASES, CHAT, WEIGHTS, Ran, optimise, written

CHAT_CASE = CASES / "chat-7b.yaml"


def check(*arguments: object, case: object = CHAT_CASE, gpu: str = "generic-80gb") -> Ran:
    return optimise("check", case, "--gpu", gpu, "--format", "json", *arguments)


def test_every_key() -> None:
    ran = check("--gpus", 3, "--batch", 85)
    assert (ran.code, ran.err) == (0, "")
    data: dict[str, Any] = ran.data
    assert data["status"] == "complies"
    assert data["case"] == "chat-7b"
    plan = optimise(CHAT_CASE, "--format", "json", "--no-levers").data
    for key in ("design", "figures", "verdict"):
        assert data[key] == plan[key]
    assert data["optimum"] == {
        "status": "optimal",
        "design": plan["design"],
        "usd_per_hour": 6.0,
        "usd_per_hour_above": 0.0,
    }


@pytest.mark.parametrize(
    ("gpus", "batch", "broken"),
    [
        (2, 85, ["brief.requests_per_s"]),  # 2 * 6.2829 is below 13
        (9, 86, ["hardware.gpus"]),  # 85 fit
        (9, 600, ["hardware.gpus", "brief.tpot_target_ms", "levers.batch.most"]),
        (1, 1, ["brief.requests_per_s"]),
    ],
)
def test_what_is_broken_is_told(gpus: int, batch: int, broken: list[str]) -> None:
    ran = check("--gpus", gpus, "--batch", batch)
    assert (ran.code, ran.err) == (3, "")
    assert ran.data["status"] == "does_not_comply"
    assert [c["requirement"] for c in ran.data["verdict"] if not c["holds"]] == broken
    assert all((c["margin_frac"] >= 0) == c["holds"] for c in ran.data["verdict"])


def test_a_gpu_of_the_case_costs_what_the_case_says() -> None:
    assert check("--gpus", 4, "--batch", 85).data["figures"]["usd_per_hour"] == 8.0


def test_a_gpu_not_in_the_case_costs_its_offer() -> None:
    ran = check("--gpus", 4, "--batch", 64, gpu="h100-sxm")
    assert ran.code == 0
    # the case's $2.00 prices only the GPUs that it names
    assert ran.data["figures"]["usd_per_hour"] == pytest.approx(4 * 2.95)
    assert ran.data["optimum"]["usd_per_hour"] == 6.0
    assert ran.data["optimum"]["usd_per_hour_above"] == pytest.approx(4 * 2.95 - 6.0)
    assert any("nebius" in line for line in ran.data["assumptions"])


def test_an_inline_gpu_of_the_case_is_known_by_name(tmp_path: Path) -> None:
    inline = "{name: mine, memory_gb: 80, bandwidth_gb_per_s: 2000, tflops: {fp16: 300}}"
    path = written(tmp_path, CHAT.replace("[generic-80gb]", f"[{inline}]"))
    ran = check("--gpus", 3, "--batch", 85, case=path, gpu="mine")
    assert (ran.code, ran.data["design"]["gpu"]) == (0, "mine")


def test_levers_that_are_not_given_are_the_case_s_first() -> None:
    design = check("--gpus", 1, "--batch", 85, case=CASES / "chat-7b-open.yaml").data["design"]
    assert (design["weights"], design["kv_cache"], design["kv_heads"]) == ("fp16", "fp16", 32)


def test_every_lever_can_be_given() -> None:
    options = ("--weights", "int4", "--kv-cache", "int8", "--kv-heads", 8, "--tensor-parallel", 2)
    design = check("--gpus", 4, "--batch", 7, *options).data["design"]
    assert design == {
        "model": "llama-2-7b",
        "gpu": "generic-80gb",
        "gpus": 4,
        "replicas": 2,
        "tensor_parallel": 2,
        "batch": 7,
        "weights": "int4",
        "kv_cache": "int8",
        "kv_heads": 8,
        "rented_gpus": 4,
        "offer": None,
        "term": "on-demand",
        "estimated": False,
    }
    assert check("--gpus", 3, "--batch", 7, "--weights", "BF16").data["design"]["weights"] == "fp16"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--gpus", 3, "--batch", 1, "--tensor-parallel", 2),
            "--gpus: 3 GPUs do not make whole replicas of tensor parallel 2",
        ),
        (
            ("--gpus", 3, "--batch", 1, "--tensor-parallel", 3),
            "--tensor-parallel: 3 does not divide 32 attention heads; legal: 1, 2, 4, 8",
        ),
        (
            ("--gpus", 3, "--batch", 1, "--weights", "fp61"),
            f"--weights: unknown weight format 'fp61', expected one of {WEIGHTS} "
            "(did you mean fp16?)",
        ),
        (
            ("--gpus", 3, "--batch", 1, "--kv-cache", "int4"),
            "--kv-cache: unknown KV-cache format 'int4', expected one of fp16, fp8, int8 "
            "(did you mean int8?)",
        ),
        (
            ("--gpus", 3, "--batch", 1, "--kv-heads", 5),
            "--kv-heads: 5 does not divide the model's 32 attention heads; legal: 1, 2, 4, "
            "8, 16, 32",
        ),
    ],
)
def test_mistakes_cite_the_option(arguments: tuple[object, ...], message: str) -> None:
    ran = check(*arguments)
    assert (ran.code, ran.err) == (1, f"error: {message}\n")
    assert ran.data["status"] == "error"


def test_an_unknown_gpu_names_the_nearest() -> None:
    ran = check("--gpus", 1, "--batch", 1, gpu="h10-sxm")
    (error,) = ran.data["errors"]
    assert ran.code == 1
    assert error["where"] == "--gpu"
    assert error["nearest"][0] == "h100-sxm"


def test_several_mistakes_come_at_once() -> None:
    ran = check("--gpus", 1, "--batch", 1, "--weights", "x", "--kv-cache", "y", gpu="z")
    assert [error["where"] for error in ran.data["errors"]] == ["--gpu", "--weights", "--kv-cache"]


def test_a_gpu_without_an_offer_needs_a_price_in_the_case() -> None:
    ran = check("--gpus", 1, "--batch", 1, gpu="rtx-4090")
    assert ran.code == 1
    assert ran.err.startswith("error: --gpu: no price for rtx-4090")
    priced = ("--set", "hardware.gpus=[generic-80gb, rtx-4090]")
    ran = check("--gpus", 2, "--batch", 1, *priced, gpu="rtx-4090")
    assert ran.data["figures"]["usd_per_hour"] == 4.0


@pytest.mark.parametrize("option", ["--gpus", "--batch"])
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many", "1000001"])
def test_counts_out_of_range(option: str, value: str) -> None:
    counts = {"--gpus": "1", "--batch": "1", option: value}
    ran = check(*(part for pair in counts.items() for part in pair))
    assert ran.code == 2
    assert f"Invalid value for '{option}'" in ran.err
    assert ran.data["status"] == "error"


def test_a_case_that_nothing_meets_has_no_optimum() -> None:
    ran = check("--gpus", 3, "--batch", 85, "--set", "brief.tpot_target_ms=7")
    assert ran.code == 3
    assert ran.data["optimum"] == {"status": "infeasible"}
    text = optimise(
        *("check", CHAT_CASE, "--gpu", "generic-80gb", "--gpus", 3, "--batch", 85),
        *("--set", "brief.tpot_target_ms=7"),
    )
    assert "optimum of the case: infeasible" in text.out


def test_a_cheaper_gpu_outside_the_case_is_said_to_be_below() -> None:
    text = optimise(
        *("check", CHAT_CASE, "--gpu", "h100-sxm", "--gpus", 1, "--batch", 64),
        *("--set", "brief.requests_per_s=5", "--set", "hardware.usd_per_gpu_hour=20"),
    )
    assert text.code == 0
    # two of the case's GPUs at $20 against one at $2.95: 1 - 2.95 / 40 = 93 % below
    assert "this one is 93 % below\n" in text.out


def test_the_result_can_go_to_a_file(tmp_path: Path) -> None:
    out = tmp_path / "check.json"
    ran = check("--gpus", 3, "--batch", 85, "-o", out)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert '"status": "complies"' in out.read_text()


def test_of_the_offers_the_cheapest_for_so_many_gpus_is_taken() -> None:
    case = CASES / "llama-3.1-70b.yaml"
    formats = ("--weights", "fp8", "--kv-cache", "fp8", "--batch", 32)
    few = check("--gpus", 1, *formats, case=case, gpu="b200").data
    many = check("--gpus", 8, *formats, case=case, gpu="b200").data
    # one alone is $6.99; eight are $44.00 an instance, less than 8 * 6.99
    assert few["figures"]["usd_per_hour"] == pytest.approx(6.99)
    assert many["figures"]["usd_per_hour"] == pytest.approx(44.00)
    limited = "limits.usd_per_hour=45"
    told = check("--gpus", 8, *formats, "--set", limited, case=case, gpu="b200").data["verdict"]
    assert [c["holds"] for c in told if c["requirement"] == "limits.usd_per_hour"] == [True]


def test_a_model_without_kv_heads_is_checked() -> None:
    ran = check(
        *("--gpus", 2, "--batch", 64, "--set", "model=mamba-2.8b"),
        case=CASES / "llama-3.1-8b.yaml",
        gpu="l4",
    )
    assert (ran.err, ran.data["design"]["kv_heads"]) == ("", 0)
