"""Constants as they are written: engines, one file a GPU family, kernel sums."""

from collections.abc import Mapping
from typing import Any

from calibration.gpus import (
    BORROWED_DEVIATION,
    END_TO_END_GPUS,
    FAMILIES,
    KERNEL_GPUS,
    RELATIVES,
    UNKNOWN_DEVIATION,
)
from calibration.parameters import (
    AT_MOST_ONE,
    ENGINES,
    FACTORED,
    ONLY_IN_KERNEL_SUMS,
    family,
)
from optimiser.catalogue.load import default_catalogue

AS_OF = "2026-04"
"""Of the newest measurement."""
END_TO_END_SOURCE = "end-to-end runs of public serving benchmarks (models/measurements/e2e.csv)"
KERNEL_SOURCE = "kernel timings summed to steps (models/measurements/{}_steps.csv)"

Document = dict[str, Any]


def engines_file(values: Mapping[str, float], spread: Mapping[str, float]) -> Document:
    """What all GPUs share, and what each engine adds."""
    shared = {name: value for name, value in values.items() if " " not in name}
    engines: Document = {engine: {} for engine in ENGINES}
    factors: Document = {engine: {} for engine in ENGINES}
    for name, value in values.items():
        plain, _, whose = name.partition(" ")
        if whose in ENGINES:
            engines[whose][plain] = value
            factors[whose][plain] = spread[name]
    for engine in ENGINES:
        engines[engine].setdefault("grouped_wait_steps", 0.0)
    return {
        "source": END_TO_END_SOURCE,
        "as_of": AS_OF,
        "factors_apply_to": {name: list(whose) for name, whose in FACTORED.items()},
        "at_most_one": list(AT_MOST_ONE),
        "shared": {**shared, **ONLY_IN_KERNEL_SUMS},
        "shared_deviation": {name: spread[name] for name in shared},
        "engines": engines,
        "engines_deviation": factors,
    }


def family_files(
    values: Mapping[str, float], spread: Mapping[str, float], kernels: Mapping[str, Document]
) -> dict[str, Document]:
    """A file for each family: the constants of its GPUs, their own or a relative's."""
    own = {gpu: _end_to_end_gpu(gpu, values, spread) for gpu in END_TO_END_GPUS}
    hopper = values["flop_frac.fp8 hopper"] / values["flop_frac.fp16 hopper"]
    for gpu, name in KERNEL_GPUS.items():
        own[gpu] = _kernel_gpu(gpu, kernels[name], hopper)
    files = {}
    for name, gpus in FAMILIES.items():
        entries = {gpu: own[gpu] if gpu in own else _borrowed(gpu, own) for gpu in gpus}
        files[f"{name}.yaml"] = {"as_of": AS_OF, "gpus": entries}
    missing = set(default_catalogue().names("gpus")) - {g for f in FAMILIES.values() for g in f}
    if missing:
        raise LookupError(f"no constants for {', '.join(sorted(missing))}: add to gpus.py")
    return files


def _end_to_end_gpu(gpu: str, values: Mapping[str, float], spread: Mapping[str, float]) -> Document:
    whose = family(gpu)

    def pick(found: Mapping[str, float]) -> Document:
        named = {
            name.partition(" ")[0]: value
            for name, value in found.items()
            if name.partition(" ")[2] in (gpu, whose)
        }
        flops = {n.partition(".")[2]: v for n, v in named.items() if n.startswith("flop_frac.")}
        return {
            "weight_bandwidth_frac": named["weight_bandwidth_frac"],
            "flop_frac": _formats(gpu, flops),
            "link_bandwidth_frac": named["link_bandwidth_frac"],
        }

    return {
        "source": END_TO_END_SOURCE,
        "estimated": False,
        "constants": pick(values),
        "deviation": pick(spread),
    }


def _kernel_gpu(gpu: str, found: Document, fp8_of_fp16: float) -> Document:
    known = default_catalogue().gpu(gpu).tflops

    def pick(kernel: Mapping[str, float], ratio: float) -> Document:
        fp16 = kernel["flop_frac.fp16"]
        fp8 = kernel["flop_frac.fp8"] if "fp8" in known else fp16 * ratio
        return {
            "weight_bandwidth_frac": kernel["weight_bandwidth_frac"],
            "flop_frac": _formats(gpu, {"fp16": fp16, "fp8": fp8}),
            "unhidden_frac": kernel["unhidden_frac"],
            "link_bandwidth_frac": kernel["link_bandwidth_frac"],
        }

    return {
        "source": KERNEL_SOURCE.format("aic")
        + ("" if found["has_links"] else "; one GPU only, so the link is a guess")
        + "; floors and cache as in the end-to-end runs of other GPUs",
        "estimated": False,
        "constants": pick(found["constants"], fp8_of_fp16),
        "deviation": {
            **pick(found["deviation"], 1.0),
            "link_bandwidth_frac": found["deviation"]["link_bandwidth_frac"]
            if found["has_links"]
            else UNKNOWN_DEVIATION,
        },
    }


def _borrowed(gpu: str, own: Mapping[str, Document]) -> Document:
    relative = RELATIVES[gpu]
    theirs = own[relative]
    wider = {
        name: {k: max(v, BORROWED_DEVIATION) for k, v in value.items()}
        if isinstance(value, dict)
        else max(value, BORROWED_DEVIATION)
        for name, value in theirs["deviation"].items()
    }
    flops = theirs["constants"]["flop_frac"]
    wide = {fmt: wider["flop_frac"].get(fmt, BORROWED_DEVIATION) for fmt in _formats(gpu, flops)}
    return {
        "source": f"not measured; taken from {relative}",
        "estimated": True,
        "borrowed_from": relative,
        "constants": {**theirs["constants"], "flop_frac": _formats(gpu, flops)},
        "deviation": {**wider, "flop_frac": wide},
    }


def _formats(gpu: str, known: Mapping[str, float]) -> dict[str, float]:
    """A fraction for every format that the GPU computes: its own, else the nearest format's."""
    nearest = {
        "fp16": ("fp16",),
        "fp32": ("fp16",),
        "fp8": ("fp8", "fp16"),
        "int8": ("int8", "fp8", "fp16"),
        "fp4": ("fp4", "fp8", "fp16"),
    }
    listed = ["fp16" if name == "bf16" else name for name in default_catalogue().gpu(gpu).tflops]
    return {
        name: next(known[near] for near in nearest[name] if near in known)
        for name in sorted({"fp16", *listed})
    }


def kernel_file(found: Mapping[str, Document], source: str) -> Document:
    """Constants of kernel sums, by GPU."""
    return {
        "source": KERNEL_SOURCE.format(source),
        "as_of": AS_OF,
        "gpus": {
            gpu: {key: entry[key] for key in ("constants", "deviation")}
            for gpu, entry in found.items()
        },
    }
