"""Decoders with a gated MLP and norms or layer patterns of their own: Gemma, Cohere, OLMo, GLM."""

from optimiser.catalogue.hf_config import windows
from optimiser.catalogue.hf_config.attention import Attention
from optimiser.catalogue.hf_config.family import Family, Norms, four_norms, one_norm
from optimiser.catalogue.hf_config.fields import Fields
from optimiser.catalogue.hf_config.mlp import Mlp
from optimiser.catalogue.hf_config.switches import ALWAYS, NEVER, stated


def after_norms(fields: Fields) -> tuple[str, ...]:
    """Norms after the attention and after the MLP (OLMo-2, Exaone-4)."""
    return ("post_attention_layernorm", "post_feedforward_layernorm")


NORMED_FAMILIES = (
    Family(
        model_types=("smollm3",),
        architectures=("SmolLM3ForCausalLM",),
        mixer=Attention(
            bias=stated("attention_bias"),
            windows=windows.optional_from_layer,
        ),
        feed_forward=Mlp(bias=stated("mlp_bias")),
        tied=True,
    ),
    Family(
        model_types=("gemma",),
        architectures=("GemmaForCausalLM",),
        mixer=Attention(bias=stated("attention_bias")),
        feed_forward=Mlp(),
        tied=True,
        defaults={"head_dim": 256, "max_position_embeddings": 8192},
    ),
    Family(
        model_types=("gemma2",),
        architectures=("Gemma2ForCausalLM",),
        mixer=Attention(
            bias=stated("attention_bias"),
            windows=windows.one_full_in(2),
        ),
        feed_forward=Mlp(),
        norms=Norms(names=four_norms),
        tied=True,
        defaults={"head_dim": 256, "sliding_window": 4096, "max_position_embeddings": 8192},
    ),
    Family(
        model_types=("gemma3_text", "gemma3"),
        architectures=("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"),
        mixer=Attention(
            bias=stated("attention_bias"),
            norm=ALWAYS,
            windows=windows.one_full_in(6),
        ),
        feed_forward=Mlp(),
        norms=Norms(names=four_norms),
        tied=True,
        defaults={
            "head_dim": 256,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "sliding_window": 4096,
            "vocab_size": 262208,
            "max_position_embeddings": 131072,
        },
        rope_extends_context=False,
    ),
    Family(
        model_types=("cohere",),
        architectures=("CohereForCausalLM",),
        mixer=Attention(
            bias=stated("attention_bias"),
            norm=stated("use_qk_norm"),
            norm_on="all heads",
        ),
        feed_forward=Mlp(),
        norms=Norms(names=one_norm),
        tied=True,
    ),
    Family(
        model_types=("cohere2",),
        architectures=("Cohere2ForCausalLM",),
        mixer=Attention(
            bias=stated("attention_bias"),
            windows=windows.one_full_in(4),
        ),
        feed_forward=Mlp(),
        norms=Norms(names=one_norm),
        tied=True,
        defaults={"sliding_window": 4096, "max_position_embeddings": 8192},
    ),
    Family(
        model_types=("olmo2", "olmo3"),
        architectures=("Olmo2ForCausalLM", "Olmo3ForCausalLM"),
        mixer=Attention(
            bias=stated("attention_bias"),
            norm=ALWAYS,
            norm_on="all heads",
            windows=windows.one_full_in(4),
        ),
        feed_forward=Mlp(),
        norms=Norms(names=after_norms),
    ),
    Family(
        model_types=("exaone4",),
        architectures=("Exaone4ForCausalLM",),
        mixer=Attention(norm=ALWAYS, windows=windows.one_full_in(4)),
        feed_forward=Mlp(),
        norms=Norms(names=after_norms),
    ),
    Family(
        model_types=("glm",),
        architectures=("GlmForCausalLM",),
        mixer=Attention(bias=stated("attention_bias", default=True), output_bias=NEVER),
        feed_forward=Mlp(),
        defaults={"head_dim": 128, "max_position_embeddings": 131072},
    ),
    Family(
        model_types=("glm4",),
        architectures=("Glm4ForCausalLM",),
        mixer=Attention(bias=stated("attention_bias", default=True), output_bias=NEVER),
        feed_forward=Mlp(),
        norms=Norms(names=four_norms),
        defaults={"head_dim": 128, "max_position_embeddings": 131072},
    ),
)
