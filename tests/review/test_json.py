"""The JSON contract: every key, its type, and what it means, against hand calculations."""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import CASES, CHAT, Ran, optimise, written

SHIPPED = sorted(p.stem for p in CASES.glob("*.yaml") if not p.stem.startswith("fleet-"))
NUMBER = (int, float)
DESIGN = {
    "model": str,
    "gpu": str,
    "gpus": int,
    "replicas": int,
    "tensor_parallel": int,
    "batch": int,
    "weights": str,
    "kv_cache": str,
    "kv_heads": int,
}
FIGURES = {
    "ttft_ms": NUMBER,
    "tpot_ms": NUMBER,
    "usd_per_million_answer_tokens": NUMBER,
    "usd_per_thousand_requests": NUMBER,
    "usd_per_hour": NUMBER,
    "requests_per_s_per_replica": NUMBER,
    "in_flight": NUMBER,
    "largest_batch_that_fits": int,
    "weight_gb": NUMBER,
    "kv_gb_per_request": NUMBER,
    "bottleneck": str,
}
PROOF = {
    "objective_usd_per_hour": NUMBER,
    "bound_usd_per_hour": NUMBER,
    "gap_frac": NUMBER,
    "solver": str,
    "rounds": int,
    "configurations": int,
    "seconds": NUMBER,
}
CHECK = {
    "requirement": str,
    "required": NUMBER,
    "actual": NUMBER,
    "margin_frac": NUMBER,
    "holds": bool,
}
LEVER = {
    "name": str,
    "gpus": int,
    "gpus_saved": int,
    "usd_per_million_answer_tokens": NUMBER,
    "usd_saved_per_month": NUMBER,
}
BOTTLENECKS = {"weight_reads", "kv_reads", "decode_compute", "prefill_compute", "memory_capacity"}


def has(data: dict[str, Any], keys: dict[str, Any]) -> None:
    for key, kind in keys.items():
        assert key in data
        assert isinstance(data[key], kind), (key, data[key])
        assert kind is bool or not isinstance(data[key], bool)
        assert not isinstance(data[key], float) or math.isfinite(data[key])


def planned(*arguments: object, case: object = "chat-7b") -> Any:
    ran = optimise(case, "--format", "json", *arguments)
    assert ran.code == 0, ran.err
    return ran.data


def settings(**values: object) -> list[str]:
    """`--set` options; `brief__x=1` stands for `brief.x=1`."""
    pairs = [f"{field.replace('__', '.')}={value}" for field, value in values.items()]
    return [part for pair in pairs for part in ("--set", pair)]


@pytest.mark.parametrize("case", SHIPPED)
def test_every_key_of_a_plan(case: str) -> None:
    data = planned(case=case)
    assert data["status"] == "optimal"
    has(data["design"], DESIGN)
    has(data["figures"], FIGURES)
    has(data["proof"], PROOF)
    assert data["figures"]["bottleneck"] in BOTTLENECKS
    assert len(data["verdict"]) >= 4
    for check in data["verdict"]:
        has(check, CHECK)
        assert check["holds"]
        assert check["margin_frac"] >= -1e-9
    for lever in data["levers"]:
        has(lever, LEVER)
        assert lever["gpus_saved"] == data["design"]["gpus"] - lever["gpus"] > 0
    design, proof = data["design"], data["proof"]
    assert design["gpus"] == design["replicas"] * design["tensor_parallel"]
    assert proof["gap_frac"] == 0
    assert proof["objective_usd_per_hour"] == proof["bound_usd_per_hour"]
    assert proof["objective_usd_per_hour"] == data["figures"]["usd_per_hour"]


def test_the_worked_example_by_hand() -> None:
    data = planned()
    assert data["design"] == {
        "model": "llama-2-7b",
        "gpu": "generic-80gb",
        "gpus": 3,
        "replicas": 3,
        "tensor_parallel": 1,
        "batch": 85,
        "weights": "fp16",
        "kv_cache": "fp16",
        "kv_heads": 32,
        "rented_gpus": 3,
        "offer": None,
        "term": "on-demand",
        "estimated": False,
    }
    weights = 6.74e9 * 2
    kv_per_token = 2 * 32 * 32 * 128 * 2
    prefill_s = 2 * 6.74e9 * 1000 / 300e12
    step_s = (weights + 85 * 1150 * kv_per_token) / 2e12
    rate = 1 / (300 * step_s / 85 + prefill_s)
    expected = {
        "ttft_ms": prefill_s * 1e3,
        "tpot_ms": step_s * 1e3,
        "usd_per_hour": 3 * 2.0,
        "usd_per_month": 3 * 2.0 * 730,
        "usd_per_million_answer_tokens": 6.0 / (10 * 300 * 3600) * 1e6,
        "usd_per_thousand_requests": 6.0 / (10 * 3600) * 1e3,
        "requests_per_s_per_replica": rate,
        "in_flight": 10 * (prefill_s + 300 * step_s),
        "weight_gb": weights / 1e9,
        "kv_gb_per_request": 1300 * kv_per_token / 1e9,
        "kv_mib_per_token": 0.5,
    }
    for name, value in expected.items():
        assert data["figures"][name] == pytest.approx(value, rel=1e-12), name
    assert data["figures"]["largest_batch_that_fits"] == 85
    assert data["figures"]["bottleneck"] == "kv_reads"
    checks = {check["requirement"]: check for check in data["verdict"]}
    assert checks["hardware.gpus"]["required"] == pytest.approx(72)
    assert checks["hardware.gpus"]["actual"] == pytest.approx(13.48 + 85 * 0.6815744)
    assert checks["brief.ttft_target_s"]["margin_frac"] == pytest.approx(1 - prefill_s)
    assert checks["brief.tpot_target_ms"]["margin_frac"] == pytest.approx(1 - step_s / 0.050)
    assert checks["brief.requests_per_s"]["required"] == pytest.approx(13)
    assert checks["brief.requests_per_s"]["margin_frac"] == pytest.approx(3 * rate / 13 - 1)
    assert [lever["name"] for lever in data["levers"]] == [
        "GQA (8 KV heads)",
        "int8 KV cache",
        "int4 weights",
        "int8 weights",
    ]
    assert [lever["gpus"] for lever in data["levers"]] == [1, 2, 2, 2]
    assert data["levers"][0]["usd_saved_per_month"] == pytest.approx(2 * 2.0 * 730)
    assert data["defaults"] == []


def test_the_largest_batch_is_by_memory_alone() -> None:
    data = planned("--no-levers", *settings(levers__batch="{most: 7}"))
    assert data["design"]["batch"] == 7
    assert data["figures"]["largest_batch_that_fits"] == 85
    tight = planned("--no-levers", *settings(brief__tpot_target_ms=20))
    assert tight["design"]["batch"] == 43
    assert tight["figures"]["largest_batch_that_fits"] == 85


def test_sizes_are_of_a_replica_and_flight_is_without_headroom() -> None:
    options = settings(levers__tensor_parallel=2, assumptions__headroom=2.5)
    figures = planned("--no-levers", *options)["figures"]
    # two GPUs share the weights and the KV heads, so each holds half and reads half
    step_s = lambda batch: (13.48e9 + batch * 1150 * 524288) / 2 / 2e12  # noqa: E731
    assert figures["weight_gb"] == pytest.approx(13.48)
    assert figures["kv_gb_per_request"] == pytest.approx(0.6815744)
    fits = math.floor((72e9 - 6.74e9) / (1300 * 524288 / 2))
    assert figures["largest_batch_that_fits"] == fits == 191
    assert figures["tpot_ms"] == pytest.approx(step_s(191) * 1e3)
    time_s = 2 * 6.74e9 * 1000 / 2 / 300e12 + 300 * step_s(191)
    assert figures["in_flight"] == pytest.approx(10 * time_s)


def test_users_are_converted_at_the_promised_pace() -> None:
    options = settings(brief__requests_per_s="null", brief__concurrent_users=200)
    data = planned("--no-levers", *options)
    # 1 s to the first token and 300 tokens of 50 ms: 16 s a request
    rate = 200 / (1.0 + 300 * 0.050)
    assert rate == 12.5
    checks = {check["requirement"]: check for check in data["verdict"]}
    assert checks["brief.requests_per_s"]["required"] == pytest.approx(12.5 * 1.3)
    users, design = checks["brief.concurrent_users"], data["design"]
    assert users["required"] == 200
    assert users["actual"] == design["replicas"] * design["batch"] >= 200
    figures = data["figures"]
    usd = figures["usd_per_hour"]
    assert figures["usd_per_million_answer_tokens"] == pytest.approx(usd / (12.5 * 300 * 0.0036))
    assert any(
        "200 users at the promised pace are 12.5 requests/s" in a for a in data["assumptions"]
    )


def test_users_need_replicas_even_where_the_rate_does_not() -> None:
    # a slow promise: 400 users at 1,000 s a request are 0.4 requests/s, which one GPU carries;
    # but 85 fit beside the weights, so 400 need 5 replicas
    options = settings(
        brief__requests_per_s="null",
        brief__concurrent_users=400,
        brief__ttft_target_s=85,
        brief__tpot_target_ms=3050,
    )
    data = planned("--no-levers", *options)
    assert data["design"]["replicas"] == math.ceil(400 / 85) == 5


@pytest.mark.parametrize("name", ["bf16", "BF16", "bfloat16", "float16", "FP16"])
def test_16_bit_formats_are_one(name: str) -> None:
    data = planned("--no-levers", *settings(levers__weights=name, levers__kv_cache=name))
    assert (data["design"]["weights"], data["design"]["kv_cache"]) == ("fp16", "fp16")


def test_repeats_and_aliases_in_a_list_are_one_choice() -> None:
    options = settings(levers__weights="[fp16, bf16, fp16]", levers__kv_heads="[32, 32]")
    assert planned("--no-levers", *options)["proof"]["configurations"] == 1


def test_lengths_go_by_their_other_names(tmp_path: Path) -> None:
    for prompt, answer in (("isl", "osl"), ("ISL", "OSL")):
        text = CHAT.replace("prompt_tokens", prompt).replace("answer_tokens", answer)
        data = planned("--no-levers", case=written(tmp_path, text))
        assert data["figures"]["kv_gb_per_request"] == pytest.approx(0.6815744)


def test_a_value_fixes_a_lever_and_a_list_opens_it() -> None:
    fixed = planned("--no-levers", *settings(levers__kv_heads=32))
    opened = planned("--no-levers", *settings(levers__kv_heads="[32, 8]"))
    assert (fixed["design"]["gpus"], opened["design"]["gpus"]) == (3, 1)
    assert opened["proof"]["configurations"] == 2


def test_exactly_the_defaults_that_were_used_are_told(tmp_path: Path) -> None:
    start = CHAT[: CHAT.index("levers:")]
    bare = planned("--no-levers", case=written(tmp_path, start))
    every = [
        "levers.weights: fp16 (the checkpoint's own)",
        "levers.kv_cache: fp16",
        "levers.kv_heads: 32 (the model's own)",
        "levers.tensor_parallel: 1",
        "levers.batch.most: 1024",
        "assumptions.efficiency: 1",
        "assumptions.headroom: 1.3",
        "assumptions.memory_reserve: 0.1",
    ]
    assert bare["defaults"] == every
    given = start + "levers: {kv_cache: fp16, batch: {}}\nassumptions: {headroom: 1.3}\n"
    some = planned("--no-levers", case=written(tmp_path, given))
    assert some["defaults"] == [
        line for line in every if "kv_cache" not in line and "headroom" not in line
    ]


def test_an_unlikely_unit_is_a_warning_and_json_stays_alone() -> None:
    options = ("--no-levers", "--format", "json")
    slow = optimise("chat-7b", *options, *settings(brief__ttft_target_s=1000))
    assert slow.code == 0
    assert slow.data["status"] == "optimal"
    assert slow.err == (
        "warning: --set brief.ttft_target_s=1000: brief.ttft_target_s: 1,000 is in seconds; "
        "write 1 if you meant milliseconds\n"
    )
    fast = optimise("chat-7b", *options, *settings(brief__tpot_target_ms=0.05))
    assert fast.code == 3
    assert fast.data["status"] == "infeasible"
    assert fast.err.startswith(
        "warning: --set brief.tpot_target_ms=0.05: brief.tpot_target_ms: 0.05 "
    )
    assert "write 50 if you meant seconds" in fast.err
    assert optimise("chat-7b", *options).err == ""


def infeasible(*options: str) -> Any:
    ran = optimise("chat-7b", "--format", "json", *options)
    assert (ran.code, ran.err) == (3, "")
    data = ran.data
    assert data["status"] == "infeasible"
    assert data["conflict"] == data["conflicts"][0]
    for conflict in data["conflicts"]:
        assert conflict["requirements"] == [near["requirement"] for near in conflict["nearest"]]
        for near in conflict["nearest"]:
            assert set(near) >= {"requirement", "asked", "works_at"}
    return data


def test_an_impossible_pace_names_the_nearest() -> None:
    data = infeasible(*settings(brief__tpot_target_ms=7))
    # one sequence alone: (13.48e9 + 1150 * 524288) / 2e12 = 7.0415 ms, up to three digits
    assert data["conflicts"] == [
        {
            "requirements": ["brief.tpot_target_ms"],
            "nearest": [{"requirement": "brief.tpot_target_ms", "asked": 7, "works_at": 7.05}],
        }
    ]


def test_an_impossible_first_token_names_the_nearest() -> None:
    data = infeasible(*settings(brief__ttft_target_s=0.04))
    # prefill alone: 2 * 6.74e9 * 1000 / 300e12 = 44.933 ms, up to three digits
    assert data["conflict"]["nearest"] == [
        {"requirement": "brief.ttft_target_s", "asked": 0.04, "works_at": 0.045}
    ]


def test_independent_conflicts_are_all_told() -> None:
    data = infeasible(*settings(brief__ttft_target_s=0.04, brief__tpot_target_ms=7))
    found = {conflict["requirements"][0] for conflict in data["conflicts"]}
    assert found == {"brief.ttft_target_s", "brief.tpot_target_ms"}


def test_a_budget_against_a_rate() -> None:
    data = infeasible(*settings(limits__usd_per_hour=5))
    nearest = {near["requirement"]: near for near in data["conflict"]["nearest"]}
    # three GPUs at $2 are needed, and two carry 2 * 6.2829 / 1.3 = 9.666 requests/s
    assert nearest["limits.usd_per_hour"] == {
        "requirement": "limits.usd_per_hour",
        "asked": 5,
        "works_at": 6.0,
    }
    assert nearest["brief.requests_per_s"]["works_at"] == 9.66


def test_a_model_too_large_for_the_memory(tmp_path: Path) -> None:
    text = CHAT.replace("llama-2-7b", "llama-3.1-70b").replace("  kv_heads: 32\n", "")
    ran = optimise(written(tmp_path, text), "--format", "json")
    assert ran.code == 3
    assert "hardware.gpus" in {r for c in ran.data["conflicts"] for r in c["requirements"]}


@pytest.mark.parametrize("solver", ["cp-sat", "highs", "cbc"])
def test_no_time_at_all_is_undecided(solver: str) -> None:
    ran = optimise("chat-7b", "--format", "json", "--time-limit", "1e-9", "--solver", solver)
    assert (ran.code, ran.err) == (4, "")
    assert ran.data["status"] == "undecided"
    assert "design" not in ran.data
    assert ran.data["proof"]["solver"] == solver


def test_every_ending_names_the_case() -> None:
    endings: list[Ran] = [
        optimise("chat-7b", "--format", "json", "--no-levers"),
        optimise("chat-7b", "--format", "json", *settings(brief__tpot_target_ms=7)),
        optimise("chat-7b", "--format", "json", "--time-limit", "1e-9"),
    ]
    assert [ran.data["case"] for ran in endings] == ["chat-7b"] * 3
    assert [ran.code for ran in endings] == [0, 3, 4]
