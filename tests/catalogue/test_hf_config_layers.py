"""Rules that say what each layer is, and lists that say it outright."""

import json
from pathlib import Path
from typing import Any

import pytest

from optimiser.catalogue.hf_config import ConfigError, Shape, shape_of

COUNTED = json.loads((Path(__file__).parents[1] / "data" / "transformers_counts.json").read_text())
SMALL: dict[str, dict[str, Any]] = {
    case["config"]["model_type"]: case["config"] for case in COUNTED
}  # six layers each


def runs(shape: Shape) -> list[tuple[str, int]]:
    return [(run.kind, run.layers) for run in shape.cache]


def sparse_layers(shape: Shape) -> int:
    return 0 if shape.experts is None else shape.experts.layers


KINDS = ["sliding_attention"] * 2 + ["full_attention"] * 4


@pytest.mark.parametrize(
    ("model_type", "changes", "expected"),
    [
        # windows of 100 tokens in a context of 512
        ("gemma2", {"sliding_window": 100}, [("window", 3), ("full", 3)]),
        ("gemma2", {"sliding_window": 100, "layer_types": KINDS}, [("window", 2), ("full", 4)]),
        ("gemma3_text", {"sliding_window": 100}, [("window", 5), ("full", 1)]),
        (
            "gemma3_text",
            {"sliding_window": 100, "sliding_window_pattern": 3},
            [("window", 4), ("full", 2)],
        ),
        ("cohere2", {"sliding_window": 100}, [("window", 5), ("full", 1)]),
        ("exaone4", {"sliding_window": None}, [("full", 6)]),
        ("mistral", {"sliding_window": 100}, [("window", 6)]),
        ("mistral", {"sliding_window": 100, "use_sliding_window": False}, [("full", 6)]),
        ("mixtral", {}, [("full", 6)]),
        ("smollm3", {"use_sliding_window": False, "sliding_window": 100}, [("full", 6)]),
        ("llama4_text", {"attention_chunk_size": 100}, [("chunk", 5), ("full", 1)]),
        (
            "llama4_text",
            {"attention_chunk_size": 100, "no_rope_layers": [1, 0, 1, 0, 1, 0]},
            [("chunk", 3), ("full", 3)],
        ),
        (
            "llama4_text",
            {
                "attention_chunk_size": 100,
                "layer_types": ["chunked_attention"] * 2 + ["full_attention"] * 4,
            },
            [("chunk", 2), ("full", 4)],
        ),
        ("llama4_text", {"attention_chunk_size": None}, [("full", 6)]),
        ("llama4_text", {}, [("full", 6)]),  # chunks of 8,192 are longer than the context
        ("qwen3_next", {"full_attention_interval": 2}, [("state", 3), ("full", 3)]),
        (
            "qwen3_next",
            {"layer_types": ["linear_attention"] * 5 + ["full_attention"]},
            [("state", 5), ("full", 1)],
        ),
        ("bamba", {"attn_layer_indices": [0]}, [("full", 1), ("state", 5)]),
        ("granitemoehybrid", {"layer_types": ["attention"] * 6}, [("full", 6)]),
        (
            "nemotron_h",
            {"hybrid_override_pattern": None, "layers_block_type": ["mamba", "attention", *"EMEM"]},
            [("state", 3), ("full", 1)],
        ),
    ],
)
def test_layers_that_cache(
    model_type: str, changes: dict[str, Any], expected: list[tuple[str, int]]
) -> None:
    assert runs(shape_of({**SMALL[model_type], **changes})) == expected


@pytest.mark.parametrize(
    ("model_type", "changes", "layers"),
    [
        ("deepseek_v3", {"first_k_dense_replace": 2}, 4),
        ("deepseek_v3", {"first_k_dense_replace": 0, "moe_layer_freq": 2}, 3),
        ("deepseek_v3", {"first_k_dense_replace": 6}, 0),
        ("glm_moe_dsa", {"mlp_layer_types": ["dense"] * 5 + ["sparse"]}, 1),
        ("qwen3_moe", {"mlp_only_layers": [], "decoder_sparse_step": 2}, 3),
        ("qwen3_moe", {"mlp_only_layers": [0, 1], "decoder_sparse_step": 1}, 4),
        ("llama4_text", {"interleave_moe_layer_step": 2}, 3),
        ("llama4_text", {"moe_layers": [5]}, 1),
        ("jamba", {"num_experts": 4, "num_experts_per_tok": 2}, 3),
        ("jamba", {"num_experts": 1, "num_experts_per_tok": 1}, 0),
        ("ernie4_5_moe", {"moe_layer_start_index": 3, "moe_layer_interval": 1}, 3),
        ("granitemoehybrid", {"num_local_experts": 0}, 0),
        ("nemotron_h", {"hybrid_override_pattern": "M-M*-M"}, 0),
    ],
)
def test_layers_with_experts(model_type: str, changes: dict[str, Any], layers: int) -> None:
    assert sparse_layers(shape_of({**SMALL[model_type], **changes})) == layers


@pytest.mark.parametrize(
    ("model_type", "changes", "field"),
    [
        ("gemma2", {"sliding_window": None, "layer_types": KINDS}, "sliding_window"),
        ("gemma2", {"sliding_window": 0}, "sliding_window"),
        ("llama4_text", {"no_rope_layers": [1, 0]}, "no_rope_layers"),
        ("llama4_text", {"layer_types": KINDS}, "layer_types"),
        ("jamba", {"attn_layer_offset": 3}, "attn_layer_offset"),
        ("bamba", {"attn_layer_indices": [6]}, "attn_layer_indices"),
        ("bamba", {"attn_layer_indices": None}, "attn_layer_indices"),
        ("granitemoehybrid", {"layer_types": None}, "layer_types"),
        ("nemotron_h", {"hybrid_override_pattern": "M-M"}, "hybrid_override_pattern"),
        ("nemotron_h", {"hybrid_override_pattern": "M-M*-X"}, "hybrid_override_pattern"),
        ("nemotron_h", {"hybrid_override_pattern": 7}, "hybrid_override_pattern"),
        ("nemotron_h", {"hybrid_override_pattern": None}, "hybrid_override_pattern"),
        ("glm_moe_dsa", {"mlp_layer_types": ["moe"] * 6}, "mlp_layer_types"),
        ("glm_moe_dsa", {"indexer_types": ["half"] * 6}, "indexer_types"),
        ("mamba2", {"num_heads": 5}, "num_heads"),
        ("mixtral", {"num_experts_per_tok": 9}, "num_experts_per_tok"),
        ("qwen3_next", {"linear_num_value_heads": 3}, "linear_num_value_heads"),
        ("dbrx", {}, "ffn_config.moe_top_k"),
    ],
)
def test_layers_that_do_not_fit_are_named(
    model_type: str, changes: dict[str, Any], field: str
) -> None:
    dbrx = {
        "model_type": "dbrx",
        "d_model": 64,
        "n_heads": 4,
        "n_layers": 2,
        "vocab_size": 100,
        "attn_config": {"kv_n_heads": 2},
        "ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": None},
    }
    with pytest.raises(ConfigError) as caught:
        shape_of({**SMALL.get(model_type, dbrx), **changes})
    assert [problem.field for problem in caught.value.problems] == [field]


def test_shared_indexers_are_not_stored_twice() -> None:
    # an indexer: 24 x 64 queries, 96 x 16 keys, a norm of 2 x 16 and 96 x 4 weights
    every = shape_of(SMALL["glm_moe_dsa"])
    half = shape_of({**SMALL["glm_moe_dsa"], "indexer_types": ["full", "shared"] * 3})
    assert every.params_total - half.params_total == 3 * (24 * 64 + 96 * 16 + 32 + 96 * 4)
    assert every.cache == half.cache


def test_states_are_wider_where_the_config_says_so() -> None:
    config = SMALL["qwen3_next"]
    narrow = shape_of(config).cache[0].state_bytes
    wide = shape_of({**config, "mamba_ssm_dtype": "float32"}).cache[0].state_bytes
    # 4 x 8 x 12 recurrent numbers of 2 bytes more; 3 x (2 x 2 x 8 + 4 x 12) of convolution stay
    assert narrow == 2 * (4 * 8 * 12 + 3 * 80)
    assert wide - narrow == 2 * 4 * 8 * 12
