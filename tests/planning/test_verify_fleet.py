"""Where a mix of classes settles, against hand calculations."""

import math

import pytest

from optimiser.case import Case
from optimiser.planning.configurations import configurations
from optimiser.planning.design import Design
from optimiser.planning.mix import Routed
from optimiser.planning.verify_fleet import settle
from optimiser.yaml_io import Document


def case(name: str, prompt: int, answer: int, efficiency: float = 1.0) -> Case:
    data = {
        "name": name,
        "brief": {
            "requests_per_s": 1.0,
            "prompt_tokens": prompt,
            "answer_tokens": answer,
            "ttft_target_s": 1.0,
            "tpot_target_ms": 50.0,
        },
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
        "assumptions": {"efficiency": efficiency, "memory_reserve": 0.1},
    }
    return Case.of_document(Document(name, data), None)


def design(of: Case) -> Design:
    return Design(configurations(of).configurations[0], 1, 1)


def test_one_class_settles_where_littles_law_says() -> None:
    """2 GB of weights at 1 TB/s, 40 kB of cache a token, 100 + 200 / 2 tokens of it read.

    y = 5/s: prefill 2 ms (weights read; 2e9 * 100 / 1e14 is as long) takes 1 % of the time; decode
    runs 5 * 200 / 0.99 = 1010.1 sequences for a second of step time, reading 8 MB each: 8.08 GB, so
    the step is 2e9 / (1e12 - 8.08e9) s.
    """
    one = case("one", 100, 200)
    mix = settle(design(one), 1, [Routed(one, 5.0)])
    running = 5 * 200 / 0.99
    assert mix.prefill_frac == pytest.approx(0.01)
    assert mix.step_s == pytest.approx(2e9 / (1e12 - running * 200 * 40e3))
    assert mix.sequences == pytest.approx(running * mix.step_s)
    held = 2e9 + mix.sequences * 300 * 40e3
    assert mix.memory_frac == pytest.approx(held / 36e9)


def test_two_classes_share_the_step() -> None:
    short, long = case("short", 100, 200), case("long", 2000, 50)
    mix = settle(design(short), 2, [Routed(short, 10.0), Routed(long, 4.0)])
    busy = 5 * 0.002 + 2 * 0.04
    a, b = 5 * 200 / (1 - busy), 2 * 50 / (1 - busy)
    read = a * 200 * 40e3 + b * 2025 * 40e3
    assert mix.prefill_s == {"short": pytest.approx(0.002), "long": pytest.approx(0.04)}
    assert mix.step_s == pytest.approx(2e9 / (1e12 - read))


def test_what_replicas_cannot_carry_has_no_step_time() -> None:
    one = case("one", 100, 200)
    assert math.isinf(settle(design(one), 1, [Routed(one, 600.0)]).step_s)
    assert math.isinf(settle(design(one), 1, [Routed(one, 400.0)]).step_s)
    assert settle(design(one), 1, []).step_s == 0.0
