"""The review of a comparison."""

from optimiser.review.numbers import count, per_cent, usd
from optimiser.review.review import BOTTLENECKS, Review, Table
from optimiser.review.rows import COLUMNS, cells, row_data
from optimiser.studies.compare import RESOURCES, Comparison, resource_price


def compare_review(found: Comparison) -> Review:
    """One table, cheapest first, the winner marked, and why it wins."""
    baseline, winner = found.baseline, found.winner
    rows = sorted([baseline, *found.rows], key=lambda row: row is not winner)
    table = tuple(
        (
            ("→ " if row is winner else "  ")
            + row.name
            + (" (baseline)" if row is baseline else ""),
            *cells(row, baseline.planned),
        )
        for row in rows
    )
    return Review(
        title=f"{baseline.name}: {count(len(found.rows), 'alternative')}",
        headline="no alternative complies" if winner is None else f"cheapest: {winner.name}",
        good=winner is not None,
        steps=(),
        tables=(Table("Comparison", ("", *COLUMNS), table, text=(0, 1, 9)),),
        closing=tuple(filter(None, [_why(found)])),
        notes=(),
        data={
            "baseline": row_data(baseline),
            "rows": [row_data(row) for row in found.rows],
            "winner": None if winner is None else winner.name,
        },
    )


def _why(found: Comparison) -> str:
    """Which resource the winner is cheaper in than the next best."""
    winner = found.winner
    if winner is None or winner.planned is None:
        return ""
    others = [row for row in (found.baseline, *found.rows) if row.planned and row is not winner]
    if not others:
        return f"{winner.name} is the only one that complies"
    second = min(others, key=lambda row: row.planned.verdict.figures.usd_per_hour)  # type: ignore[union-attr]
    if second.planned is None:
        return ""
    if winner is found.baseline:
        return "no alternative is cheaper than the case as it stands"
    kind = winner.planned.verdict.figures.bottleneck
    resource = RESOURCES[kind]
    mine, its = (resource_price(row.planned, resource) for row in (winner, second))  # type: ignore[arg-type]
    if mine < its:
        return (
            f"{winner.name} wins over {second.name}: its bottleneck is {BOTTLENECKS[kind]}, and a "
            f"{resource} costs {usd(mine)} an hour there, {per_cent(1 - mine / its)} less"
        )
    gpus = winner.planned.design.rented_gpus, second.planned.design.rented_gpus
    return (
        f"{winner.name} wins over {second.name} with {count(gpus[0], 'GPU')} against {gpus[1]:,}, "
        f"although a {resource} (its bottleneck is {BOTTLENECKS[kind]}) costs {usd(mine)} an hour "
        f"there against {usd(its)}"
    )
