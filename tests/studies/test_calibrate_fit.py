"""Scales of one deployment: recovered from synthetic runs, refused where runs cannot tell."""

from dataclasses import replace

import numpy as np
import pytest

from optimiser.catalogue.calibrated import calibrated
from optimiser.catalogue.load import default_catalogue, shipped
from optimiser.engine.columns_of_shape import latency_row
from optimiser.planning.latency_scalar import Latency
from optimiser.studies.calibrate_fit import (
    CannotCalibrateError,
    Parts,
    Point,
    fit_scales,
    parts_of,
)
from optimiser.studies.measurements import deployment, shipped_names

LOADS = (4, 16, 48, 96)
TRUE = {"decode_scale": 1.3, "prefill_scale": 0.7, "ttft_offset_s": 0.06}


@pytest.fixture(scope="module")
def known():
    """A deployment and its constants."""
    names, gpu = shipped_names(), default_catalogue().gpu("h100-sxm")
    at = deployment(names, str(names.config("Llama-3.1-8B")), gpu, "bf16", 1, (2048, 400))
    return at, calibrated(shipped("models") / "calibration", "h100-sxm", "vllm").constants


def _measured(known, loads, noise=(), synchrony=0.0, **true):
    """Runs of a server that differs from the model by known scales, by the scalar writing."""
    at, constants = known
    server = Latency(at, replace(constants, **true))
    errors = iter(noise)
    points = [
        Point(
            concurrency=load,
            ttft_s=server.ttft_s(load, synchrony) * next(errors, 1.0),
            tpot_s=server.tpot_s(load, synchrony) * next(errors, 1.0),
            answer_tokens=at.answer_tokens,
            n_requests=10 * load,
        )
        for load in loads
    ]
    row = latency_row(at, constants)
    return points, [parts_of(row, load, synchrony) for load in loads]


def test_four_loads_give_back_all_three(known):
    scales = fit_scales(*_measured(known, LOADS, **TRUE))
    for name, value in TRUE.items():
        assert getattr(scales, name) == pytest.approx(value, rel=1e-6)
    assert scales.offset_fitted
    assert max(map(abs, scales.tpot_errors_after + scales.ttft_errors_after)) < 1e-9
    assert max(map(abs, scales.tpot_errors_before)) > 0.1


@pytest.mark.parametrize("seed", range(5))
def test_four_noisy_loads_give_the_scales_back_within_5_percent(known, seed):
    noise = 1 + np.random.default_rng(seed).normal(0, 0.005, 2 * len(LOADS))
    scales = fit_scales(*_measured(known, LOADS, noise, known[1].closed_loop_synchrony, **TRUE))
    assert scales.decode_scale == pytest.approx(TRUE["decode_scale"], rel=0.05)
    assert scales.prefill_scale == pytest.approx(TRUE["prefill_scale"], rel=0.05)
    assert scales.ttft_offset_s == pytest.approx(TRUE["ttft_offset_s"], abs=0.02)


@pytest.mark.parametrize("load", [20, 64])
def test_one_load_gives_two_scales_and_keeps_the_offset(known, load):
    true = {"decode_scale": 1.2, "prefill_scale": 1.4}
    scales = fit_scales(*_measured(known, [load], **true))
    assert scales.decode_scale == pytest.approx(1.2, rel=1e-9)
    assert scales.prefill_scale == pytest.approx(1.4, rel=1e-9)
    assert scales.ttft_offset_s == known[1].ttft_offset_s
    assert not scales.offset_fitted


def test_scales_already_applied_are_not_applied_twice(known):
    at, constants = known
    points, _ = _measured(known, LOADS, **TRUE)
    row = latency_row(at, replace(constants, decode_scale=3.0, prefill_scale=2.0))
    scales = fit_scales(points, [parts_of(row, load) for load in LOADS])
    assert scales.decode_scale == pytest.approx(1.3)


def test_the_offset_is_never_negative():
    parts = [Parts(0.01, 0.001 * c, 0.02, 0.1, 0.05) for c in (1, 2, 3)]
    points = [
        Point(c, 0.11, 0.01 + 0.001 * c, 100, 100) for c in (1, 2, 3)
    ]  # 0.02 + 0.1 is already more than the 0.11 s measured
    assert fit_scales(points, parts).ttft_offset_s == 0


def test_short_runs_are_refused_and_the_others_used(known):
    points, parts = _measured(known, LOADS, **TRUE)
    points[0] = replace(points[0], n_requests=19)
    points[2] = replace(points[2], n_requests=95)
    scales = fit_scales(points, parts)
    assert not scales.offset_fitted
    assert scales.refused == (
        "concurrency 4: too short, 19 requests; at least 20 are needed",
        "concurrency 48: too short, 95 requests; at least 96 are needed",
    )


def test_saturated_runs_are_refused():
    parts = [Parts(0.01, 0.0, 0.02, 0.03, 0.01)] * 3

    def why(*points):
        with pytest.raises(CannotCalibrateError) as raised:
            fit_scales(points, parts[: len(points)])
        return str(raised.value)

    assert "the cache holds 50 sequences" in why(Point(64, 0.1, 0.02, 100, 640, slots=50))
    # 6 s before the first token, 99 x 0.02 = 1.98 s after it.
    assert "wait longer than they decode" in why(Point(64, 6.0, 0.02, 100, 640))
    # 64 requests of 2.08 s, 100 of 3.25 s: the same 3,077 tokens/s, so the others queue.
    points = [Point(64, 0.1, 0.02, 100, 640), Point(100, 1.27, 0.02, 100, 1000)]
    scales = fit_scales(points, parts[:2])
    assert scales.refused == ("concurrency 100: saturated, no more tokens/s than at 64",)


def test_short_answers_and_other_deployments_are_refused():
    parts = [Parts(0.01, 0.001, 0.02, 0.03, 0.01)]
    with pytest.raises(CannotCalibrateError, match="answers of 4 tokens"):
        fit_scales([Point(2, 0.05, 0.01, 4, 100)], parts)
    # 0.01 d + 0.001 p = 0.0906 and 0.02 d + 0.03 p = 0.23: d = 8.89, p = 1.74.
    with pytest.raises(CannotCalibrateError, match=r"decode scale 8\.89"):
        fit_scales([Point(2, 0.24, 0.0906, 100, 100)], parts)
    with pytest.raises(CannotCalibrateError, match="no runs"):
        fit_scales([], [])


def test_runs_that_do_not_tell_decoding_from_prefill_are_refused():
    parts = [Parts(0.01, 0.01, 0.1, 0.1, 0.0)]
    with pytest.raises(CannotCalibrateError, match="decoding from prefill"):
        fit_scales([Point(2, 0.2, 0.02, 100, 100)], parts)
