"""The best sets of levers against every subset, planned one by one; the study against its rows."""

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations
from random import Random

import pytest

from optimiser import Case, Planned, plan
from optimiser.catalogue.load import default_catalogue, shipped
from optimiser.catalogue.offer import Offer
from optimiser.errors import CaseError
from optimiser.planning.configurations import configurations
from optimiser.planning.joined import joined
from optimiser.studies.lever_sets import best_sets, set_changes
from optimiser.studies.lever_study import study_levers
from optimiser.studies.options import Lever, Shares, levers_of
from optimiser.studies.rows import Row
from tests.strategies import Shop, case_of, draw_case, draw_real_case

FEW = 7


def chat_7b(*settings: str) -> Case:
    return Case.load(shipped("cases") / "chat-7b.yaml", settings)


def planned(case: Case) -> Planned:
    outcome = plan(case, explained=False)
    assert isinstance(outcome, Planned)
    return outcome


def cost_of_set(baseline: Planned, levers: Sequence[Lever]) -> float | None:
    """The cost of a set in a plan of its own; None where it is no valid case or cannot comply."""
    if len({lever.group for lever in levers}) < len(levers):
        return None
    try:
        outcome = plan(baseline.case.changed(set_changes(baseline, levers)), explained=False)
    except CaseError:
        return None
    return outcome.proof.objective_usd_per_hour if isinstance(outcome, Planned) else None


@cache
def small_space(seed: int) -> tuple[Planned, tuple[Lever, ...]]:
    """A drawn case that something meets, and a few of its levers, GPUs and lengths among them."""
    random = Random(seed)
    while True:
        drawn = random.randrange(10_000)
        case = draw_real_case(drawn, twisted=False) if seed % 2 else draw_case(drawn)
        outcome = plan(case, explained=False)
        if not isinstance(outcome, Planned) or outcome.design.rented_gpus < 2:
            continue
        known = case._catalogue if seed % 2 else Shop()
        assert known is not None
        levers = levers_of(outcome, known)
        by_group: dict[str, list[Lever]] = {}
        for lever in levers:
            by_group.setdefault(lever.group, []).append(lever)
        if not {"weights", "prompt"} <= set(by_group):
            continue
        chosen = [random.choice(by_group["weights"])]
        chosen += random.sample([lever for lever in levers if lever not in chosen], FEW - 1)
        return outcome, tuple(lever for lever in levers if lever in chosen)


@cache
def every_subset(seed: int) -> dict[tuple[str, ...], float]:
    baseline, levers = small_space(seed)
    found = {}
    for size in range(4):
        for chosen in combinations(levers, size):
            cost = cost_of_set(baseline, chosen)
            if cost is not None:
                found[tuple(lever.name for lever in chosen)] = cost
    return found


def names(row: Row) -> tuple[str, ...]:
    return () if row.name == "no lever" else tuple(row.name.split(" + "))


def cost_of(row: Row) -> float:
    assert row.planned is not None
    return row.planned.proof.objective_usd_per_hour


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_best_set_is_that_of_exhaustive_search(seed: int, depth: int) -> None:
    baseline, levers = small_space(seed)
    subsets = {s: cost for s, cost in every_subset(seed).items() if len(s) <= depth}
    (best,) = best_sets(baseline, levers, depth)
    least = min(subsets.values())
    assert cost_of(best) == least
    # fewest levers among those that cost the least, and a set that is really that cheap
    assert len(names(best)) == min(len(s) for s, cost in subsets.items() if cost == least)
    order = [lever.name for lever in levers]
    assert subsets[tuple(sorted(names(best), key=order.index))] == least


@pytest.mark.parametrize("seed", range(8))
def test_sets_of_exactly_so_many_in_order(seed: int) -> None:
    baseline, levers = small_space(seed)
    pairs = sorted(cost for s, cost in every_subset(seed).items() if len(s) == 2)
    found = best_sets(baseline, levers, 2, 3, exactly=True)
    assert [cost_of(row) for row in found] == pairs[:3]
    assert all(len(names(row)) == 2 for row in found)
    assert len({names(row) for row in found}) == len(found)


@pytest.mark.parametrize("solver_name", ["highs", "cbc"])
def test_other_solvers_find_the_same_sets(solver_name: str) -> None:
    """Ties included: shorter prompts and shorter answers may lead to one design."""
    for seed in range(6):
        baseline, levers = small_space(seed)
        mine = best_sets(baseline, levers, 2, 5)
        theirs = best_sets(baseline, levers, 2, 5, solver_name=solver_name)
        assert [row.name for row in theirs] == [row.name for row in mine]


@pytest.mark.parametrize("seed", range(8))
def test_a_set_is_never_worse_than_its_parts(seed: int) -> None:
    baseline, levers = small_space(seed)
    cost = baseline.proof.objective_usd_per_hour
    for depth in (1, 2, 3):
        (best,) = best_sets(baseline, levers, depth)
        assert cost_of(best) <= cost
        for lever in levers:
            alone = cost_of_set(baseline, [lever])
            assert alone is None or cost_of(best) <= alone
        cost = cost_of(best)


def test_a_row_equals_a_plain_plan() -> None:
    for seed in range(8):
        baseline, levers = small_space(seed)
        by_name = {lever.name: lever for lever in levers}
        for row in best_sets(baseline, levers, 2, 3):
            pulled = [by_name[name] for name in names(row)]
            alone = planned(baseline.case.changed(set_changes(baseline, pulled)))
            assert row.planned is not None
            assert row.planned.design == alone.design
            saved = baseline.proof.objective_usd_per_hour - alone.proof.objective_usd_per_hour
            assert row.usd_saved_per_month == pytest.approx(saved * 730)
            assert row.gpus_saved == baseline.design.rented_gpus - alone.design.rented_gpus


def test_levers_of_one_group_are_not_pulled_together() -> None:
    baseline = planned(chat_7b("brief.requests_per_s=100"))
    levers = levers_of(baseline, Shop())
    group = {lever.name: lever.group for lever in levers}
    for row in best_sets(baseline, levers, 3, 6):
        groups = [group[name] for name in names(row)]
        assert len(set(groups)) == len(groups)


def test_nothing_to_pull() -> None:
    baseline = planned(chat_7b())
    (only,) = best_sets(baseline, [], 2)
    assert (only.name, only.gpus_saved, only.usd_saved_per_month) == ("no lever", 0, 0.0)
    assert best_sets(baseline, [], 2, exactly=True) == []


def test_a_set_that_is_no_valid_case_is_left_out() -> None:
    """Another GPU that no instance of holds the replica, or that is not sold on that term."""
    baseline = planned(chat_7b("levers.tensor_parallel=2"))
    levers = [lever for lever in levers_of(baseline, default_catalogue()) if lever.kind == "gpu"]
    assert "gh200-96gb instead" in [lever.name for lever in levers]  # one GPU an instance
    (best,) = best_sets(baseline, levers, 1)
    assert best.planned is not None
    study = study_levers(baseline, default_catalogue(), depth=1)
    (row,) = [r.row for r in study.results if r.lever.name == "gh200-96gb instead"]
    assert (row.status, row.planned, row.gpus_saved) == ("error", None, None)


def test_joined_spaces_keep_their_own_figures() -> None:
    cases = [chat_7b(), chat_7b("brief.prompt_tokens=500"), chat_7b("assumptions.efficiency=0.5")]
    spaces = [configurations(case) for case in cases]
    together, origin = joined(spaces)
    assert origin.tolist() == [0, 1, 2]
    batch = together.largest_batch
    # 56.0 GB over 1300 x 512 KiB; over 800; and the first again
    assert batch.tolist() == [int(space.largest_batch[0]) for space in spaces]
    needed = [int(space.fewest_replicas(space.largest_batch)[0]) for space in spaces]
    assert together.fewest_replicas(batch).tolist() == needed
    assert needed == [3, 2, 5]
    assert together.case == cases[0]
    assert together.unit_nano_usd.tolist() == [2 * 10**9] * 3


# The levers themselves.


def test_levers_of_a_design() -> None:
    baseline = planned(chat_7b())
    found = {lever.name: lever for lever in levers_of(baseline, Shop())}
    assert list(found) == [
        "int8 weights",
        "int4 weights",
        "int4-g128 weights",
        "int8 KV cache",
        "GQA (16 KV heads)",
        "GQA (8 KV heads)",
        "GQA (4 KV heads)",
        "GQA (2 KV heads)",
        "MQA (1 KV head)",
        "tensor parallel 2",
        "tensor parallel 4",
        "tensor parallel 8",
        "20 % shorter prompts",
        "20 % shorter answers",
        "prefix cache, 50 % hit",
        "TTFT target 1.5 s",
        "TPOT target 75 ms",
    ]
    assert found["20 % shorter prompts"].changes == {"brief.prompt_tokens": 800}
    assert found["20 % shorter answers"].changes == {"brief.answer_tokens": 240}
    assert found["GQA (8 KV heads)"].changes == {"levers.kv_heads": 8}
    assert found["tensor parallel 2"].changes == {"levers.tensor_parallel": [1, 2]}
    assert found["TPOT target 75 ms"].changes == {"brief.tpot_target_ms": 75}
    half = planned(chat_7b("assumptions.efficiency=0.5", "assumptions.prefix_cached_frac=0.6"))
    more = {lever.name: lever for lever in levers_of(half, Shop())}
    assert more["efficiency 55 %"].changes == {"assumptions.efficiency": pytest.approx(0.55)}
    assert not any(name.startswith("prefix") for name in more)


def test_shares_of_the_levers_with_a_size() -> None:
    baseline = planned(chat_7b("assumptions.efficiency=0.5"))
    shares = Shares(0.5, 0.9, 1.0, 0.2)
    found = {lever.name: lever.changes for lever in levers_of(baseline, Shop(), shares)}
    assert found["50 % shorter prompts"] == {"brief.prompt_tokens": 500}
    assert found["prefix cache, 90 % hit"] == {"assumptions.prefix_cached_frac": 0.9}
    assert found["TTFT target 2 s"] == {"brief.ttft_target_s": 2.0}
    assert found["efficiency 60 %"] == {"assumptions.efficiency": 0.6}


def test_formats_only_where_the_gpu_has_them() -> None:
    gpu = "{name: x, memory_gb: 80, bandwidth_gb_per_s: 2000, tflops: {fp16: 300, fp8: 600}}"
    names = {
        lever.name
        for lever in levers_of(planned(chat_7b(f"hardware.gpus=[{gpu}]")), Shop())
        if lever.kind in ("weights", "kv_cache")
    }
    assert names == {
        "fp8 weights",
        "int8 weights",
        "int4 weights",
        "int4-g128 weights",
        "fp8 KV cache",
        "int8 KV cache",
    }


def test_spot_is_a_lever_where_it_is_sold_and_not_rented() -> None:
    gpu = {"name": "mine", "memory_gb": 80, "bandwidth_gb_per_s": 2000, "tflops": {"fp16": 300}}
    fields = {
        "gpu": "mine",
        "cloud": "c",
        "region": "r",
        "instance": "i",
        "gpus_per_instance": 1,
        "source": "by hand",
        "as_of": "2026",
    }
    for spot, terms, expected in ((1.0, None, True), (None, None, False), (1.0, "spot", False)):
        offer = Offer.model_validate(
            {**fields, "name": "o", "usd_per_hour": 2.0, "spot_usd_per_hour": spot}
        )
        hardware = {"gpus": [gpu], **({"offers": {"terms": terms}} if terms else {})}
        data = {**chat_7b().model_dump(exclude_unset=True), "hardware": hardware}
        shop = Shop(offer)
        baseline = planned(case_of(data, shop))
        levers = {lever.name: lever for lever in levers_of(baseline, shop)}
        assert ("spot price" in levers) == expected
        if expected:
            study = study_levers(baseline, shop, depth=1)
            row = next(r.row for r in study.results if r.lever.name == "spot price")
            # 3 GPUs at $1 instead of $2
            assert row.usd_saved_per_month == pytest.approx(3 * 730)
            assert next(r for r in study.results if r.lever.name == "spot price").helps


def test_every_lever_says_what_it_takes_and_from_where() -> None:
    study = study_levers(planned(chat_7b()), default_catalogue(), depth=1)
    kinds = {result.lever.kind for result in study.results}
    assert {"weights", "kv_cache", "kv_heads", "gpu", "prompt", "answer", "prefix"} <= kinds
    for result in study.results:
        text = result.lever.text
        for said in (text.effort, text.how, text.risk, text.source):
            assert len(said) > 3
        assert text.as_of[:2] == "20"
        assert result.why


# The study.


def shop_study(by: str, *settings: str) -> list[tuple[str, bool, Row]]:
    study = study_levers(planned(chat_7b(*settings)), Shop(), by, depth=1)  # type: ignore[arg-type]
    return [(result.lever.name, result.helps, result.row) for result in study.results]


def test_by_gpus_as_the_page_ranks() -> None:
    rows = shop_study("gpus")
    helping = [(name, row.gpus_saved) for name, helps, row in rows if helps]
    # 32 own heads: 8 are two steps away, 4 three; requests/s per GPU among the others
    assert helping[:4] == [
        ("GQA (8 KV heads)", 2),
        ("GQA (4 KV heads)", 2),
        ("GQA (2 KV heads)", 2),
        ("MQA (1 KV head)", 2),
    ]
    assert {saved for _, saved in helping[4:]} == {1}
    assert helping[4][0] == "int8 KV cache"
    assert helping[-1][0] == "GQA (16 KV heads)"  # one step from the model's own
    assert not any(helps for _, helps, _ in rows[len(helping) :])
    for _, helps, row in rows:
        assert helps == bool(row.gpus_saved and row.gpus_saved > 0)


def test_by_cost_and_by_tpot() -> None:
    by_cost = [row for _, helps, row in shop_study("cost", "brief.requests_per_s=50") if helps]
    saved = [row.usd_saved_per_month or 0.0 for row in by_cost]
    assert saved == sorted(saved, reverse=True)
    assert min(saved) > 0
    rows = shop_study("tpot")
    tpot = [row.planned.verdict.figures.tpot_ms for _, helps, row in rows if helps and row.planned]
    assert tpot == sorted(tpot)
    base = planned(chat_7b()).verdict.figures.tpot_ms
    assert max(tpot) < base
    for _, helps, row in rows:
        if row.planned:
            assert helps == (row.planned.verdict.figures.tpot_ms < base)


def test_why_by_hand() -> None:
    """Weights are 13.48 GB of a step; 85 sequences read 51.2 GB of cache, 64.7 in all."""
    study = study_levers(planned(chat_7b()), Shop(), depth=1)
    said = {result.lever.name: result.why for result in study.results}
    # 85 x 1150 tokens x 524,288 bytes = 51.25 GB; 13.48 / 64.73 = 20.8 %
    assert said["int4 weights"] == (
        "weights are 21 % of the bytes of a step: int4 weights cannot save more than 16 % of them"
    )
    assert said["int8 weights"].endswith("int8 weights cannot save more than 10 % of them")
    assert said["int8 KV cache"].startswith("the KV cache is 79 % of the bytes of a step")
    assert "saves up to 40 % of them" in said["int8 KV cache"]
    assert "saves up to 59 % of them" in said["GQA (8 KV heads)"]  # 79 x 3/4
    # a request: 300 x 32.37 ms / 85 + 44.93 ms = 159.2 ms, of which prefill 28 %
    assert said["20 % shorter prompts"] == "prefill is 28 % of what a request costs"
    assert said["20 % shorter answers"] == "decoding is 72 % of what a request costs"
    assert said["TTFT target 1.5 s"] == "the target has 96 % to spare"
    # 8 ms: batch 4 takes 7.95 ms
    tight = study_levers(planned(chat_7b("brief.tpot_target_ms=7.95")), Shop(), depth=1)
    why = {result.lever.name: result.why for result in tight.results}
    assert [text for name, text in why.items() if name.startswith("TPOT")] == ["the target binds"]


def test_best_and_pairs_of_a_study() -> None:
    study = study_levers(planned(chat_7b("brief.requests_per_s=50")), Shop(), depth=2)
    assert study.best is not None
    assert len(study.pairs) == 3
    costs = [cost_of(row) for row in study.pairs]
    assert costs == sorted(costs)
    assert cost_of(study.best) <= min(costs)
    for result in study.results:
        if result.row.planned:
            assert cost_of(study.best) <= cost_of(result.row)
    assert not math.isclose(cost_of(study.best), study.planned.proof.objective_usd_per_hour)


def test_another_gpu_alone_and_with_one_more() -> None:
    baseline = planned(chat_7b())
    every = levers_of(baseline, default_catalogue())
    wanted = ("gh200-96gb instead", "l40s instead", "h200 instead", "GQA (2 KV heads)")
    levers = [lever for lever in every if lever.name in wanted]
    for depth in (1, 2):
        (best,) = best_sets(baseline, levers, depth)
        costs = {
            tuple(lever.name for lever in chosen): cost_of_set(baseline, chosen)
            for size in range(depth + 1)
            for chosen in combinations(levers, size)
        }
        least = min(cost for cost in costs.values() if cost is not None)
        assert cost_of(best) == least
        assert len(names(best)) == depth
    # at depth 2 the L40S, that fits one replica of fewer heads
    assert sorted(names(best)) == ["GQA (2 KV heads)", "l40s instead"]
    gpus = [lever for lever in levers if lever.kind == "gpu"]
    (alone,) = best_sets(baseline, gpus, 1)
    # one GH200 at $2.29 instead of three GPUs at $2
    assert (alone.name, cost_of(alone)) == ("gh200-96gb instead", 2.29)


def test_sets_are_told_apart_by_their_levers() -> None:
    """A lever that opens sizes has several configurations, and is one set all the same."""
    baseline = planned(chat_7b())
    sizes = [lever for lever in levers_of(baseline, Shop()) if lever.kind == "tensor_parallel"]
    found = best_sets(baseline, sizes, 1, 9)
    assert sorted(row.name for row in found) == [
        "no lever",
        "tensor parallel 2",
        "tensor parallel 4",
        "tensor parallel 8",
    ]
    assert found[0].name == "tensor parallel 2"
    # sizes exclude each other
    assert best_sets(baseline, sizes, 2, 3, exactly=True) == []
