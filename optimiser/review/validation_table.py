"""The table of a validation that a README carries, in Markdown."""

from optimiser.review.numbers import per_cent
from optimiser.review.validate import slices
from optimiser.studies.validation import Errors, Predictions, Validation

START, END = "<!-- validation-table -->", "<!-- /validation-table -->"
HEADER = (
    "| mean (median) error | rows | TPOT, ideal | measured | groups not seen | TTFT, ideal "
    "| measured | groups not seen |"
)


def validation_table(found: Validation) -> str:
    """Mean and median errors by GPU, engine and model; the rows left out below.

    Raises ValueError where no residuals of fits without a row's group are stored.
    """
    unseen = found.unseen_ratios
    if unseen is None:
        raise ValueError("only the shipped runs have stored residuals")
    lines = [HEADER, "|---|" + "--:|" * 7]
    for name, keep in slices(found):
        ways = [way.accuracy(keep) for way in (found.ideal_ratios, found.ratios, unseen)]
        cells = [_cell(way.tpot) for way in ways] + [_cell(way.ttft) for way in ways]
        lines.append(f"| {name} | {int(keep.sum()):,} | {' | '.join(cells)} |")
    left_out, uncompared = (
        "; ".join(f"{why} ({n:,})" for why, n in reasons.items())
        for reasons in (found.reasons, found.ttft_reasons)
    )
    return "\n".join(
        [
            *lines,
            "",
            f"Throughput: {_throughput(found.ideal_ratios, found)} ideal, "
            f"{_throughput(found.ratios, found)} measured, "
            f"{_throughput(unseen, found)} groups not seen. Rows left out: {left_out}. "
            f"Left out of TTFT alone: {uncompared}.",
        ]
    )


def _cell(of: Errors | None) -> str:
    return "" if of is None else f"{per_cent(of.mean_frac)} ({per_cent(of.median_frac)})"


def _throughput(ratios: Predictions, found: Validation) -> str:
    return _cell(ratios.accuracy(found.everything).throughput)
