"""A configuration as the facts and constants that the measured latency model takes."""

from dataclasses import replace

from optimiser.case import Case
from optimiser.catalogue.calibrated import Calibrated, calibrated
from optimiser.catalogue.formats import CACHE_FORMATS, WEIGHT_FORMATS, Format
from optimiser.catalogue.gpu import Gpu
from optimiser.catalogue.latency_constants import Deployment, LatencyConstants, PartFormat
from optimiser.catalogue.llm import Llm
from optimiser.catalogue.llm_shape import shape_of_llm
from optimiser.catalogue.load import shipped
from optimiser.planning.design import Configuration
from optimiser.units import bytes_of_gb, flops_of_tflops

SIXTEEN_BITS = PartFormat(2.0, "fp16")
LINK_GB_PER_S = 32.0
"""PCIe 4 with 16 lanes, where a GPU does not say what joins it to others."""


def deployment(case: Case, chosen: Configuration) -> Deployment:
    """One replica of a configuration under a case's traffic: facts only."""
    gpu, llm = chosen.gpu, case.model
    known = set(gpu.tflops) & set(provenance(case, gpu).constants.flop_frac)
    parts = _parts(llm, WEIGHT_FORMATS[chosen.weights], known)
    rates = {key: flops_of_tflops(rate) for key, rate in gpu.tflops.items()}
    rates.setdefault("fp16", rates.get("bf16", 0.0))
    return Deployment(
        shape=shape_of_llm(llm, chosen.kv_heads),
        attention=parts["attention"],
        dense=parts["dense"],
        experts=parts["experts"],
        head=parts["head"],
        cache_bytes_per_number=CACHE_FORMATS[chosen.kv_cache].bytes_per_number,
        n_gpus=chosen.tensor_parallel,
        attention_groups=1,
        peak_bytes_per_s=bytes_of_gb(gpu.bandwidth_gb_per_s),
        peak_flops_per_s=rates,
        link_bytes_per_s=bytes_of_gb(gpu.link_gb_per_s or LINK_GB_PER_S),
        prompt_tokens=case.brief.prompt_tokens,
        answer_tokens=case.brief.answer_tokens,
        cached_tokens=case.brief.prompt_tokens * case.assumptions.prefix_cached_frac,
    )


def under(at: Deployment, case: Case) -> Deployment:
    """The same replica under the traffic of another case."""
    brief = case.brief
    return replace(
        at,
        prompt_tokens=brief.prompt_tokens,
        answer_tokens=brief.answer_tokens,
        cached_tokens=brief.prompt_tokens * case.assumptions.prefix_cached_frac,
    )


def constants(case: Case, gpu: Gpu) -> LatencyConstants:
    """What a GPU and the case's engine achieve, with the scales of the case's own calibration.

    Raises CatalogueError where the GPU has no constants.
    """
    found, scales = provenance(case, gpu).constants, case.scales
    return replace(
        found,
        decode_scale=found.decode_scale * scales.decode_scale,
        prefill_scale=found.prefill_scale * scales.prefill_scale,
        ttft_offset_s=found.ttft_offset_s if scales.ttft_offset_s is None else scales.ttft_offset_s,
    )


def provenance(case: Case, gpu: Gpu) -> Calibrated:
    """The fitted constants of a GPU under the case's engine, and what they rest on."""
    return calibrated(
        shipped("models") / "calibration", gpu.latency_name, case.assumptions.serving_engine
    )


def is_estimated(case: Case, gpu: Gpu) -> bool:
    """Whether a GPU's times rest on another's measurements."""
    return case.assumptions.latency == "measured" and provenance(case, gpu).estimated


def _parts(llm: Llm, fmt: Format, rates: set[str]) -> dict[str, PartFormat]:
    """The format of each part of the weights: what stays in 16 bits stays so.

    Where the GPU has no rate for the format, or nothing says what it achieves of it, it computes
    in 16 bits.
    """
    compute = fmt.computes_in if fmt.computes_in in rates else "fp16"
    part = PartFormat(fmt.bytes_per_number, compute)
    experts_alone = fmt.name == "mxfp4" and llm.experts is not None
    dense = SIXTEEN_BITS if experts_alone else part
    return {
        "attention": dense,
        "dense": dense,
        "experts": part,
        "head": part if fmt.everywhere else SIXTEEN_BITS,
    }
