"""Comparisons: changes by name, order, winner, and what a resource costs."""

import pytest

from optimiser import Case, Planned, plan
from optimiser.catalogue.load import default_catalogue, shipped
from optimiser.errors import CaseError, CatalogueError
from optimiser.planning.planner import Infeasible
from optimiser.studies.alternatives import other_gpus
from optimiser.studies.compare import (
    RESOURCES,
    compare,
    every_gpu,
    gpu_change,
    model_change,
    offer_change,
    resource_price,
)


def case_named(name: str, *settings: str) -> Case:
    return Case.load(shipped("cases") / f"{name}.yaml", settings)


def test_a_gpu_that_the_case_names_keeps_its_price() -> None:
    chat = case_named("chat-7b")
    assert chat.changed(gpu_change(chat, "generic-80gb")).hardware.usd_per_gpu_hour == 2.0
    # another is priced by its offers
    other = chat.changed(gpu_change(chat, "h200"))
    assert other.hardware.usd_per_gpu_hour is None
    assert other.offers(other.hardware.gpus[0])


def test_another_model_brings_its_own_kv_heads() -> None:
    own = case_named("chat-7b")  # its 32 KV heads are llama-2-7b's own
    assert own.changed(model_change(own, "llama-3.1-8b")).kv_heads == (8,)
    chosen = case_named("chat-7b", "levers.kv_heads=[32, 8]")
    assert chosen.changed(model_change(chosen, "llama-3.1-8b")).kv_heads == (32, 8)


def test_an_offer_is_rented_alone() -> None:
    known, chat = default_catalogue(), case_named("chat-7b")
    case = chat.changed(offer_change(known, "aws-us-east-1-p5.48xlarge"))
    assert [gpu.name for gpu in case.hardware.gpus] == ["h100-sxm"]
    (offer,) = case.offers(case.hardware.gpus[0])
    assert offer.usd_per_hour == 55.04
    with pytest.raises(CatalogueError) as caught:
        offer_change(known, "aws-us-east-1-p5.48xlarg")
    assert "aws-us-east-1-p5.48xlarge" in caught.value.mistakes[0].nearest


def test_every_gpu_that_has_a_price() -> None:
    known = default_catalogue()
    names = [name for name, _ in every_gpu(case_named("chat-7b"), known)]
    assert len(names) >= 15
    assert all(known.offers(name) for name in names)
    assert set(known.names("gpus")) - set(names) == {
        name for name in known.names("gpus") if not known.offers(name)
    }


def test_rows_are_sorted_and_the_cheapest_wins() -> None:
    changes = [
        ("slow", {"brief.tpot_target_ms": 7.0}),  # cannot comply
        ("more", {"brief.requests_per_s": 20.0}),
        ("less", {"brief.requests_per_s": 2.0}),
        ("wrong", {"brief.prompt_tokens": -1}),
        ("same", {}),
    ]
    found = compare(case_named("chat-7b"), changes)
    assert [row.name for row in found.rows] == ["less", "same", "more", "slow", "wrong"]
    assert found.winner is not None
    assert found.winner.name == "less"
    assert [row.status for row in found.rows] == ["optimal"] * 3 + ["infeasible", "error"]
    # 13 x 0.159 = 2.07; 2.6 x 0.159 = 0.4; 26 x 0.159 = 4.1
    assert [row.gpus_saved for row in found.rows] == [2, 0, -2, None, None]
    assert [row.usd_saved_per_month for row in found.rows[:3]] == [2920.0, 0.0, -2920.0]
    slow, wrong = found.rows[3:]
    assert isinstance(slow.outcome, Infeasible)
    assert slow.outcome.conflicts[0].nearest[0].works_at == 7.05
    assert isinstance(wrong.outcome, CaseError)


def test_a_tie_goes_to_the_baseline() -> None:
    found = compare(case_named("chat-7b"), [("a", {}), ("b", {"brief.ttft_target_s": 2.0})])
    assert found.winner is found.baseline
    assert [row.usd_saved_per_month for row in found.rows] == [0.0, 0.0]


def test_a_baseline_that_cannot_comply() -> None:
    case = case_named("chat-7b", "brief.tpot_target_ms=7")
    found = compare(case, [("loose", {"brief.tpot_target_ms": 50.0})])
    assert found.baseline.status == "infeasible"
    assert found.winner is found.rows[0]
    assert found.winner.gpus_saved is None
    assert compare(case, [("as strict", {"brief.tpot_target_ms": 6.0})]).winner is None


def test_what_a_resource_costs() -> None:
    outcome = plan(case_named("chat-7b"))
    assert isinstance(outcome, Planned)
    # $2 for 2 TB/s, 80 GB and 0.3 PFLOP/s
    prices = {name: resource_price(outcome, resource) for name, resource in RESOURCES.items()}
    assert prices == {
        "weight_reads": 1.0,
        "kv_reads": 1.0,
        "memory_capacity": 2.5,
        "decode_compute": pytest.approx(2 / 0.3),
        "prefill_compute": pytest.approx(2 / 0.3),
    }
    eight = case_named("chat-7b").changed(
        offer_change(default_catalogue(), "aws-us-east-1-p5.48xlarge")
    )
    rented = plan(eight)
    assert isinstance(rented, Planned)
    # 55.04 / 8 for each of the GPUs, idle ones too, of 3.35 TB/s
    assert resource_price(rented, "TB/s of bandwidth") == pytest.approx(6.88 / 3.35)


def test_why_other_gpus_lost() -> None:
    case = case_named(
        "llama-3.1-8b", "hardware.gpus=[l4, h100-sxm, h200, t4]", "levers.tensor_parallel=[1, 2]"
    )
    outcome = plan(case)
    assert isinstance(outcome, Planned)
    others = other_gpus(outcome)
    assert {one.gpu for one in others} == {"l4", "h200", "t4"}
    above = [one.usd_per_hour_above for one in others if one.usd_per_hour_above is not None]
    assert above == sorted(above)
    best = outcome.proof.objective_usd_per_hour
    for one in others:
        alone = plan(case.changed({"hardware.gpus": [one.gpu]}))
        if one.planned is None:
            assert isinstance(alone, Infeasible)
            assert one.conflicts == alone.conflicts != ()
            assert one.usd_per_hour_above is None
            continue
        assert isinstance(alone, Planned)
        assert one.planned.design == alone.design
        dearer = alone.proof.objective_usd_per_hour - best
        assert one.usd_per_hour_above == pytest.approx(dearer)
        assert dearer >= 0
    assert others[-1].planned is None or all(one.planned for one in others)
