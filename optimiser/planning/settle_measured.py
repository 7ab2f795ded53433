"""Where a pool settles with measured latency, in scalar code.

Prefills take r = Σ y · P / n of the time of every one of n replicas, P the marginal cost of a
prompt. With decode steps of τ a token is felt to take τ / (1 - r), and on average a replica holds

    C_w(τ) = y_w / n · (TTFT_w(τ) + (S_w - 1) · τ / (1 - r)),  TTFT_w = offset + waits · τ + prompt

sequences of each class. The pool settles at the least τ that the step of such a batch keeps to.
"""

import math
from collections.abc import Sequence

from optimiser.case import Case
from optimiser.planning.deployment import constants, deployment
from optimiser.planning.design import Design
from optimiser.planning.latency_scalar import Latency
from optimiser.planning.mix import Mix, Routed, memory_frac_of, overwhelmed
from optimiser.planning.scalar import replica_of
from optimiser.units import at_most

ROUNDS = 100_000
CLOSE = 1e-11
"""Relative: a step time this much above the last round is tried as the answer."""
TOO_LONG_S = 1e6


def latency_of(case: Case, design: Design) -> Latency:
    """A design's times under a case's traffic."""
    made = design.configuration
    return Latency(deployment(case, made), constants(case, made.gpu))


def settle_measured(design: Design, working: int, routed: Sequence[Routed]) -> Mix:
    """Where so many working replicas of a design settle under a mix of classes."""
    cases = [(case, rate) for one in routed for case, rate in one.parts]
    parts = [(latency_of(case, design), rate / working) for case, rate in cases]
    prefill_s = {
        one.case.name: one.mean(lambda case: latency_of(case, design).prefill_s()) for one in routed
    }
    busy = sum(rate * part.marginal_prefill_s() for part, rate in parts)
    step_s = _step_s(parts, busy)
    if math.isinf(step_s):
        return overwhelmed(prefill_s, busy)
    counts = _counts(parts, busy, step_s)
    replicas = [replica_of(case, design) for case, _ in cases]
    ttft_s = {
        one.case.name: one.mean(lambda case: latency_of(case, design).first_token_s(step_s))
        for one in routed
    }
    return Mix(
        step_s,
        step_s / (1 - busy),
        sum(counts),
        memory_frac_of(list(zip(replicas, counts, strict=True))),
        prefill_s,
        ttft_s,
        busy,
    )


def _counts(parts: Sequence[tuple[Latency, float]], busy: float, step_s: float) -> list[float]:
    felt_s = step_s / (1 - busy)
    return [
        rate * (part.first_token_s(step_s) + (part.at.answer_tokens - 1) * felt_s)
        for part, rate in parts
    ]


def _step_s(parts: Sequence[tuple[Latency, float]], busy: float) -> float:
    """The least step time that the mix keeps to, from just above; inf where there is none.

    The step of the batch rises with the step time by at least a · τ, the part of the sequences
    themselves. Taking that part out, rounds from below rise to the least solution and never past.
    """
    if busy >= 1:
        return math.inf
    first = parts[0][0]

    def step_of(step_s: float) -> float:
        counts = _counts(parts, busy, step_s)
        running = [(part, count) for (part, _), count in zip(parts, counts, strict=True)]
        return first.mixed_step_s(running)

    still, moving = _counts(parts, busy, 0.0), _counts(parts, busy, 1.0)
    slope = first.constants.decode_scale * sum(
        (after - before) * part.sequence_s()
        for (part, _), before, after in zip(parts, still, moving, strict=True)
    )
    if slope >= 1:
        return math.inf
    low = 0.0
    for _ in range(ROUNDS):
        raised = (step_of(low) - slope * low) / (1 - slope)
        above = raised * (1 + CLOSE)
        if step_of(above) <= above:
            return above
        if raised > TOO_LONG_S:
            return math.inf
        low = max(low, raised)
    return math.inf


def settle_alone(design: Design, working: int, routed: Routed) -> Mix:
    """One class with nothing beside it, in a closed loop of the design's batch.

    As one workload is verified: its replicas cannot keep up where they carry less than is routed.
    """
    part, batch = latency_of(routed.case, design), design.batch
    name, prompt_s = routed.case.name, part.prefill_s()
    rate = routed.requests_per_s / working
    busy = rate * part.marginal_prefill_s()
    if not at_most(rate * part.request_replica_s(batch), 1.0):
        return overwhelmed({name: prompt_s}, busy)
    memory_frac = memory_frac_of([(replica_of(routed.case, design), float(batch))])
    return Mix(
        part.decode_step_s(batch),
        part.tpot_s(batch),
        float(batch),
        memory_frac,
        {name: prompt_s},
        {name: part.ttft_s(batch)},
        busy,
    )
