"""A model as a catalogue file, and as counts for programs."""

from dataclasses import asdict
from typing import Any

import yaml

from optimiser.catalogue.hf_config import Shape
from optimiser.catalogue.llm import Llm
from optimiser.catalogue.provenance import Provenance

BYTES_PER_NUMBER = 2


def model_data(llm: Llm, shape: Shape, context: int | None) -> dict[str, Any]:
    """Counts and shape of a model; cache sizes at 16 bits."""
    length = context or shape.max_context
    return {
        "name": llm.name,
        "params_total": shape.params_total,
        "params_active": shape.params_active,
        "embedding_params": shape.embedding_params,
        "head_params": shape.head_params,
        "weight_bytes": llm.weight_bytes,
        "kv_bytes_per_token": shape.kv_bytes_per_token(BYTES_PER_NUMBER),
        "context": length,
        "kv_bytes_per_sequence": shape.kv_bytes_per_sequence(length, BYTES_PER_NUMBER),
        "shape": asdict(shape),
    }


def model_yaml(llm: Llm) -> str:
    """A model as a catalogue file; a source that several figures share is written once."""
    data = llm.model_dump(mode="json", exclude_unset=True, exclude={"sources"})
    data["params"] = round(llm.params)
    if llm.active_params is not None:
        data["active_params"] = round(llm.active_params)
    data["cache"] = [_without_defaults(run) for run in data.get("cache", [])]
    body = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
    lines, anchors = [], dict[Provenance, str]()
    for field, origin in llm.sources.items():
        if origin in anchors:
            lines.append(f"  {field}: *{anchors[origin]}")
            continue
        anchors[origin] = f"source{len(anchors) + 1}"
        said = _inline(origin.model_dump(mode="json", exclude_unset=True))
        lines.append(f"  {field}: &{anchors[origin]} {said}")
    return body + ("sources:\n" + "\n".join(lines) + "\n" if lines else "")


def _without_defaults(run: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in run.items() if value not in (None, 0)}


def _inline(data: dict[str, Any]) -> str:
    dumped: str = yaml.safe_dump(
        data, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000
    )
    return dumped.strip()
