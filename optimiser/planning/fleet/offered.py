"""A class of traffic on each configuration: its demand, its promises, and what requests take."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optimiser.case import Case
from optimiser.engine.latency_parts import LatencyColumns
from optimiser.engine.replicas import Floats, Lengths, Replicas
from optimiser.planning.columns import columns
from optimiser.planning.design import Configuration
from optimiser.planning.fleet.parts import Part
from optimiser.planning.fleet.pools import Bools
from optimiser.planning.fleet.shares import Offered
from optimiser.planning.margin import is_measured, slo_margin
from optimiser.planning.pace import latency_columns
from optimiser.units import s_of_ms


def offered_of(
    one: Case,
    rows: Sequence[tuple[Case, float]],
    chosen: Sequence[Configuration],
    admitted: Bools,
) -> Offered:
    """A class on the configurations; `rows` are the cases of its lengths with their shares."""
    brief, margin = one.brief, slo_margin(one)
    parts = _parts(one, rows, chosen)
    return Offered(
        requests_per_s=brief.rate * one.assumptions.headroom,
        lengths=_lengths(one),
        ttft_target_s=brief.ttft_target_s * margin,
        tpot_target_s=s_of_ms(brief.tpot_target_ms) * margin,
        replicas=_mean_replicas(parts),
        admitted=admitted,
        users=brief.concurrent_users or 0.0,
        latency=_mean_latency(parts),
        most_batch=one.levers.batch.most,
        parts=parts if len(parts) > 1 else (),
    )


def _lengths(one: Case) -> Lengths:
    return Lengths(one.brief.prompt_tokens, one.brief.answer_tokens)


def _parts(
    one: Case, rows: Sequence[tuple[Case, float]], chosen: Sequence[Configuration]
) -> tuple[Part, ...]:
    times: Sequence[LatencyColumns | None] = [None] * len(rows)
    if is_measured(one):
        times = latency_columns(one, chosen, [row for row, _ in rows])
    return tuple(
        Part(share, _lengths(row), columns(row, chosen, _lengths(row)), time)
        for (row, share), time in zip(rows, times, strict=True)
    )


def _mean_replicas(parts: Sequence[Part]) -> Replicas:
    """The mean of a prompt, and of a sequence in flight: an answer of s tokens is met s times."""
    first = parts[0].replicas
    if len(parts) == 1:
        return first
    return replace(
        first,
        prefill_flops=_mean(_by_request(parts), [p.replicas.prefill_flops for p in parts]),
        kv_held_bytes=_mean(_in_flight(parts), [p.replicas.kv_held_bytes for p in parts]),
        kv_read_bytes=_mean(_in_flight(parts), [p.replicas.kv_read_bytes for p in parts]),
        decode_flops=_mean(_in_flight(parts), [p.replicas.decode_flops for p in parts]),
    )


def _mean_latency(parts: Sequence[Part]) -> LatencyColumns | None:
    """The same of the measured times."""
    found = [part.latency for part in parts if part.latency is not None]
    if len(found) < 2:
        return found[0] if found else None
    return replace(
        found[0],
        prompt_tokens=_mean(_by_request(parts), [one.prompt_tokens for one in found]),
        answer_tokens=_mean(_by_request(parts), [one.answer_tokens for one in found]),
        prompt_attention_s=_mean(_by_request(parts), [one.prompt_attention_s for one in found]),
        sequence_s=_mean(_in_flight(parts), [one.sequence_s for one in found]),
    )


def _by_request(parts: Sequence[Part]) -> Floats:
    return np.array([part.share for part in parts])


def _in_flight(parts: Sequence[Part]) -> Floats:
    weights = np.array([part.share * part.lengths.answer for part in parts])
    return np.asarray(weights / weights.sum())


def _mean(weights: Floats, values: Sequence[Floats]) -> Floats:
    total: Floats = (weights[:, None] * np.stack(values)).sum(axis=0)
    return total
