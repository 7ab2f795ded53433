"""The levers of a case: every change that a user could make, what it costs and what it risks."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from optimiser.catalogue.formats import CACHE_FORMATS, WEIGHT_FORMATS
from optimiser.catalogue.load import Catalogue, shipped
from optimiser.errors import CatalogueError
from optimiser.planning.planner import Planned
from optimiser.schema import Schema, validated
from optimiser.studies.compare import gpu_change
from optimiser.studies.rows import Changes
from optimiser.yaml_io import Document, read

Kind = Literal[
    "weights",
    "kv_cache",
    "kv_heads",
    "tensor_parallel",
    "prompt",
    "answer",
    "prefix",
    "target",
    "gpu",
    "spot",
    "efficiency",
]


class LeverText(Schema):
    """What a kind of lever costs to pull and what it risks."""

    effort: str
    """Flag, new checkpoint, retraining, product change, other hardware."""
    how: str
    """What to do."""
    risk: str
    """What may go wrong."""
    source: str
    """Public document behind it."""
    as_of: str
    """Its date."""


@dataclass(frozen=True, slots=True)
class Lever:
    """One change to a case."""

    name: str
    kind: Kind
    group: str
    """Levers of one group exclude each other."""
    changes: Changes

    @property
    def text(self) -> LeverText:
        """What it costs to pull and what it risks."""
        return text_of(self.kind)


@dataclass(frozen=True, slots=True)
class Shares:
    """How far the levers that have a size are pulled."""

    shorter_frac: float = 0.2
    """Prompts and answers cut by this share."""
    prefix_cached_frac: float = 0.5
    """Prompt tokens found in a prefix cache."""
    looser_frac: float = 0.5
    """Latency targets relaxed by this share."""
    efficiency_gain_frac: float = 0.1
    """Efficiency raised by this share."""


DEFAULT_SHARES = Shares()
FORMATS_TRIED = ("fp8", "int8", "w8a8-int8", "mxfp4", "nvfp4", "int4", "int4-g128")


def levers_of(planned: Planned, known: Catalogue, shares: Shares = DEFAULT_SHARES) -> list[Lever]:
    """Every lever that is open to a design, in the order they are tried."""
    return [
        *_formats(planned),
        *_kv_heads(planned),
        *_tensor_parallel(planned),
        *_product(planned, shares),
        *_hardware(planned, known),
    ]


def _formats(planned: Planned) -> Iterator[Lever]:
    chosen = planned.design.configuration
    bits = WEIGHT_FORMATS[chosen.weights].bits
    for fmt in map(WEIGHT_FORMATS.__getitem__, FORMATS_TRIED):
        if fmt.bits < bits and (fmt.computes_in == "fp16" or chosen.gpu.computes(fmt)):
            yield Lever(f"{fmt.name} weights", "weights", "weights", {"levers.weights": fmt.name})
    cache_bits = CACHE_FORMATS[chosen.kv_cache].bits
    for cache_format in CACHE_FORMATS.values():
        native = cache_format.name != "fp8" or "fp8" in chosen.gpu.tflops
        if cache_format.bits < cache_bits and native:
            name = cache_format.name
            yield Lever(f"{name} KV cache", "kv_cache", "kv_cache", {"levers.kv_cache": name})


def _kv_heads(planned: Planned) -> Iterator[Lever]:
    chosen, heads = planned.design.configuration, planned.case.model.attention_heads
    count = chosen.kv_heads // 2
    while count >= 1 and chosen.kv_heads % count == 0 and heads % count == 0:
        name = "MQA (1 KV head)" if count == 1 else f"GQA ({count} KV heads)"
        yield Lever(name, "kv_heads", "kv_heads", {"levers.kv_heads": count})
        count //= 2


def _tensor_parallel(planned: Planned) -> Iterator[Lever]:
    chosen = planned.design.configuration
    for size in (1, 2, 4, 8):
        if size not in planned.case.levers.tensor_parallel:
            change = {"levers.tensor_parallel": [chosen.tensor_parallel, size]}
            yield Lever(f"tensor parallel {size}", "tensor_parallel", "tensor_parallel", change)


def _product(planned: Planned, shares: Shares) -> Iterator[Lever]:
    brief, assumed = planned.case.brief, planned.case.assumptions
    shorter, percent = 1 - shares.shorter_frac, f"{shares.shorter_frac:.0%}".replace("%", " %")
    for kind, tokens in (("prompt", brief.prompt_tokens), ("answer", brief.answer_tokens)):
        length = max(1, round(tokens * shorter))
        change: Changes = {f"brief.{kind}_tokens": length}
        yield Lever(f"{percent} shorter {kind}s", kind, kind, change)  # type: ignore[arg-type]
    cached = shares.prefix_cached_frac
    if assumed.prefix_cached_frac < cached:
        name = f"prefix cache, {cached:.0%} hit".replace("%", " %")
        yield Lever(name, "prefix", "prefix", {"assumptions.prefix_cached_frac": cached})
    looser = 1 + shares.looser_frac
    ttft, tpot = brief.ttft_target_s * looser, brief.tpot_target_ms * looser
    yield Lever(f"TTFT target {ttft:g} s", "target", "ttft", {"brief.ttft_target_s": ttft})
    yield Lever(f"TPOT target {tpot:g} ms", "target", "tpot", {"brief.tpot_target_ms": tpot})
    better = min(1.0, assumed.efficiency * (1 + shares.efficiency_gain_frac))
    if better > assumed.efficiency and assumed.latency == "ideal":
        change = {"assumptions.efficiency": better}
        yield Lever(f"efficiency {better:.0%}".replace("%", " %"), "efficiency", "eff", change)


def _hardware(planned: Planned, known: Catalogue) -> Iterator[Lever]:
    case, chosen = planned.case, planned.design.configuration
    if chosen.rental.offer is not None and "spot" not in case.hardware.offers.terms:
        sells = any(o.spot_usd_per_hour is not None for o in known.offers(chosen.gpu.name))
        if sells:
            terms = {"hardware.offers.terms": ["on-demand", "spot"]}
            yield Lever("spot price", "spot", "spot", terms)
    others = [gpu.name for gpu in case.hardware.gpus]
    others += [name for name in known.names("gpus") if known.offers(name) and name not in others]
    for name in others:
        if name != chosen.gpu.name:
            yield Lever(f"{name} instead", "gpu", "gpu", gpu_change(case, name))


def text_of(kind: Kind) -> LeverText:
    """What a kind of lever costs to pull and what it risks."""
    return _texts()[kind]


@cache
def _texts() -> dict[str, LeverText]:
    document = read(shipped("models") / "levers.yaml")
    texts = {}
    for kind, data in document.data.items():
        text = validated(LeverText, Document(document.source, data), {})
        if isinstance(text, list):
            raise CatalogueError(text)
        texts[kind] = text
    return texts
