"""Predicted against measured as points, drawn with matplotlib: PNG, SVG, or a page."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from optimiser.engine.replicas import Floats
from optimiser.files import replacing, write
from optimiser.review.page import page
from optimiser.review.plot import COLOURS, MARKERS, STYLE, require
from optimiser.review.review import Review
from optimiser.studies.validation import Keep, Predictions, Validation
from optimiser.units import MS_PER_S

PANELS = (
    ("TPOT, ms", "tpot_s", MS_PER_S),
    ("TTFT, ms", "ttft_s", MS_PER_S),
    ("answer tokens/s of a replica", "tokens_per_s", 1.0),
)
IDEAL_COLOUR = "#c8c8c8"
SIZE_INCHES = (12.0, 4.8)


def write_scatter(path: Path, found: Validation, review: Review) -> None:
    """Draw a validation to a file, by its ending: .png, .svg or .html."""
    require()
    ending = path.suffix.lower()
    if ending == ".html":
        svg = _drawn(found, "svg").decode()
        write(path, page(review, svg[svg.index("<svg") :]))
        return
    with replacing(path) as temporary:
        temporary.write_bytes(_drawn(found, ending[1:]))


def _drawn(found: Validation, kind: str) -> bytes:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained", dpi=150)
        for pane, (label, name, unit) in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
            _panel(pane, found, name, unit)
            pane.set_xlabel(f"measured {label}")
            pane.set_ylabel("predicted")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside lower left", ncols=len(labels), fontsize=8, frameon=False
        )
        figure.suptitle(f"{found.source}: predicted against measured", fontsize=11)
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, metadata={"Date": None} if kind == "svg" else {})
    return buffer.getvalue()


def _panel(pane: Any, found: Validation, name: str, unit: float) -> None:
    from matplotlib.ticker import NullFormatter

    predicted: Floats = getattr(found.predicted, name) * unit
    measured = predicted / getattr(found.ratios, name)
    known: Keep = ~np.isnan(measured)
    pane.set(xscale="log", yscale="log")
    if not known.any():
        return
    ideal = measured * _named(found.ideal_ratios, name)
    dots: Any = {"s": 9, "linewidths": 0, "alpha": 0.7}
    pane.scatter(measured[known], ideal[known], color=IDEAL_COLOUR, label="ideal", **dots)
    engines = sorted({row.engine for row in found.rows})
    for n, engine in enumerate(engines):
        its = known & found.where(lambda row, of=engine: row.engine == of)  # type: ignore[misc]
        colour, marker = COLOURS[n % len(COLOURS)], MARKERS[n % len(MARKERS)]
        pane.scatter(
            measured[its], predicted[its], color=colour, marker=marker, label=engine, **dots
        )
    ends = [float(measured[known].min()), float(measured[known].max())]
    pane.plot(ends, ends, color="#444444", linewidth=0.8, label="as measured")
    for axis in (pane.xaxis, pane.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        axis.set_minor_formatter(NullFormatter())


def _named(ratios: Predictions, name: str) -> Floats:
    found: Floats = getattr(ratios, name)
    return found
