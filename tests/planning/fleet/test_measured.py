"""Fleets with the latency of measured servers."""

import json
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from optimiser.case import Case
from optimiser.cli.main import cli
from optimiser.engine import latency
from optimiser.engine.latency_parts import LatencyParts, columns_of
from optimiser.engine.replicas import Lengths, Replicas
from optimiser.errors import CaseError
from optimiser.fleet_case import FleetCase
from optimiser.planning.fleet.assemble import assemble
from optimiser.planning.fleet.checks import verify
from optimiser.planning.fleet.explain import explain_fleet
from optimiser.planning.fleet.measured_grid import Grid, alone_grid, mixed_grid
from optimiser.planning.fleet.measured_shares import RESOURCES, measured_shares, shares_alone
from optimiser.planning.fleet.planned import planned_pools
from optimiser.planning.fleet.planner import FleetInfeasible, FleetPlanned, plan_fleet
from optimiser.planning.fleet.search import FleetFound, search
from optimiser.planning.fleet.shares import Offered
from optimiser.planning.mix import Routed
from optimiser.planning.planner import Infeasible, Planned, plan
from optimiser.planning.settle_measured import latency_of
from optimiser.planning.solvers.base import Status
from optimiser.planning.verify_fleet import settle
from optimiser.review.fleet import fleet_review
from optimiser.review.terminal import render
from optimiser.yaml_io import Document
from tests.cli.running import ROOT
from tests.planning.fleet import drawn
from tests.strategies import draw_measured_case, log_uniform


def priced(seed: int) -> Case:
    """A drawn case with measured latency whose GPUs state their prices."""
    random, case = Random(seed), draw_measured_case(seed)
    gpus = [
        {
            **gpu.model_dump(exclude_unset=True),
            "usd_per_hour": random.choice((0.5, 0.75, 1.2, 2.0, 1 / 3)),
        }
        for gpu in case.hardware.gpus
    ]
    return case.changed({"hardware.gpus": gpus, "hardware.offers": None})


def fleet_data(seed: int, n_classes: int, **sections: object) -> dict[str, object]:
    """A drawn case's model and hardware under several classes."""
    random, data = Random(seed), priced(seed).model_dump(exclude_unset=True)
    brief = data.pop("brief")
    workloads = []
    for i in range(n_classes):
        rate = brief.get("requests_per_s") or 5.0
        workload = {
            "name": f"class{i}",
            "requests_per_s": min(rate, 40.0) * random.uniform(0.3, 1.0),
            "prompt_tokens": round(log_uniform(random, 50, 3000)),
            "answer_tokens": round(log_uniform(random, 2, 600)),
            "ttft_target_s": random.choice((1.0, 2.0, 5.0)),
            "tpot_target_ms": random.choice((40.0, 70.0, 120.0)),
        }
        if random.random() < 0.2:
            workload["concurrent_users"] = random.uniform(3, 60)
            del workload["requests_per_s"]
        workloads.append(workload)
    return {**data, "workloads": workloads, "limits": {}, **sections}


def made(data: dict[str, object]) -> FleetCase:
    return FleetCase.of_document(Document("drawn", data), None)


@pytest.mark.parametrize("chunk", range(15))
def test_one_class_in_one_pool_is_the_single_design(chunk: int) -> None:
    for seed in range(10 * chunk, 10 * chunk + 10):
        case = priced(seed)
        data = case.model_dump(exclude_unset=True)
        fleet = plan_fleet(made({**data, "limits": {"most_pools": 1}}))
        one = plan(case, explained=False)
        if isinstance(one, Infeasible):
            assert isinstance(fleet, FleetInfeasible), seed
            continue
        assert isinstance(one, Planned), seed
        assert isinstance(fleet, FleetPlanned), seed
        assert fleet.usd_per_hour == pytest.approx(one.verdict.figures.usd_per_hour, abs=1e-9), seed
        pool = fleet.pools[0]
        assert pool.design == one.design, seed
        assert pool.mix is not None
        assert pool.mix.tpot_s * 1000 == pytest.approx(one.verdict.figures.tpot_ms)
        assert pool.mix.ttft_s["brief"] * 1000 == pytest.approx(one.verdict.figures.ttft_ms)
        free = plan_fleet(made({**data, "limits": {}}))
        assert isinstance(free, FleetPlanned), seed
        assert free.usd_per_hour <= fleet.usd_per_hour + 1e-9, seed


def test_a_margin_of_the_case_holds_for_the_roofline_too() -> None:
    data = {**priced(4).model_dump(exclude_unset=True), "limits": {"most_pools": 1}}
    data["assumptions"] = {"slo_margin": 0.7, "headroom": 1.3}
    one = plan(Case.of_document(Document("one", {**data, "limits": {}}), None), explained=False)
    fleet = plan_fleet(made(data))
    assert isinstance(one, Planned)
    assert isinstance(fleet, FleetPlanned)
    assert fleet.pools[0].design == one.design
    tpot = next(check for check in fleet.checks if "tpot" in check.requirement)
    assert tpot.required == pytest.approx(0.7 * one.case.brief.tpot_target_ms)


@pytest.mark.parametrize("chunk", range(10))
def test_every_fleet_of_drawn_classes_verifies(chunk: int) -> None:
    planned = 0
    for seed in range(4 * chunk, 4 * chunk + 4):
        outcome = plan_fleet(made(fleet_data(seed, 2 + seed % 2)), time_limit_s=20)
        if not isinstance(outcome, FleetPlanned):
            continue
        planned += 1
        assert all(check.holds for check in outcome.checks), seed
        headroom = outcome.case.assumptions.headroom
        for pool in outcome.pools:
            assert pool.mix is not None
            assert pool.of.promise_s is not None
            assert pool.utilization_frac * headroom <= 1 + 1e-9, seed
            assert pool.mix.step_s <= pool.of.step_s * (1 + 1e-9), seed
            assert pool.mix.tpot_s <= pool.of.promise_s * (1 + 1e-9), seed
            assert pool.mix.sequences <= pool.of.most_batch * (1 + 1e-9), seed
    assert planned


@pytest.mark.parametrize("seed", range(12))
def test_full_replicas_of_any_mix_settle_below_the_step_of_their_pool(seed: int) -> None:
    """Every pool, filled to its scarcest resource with random shares of its classes."""
    random, case = np.random.default_rng(seed), made(fleet_data(seed, 3))
    assembled = assemble(case)
    if not len(assembled.pools):
        return
    headroom = case.assumptions.headroom
    for p in random.choice(len(assembled.pools), min(15, len(assembled.pools)), replace=False):
        of = assembled.pools[int(p)]
        share = np.where(assembled.fleet.pools.able[p], random.uniform(0.05, 1, 3), 0.0)
        replicas = float((assembled.fleet.pools.need[p] @ share).max())
        routed = [
            Routed(one, float(share[w]) * one.brief.rate * headroom / replicas)
            for w, one in enumerate(assembled.cases)
            if share[w] > 0
        ]
        mix = settle(SimpleNamespace(configuration=of.configuration), 1, routed)  # type: ignore[arg-type]
        assert of.promise_s is not None
        assert mix.step_s <= of.step_s * (1 + 1e-9)
        assert mix.tpot_s <= of.promise_s * (1 + 1e-9)
        assert mix.sequences <= of.most_batch * (1 + 1e-9)
        assert mix.memory_frac <= 1 + 1e-9
        for one in routed:
            target = one.case.brief.ttft_target_s * (one.case.assumptions.slo_margin or 1.0)
            assert mix.ttft_s[one.case.name] <= target * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_a_mix_settles_at_the_least_step_that_it_keeps_to(seed: int) -> None:
    """At the step found a replica's batch takes it, and at none of 400 shorter ones."""
    assembled = assemble(made(fleet_data(seed, 2)))
    pools = [pool for pool in assembled.pools if pool.configuration is not None]
    if not pools:
        return
    design = SimpleNamespace(configuration=pools[len(pools) // 2].configuration)
    routed = [Routed(one, 0.2 * (w + 1)) for w, one in enumerate(assembled.cases)]
    mix = settle(design, 1, routed)  # type: ignore[arg-type]
    parts = [(latency_of(one.case, design), one.requests_per_s) for one in routed]  # type: ignore[arg-type]
    busy = sum(rate * part.prefill_s() * part.constants.prefill_share for part, rate in parts)
    if not np.isfinite(mix.step_s):
        assert busy > 0
        return

    def step_of(step_s: float) -> tuple[float, float]:
        running = []
        for part, rate in parts:
            decoding_s = (part.at.answer_tokens - 1) * step_s / (1 - busy)
            running.append((part, rate * (part.first_token_s(step_s) + decoding_s)))
        return parts[0][0].mixed_step_s(running), sum(count for _, count in running)

    taken, sequences = step_of(mix.step_s)
    assert taken == pytest.approx(mix.step_s, rel=1e-9)
    assert sequences == pytest.approx(mix.sequences)
    assert all(step_of(mix.step_s * i / 401)[0] > mix.step_s * i / 401 for i in range(401))


@pytest.mark.parametrize("seed", range(10))
def test_the_search_equals_exhaustive_search_over_some_pools(seed: int) -> None:
    random = np.random.default_rng(seed)
    fleet = assemble(made(fleet_data(seed, 2))).fleet
    able = fleet.pools.able
    if not able.any(axis=0).all():
        return
    each = [int(random.choice(np.flatnonzero(able[:, w]))) for w in range(2)]
    rest = random.choice(len(fleet.pools), min(3, len(fleet.pools)), replace=False).tolist()
    part = fleet.of(np.unique([*each, *rest]))
    scale = 2.5 / max(1.0, float(part.pools.need.max()))
    part = replace(part, pools=replace(part.pools, need=part.pools.need * min(1.0, scale)))
    found, best = search(part, 20), drawn.cheapest(part)
    assert found.status is Status.OPTIMAL
    assert best is not None
    assert found.usd_per_hour <= best + 1e-9
    if found.replicas.max() <= drawn.MOST:
        assert found.usd_per_hour == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_removing_any_replica_of_a_surviving_fleet_leaves_a_verified_one(seed: int) -> None:
    data = fleet_data(seed, 2, limits={"survive": 1})
    outcome = plan_fleet(made(data), time_limit_s=20)
    if not isinstance(outcome, FleetPlanned):
        return
    assembled, plain = outcome.assembled, made({**data, "limits": {}})
    place = {id(pool): p for p, pool in enumerate(assembled.pools)}
    for failed in outcome.pools:
        replicas = np.zeros(len(assembled.pools), dtype=np.int64)
        shares = np.zeros((len(assembled.pools), len(assembled.rates)))
        for pool in outcome.pools:
            p = place[id(pool.of)]
            replicas[p] = pool.replicas - (pool is failed)
            for w, name in enumerate(assembled.names.classes):
                shares[p, w] = pool.routed.get(name, 0.0) / assembled.rates[w]
        left = replace(assembled, case=plain, fleet=replace(assembled.fleet, spare=0))
        found = FleetFound(Status.FEASIBLE, replicas, shares, 1.0, 0.0, 0.0)
        checks = verify(left, planned_pools(left, found))
        assert all(check.holds for check in checks), [c for c in checks if not c.holds]


def offered(**changes: object) -> Offered:
    """One configuration in round numbers: see the tests that work with it."""
    parts = {
        "weight_read_s": 0.004,
        "weight_token_s": 0.0001,
        "head_read_s": 0.001,
        "head_token_s": 0.0,
        "experts": 1.0,
        "experts_per_token": 0.0,
        "expert_read_s": 0.0,
        "expert_token_s": 0.0,
        "unhidden_frac": 0.0,
        "sequence_s": 0.0005,
        "link_token_s": 0.0,
        "link_large_s": 0.0,
        "link_large_tokens": 1.0,
        "floor_s": 0.003,
        "prompt_tokens": 1000.0,
        "answer_tokens": 101.0,
        "prompt_attention_s": 0.017,
        "prefill_share": 0.5,
        "wait_steps": 5.0,
        "ttft_offset_s": 0.02,
        "decode_scale": 1.25,
        "prefill_scale": 1.0,
    }
    fields = {
        "usable_bytes": 100.0,
        "fixed_bytes": 20.0,
        "kv_held_bytes": 4.0,
        "sampler_fixed_bytes": 10.0,
        "sampler_bytes": 1.0,
        "read_bytes": 0.0,
        "expert_bytes": 0.0,
        "expert_missed_frac": 0.0,
        "kv_read_bytes": 0.0,
        "decode_flops": 0.0,
        "prefill_flops": 0.0,
        "bytes_per_s": 1.0,
        "flops_per_s": 1.0,
    }
    row = {name: value for name, value in changes.items() if name in parts}
    own = {name: value for name, value in changes.items() if name not in parts}
    known: dict[str, object] = {
        "requests_per_s": 3.0,
        "lengths": Lengths(1000, 101),
        "ttft_target_s": 1.0,
        "tpot_target_s": 0.025,
        "replicas": Replicas(*(np.array([value]) for value in fields.values())),
        "admitted": np.array([True]),
        "latency": columns_of([LatencyParts(**{**parts, **row})]),
        "most_batch": 64,
    }
    return Offered(**{**known, **own})  # type: ignore[arg-type]


def one_pool(step_s: float, batch: int, promise_s: float) -> Grid:
    return Grid(
        np.array([0]), np.array([step_s]), np.array([batch], dtype=np.int64), np.array([promise_s])
    )


def test_the_need_of_a_class_by_hand() -> None:
    """Steps of 20 ms, at most 10 sequences, a promise of 25 ms.

    Prompt: 1,000 tokens x 0.1 ms = 100 ms, floors 3 ms, attention 17 ms: 120 ms, of which P = 60
    ms beside decoding. TTFT = 20 + 5 x 20 + 120 = 240 ms; with 100 steps a request stays 2.24 s.
    Shared by the sequences of a step: 4 + 1 + 3 = 8 ms, so that 20 / 1.25 - 8 = 8 ms are left for
    sequences of 0.5 ms: 16 slots. Memory: (100 - 20) / 4 = 20; sampling: (100 - 10) / (4 + 1) =
    18; the batch: 10. Promise: 60 ms / (1 - 20 / 25) = 300 ms a request.
    """
    need, able = measured_shares([offered()], one_pool(0.020, 10, 0.025))
    assert able.tolist() == [[True]]
    expected = {
        "step": 3 * (2.24 / 16 + 0.06),
        "memory": 3 * (2.24 / 20 + 0.06),
        "sampling": 3 * (2.24 / 18 + 0.06),
        "batch": 3 * (2.24 / 10 + 0.06),
        "promise": 3 * 0.3,
    }
    assert tuple(expected) == RESOURCES
    assert need[0, :, 0] == pytest.approx(list(expected.values()), rel=1e-8)


def test_a_class_that_a_pool_is_no_use_to() -> None:
    pool = one_pool(0.020, 10, 0.025)
    assert measured_shares([offered(ttft_target_s=0.240)], pool)[1].all()
    for changes in (
        {"ttft_target_s": 0.239},  # its first token takes 240 ms
        {"tpot_target_s": 0.0249},  # the pool promises 25 ms
        {"most_batch": 9},  # it accepts no batch of 10
        {"sequence_s": 0.0081},  # 8 ms are left for its sequences
        {"admitted": np.array([False])},
    ):
        need, able = measured_shares([offered(**changes)], pool)
        assert not able.any(), changes
        assert not need.any(), changes
    assert not measured_shares([offered()], one_pool(0.025, 10, 0.025))[1].any()


def test_users_keep_their_slots() -> None:
    """Of 100 users 16 fit a replica by steps, 20 and 18 by memory, 10 by the batch."""
    need, _ = measured_shares([offered(users=100.0, requests_per_s=0.1)], one_pool(0.02, 10, 0.025))
    assert need[0, :4, 0] == pytest.approx([100 / 16, 5.0, 100 / 18, 10.0], rel=1e-8)


def test_one_class_alone_by_hand() -> None:
    """The largest batch of the closed loop: step(b) = 1.25 (8 + b / 2) ms and (b - 1) 60 / 101 ms.

    b = 13: 18.125 + 7.129 = 25.25 ms; b = 12: 17.5 + 6.535 = 24.03 ms. So 12, where a request
    stays 20 + 5 x 17.5 + 120 + 100 x 24.035 = 2,630.97 ms.
    """
    grid = alone_grid(offered())
    assert grid.most_batch.tolist() == [12]
    assert grid.step_s == pytest.approx([0.0175])
    need, able = shares_alone(offered(), grid)
    residence_s = 0.02 + 5 * 0.0175 + 0.12 + 100 * (0.0175 + 11 * 0.06 / 101)
    assert able.all()
    assert need[0, :, 0] == pytest.approx([3 * residence_s / 12] * 5)
    assert shares_alone(offered(users=240.0), grid)[0].max() == pytest.approx(240 / 12)


def test_the_steps_of_a_class_in_a_mix_by_hand() -> None:
    """Full replicas keep 25 ms: τ (1 + 60 b / (140 + 105 τ)) ≤ 25 ms with τ = 10 + 0.625 b.

    b = 14: τ = 18.75, 18.75 (1 + 840 / 2108.75) = 26.2 ms; b = 13: τ = 18.125, 18.125 (1 + 780 /
    2043.1) = 25.04 ms; b = 12: τ = 17.5, 17.5 (1 + 720 / 1977.5) = 23.9 ms. So 12, and shares of
    it: 8.4 and 6 in whole sequences up.
    """
    grid = mixed_grid([offered()])
    assert grid.most_batch.tolist() == [6, 9, 12]
    assert grid.step_s == pytest.approx([0.01375, 0.015625, 0.0175])
    assert (np.asarray(grid.promise_s) == 0.025).all()
    tighter = mixed_grid([offered(), offered(tpot_target_s=0.020)])
    assert set(np.asarray(tighter.promise_s)) == {0.020, 0.025}


def test_what_sequences_share_is_the_step_less_their_own() -> None:
    columns = offered().latency
    assert columns is not None
    # 100 tokens of 0.1 ms each are slower than reading: 10 + 1 + 3 ms
    assert latency.shared_step_s(columns, 100) == pytest.approx([0.014])


def test_the_azure_fleet_with_measured_latency() -> None:
    outcome = plan_fleet(FleetCase.load(ROOT / "cases" / "fleet-azure.yaml"))
    assert isinstance(outcome, FleetPlanned)
    review = fleet_review(outcome)
    data, shown = review.data, render(review)
    assert data["status"] == "optimal"
    assert all(check["holds"] for check in data["verdict"])
    targets = {c["requirement"]: c for c in data["verdict"]}
    margin = 0.8275  # models/calibration/error-bars.yaml
    tpot = targets["workloads.code-file.tpot_target_ms"]
    assert tpot["required"] == pytest.approx(60 * margin)
    for one in data["classes"]:
        low, high = one["error_bars"]["tpot_ms"]
        assert low < one["tpot_ms"] < high
    fewest, most = data["error_bars"]["gpus"]
    assert fewest <= data["figures"]["gpus"] <= most
    assert any("planned at 82.8 %" in line for line in data["assumptions"])
    assert "TPOT (8 of 10 measured runs)" in shown
    # no runs of an L4 are known: its constants are a relative's
    for line in shown.splitlines():
        if " on " in line and "llama" in line:
            assert ("ESTIMATED" in line) == (" on l4," in line)


def test_the_roofline_says_nothing_of_measured_runs() -> None:
    settings = ["--set", "assumptions.latency=ideal", "--set", "assumptions.efficiency=0.7"]
    command = ["cases/fleet-azure.yaml", *settings, "--format", "json", "--no-levers"]
    data = json.loads(CliRunner().invoke(cli, command).output)
    told = f"would be said to cost ${data['figures']['usd_per_hour']:.2f} an hour"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert told in " ".join(readme.split())
    assert data["assumptions"] == []
    assert data["error_bars"] is None
    assert all(one["error_bars"] is None for one in data["classes"])


def test_what_does_not_go_with_measured_latency_is_refused_as_for_one_workload() -> None:
    data = fleet_data(1, 2)
    data["assumptions"] = {"latency": "measured", "efficiency": 0.7}
    with pytest.raises(CaseError, match="efficiency: does not go with latency: measured"):
        made(data)
    data = fleet_data(1, 2)
    model: dict[str, object] = data["model"]  # type: ignore[assignment]
    for field in ("attention_params", "embedding_params"):
        del model[field]
    with pytest.raises(CaseError, match="measured latency needs the model's parts"):
        made(data)


def test_a_target_that_nothing_meets_is_named_with_what_works() -> None:
    data = fleet_data(2, 2)
    data["workloads"][1]["tpot_target_ms"] = 0.01  # type: ignore[index]
    outcome = plan_fleet(made(data))
    assert isinstance(outcome, FleetInfeasible)
    (conflict,) = explain_fleet(outcome)
    assert conflict.requirements == ("workloads.1.tpot_target_ms",)
    works_at = conflict.nearest[0].works_at
    assert works_at is not None
    data["workloads"][1]["tpot_target_ms"] = works_at  # type: ignore[index]
    assert isinstance(plan_fleet(made(data), time_limit_s=20), FleetPlanned)
