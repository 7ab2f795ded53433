"""How fast configurations go: the ideal roofline or the measured model, behind one face."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from optimiser.case import Case
from optimiser.catalogue.latency_constants import Deployment, LatencyConstants
from optimiser.engine import latency, roofline, serving
from optimiser.engine.columns_of_shape import latency_row
from optimiser.engine.latency_parts import LatencyColumns, columns_of
from optimiser.engine.replicas import Floats, Ints, Lengths, Replicas
from optimiser.planning.deployment import constants, deployment, under
from optimiser.planning.design import Configuration


class Pace(Protocol):
    """Times of configurations at a batch; TPOT and TTFT rise with it, the request's cost falls."""

    def tpot_s(self, batch: Ints) -> Floats:
        """Mean time per output token of every configuration at its batch, s."""

    def ttft_s(self, batch: Ints) -> Floats:
        """Time to first token of every configuration at its batch, s."""

    def request_replica_s(self, index: Ints, batch: Ints) -> Floats:
        """Replica-seconds that a request costs, of configurations by index, s."""


@dataclass(frozen=True, slots=True)
class IdealPace:
    """The page's roofline: prefill and decode apart, nothing waits."""

    engine: Replicas
    lengths: Lengths

    def tpot_s(self, batch: Ints) -> Floats:
        """One decode step."""
        return roofline.decode_step_s(self.engine, batch)

    def ttft_s(self, batch: Ints) -> Floats:
        """One prefill, whatever the batch."""
        return roofline.prefill_s(self.engine, self.lengths) + 0.0 * batch

    def request_replica_s(self, index: Ints, batch: Ints) -> Floats:
        """Decode steps shared by the batch, and one prefill."""
        return serving.request_replica_s(self.engine.rows(index), self.lengths, batch)


@dataclass(frozen=True, slots=True)
class MeasuredPace:
    """The model fitted to measured servers, stalls and waiting included."""

    columns: LatencyColumns

    def tpot_s(self, batch: Ints) -> Floats:
        """Decode steps, and the stalls of others' prompts."""
        return latency.tpot_s(self.columns, batch)

    def ttft_s(self, batch: Ints) -> Floats:
        """Offset, waiting for steps, and prefill."""
        return latency.ttft_s(self.columns, batch)

    def request_replica_s(self, index: Ints, batch: Ints) -> Floats:
        """Residence over batch."""
        return latency.request_replica_s(self.columns.rows(index), batch)


def pace_of(
    case: Case, chosen: Sequence[Configuration], engine: Replicas, lengths: Lengths
) -> Pace:
    """The pace of configurations in the fidelity that a case asks for."""
    if case.assumptions.latency == "ideal":
        return IdealPace(engine, lengths)
    return MeasuredPace(latency_columns(case, chosen, [case])[0])


def latency_columns(
    case: Case, chosen: Sequence[Configuration], traffic: Sequence[Case]
) -> list[LatencyColumns]:
    """The measured model's columns of configurations, one for each traffic that they may serve."""
    known = {gpu.name: constants(case, gpu) for gpu in case.hardware.gpus}
    kinds: dict[tuple[object, ...], int] = {}
    index: list[int] = []
    deployed: list[tuple[Deployment, LatencyConstants]] = []
    for c in chosen:
        key = (c.gpu.name, c.weights, c.kv_cache, c.kv_heads, c.tensor_parallel)
        if key not in kinds:
            kinds[key] = len(deployed)
            deployed.append((deployment(case, c), known[c.gpu.name]))
        index.append(kinds[key])
    return [
        columns_of([latency_row(under(at, one), own) for at, own in deployed]).rows(np.array(index))
        for one in traffic
    ]
