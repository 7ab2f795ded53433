"""Classes that are given as histograms of lengths."""

import math
from pathlib import Path

import numpy as np
import pytest

from optimiser.errors import CaseError
from optimiser.fleet_case import FleetCase
from optimiser.planning.design import Configuration, Design
from optimiser.planning.fleet.assemble import assemble
from optimiser.planning.fleet.offered import offered_of
from optimiser.planning.fleet.planner import FleetInfeasible, FleetPlanned, plan_fleet
from optimiser.planning.fleet.shares import shares
from optimiser.planning.rental import ways_to_rent
from optimiser.planning.verify_fleet import settle
from optimiser.yaml_io import Document
from tests.planning.fleet.test_measured import fleet_data

HEAD = "count,mean_prompt,mean_answer\n"
TWO = HEAD + "30,100,50\n10,1000,250\n"
"""Mean answer (30 x 50 + 10 x 250) / 40 = 100, mean prompt (30 x 100 + 10 x 1000) / 40 = 325. Of 40
requests' 4,000 answer tokens 1,500 are of the short ones: 3/8 of those in flight."""


def tiny(folder: Path, lengths: str, **workload: object) -> FleetCase:
    """The model and GPU of the hand calculations: 2 GB of weights at 1 TB/s, 40 kB a token."""
    (folder / "lengths.csv").write_text(lengths)
    data = {
        "name": "tiny",
        "workloads": [
            {
                "name": "mixed",
                "requests_per_s": 10.0,
                "histogram": "lengths.csv",
                "ttft_target_s": 1.0,
                "tpot_target_ms": 50.0,
                **workload,
            }
        ],
        "model": {
            "name": "one",
            "params": 1e9,
            "layers": 10,
            "attention_heads": 10,
            "kv_heads": 10,
            "head_dim": 100,
        },
        "hardware": {
            "gpus": [
                {
                    "name": "round",
                    "memory_gb": 40,
                    "bandwidth_gb_per_s": 1000,
                    "tflops": {"fp16": 100},
                    "usd_per_hour": 1.0,
                }
            ]
        },
        "assumptions": {"headroom": 1.0, "memory_reserve": 0.1},
    }
    return FleetCase.of_document(Document(str(folder / "case.yaml"), data), None)


def only_configuration(case: FleetCase) -> Configuration:
    gpu = case.hardware.gpus[0]
    return Configuration("fp16", "fp16", 10, gpu, 1, ways_to_rent(case.hardware, gpu, ())[0])


def test_the_means_are_of_requests(tmp_path: Path) -> None:
    workload = tiny(tmp_path, TWO).workloads[0]
    assert (workload.prompt_tokens, workload.answer_tokens) == (325, 100)


def test_the_need_of_a_histogram_by_hand(tmp_path: Path) -> None:
    """Steps of 10 ms, at most 500 sequences.

    Prefill: 100 tokens 2 ms (both ways), 1,000 tokens 20 ms: 6.5 ms on average. Read in flight:
    3/8 x (100 + 25) + 5/8 x (1000 + 125) = 750 tokens, held 3/8 x 150 + 5/8 x 1250 = 837.5, where
    the means would say 375 and 425. Decode takes 10/s x 100 x 10 ms = 10 sequences:
    bandwidth (1e12 x 0.01 - 2e9) / (750 x 40e3) = 266.7; memory 34e9 / (837.5 x 40e3) = 1014.9;
    compute 1e14 x 0.01 / 2e9 = 500; batch 500.
    """
    case = tiny(tmp_path, TWO)
    one = case.case_of(case.workloads[0])
    rows = case.rows_of(case.workloads[0], one)
    assert [share for _, share in rows] == [0.75, 0.25]
    offered = offered_of(one, rows, [only_configuration(case)], np.array([True]))
    need, able = shares([offered], np.array([0]), np.array([0.01]), np.array([500]))
    assert able.all()
    prefill = 10 * 0.0065
    expected = [10 / (8e9 / 30e6), 10 / (34e9 / 33.5e6), 10 / (34e9 / 33.5e6), 10 / 500, 10 / 500]
    assert need[0, :, 0] == pytest.approx([x + prefill for x in expected], rel=1e-8)
    assert offered.replicas.kv_read_bytes == pytest.approx([750 * 40e3])
    assert offered.replicas.kv_held_bytes == pytest.approx([837.5 * 40e3])


def test_where_a_histogram_settles_by_hand(tmp_path: Path) -> None:
    """5/s on one replica: 3.75/s of 50 tokens and 1.25/s of 250 are 500 tokens a second.

    Prefills take 5 x 6.5 ms = 3.25 % of the time; decode holds 500 / 0.9675 = 516.8 sequences for
    a second of step time, reading 750 tokens of 40 kB each: 15.5 GB.
    """
    case = tiny(tmp_path, TWO)
    assembled = assemble(case)
    routed = assembled.routed(0, 5.0)
    mix = settle(Design(only_configuration(case), 1, 1), 1, [routed])
    running = 500 / 0.9675
    assert mix.prefill_frac == pytest.approx(0.0325)
    assert mix.ttft_s == {"mixed": pytest.approx(0.0065)}
    assert mix.step_s == pytest.approx(2e9 / (1e12 - running * 750 * 40e3))
    assert mix.sequences == pytest.approx(running * mix.step_s)
    held = 2e9 + mix.sequences * 837.5 * 40e3
    assert mix.memory_frac == pytest.approx(held / 36e9)


def test_one_row_is_the_class_of_means(tmp_path: Path) -> None:
    means = tiny(tmp_path, HEAD + "7,325,100\n")
    plain = tiny(tmp_path, TWO, histogram=None, prompt_tokens=325, answer_tokens=100)
    one, other = assemble(means), assemble(plain)
    assert one.is_alone
    assert np.array_equal(one.fleet.pools.need, other.fleet.pools.need)
    assert [pool.label for pool in one.pools] == [pool.label for pool in other.pools]


def test_what_differs_in_length_needs_more_than_its_means(tmp_path: Path) -> None:
    """The cache in flight is 750 tokens a sequence where the means say 375."""
    mixed = tiny(tmp_path, TWO, requests_per_s=2000.0)
    plain = tiny(
        tmp_path, TWO, requests_per_s=2000.0, histogram=None, prompt_tokens=325, answer_tokens=100
    )
    found, other = plan_fleet(mixed), plan_fleet(plain)
    assert isinstance(found, FleetPlanned)
    assert isinstance(other, FleetPlanned)
    assert found.usd_per_hour > other.usd_per_hour


def test_a_request_that_fits_no_gpu_is_refused_however_rare(tmp_path: Path) -> None:
    """34 GB hold 850,000 tokens of 40 kB: one row of 900,000 + 100 does not fit."""
    fits = HEAD + "1000,100,50\n1,{prompt},100\n"
    case = tiny(tmp_path, fits.format(prompt=840_000), ttft_target_s=100.0)
    outcome = plan_fleet(case)
    assert isinstance(outcome, FleetPlanned)
    check = next(c for c in outcome.checks if c.requirement == "workloads.mixed.histogram")
    assert check.actual == pytest.approx(2 + 840_100 * 40e3 / 1e9)
    case = tiny(tmp_path, fits.format(prompt=900_000), ttft_target_s=100.0)
    assert isinstance(plan_fleet(case), FleetInfeasible)


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("fidelity", ["ideal", "measured"])
def test_fleets_of_drawn_histograms_verify(seed: int, fidelity: str, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    data = fleet_data(seed, 2)
    if fidelity == "ideal":
        data["assumptions"] = {"headroom": 1.2}
    for workload in data["workloads"]:  # type: ignore[attr-defined]
        rows = [
            f"{random.integers(1, 50)},{math.exp(random.uniform(3, 8)):.1f},"
            f"{math.exp(random.uniform(1, 6)):.1f}"
            for _ in range(random.integers(1, 12))
        ]
        name = f"{workload['name']}.csv"
        (tmp_path / name).write_text(HEAD + "\n".join(rows) + "\n")
        workload["histogram"] = name
        del workload["prompt_tokens"], workload["answer_tokens"]
    document = Document(str(tmp_path / "case.yaml"), data)
    outcome = plan_fleet(FleetCase.of_document(document, None), time_limit_s=20)
    if isinstance(outcome, FleetPlanned):
        assert all(check.holds for check in outcome.checks)
        for pool in outcome.pools:
            assert pool.mix is not None
            assert pool.mix.step_s <= pool.of.step_s * (1 + 1e-9)


@pytest.mark.parametrize(
    ("lengths", "told"),
    [
        ("count,mean_prompt\n1,2\n", "mean_answer"),
        (HEAD, "no requests in it"),
        (HEAD + "0,100,50\n", "no requests in it"),
        (HEAD + "1,100,50\n-1,100,50\n", "line 3: expected counts and lengths of 0 or more"),
        (HEAD + "1,nan,50\n", "line 2"),
        (HEAD + "1,2,3\n" * 1001, "1,001 rows, expected at most 1,000"),
    ],
)
def test_a_wrong_histogram_is_told(tmp_path: Path, lengths: str, told: str) -> None:
    with pytest.raises(CaseError, match=told):
        tiny(tmp_path, lengths)


def test_means_beside_a_histogram_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="does not go with prompt_tokens or answer_tokens"):
        tiny(tmp_path, TWO, prompt_tokens=5)
