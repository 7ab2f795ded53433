"""A review as Markdown."""

from optimiser.review.review import Review, Table


def render(review: Review) -> str:
    """The review as a Markdown document."""
    parts = [f"# {review.title}", f"**{review.headline}**"]
    if review.steps:
        steps = (f"{i}. **{s.title}**: {'; '.join(s.lines)}" for i, s in enumerate(review.steps, 1))
        parts.append("\n".join(steps))
    parts += [_table(table) for table in review.tables]
    parts += list(review.closing)
    if review.notes:
        parts.append("## Assumptions\n\n" + "\n".join(f"- {note}" for note in review.notes))
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    ticks = ["", *("✓" if holds else "✗" for holds in table.ticks)]
    rows = [table.columns, *table.rows]
    if table.ticks:
        rows = [(tick, *row) for tick, row in zip(ticks, rows, strict=True)]
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in escaped]
    lines.insert(1, "|" + " --- |" * len(rows[0]))
    return f"## {table.title}\n\n" + "\n".join(lines)
