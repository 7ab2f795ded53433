"""Which family a config belongs to."""

import difflib
from collections.abc import Mapping

from optimiser.catalogue.hf_config.errors import ConfigError, Problem, shortened
from optimiser.catalogue.hf_config.families_classic import CLASSIC_FAMILIES
from optimiser.catalogue.hf_config.families_dense import DENSE_FAMILIES
from optimiser.catalogue.hf_config.families_experts import EXPERT_FAMILIES
from optimiser.catalogue.hf_config.families_hybrid import HYBRID_FAMILIES
from optimiser.catalogue.hf_config.families_normed import NORMED_FAMILIES
from optimiser.catalogue.hf_config.family import Family
from optimiser.catalogue.hf_config.fields import KEYS

FAMILIES = (
    *DENSE_FAMILIES,
    *NORMED_FAMILIES,
    *CLASSIC_FAMILIES,
    *EXPERT_FAMILIES,
    *HYBRID_FAMILIES,
)

BY_MODEL_TYPE = {name: family for family in FAMILIES for name in family.model_types}
BY_ARCHITECTURE = {name: family for family in reversed(FAMILIES) for name in family.architectures}

PLACED = {key for keys in KEYS.values() for key in keys} | {
    "vocab_size",
    "sliding_window",
    "layer_types",
    "rope_scaling",
    "rope_parameters",
    "quantization_config",
    "architectures",
    "vision_config",
    "auto_map",
}
"""Fields that mean the same in every family."""

HARMLESS = ("_id", "_ids", "_index", "id2label", "label2id", "dropout", "_theta", "version")
"""Endings of keys that say nothing about sizes."""


def family_of(config: Mapping[str, object], path: str) -> tuple[Family, str]:
    """The family and the name of the architecture; raises ConfigError where it is not known.

    `model_type` decides, else the first of `architectures`; where both stand, they must agree.
    """
    model_type, listed = config.get("model_type"), config.get("architectures")
    problems = []
    if model_type is not None and not isinstance(model_type, str):
        problems.append(Problem(f"{path}model_type", shortened(model_type), "a word"))
    first = listed[0] if isinstance(listed, list | tuple) and listed else None
    if listed is not None and not isinstance(first, str):
        problems.append(Problem(f"{path}architectures", shortened(listed), "a list of class names"))
    if problems:
        raise ConfigError(problems)
    by_type = BY_MODEL_TYPE.get(str(model_type))
    by_class = BY_ARCHITECTURE.get(str(first))
    if model_type is not None and by_type is None:
        problems.append(_unknown(f"{path}model_type", str(model_type), list(BY_MODEL_TYPE)))
    known = list(BY_ARCHITECTURE) if by_type is None else list(by_type.architectures)
    if first is not None and first not in known:
        problems.append(_unknown(f"{path}architectures", str(first), known))
    family = by_type or by_class
    if family is None and not problems:
        problems.append(Problem(f"{path}model_type", "nothing", "the name of a known architecture"))
    if problems or family is None:
        raise ConfigError(problems + _unplaced(config, path))
    return family, str(first) if first is not None else family.architectures[0]


def _unknown(field: str, found: str, known: list[str]) -> Problem:
    near = difflib.get_close_matches(found[:60], known, 1)
    hint = f" (nearest: {near[0]})" if near else ""
    some = ", ".join(known) if len(known) <= 4 else f"one of {len(known)} known names"
    return Problem(field, shortened(found), some + hint)


def _unplaced(config: Mapping[str, object], path: str) -> list[Problem]:
    """The sizes that only the architecture's own entry could give a meaning to."""
    return [
        Problem(f"{path}{key}", shortened(value), "a known architecture to place it in")
        for key, value in config.items()
        if isinstance(key, str)
        and key not in PLACED
        and not key.endswith(HARMLESS)
        and isinstance(value, int | list | dict)
        and not isinstance(value, bool)
    ]
