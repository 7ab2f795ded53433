"""Deployments of published models on catalogue GPUs, for tests of the latency model."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from hypothesis import strategies as st

from optimiser.catalogue.calibrated import calibrated
from optimiser.catalogue.hf_config.read import shape_of
from optimiser.catalogue.hf_config.shape import Shape
from optimiser.catalogue.latency_constants import Deployment, LatencyConstants, PartFormat
from optimiser.catalogue.load import default_catalogue, shipped

CALIBRATION = shipped("models") / "calibration"
ENGINES = ("vllm", "sglang", "tensorrt-llm")
GPUS = default_catalogue().names("gpus")


@cache
def configs() -> Mapping[str, object]:
    folder = shipped("models") / "measurements"
    found: dict[str, object] = json.loads((folder / "model_configs.json").read_text())
    return found


MODELS = tuple(configs())


@cache
def shape(model: str) -> Shape:
    return shape_of(configs()[model])


@st.composite
def deployments(draw: st.DrawFn) -> tuple[Deployment, LatencyConstants]:
    gpu = default_catalogue().gpu(draw(st.sampled_from(GPUS)))
    peaks = {name: rate * 1e12 for name, rate in gpu.tflops.items()}
    formats = [
        PartFormat(size, compute)
        for size, compute in ((2, "fp16"), (1, "fp8"), (0.5625, "fp4"), (0.5625, "fp16"))
        if compute in peaks
    ]
    part = st.sampled_from(formats)
    n_gpus = draw(st.sampled_from([1, 2, 4, 8, 16]))
    groups = draw(st.sampled_from([g for g in (1, 2, 4, 8) if g <= n_gpus]))
    constants = calibrated(CALIBRATION, gpu.name, draw(st.sampled_from(ENGINES))).constants
    if draw(st.booleans()):
        constants = replace(
            constants,
            unhidden_frac=draw(st.floats(0, 1)),
            link_large_s=draw(st.floats(0, 1e-4)),
            link_large_bytes=draw(st.floats(1e3, 1e7)),
        )
    at = Deployment(
        shape=shape(draw(st.sampled_from(MODELS))),
        attention=draw(part),
        dense=draw(part),
        experts=draw(part),
        head=PartFormat(2, "fp16"),
        cache_bytes_per_number=draw(st.sampled_from([1.0, 2.0])),
        n_gpus=n_gpus,
        attention_groups=groups,
        peak_bytes_per_s=gpu.bandwidth_gb_per_s * 1e9,
        peak_flops_per_s=peaks,
        link_bytes_per_s=(gpu.link_gb_per_s or 32) * 1e9,
        prompt_tokens=draw(st.integers(1, 65536)),
        answer_tokens=draw(st.integers(1, 16384)),
        sparse_tokens=draw(st.sampled_from([None, None, 2048])),
    )
    return at, constants
