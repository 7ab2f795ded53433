"""Attention blocks: multi-head, grouped and multi-query."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from optimiser.catalogue.hf_config.fields import Fields
from optimiser.catalogue.hf_config.modules import Block, Module, kept, linear
from optimiser.catalogue.hf_config.shape import CacheLayers
from optimiser.catalogue.hf_config.switches import NEVER, Switch
from optimiser.catalogue.hf_config.windows import WindowRule, full

KeyValueHeads = Callable[[Fields, int], int]
"""(config, attention heads) -> heads that keys and values have."""


def grouped(fields: Fields, heads: int) -> int:
    """As stated; a config that states none is multi-head."""
    return fields.optional("num_key_value_heads") or heads


def one_if(key: str, *, default: bool) -> KeyValueHeads:
    """Multi-query where a flag says so, else multi-head (StarCoder)."""
    return lambda fields, heads: 1 if fields.flag(key, default=default) else heads


def falcon(fields: Fields, heads: int) -> int:
    """One head for multi-query, whose stated count is to be ignored; else as stated."""
    fields.raw("num_key_value_heads")
    multi_query = fields.flag("multi_query", default=True)
    if multi_query and not fields.flag("new_decoder_architecture", default=False):
        return 1
    return grouped(fields, heads)


def chatglm(fields: Fields, heads: int) -> int:
    """`multi_query_attention` does not mean one head: a second key says how many."""
    if not fields.flag("multi_query_attention", default=False):
        return heads
    return fields.whole("multi_query_group_num")


def mpt(fields: Fields, heads: int) -> int:
    """The kind of attention is a word of the nested `attn_config`."""
    nested = fields.child("attn_config")
    if nested.flag("qk_ln", default=False):
        nested.reject("qk_ln", True, "false: query and key norms are not counted for MPT")
    kinds = ("multihead_attention", "multiquery_attention", "grouped_query_attention")
    kind = nested.word("attn_type", kinds)
    if kind == "grouped_query_attention":
        return nested.whole("kv_n_heads")
    return 1 if kind == "multiquery_attention" else heads


def dbrx(fields: Fields, heads: int) -> int:
    """Grouped, under a nested key."""
    return fields.child("attn_config").whole("kv_n_heads")


def head_dim_of(fields: Fields, heads: int) -> int:
    """The stated width of a head, else the hidden size divided by the heads."""
    stated = fields.optional("head_dim")
    if stated is not None:
        return stated
    hidden = fields.whole("hidden_size")
    if hidden % heads and fields.sound("hidden_size", "num_attention_heads", "head_dim"):
        fields.reject("head_dim", None, f"a width, since {heads} heads do not divide {hidden}")
    return max(hidden // heads, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Queries on every head, keys and values on as many or fewer."""

    kv_heads: KeyValueHeads = grouped
    windows: WindowRule = full
    bias: Switch = NEVER
    """Of all four projections."""
    output_bias: Switch | None = None
    """Of the last one, where it differs (Qwen-2)."""
    norm_on: Literal["head", "all heads"] = "head"
    """A query or key norm has the numbers of one head (Qwen-3) or of all heads (Cohere)."""
    norm: Switch = NEVER
    norm_bias: bool = False
    gate: Switch = NEVER
    """Queries bring a gate of their own width for the output (Qwen3-Next)."""
    sinks: bool = False
    """One learned logit a head (gpt-oss)."""
    path: str = "self_attn"

    def blocks(self, fields: Fields, layers: int) -> list[Block]:
        """One block a layer; layers that look equally far back share theirs."""
        heads = fields.whole("num_attention_heads")
        kv_heads = self.kv_heads(fields, heads)
        if heads % kv_heads and fields.sound("num_attention_heads", "num_key_value_heads"):
            fields.reject("num_key_value_heads", kv_heads, f"a divisor of the {heads} heads")
        head_dim = head_dim_of(fields, heads)
        modules = self.modules(fields, heads, kv_heads, head_dim)
        spans = self.windows(fields, layers)
        built = {
            span: Block(
                modules,
                CacheLayers(
                    1, span.kind, kv_heads, head_dim, 2 * kv_heads * head_dim, span.tokens, 0
                ),
                heads=heads,
                head_dim=head_dim,
            )
            for span in set(spans)
        }
        return [built[span] for span in spans]

    def modules(
        self, fields: Fields, heads: int, kv_heads: int, head_dim: int
    ) -> tuple[Module, ...]:
        """The parameters of one layer."""
        hidden = fields.whole("hidden_size")
        bias = self.bias.read(fields)
        output_bias = bias if self.output_bias is None else self.output_bias.read(fields)
        queries, keys = heads * head_dim, kv_heads * head_dim
        gated_queries = queries * (2 if self.gate.read(fields) else 1)
        modules = [
            linear(f"{self.path}.q_proj", "attention", hidden, gated_queries, bias=bias),
            linear(f"{self.path}.k_proj", "attention", hidden, keys, bias=bias),
            linear(f"{self.path}.v_proj", "attention", hidden, keys, bias=bias),
            linear(f"{self.path}.o_proj", "attention", queries, hidden, bias=output_bias),
        ]
        if self.norm.read(fields):
            numbers = 2 * head_dim if self.norm_on == "head" else queries + keys
            numbers *= 2 if self.norm_bias else 1
            modules.append(kept(f"{self.path}.qk_norm", "attention", numbers))
        if self.sinks:
            modules.append(kept(f"{self.path}.sinks", "attention", heads))
        return tuple(modules)
