"""A chart drawn with matplotlib: PNG, SVG, or a page of its own with the tables below it."""

import io
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from typing import Any

from optimiser.errors import OptimiseError
from optimiser.files import replacing, write
from optimiser.review.chart import Chart, Mark, Panel
from optimiser.review.page import page
from optimiser.review.review import Review

ENDINGS = (".png", ".svg", ".html")
COLOURS = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00",
    "#7f3c8d", "#8c6d31", "#999999", "#1b1b1b", "#a6d854", "#e7298a",
    "#f0c808", "#00429d", "#5d9c59", "#c0504d", "#aec7e8", "#ffbb78", "#98df8a", "#c5b0d5",
)  # fmt: skip
MARKERS = "osD^vP*X<>"
STYLE: Any = {
    "text.parse_math": False,  # a dollar is a dollar
    "svg.hashsalt": "optimise",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
}
PANEL_INCHES = (9.0, 3.4)
LONGEST_OF_TWO = 60
"""Characters of a legend's entry up to which two stand side by side."""
SHORT, LONG = 10, 20_000
"""Spreads of values, largest ÷ smallest, that ticks go by."""
CROWDED = 80
"""Marks of one curve from which they are drawn smaller."""
BARS_WIDTH = 0.8


def require() -> None:
    """Raises OptimiseError where matplotlib is missing."""
    if find_spec("matplotlib") is None:
        raise OptimiseError("a plot needs matplotlib: pip install 'optimise[plot]'")


def write_plot(path: Path, chart: Chart, review: Review) -> None:
    """Draw a chart to a file, by its ending: .png, .svg or .html."""
    require()
    ending = path.suffix.lower()
    if ending == ".html":
        svg = _drawn(chart, "svg").decode()
        write(path, page(review, svg[svg.index("<svg") :]))
        return
    with replacing(path) as temporary:
        temporary.write_bytes(_drawn(chart, ending[1:]))


def _drawn(chart: Chart, kind: str) -> bytes:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    width, height = PANEL_INCHES
    with rc_context(STYLE):
        n_panels = max(1, len(chart.panels))
        figure = Figure(figsize=(width, height * n_panels + 0.4), layout="constrained", dpi=150)
        axes = figure.subplots(n_panels, 1, squeeze=False)[:, 0]
        winners = dict.fromkeys(
            mark.winner for panel in chart.panels for mark in panel.marks if mark.y is not None
        )
        colours = dict(zip(winners, cycle(COLOURS), strict=False))
        for pane, panel in zip(axes, chart.panels, strict=False):
            _panel(pane, panel, colours)
        _legend(figure, chart, colours)
        figure.suptitle(chart.title, fontsize=11, fontweight="bold")
        buffer = io.BytesIO()
        metadata = {"Date": None} if kind == "svg" else {}
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()


def _panel(pane: Any, panel: Panel, colours: dict[str, str]) -> None:
    pane.set_xlabel(panel.x_label)
    pane.set_ylabel(panel.y_label)
    pane.yaxis.set_major_formatter(_number)
    lines = list(dict.fromkeys(mark.line for mark in panel.marks))
    for n, (line, marker) in enumerate(zip(lines, cycle(MARKERS), strict=False)):
        marks = [mark for mark in panel.marks if mark.line == line]
        if panel.names:
            marks = [_beside(mark, n, len(lines)) for mark in marks]
            _bars(pane, marks, colours, BARS_WIDTH / len(lines))
        else:
            _curve(pane, marks, colours, marker, panel.stepped)
        _missing(pane, [mark.x for mark in marks if mark.y is None])
        if len(lines) > 1:
            _named(pane, [mark for mark in marks if mark.y is not None], bool(panel.names))
    for value in panel.crossovers:
        pane.axvline(value, color="#bbbbbb", linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    if panel.names:
        pane.set_xticks(range(len(panel.names)), panel.names)
        pane.set_xlim(-0.5, len(panel.names) - 0.5)
        pane.margins(y=0.12)  # room for what stands above the bars
    else:
        pane.xaxis.set_major_formatter(_number)
        _scale(pane.xaxis, panel.log_x, [mark.x for mark in panel.marks])
    _scale(pane.yaxis, panel.log_y, [mark.y for mark in panel.marks if mark.y is not None])
    if not panel.log_y:
        pane.set_ylim(bottom=0)


def _scale(axis: Any, is_log: bool, values: Sequence[float]) -> None:
    """A log scale is labelled at 1, 2 and 5; at every digit of a short stretch, 1 of a long one."""
    from matplotlib.ticker import LogLocator, NullFormatter

    if not is_log or not values:
        return
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    spread = max(values) / min(values)
    digits = range(1, 10) if spread < SHORT else (1.0, 2.0, 5.0) if spread < LONG else (1.0,)
    axis.set_major_locator(LogLocator(base=10, subs=digits))
    axis.set_major_formatter(_number)
    axis.set_minor_formatter(NullFormatter())


def _number(value: float, _: int) -> str:
    return f"{value:,.10g}"


def _curve(
    pane: Any, marks: Sequence[Mark], colours: dict[str, str], marker: str, stepped: bool
) -> None:
    """Marks coloured by who wins, joined where something complies."""
    gaps = [float("nan") if mark.y is None else mark.y for mark in marks]
    style = "steps-post" if stepped else "default"
    xs = [mark.x for mark in marks]
    pane.plot(xs, gaps, color="#cccccc", linewidth=1, zorder=2, drawstyle=style)
    pane.update_datalim([(x, 0.0) for x in xs], updatey=False)
    drawn = [mark for mark in marks if mark.y is not None]
    pane.scatter(
        [mark.x for mark in drawn],
        [mark.y for mark in drawn],
        c=[colours[mark.winner] for mark in drawn],
        s=26 if len(marks) <= CROWDED else 12,
        marker=marker,
        zorder=3,
        linewidths=0,
    )


def _bars(pane: Any, marks: Sequence[Mark], colours: dict[str, str], width: float) -> None:
    drawn = [mark for mark in marks if mark.y is not None]
    heights = [mark.y for mark in drawn]
    shades = [colours[mark.winner] for mark in drawn]
    pane.bar([mark.x for mark in drawn], heights, width * 0.9, color=shades, zorder=3)


def _beside(mark: Mark, n: int, n_lines: int) -> Mark:
    """A bar's mark moved to its place among those of the same name."""
    width = BARS_WIDTH / n_lines
    return replace(mark, x=mark.x + (n - (n_lines - 1) / 2) * width)


def _missing(pane: Any, xs: Sequence[float]) -> None:
    """Where nothing complies: crosses at the bottom."""
    if xs:
        bottom = pane.get_xaxis_transform()
        crosses = {"c": "#b00020", "s": 22, "marker": "x", "linewidths": 1}
        pane.scatter(xs, [0.03] * len(xs), zorder=3, transform=bottom, **crosses)


def _named(pane: Any, drawn: Sequence[Mark], above: bool) -> None:
    """What the other varied fields are at: at a curve's end, above each bar."""
    for mark in drawn if above else drawn[-1:]:
        pane.annotate(
            mark.line,
            (mark.x, mark.y),
            xytext=(0, 3) if above else (6, 0),
            textcoords="offset points",
            ha="center" if above else "left",
            va="bottom" if above else "center",
            fontsize=7,
            annotation_clip=False,
        )


def _legend(figure: Any, chart: Chart, colours: dict[str, str]) -> None:
    from matplotlib.lines import Line2D

    entries = [
        Line2D([], [], linestyle="", marker="o", color=colour, label=winner)
        for winner, colour in colours.items()
    ]
    if any(panel.crossovers for panel in chart.panels):
        entries.append(Line2D([], [], color="#bbbbbb", linestyle=(0, (2, 2)), label="crossover"))
    if any(mark.y is None for panel in chart.panels for mark in panel.marks):
        entries.append(Line2D([], [], linestyle="", marker="x", color="#b00020", label="no design"))
    columns = 1 if max(map(len, colours), default=0) > LONGEST_OF_TWO else 2
    figure.legend(
        handles=entries, loc="outside lower left", ncols=columns, fontsize=8, frameon=False
    )
