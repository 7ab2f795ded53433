"""What checkpoints say about their own format, and what they leave as it was."""

import json
from pathlib import Path
from typing import Any

import pytest

from optimiser.catalogue.hf_config import ConfigError, Quantisation, shape_of

ROWS = json.loads((Path(__file__).parents[1] / "data" / "model_shapes.json").read_text())
BY_NAME = {row["model"].split("/")[1]: row for row in ROWS}

# Llama-3.1-8B: matrices of one layer, without norms, embedding and head
LAYER = 4096 * (4096 + 1024 + 1024 + 4096) + 3 * 4096 * 14_336
MLP = 3 * 4096 * 14_336


def quantised(config: dict[str, Any], model: str = "Meta-Llama-3.1-8B") -> Quantisation:
    found = shape_of({**BY_NAME[model], "quantization_config": config}).quantisation
    assert found is not None
    return found


def compressed(weights: dict[str, Any], **more: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights, **more}
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
    }


@pytest.mark.parametrize(
    ("config", "name", "block"),
    [
        ({"quant_method": "fp8"}, "fp8", None),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block", 128),
        ({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["lm_head"]}, "fp8", None),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4-g128", 128),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, "int4-g64", 64),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "int4", None),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "int8", 128),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", 16),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8", None),
        (compressed({"num_bits": 8, "type": "float", "strategy": "channel"}), "fp8", None),
        (
            compressed({"num_bits": 8, "type": "float", "block_structure": [128, 128]}),
            "fp8-block",
            128,
        ),
        (
            compressed({"num_bits": 8, "type": "int"}, input_activations={"num_bits": 8}),
            "w8a8-int8",
            None,
        ),
        (compressed({"num_bits": 4, "type": "int", "group_size": 128}), "int4-g128", 128),
        (compressed({"num_bits": 4, "type": "float", "group_size": 16}), "nvfp4", 16),
    ],
)
def test_formats(config: dict[str, Any], name: str, block: int | None) -> None:
    found = quantised(config)
    assert (found.method, found.format, found.block) == (config["quant_method"], name, block)
    assert found.params == 32 * LAYER


@pytest.mark.parametrize(
    ("kept", "params"),
    [
        (["lm_head", "model.embed_tokens", "vision_tower", "mtp"], 32 * LAYER),
        (["self_attn"], 32 * MLP),
        (["model.layers.*.self_attn"], 32 * MLP),
        (["model.layers.0.self_attn*", "lm_head"], 32 * LAYER - (LAYER - MLP)),
        (["model.language_model.layers.3"], 31 * LAYER),
        (["model.layers.32.mlp"], 32 * LAYER),  # a layer for predicting ahead, after the last
        (["re:.*self_attn.*"], 32 * MLP),
        (["LlamaAttention"], 32 * MLP),
        (["re:.*mlp\\.(gate|up|gate_up|down)_proj.*"], 32 * (LAYER - MLP)),
        (["model.layers.1.self_attn.qkv_proj"], 32 * LAYER - 4096 * (4096 + 2048)),
        (["model.layers.1.input_layernorm", "model.norm"], 32 * LAYER),
    ],
)
def test_modules_that_stay_as_they_were(kept: list[str], params: int) -> None:
    assert quantised({"quant_method": "fp8", "modules_to_not_convert": kept}).params == params
    assert quantised({"quant_method": "fp8", "ignored_layers": kept}).params == params


def test_targets_limit_a_group() -> None:
    config = compressed({"num_bits": 8, "type": "float"}, targets=["re:.*mlp.*"])
    assert quantised(config).params == 32 * MLP


def test_mxfp4_is_of_the_experts_only() -> None:
    found = shape_of(BY_NAME["gpt-oss-120b"]).quantisation
    # 36 layers x 128 experts x 3 matrices of 2880 x 2880; biases stay in 16 bits
    assert found == Quantisation("mxfp4", "mxfp4", 32, 36 * 128 * 3 * 2880 * 2880)


def test_fp8_blocks_of_deepseek() -> None:
    found = shape_of(BY_NAME["DeepSeek-V3"])
    assert found.dtype == "bfloat16"
    assert found.quantisation is not None
    assert (found.quantisation.format, found.quantisation.block) == ("fp8-block", 128)
    # all but embedding, head, norms of 61 x (2 x 7168 + 1536 + 512) + 7168, and 58 routers
    norms = 61 * (2 * 7168 + 1536 + 512) + 7168
    routers = 58 * (256 * 7168 + 256)
    plain = 2 * 129_280 * 7168 + norms + routers
    assert found.quantisation.params == found.params_total - plain


def test_routers_stay_as_they_were() -> None:
    mixtral = quantised({"quant_method": "awq", "bits": 4, "group_size": 128}, "Mixtral-8x7B-v0.1")
    listed = quantised(
        {
            "quant_method": "awq",
            "bits": 4,
            "group_size": 128,
            "modules_to_not_convert": ["gate"],
        },
        "Mixtral-8x7B-v0.1",
    )
    assert mixtral == listed
    assert mixtral.params == 32 * (8 * MLP + LAYER - MLP)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "quant_method"),
        ({"bits": 4}, "quant_method"),
        ({"quant_method": "gptq", "bits": 3, "group_size": 128}, "bits"),
        ({"quant_method": "gptq", "bits": 4}, "group_size"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 0}, "group_size"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"x": {}}}, "dynamic"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "lm_head": True}, "lm_head"),
        ({"quant_method": "fp8", "weight_block_size": [128, 64]}, "weight_block_size"),
        ({"quant_method": "fp8", "weight_block_size": 128}, "weight_block_size"),
        ({"quant_method": "fp8", "ignored_layers": ["attn.wq"]}, "ignored_layers"),
        ({"quant_method": "fp8", "ignored_layers": ["re:(a+)+$"]}, "ignored_layers"),
        ({"quant_method": "fp8", "ignored_layers": ["re:["]}, "ignored_layers"),
        ({"quant_method": "fp8", "ignored_layers": "lm_head"}, "ignored_layers"),
        ({"quant_method": "fp8", "ignored_layers": ["re:.*"]}, "quant_method"),
        ({"quant_method": "mxfp4"}, "quant_method"),  # a model without experts
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "quant_algo"),
        ({"quant_method": "modelopt"}, "quant_algo"),
        ({"quant_method": "compressed-tensors"}, "config_groups"),
        (
            compressed({"num_bits": 8, "type": "float"})
            | {"sparsity_config": {"format": "sparse-24-bitmask"}},
            "sparsity_config.format",
        ),
        (
            compressed({"num_bits": 4, "type": "int"}, input_activations={"num_bits": 8}),
            "config_groups.group_0.weights.num_bits",
        ),
        (compressed({"num_bits": 8, "type": "complex"}), "config_groups.group_0.weights.type"),
    ],
)
def test_what_cannot_be_understood_is_named(config: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        quantised(config)
    assert [p.field for p in caught.value.problems] == [f"quantization_config.{field}"]
