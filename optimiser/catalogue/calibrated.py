"""Reads the fitted constants of a GPU and an engine from `models/calibration`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from optimiser.catalogue.latency_constants import LatencyConstants
from optimiser.errors import CatalogueError, Mistake
from optimiser.names import nearest
from optimiser.yaml_io import read

NOT_FAMILIES = ("engines", "accuracy", "error-bars")


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Constants, and what they rest on."""

    constants: LatencyConstants
    source: str
    as_of: str
    estimated: bool
    """Whether the GPU has no measurements and the constants are a relative's."""
    borrowed_from: str | None
    deviation: Mapping[str, float]
    """Multiplicative standard deviation of each of the GPU's own constants."""


@lru_cache(maxsize=512)
def calibrated(folder: Path, gpu: str, engine: str) -> Calibrated:
    """The constants of a GPU under an engine. Raises CatalogueError where either is unknown."""
    shared, entry, as_of = _read(folder / "engines.yaml"), *_gpu(folder, gpu)
    engines = shared["engines"]
    if engine not in engines:
        raise CatalogueError([_unknown("serving engine", engine, tuple(engines))])
    values = {**shared["shared"], **engines[engine], **entry["constants"]}
    flops = dict(values.pop("flop_frac"))
    for factor, names in shared["factors_apply_to"].items():
        by = values.pop(factor)
        for name in names:
            if name in values:
                values[name] *= by
        if any(name.startswith("flop_frac.") for name in names):
            flops = {name: value * by for name, value in flops.items()}
    for name in shared["at_most_one"]:
        values[name] = min(values[name], 1.0)
    deviation = {
        f"{name}.{part}" if part else name: float(value)
        for name, found in entry["deviation"].items()
        for part, value in (found.items() if isinstance(found, dict) else (("", found),))
    }
    return Calibrated(
        constants=LatencyConstants(flop_frac=flops, **{k: float(v) for k, v in values.items()}),
        source=entry["source"],
        as_of=as_of,
        estimated=entry["estimated"],
        borrowed_from=entry.get("borrowed_from"),
        deviation=deviation,
    )


def _gpu(folder: Path, gpu: str) -> tuple[dict[str, Any], str]:
    known: list[str] = []
    for path in sorted(folder.glob("*.yaml")):
        if path.stem in NOT_FAMILIES or path.stem.startswith("kernels-"):
            continue
        document = _read(path)
        if gpu in document["gpus"]:
            return document["gpus"][gpu], str(document["as_of"])
        known += document["gpus"]
    raise CatalogueError([_unknown("GPU", gpu, tuple(known))])


def _unknown(what: str, name: str, known: tuple[str, ...]) -> Mistake:
    return Mistake("", "", f"no latency constants for the {what} {name!r}", nearest(name, known))


@lru_cache(maxsize=64)
def _read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = read(path).data
    return document
