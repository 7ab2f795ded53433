"""Every model of the table, and its quirks against arithmetic done by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from optimiser.catalogue.hf_config import CacheLayers, ConfigError, Shape, shape_of

ROWS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "model_shapes.json").read_text()
)
BY_NAME = {row["model"].split("/")[1]: row for row in ROWS}
SEARCHED = "Llama-3_3-Nemotron-Super-49B-v1"
READABLE = [row for name, row in BY_NAME.items() if name != SEARCHED]


def shape(name: str, **changes: Any) -> Shape:
    return shape_of({**BY_NAME[name], **changes})


@pytest.mark.parametrize("row", READABLE, ids=lambda row: row["model"])
def test_counts_match_the_tensors(row: dict[str, Any]) -> None:
    found = shape_of(row)
    counted, active = row.get("counted_params_b"), row.get("counted_active_params_b")
    if counted is not None:
        assert found.params_total == pytest.approx(counted * 1e9, rel=0.001)
    if active is not None:
        assert found.params_active == pytest.approx(active * 1e9, rel=0.005)
    if active is None and row["active_params_b"] is None:
        assert found.params_active == found.params_total


@pytest.mark.parametrize("row", READABLE, ids=lambda row: row["model"])
def test_totals_are_near_what_the_makers_publish(row: dict[str, Any]) -> None:
    # 1 % of rounding on the cards, save where they round more or count something else:
    # OPT says 13 for 12.85, Kimi-K2 one trillion for 1.026, Llama-4 counts its vision tower.
    loose = {"facebook/opt-13b": 0.02, "moonshotai/Kimi-K2-Instruct": 0.03}
    loose["meta-llama/Llama-4-Scout-17B-16E-Instruct"] = 0.02
    published = row["published_params_b"] * 1e9
    assert shape_of(row).params_total == pytest.approx(published, rel=loose.get(row["model"], 0.01))


@pytest.mark.parametrize(
    ("name", "kv_bytes"),
    [
        # 2 (keys and values) x KV heads x head width x layers x 2 bytes, unless said otherwise
        ("Llama-2-7b-hf", 2 * 32 * 128 * 32 * 2),  # multi-head: 524,288
        ("Llama-2-70b-hf", 2 * 8 * 128 * 80 * 2),  # 327,680
        ("Meta-Llama-3.1-8B", 131_072),  # 2 x 8 x 128 x 32 x 2
        ("Meta-Llama-3.1-70B", 327_680),  # 2 x 8 x 128 x 80 x 2
        ("Meta-Llama-3.1-405B", 516_096),  # 2 x 8 x 128 x 126 x 2
        ("Mistral-7B-v0.1", 131_072),  # its window is ignored here
        ("Qwen2.5-7B-Instruct", 57_344),  # 2 x 4 x (3584 / 28) x 28 x 2
        ("Qwen3-30B-A3B", 98_304),  # 2 x 4 x 128 x 48 x 2, head width not 2048 / 32
        ("DeepSeek-V3", 70_272),  # 61 layers x (512 + 64) x 2, no factor of 2
        ("Kimi-K2-Instruct", 70_272),
        ("gemma-2-9b", 344_064),  # 2 x 8 x 256 x 42 x 2
        ("gemma-2-27b", 376_832),  # 2 x 16 x 128 x 46 x 2
        ("Phi-3-mini-4k-instruct", 393_216),  # 2 x 32 x 96 x 32 x 2
        ("falcon-7b", 8_192),  # 2 x 1 x (4544 / 71) x 32 x 2
        ("gpt-neox-20b", 1_081_344),  # 2 x 64 x 96 x 44 x 2
        ("gpt-oss-120b", 73_728),  # 2 x 8 x 64 x 36 x 2
        ("c4ai-command-r-plus", 262_144),  # 2 x 8 x 128 x 64 x 2
        ("glm-4-9b-chat", 40_960),  # 2 x 2 x 128 x 40 x 2
        ("Llama-4-Scout-17B-16E-Instruct", 196_608),  # 2 x 8 x 128 x 48 x 2
        ("Jamba-v0.1", 16_384),  # 2 x 8 x 128 x 4 x 2: 4 of 32 layers cache
        ("mamba-2.8b-hf", 0),
        ("GLM-5", 89_856),  # 78 x (512 + 64) x 2
        ("Qwen3.5-397B-A17B", 30_720),  # 2 x 2 x 256 x 15 x 2: 15 of 60 layers cache
    ],
)
def test_cache_bytes_per_token(name: str, kv_bytes: int) -> None:
    assert shape(name).kv_bytes_per_token() == kv_bytes
    assert shape(name).kv_bytes_per_token(1) == kv_bytes / 2


@pytest.mark.parametrize(
    ("name", "context", "kv_bytes"),
    [
        # every layer keeps 4,096 of 32,768 tokens
        ("Mistral-7B-v0.1", 32_768, 131_072 * 4_096),
        ("Mistral-7B-v0.1", 1_000, 131_072 * 1_000),
        # 21 layers keep 4,096 tokens and 21 keep 8,192, of 2 x 8 x 256 x 2 bytes
        ("gemma-2-9b", 8_192, 8_192 * 21 * (4_096 + 8_192)),
        # 18 layers keep 128 tokens and 18 keep 10,000, of 2 x 8 x 64 x 2 bytes
        ("gpt-oss-120b", 10_000, 2_048 * 18 * (128 + 10_000)),
        # 36 layers keep 8,192 tokens and 12 keep 100,000, of 2 x 8 x 128 x 2 bytes
        ("Llama-4-Scout-17B-16E-Instruct", 100_000, 4_096 * (36 * 8_192 + 12 * 100_000)),
        ("DeepSeek-V3", 1_000, 70_272 * 1_000),
        # 28 Mamba layers: 8,192 x 16 recurrent and 8,192 x 3 convolution numbers of 2 bytes
        ("Jamba-v0.1", 1_000, 16_384 * 1_000 + 28 * 8_192 * (16 + 3) * 2),
        ("mamba-2.8b-hf", 1, 64 * 5_120 * (16 + 3) * 2),
        # 45 delta-net layers: 64 x 128 x 128 recurrent numbers, and 3 x (2 x 16 x 128 + 64 x 128)
        ("Qwen3.5-397B-A17B", 10, 307_200 + 45 * (1_048_576 + 36_864) * 2),
    ],
)
def test_cache_bytes_per_sequence(name: str, context: int, kv_bytes: int) -> None:
    assert shape(name).kv_bytes_per_sequence(context) == kv_bytes


def test_exact_totals_by_hand() -> None:
    # Llama-3.1-8B, per layer: 4096 x (4096 + 1024 + 1024 + 4096) attention, 3 x 4096 x 14336 MLP,
    # 2 x 4096 norms; 32 of them, two matrices of 128256 x 4096 and a norm.
    layer = 4096 * 10_240 + 3 * 4096 * 14_336 + 2 * 4096
    llama = shape("Meta-Llama-3.1-8B")
    assert llama.params_total == 32 * layer + 2 * 128_256 * 4096 + 4096 == 8_030_261_248
    assert llama.embedding_params == llama.head_params == 128_256 * 4096
    assert llama.attention_params == 32 * 4096 * 10_240
    # Qwen2.5-7B: biases of 3584 + 512 + 512 on queries, keys and values, though no key says so
    qwen = shape("Qwen2.5-7B-Instruct")
    assert qwen.attention_params == 28 * (3584 * (3584 + 512 + 512 + 3584) + 4608)
    assert qwen.params_total == 7_615_616_512
    # gpt-oss expert: gate and up 2 x 2880 x 2880, down 2880 x 2880, biases 2 x 2880 + 2880
    experts = shape("gpt-oss-120b").experts
    assert experts is not None
    assert experts.params_each == 3 * 2880 * 2880 + 3 * 2880
    assert (experts.layers, experts.count, experts.per_token) == (36, 128, 4)


def test_tied_heads_are_counted_once() -> None:
    gemma, opt = shape("gemma-2-9b"), shape("opt-13b")
    assert gemma.tied_embeddings
    assert gemma.head_params == 0
    assert opt.head_params == 0
    small = shape("Qwen3-0.6B")
    untied = shape("Qwen3-0.6B", tie_word_embeddings=False)
    assert untied.params_total - small.params_total == 151_936 * 1024


@pytest.mark.parametrize("name", ["gemma-2-9b", "falcon-7b", "opt-13b", "c4ai-command-r-plus"])
def test_absent_tie_takes_the_class_default(name: str) -> None:
    row = {key: value for key, value in BY_NAME[name].items() if key != "tie_word_embeddings"}
    assert shape_of(row) == shape(name)
    assert shape_of(row).tied_embeddings


def test_absent_kv_heads_mean_multi_head() -> None:
    row = dict(BY_NAME["Llama-2-7b-hf"])
    del row["num_key_value_heads"]
    assert shape_of(row) == shape("Llama-2-7b-hf")
    assert shape_of({**row, "num_key_value_heads": None}) == shape("Llama-2-7b-hf")


def test_unused_windows_are_ignored() -> None:
    assert [run.kind for run in shape("Qwen2.5-7B-Instruct").cache] == ["full"]
    long = shape("Phi-3-mini-4k-instruct", sliding_window=262_144, max_position_embeddings=131_072)
    assert [run.kind for run in long.cache] == ["full"]
    later = shape("Mistral-7B-v0.1", sliding_window=None)
    assert [run.window_tokens for run in later.cache] == [None]


def test_qwen_windows_start_at_a_layer() -> None:
    row = {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 21}
    cache = shape("Qwen2.5-7B-Instruct", **row).cache
    assert [(run.kind, run.layers) for run in cache] == [("full", 21), ("window", 7)]


def test_latent_cache_cannot_be_sharded() -> None:
    deepseek = shape("DeepSeek-V3")
    assert deepseek.cache == (CacheLayers(61, "latent", 1, 576, 576, None, 0),)
    assert deepseek.kv_heads == 1
    assert deepseek.attention_heads == 128
    assert deepseek.head_dim == 128 + 64


def test_dense_and_sparse_layers() -> None:
    deepseek = shape("DeepSeek-V3").experts
    assert deepseek is not None
    assert (deepseek.layers, deepseek.count, deepseek.per_token) == (58, 256, 8)
    assert deepseek.params_each == 3 * 7168 * 2048
    jamba = shape("Jamba-v0.1").experts
    assert jamba is not None
    assert jamba.layers == 16
    scout = shape("Llama-4-Scout-17B-16E-Instruct")
    assert (scout.expert_ffn_size, scout.ffn_size) == (8192, 8192)  # the shared expert is dense
    qwen = shape("Qwen3-30B-A3B", mlp_only_layers=[0, 5]).experts
    assert qwen is not None
    assert qwen.layers == 46


def test_interleaved_llama4_has_wider_dense_layers() -> None:
    row = BY_NAME["Llama-4-Scout-17B-16E-Instruct"]
    text = {**row["text_config"], "interleave_moe_layer_step": 2, "num_local_experts": 128}
    maverick = shape_of({**row, "text_config": text})
    assert maverick.ffn_size == 16_384
    assert maverick.experts is not None
    assert maverick.experts.layers == 24
    # Maverick's card: 400 billion in total with its vision tower, 17 active
    assert maverick.params_total == pytest.approx(400e9, rel=0.005)
    assert maverick.params_active == pytest.approx(17e9, rel=0.02)


def test_context_and_dtype() -> None:
    assert shape("glm-4-9b-chat").max_context == 131_072  # `seq_length`
    assert shape("mamba-2.8b-hf").max_context == 2_048  # states none
    assert shape("gpt-oss-120b").dtype == "bfloat16"  # states none
    stretched = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
    assert shape("Qwen3-32B", rope_scaling=stretched).max_context == 131_072
    trained = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8_192}
    assert shape("Meta-Llama-3.1-8B", rope_scaling=trained).max_context == 131_072
    assert shape("c4ai-command-r-plus", model_max_length=100_000).max_context == 100_000


def test_models_without_attention_have_no_heads() -> None:
    mamba = shape("mamba-2.8b-hf")
    assert (mamba.attention_heads, mamba.kv_heads, mamba.head_dim) == (0, 0, 0)
    assert mamba.ffn_size == 5120


def test_nested_config_wins_over_its_wrapper() -> None:
    # Kimi-K2.5 nests the language model that its row shows flat
    row = BY_NAME["Kimi-K2.5"]
    text = {key: value for key, value in row.items() if key != "tie_word_embeddings"}
    nested = {
        "model_type": "kimi_k25",
        "architectures": ["KimiK25ForConditionalGeneration"],
        "hidden_size": 1,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "text_config": {**text, "model_type": "kimi_k2"},
        "vision_config": {"hidden_size": 1152},
    }
    found, flat = shape_of(nested), shape("Kimi-K2.5")
    assert found.architecture == "KimiK25ForConditionalGeneration"
    assert (found.params_total, found.cache) == (flat.params_total, flat.cache)


def test_null_widths_are_named() -> None:
    with pytest.raises(ConfigError) as caught:
        shape(SEARCHED)
    fields = [problem.field for problem in caught.value.problems]
    assert fields == ["block_configs", "intermediate_size", "num_key_value_heads"]
