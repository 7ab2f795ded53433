"""Every number of every schema names its unit, or is one of the exceptions listed here."""

import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

import pytest

from optimiser.case import Case
from optimiser.catalogue.offer import Offer
from optimiser.schema import Schema

UNITS = ("_s", "_ms", "_bytes", "_gb", "_gb_per_s", "_per_s", "_usd", "_frac", "_tokens", "_gpus")
EXCEPTIONS = {
    "Brief.concurrent_users": "a count of users",
    "Hardware.usd_per_gpu_hour": "its unit is its name",
    "Gpu.usd_per_hour": "its unit is its name",
    "Limits.usd_per_hour": "its unit is its name",
    "Offer.usd_per_hour": "its unit is its name",
    "Offer.spot_usd_per_hour": "its unit is its name",
    "Gpu.tflops": "its unit is its name: TFLOP/s by format",
    "Gpu.gpus_per_node": "a count of GPUs",
    "Offer.gpus_per_instance": "a count of GPUs",
    "Llm.params": "a count of parameters",
    "Llm.layers": "a count of layers",
    "Llm.attention_heads": "a count of heads",
    "Llm.kv_heads": "a count of heads",
    "Llm.head_dim": "a count of numbers",
    "Llm.active_params": "a count of parameters",
    "Llm.embedding_params": "a count of parameters",
    "Llm.head_params": "a count of parameters",
    "Llm.attention_params": "a count of parameters",
    "Llm.hidden_size": "a count of numbers",
    "Llm.ffn_size": "a count of numbers",
    "Llm.expert_ffn_size": "a count of numbers",
    "Llm.vocab_size": "a count of tokens",
    "Llm.max_context": "a count of tokens",
    "CacheLayers.layers": "a count of layers",
    "CacheLayers.kv_heads": "a count of heads",
    "CacheLayers.head_dim": "a count of numbers",
    "CacheLayers.numbers_per_token": "a count of numbers",
    "Experts.layers": "a count of layers",
    "Experts.count": "a count of experts",
    "Experts.per_token": "a count of experts",
    "Experts.params_each": "a count of parameters",
    "Stored.params": "a count of parameters",
    "Stored.block": "a count of weights",
    "Levers.kv_heads": "a count of heads",
    "Levers.tensor_parallel": "a count of GPUs, by its name in the field",
    "Batch.most": "a count of sequences",
    "Assumptions.efficiency": "the page's name of a fraction",
    "Assumptions.headroom": "the page's name of a ratio",
    "Assumptions.memory_reserve": "the page's name of a fraction",
    "Assumptions.memory_utilization": "the engines' name of a fraction",
    "Assumptions.slo_margin": "the field's name of a fraction",
    "Limits.least_replicas": "a count of replicas",
}


def inner_types(annotation: Any) -> Iterator[Any]:
    """Every type inside an annotation."""
    if get_origin(annotation) is Literal:
        return
    if get_origin(annotation) in (Union, types.UnionType) or get_args(annotation):
        for argument in get_args(annotation):
            yield from inner_types(argument)
    else:
        yield annotation


def schemas(root: type[Schema]) -> set[type[Schema]]:
    found = {root}
    for field in root.model_fields.values():
        for inner in inner_types(field.annotation):
            if isinstance(inner, type) and issubclass(inner, Schema) and inner not in found:
                found |= schemas(inner)
    return found


def numbers() -> dict[str, str]:
    return {
        f"{schema.__name__}.{name}": name
        for root in (Case, Offer)
        for schema in schemas(root)
        for name, field in schema.model_fields.items()
        if any(inner in (int, float) for inner in inner_types(field.annotation))
    }


def test_every_number_has_a_unit_or_a_reason() -> None:
    unnamed = {full for full, name in numbers().items() if not name.endswith(UNITS)}
    assert unnamed == set(EXCEPTIONS)


def test_the_walk_finds_the_schemas() -> None:
    names = {schema.__name__ for root in (Case, Offer) for schema in schemas(root)}
    assert names == {
        *("Case", "Brief", "Hardware", "Levers", "Batch", "Assumptions", "Limits"),
        *("Llm", "CacheLayers", "Experts", "Stored", "Gpu", "Offer", "Offers", "Provenance"),
    }
    assert len(numbers()) > 25


@pytest.mark.parametrize("schema", sorted(schemas(Case) | schemas(Offer), key=lambda s: s.__name__))
def test_every_schema_is_closed_frozen_strict_and_explained(schema: type[Schema]) -> None:
    config = schema.model_config
    assert (config["extra"], config["frozen"], config["strict"]) == ("forbid", True, True)
    assert schema.__doc__
    for name, field in schema.model_fields.items():
        assert field.description, f"{schema.__name__}.{name}"
        assert not name.endswith("_pct")
