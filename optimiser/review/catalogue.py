"""The catalogue as tables: every entry of a kind, or one with the source of each figure."""

from typing import Any

from optimiser.catalogue.gpu import Gpu
from optimiser.catalogue.llm import Llm
from optimiser.catalogue.load import Catalogue
from optimiser.catalogue.offer import Offer
from optimiser.review.numbers import count, plain, rounded, usd
from optimiser.review.review import Review, Table
from optimiser.units import gib

TEXT_COLUMNS = {"gpus": (0, 5), "models": (0,), "offers": (0, 1)}
KINDS = {"gpus": "GPU", "models": "model", "offers": "offer"}


def list_review(known: Catalogue, kind: str) -> Review:
    """Every entry of a kind, a row each."""
    entries = [_entry(known, kind, name) for name in known.names(_folder(kind))]
    columns = {
        "gpus": ("name", "memory", "bandwidth", "fp16", "fp8", "link"),
        "models": ("name", "parameters", "active", "layers", "heads", "KV heads", "context"),
        "offers": ("name", "GPU", "GPUs", "on demand", "spot", "as of"),
    }[kind]
    rows = tuple(_row(entry) for entry in entries)
    return Review(
        title=f"Catalogue: {count(len(rows), KINDS[kind])}",
        headline=f"show one with its sources: optimise catalogue {kind} NAME",
        good=True,
        steps=(),
        tables=(Table(kind, columns, rows, text=TEXT_COLUMNS[kind]),),
        closing=(),
        notes=(),
        data={kind: [_data(entry) for entry in entries]},
    )


def entry_review(known: Catalogue, kind: str, name: str) -> Review:
    """One entry, each figure with its source and date."""
    entry = _entry(known, kind, name)
    data = _data(entry)
    sources = data.pop("sources", {})
    rows, notes = [], list[str]()
    for field, value in data.items():
        origin = sources.get(field)
        if origin and (said := _origin(origin)) not in notes:
            notes.append(said)
        mark = f"[{notes.index(_origin(origin)) + 1}]" if origin else ""
        parts = value if isinstance(value, list) else [value]
        rows += [(field, _shown(part), mark) for part in parts]
    return Review(
        title=f"{KINDS[kind]} {name}",
        headline=str(known.where(_folder(kind), name)),
        good=True,
        steps=(),
        tables=(Table("Figures", ("", "value", "source"), tuple(rows), text=(0, 1, 2)),),
        closing=tuple(f"[{i}] {note}" for i, note in enumerate(notes, 1)),
        notes=(),
        data=_data(entry),
    )


def _origin(origin: dict[str, Any]) -> str:
    sure = f" ({origin['confidence']} confidence)" if "confidence" in origin else ""
    return f"{origin['source']}, {origin['as_of']}{sure}"


def _folder(kind: str) -> str:
    return "llms" if kind == "models" else kind


def _entry(known: Catalogue, kind: str, name: str) -> Gpu | Llm | Offer:
    if kind == "gpus":
        return known.gpu(name)
    return known.llm(name) if kind == "models" else known.offer(name)


def _data(entry: Gpu | Llm | Offer) -> dict[str, Any]:
    return entry.model_dump(mode="json", exclude_unset=True)


def _row(entry: Gpu | Llm | Offer) -> tuple[str, ...]:
    if isinstance(entry, Gpu):
        rates = entry.tflops
        return (
            entry.name,
            f"{gib(entry.capacity_bytes):.2f} GiB",
            f"{plain(entry.bandwidth_gb_per_s)} GB/s",
            *(f"{plain(rates[key])} TFLOP/s" if key in rates else "-" for key in ("fp16", "fp8")),
            entry.link or "-",
        )
    if isinstance(entry, Llm):
        active = entry.active_params or entry.params
        return (
            entry.name,
            f"{rounded(entry.params / 1e9, 4)}B",
            f"{rounded(active / 1e9, 4)}B",
            str(entry.layers),
            str(entry.attention_heads),
            str(entry.kv_heads),
            f"{entry.max_context:,}" if entry.max_context else "-",
        )
    return (
        entry.name,
        entry.gpu,
        str(entry.gpus_per_instance),
        f"{usd(entry.usd_per_hour)}/h",
        f"{usd(entry.spot_usd_per_hour)}/h" if entry.spot_usd_per_hour else "-",
        entry.as_of,
    )


def _shown(value: Any) -> str:
    if isinstance(value, float | int) and not isinstance(value, bool):
        return plain(value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return "; ".join(_shown(inner) for inner in value)
    return str(value)
