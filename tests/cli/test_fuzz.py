"""Whatever a file holds, the command answers: no traceback, a known exit code, JSON alone."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cli.running import CHAT, optimise

CODES = {0, 1, 2, 3, 4}
STATUSES = {0: {"optimal", "feasible"}, 1: {"error"}, 3: {"infeasible"}, 4: {"undecided"}}

numbers = st.one_of(
    st.integers(-3, 70),
    st.integers(),
    st.floats(),
    st.sampled_from([1e-320, 1e-300, 1e-12, 1e-9, 1e9, 1e15, 1e300, 10**400, 1.0, 0.999999]),
)
words = st.sampled_from(["fp16", "bf16", "int4", "l4", "h100-sxm", "llama-3.1-8b", "null", "", "é"])
leaves = st.one_of(numbers, words, st.booleans(), st.none(), st.text(max_size=5))
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(words | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
INLINE = {
    "model": {
        "name": "m",
        "params": 1e9,
        "layers": 4,
        "attention_heads": 8,
        "kv_heads": 8,
        "head_dim": 64,
    },
    "gpu": {
        "name": "g",
        "memory_gb": 80,
        "bandwidth_gb_per_s": 2000,
        "tflops": {"fp16": 300},
        "usd_per_hour": 1.0,
    },
}


def paths(data: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in nested data."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    found = []
    for key, value in items:
        found.append((*prefix, key))
        if isinstance(value, dict | list):
            found += paths(value, (*prefix, key))
    return found


def base() -> dict[str, Any]:
    """A case in which everything that can be said inline is."""
    data: dict[str, Any] = yaml.safe_load(CHAT)
    data["model"] = dict(INLINE["model"])
    data["hardware"]["gpus"] = [dict(INLINE["gpu"])]
    data["levers"]["kv_heads"] = [8, 4]
    data["limits"] = {"most_gpus": 9, "usd_per_hour": 1e6, "least_replicas": 1}
    return data


PLACES = paths(base())


def mutated(changes: list[tuple[tuple[Any, ...], Any, str]]) -> dict[str, Any]:
    data = base()
    for place, value, how in changes:
        section: Any = data
        try:
            for key in place[:-1]:
                section = section[key]
            if how == "set":
                section[place[-1]] = value
            elif how == "remove":
                del section[place[-1]]
            else:
                section[str(value)] = 1
        except (KeyError, IndexError, TypeError):
            continue
    return data


def answers(text: str, *arguments: str) -> None:
    """Plan a text and check that the answer is one of the kinds promised."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "case.yaml"
        path.write_text(text, encoding="utf-8", errors="replace")
        ran = optimise(path, "--no-levers", "--format", "json", *arguments)
    assert ran.code in CODES
    assert ran.data["status"] in STATUSES[ran.code]
    assert (ran.code == 1) == ("error: " in ran.err)


@settings(max_examples=250)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(PLACES),
            st.one_of(numbers, values),
            st.sampled_from(["set", "set", "set", "remove", "add"]),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_mutated_cases(changes: list[tuple[tuple[Any, ...], Any, str]]) -> None:
    answers(yaml.safe_dump(mutated(changes), allow_unicode=True))


@settings(max_examples=250)
@given(st.sampled_from(PLACES), numbers)
@example(("hardware", "usd_per_gpu_hour"), 1e-12)
@example(("assumptions", "efficiency"), 1e-320)
@example(("hardware", "gpus", 0, "memory_gb"), 1e-300)
@example(("hardware", "gpus", 0, "bandwidth_gb_per_s"), 1e-320)
@example(("brief", "tpot_target_ms"), 5e-324)
@example(("brief", "ttft_target_s"), 1e-300)
@example(("brief", "requests_per_s"), 5e-324)
@example(("model", "params"), 1e-300)
@example(("limits", "usd_per_hour"), 1e-300)
def test_extreme_numbers(place: tuple[Any, ...], value: float) -> None:
    answers(yaml.safe_dump(mutated([(place, value, "set")])))


@settings(max_examples=150)
@given(st.text(alphabet="abn:-[]{},&*!#|>'\"%@` \n\t0.~?<=\r\x00é", max_size=60))
def test_random_text(text: str) -> None:
    answers(text)


@settings(max_examples=150)
@given(st.integers(0, len(CHAT)), st.integers(0, 12), st.text(max_size=4))
def test_cut_and_spliced_cases(start: int, length: int, text: str) -> None:
    answers(CHAT[:start] + text + CHAT[start + length :])


@settings(max_examples=100)
@given(st.text(max_size=20), values)
def test_random_settings(field: str, value: Any) -> None:
    try:
        text = json.dumps(value)
    except ValueError:
        text = repr(value)
    setting = f"{field}={text}".replace("\0", "")
    ran = optimise("chat-7b", "--no-levers", "--format", "json", "--set", setting)
    assert ran.code in CODES
    assert ran.data["status"] in STATUSES[ran.code]
