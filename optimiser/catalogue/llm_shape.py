"""An LLM of the catalogue as the architecture shape that the latency model works on."""

from optimiser.catalogue.hf_config.shape import CacheLayers as ShapeLayers
from optimiser.catalogue.hf_config.shape import Experts, Shape
from optimiser.catalogue.llm import CacheLayers, Llm


def shape_of_llm(llm: Llm, kv_heads: int) -> Shape:
    """The shape of a model whose parts are known, with its KV heads set.

    Raises ValueError for a model that tells no parts apart; cases refuse those first.
    """
    if not llm.detailed:
        raise ValueError(f"{llm.name} does not tell its parts apart")
    experts = llm.experts
    return Shape(
        architecture=llm.architecture or llm.name,
        layers=llm.layers,
        hidden_size=llm.hidden_size or 0,
        attention_heads=llm.attention_heads,
        kv_heads=kv_heads,
        head_dim=llm.head_dim,
        ffn_size=llm.ffn_size or 0,
        expert_ffn_size=llm.expert_ffn_size,
        vocab_size=llm.vocab_size or 0,
        max_context=llm.max_context or 0,
        tied_embeddings=not llm.head_params,
        dtype="bfloat16",
        params_total=round(llm.params),
        params_active=round(llm.active_params or llm.params),
        embedding_params=llm.embedding_params or 0,
        head_params=llm.head_params or 0,
        attention_params=llm.attention_params or 0,
        cache=tuple(_layers(run, llm, kv_heads) for run in llm.cache_layers),
        experts=None
        if experts is None
        else Experts(experts.layers, experts.count, experts.per_token, experts.params_each),
        quantisation=None,
    )


def _layers(run: CacheLayers, llm: Llm, kv_heads: int) -> ShapeLayers:
    heads, numbers = run.kv_heads, run.numbers_per_token
    if run.kind not in ("latent", "state"):
        heads = max(1, run.kv_heads * kv_heads // llm.kv_heads)
        numbers = run.numbers_per_token * heads // run.kv_heads
    return ShapeLayers(
        layers=run.layers,
        kind=run.kind,
        kv_heads=heads,
        head_dim=run.head_dim,
        numbers_per_token=numbers,
        window_tokens=run.window_tokens,
        state_bytes=run.state_bytes,
    )
