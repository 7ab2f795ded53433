"""Fits one deployment's scales to a benchmark run of it: decode, prefill and TTFT offset.

    TPOT = decode * step + prefill * stall
    TTFT = offset + decode * wait + prefill * (prompt and queue)

Linear in the three, so the fit is a weighted least-squares solution without a search.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from optimiser.engine.latency import decode_step_s, tpot_s, ttft_s
from optimiser.engine.latency_parts import LatencyRow, columns_of
from optimiser.engine.replicas import Floats

FEWEST_REQUESTS = 20
FEWEST_TURNS = 2.0
"""Requests for each that runs at once: fewer, and the start and the end are all there is."""
FEWEST_ANSWER_TOKENS = 8
POINTS_FOR_AN_OFFSET = 3
LARGEST_SCALE = 5.0
"""Beyond it, or below one over it, the run is of something else than the case describes."""
FLAT_FRAC = 0.02
"""More load that adds less throughput than this fills a queue, not the GPUs."""
SAME_LOAD_FRAC = 0.05


class CannotCalibrateError(ValueError):
    """Runs that cannot tell, and why."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


@dataclass(frozen=True, slots=True)
class Point:
    """One measured load."""

    concurrency: float
    ttft_s: float
    tpot_s: float
    answer_tokens: float
    n_requests: int | None = None
    """Null where nobody says: three numbers on a command line."""
    slots: float | None = None
    """Sequences that the replica's cache holds, as planned; null where that is not known."""

    @property
    def residence_s(self) -> float:
        """A request from arrival to last token."""
        return self.ttft_s + (self.answer_tokens - 1) * self.tpot_s

    @property
    def tokens_per_s(self) -> float:
        """Answer tokens of the replica, by Little's law."""
        return self.concurrency * self.answer_tokens / self.residence_s


@dataclass(frozen=True, slots=True)
class Parts:
    """What the model says of a load, before any scale."""

    step_s: float
    stall_s: float
    """Others' prompts, for each token."""
    wait_s: float
    """Decode steps before the first token."""
    prompt_s: float
    """The prompt itself and those that arrive with it."""
    offset_s: float


@dataclass(frozen=True, slots=True)
class Scales:
    """What the deployment does over what the model says."""

    decode_scale: float
    prefill_scale: float
    ttft_offset_s: float
    offset_fitted: bool
    tpot_errors_before: tuple[float, ...]
    """Predicted / measured - 1 of each usable point."""
    tpot_errors_after: tuple[float, ...]
    ttft_errors_before: tuple[float, ...]
    ttft_errors_after: tuple[float, ...]
    refused: tuple[str, ...]
    """Why each other point was not used."""


def parts_of(row: LatencyRow, concurrency: float, synchrony: float = 0.0) -> Parts:
    """The model's parts at a load, for the row of one deployment; scales it has are left out."""
    columns = columns_of([replace(row, decode_scale=1.0, prefill_scale=1.0)])
    step = float(decode_step_s(columns, concurrency)[0])
    stall = float(tpot_s(columns, concurrency, synchrony)[0]) - step
    wait = row.wait_steps * step
    prompt = float(ttft_s(columns, concurrency, synchrony)[0]) - row.ttft_offset_s - wait
    return Parts(step, stall, wait, prompt, row.ttft_offset_s)


def fit_scales(points: Sequence[Point], parts: Sequence[Parts]) -> Scales:
    """Decode and prefill scales; with three loads or more the offset too.

    Raises CannotCalibrateError where no run is usable, or those that are contradict the model.
    """
    refused = refusals(points, parts)
    good = [i for i in range(len(points)) if i not in refused]
    reasons = tuple(refused[i] for i in sorted(refused))
    if not good:
        raise CannotCalibrateError(reasons or ("no runs",))
    used, said = [points[i] for i in good], [parts[i] for i in good]
    tpot, ttft = np.array([p.tpot_s for p in used]), np.array([p.ttft_s for p in used])
    offset = float(said[0].offset_s)
    with_offset = len({p.concurrency for p in used}) >= POINTS_FOR_AN_OFFSET
    solution = _solved(said, tpot, ttft, None if with_offset else offset)
    if with_offset and solution[2] < 0:
        solution = _solved(said, tpot, ttft, 0.0)
    decode, prefill, offset = (float(value) for value in solution)
    hint = "" if with_offset else ", or its offset differs: three loads would tell"
    wrong = [
        f"{name} scale {scale:.3g}: not a run of the deployment that the case describes{hint}"
        for name, scale in (("decode", decode), ("prefill", prefill))
        if not 1 / LARGEST_SCALE <= scale <= LARGEST_SCALE
    ]
    if wrong:
        raise CannotCalibrateError(wrong)
    before = _predicted(said, 1.0, 1.0, None)
    after = _predicted(said, decode, prefill, offset)
    return Scales(
        decode_scale=decode,
        prefill_scale=prefill,
        ttft_offset_s=offset,
        offset_fitted=with_offset,
        tpot_errors_before=_errors(before[0], tpot),
        tpot_errors_after=_errors(after[0], tpot),
        ttft_errors_before=_errors(before[1], ttft),
        ttft_errors_after=_errors(after[1], ttft),
        refused=reasons,
    )


def refusals(points: Sequence[Point], parts: Sequence[Parts]) -> dict[int, str]:
    """Why some of the runs cannot tell, by their place: too short, or saturated."""
    found = {}
    for place, (point, part) in enumerate(zip(points, parts, strict=True)):
        reason = _too_short(point) or _saturated(point, part)
        if reason is not None:
            found[place] = f"concurrency {point.concurrency:g}: {reason}"
    by_load = sorted(range(len(points)), key=lambda place: points[place].concurrency)
    for less, more in pairwise(by_load):
        low, high = points[less], points[more]
        grows = high.concurrency > low.concurrency * (1 + SAME_LOAD_FRAC)
        comparable = abs(high.answer_tokens / low.answer_tokens - 1) <= SAME_LOAD_FRAC
        flat = high.tokens_per_s < low.tokens_per_s * (1 + FLAT_FRAC)
        if more not in found and grows and comparable and (flat or less in _saturations(found)):
            found[more] = (
                f"concurrency {high.concurrency:g}: saturated, no more tokens/s than at "
                f"{low.concurrency:g}"
            )
    return found


def _saturations(found: dict[int, str]) -> set[int]:
    return {place for place, reason in found.items() if "saturated" in reason}


def _too_short(point: Point) -> str | None:
    if point.answer_tokens < FEWEST_ANSWER_TOKENS:
        return f"too short, answers of {point.answer_tokens:g} tokens hold no steady decoding"
    if point.n_requests is None:
        return None
    needed = max(FEWEST_REQUESTS, FEWEST_TURNS * point.concurrency)
    if point.n_requests < needed:
        return f"too short, {point.n_requests} requests; at least {needed:g} are needed"
    return None


def _saturated(point: Point, part: Parts) -> str | None:
    if point.slots is not None and point.concurrency > point.slots:
        return f"saturated, the cache holds {point.slots:g} sequences"
    expected = part.offset_s + part.wait_s + part.prompt_s
    if point.ttft_s > max(point.residence_s / 2, LARGEST_SCALE * expected):
        return "saturated, requests wait longer than they decode"
    return None


def _solved(
    parts: Sequence[Parts], tpot: Floats, ttft: Floats, offset: float | None
) -> tuple[float, float, float]:
    """Least squares on relative errors; `offset` given, or fitted too."""
    step, stall, wait, prompt = (
        np.array([getattr(part, name) for part in parts])
        for name in ("step_s", "stall_s", "wait_s", "prompt_s")
    )
    none, one = np.zeros(len(parts)), np.ones(len(parts))
    left = np.concatenate([np.stack([step, stall, none], 1), np.stack([wait, prompt, one], 1)])
    right = np.concatenate([tpot, ttft])
    if offset is not None:
        right, left = right - left[:, 2] * offset, left[:, :2]
    weight = 1 / np.concatenate([tpot, ttft])
    solution, _, rank, _ = np.linalg.lstsq(left * weight[:, None], right * weight, rcond=1e-9)
    if rank < left.shape[1]:
        raise CannotCalibrateError(["the runs do not tell decoding from prefill"])
    decode, prefill = solution[:2]
    return float(decode), float(prefill), float(solution[2]) if offset is None else offset


def _predicted(
    parts: Sequence[Parts], decode: float, prefill: float, offset: float | None
) -> tuple[Floats, Floats]:
    tpot = [decode * part.step_s + prefill * part.stall_s for part in parts]
    ttft = [
        (part.offset_s if offset is None else offset)
        + decode * part.wait_s
        + prefill * part.prompt_s
        for part in parts
    ]
    return np.array(tpot), np.array(ttft)


def _errors(predicted: Floats, measured: Floats) -> tuple[float, ...]:
    return tuple(float(error) for error in predicted / measured - 1)
