"""A review as an HTML page with its figure inside."""

from collections.abc import Sequence
from html import escape

from optimiser.review.review import Review, Table

PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1100px; color: #222 }}
h1 {{ font-size: 1.2rem }} h2 {{ font-size: 1rem; margin-top: 2rem }}
svg {{ width: 100%; height: auto }} div {{ overflow-x: auto }}
table {{ border-collapse: collapse; font-size: 12px; font-variant-numeric: tabular-nums }}
th, td {{ padding: 2px 10px; text-align: right; border-bottom: 1px solid #e6e6e6;
          white-space: nowrap }}
.words {{ text-align: left }}
</style></head><body>
<h1>{title}</h1>
<p>{headline}</p>
{svg}
{tables}
</body></html>
"""


def page(review: Review, svg: str) -> str:
    """A self-contained page; `svg` is an `<svg>` element."""
    return PAGE.format(
        title=escape(review.title),
        headline=escape(review.headline),
        svg=svg,
        tables="\n".join(map(_table, review.tables)),
    )


def _table(table: Table) -> str:
    def cells(tag: str, values: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=words' if i in table.text else ''}>{escape(value)}</{tag}>"
            for i, value in enumerate(values)
        )

    rows = [f"<tr>{cells('td', row)}</tr>" for row in table.rows]
    head = f"<tr>{cells('th', table.columns)}</tr>"
    body = "\n".join([head, *rows])
    return f"<h2>{escape(table.title)}</h2>\n<div><table>\n{body}\n</table></div>"
