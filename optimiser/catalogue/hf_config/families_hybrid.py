"""Decoders with layers that keep a constant state, alone or between attention layers."""

from optimiser.catalogue.hf_config import experts, interleave
from optimiser.catalogue.hf_config.attention import Attention
from optimiser.catalogue.hf_config.experts import Mixture
from optimiser.catalogue.hf_config.family import Family, Norms, one_norm
from optimiser.catalogue.hf_config.fields import Fields
from optimiser.catalogue.hf_config.interleave import Interleaved
from optimiser.catalogue.hf_config.mlp import Mlp, stated_width
from optimiser.catalogue.hf_config.part import Absent
from optimiser.catalogue.hf_config.state import GatedDeltaNet, Mamba, Mamba2, expanded, heads_wide
from optimiser.catalogue.hf_config.switches import ALWAYS, stated

QWEN_LINEAR = Interleaved(
    kinds=interleave.one_full_in_interval,
    parts={
        "state": GatedDeltaNet(),
        "full": Attention(
            bias=stated("attention_bias"),
            norm=ALWAYS,
            gate=stated("attn_output_gate", default=True),
        ),
    },
)
QWEN_EXPERTS = Mixture(
    sparse=experts.by_step,
    shared=experts.width_shared("shared_expert_intermediate_size"),
    shared_gate=True,
    names={"shared_experts": "shared_expert"},
)
QWEN_DEFAULTS = {
    "head_dim": 256,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "decoder_sparse_step": 1,
    "max_position_embeddings": 32768,
}


def granite_dense(fields: Fields) -> int:
    """The shared expert is all that a layer has where there are no routed ones."""
    return fields.whole("shared_intermediate_size")


HYBRID_FAMILIES = (
    Family(
        model_types=("mamba", "falcon_mamba"),
        architectures=("MambaForCausalLM", "FalconMambaForCausalLM"),
        mixer=Mamba(stated_width=True, path="mixer"),
        feed_forward=Absent(),
        norms=Norms(names=one_norm),
        tied=True,
    ),
    Family(
        model_types=("mamba2",),
        architectures=("Mamba2ForCausalLM",),
        mixer=Mamba2(inner=expanded, path="mixer"),
        feed_forward=Absent(),
        norms=Norms(names=one_norm),
        keys={"mamba_num_heads": ("num_heads",), "mamba_head_dim": ("head_dim",)},
    ),
    Family(
        model_types=("jamba",),
        architectures=("JambaForCausalLM",),
        mixer=Interleaved(
            kinds=interleave.periodic,
            parts={"state": Mamba(inner_norms=True), "full": Attention()},
        ),
        feed_forward=Mixture(
            dense=Mlp(path="feed_forward"),
            sparse=experts.periodic,
            width=stated_width,
            optional=True,
            names={"gate": "router"},
        ),
        defaults={"max_position_embeddings": 262144},
    ),
    Family(
        model_types=("bamba",),
        architectures=("BambaForCausalLM",),
        mixer=Interleaved(
            kinds=interleave.at_indices,
            parts={
                "state": Mamba2(inner=expanded),
                "full": Attention(bias=stated("attention_bias")),
            },
        ),
        feed_forward=Mlp(bias=stated("mlp_bias"), path="feed_forward"),
        defaults={"max_position_embeddings": 262144},
    ),
    Family(
        model_types=("granitemoehybrid",),
        architectures=("GraniteMoeHybridForCausalLM",),
        mixer=Interleaved(
            kinds=interleave.as_listed,
            parts={
                "state": Mamba2(inner=expanded),
                "full": Attention(bias=stated("attention_bias")),
            },
        ),
        feed_forward=Mixture(
            dense=Mlp(width=granite_dense, path="block_sparse_moe"),
            width=stated_width,
            shared=experts.width_shared("shared_intermediate_size"),
            optional=True,
        ),
    ),
    Family(
        model_types=("nemotron_h",),
        architectures=("NemotronHForCausalLM",),
        mixer=Interleaved(
            kinds=interleave.nemotron_pattern,
            parts={
                "state": Mamba2(inner=heads_wide, path="mixer"),
                "full": Attention(path="mixer"),
                "mlp": Mlp(gated=False, bias=stated("mlp_bias"), path="mixer"),
                "moe": Mixture(
                    dense=Mlp(gated=False, bias=stated("mlp_bias"), path="mixer"),
                    shared=experts.own_width_shared,
                    router_bias=True,
                    latent="moe_latent_size",
                ),
            },
        ),
        feed_forward=Absent(),
        norms=Norms(names=one_norm),
        keys={"use_bias": ("use_bias",)},
        defaults={"mamba_ssm_cache_dtype": "float32", "max_position_embeddings": 4096},
    ),
    Family(
        model_types=("qwen3_next", "qwen3_5_moe", "qwen3_5_moe_text"),
        architectures=(
            "Qwen3NextForCausalLM",
            "Qwen3_5MoeForCausalLM",
            "Qwen3_5MoeForConditionalGeneration",
        ),
        mixer=QWEN_LINEAR,
        feed_forward=QWEN_EXPERTS,
        defaults=QWEN_DEFAULTS,
    ),
    Family(
        model_types=("qwen3_5", "qwen3_5_text"),
        architectures=("Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"),
        mixer=QWEN_LINEAR,
        feed_forward=Mlp(),
        defaults=QWEN_DEFAULTS,
    ),
)
