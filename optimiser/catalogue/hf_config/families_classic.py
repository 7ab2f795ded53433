"""Decoders of the first years: an MLP without a gate, biases, often learned positions."""

from optimiser.catalogue.hf_config import attention
from optimiser.catalogue.hf_config.attention import Attention
from optimiser.catalogue.hf_config.family import Family, Norms, no_norms, one_norm
from optimiser.catalogue.hf_config.fields import Fields
from optimiser.catalogue.hf_config.mlp import Mlp, expanded, four_times_hidden
from optimiser.catalogue.hf_config.switches import ALWAYS, NEVER, denied, stated
from optimiser.catalogue.hf_config.windows import every_layer


def learned_positions(fields: Fields) -> int:
    """A learned row for each position."""
    return fields.whole("max_position_embeddings")


def learned_positions_and_two(fields: Fields) -> int:
    """A learned row for each position and two of padding (OPT)."""
    return fields.whole("max_position_embeddings") + 2


def mpt_positions(fields: Fields) -> int:
    """Learned unless the nested `attn_config` has linear-bias or rotary positions."""
    nested = fields.child("attn_config")
    others = nested.flag("alibi", default=True) or nested.flag("rope", default=False)
    learned = fields.flag("learned_pos_emb", default=True)
    return fields.whole("max_seq_len") if learned and not others else 0


def falcon_norms(fields: Fields) -> tuple[str, ...]:
    """The new decoder has one or two norms before its parallel halves, the old parallel one one."""
    if fields.flag("new_decoder_architecture", default=False):
        single = fields.optional("num_ln_in_parallel_attn", most=2) == 1
        return ("input_layernorm",) if single else ("ln_attn", "ln_mlp")
    parallel = fields.flag("parallel_attn", default=True)
    return ("input_layernorm",) if parallel else ("input_layernorm", "post_attention_layernorm")


def falcon(
    model_types: tuple[str, ...], architectures: tuple[str, ...], *, new_decoder: bool
) -> Family:
    """Falcon under its first names, where the model type says which decoder it is, and its last."""
    return Family(
        model_types=model_types,
        architectures=architectures,
        mixer=Attention(kv_heads=attention.falcon, bias=stated("bias")),
        feed_forward=Mlp(gated=False, width=four_times_hidden, bias=stated("bias")),
        norms=Norms(names=falcon_norms, bias=ALWAYS),
        tied=True,
        defaults={"new_decoder_architecture": new_decoder},
    )


CLASSIC_FAMILIES = (
    falcon(
        ("falcon", "RefinedWebModel"), ("FalconForCausalLM", "RWForCausalLM"), new_decoder=False
    ),
    falcon(("RefinedWeb",), ("RWForCausalLM", "FalconForCausalLM"), new_decoder=True),
    Family(
        model_types=("gpt2",),
        architectures=("GPT2LMHeadModel",),
        mixer=Attention(bias=ALWAYS),
        feed_forward=Mlp(gated=False, width=four_times_hidden, bias=ALWAYS),
        norms=Norms(bias=ALWAYS),
        positions=learned_positions,
        tied=True,
    ),
    Family(
        model_types=("gpt_bigcode",),
        architectures=("GPTBigCodeForCausalLM",),
        mixer=Attention(
            kv_heads=attention.one_if("multi_query", default=True),
            bias=ALWAYS,
        ),
        feed_forward=Mlp(gated=False, width=four_times_hidden, bias=ALWAYS),
        norms=Norms(bias=ALWAYS),
        positions=learned_positions,
        tied=True,
    ),
    Family(
        model_types=("starcoder2",),
        architectures=("Starcoder2ForCausalLM",),
        mixer=Attention(
            bias=stated("use_bias", default=True),
            windows=every_layer,
        ),
        feed_forward=Mlp(gated=False, bias=stated("use_bias", default=True)),
        norms=Norms(bias=ALWAYS),
        tied=True,
        defaults={"max_position_embeddings": 4096},
    ),
    Family(
        model_types=("gptj", "codegen"),
        architectures=("GPTJForCausalLM", "CodeGenForCausalLM"),
        mixer=Attention(),
        feed_forward=Mlp(gated=False, width=four_times_hidden, bias=ALWAYS),
        norms=Norms(names=one_norm, bias=ALWAYS),
        head_bias=ALWAYS,
    ),
    Family(
        model_types=("gpt_neox",),
        architectures=("GPTNeoXForCausalLM",),
        mixer=Attention(
            bias=stated("attention_bias", default=True),
        ),
        feed_forward=Mlp(gated=False, bias=ALWAYS),
        norms=Norms(bias=ALWAYS),
    ),
    Family(
        model_types=("opt",),
        architectures=("OPTForCausalLM",),
        mixer=Attention(
            bias=stated("enable_bias", default=True),
        ),
        feed_forward=Mlp(gated=False, bias=stated("enable_bias", default=True)),
        norms=Norms(bias=ALWAYS, final=stated("do_layer_norm_before", default=True)),
        positions=learned_positions_and_two,
        tied=True,
        embedding_width="word_embed_proj_dim",
    ),
    Family(
        model_types=("bloom",),
        architectures=("BloomForCausalLM",),
        mixer=Attention(bias=ALWAYS),
        feed_forward=Mlp(gated=False, width=four_times_hidden, bias=ALWAYS),
        norms=Norms(bias=ALWAYS, embedding=True),
        tied=True,
    ),
    Family(
        model_types=("mpt",),
        architectures=("MPTForCausalLM", "MptForCausalLM"),
        mixer=Attention(kv_heads=attention.mpt, bias=denied("no_bias")),
        feed_forward=Mlp(gated=False, width=expanded, bias=denied("no_bias")),
        norms=Norms(bias=denied("no_bias")),
        positions=mpt_positions,
        tied=True,
    ),
    Family(
        model_types=("phi",),
        architectures=("PhiForCausalLM",),
        mixer=Attention(bias=ALWAYS, norm=stated("qk_layernorm"), norm_bias=True),
        feed_forward=Mlp(gated=False, bias=ALWAYS),
        norms=Norms(names=one_norm, bias=ALWAYS),
        head_bias=ALWAYS,
    ),
    Family(
        model_types=("nemotron",),
        architectures=("NemotronForCausalLM",),
        mixer=Attention(bias=stated("attention_bias")),
        feed_forward=Mlp(gated=False, bias=stated("mlp_bias")),
        norms=Norms(bias=ALWAYS),
        defaults={"max_position_embeddings": 4096},
    ),
    Family(
        model_types=("olmo",),
        architectures=("OlmoForCausalLM",),
        mixer=Attention(bias=stated("attention_bias")),
        feed_forward=Mlp(),
        norms=Norms(names=no_norms, final=NEVER),
    ),
)
