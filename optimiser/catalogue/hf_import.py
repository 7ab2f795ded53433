"""A Hugging Face config.json as an LLM of the catalogue."""

from dataclasses import asdict
from pathlib import Path

from pydantic import ValidationError

from optimiser.catalogue.hf_config import ConfigError, Shape, read_config, stored_weight_bytes
from optimiser.catalogue.llm import CacheLayers, Experts, Llm, Stored
from optimiser.catalogue.provenance import Provenance
from optimiser.errors import CatalogueError, Mistake
from optimiser.schema import mistakes

LARGEST_CONFIG_BYTES = 5_000_000


def shape_at(path: Path) -> Shape:
    """The shape that a config.json describes. Raises CatalogueError with every problem at once."""
    if path.is_dir():
        path = path / "config.json"
    try:
        if path.stat().st_size > LARGEST_CONFIG_BYTES:
            message = f"more than {LARGEST_CONFIG_BYTES:,} bytes, a config.json was expected"
            raise CatalogueError([Mistake(str(path), "", message)])
        return read_config(path)
    except ConfigError as error:
        raise _as_catalogue_error(path, error) from error
    except OSError as error:
        raise CatalogueError([Mistake(str(path), "", f"{error.strerror}".lower())]) from error


def llm_of_config(path: Path, name: str | None = None, as_of: str | None = None) -> Llm:
    """The LLM that a config.json describes, with exact weight bytes where its index is beside it.

    It is named after its folder if no name is given. Raises CatalogueError.
    """
    shape = shape_at(path)
    folder = path if path.is_dir() else path.parent
    try:
        weight_bytes = stored_weight_bytes(folder)
    except ConfigError as error:
        raise _as_catalogue_error(folder, error) from error
    return llm_of_shape(shape, name or folder.resolve().name, str(path), as_of, weight_bytes)


def llm_of_shape(
    shape: Shape, name: str, source: str, as_of: str | None, weight_bytes: int | None = None
) -> Llm:
    """A shape as an LLM, each figure with its source where a date is given."""
    fields = {
        "name": name,
        "architecture": shape.architecture,
        "params": float(shape.params_total),
        "active_params": float(shape.params_active),
        "embedding_params": shape.embedding_params,
        "head_params": shape.head_params,
        "attention_params": shape.attention_params,
        "layers": shape.layers,
        "hidden_size": shape.hidden_size,
        "attention_heads": shape.attention_heads,
        "kv_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "ffn_size": shape.ffn_size,
        "expert_ffn_size": shape.expert_ffn_size,
        "vocab_size": shape.vocab_size,
        "max_context": shape.max_context,
        "cache": tuple(CacheLayers(**asdict(run)) for run in shape.cache),
        "weight_bytes": weight_bytes,
    }
    if shape.experts is not None:
        fields["experts"] = Experts(**asdict(shape.experts))
    if shape.quantisation is not None:
        stored = shape.quantisation
        fields["stored"] = Stored(format=stored.format, params=stored.params, block=stored.block)
    given = {key: value for key, value in fields.items() if value is not None}
    if as_of is not None:
        figures = [key for key in given if key not in ("name", "architecture")]
        provenance = Provenance(source=source, as_of=as_of)
        given["sources"] = dict.fromkeys(figures, provenance)
    try:
        return Llm.model_validate(given)
    except ValidationError as error:
        raise CatalogueError(mistakes(Llm, error, lambda _: source)) from error


def _as_catalogue_error(path: Path, error: ConfigError) -> CatalogueError:
    return CatalogueError(
        Mistake(
            str(path),
            _field(path, problem.field),
            f"found {problem.found}, expected {problem.expected}",
        )
        for problem in error.problems
    )


def _field(path: Path, field: str) -> str:
    """The field, unless the reader named the file itself."""
    return "" if field in (str(path), path.name) else field
