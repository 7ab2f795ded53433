"""Names, formats and usable rows of the shipped measurement tables."""

from collections import Counter

import pytest

from optimiser.catalogue.load import shipped
from optimiser.studies.measurements import read_rows, shipped_names, slots, usable

FOLDER = shipped("models") / "measurements"


@pytest.fixture(scope="module")
def names():
    return shipped_names()


@pytest.mark.parametrize(
    ("written", "known"),
    [
        ("Llama-3.3-70B", "meta-llama/Meta-Llama-3.1-70B"),
        ("meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Meta-Llama-3.1-70B"),
        ("nvidia/Llama-3.1-8B-Instruct-FP8", "meta-llama/Meta-Llama-3.1-8B"),
        ("deepseek-r1-0528-nvfp4", "deepseek-ai/DeepSeek-V3"),
        ("openai/gpt-oss-120b", "openai/gpt-oss-120b"),
        ("Qwen3-32B-FP8", "Qwen/Qwen3-32B"),
        ("Unheard-Of-7B", None),
    ],
)
def test_names_are_resolved_with_or_without_suffixes(names, written, known):
    assert names.config(written) == known


def test_every_row_left_out_has_a_reason(names):
    rows = read_rows(FOLDER / "e2e.csv")
    kept, left_out = usable(rows, names)
    assert len(kept) + len(left_out) == len(rows) == 1262
    assert Counter(left_out.values()) == {
        "no TTFT or TPOT measured": 116,
        "Qwen3-32B on gb200: time per output token not monotone in concurrency": 15,
        "gpt-oss-120b on h100: saturated": 9,
    }
    assert len({row.group for row in kept}) == 21


def test_strange_rows_are_left_out_not_guessed_at(names):
    good = dict(read_rows(FOLDER / "e2e.csv")[200])
    assert usable([good], names)[1] == {}
    for changes, reason in [
        ({"model": "Unheard-Of-7B"}, "unknown model Unheard-Of-7B"),
        ({"gpu": "h900"}, "unknown GPU h900"),
        ({"precision": "fp3"}, "unknown precision fp3"),
        ({"concurrency": "inf"}, "no finite concurrency"),
        ({"tpot_ms": ""}, "no TTFT or TPOT measured"),
    ]:
        assert usable([good | changes], names)[1] == {2: reason}


def test_formats_by_checkpoint(names):
    hopper, blackwell = names.gpu("h200"), names.gpu("b200")
    oss = names.parts("openai/gpt-oss-120b", "fp4", hopper)
    assert (oss["attention"].bytes_per_param, oss["experts"].bytes_per_param) == (2, 0.53125)
    assert oss["experts"].compute == "fp16"
    deepseek = names.parts("deepseek-ai/DeepSeek-V3", "fp4", blackwell)
    assert [deepseek[p].compute for p in ("attention", "dense", "experts")] == [
        "fp16",
        "fp4",
        "fp4",
    ]
    assert names.parts("Qwen/Qwen3-32B", "fp8", hopper)["attention"].compute == "fp8"


def test_slots_by_hand(names):
    # Llama 3.1 70B in fp8 on one H200: weights 70.55e9 + 2.1e9 for embedding and head in 16 bits;
    # 0.9 x 150.109e9 - 3e9 - 72.66e9 = 59.4e9 over 2,048 tokens x 327,680 bytes: 88.
    row = next(
        row
        for row in usable(read_rows(FOLDER / "e2e.csv"), names)[0]
        if (row.model, row.gpu, row.at.n_gpus) == ("Llama-3.1-70B", "h200", 1)
        and row.at.answer_tokens == row.at.prompt_tokens
    )
    assert row.slots == slots(row.at, names.gpu("h200").capacity_bytes) == 88
