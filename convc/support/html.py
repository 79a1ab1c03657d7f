"""A table as HTML for notebooks, all words escaped: nothing that a model calls its layers becomes markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table_html(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a title above it."""
    lines = [f"<table><caption>{escape(title)}</caption>", f"<thead>{_row('th', heads)}</thead>", "<tbody>"]
    lines += [_row("td", row) for row in rows]
    return "\n".join([*lines, "</tbody></table>"])


def _row(element: str, words: Sequence[object]) -> str:
    cells = "".join(f"<{element}>{escape(str(each))}</{element}>" for each in words)
    return f"<tr>{cells}</tr>"
