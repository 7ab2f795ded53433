"""Multi-head latent attention (MLA): keys and values compressed into one vector a token."""

from dataclasses import dataclass

from optimiser.catalogue.hf_config.fields import Fields
from optimiser.catalogue.hf_config.modules import Block, Module, kept, linear
from optimiser.catalogue.hf_config.shape import CacheLayers


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Keys and values compressed into one vector a token, as in DeepSeek-V2 and later.

    The cache holds kv_lora_rank + qk_rope_head_dim numbers a layer a token, whatever
    `num_key_value_heads` says. Source: DeepSeek-V2 report, arXiv 2405.04434, section 2.1.
    """

    indexer: bool = False
    """A small scorer picks the tokens to attend to (DeepSeek-V3.2, GLM-5). It limits what is
    read, not what is cached; its own keys, kept by engines in another format, are not counted."""

    def blocks(self, fields: Fields, layers: int) -> list[Block]:
        """One block a layer; only layers with an indexer differ from those without."""
        heads = fields.whole("num_attention_heads")
        fields.optional("num_key_value_heads")
        latent, rotary = fields.whole("kv_lora_rank"), fields.whole("qk_rope_head_dim")
        plain = fields.whole("qk_nope_head_dim")
        modules = self._projections(fields, heads)
        cached = latent + rotary
        cache = CacheLayers(1, "latent", 1, cached, cached, None, 0)
        bare = Block(modules, cache, heads=heads, head_dim=plain + rotary)
        if not self.indexer:
            return [bare] * layers
        scored = Block(modules + self._indexer(fields), cache, heads=heads, head_dim=plain + rotary)
        kinds = fields.items("indexer_types", of=str, length=layers) or ["full"] * layers
        if not set(kinds) <= {"full", "shared"}:
            fields.reject("indexer_types", kinds, "layers of full, shared")
        return [bare if kind == "shared" else scored for kind in kinds]

    def _projections(self, fields: Fields, heads: int) -> tuple[Module, ...]:
        hidden = fields.whole("hidden_size")
        latent, rotary = fields.whole("kv_lora_rank"), fields.whole("qk_rope_head_dim")
        plain, value = fields.whole("qk_nope_head_dim"), fields.whole("v_head_dim")
        bias = fields.flag("attention_bias", default=False)
        query_rank = fields.optional("q_lora_rank")
        queries = heads * (plain + rotary)
        if query_rank is None:
            modules = [linear("self_attn.q_proj", "attention", hidden, queries)]
        else:
            modules = [
                linear("self_attn.q_a_proj", "attention", hidden, query_rank, bias=bias),
                kept("self_attn.q_a_layernorm", "attention", query_rank),
                linear("self_attn.q_b_proj", "attention", query_rank, queries),
            ]
        return (
            *modules,
            linear("self_attn.kv_a_proj_with_mqa", "attention", hidden, latent + rotary, bias=bias),
            kept("self_attn.kv_a_layernorm", "attention", latent),
            linear("self_attn.kv_b_proj", "attention", latent, heads * (plain + value)),
            linear("self_attn.o_proj", "attention", heads * value, hidden, bias=bias),
        )

    def _indexer(self, fields: Fields) -> tuple[Module, ...]:
        hidden, rank = fields.whole("hidden_size"), fields.whole("q_lora_rank")
        heads, width = fields.whole("index_n_heads"), fields.whole("index_head_dim")
        return (
            linear("self_attn.indexer.wq_b", "attention", rank, heads * width),
            linear("self_attn.indexer.wk", "attention", hidden, width),
            kept("self_attn.indexer.k_norm", "attention", 2 * width),
            kept("self_attn.indexer.weights_proj", "attention", hidden * heads),
        )
