"""The case that the tests of configurations and of offers work out by hand."""

from typing import Any


def by_hand(name: str, **gpu: Any) -> dict[str, object]:
    """10e9 parameters in fp16 on 60 GB, 1 TB/s and 100 TFLOP/s, as a document."""
    return {
        "name": name,
        "brief": {
            "requests_per_s": 3.0,
            "prompt_tokens": 1000,
            "answer_tokens": 500,
            "ttft_target_s": 1.0,
            "tpot_target_ms": 24.0,
        },
        "model": {
            "name": "tiny",
            "params": 10e9,
            "layers": 20,
            "attention_heads": 8,
            "kv_heads": 4,
            "head_dim": 100,
        },
        "hardware": {
            "gpus": [
                {
                    "name": "round",
                    "memory_gb": 60.0,
                    "bandwidth_gb_per_s": 1000.0,
                    "tflops": {"fp16": 100.0},
                    **gpu,
                }
            ]
        },
        "levers": {"kv_cache": "fp8", "batch": {"most": 1000}},
        "assumptions": {"efficiency": 1.0, "headroom": 1.5, "memory_reserve": 0.0},
    }
