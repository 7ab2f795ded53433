"""Why nothing complies: conflicts against exhaustive search, nearest values against planning."""

import pytest

from optimiser import Case, Infeasible, Planned, plan
from optimiser.catalogue.load import shipped
from optimiser.errors import SolverError
from optimiser.planning import explain
from optimiser.planning.configurations import configurations
from optimiser.planning.explain import Nearest
from optimiser.planning.solvers.base import Limits, Solution, Status
from tests import oracle
from tests.strategies import draw_infeasible

WHOLE = ("limits.most_gpus", "limits.least_replicas")
RELAXED_BY_LESS = ("limits.least_replicas", "brief.requests_per_s", "brief.concurrent_users")
SEEDS = 72
OUT_OF_REACH = {
    "limits.most_gpus": None,
    "limits.usd_per_hour": None,
    "limits.least_replicas": None,
    "brief.ttft_target_s": 1e6,
    "brief.tpot_target_ms": 1e9,
    "brief.requests_per_s": 1e-9,
    "brief.concurrent_users": 1e-9,
    "hardware.gpus": 1e6,
}


def with_memory(case: Case, least_gb: float) -> list[dict[str, object]]:
    gpus = []
    for gpu in case.hardware.gpus:
        fields = gpu.model_dump(exclude_unset=True)
        own_bytes = fields.pop("memory_bytes", None)
        own_gb = fields["memory_gb"] if own_bytes is None else own_bytes / 1e9
        gpus.append({**fields, "memory_gb": max(own_gb, least_gb)})
    return gpus


def with_field(case: Case, field: str, value: float | None) -> Case:
    if field == "hardware.gpus":
        assert value is not None
        return case.changed({field: with_memory(case, value)})
    if field in WHOLE and value is not None:
        assert value == int(value)
        value = int(value)
    return case.changed({field: value})


def without(case: Case, fields: set[str]) -> Case:
    for field in sorted(fields):
        case = with_field(case, field, OUT_OF_REACH[field])
    return case


def conflicts_of(case: Case, solver: str = "cp-sat") -> tuple[explain.Conflict, ...]:
    outcome = plan(case, solver_name=solver)
    assert isinstance(outcome, Infeasible)
    return outcome.conflicts


def step_tighter(field: str, value: float) -> float:
    """The next three-digit value on the side that asks for more."""
    exponent = int(f"{value:e}".split("e")[1])
    last_digit = 10.0 ** (exponent - 2)
    if field in RELAXED_BY_LESS:
        step = max(last_digit, 1.0) if field in WHOLE else last_digit
        return float(f"{value + step:.2e}")
    if field in WHOLE and value < 1000:
        return value - 1
    at_a_power_of_ten = f"{value:.2e}".startswith("1.00")
    return float(f"{value - last_digit / (10 if at_a_power_of_ten else 1):.2e}")


def three_digits(value: float) -> bool:
    return float(f"{value:.2e}") == value


@pytest.mark.parametrize("seed", range(SEEDS))
def test_conflicts_are_those_that_deletion_finds(seed: int) -> None:
    """Minimal, in the stated order, one after the other until the rest complies."""
    case = draw_infeasible(seed)
    found = conflicts_of(case)
    assert [conflict.requirements for conflict in found] == oracle.conflicts(case)
    for conflict in found:
        assert tuple(n.requirement for n in conflict.nearest) == conflict.requirements


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nearest_values_work_and_one_step_tighter_does_not(seed: int) -> None:
    case = draw_infeasible(seed)
    found = conflicts_of(case)
    for conflict in found:
        others = {f for other in found if other is not conflict for f in other.requirements}
        paced = {"brief.ttft_target_s", "brief.tpot_target_ms"} & others
        if case.brief.concurrent_users is not None and paced:
            continue  # to drop a latency target would change the rate that users stand for
        base = without(case, others)
        for nearest in conflict.nearest:
            field, value = nearest.requirement, nearest.works_at
            if value is None:
                helped = with_field(base, field, OUT_OF_REACH[field])
                assert isinstance(plan(helped), Infeasible), field
                continue
            assert three_digits(value), (field, value)
            if field != "hardware.gpus":  # the GPUs of a case differ in what they have
                less = field in RELAXED_BY_LESS
                assert (value < nearest.asked) if less else (value > nearest.asked), nearest
            assert isinstance(plan(with_field(base, field, value)), Planned), (field, value)
            tighter = step_tighter(field, value)
            if field in WHOLE and (field in RELAXED_BY_LESS) == (tighter >= nearest.asked):
                continue  # the value asked for itself, or beyond
            assert isinstance(plan(with_field(base, field, tighter)), Infeasible), (field, tighter)


def test_asked_is_what_the_case_says() -> None:
    for seed in range(14):
        case = draw_infeasible(seed)
        for conflict in conflicts_of(case):
            for nearest in conflict.nearest:
                if nearest.requirement != "hardware.gpus":
                    section, name = nearest.requirement.split(".")
                    assert nearest.asked == getattr(getattr(case, section), name)


def chat_7b(*settings: str) -> Case:
    return Case.load(shipped("cases") / "chat-7b.yaml", settings)


def only(case: Case) -> explain.Conflict:
    (conflict,) = conflicts_of(case)
    return conflict


@pytest.mark.parametrize("solver", ["cp-sat", "highs", "cbc"])
def test_tpot_of_the_page(solver: str) -> None:
    # one sequence: (13.48e9 + 1150 tokens x 524,288 bytes) / 2e12 = 7.0415 ms, up to three digits
    (conflict,) = conflicts_of(chat_7b("brief.tpot_target_ms=7"), solver)
    assert conflict.requirements == ("brief.tpot_target_ms",)
    assert conflict.nearest == (Nearest("brief.tpot_target_ms", 7.0, 7.05),)


def test_ttft_of_the_page() -> None:
    # 2 x 6.74e9 FLOP x 1000 tokens / 300e12 FLOP/s = 44.933 ms, up to three digits: 0.0450 s
    conflict = only(chat_7b("brief.ttft_target_s=0.04"))
    assert conflict.nearest == (Nearest("brief.ttft_target_s", 0.04, 0.045),)
    assert isinstance(plan(chat_7b("brief.ttft_target_s=0.0449")), Infeasible)


def test_too_few_gpus_for_the_page() -> None:
    # 3 GPUs are needed at 10 requests/s; one carries 6.2829 / 1.3 = 4.833, down to three digits
    conflict = only(chat_7b("limits.most_gpus=1"))
    assert conflict.requirements == ("limits.most_gpus", "brief.requests_per_s")
    assert conflict.nearest == (
        Nearest("limits.most_gpus", 1.0, 3.0),
        Nearest("brief.requests_per_s", 10.0, 4.83),
    )


def test_too_small_a_budget_for_the_page() -> None:
    # two GPUs for 4 of the 5 dollars: 2 x 6.2829 / 1.3 = 9.666 requests/s; three GPUs cost 6.
    # Two are enough where a request costs 2 / 13 = 0.15385 replica-seconds:
    # 300 x (13.48e9 / b + 1150 x 524,288) / 2e12 + 0.04493 = 2.022 / b + 0.13537, so b = 110 (at
    # 39.9 ms), which takes (13.48 + 110 x 0.6815744) / 0.9 = 98.28 GB
    conflict = only(chat_7b("limits.usd_per_hour=5"))
    assert conflict.nearest == (
        Nearest("limits.usd_per_hour", 5.0, 6.0),
        Nearest("brief.requests_per_s", 10.0, 9.66),
        Nearest("hardware.gpus", 80.0, 98.3),
    )


def test_memory_too_small_for_the_weights() -> None:
    gpu = "{name: small, memory_gb: 12, bandwidth_gb_per_s: 2000, tflops: {fp16: 300}}"
    conflict = only(chat_7b(f"hardware.gpus=[{gpu}]"))
    # weights and one request: (13.48 + 0.6815744) / 0.9 = 15.735 GB, up to three digits
    assert conflict.nearest == (Nearest("hardware.gpus", 12.0, 15.8),)
    assert conflict.requirements == ("hardware.gpus",)


def test_two_conflicts_that_have_nothing_to_do_with_each_other() -> None:
    found = conflicts_of(chat_7b("brief.tpot_target_ms=7", "brief.ttft_target_s=0.04"))
    assert [conflict.requirements for conflict in found] == [
        ("brief.tpot_target_ms",),
        ("brief.ttft_target_s",),
    ] or [conflict.requirements for conflict in found] == [
        ("brief.ttft_target_s",),
        ("brief.tpot_target_ms",),
    ]
    nearest = {n.requirement: n.works_at for conflict in found for n in conflict.nearest}
    assert nearest == {"brief.tpot_target_ms": 7.05, "brief.ttft_target_s": 0.045}


def test_users_and_replicas() -> None:
    # batch 85: 500 users take ceil(500 / 85) = 6 replicas, and 2 x 85 = 170 users fit on two;
    # at the promised pace of 1 + 300 x 0.05 = 16 s, 170 users send 10.6/s: within 2 x 6.28 / 1.3
    # only up to 9.666 x 16 = 154.66 users
    case = chat_7b("limits.most_gpus=2").changed(
        {"brief.requests_per_s": None, "brief.concurrent_users": 500.0}
    )
    found = {n.requirement: n.works_at for n in only(case).nearest}
    # 500 users at 16 s: 31.25/s x 1.3 / 6.2829 = 6.466, so 7 replicas
    assert found == {"limits.most_gpus": 7.0, "brief.concurrent_users": 154.0}


def test_redundancy_that_the_limit_on_gpus_forbids() -> None:
    conflict = only(chat_7b("limits.least_replicas=12", "limits.most_gpus=4"))
    assert conflict.nearest == (
        Nearest("limits.most_gpus", 4.0, 12.0),
        Nearest("limits.least_replicas", 12.0, 4.0),
    )


def two_gpus(least_gb_that_works: float) -> Case:
    """A large dear GPU beside a small cheap one that would do with more memory."""
    fast = {"bandwidth_gb_per_s": 2000.0, "tflops": {"fp16": 300.0}}
    return chat_7b("limits.usd_per_hour=3", "brief.requests_per_s=1").changed(
        {
            "hardware.usd_per_gpu_hour": None,
            "hardware.gpus": [
                {"name": "large", "memory_gb": 80.0, "usd_per_hour": 9.0, **fast},
                {"name": "small", "memory_gb": least_gb_that_works, "usd_per_hour": 1.0, **fast},
            ],
        }
    )


def test_memory_of_the_smaller_of_two_gpus() -> None:
    """The nearest memory is what the GPU that could do it lacks, not what the largest has."""
    case = two_gpus(12.0)
    conflict = only(case)
    assert conflict.requirements == ("limits.usd_per_hour", "hardware.gpus")
    nearest = {n.requirement: n.works_at for n in conflict.nearest}
    assert nearest["limits.usd_per_hour"] == 9.0
    # 3 small GPUs at 1.3 request/s in all. Batch 1: 300 x 7.0415 ms + 44.9 ms = 2.157 s each, so
    # 2.8 GPUs: one request at a time beside the weights is enough, 14.1615744 / 0.9 = 15.735 GB
    assert nearest["hardware.gpus"] == 15.8


def test_no_value_helps_where_another_requirement_stands_in_the_way() -> None:
    """A requirement whose relaxation alone cannot work is null, and the other ones are not."""
    nulls = values = 0
    for seed in range(SEEDS):
        for conflict in conflicts_of(draw_infeasible(seed)):
            nulls += sum(n.works_at is None for n in conflict.nearest)
            values += sum(n.works_at is not None for n in conflict.nearest)
    assert values >= 60
    assert nulls < values


def test_unexplained_is_proved_all_the_same() -> None:
    outcome = plan(chat_7b("limits.most_gpus=1"), explained=False)
    assert isinstance(outcome, Infeasible)
    assert outcome.conflicts == ()
    assert (outcome.solver, outcome.configurations, outcome.status) == ("cp-sat", 1, "infeasible")


def test_a_solver_that_finds_nothing_where_there_is_something_is_reported() -> None:
    def finds_nothing(problem: object, limits: Limits) -> Solution:
        return Solution(Status.INFEASIBLE, {}, None, None)

    with pytest.raises(SolverError, match="engine does"):
        explain.conflicts(configurations(chat_7b()), finds_nothing)
    with pytest.raises(SolverError, match="rejects limits"):
        explain.conflicts(configurations(chat_7b("limits.most_gpus=1")), finds_nothing)


def test_asked_of_a_field_that_the_case_leaves_out() -> None:
    assert explain.asked(chat_7b(), "limits.most_gpus") is None
    assert explain.asked(chat_7b(), "brief.tpot_target_ms") == 50.0
    assert explain.asked(chat_7b(), "hardware.gpus") == 80.0
