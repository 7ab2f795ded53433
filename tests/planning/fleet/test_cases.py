"""Fleets as cases: the examples that were worked by hand or published, and one class as before."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from click.testing import CliRunner

from optimiser.case import Case
from optimiser.catalogue.load import default_catalogue
from optimiser.cli.main import cli
from optimiser.errors import CaseError
from optimiser.fleet_case import FleetCase
from optimiser.planning.fleet.checks import verify
from optimiser.planning.fleet.explain import explain_fleet
from optimiser.planning.fleet.planned import planned_pools
from optimiser.planning.fleet.planner import FleetInfeasible, FleetPlanned, plan_fleet
from optimiser.planning.fleet.search import FleetFound
from optimiser.planning.planner import Infeasible, Planned, plan
from optimiser.planning.solvers.base import Status
from optimiser.review.fleet import fleet_review
from optimiser.yaml_io import Document
from tests.strategies import draw_measured_case, draw_real_case

A10G = {
    "name": "a10g",
    "memory_gb": 24,
    "bandwidth_gb_per_s": 600,
    "tflops": {"fp16": 125},
    "usd_per_hour": 1.01,
}
A100 = {
    "name": "a100",
    "memory_gb": 80,
    "bandwidth_gb_per_s": 2039,
    "tflops": {"fp16": 312},
    "usd_per_hour": 3.67,
}
TABLE = """pool,gpu,gpus_per_replica,workload,requests_per_s
on-a10g,a10g,1,size1,2
on-a10g,a10g,1,size2,1
on-a10g,a10g,1,size3,5
on-a10g,a10g,1,size4,2
on-a100,a100,1,size1,20
on-a100,a100,1,size2,20
on-a100,a100,1,size3,40
on-a100,a100,1,size4,20
"""


def fleet_case(folder: Path, table: str, **sections: object) -> FleetCase:
    (folder / "table.csv").write_text(table)
    data = {
        "name": "measured",
        "workloads": [
            {"name": f"size{i}", "requests_per_s": rate} for i, rate in enumerate((6, 3, 15, 6), 1)
        ],
        "hardware": {"gpus": [A10G, A100]},
        "assumptions": {"headroom": 1.0},
        "measured": "table.csv",
        **sections,
    }
    return FleetCase.of_document(Document(str(folder / "case.yaml"), data), None)


def planned(case: FleetCase, **options: object) -> FleetPlanned:
    outcome = plan_fleet(case, **options)  # type: ignore[arg-type]
    assert isinstance(outcome, FleetPlanned)
    return outcome


def fleet_of(outcome: FleetPlanned) -> dict[str, int]:
    return {pool.of.gpu: pool.replicas for pool in outcome.pools}


@pytest.mark.parametrize("solver", ["fleet", "cp-sat", "highs", "cbc"])
def test_the_published_instance_routed_whole(tmp_path: Path, solver: str) -> None:
    """A10G at 1.01 and A100 at 3.67: 3 A10G take one size, 1 A100 the other three."""
    case = fleet_case(tmp_path, TABLE, routing="whole")
    outcome = planned(case, solver_name=solver)
    assert outcome.usd_per_hour == pytest.approx(3 * 1.01 + 3.67)
    assert fleet_of(outcome) == {"a10g": 3, "a100": 1}
    assert outcome.status == "optimal"


@pytest.mark.parametrize("solver", ["fleet", "cp-sat", "highs", "cbc"])
def test_the_published_instance_split_freely(tmp_path: Path, solver: str) -> None:
    """One A100 would carry 6/20 + 3/20 + 15/40 + 6/20 = 1.125; 5/s of size 3 fill one A10G."""
    outcome = planned(fleet_case(tmp_path, TABLE), solver_name=solver)
    assert outcome.usd_per_hour == pytest.approx(1.01 + 3.67)
    assert fleet_of(outcome) == {"a10g": 1, "a100": 1}
    by_gpu = {pool.of.gpu: pool for pool in outcome.pools}
    assert by_gpu["a10g"].utilization_frac == pytest.approx(1.0)
    assert sum(by_gpu["a10g"].routed.values()) >= 2.5


def test_greedy_by_cost_per_request_pays_ten(tmp_path: Path) -> None:
    """Cost 10 for 200/s is less per request than 6 for 100/s, but only 100/s are needed."""
    table = (
        "pool,gpu,gpus_per_replica,workload,requests_per_s\n"
        "large,a10g,1,all,200\nsmall,a100,1,all,100\n"
    )
    case = fleet_case(
        tmp_path,
        table,
        workloads=[{"name": "all", "requests_per_s": 100}],
        hardware={"gpus": [{**A10G, "usd_per_hour": 10}, {**A100, "usd_per_hour": 6}]},
    )
    assert planned(case).usd_per_hour == pytest.approx(6)


def test_stock_counts_gpus(tmp_path: Path) -> None:
    table = TABLE.replace("a100,1,", "a100,4,")
    case = fleet_case(tmp_path, table, hardware={"gpus": [A10G, A100], "stock": {"a100": 7}})
    outcome = planned(case)
    assert outcome.rented_gpus.get("a100", 0) <= 7
    assert all(check.holds for check in outcome.checks)


def test_too_little_stock_names_the_conflict_and_what_works(tmp_path: Path) -> None:
    case = fleet_case(
        tmp_path, TABLE, hardware={"gpus": [A10G, A100], "stock": {"a100": 0, "a10g": 5}}
    )
    outcome = plan_fleet(case)
    assert isinstance(outcome, FleetInfeasible)
    (conflict,) = explain_fleet(outcome)
    nearest = {one.requirement: one for one in conflict.nearest}
    # 3 + 3 + 3 + 3 A10G carry all, or one A100 with 5 A10G
    assert nearest["hardware.stock.a10g"].works_at == 12
    assert nearest["hardware.stock.a100"].works_at == 1
    assert conflict.all_traffic_frac == pytest.approx(5 / 12, rel=0.01)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("pool,gpu\n", "missing columns"),
        (TABLE + "x,h900,1,size1,3\n", "'h900'"),
        (TABLE + "x,a100,1,size9,3\n", "'size9'"),
        (TABLE + "x,a100,none,size1,3\n", "count of GPUs"),
        (TABLE + "on-a100,a10g,1,size1,3\n", "two GPU types"),
        (TABLE + "on-a100,a100,1,size1,3\n", "two rows"),
    ],
)
def test_a_wrong_table_is_told(tmp_path: Path, table: str, told: str) -> None:
    with pytest.raises(CaseError, match=told):
        plan_fleet(fleet_case(tmp_path, table))


def engine_case(seed: int, n_classes: int, **sections: object) -> dict[str, object]:
    """A drawn case over the engine: a small model, three GPU types."""
    random = Random(seed)
    gpus = [
        {
            "name": name,
            "memory_gb": memory,
            "bandwidth_gb_per_s": random.choice((300, 600, 1500, 3000)),
            "tflops": {"fp16": random.choice((60, 120, 300, 900))},
            "usd_per_hour": random.choice((0.5, 0.75, 1.2, 2.0, 4.0)),
        }
        for name, memory in (("able", 24), ("baker", 48), ("charlie", 80))
    ]
    workloads = [
        {
            "name": f"class{i}",
            "requests_per_s": round(random.uniform(1, 40), 1),
            "prompt_tokens": random.randint(50, 3000),
            "answer_tokens": random.randint(20, 600),
            "ttft_target_s": random.choice((0.5, 1.0, 3.0)),
            "tpot_target_ms": random.choice((25, 50, 100)),
        }
        for i in range(n_classes)
    ]
    return {
        "name": "drawn",
        "workloads": workloads,
        "model": {
            "name": "seven",
            "params": 7e9,
            "layers": 32,
            "attention_heads": 32,
            "kv_heads": 8,
            "head_dim": 128,
        },
        "hardware": {"gpus": gpus},
        "levers": {
            "weights": random.sample(["fp16", "int8", "int4"], random.randint(1, 3)),
            "kv_cache": random.sample(["fp16", "int8"], random.randint(1, 2)),
            "tensor_parallel": [1, 2],
            "batch": {"most": random.choice((8, 64, 256))},
        },
        **sections,
    }


@pytest.mark.parametrize("seed", range(30))
def test_one_class_in_one_pool_is_the_single_design(seed: int) -> None:
    data = engine_case(seed, 1)
    brief = {k: v for k, v in data["workloads"][0].items() if k != "name"}  # type: ignore[index]
    single = {k: v for k, v in data.items() if k != "workloads"} | {"brief": brief}
    one = plan(Case.of_document(Document("one", dict(single)), None))
    as_fleet = {**single, "limits": {"most_pools": 1}}
    fleet = plan_fleet(FleetCase.of_document(Document("fleet", dict(as_fleet)), None))
    free = plan_fleet(FleetCase.of_document(Document("fleet", {**data}), None))
    if isinstance(one, Infeasible):
        assert isinstance(fleet, FleetInfeasible)
        return
    assert isinstance(one, Planned)
    assert isinstance(fleet, FleetPlanned)
    assert isinstance(free, FleetPlanned)
    assert fleet.usd_per_hour == pytest.approx(one.verdict.figures.usd_per_hour, abs=1e-9)
    assert fleet.pools[0].design == one.design
    assert free.usd_per_hour <= fleet.usd_per_hour + 1e-9


@pytest.mark.parametrize("draw", [draw_real_case, draw_measured_case])
@pytest.mark.parametrize("chunk", range(10))
def test_one_class_on_whole_instances_is_the_single_design(
    draw: Callable[[int], Case], chunk: int
) -> None:
    """Replicas that an instance has room for beside those in use open no other pool."""
    for seed in range(15 * chunk, 15 * chunk + 15):
        case = draw(seed)
        one = plan(case, explained=False)
        data = case.model_dump(exclude_unset=True)
        limits = {**data.get("limits", {}), "most_pools": 1}
        document = Document("fleet", {**data, "limits": limits})
        fleet = plan_fleet(FleetCase.of_document(document, case._catalogue))
        if isinstance(one, Infeasible):
            assert isinstance(fleet, FleetInfeasible), seed
            continue
        assert isinstance(one, Planned), seed
        assert isinstance(fleet, FleetPlanned), seed
        assert fleet.status == "optimal", seed
        assert fleet.pools[0].design == one.design, seed


@pytest.mark.parametrize("seed", range(12))
def test_every_fleet_of_drawn_classes_verifies(seed: int) -> None:
    case = FleetCase.of_document(Document("drawn", engine_case(seed, 3)), None)
    outcome = plan_fleet(case, time_limit_s=20)
    if isinstance(outcome, FleetInfeasible):
        return
    assert isinstance(outcome, FleetPlanned)
    assert all(check.holds for check in outcome.checks)
    for pool in outcome.pools:
        assert pool.utilization_frac * 1.3 <= 1 + 1e-9
        assert pool.mix is not None
        assert pool.mix.step_s <= pool.of.step_s * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_removing_any_replica_of_a_surviving_fleet_leaves_a_verified_one(seed: int) -> None:
    data = engine_case(seed, 2, limits={"survive": 1})
    outcome = plan_fleet(FleetCase.of_document(Document("drawn", data), None), time_limit_s=20)
    assert isinstance(outcome, FleetPlanned)
    plain = FleetCase.of_document(Document("drawn", {**data, "limits": {}}), None)
    assembled = outcome.assembled
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


def test_a_class_keeps_to_the_levers_it_accepts() -> None:
    data = engine_case(3, 2)
    data["levers"] = {"weights": ["fp16", "int4"], "tensor_parallel": [1, 2]}
    data["workloads"][0]["levers"] = {"weights": ["fp16"]}  # type: ignore[index]
    outcome = planned(FleetCase.of_document(Document("drawn", data), None))
    for pool in outcome.pools:
        if "class0" in pool.routed:
            assert pool.of.configuration is not None
            assert pool.of.configuration.weights == "fp16"


def test_every_mistake_of_a_fleet_is_told_at_once() -> None:
    data = engine_case(1, 2)
    data["slices"] = 3
    data["workloads"][0]["name"] = "class1"  # type: ignore[index]
    del data["workloads"][1]["tpot_target_ms"]  # type: ignore[attr-defined]
    with pytest.raises(CaseError) as told:
        FleetCase.of_document(Document("drawn", data), None)
    text = str(told.value)
    assert "'class1' is given 2 times" in text
    assert "slices" in text
    assert "workloads.1.tpot_target_ms" in text


def test_the_azure_fleet() -> None:
    result = CliRunner().invoke(cli, ["cases/fleet-azure.yaml", "--format", "json", "--no-levers"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.output)
    assert data["status"] == "optimal"
    assert all(check["holds"] for check in data["verdict"])
    assert len({pool["design"]["gpu"] for pool in data["pools"]}) > 1
    served: dict[str, float] = {}
    for pool in data["pools"]:
        for name, rate in pool["routed"].items():
            served[name] = served.get(name, 0.0) + rate
    rates = {one["name"]: one["requests_per_s"] for one in data["classes"]}
    assert served == pytest.approx(rates)


def test_targets_that_nothing_meets_are_named_with_what_works() -> None:
    data = engine_case(2, 2)
    data["workloads"][1]["tpot_target_ms"] = 0.5  # type: ignore[index]
    outcome = plan_fleet(FleetCase.of_document(Document("drawn", data), None))
    assert isinstance(outcome, FleetInfeasible)
    (conflict,) = explain_fleet(outcome)
    assert conflict.requirements == ("workloads.1.tpot_target_ms",)
    assert conflict.nearest[0].works_at is not None
    data["workloads"][1]["tpot_target_ms"] = conflict.nearest[0].works_at  # type: ignore[index]
    assert isinstance(
        plan_fleet(FleetCase.of_document(Document("drawn", data), None)), FleetPlanned
    )


def test_a_budget_below_the_cheapest_fleet_says_what_it_costs() -> None:
    data = engine_case(3, 2)
    free = planned(FleetCase.of_document(Document("drawn", data), None))
    tight = {**data, "limits": {"usd_per_hour": free.usd_per_hour * 0.9}}
    outcome = plan_fleet(FleetCase.of_document(Document("drawn", tight), None))
    assert isinstance(outcome, FleetInfeasible)
    (conflict,) = explain_fleet(outcome)
    nearest = conflict.nearest
    # what the budget is short of may also be had by serving less
    assert nearest[0].requirement == "limits.usd_per_hour"
    assert all(one.workload is not None for one in nearest[1:])
    assert nearest[0].works_at == pytest.approx(free.usd_per_hour)
    exact = {**data, "limits": {"usd_per_hour": free.usd_per_hour}}
    assert planned(FleetCase.of_document(Document("drawn", exact), None)).status == "optimal"


@pytest.mark.parametrize("name", ["text", "json", "markdown"])
def test_a_fleet_is_shown_in_every_format(name: str, tmp_path: Path) -> None:
    fleet_case(tmp_path, TABLE)
    path = tmp_path / "case.yaml"
    path.write_text(
        "name: shown\nmeasured: table.csv\n"
        "workloads: [{name: size1, requests_per_s: 6}, {name: size2, requests_per_s: 3},\n"
        "  {name: size3, requests_per_s: 15}, {name: size4, requests_per_s: 6}]\n"
        f"hardware: {json.dumps({'gpus': [A10G, A100], 'stock': {'a100': 1}})}\n"
    )
    result = CliRunner().invoke(cli, [str(path), "--format", name])
    assert result.exit_code == 0, result.output
    assert "on-a100" in result.output
    result = CliRunner().invoke(cli, [str(path), "--format", name, "--set", "limits.most_gpus=1"])
    assert result.exit_code == 3
    assert "limits.most_gpus" in result.output


def test_the_program_is_saved_under_names(tmp_path: Path) -> None:
    place = tmp_path / "fleet.lp"
    planned(fleet_case(tmp_path, TABLE), save_lp=place)
    text = place.read_text()
    assert "demand_size1" in text
    assert "replicas_0_on_a10g" in text
    planned(fleet_case(tmp_path, TABLE, routing="whole"), save_lp=place)
    text = place.read_text()
    assert "demand_size1" in text
    assert "capacity_0_on_a10g" in text


@pytest.mark.parametrize("term", ["on-demand", "spot"])
def test_a_fleet_on_whole_instances_of_spot(term: str, tmp_path: Path) -> None:
    # 6 requests/s at 2 a GPU run on 3 of the 8 that an instance has
    (tmp_path / "table.csv").write_text(
        "pool,gpu,gpus_per_replica,workload,requests_per_s\non-h200,h200,1,size1,2\n"
    )
    offers = {"names": ["nebius-us-central1-gpu-h200-sxm-8gpu"], "terms": [term]}
    data = {
        "name": "whole",
        "workloads": [{"name": "size1", "requests_per_s": 6}],
        "hardware": {"gpus": ["h200"], "offers": offers},
        "assumptions": {"headroom": 1.0},
        "measured": "table.csv",
    }
    document = Document(str(tmp_path / "case.yaml"), data)
    shown = fleet_review(planned(FleetCase.of_document(document, default_catalogue())))
    assert "3 GPUs (8 rented) · " in shown.headline
    assert any("taken back" in note for note in shown.notes) == (term == "spot")


@pytest.mark.parametrize("seed", range(12))
def test_each_class_keeps_to_its_own_largest_batch(seed: int) -> None:
    data = engine_case(seed, 2)
    data["workloads"][0]["levers"] = {"batch": {"most": 3}}  # type: ignore[index]
    outcome = plan_fleet(FleetCase.of_document(Document("drawn", data), None), time_limit_s=20)
    assert isinstance(outcome, FleetPlanned | FleetInfeasible)
    for pool in outcome.pools if isinstance(outcome, FleetPlanned) else ():
        if list(pool.routed) == ["class0"]:
            assert pool.mix is not None
            assert pool.mix.sequences <= 3 * (1 + 1e-9)


def test_rows_of_whole_routing_are_named_after_what_is_scarce(tmp_path: Path) -> None:
    # arithmetic this quick is never scarce
    data = engine_case(0, 2, routing="whole")
    for gpu in data["hardware"]["gpus"]:  # type: ignore[index]
        gpu["tflops"] = {"fp16": 1e6}
    place = tmp_path / "fleet.lp"
    plan_fleet(FleetCase.of_document(Document("drawn", data), None), save_lp=place, time_limit_s=20)
    text = place.read_text()
    assert "compute_" not in text
    assert "memory_" in text or "bandwidth_" in text


def test_what_could_be_read_otherwise_is_said() -> None:
    data = engine_case(0, 2, limits={"survive": 1})
    first = data["workloads"][0]  # type: ignore[index]
    first["concurrent_users"] = 10.0
    del first["requests_per_s"]
    outcome = plan_fleet(FleetCase.of_document(Document("drawn", data), None))
    assert isinstance(outcome, FleetPlanned)
    notes = fleet_review(outcome).notes
    assert "class0: users send at the rate of the promised pace" in notes
    assert "used: of the replicas beside 1 spare in each pool" in notes
