"""Decoders with a mixture of experts."""

from optimiser.catalogue.hf_config import attention, experts, windows
from optimiser.catalogue.hf_config.attention import Attention
from optimiser.catalogue.hf_config.experts import Mixture
from optimiser.catalogue.hf_config.family import Family, Norms
from optimiser.catalogue.hf_config.fields import Fields
from optimiser.catalogue.hf_config.latent import LatentAttention
from optimiser.catalogue.hf_config.mlp import Mlp, stated_width
from optimiser.catalogue.hf_config.switches import ALWAYS, NEVER, stated

DEEPSEEK = Mixture(sparse=experts.after_first, shared=experts.counted_shared)
BALANCED_DEEPSEEK = Mixture(
    sparse=experts.after_first, shared=experts.counted_shared, router_bias=True
)
BLOCK_SPARSE = Mlp(path="block_sparse_moe")


def llama4_dense(fields: Fields) -> int:
    """`intermediate_size` is an expert's width; dense layers have a key of their own."""
    return fields.whole("intermediate_size_mlp")


EXPERT_FAMILIES = (
    Family(
        model_types=("mixtral",),
        architectures=("MixtralForCausalLM",),
        mixer=Attention(windows=windows.every_layer),
        feed_forward=Mixture(dense=BLOCK_SPARSE, width=stated_width),
        defaults={"max_position_embeddings": 131072},
    ),
    Family(
        model_types=("phimoe",),
        architectures=("PhimoeForCausalLM", "PhiMoEForCausalLM"),
        mixer=Attention(
            bias=stated("attention_bias"),
            windows=windows.every_layer,
        ),
        feed_forward=Mixture(dense=BLOCK_SPARSE, width=stated_width),
        norms=Norms(bias=ALWAYS),
        head_bias=stated("lm_head_bias"),
        defaults={"max_position_embeddings": 131072},
    ),
    Family(
        model_types=("qwen2_moe",),
        architectures=("Qwen2MoeForCausalLM",),
        mixer=Attention(
            bias=stated("qkv_bias", default=True),
            output_bias=NEVER,
            windows=windows.optional_from_layer,
        ),
        feed_forward=Mixture(
            sparse=experts.by_step,
            shared=experts.width_shared("shared_expert_intermediate_size"),
            shared_gate=True,
            names={"shared_experts": "shared_expert"},
        ),
        defaults={"sliding_window": 4096, "max_window_layers": 28, "decoder_sparse_step": 1},
    ),
    Family(
        model_types=("qwen3_moe", "qwen3_vl_moe_text"),
        architectures=("Qwen3MoeForCausalLM",),
        mixer=Attention(
            bias=stated("attention_bias"),
            norm=ALWAYS,
            windows=windows.optional_from_layer,
        ),
        feed_forward=Mixture(sparse=experts.by_step),
        defaults={"sliding_window": 4096, "max_window_layers": 28, "decoder_sparse_step": 1},
    ),
    Family(
        model_types=("olmoe",),
        architectures=("OlmoeForCausalLM",),
        mixer=Attention(
            bias=stated("attention_bias"),
            norm=ALWAYS,
            norm_on="all heads",
        ),
        feed_forward=Mixture(width=stated_width),
    ),
    Family(
        model_types=("deepseek",),
        architectures=("DeepseekForCausalLM",),
        mixer=Attention(bias=stated("attention_bias")),
        feed_forward=DEEPSEEK,
        defaults={"moe_layer_freq": 1},
    ),
    Family(
        model_types=("deepseek_v2",),
        architectures=("DeepseekV2ForCausalLM",),
        mixer=LatentAttention(),
        feed_forward=DEEPSEEK,
        defaults={"moe_layer_freq": 1},
    ),
    Family(
        model_types=("deepseek_v3", "kimi_k2", "kimi_k25"),
        architectures=(
            "DeepseekV3ForCausalLM",
            "KimiK2ForCausalLM",
            "KimiK25ForConditionalGeneration",
        ),
        mixer=LatentAttention(),
        feed_forward=BALANCED_DEEPSEEK,
        defaults={"moe_layer_freq": 1, "max_position_embeddings": 4096},
    ),
    Family(
        model_types=("glm4_moe_lite",),
        architectures=("Glm4MoeLiteForCausalLM",),
        mixer=LatentAttention(),
        feed_forward=BALANCED_DEEPSEEK,
        defaults={"moe_layer_freq": 1, "max_position_embeddings": 202752},
    ),
    Family(
        model_types=("deepseek_v32",),
        architectures=("DeepseekV32ForCausalLM",),
        mixer=LatentAttention(indexer=True),
        feed_forward=BALANCED_DEEPSEEK,
        defaults={"moe_layer_freq": 1, "index_n_heads": 64, "index_head_dim": 128},
    ),
    Family(
        model_types=("glm_moe_dsa",),
        architectures=("GlmMoeDsaForCausalLM",),
        mixer=LatentAttention(indexer=True),
        feed_forward=BALANCED_DEEPSEEK,
        defaults={
            "moe_layer_freq": 1,
            "index_n_heads": 32,
            "index_head_dim": 128,
            "max_position_embeddings": 202752,
        },
    ),
    Family(
        model_types=("glm4_moe", "glm4v_moe_text"),
        architectures=("Glm4MoeForCausalLM",),
        mixer=Attention(
            bias=stated("attention_bias"), output_bias=NEVER, norm=stated("use_qk_norm")
        ),
        feed_forward=BALANCED_DEEPSEEK,
        defaults={"moe_layer_freq": 1, "max_position_embeddings": 131072},
    ),
    Family(
        model_types=("llama4_text", "llama4"),
        architectures=("Llama4ForConditionalGeneration", "Llama4ForCausalLM"),
        mixer=Attention(
            bias=stated("attention_bias"),
            windows=windows.chunked,
        ),
        feed_forward=Mixture(
            dense=Mlp(width=llama4_dense, path="feed_forward"),
            sparse=experts.interleaved,
            width=stated_width,
            shared=experts.one_shared,
            names={"gate": "router", "shared_experts": "shared_expert"},
        ),
        defaults={
            "attention_chunk_size": 8192,
            "interleave_moe_layer_step": 1,
            "no_rope_layer_interval": 4,
            "max_position_embeddings": 131072,
        },
    ),
    Family(
        model_types=("gpt_oss",),
        architectures=("GptOssForCausalLM",),
        mixer=Attention(
            bias=stated("attention_bias", default=True),
            sinks=True,
            windows=windows.one_full_in(2),
        ),
        feed_forward=Mixture(
            width=stated_width, expert_bias=True, router_bias=True, names={"gate": "router"}
        ),
        defaults={"head_dim": 64, "sliding_window": 128, "max_position_embeddings": 131072},
    ),
    Family(
        model_types=("minimax_m2",),
        architectures=("MiniMaxM2ForCausalLM",),
        mixer=Attention(norm=stated("use_qk_norm", default=True), norm_on="all heads"),
        feed_forward=Mixture(dense=BLOCK_SPARSE, width=stated_width, router_bias=True),
        defaults={"max_position_embeddings": 196608},
    ),
    Family(
        model_types=("dbrx",),
        architectures=("DbrxForCausalLM",),
        mixer=Attention(kv_heads=attention.dbrx),
        feed_forward=Mixture(dense=Mlp(path="ffn"), width=stated_width, nested="ffn_config"),
    ),
    Family(
        model_types=("ernie4_5_moe",),
        architectures=("Ernie4_5_MoeForCausalLM",),
        mixer=Attention(bias=stated("use_bias")),
        feed_forward=Mixture(
            dense=Mlp(bias=stated("use_bias")),
            sparse=experts.between,
            shared=experts.counted_shared,
            router_bias=True,
        ),
        tied=True,
        head_bias=stated("use_bias"),
        defaults={"moe_layer_interval": 1, "max_position_embeddings": 131072},
    ),
    Family(
        model_types=("granitemoe", "granitemoeshared"),
        architectures=("GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"),
        mixer=Attention(bias=stated("attention_bias")),
        feed_forward=Mixture(
            dense=BLOCK_SPARSE,
            width=stated_width,
            shared=experts.width_shared("shared_intermediate_size"),
        ),
        defaults={"shared_intermediate_size": 0},
    ),
)
