"""Whatever happens to a config, a shape with positive counts or a named error comes out."""

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from optimiser.catalogue.hf_config import ConfigError, Shape, shape_of

DATA = Path(__file__).parents[1] / "data"
CONFIGS: list[dict[str, Any]] = [
    *json.loads((DATA / "model_shapes.json").read_text()),
    *(case["config"] for case in json.loads((DATA / "transformers_counts.json").read_text())),
]
KEYS = sorted({key for config in CONFIGS for key in config} | {"text_config", "rope_scaling"})

GARBAGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 40),
    st.sampled_from([0, -1, 2**31, 2**64, 10**400, 10_000, 9_999]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["auto", "bfloat16", "M*-E", "full_attention", "re:(a*)*", "mlp"]),
    st.recursive(
        st.none() | st.integers(-2, 9) | st.text(max_size=3) | st.floats(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner),
        max_leaves=6,
    ),
)
QUANTISED = st.fixed_dictionaries(
    {},
    optional={
        "quant_method": st.sampled_from(["fp8", "awq", "gptq", "mxfp4", "compressed-tensors", "x"])
        | GARBAGE,
        "bits": GARBAGE,
        "group_size": GARBAGE,
        "weight_block_size": st.lists(st.integers(-1, 300), max_size=3) | GARBAGE,
        "modules_to_not_convert": st.lists(st.text("re:.*mlp_attn()+?[]\\", max_size=20)) | GARBAGE,
        "config_groups": st.dictionaries(st.text(max_size=3), GARBAGE, max_size=2) | GARBAGE,
        "quant_algo": GARBAGE,
    },
)


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A real config with a few keys deleted, replaced, added or nested."""
    config = dict(draw(st.sampled_from(CONFIGS)))
    for _ in range(draw(st.integers(1, 4))):
        own = draw(st.sampled_from(sorted(config)))
        change = draw(st.sampled_from(["delete", "replace", "add", "quantise", "nest", "inside"]))
        if change == "delete":
            config.pop(own)
        elif change == "replace":
            config[own] = draw(GARBAGE)
        elif change == "add":
            config[draw(st.sampled_from(KEYS))] = draw(GARBAGE)
        elif change == "quantise":
            config["quantization_config"] = draw(QUANTISED)
        elif change == "inside":
            inner = [key for key, value in config.items() if isinstance(value, dict)]
            for key in inner[:1]:
                config[key] = {**config[key], draw(st.sampled_from(KEYS)): draw(GARBAGE)}
        else:
            config = {"text_config": config, own: config[own]}
        if not config:
            break
    return config


def assert_positive(shape: Shape) -> None:
    """Every count is above zero, save heads and attention where the model has none."""
    assert min(shape.layers, shape.hidden_size, shape.vocab_size, shape.max_context) > 0
    assert 0 < shape.params_active <= shape.params_total
    assert 0 < shape.embedding_params < shape.params_total
    assert shape.head_params >= 0
    assert (shape.head_params == 0) == shape.tied_embeddings
    attends = any(run.kind != "state" for run in shape.cache)
    heads = (shape.attention_heads, shape.kv_heads, shape.head_dim, shape.attention_params)
    assert all(heads) if attends else not any(heads)
    for run in shape.cache:
        assert run.layers > 0
        assert (run.state_bytes > 0) == (run.kind == "state")
        assert (run.numbers_per_token > 0) == (run.kind != "state")
        assert run.window_tokens is None or 0 < run.window_tokens < shape.max_context
    if shape.experts is not None:
        assert 0 < shape.experts.per_token <= shape.experts.count
        assert min(shape.experts.layers, shape.experts.params_each) > 0
        assert shape.expert_ffn_size
    if shape.quantisation is not None:
        assert 0 < shape.quantisation.params < shape.params_total
    assert shape.kv_bytes_per_sequence(100_000) > 0 or not shape.cache


def assert_named(error: ConfigError) -> None:
    assert error.problems
    assert all(p.field and p.found and p.expected for p in error.problems)
    assert str(error)


@settings(max_examples=1500)
@given(mutated())
def test_only_named_errors_or_positive_shapes(config: dict[str, Any]) -> None:
    try:
        shape = shape_of(config)
    except ConfigError as error:
        assert_named(error)
    else:
        assert_positive(shape)


def test_the_configs_themselves_are_positive() -> None:
    for config in CONFIGS:
        if config["model_type"] != "nemotron-nas":
            assert_positive(shape_of(config))
