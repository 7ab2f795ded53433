"""The benchmarks run; what they measure is read by people, on a quiet machine."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

BENCH = Path(__file__).parent.parent / "bench"


def test_the_latency_bench_prints_points_per_second(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("bench_latency", BENCH / "latency.py")
    assert spec is not None
    assert spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    monkeypatch.setattr(bench, "BATCHES", np.arange(1, 4)[:, None])
    monkeypatch.setattr(bench, "MODELS", ("Llama-3.1-8B", "gpt-oss-120b"))
    monkeypatch.setattr(bench, "REPEATS", 1)
    bench.main()
    report = json.loads(capsys.readouterr().out)
    # 2 models, 8 GPU types, 4 tensor-parallel sizes, 2 formats, 3 engines, 3 batches.
    assert report.pop("points") == 2 * 8 * 4 * 2 * 3 * 3
    assert set(report) == {
        "ideal_points_per_s",
        "measured_points_per_s",
        "measured_all_three_points_per_s",
    }
    assert all(rate > 0 for rate in report.values())
