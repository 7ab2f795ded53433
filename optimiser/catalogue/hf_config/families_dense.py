"""Decoders whose every layer is attention and a gated MLP.

Sources, here and in the other family tables: the configuration and modeling classes of
transformers 5.24 (parameters of each class were counted to check its entry), and the classes
published with models that it has no class for.
"""

from optimiser.catalogue.hf_config import attention, windows
from optimiser.catalogue.hf_config.attention import Attention
from optimiser.catalogue.hf_config.family import Family, Norms, no_norms
from optimiser.catalogue.hf_config.fields import Fields
from optimiser.catalogue.hf_config.mlp import Mlp, halved
from optimiser.catalogue.hf_config.searched import SearchedAttention, SearchedMlp
from optimiser.catalogue.hf_config.switches import ALWAYS, NEVER, denied, stated

QWEN_WINDOW = {"sliding_window": 4096, "max_window_layers": 28, "max_position_embeddings": 32768}


def parallel_norms(fields: Fields) -> tuple[str, ...]:
    """One norm where attention and MLP run in parallel, else two (StableLM)."""
    both = ("input_layernorm", "post_attention_layernorm")
    return both[:1] if fields.flag("use_parallel_residual", default=False) else both


DENSE_FAMILIES = (
    Family(
        model_types=("llama", "granite"),
        architectures=("LlamaForCausalLM", "LLaMAForCausalLM", "GraniteForCausalLM"),
        mixer=Attention(bias=stated("attention_bias")),
        feed_forward=Mlp(bias=stated("mlp_bias")),
    ),
    Family(
        model_types=("nemotron-nas",),
        architectures=("DeciLMForCausalLM",),
        mixer=SearchedAttention(),
        feed_forward=SearchedMlp(),
        norms=Norms(names=no_norms),
    ),
    Family(
        model_types=("baichuan",),
        architectures=("BaichuanForCausalLM", "BaiChuanForCausalLM"),
        mixer=Attention(),
        feed_forward=Mlp(),
    ),
    Family(
        model_types=("internlm2",),
        architectures=("InternLM2ForCausalLM",),
        mixer=Attention(bias=stated("bias", default=True)),
        feed_forward=Mlp(),
    ),
    Family(
        model_types=("mistral", "ministral"),
        architectures=("MistralForCausalLM", "MinistralForCausalLM"),
        mixer=Attention(windows=windows.every_layer),
        feed_forward=Mlp(),
        defaults={"sliding_window": 4096, "max_position_embeddings": 131072},
    ),
    Family(
        model_types=("ministral3",),
        architectures=("Ministral3ForCausalLM",),
        mixer=Attention(windows=windows.every_layer),
        feed_forward=Mlp(),
        defaults={"head_dim": 128, "max_position_embeddings": 262144},
    ),
    Family(
        model_types=("phi3",),
        architectures=("Phi3ForCausalLM",),
        mixer=Attention(windows=windows.every_layer),
        feed_forward=Mlp(),
        defaults={"max_position_embeddings": 4096},
    ),
    Family(
        model_types=("qwen",),
        architectures=("QWenLMHeadModel",),
        mixer=Attention(bias=ALWAYS, output_bias=denied("no_bias")),
        feed_forward=Mlp(width=halved, bias=denied("no_bias")),
    ),
    Family(
        model_types=("qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"),
        architectures=(
            "Qwen2ForCausalLM",
            "Qwen2VLForConditionalGeneration",
            "Qwen2_5_VLForConditionalGeneration",
        ),
        mixer=Attention(bias=ALWAYS, output_bias=NEVER, windows=windows.optional_from_layer),
        feed_forward=Mlp(),
        defaults=QWEN_WINDOW,
    ),
    Family(
        model_types=("qwen3", "qwen3_vl_text"),
        architectures=("Qwen3ForCausalLM",),
        mixer=Attention(
            bias=stated("attention_bias"),
            norm=ALWAYS,
            windows=windows.optional_from_layer,
        ),
        feed_forward=Mlp(),
        defaults=QWEN_WINDOW | {"head_dim": 128},
    ),
    Family(
        model_types=("hunyuan_v1_dense",),
        architectures=("HunYuanDenseV1ForCausalLM",),
        mixer=Attention(bias=stated("attention_bias"), norm=ALWAYS),
        feed_forward=Mlp(),
    ),
    Family(
        model_types=("seed_oss",),
        architectures=("SeedOssForCausalLM",),
        mixer=Attention(
            bias=stated("attention_bias", default=True),
            output_bias=stated("attention_out_bias"),
        ),
        feed_forward=Mlp(bias=stated("mlp_bias")),
        defaults={"head_dim": 128, "max_position_embeddings": 524288},
    ),
    Family(
        model_types=("ernie4_5",),
        architectures=("Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"),
        mixer=Attention(bias=stated("use_bias")),
        feed_forward=Mlp(bias=stated("use_bias")),
        tied=True,
        defaults={"head_dim": 128},
    ),
    Family(
        model_types=("stablelm",),
        architectures=("StableLmForCausalLM",),
        mixer=Attention(
            bias=stated("use_qkv_bias"),
            output_bias=NEVER,
            norm=stated("qk_layernorm"),
            norm_on="all heads",
        ),
        feed_forward=Mlp(),
        norms=Norms(names=parallel_norms, bias=ALWAYS),
        defaults={"max_position_embeddings": 4096},
    ),
    Family(
        model_types=("chatglm",),
        architectures=(
            "ChatGLMModel",
            "ChatGLMForConditionalGeneration",
            "ChatGLMForCausalLM",
        ),
        mixer=Attention(
            kv_heads=attention.chatglm,
            bias=stated("add_qkv_bias"),
            output_bias=stated("add_bias_linear"),
        ),
        feed_forward=Mlp(bias=stated("add_bias_linear")),
        keys={
            "head_dim": ("kv_channels",),
            "intermediate_size": ("ffn_hidden_size",),
            "vocab_size": ("padded_vocab_size",),
        },
    ),
)
