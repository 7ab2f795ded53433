"""The order among designs of equal cost: total, so that one case always gives one design."""

import math
from collections.abc import Iterator, Sequence

import pulp

from optimiser.catalogue.formats import CACHE_FORMATS, WEIGHT_FORMATS
from optimiser.planning.design import Configuration
from optimiser.planning.one_pool import OnePool

OWN_BITS = 16
"""Bits of the numbers that most models are published in."""


def preferences(
    program: OnePool, first: Sequence[int] = (), last: Sequence[int] = ()
) -> Iterator[tuple[str, list[tuple[pulp.LpVariable, float]]]]:
    """Objectives to minimise in turn once the cost is settled, less those that cannot differ.

    A caller's own weights of the configurations come `first` and `last`.

    Least change to the model first (KV heads, then weight bits, then cache bits), fewest GPUs,
    smallest tensor parallel, largest batch, and at last the GPU's name and the catalogue's order
    of formats, so that no two designs tie.
    """
    configurations = program.space.configurations
    own = program.space.case.model.kv_heads
    changes = _ranks([change(c, own) for c in configurations])
    names = _ranks([name_order(c) for c in configurations])
    sizes = [c.tensor_parallel for c in configurations]
    if any(first):
        yield "first", _weighted(program, first)
    if any(changes):
        yield "least change", _weighted(program, changes)
    if len(program.groups) > 1 or program.groups[0].unit_replicas > 1:
        yield "fewest GPUs", [(g.replicas, g.tensor_parallel) for g in program.groups]
    if len(program.groups) > 1:
        yield "smallest tensor parallel", _weighted(program, sizes)
    yield "largest batch", [(program.batch, -1)]
    if any(names):
        yield "name", _weighted(program, names)
    if any(last):
        yield "last", _weighted(program, last)


def _weighted(program: OnePool, weights: Sequence[int]) -> list[tuple[pulp.LpVariable, float]]:
    return [(use, weight) for use, weight in zip(program.use, weights, strict=True) if weight]


def change(configuration: Configuration, own_kv_heads: int) -> tuple[float, float, float]:
    """How far a configuration changes the model: KV heads, then weight bits, then cache bits."""
    kept = own_kv_heads == configuration.kv_heads
    steps = 0.0 if kept else abs(math.log2(own_kv_heads / configuration.kv_heads))
    weights = WEIGHT_FORMATS[configuration.weights].bits
    cache = CACHE_FORMATS[configuration.kv_cache].bits
    return steps, max(0.0, OWN_BITS - weights), max(0.0, OWN_BITS - cache)


def name_order(configuration: Configuration) -> tuple[str, int, int, int, str, str]:
    """The last resort among designs that are equal in all else."""
    rental = configuration.rental
    return (
        configuration.gpu.name,
        list(WEIGHT_FORMATS).index(configuration.weights),
        list(CACHE_FORMATS).index(configuration.kv_cache),
        -configuration.kv_heads,
        rental.offer.name if rental.offer else "",
        rental.term,
    )


def _ranks(
    keys: list[tuple[float, float, float]] | list[tuple[str, int, int, int, str, str]],
) -> list[int]:
    """Each key's place among the distinct keys, from 0."""
    place = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    return [place[key] for key in keys]
