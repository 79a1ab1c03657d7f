"""A descriptor as bit boxes: a line of boxes for each 32 bits, the highest bit on the left, and a table below."""

from __future__ import annotations

from collections.abc import Iterator

from convc.draw.fields import ExplainedDescriptor, Field
from convc.draw.svg import MARGIN, TINTS, TITLE, Picture, group, rect, text, titled, width_of

BIT = 26
"""Pixels of a bit's width."""

LINE = 32
"""Bits in a line."""

BOX = 24
HEAD = 16
"""Pixels of the numbers of the bits, above a line of boxes."""

ROW = 18
"""Pixels of a row of the table."""

COLUMNS = (60, 160, 200)
"""Pixels of the columns: bits, name, value."""


def descriptor_picture(found: ExplainedDescriptor) -> Picture:
    """Draw the bits of a descriptor with the value of each, and each field with its meaning."""
    parts: list[str] = []
    lines = found.size // LINE
    for index in range(lines):
        parts += _line(found, index * LINE, TITLE + index * (HEAD + BOX + 6))
    top = TITLE + lines * (HEAD + BOX + 6) + 20
    parts.append(_row(top, ("bits", "field", "value", "meaning"), "strong"))
    for number, field in enumerate(found.fields):
        low = top + (number + 1) * ROW
        parts.append(rect(MARGIN, low - 11, 10, 12, f"{_tint(found, field)} box"))
        cells = (field.bits, field.name or "-", field.digits, field.meaning)
        parts.append(group((_row(low, cells),), field=field.name, low=field.low, width=field.width, value=field.value))
    end = top + (len(found.fields) + 1) * ROW
    if found.wrong:
        parts.append(text(MARGIN, end, f"wrong: {found.wrong}", "bad strong", wrong=found.wrong))
        end += ROW
    longest = max(width_of(field.meaning) for field in found.fields)
    width = 2 * MARGIN + max(LINE * BIT, sum(COLUMNS) + longest + 16, width_of(f"wrong: {found.wrong}") + 20)
    return titled(found.title, width, end + MARGIN, parts)


def _row(y: float, cells: tuple[str, str, str, str], kind: str = "") -> str:
    """Four words under one another's columns."""
    x = MARGIN + 16.0
    parts: list[str] = []
    for words, width in zip(cells, (*COLUMNS, 0), strict=True):
        parts.append(text(x, y, words, kind))
        x += width
    return "".join(parts)


def _tint(found: ExplainedDescriptor, field: Field) -> str:
    named = [each.low for each in found.fields if each.name]
    return TINTS[named.index(field.low) % len(TINTS)] if field.name else "idle"


def _line(found: ExplainedDescriptor, first: int, top: float) -> Iterator[str]:
    """The bits from ``first`` on: the numbers at the ends of fields, and a box with bits for each piece of a field.

    The pieces of a tensor map, whose fields are numbers of 8 to 64 bits, have hexadecimal digits instead.
    """
    for field in found.fields:
        low = max(field.low, first)
        high = min(field.low + field.width, first + LINE)
        if low >= high:
            continue
        for bit in sorted({low, high - 1}):
            yield text(_middle(bit - first), top + HEAD - 4, str(bit), "soft mid")
        left = MARGIN + (first + LINE - high) * BIT
        tip = f"bits {field.bits}, {field.name or 'no field'} = {field.digits}: {field.meaning}"
        parts = [rect(left, top + HEAD, (high - low) * BIT, BOX, f"{_tint(found, field)} box", tip)]
        piece = found.word >> low & ((1 << (high - low)) - 1)
        if found.size > 64:
            parts.append(
                text((_middle(low - first) + _middle(high - 1 - first)) / 2, top + HEAD + 16, f"{piece:#x}", "mid")
            )
        else:
            for bit in range(high - 1, low - 1, -1):
                parts.append(text(_middle(bit - first), top + HEAD + 16, str(found.word >> bit & 1), "mid"))
        yield group(parts, piece=f"{low}-{high - 1}", bits=piece)


def _middle(place: int) -> float:
    return MARGIN + (LINE - 1 - place) * BIT + BIT / 2
