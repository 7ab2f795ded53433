"""The review of a fit: the terms, what is left, and for how many at which context."""

from optimiser.planning.fit import Fit
from optimiser.review.numbers import count, plain
from optimiser.review.review import Review, Table


def fit_review(found: Fit) -> Review:
    """Whether a model fits, and where the memory goes."""
    where = f"{found.llm.name} on {count(found.tensor_parallel, 'GPU')} of {found.gpu.name}"
    if found.fits:
        headline = (
            f"fits: {found.kv_tokens:,.0f} tokens of KV cache, "
            f"{count(found.max_sequences, 'sequence')} at {found.context:,} tokens"
        )
    else:
        headline = (
            f"does not fit: a sequence of {found.context:,} tokens lacks "
            f"{found.shortfall_gib:.2f} GiB per GPU; the largest context that fits is "
            f"{found.largest_context:,} tokens"
        )
    terms = tuple((name, f"{value:+,.2f} GiB") for name, value in found.terms)
    facts = (
        ("KV cache of one token, per GPU", f"{plain(found.kv_bytes_per_token_per_gpu)} B"),
        ("largest context that fits", f"{found.largest_context:,} tokens"),
    )
    return Review(
        title=where,
        headline=headline,
        good=found.fits,
        steps=(),
        tables=(
            Table("Memory of one GPU", ("", "GiB"), terms),
            Table("Cache", ("", ""), facts),
        ),
        closing=(),
        notes=tuple(f"assumed {line}" for line in found.assumed),
        data={
            "fits": found.fits,
            "model": found.llm.name,
            "gpu": found.gpu.name,
            "tensor_parallel": found.tensor_parallel,
            "context": found.context,
            "weight_gib_per_gpu": found.weight_gib_per_gpu,
            "kv_bytes_per_token_per_gpu": found.kv_bytes_per_token_per_gpu,
            "kv_gib_per_gpu": found.kv_gib_per_gpu,
            "kv_tokens": found.kv_tokens,
            "max_sequences": found.max_sequences,
            "largest_context": found.largest_context,
            "shortfall_gib": found.shortfall_gib,
            "terms": [{"name": name, "gib": value} for name, value in found.terms],
            "assumed": list(found.assumed),
        },
    )
