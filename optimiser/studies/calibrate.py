"""One deployment's scales from benchmark runs of it: what the case says, beside what was measured.

Runs are of one replica. A closed loop keeps requests somewhat synchronised, see
`closed_loop_synchrony`; three loads or more tell where a run's were spread out instead.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from optimiser.case import Case
from optimiser.engine.columns_of_shape import latency_row
from optimiser.engine.memory import largest_batch
from optimiser.engine.replicas import Lengths
from optimiser.errors import CaseError, InputError, Mistake
from optimiser.planning.columns import columns
from optimiser.planning.deployment import constants, deployment
from optimiser.planning.design import Configuration
from optimiser.studies.calibrate_fit import (
    POINTS_FOR_AN_OFFSET,
    CannotCalibrateError,
    Parts,
    Point,
    Scales,
    fit_scales,
    parts_of,
    refusals,
)

MOST_SEQUENCES = 10**6
CLEARLY = 0.5
"""Requests were spread out where that leaves less than this of the synchronised fit's error."""


@dataclass(frozen=True, slots=True)
class Run:
    """One measured load of one replica."""

    source: str
    """File, or option."""
    concurrency: float
    ttft_s: float
    tpot_s: float
    prompt_tokens: float
    answer_tokens: float
    n_requests: int | None
    """Null where nobody says."""
    closed_loop: bool


@dataclass(frozen=True, slots=True)
class Said:
    """What the model says of a run."""

    ttft_s: float
    tpot_s: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Scales, and each run before and after them."""

    case: Case
    chosen: Configuration
    runs: tuple[Run, ...]
    scales: Scales
    synchrony: float
    """Of closed-loop runs."""
    before: tuple[Said, ...]
    after: tuple[Said, ...]
    refused: Mapping[int, str]
    """Why a run was not used, by its place."""


def calibrate(case: Case, chosen: Configuration, runs: Sequence[Run]) -> Calibration:
    """Fit a configuration's scales to runs of it; scales that the case has are not used.

    Raises InputError where no run can tell, or those that can contradict the model.
    """
    found = constants(case, chosen.gpu)
    held = [_sequences_held(case, chosen, run) for run in runs]
    if 0 in held:
        place = f"{chosen.gpu.name} x {chosen.tensor_parallel}"
        message = f"{case.model.name} in {chosen.weights} does not fit on {place}, which was run"
        raise CaseError([Mistake(case.where("hardware.gpus"), "hardware.gpus", message)])
    points = [
        Point(
            concurrency=run.concurrency,
            ttft_s=run.ttft_s,
            tpot_s=run.tpot_s,
            answer_tokens=run.answer_tokens,
            n_requests=run.n_requests,
            slots=slots,
        )
        for run, slots in zip(runs, held, strict=True)
    ]
    facts = deployment(case, chosen)
    rows = [
        latency_row(
            replace(facts, prompt_tokens=run.prompt_tokens, answer_tokens=run.answer_tokens), found
        )
        for run in runs
    ]

    def parts_at(synchrony: float) -> list[Parts]:
        return [
            parts_of(row, run.concurrency, synchrony if run.closed_loop else 0.0)
            for row, run in zip(rows, runs, strict=True)
        ]

    synchrony, scales = found.closed_loop_synchrony, None
    try:
        scales = fit_scales(points, parts_at(synchrony))
    except CannotCalibrateError as error:
        failure = error
    if any(run.closed_loop for run in runs) and len(runs) >= POINTS_FOR_AN_OFFSET:
        spread_out = _fitted(points, parts_at(0.0))
        if spread_out is not None and _is_clearly_better(spread_out, scales):
            synchrony, scales = 0.0, spread_out
    if scales is None:
        raise InputError(
            Mistake("", "", f"cannot calibrate: {why}") for why in failure.reasons
        ) from failure
    parts = parts_at(synchrony)
    return Calibration(
        case=case,
        chosen=chosen,
        runs=tuple(runs),
        scales=scales,
        synchrony=synchrony,
        before=tuple(_said(part, 1.0, 1.0, part.offset_s) for part in parts),
        after=tuple(
            _said(part, scales.decode_scale, scales.prefill_scale, scales.ttft_offset_s)
            for part in parts
        ),
        refused=refusals(points, parts),
    )


def _fitted(points: Sequence[Point], parts: Sequence[Parts]) -> Scales | None:
    try:
        return fit_scales(points, parts)
    except CannotCalibrateError:
        return None


def _is_clearly_better(one: Scales, other: Scales | None) -> bool:
    if not one.offset_fitted:
        return False
    return other is None or _left(one) < CLEARLY * _left(other)


def _left(scales: Scales) -> float:
    """Root of the sum of the squared relative errors that remain."""
    return math.hypot(*scales.tpot_errors_after, *scales.ttft_errors_after)


def _said(part: Parts, decode: float, prefill: float, offset_s: float) -> Said:
    return Said(
        ttft_s=offset_s + decode * part.wait_s + prefill * part.prompt_s,
        tpot_s=decode * part.step_s + prefill * part.stall_s,
    )


def _sequences_held(case: Case, chosen: Configuration, run: Run) -> int:
    """Sequences of the mean length, halfway through their answers, that fit as planned."""
    mean = Lengths(math.ceil(run.prompt_tokens + run.answer_tokens / 2), 0)
    return int(largest_batch(columns(case, [chosen], mean), MOST_SEQUENCES)[0])
