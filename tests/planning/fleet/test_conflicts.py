"""Why no fleet complies: conflicts worked out by hand, and drawn ones against planning itself."""

from pathlib import Path
from random import Random

import pytest

from optimiser.catalogue.load import default_catalogue
from optimiser.errors import SolverError
from optimiser.fleet_case import FleetCase
from optimiser.planning.fleet import questions
from optimiser.planning.fleet.assemble import assemble
from optimiser.planning.fleet.conflict import FleetConflict, FleetNearest
from optimiser.planning.fleet.explain import explain_fleet
from optimiser.planning.fleet.feasible import UNKNOWN
from optimiser.planning.fleet.planner import FleetInfeasible, FleetPlanned, plan_fleet
from optimiser.review.fleet import fleet_review
from optimiser.yaml_io import Document
from tests.planning.fleet.test_cases import A10G, A100, TABLE, engine_case, fleet_case

HEAD = "pool,gpu,gpus_per_replica,workload,requests_per_s\n"
TWO = [{"name": "size1", "requests_per_s": 6}, {"name": "size2", "requests_per_s": 3}]
ONE = TWO[:1]


def conflicts_of(case: FleetCase) -> tuple[FleetConflict, ...]:
    outcome = plan_fleet(case)
    assert isinstance(outcome, FleetInfeasible)
    return explain_fleet(outcome)


def only(case: FleetCase) -> FleetConflict:
    (conflict,) = conflicts_of(case)
    return conflict


def works_at(conflict: FleetConflict) -> dict[str, float | None]:
    assert conflict.is_minimal
    assert all(one.is_proved for one in conflict.nearest)
    assert conflict.requirements == tuple(one.requirement for one in conflict.nearest)
    return {one.requirement: one.works_at for one in conflict.nearest}


def test_stock_for_a_part_of_the_classes(tmp_path: Path) -> None:
    # each class takes 3 A10G; 5 carry one class but not two, so of the last two both count, and
    # the first two are deleted since the last two conflict without them
    stock = {"a100": 0, "a10g": 5}
    conflict = only(fleet_case(tmp_path, TABLE, hardware={"gpus": [A10G, A100], "stock": stock}))
    assert works_at(conflict) == {
        "hardware.stock.a100": 1,  # one A100 beside 5 A10G
        "hardware.stock.a10g": 12,
        "workloads.2.requests_per_s": None,  # three classes take 9 A10G all the same
        "workloads.3.requests_per_s": None,
    }
    # 5 of 12 A10G, to three digits
    assert conflict.all_traffic_frac == 0.416
    assert [one.workload for one in conflict.nearest] == [None, None, "size3", "size4"]


def test_too_few_gpus_in_all(tmp_path: Path) -> None:
    # one A100 is loaded with 6/20 + 3/20 + 15/40 + 6/20 = 1.125 and does without any one class
    conflict = only(fleet_case(tmp_path, TABLE, limits={"most_gpus": 1}))
    assert works_at(conflict) == {
        "limits.most_gpus": 2,
        "workloads.0.requests_per_s": 3.5,  # (1 - 0.825) x 20
        "workloads.1.requests_per_s": 0.5,  # (1 - 0.975) x 20
        "workloads.2.requests_per_s": 10,  # (1 - 0.75) x 40
        "workloads.3.requests_per_s": 3.5,
    }
    assert conflict.all_traffic_frac == 0.888  # 1 / 1.125


def test_too_small_a_budget(tmp_path: Path) -> None:
    # 4 $ pay for one A100 at 3.67, which carries as much as above, or three A10G, which carry less
    found = works_at(only(fleet_case(tmp_path, TABLE, limits={"usd_per_hour": 4})))
    assert found == {
        "limits.usd_per_hour": pytest.approx(1.01 + 3.67),
        "workloads.0.requests_per_s": 3.5,
        "workloads.1.requests_per_s": 0.5,
        "workloads.2.requests_per_s": 10,
        "workloads.3.requests_per_s": 3.5,
    }


def test_two_conflicts_that_have_nothing_to_do_with_each_other(tmp_path: Path) -> None:
    # 6/s at 2 take 3 A10G, 3/s at 1 take 3 A100; two A10G carry 4/s and one A100 1/s. The stock of
    # A10G is deleted first, since that of A100 conflicts without it
    table = HEAD + "on-a10g,a10g,1,size1,2\non-a100,a100,1,size2,1\n"
    stock = {"a10g": 2, "a100": 1}
    first, second = conflicts_of(
        fleet_case(tmp_path, table, workloads=TWO, hardware={"gpus": [A10G, A100], "stock": stock})
    )
    assert works_at(first) == {"hardware.stock.a100": 3, "workloads.1.requests_per_s": 1}
    assert works_at(second) == {"hardware.stock.a10g": 3, "workloads.0.requests_per_s": 4}


@pytest.mark.parametrize(
    ("limits", "stock", "expected"),
    [
        # 3 A10G and one that may fail; without it they do, and 2 of 3 carry 4/s
        (
            {"survive": 1},
            3,
            {"limits.survive": 0, "hardware.stock.a10g": 4, "workloads.0.requests_per_s": 4},
        ),
        # five replicas are asked for whatever the traffic
        ({"least_replicas": 5}, 3, {"limits.least_replicas": 3, "hardware.stock.a10g": 5}),
    ],
)
def test_replicas_that_the_stock_forbids(
    limits: dict[str, int], stock: int, expected: dict[str, float], tmp_path: Path
) -> None:
    case = fleet_case(
        tmp_path,
        HEAD + "on-a10g,a10g,1,size1,2\n",
        workloads=ONE,
        hardware={"gpus": [A10G], "stock": {"a10g": stock}},
        limits=limits,
    )
    assert works_at(only(case)) == expected


def test_more_pools_than_are_allowed(tmp_path: Path) -> None:
    # each class has a pool that the other may not use, at any rate
    table = HEAD + "on-a10g,a10g,1,size1,2\non-a100,a100,1,size2,1\n"
    case = fleet_case(tmp_path, table, workloads=TWO, limits={"most_pools": 1})
    assert works_at(only(case)) == {"limits.most_pools": 2}


def test_spot_alone_where_it_may_serve_a_part(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(HEAD + "on-l4,l4,1,size1,2\n")
    data = {
        "name": "spot",
        "workloads": ONE,
        "hardware": {"gpus": ["l4"], "offers": {"terms": ["spot"]}},
        "limits": {"most_spot_frac": 0.3},
        "measured": "table.csv",
    }
    document = Document(str(tmp_path / "case.yaml"), data)
    case = FleetCase.of_document(document, default_catalogue())
    assert works_at(only(case)) == {"limits.most_spot_frac": 1}


def test_a_class_that_no_row_serves(tmp_path: Path) -> None:
    rows = [line for line in TABLE.splitlines(keepends=True) if "size4" not in line]
    case = fleet_case(tmp_path, "".join(rows), limits={"most_gpus": 1})
    # without it, an A100 is loaded with 0.825: all else that is asked for can be met
    assert works_at(only(case)) == {"workloads.3.requests_per_s": None}


PLAIN = {
    "requests_per_s": 1.0,
    "prompt_tokens": 1000,
    "answer_tokens": 200,
    "ttft_target_s": 2.0,
    "tpot_target_ms": 50.0,
}


def of_engine(first: dict[str, float], gpu: dict[str, object], **sections: object) -> FleetCase:
    data = engine_case(1, 1)
    fast = {"bandwidth_gb_per_s": 2000, "tflops": {"fp16": 300}, "usd_per_hour": 1, **gpu}
    data |= {
        "workloads": [{"name": "first", **PLAIN, **first}, {"name": "second", **PLAIN}],
        "hardware": {"gpus": [{"name": "able", "memory_gb": 80, **fast}]},
        "levers": {},
        **sections,
    }
    return FleetCase.of_document(Document("engine", data), None)


def test_tpot_of_one_class() -> None:
    # one sequence: (14e9 + 1100 tokens x 131,072 bytes) / 2e12 = 7.0721 ms, up to three digits
    conflict = only(of_engine({"tpot_target_ms": 7.0}, {}))
    assert conflict.nearest == (
        FleetNearest("workloads.0.tpot_target_ms", 7.0, 7.08, workload="first"),
    )


def test_ttft_of_one_class() -> None:
    # 2 x 7e9 FLOP x 1000 tokens / 300e12 FLOP/s = 46.67 ms, up to three digits
    assert works_at(only(of_engine({"ttft_target_s": 0.04}, {}))) == {
        "workloads.0.ttft_target_s": 0.0467
    }


def test_memory_that_holds_no_class() -> None:
    # weights and one request: (14 + 1200 x 131,072 / 1e9) / 0.9 = 15.7303 GB, up to three digits
    found = conflicts_of(of_engine({}, {"memory_gb": 12}))
    assert [works_at(one) for one in found] == 2 * [{"hardware.gpus": 15.8}]
    assert isinstance(plan_fleet(of_engine({}, {"memory_gb": 15.8})), FleetPlanned)
    assert isinstance(plan_fleet(of_engine({}, {"memory_gb": 15.7})), FleetInfeasible)


def test_a_brief_is_told_by_its_own_fields() -> None:
    data = engine_case(1, 1)
    del data["workloads"]
    data |= {"brief": {**PLAIN, "tpot_target_ms": 1e-3}, "limits": {"survive": 1}}
    conflict = only(FleetCase.of_document(Document("engine", data), None))
    assert conflict.requirements == ("brief.tpot_target_ms",)


def test_what_was_not_shown_is_not_claimed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(questions, "feasible", lambda *_: UNKNOWN)
    conflict = only(fleet_case(tmp_path, TABLE, limits={"most_gpus": 1}))
    assert not conflict.is_minimal
    assert len(conflict.requirements) == 5
    assert not any(one.is_proved or one.works_at for one in conflict.nearest)


def test_a_fleet_that_is_there_after_all_is_reported(tmp_path: Path) -> None:
    case = fleet_case(tmp_path, TABLE)
    with pytest.raises(SolverError, match="please report"):
        explain_fleet(FleetInfeasible(case, assemble(case), 0.0))


def drawn(seed: int) -> dict[str, object]:
    """A fleet of two or three classes with tight stock and limits."""
    random = Random(seed)
    data = engine_case(seed, random.choice((2, 3)))
    hardware = data["hardware"]
    assert isinstance(hardware, dict)
    names = [gpu["name"] for gpu in hardware["gpus"]]
    hardware["stock"] = {name: random.randint(0, 2) for name in names}
    limits: dict[str, float] = {}
    if random.random() < 0.4:
        limits["most_gpus"] = random.randint(1, 6)
    if random.random() < 0.3:
        limits["survive"] = 1
    if random.random() < 0.3:
        limits["most_pools"] = 1
    if random.random() < 0.4:
        limits["usd_per_hour"] = random.choice((1.0, 2.0, 4.0))
    data["limits"] = limits
    if random.random() < 0.3:
        data["workloads"][0]["tpot_target_ms"] = 4  # type: ignore[index]
    return data


def changed(data: dict[str, object], changes: dict[str, float | None]) -> FleetCase:
    """The case with some fields set, or as good as taken away."""
    made = dict(data)
    for field, value in changes.items():
        section, *rest = field.split(".")
        if section == "limits":
            made["limits"] = {**made["limits"], rest[0]: value}  # type: ignore[dict-item]
            made["limits"] = {k: v for k, v in made["limits"].items() if v is not None}
        elif section == "hardware":
            hardware = dict(made["hardware"])  # type: ignore[call-overload]
            stock = {**hardware["stock"], rest[1]: value}
            hardware["stock"] = {k: v for k, v in stock.items() if v is not None}
            made["hardware"] = hardware
        else:
            workloads = [dict(one) for one in made["workloads"]]  # type: ignore[attr-defined]
            one, name = workloads[int(rest[0])], rest[1]
            free = {"ttft_target_s": 1e6, "tpot_target_ms": 1e4}  # longer than any step of these
            one[name] = value if value is not None else free.get(name, one[name] * 1e-6)
            made["workloads"] = workloads
    return FleetCase.of_document(Document("drawn", made), None)


def all_fields(data: dict[str, object]) -> list[str]:
    names = ("ttft_target_s", "tpot_target_ms", "requests_per_s")
    classes = range(len(data["workloads"]))  # type: ignore[arg-type]
    return [
        *(f"limits.{name}" for name in data["limits"]),  # type: ignore[attr-defined]
        *(f"hardware.stock.{gpu}" for gpu in data["hardware"]["stock"]),  # type: ignore[index]
        *(f"workloads.{w}.{name}" for name in names for w in classes),
    ]


def complies(case: FleetCase) -> bool:
    outcome = plan_fleet(case, time_limit_s=30)
    assert isinstance(outcome, FleetPlanned | FleetInfeasible)
    return isinstance(outcome, FleetPlanned)


@pytest.mark.parametrize("seed", range(1, 21))
def test_each_member_of_a_conflict_is_needed_and_all_together_conflict(seed: int) -> None:
    data = drawn(seed)
    outcome = plan_fleet(changed(data, {}), time_limit_s=30)
    if not isinstance(outcome, FleetInfeasible):
        pytest.skip("complies")
    found = explain_fleet(outcome)
    members = {field for conflict in found for field in conflict.requirements}
    for conflict in found:
        own = set(conflict.requirements)
        rest = dict.fromkeys(field for field in all_fields(data) if field not in own)
        assert not complies(changed(data, rest)), own
        for field in own:
            assert complies(changed(data, {**rest, field: None})), (field, own)
        lifted = dict.fromkeys(members - own)
        for one in conflict.nearest:
            field = one.requirement
            assert one.is_proved
            at = one.works_at
            assert complies(changed(data, {**lifted, field: at})) == (at is not None), one


def test_a_review_names_the_class_and_the_share_of_all_traffic(tmp_path: Path) -> None:
    case = fleet_case(tmp_path, TABLE, limits={"most_gpus": 1})
    outcome = plan_fleet(case)
    assert isinstance(outcome, FleetInfeasible)
    shown = fleet_review(outcome, conflicts=explain_fleet(outcome))
    (table,) = shown.tables
    assert table.title == "Conflict: cannot all be met; changing one is enough"
    assert [row[:3] for row in table.rows[:2]] == [
        ("limits.most_gpus", "1", "2"),
        ("workloads.0.requests_per_s, size1", "6", "3.5"),
    ]
    assert shown.closing == ("89 % of the traffic of all classes together can be served",)
    told = shown.data["conflict"]
    assert told["requirements"][0] == "limits.most_gpus"
    assert told["nearest"][1] == {
        "requirement": "workloads.0.requests_per_s",
        "class": "size1",
        "asked": 6.0,
        "works_at": 3.5,
        "is_proved": True,
    }
    assert told["is_minimal"] is True
    assert told["all_traffic_frac"] == 0.888
    assert shown.data["conflicts"] == [told]
    hurried = fleet_review(outcome, conflicts=explain_fleet(outcome, seconds=0.0))
    assert hurried.tables[0].title == "Conflict: cannot all be met"
    assert {row[2] for row in hurried.tables[0].rows} == {"none found"}
    assert "not proved minimal" in hurried.closing[0]
