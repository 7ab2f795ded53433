"""A review as terminal text."""

import click

from optimiser.review.review import Review, Table

INDENT = " " * 13


def render(review: Review) -> str:
    """The review as text with colours; `click.echo` strips them where they are not wanted."""
    colour = "green" if review.good else "red"
    parts = [f"{click.style(review.title, bold=True)}\n{click.style(review.headline, fg=colour)}"]
    if review.steps:
        parts.append("\n".join(_step(i, s.title, s.lines) for i, s in enumerate(review.steps, 1)))
    parts += [_table(table) for table in review.tables]
    if review.closing:
        parts.append("\n".join(review.closing))
    if review.notes:
        notes = "\n".join(f"  - {note}" for note in review.notes)
        parts.append(f"{click.style('Assumptions', bold=True)}\n{notes}")
    return "\n\n".join(parts) + "\n"


def _step(number: int, title: str, lines: tuple[str, ...]) -> str:
    return f"{number} {title:<11}" + f"\n{INDENT}".join(lines)


def _table(table: Table) -> str:
    rows = [table.columns, *table.rows]
    columns = range(len(table.columns))
    widths = [max(len(row[i]) for row in rows) for i in columns]
    lines = [click.style(table.title, bold=True)]
    for n, row in enumerate(rows):
        cells = [_aligned(cell, widths[i], left=i in table.text) for i, cell in enumerate(row)]
        mark = "  "
        if table.ticks and n:
            holds = table.ticks[n - 1]
            mark = click.style("✓ " if holds else "✗ ", fg="green" if holds else "red")
        text = "  ".join(cells).rstrip()
        lines.append(f"{mark}{click.style(text, dim=True) if n == 0 else text}")
    return "\n".join(lines)


def _aligned(cell: str, width: int, left: bool) -> str:
    return cell.ljust(width) if left else cell.rjust(width)
