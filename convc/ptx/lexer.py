"""From text to tokens: words, numbers and punctuation, each with its place.

One regular expression reads everything. A token is: a word with its modifiers (``ld.param.u64``, ``%tid.x``,
``smem``), a directive or a modifier after a blank (``.reg``, ``.b32``), a number, a string, or one character of
punctuation. Comments and blanks are skipped, except the marks ``//@ step=<id> role=<id>``, which are kept aside with
the index of the token that they stand before. The repetitions are possessive, so no input makes the expression go back.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate

from convc.errors import PtxSyntaxError, Span

MAX_TEXT = 1 << 26
"""Longest text that is read: 64 Mi characters."""

MAX_TOKEN = 4096
"""Longest name, number or string."""

MAX_SHOWN = 1000
"""Characters of a line that its spans keep."""

AHEAD = 4
"""Empty tokens after the end, so that a reader may look ahead without a check."""

_TOKEN = re.compile(
    r"""(?:[ \t\r\n\f\v]++ | //(?!@)[^\n]*+ | /\*[\s\S]*?\*/)*+
    ( [A-Za-z_$%][\w$]*+ (?:(?:\.|::)[\w$]++)*+
    | \.[\w$]++ (?:::[\w$]++)*+
    | 0[xX]\w*+
    | \d(?:[eE][+-](?=\d)|[\w.])*+
    | "[^"\n]*+"
    | //@[^\n]*+
    | /\*
    | [\s\S]
    | \Z )""",
    re.VERBOSE | re.ASCII,
)

_MARK = re.compile(
    r"//@[ \t]+(?:end[ \t\r]*|step=(?P<step>[\w.-]+)(?:[ \t]+role=(?P<role>[\w.-]+))?(?:[ \t\r].*)?)", re.ASCII
)


class Tokens:
    """The tokens of one file.

    Attributes:
        text, file: the source and its name.
        texts, starts: the tokens and their positions in the text. The last ones are "" (the end).
        marks: (token index, step, role) of each ``//@`` mark, in order; step None for ``//@ end``.
    """

    __slots__ = ("_lines", "_starts_of_lines", "file", "marks", "starts", "text", "texts")

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.texts: list[str] = []
        self.starts: list[int] = []
        self.marks: list[tuple[int, str | None, str | None]] = []
        self._lines: list[str] | None = None
        self._starts_of_lines: list[int] = []
        if len(text) > MAX_TEXT:
            raise PtxSyntaxError(f"the text has {len(text)} characters; at most {MAX_TEXT} are read", where=file)
        texts = self.texts
        starts = self.starts
        for found in _TOKEN.finditer(text):
            token = found[1]
            if token[:1] == "/" and len(token) > 1:
                if token == "/*":
                    raise PtxSyntaxError(
                        "this comment is never closed: '*/' is missing", span=self.span_at(found.start(1), 2)
                    )
                mark = _MARK.fullmatch(token)
                if mark:
                    self.marks.append((len(texts), mark["step"], mark["role"]))
                continue
            texts.append(token)
            starts.append(found.start(1))
        if texts and max(map(len, texts)) > MAX_TOKEN:
            index = next(index for index, token in enumerate(texts) if len(token) > MAX_TOKEN)
            raise self.error(index, f"a word of {len(texts[index])} characters; at most {MAX_TOKEN} are read")
        texts += [""] * AHEAD
        starts += [len(text)] * AHEAD

    def span_at(self, start: int, length: int) -> Span:
        """The place of ``length`` characters from position ``start`` of the text (cut at the end of the line)."""
        if self._lines is None:
            lines = self.text.split("\n")
            self._starts_of_lines = [0, *accumulate(len(line) + 1 for line in lines[:-1])]
            self._lines = [line.rstrip("\r")[:MAX_SHOWN] for line in lines]
        number = bisect_right(self._starts_of_lines, start) - 1
        line = self._lines[number]
        column = start - self._starts_of_lines[number]
        length = max(1, min(length, len(line) - column))
        return Span(file=self.file, line=number + 1, column=column + 1, length=length, text=line)

    def span(self, first: int, last: int | None = None) -> Span:
        """The place of token ``first``, or of all from ``first`` to ``last``."""
        last = first if last is None else last
        start = self.starts[first]
        return self.span_at(start, self.starts[last] + len(self.texts[last]) - start)

    def error(self, index: int, message: str, hint: str = "") -> PtxSyntaxError:
        """An error at token ``index``."""
        return PtxSyntaxError(message, span=self.span(index), hint=hint)


def shown(token: str) -> str:
    """A token as a message quotes it."""
    if token == "":
        return "the end of the text"
    if len(token) > 40:
        token = token[:37] + "..."
    return repr(token)
