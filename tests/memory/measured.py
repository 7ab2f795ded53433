"""The logged starts that `optimise fit` is held to, and why the other rows are left out."""

import csv
import json
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.cli.running import ROOT, optimise

MEASUREMENTS = ROOT / "models" / "measurements"
CONFIGS = ROOT / "tests" / "data" / "configs"
GIB = 2**30

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in json.loads((MEASUREMENTS / "reported_cases.json").read_text())
}


def config(name: str) -> str:
    """Path of a config.json among the test data."""
    return str(CONFIGS / name / "config.json")


MODELS = {
    "facebook/opt-125m": config("opt-125m"),
    "Qwen2.5-7B-Instruct": "qwen2.5-7b",
    # KV heads as uploaded in July 2024: 16, each of the 8 twice
    "hugging-quants/Meta-Llama-3.1-405B-Instruct-AWQ-INT4": config(
        "Meta-Llama-3.1-405B-Instruct-AWQ-INT4"
    ),
    "meta-llama/Meta-Llama-3-8B": config("Meta-Llama-3-8B"),
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    # not named; 28,672 bytes a token and 2.88 GiB are those of Qwen2.5-1.5B alone
    "(1.5B, 2.89GiB)": config("Qwen2.5-1.5B-Instruct"),
    "(1.5B, 2.88GiB)": config("Qwen2.5-1.5B-Instruct"),
}
GPUS = {
    "NVIDIA A100-SXM4-80GB": "a100-sxm-80gb",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA H100 NVL": "h100-nvl",
    "80GB (79.22GiB)": "a100-sxm-80gb",
    "RTX 3090 (23.58GiB)": "rtx-3090",
    "T4 (14.56GiB)": "t4",
    "L4/A10G (22.06GiB)": "l4",
}
MULTIMODAL = ("llava", "-VL-", "gemma-3", "gemma-4", "Llama-4", "Audio", "Qwen3.5", "Qwen3.8")


def version_of(text: str) -> tuple[int, int] | None:
    """Major and minor of a version, where one is stated."""
    parts = text.strip("~ ").split("/")[0].split(".")
    numbers = [int(part) for part in parts[:2] if part.isdigit()]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else None


def why_left_out(row: dict[str, str]) -> str | None:
    """Why a row says nothing of this memory model; None for a row that does."""
    version, gpu, name = version_of(row["version"]), row["gpu"], row["model"]
    reasons = {
        "SGLang, which divides memory otherwise": row["engine"] != "vllm",
        "multimodal model": any(word in name for word in MULTIMODAL),
        "ROCm": "AMD" in gpu,
        "tensor parallel or utilization not stated": not (row["tp"] and row["gpu_mem_util"]),
        "vLLM before 0.4": version is not None and version < (0, 4),
        "GPU inferred or not stated": not gpu or "BUT" in gpu or gpu[0] in "?(",
        "pipeline parallel, which is not modelled": row["pp"] not in ("", "1"),
        "weight format that is not modelled (bitsandbytes)": "bitsandbytes" in row["quant"],
        "model not stated": name.startswith("(33.06GiB"),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


@dataclass(frozen=True)
class Measured:
    """One logged start, and the options that say the same to `optimise fit`."""

    name: str
    model: str
    gpu: str
    tensor_parallel: int
    options: tuple[object, ...]
    context: int | None
    weights_gib: float | None
    kv_gib: float
    """Per GPU."""
    bytes_per_token: float | None
    """Per GPU, as worked out by hand or as the log's tokens and GiB give it."""
    fits: bool

    @property
    def arguments(self) -> list[object]:
        """The command line."""
        told: list[object] = ["fit", self.model, "--gpu", self.gpu]
        told += ["--tensor-parallel", self.tensor_parallel, *self.options]
        return [*told, "--context", self.context] if self.context else told

    def fit(self) -> dict[str, Any]:
        """What `optimise fit` says."""
        ran = optimise(*self.arguments, "--format", "json")
        assert ran.code == (0 if ran.data["fits"] else 3), ran.err
        data: dict[str, Any] = ran.data
        return data


def number(text: str) -> float | None:
    return float(text) if text else None


def of_row(row: dict[str, str]) -> Measured:
    """A usable row as options.

    What one step holds is what the version stated put into it. V0, the engine before 0.8, profiles
    a whole prompt: max(context, 2048) tokens where the row states no more, and 256 sequences; the
    1,024 of large devices came with 0.9.
    """
    context = int(row["max_model_len"])
    version = version_of(row["version"])
    assert version is not None
    assert version < (0, 9)
    tokens = int(row["max_num_batched_tokens"] or max(context, 2048))
    kv_gib, logged = number(row["kv_gib"]), number(row["kv_cache_tokens"])
    blocks, each = number(row["gpu_blocks"]), number(row["arch_kv_bytes_per_token_per_gpu"])
    if kv_gib is None and each and (blocks or logged):
        kv_gib = (blocks * 16 if blocks else logged or 0.0) * each / GIB
    if kv_gib is None:  # this log has the terms alone
        taken = sum(float(row[f"{term}_gib"]) for term in ("weights", "non_torch", "activation"))
        kv_gib = float(row["gpu_mem_util"]) * float(row["total_gpu_gib"]) - taken
    if each is None and (tokens_final := number(row["tokens_final"])):
        each = kv_gib * GIB / tokens_final
    assert each is not None
    options = ("--memory-utilization", row["gpu_mem_util"], "--max-num-batched-tokens", tokens)
    return Measured(
        name=row["issue"].split("/issues/")[-1].split("/pull/")[-1].replace("stored text id ", ""),
        model=MODELS[row["model"]],
        gpu=GPUS[row["gpu"]],
        tensor_parallel=int(row["tp"]),
        options=(*options, "--max-num-seqs", 256),
        context=context,
        weights_gib=number(row["weights_gib"]),
        kv_gib=kv_gib,
        bytes_per_token=each,
        fits=kv_gib * GIB / each >= context,
    )


def of_cases() -> list[Measured]:
    """The measured cases that state the cache of a start."""
    llama, qwen = "llama-3.1-70b", config("Qwen3-235B-A22B-FP8")
    h100 = "h100-sxm"

    def measured(
        name: str, model: str, gpu: str, *options: object, size: int = 1, **more: Any
    ) -> Measured:
        said, expected = CASES[name]["inputs"], CASES[name]["expected"]
        kv_gib, each = expected.get("kv_gib_per_gpu", expected.get("kv_gib")), more.get("each")
        if kv_gib is None:
            kv_gib = expected[more["tokens"]] * each / GIB
        known: list[object] = list(options)
        if isinstance(said.get("util"), float):
            known += ["--memory-utilization", said["util"]]
        if "max_num_batched_tokens" in said:
            known += ["--max-num-batched-tokens", said["max_num_batched_tokens"]]
        return Measured(
            name=name,
            model=model,
            gpu=gpu,
            tensor_parallel=size,
            options=tuple(known),
            context=said.get("max_model_len"),
            weights_gib=expected.get("weights_gib_per_gpu", expected.get("weights_gib")),
            kv_gib=kv_gib,
            bytes_per_token=each,
            fits=expected.get("fits", True),
        )

    return [
        # 2 x 8 KV heads x 128 x 80 layers x 2 bytes
        measured("C04", llama, h100, "--weights", "w8a8-int8", each=327_680, tokens="kv_tokens"),
        # 2 x 1 of 4 KV heads x 128 x 94 layers x 2 bytes
        measured("C05", qwen, h100, size=4, each=48_128),
        measured("C16", "gpt-oss-120b", h100),
        # 2 x 8 x 128 x 36 x 2; 0.26 budgets 0.92 of the device by default
        measured(
            "C17",
            config("Qwen3-8B"),
            "a100-sxm-80gb",
            "--memory-utilization",
            0.92,
            each=147_456,
            tokens="kv_tokens_bf16",
        ),
        measured("C20", config("gpt-oss-20b"), h100),
        measured("C23", llama, h100, "--weights", "fp8"),
        measured("C25", "qwen3-0.6b", h100),
    ]


@cache
def rows() -> tuple[dict[str, str], ...]:
    """Every logged row."""
    with (MEASUREMENTS / "vllm_memory_logs.csv").open(newline="") as file:
        return tuple(csv.DictReader(file))


@cache
def measured() -> tuple[Measured, ...]:
    """Every start that `optimise fit` is held to."""
    return (*(of_row(row) for row in rows() if why_left_out(row) is None), *of_cases())


def left_out() -> Counter[str]:
    """How many rows are left out, by reason."""
    return Counter(reason for row in rows() if (reason := why_left_out(row)) is not None)
