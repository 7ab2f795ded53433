"""What is legal, what bounds the batch, what is needed: by hand, and at every boundary."""

import numpy as np
import pytest

from optimiser import Case, Infeasible, Planned, plan
from optimiser.catalogue.llm import Llm, Stored
from optimiser.errors import CaseError
from optimiser.planning.configurations import configurations
from optimiser.planning.legal import why_illegal
from tests.planning.by_hand import by_hand
from tests.strategies import case_of

HAIR = 0.9e-9
"""Beyond a limit, and within the tolerance of 1e-9."""
TOO_MUCH = 3e-9


def round_case(**changes: object) -> Case:
    """10e9 parameters in fp16 on 1 TB/s and 100 TFLOP/s; a step reads 40 MB a sequence.

    Batch 100: reads (20 + 4) GB = 24 ms, arithmetic 20 ms; prefill 1000 tokens x 0.2 ms = 200 ms.
    A request of 1500 tokens of 16 kB holds 24 MB.
    """
    return case_of(by_hand("round", usd_per_hour=3.0)).changed(changes)


# step(b) = (20e9 + b x 1250 x 16,000) / 1e12 = 20 ms + 0.02 ms x b; arithmetic: 0.2 ms x b


def test_bounds_by_hand() -> None:
    space = configurations(round_case())
    # arithmetic 0.2 ms x b <= 24 ms up to 120; reads 20 + 0.02 x 120 = 22.4 ms
    assert space.batch_by_tpot.tolist() == [120]
    # (60 - 20) GB / 24 MB = 1666, capped by the case at 1000
    assert space.batch_by_memory.tolist() == [1000]
    assert space.largest_batch.tolist() == [120]
    # at 120: 500 x 24 ms / 120 + 200 ms = 0.3 s; 3 x 1.5 x 0.3 = 1.35
    assert space.fewest_replicas(space.largest_batch).tolist() == [2]
    # at 1: 500 x 20.02 ms + 200 ms = 10.21 s; x 4.5 = 45.9
    assert space.fewest_replicas(np.array([1])).tolist() == [46]
    assert space.fewest_replicas(np.array([0])).tolist() == [46]


def design_of(case: Case) -> tuple[int, int] | None:
    outcome = plan(case, explained=False)
    if isinstance(outcome, Infeasible):
        return None
    assert isinstance(outcome, Planned)
    assert outcome.verdict.complies
    return outcome.design.batch, outcome.design.replicas


@pytest.mark.parametrize(("beyond", "batch"), [(0.0, 120), (HAIR, 120), (TOO_MUCH, 119)])
def test_tpot_boundary(beyond: float, batch: int) -> None:
    case = round_case(**{"brief.tpot_target_ms": 24.0 * (1 - beyond)})
    assert configurations(case).batch_by_tpot.tolist() == [batch]
    assert design_of(case) == (batch, 2)


@pytest.mark.parametrize(("beyond", "within"), [(0.0, True), (HAIR, True), (TOO_MUCH, False)])
def test_ttft_boundary(beyond: float, within: bool) -> None:
    case = round_case(**{"brief.ttft_target_s": 0.2 * (1 - beyond)})
    most = case.levers.batch.most
    assert configurations(case).batch_by_ttft.tolist() == [most if within else 0]
    assert configurations(case).largest_batch.tolist() == [120 if within else 0]
    assert design_of(case) == ((120, 2) if within else None)


@pytest.mark.parametrize(("beyond", "batch"), [(0.0, 50), (HAIR, 50), (TOO_MUCH, 49)])
def test_memory_boundary(beyond: float, batch: int) -> None:
    # 20 GB + 50 x 24 MB = 21.2 GB
    gpu = round_case().hardware.gpus[0].model_dump(exclude_unset=True)
    case = round_case(**{"hardware.gpus": [{**gpu, "memory_gb": 21.2 * (1 - beyond)}]})
    assert configurations(case).batch_by_memory.tolist() == [batch]
    found = design_of(case)
    assert found is not None
    assert found[0] == batch


@pytest.mark.parametrize(("beyond", "replicas"), [(0.0, 3), (HAIR, 3), (TOO_MUCH, 4)])
def test_capacity_boundary(beyond: float, replicas: int) -> None:
    # 0.3 s a request: three replicas carry 10/s, 6.667 x 1.5
    case = round_case(**{"brief.requests_per_s": 10 / 1.5 * (1 + beyond)})
    assert configurations(case).fewest_replicas(np.array([120])).tolist() == [replicas]
    assert design_of(case) == (120, replicas)


@pytest.mark.parametrize(("beyond", "replicas"), [(0.0, 5), (HAIR, 5), (TOO_MUCH, 6)])
def test_users_boundary(beyond: float, replicas: int) -> None:
    # 600 users: 5 x 120; at the pace of 100 + 500 x 0.024 = 112 s they send 5.36/s, for 3 replicas
    case = round_case(
        **{
            "brief.requests_per_s": None,
            "brief.concurrent_users": 600.0 * (1 + beyond),
            "brief.ttft_target_s": 100.0,
        }
    )
    needs = {need.name: need for need in configurations(case).needs}
    assert set(needs) == {"capacity", "concurrency"}
    assert {need.field for need in needs.values()} == {"brief.concurrent_users"}
    one, at = np.array([0]), np.array([120])
    # 600 / 112 x 1.5 x 0.3 = 2.41
    assert needs["capacity"].replicas(one, at) == pytest.approx([600 / 112 * 0.45], rel=1e-8)
    assert needs["concurrency"].whole(one, at).tolist() == [replicas]
    assert design_of(case) == (120, replicas)


@pytest.mark.parametrize(("beyond", "affordable"), [(0.0, True), (HAIR, True), (TOO_MUCH, False)])
def test_budget_boundary(beyond: float, affordable: bool) -> None:
    # two replicas for $6; at a price of thousands a whole nano-dollar is far below the tolerance
    gpu = round_case().hardware.gpus[0].model_dump(exclude_unset=True)
    case = round_case(
        **{
            "hardware.gpus": [{**gpu, "usd_per_hour": 3000.0}],
            "limits.usd_per_hour": 6000.0 * (1 - beyond),
        }
    )
    assert design_of(case) == ((120, 2) if affordable else None)


def test_a_budget_is_not_rounded_up_to_a_nano_dollar() -> None:
    # $0.000142857 each; the budget for two is 0.000285714, and this one is 0.14e-9 short of it
    gpu = round_case().hardware.gpus[0].model_dump(exclude_unset=True)
    base = {"hardware.gpus": [{**gpu, "usd_per_hour": 0.000142857}]}
    assert design_of(round_case(**base, **{"limits.usd_per_hour": 0.000285714})) == (120, 2)
    assert design_of(round_case(**base, **{"limits.usd_per_hour": 0.00028571386})) is None


@pytest.mark.parametrize(
    ("limits", "design"),
    [
        ({"limits.most_gpus": 2}, (120, 2)),
        ({"limits.most_gpus": 1}, None),
        ({"limits.least_replicas": 2}, (120, 2)),
        ({"limits.least_replicas": 5}, (120, 5)),
        ({"limits.least_replicas": 5, "limits.most_gpus": 5}, (120, 5)),
        ({"limits.least_replicas": 5, "limits.most_gpus": 4}, None),
        ({"limits.least_replicas": 5, "limits.usd_per_hour": 15.0}, (120, 5)),
        ({"limits.least_replicas": 5, "limits.usd_per_hour": 14.9}, None),
        ({"levers.batch": {"most": 120}}, (120, 2)),
        ({"levers.batch": {"most": 60}}, (60, 2)),  # 500 x 21.2 ms / 60 + 0.2 = 0.377: 1.7
        ({"levers.batch": {"most": 1}}, (1, 46)),
    ],
)
def test_limits(limits: dict[str, object], design: tuple[int, int] | None) -> None:
    assert design_of(round_case(**limits)) == design


@pytest.mark.parametrize(
    ("attention_heads", "kv_heads", "size", "legal"),
    [
        (32, 8, 1, True),
        (32, 8, 4, True),
        (32, 8, 16, True),  # two GPUs hold the same KV head
        (32, 8, 3, False),
        (32, 8, 64, False),
        (48, 6, 4, False),  # 4 neither divides 6 nor is divided by it
        (48, 6, 12, True),
        (48, 6, 3, True),
    ],
)
def test_how_heads_may_be_split(
    attention_heads: int, kv_heads: int, size: int, legal: bool
) -> None:
    llm = Llm(
        name="m",
        params=1e9,
        layers=1,
        attention_heads=attention_heads,
        kv_heads=kv_heads,
        head_dim=8,
    )
    reason = why_illegal(llm, "fp16", kv_heads, size, 64)
    assert (reason is None) == legal
    assert why_illegal(llm, "fp16", kv_heads, size, size - 1) is not None
    if reason:
        assert str(size) in reason


def test_illegal_combinations_are_left_out_with_a_reason() -> None:
    space = configurations(round_case(**{"levers.tensor_parallel": [1, 2, 3, 8]}))
    assert [c.tensor_parallel for c in space.configurations] == [1, 2, 8]
    ((what, why),) = space.excluded
    assert what == "tensor parallel 3 on round"
    assert "does not divide 8" in why
    assert space.unit_nano_usd.tolist() == [3 * 10**9, 6 * 10**9, 24 * 10**9]
    outcome = plan(round_case(**{"levers.tensor_parallel": [1, 3]}))
    assert isinstance(outcome, Planned)
    assert len(outcome.excluded) == 1


def test_nothing_legal_is_an_error_with_what_would_be() -> None:
    with pytest.raises(CaseError, match=r"legal: 1, 2, 4, 8") as caught:
        configurations(round_case(**{"levers.tensor_parallel": 3}))
    (mistake,) = caught.value.mistakes
    assert mistake.field == "levers.tensor_parallel"


@pytest.mark.parametrize(
    ("rate", "legal"),
    [
        # one sequence at a time costs 10.21 s, x 1.5: up to 1e9 replicas is 6.53e7 requests/s
        (6.52e7, True),
        (6.54e7, False),
    ],
)
def test_demands_beyond_counting_are_refused(rate: float, legal: bool) -> None:
    gpu = round_case().hardware.gpus[0].model_dump(exclude_unset=True)
    cheap = {"hardware.gpus": [{**gpu, "usd_per_hour": 0.5}]}
    case = round_case(**cheap, **{"brief.requests_per_s": rate})
    if legal:
        assert isinstance(plan(case, explained=False), Planned)
        return
    with pytest.raises(CaseError, match="too large") as caught:
        configurations(case)
    assert caught.value.mistakes[0].field == "brief.requests_per_s"


def test_costs_beyond_counting_are_refused() -> None:
    # 2^61 = 2.3e18 nano-dollars: 45.9 replicas at 1e6 dollars are 4.6e16; x 100 is 4.6e18
    gpu = round_case().hardware.gpus[0].model_dump(exclude_unset=True)
    dear = {"hardware.gpus": [{**gpu, "usd_per_hour": 1e6}]}
    assert isinstance(plan(round_case(**dear), explained=False), Planned)
    with pytest.raises(CaseError, match="too large"):
        configurations(round_case(**dear, **{"brief.requests_per_s": 300.0}))


def test_relaxed_drops_one_requirement_at_a_time() -> None:
    gpu = round_case().hardware.gpus[0].model_dump(exclude_unset=True)
    case = round_case(**{"hardware.gpus": [{**gpu, "memory_gb": 21.2}], "brief.ttft_target_s": 0.1})
    space = configurations(case)
    assert space.largest_batch.tolist() == [0]
    ttft = space.relaxed(frozenset({"brief.ttft_target_s"}))
    assert ttft.largest_batch.tolist() == [50]
    both = space.relaxed(frozenset({"brief.ttft_target_s", "hardware.gpus"}))
    assert both.largest_batch.tolist() == [120]
    assert both.batch_by_memory.tolist() == [1000]
    other = space.relaxed(frozenset({"brief.ttft_target_s", "brief.tpot_target_ms"}))
    assert other.largest_batch.tolist() == [50]
    assert other.batch_by_tpot.tolist() == [1000]
    assert len(space.needs) == len(other.needs) == 1
    idle = space.relaxed(frozenset({"brief.requests_per_s"}))
    assert idle.needs == ()
    assert idle.fewest_replicas(np.array([1])).tolist() == [1]
    assert space.relaxed(frozenset()).batch_by_ttft.tolist() == [0]


def test_only_some_configurations() -> None:
    space = configurations(round_case(**{"levers.tensor_parallel": [1, 2, 4]}))
    some = space.only(np.array([2, 0]))
    assert [c.tensor_parallel for c in some.configurations] == [4, 1]
    assert some.unit_gpus.tolist() == [4, 1]
    assert some.unit_nano_usd.tolist() == [12 * 10**9, 3 * 10**9]
    assert some.largest_batch.tolist() == space.largest_batch[[2, 0]].tolist()


@pytest.mark.parametrize(
    ("width", "block", "size", "legal"),
    [
        (768, 128, 2, True),  # 384 = 3 x 128
        (640, 128, 2, False),  # 320 = 2.5 x 128
        (640, 128, 1, True),
        (640, 64, 2, True),  # the checkpoint's own blocks: 5 x 64
        (640, 64, 4, False),  # 160 = 2.5 x 64
        (768, 256, 2, False),  # 1.5 x 256
    ],
)
def test_a_checkpoints_own_blocks_stay_whole(
    width: int, block: int, size: int, legal: bool
) -> None:
    llm = Llm(
        name="m",
        params=1e9,
        layers=1,
        attention_heads=8,
        kv_heads=8,
        head_dim=8,
        ffn_size=width,
        stored=Stored(format="fp8-block", params=10**8, block=block),
    )
    assert (why_illegal(llm, "fp8-block", 8, size, 8) is None) == legal
    assert why_illegal(llm, "fp8", 8, size, 8) is None
