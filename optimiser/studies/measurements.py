"""Published measurements as deployments of the latency model: names, formats, what is usable."""

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from optimiser.catalogue.gpu import Gpu
from optimiser.catalogue.hf_config.read import shape_of
from optimiser.catalogue.hf_config.shape import Shape
from optimiser.catalogue.latency_constants import Deployment, PartFormat
from optimiser.catalogue.load import Catalogue, default_catalogue, shipped
from optimiser.engine.columns_of_shape import cache_bytes, weight_bytes
from optimiser.studies.measured_cells import fault_in, whole
from optimiser.units import MS_PER_S, bytes_of_gb, flops_of_tflops

BYTES_PER_PARAM = {"bf16": 2.0, "fp8": 1.0, "fp4": 0.5625, "int4": 0.5625, "mxfp4": 0.53125}
"""Scales included: a byte for each 16 numbers, or for each 32 in mxfp4."""

RESERVED_FRAC = 0.1
RESERVED_BYTES = 3e9
"""What engines leave alone, and what activations and graphs take, where a cache is sized."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One usable row."""

    line: int
    """Of the table, the header being 1."""
    model: str
    gpu: str
    engine: str
    precision: str
    concurrency: float
    ttft_s: float
    tpot_s: float
    tokens_per_s: float | None
    """Answer tokens of the replica."""
    at: Deployment
    slots: int
    """Sequences that the cache holds at full context, as predicted."""
    ttft_left_out: str | None
    """Why the TTFT is not compared; null where it is."""

    @property
    def group(self) -> str:
        """Rows of one model, GPU and engine stand or fall together."""
        return f"{self.model} {self.gpu} {self.engine}"

    @property
    def running(self) -> float:
        """Sequences that decode at once: the concurrency, as far as the cache holds it."""
        return min(self.concurrency, max(self.slots, 1))


class Names:
    """Resolves what tables call models and GPUs."""

    def __init__(self, folder: Path, catalogue: Catalogue) -> None:
        self._rules: dict[str, Any] = yaml.safe_load((folder / "models.yaml").read_text())
        self._configs: dict[str, Any] = json.loads((folder / "model_configs.json").read_text())
        self._catalogue = catalogue
        self._names = {name.lower(): config for name, config in self._rules["names"].items()}
        self._shapes: dict[str, Shape] = {}

    def config(self, model: str) -> str | None:
        """The entry of model_configs.json that a name stands for; null where there is none."""
        name = model.rsplit("/", 1)[-1].lower()
        suffixes = sorted((s.lower() for s in self._rules["suffixes"]), key=len, reverse=True)
        while name not in self._names:
            suffix = next((s for s in suffixes if name.endswith(s)), None)
            if suffix is None:
                return None
            name = name.removesuffix(suffix)
        return str(self._names[name])

    def shape(self, config: str) -> Shape:
        """The architecture of an entry."""
        if config not in self._shapes:
            self._shapes[config] = shape_of(self._configs[config])
        return self._shapes[config]

    def sparse_tokens(self, config: str) -> int | None:
        """Tokens that sparse-attention layers read, where the model has any."""
        value = self._configs[config].get("index_topk")
        return None if value is None else int(value)

    def gpu(self, name: str) -> Gpu | None:
        """The catalogue's GPU; null where it has none of that name."""
        known = self._rules["gpus"].get(name.lower(), name.lower())
        return self._catalogue.gpu(known) if known in self._catalogue.names("gpus") else None

    def engine(self, name: str) -> str:
        """The engine as the product spells it."""
        return str(self._rules["engines"].get(name.lower(), name.lower()))

    def fault(self, kind: str, row: Mapping[str, str]) -> str | None:
        """The reason of the fault, listed under `kind`, that a row has."""
        for fault in self._rules[kind]:
            same = all(
                row[key].lower() == str(fault[key]).lower()
                for key in ("model", "gpu", "engine")
                if key in fault
            )
            limits = [key for key in fault if key.endswith("_at_least")]
            above = all(
                float(row[key.removesuffix("_at_least")] or 0) >= fault[key] for key in limits
            )
            if same and above:
                return f"{fault['model']} on {fault['gpu']}: {fault['reason']}"
        return None

    def parts(self, config: str, precision: str, gpu: Gpu) -> dict[str, PartFormat]:
        """The format of each part that checkpoints of a precision have, on a GPU."""
        shape = self.shape(config)
        precision = self._rules["always"].get(config, precision)
        kept = {
            part
            for rule in self._rules["kept_in_16_bit"]
            if rule["precision"] == precision
            and rule.get("config", config) == config
            and (shape.experts is not None or "experts" not in rule)
            for part in rule["parts"]
        }
        stored = "mxfp4" if config.startswith("openai/") and precision == "fp4" else precision
        formats = {
            part: _format("bf16" if part in kept else stored, gpu)
            for part in ("attention", "dense", "experts")
        }
        return {**formats, "head": _format("bf16", gpu)}


def deployment(
    names: Names,
    config: str,
    gpu: Gpu,
    precision: str,
    n_gpus: int,
    lengths: tuple[float, float],
    attention_groups: int = 1,
) -> Deployment:
    """One replica of a published model; the cache is kept in 16 bits."""
    prompt, answer = lengths
    parts = names.parts(config, precision, gpu)
    peaks = {
        "fp16" if name == "bf16" else name: flops_of_tflops(rate)
        for name, rate in gpu.tflops.items()
    }
    return Deployment(
        shape=names.shape(config),
        attention=parts["attention"],
        dense=parts["dense"],
        experts=parts["experts"],
        head=parts["head"],
        cache_bytes_per_number=2.0,
        n_gpus=n_gpus,
        attention_groups=attention_groups,
        peak_bytes_per_s=bytes_of_gb(gpu.bandwidth_gb_per_s),
        peak_flops_per_s=peaks,
        link_bytes_per_s=bytes_of_gb(gpu.link_gb_per_s or 0.0),
        prompt_tokens=prompt,
        answer_tokens=answer,
        sparse_tokens=names.sparse_tokens(config),
    )


def slots(at: Deployment, memory_bytes: float) -> int:
    """Sequences that the cache holds at full context, over all attention groups."""
    spare = (1 - RESERVED_FRAC) * memory_bytes - RESERVED_BYTES - weight_bytes(at)
    per_sequence = cache_bytes(at, at.prompt_tokens + at.answer_tokens)
    return max(math.floor(spare / per_sequence * at.attention_groups), 0)


def shipped_names() -> Names:
    """Names by the tables that ship with the product."""
    return Names(shipped("models") / "measurements", default_catalogue())


def read_rows(path: Path) -> list[dict[str, str]]:
    """A table's rows as text."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def usable(
    rows: Sequence[Mapping[str, str]], names: Names
) -> tuple[list[Measured], dict[int, str]]:
    """The rows that can be compared, and why each other one, by line, cannot."""
    kept, left_out = [], {}
    for line, row in enumerate(rows, start=2):
        found = _measured(line, row, names)
        if isinstance(found, str):
            left_out[line] = found
        else:
            kept.append(found)
    return kept, left_out


def _measured(line: int, row: Mapping[str, str], names: Names) -> Measured | str:
    if not row.get("tpot_ms") or not row.get("ttft_ms"):
        return "no TTFT or TPOT measured"
    unreadable = fault_in(row)
    if unreadable is not None:
        return unreadable
    fault = names.fault("faults", row)
    config, gpu = names.config(row["model"]), names.gpu(row["gpu"])
    if fault is not None:
        return fault
    if config is None:
        return f"unknown model {row['model']}"
    if gpu is None or gpu.link_gb_per_s is None:
        return f"unknown GPU {row['gpu']}"
    concurrency = float(row["concurrency"])
    if not math.isfinite(concurrency):
        return "no finite concurrency"
    n_gpus = whole(row.get("n_gpus") or row["tp"])
    precision = _precision(row.get("precision") or "bf16")
    if precision not in BYTES_PER_PARAM:
        return f"unknown precision {row['precision']}"
    groups = min(whole(row.get("attn_dp") or "1"), n_gpus)
    lengths = (float(row["isl"]), float(row["osl"]))
    at = deployment(names, config, gpu, precision, n_gpus, lengths, groups)
    fits = slots(at, gpu.capacity_bytes)
    beyond = None if concurrency <= fits else "more sequences than the cache holds"
    tokens = row.get("out_tok_s_per_gpu")
    return Measured(
        line=line,
        model=row["model"],
        gpu=row["gpu"],
        engine=names.engine(row["engine"]),
        precision=precision,
        concurrency=concurrency,
        ttft_s=float(row["ttft_ms"]) / MS_PER_S,
        tpot_s=float(row["tpot_ms"]) / MS_PER_S,
        tokens_per_s=float(tokens) * n_gpus if tokens else None,
        at=at,
        slots=fits,
        ttft_left_out=names.fault("ttft_faults", row) or beyond,
    )


def _precision(name: str) -> str:
    known = {"unspecified": "bf16", "fp16": "bf16", "nvfp4": "fp4", "mxfp4": "fp4"}
    return known.get(name.lower(), name.lower())


def _format(precision: str, gpu: Gpu) -> PartFormat:
    bytes_per_param = BYTES_PER_PARAM[precision]
    compute = {"bf16": "fp16", "int4": "fp16", "mxfp4": "fp4"}.get(precision, precision)
    return PartFormat(bytes_per_param, compute if compute in gpu.tflops else "fp16")
