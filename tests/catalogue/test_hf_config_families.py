"""Each family against other counts: transformers' own classes, exact totals, arithmetic."""

import json
from pathlib import Path
from typing import Any

import pytest

from optimiser.catalogue.hf_config import CacheLayers, shape_of
from optimiser.catalogue.hf_config.families import BY_MODEL_TYPE

COUNTED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "transformers_counts.json").read_text()
)


@pytest.mark.parametrize(
    "case", COUNTED, ids=[f"{i}-{case['config']['model_type']}" for i, case in enumerate(COUNTED)]
)
def test_counts_match_transformers(case: dict[str, Any]) -> None:
    assert shape_of(case["config"]).params_total == case["params"]


EXACT = [
    # exact totals that others counted (GPT-2, BLOOM, GPT-J, StarCoder, OPT-350M, Qwen-7B,
    # InternLM2-7B), and the matrices of one layer by hand where no exact total was found
    (
        {
            "model_type": "gpt2",
            "n_embd": 768,
            "n_layer": 12,
            "n_head": 12,
            "n_positions": 1024,
            "vocab_size": 50257,
        },
        124_439_808,
    ),
    (
        {
            "model_type": "bloom",
            "n_embed": 14336,
            "n_layer": 70,
            "num_attention_heads": 112,
            "vocab_size": 250880,
        },
        176_247_271_424,
    ),
    (
        {
            "model_type": "gptj",
            "n_embd": 4096,
            "n_layer": 28,
            "n_head": 16,
            "n_positions": 2048,
            "n_inner": None,
            "vocab_size": 50400,
        },
        6_050_882_784,
    ),
    (
        {
            "model_type": "gpt_bigcode",
            "n_embd": 6144,
            "n_layer": 40,
            "n_head": 48,
            "n_inner": 24576,
            "n_positions": 8192,
            "vocab_size": 49152,
            "multi_query": True,
        },
        15_517_456_384,
    ),
    (
        {
            "model_type": "mpt",
            "d_model": 4096,
            "n_heads": 32,
            "n_layers": 32,
            "expansion_ratio": 4,
            "max_seq_len": 2048,
            "vocab_size": 50432,
            "no_bias": True,
            "learned_pos_emb": True,
            "attn_config": {"alibi": True, "attn_type": "multihead_attention"},
        },
        # MPT-7B: 4 x 4096^2 attention, 2 x 4096 x 16384 MLP, 2 norms without bias
        32 * (4 * 4096**2 + 2 * 4096 * 16_384 + 2 * 4096) + 50_432 * 4096 + 4096,
    ),
    (
        {
            "model_type": "opt",
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "ffn_dim": 4096,
            "num_attention_heads": 16,
            "vocab_size": 50272,
            "max_position_embeddings": 2048,
            "word_embed_proj_dim": 512,
            "do_layer_norm_before": False,
        },
        331_196_416,
    ),
    (
        {
            "model_type": "RefinedWeb",
            "architectures": ["RWForCausalLM"],
            "hidden_size": 8192,
            "n_layer": 60,
            "n_head": 128,
            "n_head_kv": 8,
            "vocab_size": 65024,
            "bias": False,
            "parallel_attn": True,
        },
        # Falcon-40B: 8 KV heads of 64, two norms with bias, tied head
        60 * (8192 * (8192 + 2 * 512 + 8192) + 8 * 8192**2 + 4 * 8192) + 65_024 * 8192 + 2 * 8192,
    ),
    (
        {
            "model_type": "qwen",
            "hidden_size": 4096,
            "intermediate_size": 22016,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "kv_channels": 128,
            "vocab_size": 151936,
            "no_bias": True,
            "seq_length": 8192,
        },
        7_721_324_544,
    ),
    (
        {
            "model_type": "internlm2",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 92544,
            "bias": False,
        },
        7_737_708_544,
    ),
    (
        {
            "model_type": "baichuan",
            "hidden_size": 5120,
            "intermediate_size": 13696,
            "num_hidden_layers": 40,
            "num_attention_heads": 40,
            "vocab_size": 125696,
            "model_max_length": 4096,
        },
        # Baichuan2-13B: multi-head, untied
        40 * (4 * 5120**2 + 3 * 5120 * 13_696 + 2 * 5120) + 2 * 125_696 * 5120 + 5120,
    ),
    (
        {
            "model_type": "dbrx",
            "d_model": 6144,
            "n_heads": 48,
            "n_layers": 40,
            "max_seq_len": 32768,
            "vocab_size": 100352,
            "attn_config": {"kv_n_heads": 8, "clip_qkv": 8},
            "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
        },
        # DBRX: 8 KV heads of 128, 16 experts of 3 matrices, a router, 2 norms without bias
        40 * (6144 * (6144 + 2 * 1024 + 6144) + 16 * 3 * 6144 * 10_752 + 16 * 6144 + 2 * 6144)
        + 2 * 100_352 * 6144
        + 6144,
    ),
]


@pytest.mark.parametrize(
    ("config", "params"), EXACT, ids=[str(config["model_type"]) for config, _ in EXACT]
)
def test_counts_match_exact_totals(config: dict[str, Any], params: int) -> None:
    assert shape_of(config).params_total == params


def test_every_model_type_without_a_count_is_known_to_be_so() -> None:
    counted = {case["config"]["model_type"] for case in COUNTED}
    counted |= {config["model_type"] for config, _ in EXACT}
    same_class_as_another = {
        # wrappers and language parts of classes counted above, and Falcon's first name
        "RefinedWebModel",
        "gemma3",
        "glm4v_moe_text",
        "kimi_k2",
        "kimi_k25",
        "llama4",
        "qwen2_5_vl",
        "qwen2_5_vl_text",
        "qwen2_vl",
        "qwen2_vl_text",
        "qwen3_5",
        "qwen3_5_moe",
        "qwen3_vl_moe_text",
        "qwen3_vl_text",
    }
    by_hand = {"chatglm", "deepseek", "ministral", "nemotron-nas"}
    assert set(BY_MODEL_TYPE) - counted == same_class_as_another | by_hand


def test_gemma3_leaves_widths_to_its_class() -> None:
    # the published 4b config states only what differs from the class: 8 heads of 256, 4 for keys,
    # a vocabulary of 262,208. One layer: 2560 x (2048 + 1024 + 1024 + 2048) + 2 x 256 norms of
    # queries and keys + 3 x 2560 x 10240 + 4 x 2560.
    text = {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    }
    found = shape_of({"model_type": "gemma3", "text_config": text, "vision_config": {}})
    layer = 2560 * 6144 + 512 + 3 * 2560 * 10_240 + 4 * 2560
    assert found.params_total == 34 * layer + 262_208 * 2560 + 2560
    assert [(run.kind, run.layers) for run in found.cache] == [("window", 29), ("full", 5)]
    assert found.max_context == 131_072


def test_searched_layers() -> None:
    blocks = [
        {
            "attention": {"n_heads_in_group": 8, "no_op": False, "replace_with_linear": False},
            "ffn": {"ffn_mult": 5.25, "no_op": False, "replace_with_linear": False},
        },
        {
            "attention": {"n_heads_in_group": None, "no_op": True, "replace_with_linear": False},
            "ffn": {"ffn_mult": 1.0, "no_op": False, "replace_with_linear": False},
        },
        {
            "attention": {"n_heads_in_group": None, "no_op": False, "replace_with_linear": True},
            "ffn": {"ffn_mult": None, "no_op": True, "replace_with_linear": False},
        },
    ]
    found = shape_of(
        {
            "model_type": "nemotron-nas",
            "architectures": ["DeciLMForCausalLM"],
            "num_hidden_layers": 3,
            "hidden_size": 8192,
            "intermediate_size": None,
            "num_attention_heads": 64,
            "num_key_value_heads": None,
            "vocab_size": 1000,
            "block_configs": blocks,
        }
    )
    # widths: 2 x 5.25 x 8192 / 3 = 28,672 and 2 x 8192 / 3 = 5,461, up to 5,632 = 22 x 256
    first = 8192 * (8192 + 1024 + 1024 + 8192) + 3 * 8192 * 28_672 + 2 * 8192
    second = 3 * 8192 * 5_632 + 8192
    third = 8192 * 8192 + 8192
    assert found.params_total == first + second + third + 2 * 1000 * 8192 + 8192
    assert found.cache == (CacheLayers(1, "full", 8, 128, 2048, None, 0),)


def test_nemotron_h_counts_its_few_attention_layers() -> None:
    found = shape_of(
        {
            "model_type": "nemotron_h",
            "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
            "num_hidden_layers": 52,
            "hidden_size": 4096,
            "intermediate_size": 21504,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "attention_head_dim": 128,
            "mamba_num_heads": 128,
            "mamba_head_dim": 64,
            "n_groups": 8,
            "ssm_state_size": 128,
            "conv_kernel": 4,
            "vocab_size": 131072,
            "max_position_embeddings": 8192,
        }
    )
    assert found.params_total == pytest.approx(8.1e9, rel=0.005)  # "8B", 8.10 on its card
    assert found.kv_bytes_per_token() == 2 * 8 * 128 * 4 * 2
    # recurrent state 128 x 64 x 128 in fp32, convolution 3 x (8192 + 2 x 8 x 128) in 16 bits
    states = [run for run in found.cache if run.kind == "state"]
    assert [(run.layers, run.state_bytes) for run in states] == [
        (24, 128 * 64 * 128 * 4 + 3 * 10_240 * 2)
    ]


def test_deepseek_without_query_compression() -> None:
    # DeepSeek-V2-Lite, counted by others
    found = shape_of(
        {
            "model_type": "deepseek_v2",
            "architectures": ["DeepseekV2ForCausalLM"],
            "hidden_size": 2048,
            "intermediate_size": 10944,
            "moe_intermediate_size": 1408,
            "num_hidden_layers": 27,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "n_routed_experts": 64,
            "n_shared_experts": 2,
            "num_experts_per_tok": 6,
            "first_k_dense_replace": 1,
            "moe_layer_freq": 1,
            "kv_lora_rank": 512,
            "q_lora_rank": None,
            "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128,
            "v_head_dim": 128,
            "vocab_size": 102400,
            "max_position_embeddings": 163840,
            "rope_scaling": {
                "type": "yarn",
                "factor": 40,
                "original_max_position_embeddings": 4096,
            },
        }
    )
    assert found.params_total == 15_706_484_224
    assert found.kv_bytes_per_token() == 27 * 576 * 2
    assert found.max_context == 163_840


FALCON = {"hidden_size": 4544, "num_hidden_layers": 32, "vocab_size": 65024}


@pytest.mark.parametrize(
    ("config", "kv_heads"),
    [
        ({"model_type": "falcon", "num_attention_heads": 71, "num_kv_heads": 71}, 1),
        ({"model_type": "RefinedWebModel", "n_head": 71, "multi_query": True}, 1),
        ({"model_type": "falcon", "num_attention_heads": 71, "multi_query": False}, 71),
        (
            {
                "model_type": "falcon",
                "num_attention_heads": 64,
                "num_kv_heads": 8,
                "new_decoder_architecture": True,
            },
            8,
        ),
    ],
)
def test_falcon_names_its_heads_in_many_ways(config: dict[str, Any], kv_heads: int) -> None:
    assert shape_of({**FALCON, **config}).kv_heads == kv_heads


@pytest.mark.parametrize(
    ("attention", "kv_heads"),
    [
        ({}, 16),
        ({"attn_type": "multiquery_attention"}, 1),
        ({"attn_type": "grouped_query_attention", "kv_n_heads": 4}, 4),
    ],
)
def test_mpt_nests_its_attention(attention: dict[str, Any], kv_heads: int) -> None:
    config = {
        "model_type": "mpt",
        "d_model": 2048,
        "n_heads": 16,
        "n_layers": 2,
        "expansion_ratio": 4,
        "max_seq_len": 2048,
        "vocab_size": 1000,
    }
    found = shape_of({**config, "attn_config": attention})
    assert (found.kv_heads, found.head_dim) == (kv_heads, 128)


def test_mpt_without_linear_bias_learns_its_positions() -> None:
    config = {
        "model_type": "mpt",
        "d_model": 64,
        "n_heads": 4,
        "n_layers": 1,
        "expansion_ratio": 4,
        "max_seq_len": 100,
        "vocab_size": 1000,
    }
    biased = shape_of({**config, "attn_config": {"alibi": True}})
    learned = shape_of({**config, "attn_config": {"alibi": False}})
    assert learned.params_total - biased.params_total == 100 * 64
