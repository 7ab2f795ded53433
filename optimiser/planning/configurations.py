"""Every configuration that a case allows with what the engine says of each, or why it is out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from optimiser.case import Case
from optimiser.engine import memory
from optimiser.engine.replicas import Floats, Ints, Lengths
from optimiser.engine.serving import largest_batch_where
from optimiser.errors import CaseError, Mistake
from optimiser.planning.columns import columns
from optimiser.planning.design import Configuration
from optimiser.planning.legal import legal_sizes, why_illegal
from optimiser.planning.margin import slo_margin
from optimiser.planning.pace import Pace, pace_of
from optimiser.planning.rental import rentals, undominated
from optimiser.units import TOLERANCE, budget_nano_usd, s_of_ms

LARGEST_NEED = 1e9
"""Replicas beyond which a demand is refused: whole-number arithmetic must stay in 64 bits."""


@dataclass(frozen=True, slots=True)
class Need:
    """A demand on replicas that falls, convexly, as the batch grows."""

    name: str
    """Prefix of its rows in the program: `capacity` or `concurrency`."""
    field: str
    """Field of the case that asks for it."""
    replicas: Callable[[Ints, Ints], Floats]
    """Replicas needed, not rounded, of configurations (by index) at a batch."""

    def whole(self, index: Ints, batch: Ints) -> Ints:
        """Whole replicas needed, boundary included."""
        return np.ceil(self.replicas(index, batch) * (1 - TOLERANCE)).astype(np.int64)

    def of(self, kept: Ints) -> "Need":
        """The same need of some of the configurations, counted anew."""
        return replace(self, replicas=lambda index, batch: self.replicas(kept[index], batch))


@dataclass(frozen=True, slots=True)
class Space:
    """The configurations of a case as the program sees them: bounds and needs, by index."""

    case: Case
    configurations: tuple[Configuration, ...]
    excluded: tuple[tuple[str, str], ...]
    """Combinations left out: what, and why."""
    unit_nano_usd: Ints
    """Price of one unit (an instance, or one replica's GPUs) for an hour, whole nano-dollars."""
    unit_replicas: Ints
    """Replicas that one unit holds."""
    unit_gpus: Ints
    """GPUs that one unit is charged for."""
    batch_by_memory: Ints
    """Largest batch that fits, up to the case's own limit; 0 where nothing fits."""
    batch_by_tpot: Ints
    """Largest batch within the TPOT target, up to the case's own limit; 0 where none is."""
    batch_by_ttft: Ints
    """Largest batch within the TTFT target, up to the case's own limit; 0 where none is."""
    needs: tuple[Need, ...]

    def __len__(self) -> int:
        return len(self.configurations)

    @property
    def largest_batch(self) -> Ints:
        """Largest batch that complies, 0 where none does."""
        by_latency = np.minimum(self.batch_by_tpot, self.batch_by_ttft)
        return np.minimum(self.batch_by_memory, by_latency)

    def fewest_replicas(self, batch: Ints) -> Ints:
        """Fewest replicas that meet every need at a batch (0 counts as 1)."""
        index = np.arange(len(self))
        at = np.maximum(batch, 1)
        least = np.full(len(self), self.case.limits.least_replicas or 1, dtype=np.int64)
        for need in self.needs:
            least = np.maximum(least, need.whole(index, at))
        return least

    def units(self, replicas: Ints) -> Ints:
        """Priced units that hold so many replicas."""
        return -(-replicas // self.unit_replicas)

    def cost_nano_usd(self, replicas: Ints) -> Ints:
        """Cost of so many replicas for an hour, whole nano-dollars."""
        return self.units(replicas) * self.unit_nano_usd

    @property
    def compliant(self) -> NDArray[np.bool_]:
        """Whether a configuration, at its largest batch, meets all that the case asks for."""
        limits, batch = self.case.limits, self.largest_batch
        replicas = self.fewest_replicas(batch)
        able = batch > 0
        if limits.most_gpus is not None:
            able &= self.units(replicas) * self.unit_gpus <= limits.most_gpus
        if limits.usd_per_hour is not None:
            able &= self.cost_nano_usd(replicas) <= budget_nano_usd(limits.usd_per_hour)
        return able

    def only(self, index: Ints) -> "Space":
        """The space of some of the configurations."""
        return Space(
            self.case,
            tuple(self.configurations[i] for i in index),
            self.excluded,
            self.unit_nano_usd[index],
            self.unit_replicas[index],
            self.unit_gpus[index],
            self.batch_by_memory[index],
            self.batch_by_tpot[index],
            self.batch_by_ttft[index],
            tuple(need.of(index) for need in self.needs),
        )

    def relaxed(self, fields: frozenset[str]) -> "Space":
        """The space without the requirements of some fields of the case."""
        most = self.case.levers.batch.most
        everywhere = np.full(len(self), most, dtype=np.int64)
        traffic = f"brief.{self.case.brief.traffic_field}" in fields
        return replace(
            self,
            batch_by_memory=everywhere if "hardware.gpus" in fields else self.batch_by_memory,
            batch_by_tpot=everywhere if "brief.tpot_target_ms" in fields else self.batch_by_tpot,
            batch_by_ttft=everywhere if "brief.ttft_target_s" in fields else self.batch_by_ttft,
            needs=() if traffic else self.needs,
        )


def configurations(case: Case) -> Space:
    """Every combination of levers, GPUs, tensor-parallel sizes and offers that the case allows.

    Raises CaseError where no combination is legal, or where the demand is too large to count.
    """
    legal: list[Configuration] = []
    excluded: dict[tuple[str, str], None] = {}
    for gpu, size in product(case.hardware.gpus, case.levers.tensor_parallel):
        choices = rentals(case, gpu)
        node = max(choice.node for choice in choices)
        kept = undominated(choices, size, count_gpus=case.limits.most_gpus is not None)
        for weights, heads in product(case.weights, case.kv_heads):
            reason = why_illegal(case.model, weights, heads, size, node)
            if reason:
                excluded[f"tensor parallel {size} on {gpu.name}", reason] = None
                continue
            legal += [
                Configuration(weights, cache, heads, gpu, size, rental)
                for cache, rental in product(case.levers.kv_cache, kept)
            ]
    if not legal:
        raise CaseError([_no_legal_size(case, [reason for _, reason in excluded])])
    return _space(case, legal, tuple(excluded))


def _no_legal_size(case: Case, reasons: Sequence[str]) -> Mistake:
    sizes: set[int] = set()
    for gpu in case.hardware.gpus:
        node = max(choice.node for choice in rentals(case, gpu))
        for weights, heads in product(case.weights, case.kv_heads):
            sizes.update(legal_sizes(case.model, weights, heads, node))
    told = "; ".join(dict.fromkeys(reasons))
    field = "levers.tensor_parallel"
    message = f"{told}; legal: {', '.join(map(str, sorted(sizes))) or 'none'}"
    return Mistake(case.where(field), field, message)


def _space(
    case: Case, chosen: Sequence[Configuration], excluded: tuple[tuple[str, str], ...]
) -> Space:
    lengths = Lengths(case.brief.prompt_tokens, case.brief.answer_tokens)
    engine = columns(case, chosen, lengths)
    most = case.levers.batch.most
    pace = pace_of(case, chosen, engine, lengths)
    margin = slo_margin(case) * (1 + TOLERANCE)
    tpot_limit_s = s_of_ms(case.brief.tpot_target_ms) * margin
    ttft_limit_s = case.brief.ttft_target_s * margin
    space = Space(
        case=case,
        configurations=tuple(chosen),
        excluded=excluded,
        unit_nano_usd=np.array(
            [c.rental.nano_usd_per_unit(c.tensor_parallel) for c in chosen], dtype=np.int64
        ),
        unit_replicas=np.array(
            [c.rental.replicas_per_unit(c.tensor_parallel) for c in chosen], dtype=np.int64
        ),
        unit_gpus=np.array(
            [c.rental.gpus_per_unit(c.tensor_parallel) for c in chosen], dtype=np.int64
        ),
        batch_by_memory=memory.largest_batch(engine, most),
        batch_by_tpot=largest_batch_where(
            lambda batch: pace.tpot_s(np.maximum(batch, 1)) <= tpot_limit_s, len(chosen), most
        ),
        batch_by_ttft=largest_batch_where(
            lambda batch: pace.ttft_s(np.maximum(batch, 1)) <= ttft_limit_s, len(chosen), most
        ),
        needs=tuple(_needs(case, pace)),
    )
    _refuse_uncountable(space)
    return space


def _needs(case: Case, pace: Pace) -> list[Need]:
    demand = case.brief.rate * case.assumptions.headroom
    field = f"brief.{case.brief.traffic_field}"

    def capacity(index: Ints, batch: Ints) -> Floats:
        return demand * pace.request_replica_s(index, batch)

    needs = [Need("capacity", field, capacity)]
    users = case.brief.concurrent_users
    if users is not None:
        needs.append(Need("concurrency", field, lambda index, batch: users / (batch + 0.0 * index)))
    return needs


def _refuse_uncountable(space: Space) -> None:
    """Refuse a demand whose replicas or dollars would not fit whole-number arithmetic."""
    every = np.arange(len(space))
    one = np.ones(len(space), dtype=np.int64)
    most = max(float(need.replicas(every, one).max()) for need in space.needs)
    if most > LARGEST_NEED or most * float(space.unit_nano_usd.max()) > 2**61:
        case = space.case
        field = f"brief.{case.brief.traffic_field}"
        message = f"a demand for {most:.3g} replicas is too large to plan exactly"
        raise CaseError([Mistake(case.where(field), field, message)])
