"""Sweeps: each row is the plan of its case; axes mean what they say."""

import math
import time
from typing import Any

import pytest

from optimiser import Case, Infeasible, Planned, plan
from optimiser.catalogue.load import shipped
from optimiser.errors import CaseError, InputError
from optimiser.studies.axis import MOST_POINTS, fields_of, parse_axes
from optimiser.studies.known import Known
from optimiser.studies.sweep import Sweep, sweep


def load(name: str, *settings: str) -> Case:
    return Case.load(shipped("cases") / f"{name}.yaml", settings)


def swept(case: Case, *settings: str) -> Sweep:
    return sweep(case, parse_axes(settings), with_slack=False)


def test_each_row_is_the_plan_of_the_case_with_that_field_set() -> None:
    found = swept(load("chat-7b-open"), "brief.requests_per_s=1:200:log:12")
    for point in found.points:
        rate = point.at["brief.requests_per_s"]
        plain = plan(load("chat-7b-open", f"brief.requests_per_s={rate!r}"))
        assert isinstance(plain, Planned)
        assert point.row.planned is not None
        assert point.row.planned.design == plain.design
        assert point.row.planned.verdict == plain.verdict


def test_several_axes_make_the_grid_of_their_product() -> None:
    found = swept(load("llama-3.1-8b"), "hardware.gpus=l4,h200", "brief.requests_per_s=5,50,100")
    grid = [(point.at["hardware.gpus"], point.at["brief.requests_per_s"]) for point in found.points]
    assert grid == [(gpu, rate) for gpu in ("l4", "h200") for rate in (5, 50, 100)]
    for point in found.points:
        gpu, rate = point.at.values()
        plain = plan(load("llama-3.1-8b", f"hardware.gpus=[{gpu}]", f"brief.requests_per_s={rate}"))
        assert isinstance(plain, Planned)
        assert point.row.planned is not None
        assert point.row.planned.design == plain.design


def test_a_row_that_cannot_comply_says_why() -> None:
    found = swept(load("chat-7b"), "brief.tpot_target_ms=5,50", "limits.most_gpus=2,8")
    outcomes = {tuple(point.at.values()): point.row for point in found.points}
    assert isinstance(outcomes[5, 2].outcome, Infeasible)
    assert isinstance(outcomes[50, 2].outcome, Infeasible)
    assert outcomes[50, 2].outcome.conflicts
    assert outcomes[50, 8].planned is not None


def test_savings_are_against_the_case_as_it_stands() -> None:
    found = swept(load("chat-7b"), "levers.kv_heads=32,8")
    same, fewer = found.points
    assert (same.row.gpus_saved, same.row.usd_saved_per_month) == (0, 0)
    assert fewer.row.gpus_saved == 2
    assert fewer.row.usd_saved_per_month == pytest.approx(2 * 2.00 * 730)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("brief.requests_per_s=1:100:log:3", [1, 10, 100]),
        ("brief.requests_per_s=1:2:linear:5", [1, 1.25, 1.5, 1.75, 2]),
        ("brief.prompt_tokens=1:4:linear:7", [1, 2, 3, 4]),
        ("brief.prompt_tokens=100,200,100", [100, 200]),
        ("levers.weights=fp16,[fp16, int8]", ["fp16", ["fp16", "int8"]]),
        ("hardware.gpus=l4", ["l4"]),
        ("limits.most_gpus=null,4", [None, 4]),
        ("model=llama-2-7b, llama-3.1-8b", ["llama-2-7b", "llama-3.1-8b"]),
    ],
)
def test_values(setting: str, expected: list[Any]) -> None:
    (axis,) = parse_axes([setting])
    assert list(axis.values) == pytest.approx(expected) if _numeric(expected) else expected
    assert len(axis.values) == len(expected)


def _numeric(values: list[Any]) -> bool:
    return all(isinstance(value, int | float) for value in values)


def test_a_range_has_its_ends_exactly() -> None:
    (axis,) = parse_axes(["brief.tpot_target_ms=0.3:77.7:log:9"])
    assert (axis.values[0], axis.values[-1], len(axis.values)) == (0.3, 77.7, 9)
    steps = [b / a for a, b in zip(axis.values, axis.values[1:], strict=False)]
    assert steps == pytest.approx([(77.7 / 0.3) ** (1 / 8)] * 8)


REFUSED = {
    "brief.requests_per_s": "expected field=from:to:log|linear:n, or field=value,value,…",
    "=1,2": "expected field=",
    "brief.requests_per_s=": "expected field=",
    "brief.requests_per_s=1:2": "expected field=",
    "brief.requests_per_s=1:2:log:3:4": "expected field=",
    "brief.requests_per_s=1,,2": "expected field=",
    "brief.requests_per_s=a:2:log:3": "found 'a', expected a number",
    "brief.requests_per_s=1:nan:log:3": "found 'nan', expected a number",
    "brief.requests_per_s=1:2:cubic:3": "found 'cubic', expected log or linear",
    "brief.requests_per_s=1:2:log:1": "found '1' points, expected a whole number from 2",
    "brief.requests_per_s=1:2:log:x": "found 'x' points, expected a whole number from 2",
    "brief.requests_per_s=1:2:log:-3": "found '-3' points, expected a whole number from 2",
    "brief.requests_per_s=2:1:log:3": "2 is not below 1",
    "brief.requests_per_s=0:1:log:3": "a logarithmic range starts above 0",
    "brief.requests_per_s=1:2:log:100001": "100001 points, at most 100,000 are planned",
    "brief.request_per_s=1,2": "unknown field (did you mean brief.requests_per_s or ",
    "requests_per_s=1,2": "unknown field (did you mean brief.requests_per_s?)",
    "brief=1,2": "is a section; name one of its fields: brief.requests_per_s",
    "hardware.gpus=1:2:log:3": "is not a number, so it has no range",
    "levers.weights=1:2:log:3": "is not a number, so it has no range",
}


@pytest.mark.parametrize("setting", REFUSED)
def test_what_cannot_be_varied_is_refused_with_one_message(setting: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_axes([setting])
    (mistake,) = refused.value.mistakes
    assert REFUSED[setting] in str(mistake)
    assert setting in mistake.where


def test_a_grid_is_bounded() -> None:
    side = math.isqrt(MOST_POINTS) + 1
    ranges = [f"brief.{name}=1:2:linear:{side}" for name in ("requests_per_s", "ttft_target_s")]
    with pytest.raises(InputError, match="points, at most 100,000 are planned"):
        parse_axes(ranges)


@pytest.mark.parametrize(
    "fields",
    [("brief.requests_per_s", "brief.requests_per_s"), ("model", "model.layers")],
)
def test_a_field_is_varied_once(fields: tuple[str, str]) -> None:
    with pytest.raises(InputError, match="is varied twice"):
        parse_axes([f"{field}=1,2" for field in fields])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("brief.prompt_tokens=0,10", "expected greater than 0"),
        ("brief.requests_per_s=fast,5", "expected a number"),
        ("hardware.gpus=h20000,h200", "unknown GPU 'h20000'"),
        ("model=llama-9,llama-2-7b", "unknown model 'llama-9'"),
        ("assumptions.efficiency=0.5:2:linear:4", "expected less than or equal to 1"),
    ],
)
def test_a_value_that_makes_no_case_is_refused(setting: str, message: str) -> None:
    with pytest.raises(CaseError) as refused:
        swept(load("chat-7b"), setting)
    assert message in str(refused.value)
    assert "--vary" in str(refused.value)


def test_a_value_that_does_not_go_with_the_rest_is_a_row_with_its_error() -> None:
    found = swept(load("llama-3.1-8b"), "hardware.offers.clouds=aws,gcp", "hardware.gpus=l4,h200")
    statuses = {tuple(point.at.values()): point.row.status for point in found.points}
    assert statuses == {
        ("aws", "l4"): "optimal",
        ("aws", "h200"): "optimal",
        ("gcp", "l4"): "optimal",
        ("gcp", "h200"): "error",
    }
    with pytest.raises(CaseError, match="none of the 4 offers of h200 is admitted"):
        swept(load("llama-3.1-8b"), "hardware.offers.clouds=gcp", "hardware.gpus=h200")


def test_a_way_of_counting_memory_drops_the_fields_of_the_other() -> None:
    found = swept(load("llama-3.1-8b"), "assumptions.memory=reserve,itemised")
    assert [point.row.status for point in found.points] == ["optimal", "optimal"]


def test_every_field_can_be_varied() -> None:
    """Whatever is no section is a field, those of the model in the case included."""
    fields = fields_of()
    assert fields["brief.prompt_tokens"] == "whole"
    assert fields["model"] == "values"
    assert fields["model.params"] == "number"
    assert fields["levers.batch.most"] == "whole"
    assert fields["hardware.offers.terms"] == "values"
    found = swept(load("chat-7b"), "model.params=6e9,8e9", "levers.batch.most=16,512")
    costs = [p.row.planned.verdict.figures.usd_per_hour for p in found.points if p.row.planned]
    assert len(costs) == 4
    assert costs[0] > costs[1]


def test_traffic_in_one_unit_replaces_traffic_in_the_other() -> None:
    found = swept(load("chat-7b"), "brief.concurrent_users=10,1000")
    few, many = (point.row.planned for point in found.points)
    assert few is not None
    assert many is not None
    assert few.case.brief.requests_per_s is None
    assert few.design.replicas < many.design.replicas


def test_a_stated_price_holds_only_for_the_gpus_it_was_stated_for() -> None:
    found = swept(load("chat-7b"), "hardware.gpus=generic-80gb,h200")
    own, other = (point.row.planned for point in found.points)
    assert own is not None
    assert other is not None
    assert own.design.configuration.rental.nano_usd_per_hour == 2_000_000_000
    assert other.design.configuration.rental.offer is not None
    stated = swept(load("chat-7b"), "hardware.gpus=h200", "hardware.usd_per_gpu_hour=3.0")
    planned = stated.points[0].row.planned
    assert planned is not None
    assert planned.design.configuration.rental.nano_usd_per_hour == 3_000_000_000


def test_a_point_is_planned_once() -> None:
    known = Known(load("chat-7b"))
    first = known.outcome({"brief.requests_per_s": 20.0})
    assert known.outcome({"brief.requests_per_s": 20.0}) is first


def test_progress_counts_points() -> None:
    seen: list[tuple[str, int, int]] = []
    axes = parse_axes(["brief.requests_per_s=1:20:log:5"])
    sweep(load("chat-7b"), axes, None, False, progress=lambda *counts: seen.append(counts))
    assert [counts for counts in seen if counts[0] == "points"] == [
        ("points", done, 5) for done in range(1, 6)
    ]


def test_two_hundred_points_of_a_small_case_are_quick() -> None:
    """The bar is 3 s; process time, as other tests run beside this one."""
    start = time.process_time()
    found = swept(load("chat-7b"), "brief.requests_per_s=1:200:log:200")
    assert len(found.points) == 200
    assert time.process_time() - start < 3
