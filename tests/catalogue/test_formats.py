"""Number formats: sizes, arithmetic, aliases, and GPUs without a figure."""

from typing import Any

import pytest

from optimiser import Case
from optimiser.catalogue.formats import (
    CACHE_FORMATS,
    WEIGHT_FORMATS,
    cache_format_name,
    weight_format_name,
)
from optimiser.catalogue.gpu import Gpu
from optimiser.errors import CaseError
from tests.cli.running import CHAT


@pytest.mark.parametrize(
    ("name", "size", "bits", "computes_in"),
    [
        ("fp32", 4, 32, "fp32"),
        ("fp16", 2, 16, "fp16"),
        ("fp8", 1, 8, "fp8"),
        ("int8", 1, 8, "fp16"),
        ("int4", 0.5, 4, "fp16"),
    ],
)
def test_weight_formats(name: str, size: float, bits: int, computes_in: str) -> None:
    fmt = WEIGHT_FORMATS[name]
    assert (fmt.bytes_per_number, fmt.bits, fmt.computes_in) == (size, bits, computes_in)


def test_cache_formats() -> None:
    sizes = {name: fmt.bytes_per_number for name, fmt in CACHE_FORMATS.items()}
    assert sizes == {"fp16": 2, "fp8": 1, "int8": 1}


def test_aliases() -> None:
    for name in ("bf16", "bfloat16", "float16", "FP16"):
        assert weight_format_name(name) == cache_format_name(name) == "fp16"
    assert weight_format_name("float32") == "fp32"


def gpu(tflops: dict[str, float], **fields: Any) -> Gpu:
    return Gpu(name="g", memory_gb=80, bandwidth_gb_per_s=2000, tflops=tflops, **fields)


def test_a_gpu_computes_at_its_own_rate_else_at_the_16_bit_one() -> None:
    both, old = gpu({"fp16": 300, "fp8": 600}), gpu({"fp16": 300})
    assert both.flops_per_s(WEIGHT_FORMATS["fp8"]) == 600e12
    assert old.flops_per_s(WEIGHT_FORMATS["fp8"]) == 300e12
    assert both.computes(WEIGHT_FORMATS["fp8"])
    assert not old.computes(WEIGHT_FORMATS["fp8"])
    # weight-only: the arithmetic stays in 16 bits
    assert both.flops_per_s(WEIGHT_FORMATS["int8"]) == 300e12
    assert both.flops_per_s(WEIGHT_FORMATS["int4"]) == 300e12


def test_bf16_counts_as_fp16() -> None:
    assert gpu({"bf16": 300}).flops_per_s(WEIGHT_FORMATS["fp16"]) == 300e12
    assert gpu({"bf16": 300, "fp16": 200}).flops_per_s(WEIGHT_FORMATS["fp16"]) == 200e12


def test_memory_is_gb_or_bytes() -> None:
    assert gpu({"fp16": 1}).capacity_bytes == 80e9
    one = Gpu(name="g", memory_bytes=7 * 2**30, bandwidth_gb_per_s=1, tflops={"fp16": 1})
    assert one.capacity_bytes == 7 * 2**30


@pytest.mark.parametrize(
    ("tflops", "message"),
    [
        ("{fp17: 1}", "unknown format 'fp17'"),
        ("{fp16: 0}", "tflops.fp16: found 0"),
        ("{fp16: -1}", "tflops.fp16: found -1"),
        ("{fp16: 1e300}", "tflops.fp16: found 1e+300"),
        ("{int8: 600}", "g has no fp16 figure, which fp16 weights need"),
        ("{fp8: 600}", "g has no fp16 figure, which fp16 weights need"),
    ],
)
def test_rates_that_cannot_be(tflops: str, message: str) -> None:
    inline = f"{{name: g, memory_gb: 80, bandwidth_gb_per_s: 2000, tflops: {tflops}}}"
    with pytest.raises(CaseError) as raised:
        Case.of_text(CHAT.replace("[generic-80gb]", f"[{inline}]"))
    assert message in str(raised.value)


def test_each_format_that_a_gpu_cannot_compute_is_told() -> None:
    inline = "{name: g, memory_gb: 80, bandwidth_gb_per_s: 2000, tflops: {fp8: 600}}"
    text = CHAT.replace("[generic-80gb]", f"[{inline}]")
    with pytest.raises(CaseError) as raised:
        Case.of_text(text.replace("weights: fp16", "weights: [fp8, fp32, int4]"))
    assert [mistake.message for mistake in raised.value.mistakes] == [
        "g has no fp32 and no fp16 figure, which fp32 weights need",
        "g has no fp16 figure, which int4 weights need",
    ]


@pytest.mark.parametrize("price", ["1e-12", "4.9e-10"])
def test_a_price_too_small_to_compare(price: str) -> None:
    with pytest.raises(CaseError, match="less than a nano-dollar"):
        Case.of_text(CHAT.replace("2.00", price))
