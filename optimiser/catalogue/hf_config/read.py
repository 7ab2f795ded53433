"""Reading: a config.json, a parsed config, and the weight index beside it."""

import json
from collections.abc import Mapping
from pathlib import Path

from optimiser.catalogue.hf_config.count import shape_in
from optimiser.catalogue.hf_config.errors import ConfigError, Problem, shortened
from optimiser.catalogue.hf_config.families import family_of
from optimiser.catalogue.hf_config.fields import Fields
from optimiser.catalogue.hf_config.quantisation import QUANTISATION_KEYS
from optimiser.catalogue.hf_config.shape import Shape

LANGUAGE_KEYS = ("text_config", "llm_config", "language_config")
"""Where multimodal wrappers put the config of their language model."""

WRAPPER_KEYS = (
    ("tie_word_embeddings",),
    ("torch_dtype", "dtype"),
    ("quantization_config", "compression_config"),
    ("model_type",),
)
"""What the language model takes from its wrapper where it says nothing itself."""

WEIGHT_INDEX = "model.safetensors.index.json"


def read_config(path: Path) -> Shape:
    """The shape that a config.json describes; raises ConfigError."""
    return shape_of(_json_object(path))


def shape_of(config: Mapping[str, object]) -> Shape:
    """The shape that a parsed config describes; raises ConfigError with every problem found."""
    if not isinstance(config, Mapping):
        raise ConfigError([Problem("config", shortened(config), "an object")])
    try:
        return _shape_of(config)
    except RecursionError as error:
        raise ConfigError([Problem("config", "a deep nest", "a few levels at most")]) from error


def _shape_of(config: Mapping[str, object]) -> Shape:
    language, path = _language_model(config)
    family, architecture = family_of(language, path)
    listed = config.get("architectures")
    if path and not language.get("architectures") and isinstance(listed, list) and listed:
        architecture = str(listed[0])
    keys = {**QUANTISATION_KEYS, **family.keys}
    fields = Fields(language, path, keys=keys, defaults=family.defaults)
    _note_two_minds(fields, config, language)
    return shape_in(fields, family, architecture)


def stored_weight_bytes(folder: Path) -> int | None:
    """Bytes of all tensors as the weight index beside a config states them; null without one.

    Raises ConfigError where the index is there but does not say.
    """
    path = folder / WEIGHT_INDEX
    if not path.exists():
        return None
    metadata = _json_object(path).get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if isinstance(size, bool) or not isinstance(size, int) or not 0 < size < 2**63:
        place = f"{WEIGHT_INDEX}: metadata.total_size"
        raise ConfigError([Problem(place, shortened(size), "a whole number of bytes above 0")])
    return size


def _language_model(config: Mapping[str, object]) -> tuple[Mapping[str, object], str]:
    """The part that describes the language model, and the path to it."""
    for key in LANGUAGE_KEYS:
        nested = config.get(key)
        if nested is None:
            continue
        if not isinstance(nested, Mapping):
            raise ConfigError([Problem(key, shortened(nested), "an object")])
        shared = {
            name: config[name]
            for names in WRAPPER_KEYS
            for name in names
            if config.get(name) is not None and all(nested.get(other) is None for other in names)
        }
        return {**nested, **shared}, f"{key}."
    return config, ""


def _note_two_minds(
    fields: Fields, config: Mapping[str, object], language: Mapping[str, object]
) -> None:
    """Wrapper and language model may both say whether the head is tied, and must agree."""
    outer, inner = config.get("tie_word_embeddings"), language.get("tie_word_embeddings")
    if isinstance(outer, bool) and isinstance(inner, bool) and outer != inner:
        found = f"{shortened(outer)} outside, {shortened(inner)} inside"
        fields.note(Problem("tie_word_embeddings", found, "the same inside and outside"))


def _json_object(path: Path) -> Mapping[str, object]:
    try:
        value: object = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError([Problem(str(path), reason, "a file that can be read")]) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError([Problem(str(path), "no JSON", f"a JSON object ({error})")]) from error
    if not isinstance(value, dict):
        raise ConfigError([Problem(str(path), shortened(value), "a JSON object")])
    return value
