"""What cannot be read is named, all of it at once, and nothing else ever happens."""

import json
from pathlib import Path
from typing import Any

import pytest

from optimiser.catalogue.hf_config import ConfigError, read_config, shape_of, stored_weight_bytes

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "vocab_size": 100,
}


def problems_of(config: Any) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        shape_of(config)
    return {problem.field: str(problem) for problem in caught.value.problems}


@pytest.mark.parametrize(
    "value",
    [None, 0, -1, 10**12, 10**5000, "64", 64.0, True, [64], {"a": 1}, float("nan")],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize(
    "field",
    ["num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "vocab_size"],
)
def test_absurd_widths_are_named(field: str, value: Any) -> None:
    assert list(problems_of({**LLAMA, field: value})) == [field]


def test_all_problems_are_told_at_once() -> None:
    broken = {
        **LLAMA,
        "hidden_size": None,
        "vocab_size": -5,
        "num_key_value_heads": 3,
        "torch_dtype": "int3",
        "tie_word_embeddings": "yes",
    }
    del broken["intermediate_size"]
    assert problems_of(broken) == {
        "hidden_size": "hidden_size: found null, expected a whole number above 0",
        "vocab_size": "vocab_size: found -5, expected a whole number from 1 to 10000000",
        "num_key_value_heads": "num_key_value_heads: found 3, expected a divisor of the 4 heads",
        "intermediate_size": "intermediate_size: found nothing, expected a whole number above 0",
        "torch_dtype": "torch_dtype: found 'int3', expected one of bfloat16, float16, float32",
        "tie_word_embeddings": "tie_word_embeddings: found 'yes', expected true or false",
    }


def test_a_misspelt_key_is_suggested() -> None:
    broken = {**LLAMA, "hiden_size": 64}
    del broken["hidden_size"]
    assert "(nearest key: hiden_size)" in problems_of(broken)["hidden_size"]


def test_an_unknown_architecture_names_what_cannot_be_placed() -> None:
    found = problems_of({**LLAMA, "model_type": "lamma", "architectures": ["Foo"], "n_ring": 7})
    assert list(found) == ["model_type", "architectures", "n_ring"]
    assert "(nearest: llama)" in found["model_type"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"model_type": None, "architectures": None}, "model_type"),
        ({"model_type": []}, "model_type"),
        ({"architectures": "LlamaForCausalLM"}, "architectures"),
        ({"architectures": [{}]}, "architectures"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "architectures"),
        ({"architectures": ["MistralForCausalLM"]}, "architectures"),
        ({"num_local_experts": 8}, "num_local_experts"),
        ({"kv_lora_rank": 512}, "kv_lora_rank"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
        ({"n_layer": 3}, "num_hidden_layers"),
        ({"num_attention_heads": 5}, "head_dim"),
        ({"head_dim": 0}, "head_dim"),
        ({"text_config": [1]}, "text_config"),
        ({"rope_scaling": "yarn"}, "rope_scaling"),
        ({"rope_scaling": {"type": "yarn", "factor": "four"}}, "rope_scaling.factor"),
        ({"rope_scaling": {"type": "yarn", "factor": float("inf")}}, "rope_scaling.factor"),
        ({"max_position_embeddings": 2**70}, "max_position_embeddings"),
        ({"quantization_config": 4}, "quantization_config"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], field: str) -> None:
    assert list(problems_of({**LLAMA, **changes})) == [field]


def test_a_layer_of_an_unknown_kind_is_named() -> None:
    qwen = {**LLAMA, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}
    kinds = ["full_attention", "linear_attention"]
    assert list(problems_of({**qwen, "layer_types": kinds})) == ["layer_types"]
    assert list(problems_of({**qwen, "layer_types": kinds[:1]})) == ["layer_types"]


def test_wrapper_and_language_model_must_agree_on_the_head() -> None:
    nested = {
        "text_config": {**LLAMA, "tie_word_embeddings": True},
        "tie_word_embeddings": False,
    }
    assert list(problems_of(nested)) == ["tie_word_embeddings"]


def test_problems_of_a_nested_config_say_where() -> None:
    assert list(problems_of({"text_config": {**LLAMA, "hidden_size": 0}})) == [
        "text_config.hidden_size"
    ]


@pytest.mark.parametrize("config", [None, 3, "llama", [LLAMA]])
def test_only_objects_are_configs(config: Any) -> None:
    assert list(problems_of(config)) == ["config"]


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    assert read_config(path) == shape_of(LLAMA)
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(LLAMA).encode())
    assert read_config(path) == shape_of(LLAMA)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"],
)
def test_files_that_are_no_config(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"config\.json"):
        read_config(path)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_config(tmp_path / "config.json")
    with pytest.raises(ConfigError, match="directory"):
        read_config(tmp_path)


def test_stored_weight_bytes(tmp_path: Path) -> None:
    assert stored_weight_bytes(tmp_path) is None
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"metadata": {"total_size": 16060522496}, "weight_map": {}}')
    assert stored_weight_bytes(tmp_path) == 16_060_522_496


@pytest.mark.parametrize(
    "content",
    [
        "{}",
        '{"metadata": null}',
        '{"metadata": {}}',
        '{"metadata": {"total_size": 0}}',
        '{"metadata": {"total_size": -4}}',
        '{"metadata": {"total_size": "16060522496"}}',
        '{"metadata": {"total_size": 1.5}}',
        '{"metadata": {"total_size": true}}',
        "[]",
        "{",
    ],
)
def test_weight_index_that_does_not_say(tmp_path: Path, content: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(ConfigError, match=r"index\.json"):
        stored_weight_bytes(tmp_path)
