"""From text to tokens: words, numbers and punctuation, each with its place.

One regular expression reads everything. A token is: a word with its modifiers (``ld.param.u64``, ``%tid.x``,
``smem``), a directive or a modifier after a blank (``.reg``, ``.b32``), a number, a string, or one character of
punctuation. Comments and blanks are skipped, except the marks ``//@ step=<id> role=<id>``, which are kept aside with
the index of the token that they stand before. The repetitions are possessive, so no input makes the expression go back.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate, chain
from typing import Any

from convc.errors import PtxSyntaxError, Span

MAX_TEXT = 1 << 26
"""Longest text that is read: 64 Mi characters."""

MAX_TOKEN = 4096
"""Longest name, number or string."""

MAX_SHOWN = 1000
"""Characters of a line that its spans keep."""

AHEAD = 5
"""Empty tokens after the end, so that a reader may look ahead without a check."""

MAX_REMEMBERED = 1 << 13
"""Lines after which the memory of lines is emptied."""

MAX_REMEMBERED_LINE = 256
"""Characters of the longest line that is remembered."""

_TOKEN = re.compile(
    r"""(?:[ \t\r\n\f\v]++ | //(?!@)[^\n]*+ | /\*[\s\S]*?\*/)*
    ( [A-Za-z_$%][\w$]*+ (?:(?:\.|::)[\w$]++)*
    | \.[\w$]++ (?:::[\w$]++)*
    | 0[xX]\w*+
    | \d(?:[eE][+-](?=\d)|[\w.])*
    | "[^"\n]*+"
    | //@[^\n]*+
    | /\*
    | [\s\S]
    | \Z )""",
    re.VERBOSE | re.ASCII,
)
"""Classes are repeated without a way back (``*+``), groups with one: Python 3.11.2 loses its place where one fails."""

_MARK = re.compile(
    r"//@[ \t]+(?:end[ \t\r]*|step=(?P<step>[\w.-]+)(?:[ \t]+role=(?P<role>[\w.-]+))?(?:[ \t\r].*)?)", re.ASCII
)


Mark = tuple[str | None, str | None]
"""Step and role of a ``//@`` mark; both None for ``//@ end``."""


class Line:
    """A line of text with all that is known of it, wherever it stands: kernels say the same lines again and again.

    Attributes:
        tokens: its tokens.
        mark: at its end.
        phrase: the instruction that fills it (a `convc.ptx.phrases.Phrase`), once one was read there.
        declared: the registers that it declares (`convc.ptx.declare.DeclaredRegisters`), likewise.
        joined: whether it is several lines, taken together.
    """

    __slots__ = ("declared", "joined", "mark", "phrase", "tokens")

    def __init__(self, tokens: tuple[str, ...], mark: Mark | None, *, joined: bool = False) -> None:
        self.tokens = tokens
        self.joined = joined
        self.mark = mark
        self.phrase: Any = None
        self.declared: Any = None


_remembered: dict[str, Line] = {}
"""Lines by their text."""


MOST_JOINED = 16
"""Lines of the longest statement that is remembered."""

MAX_JOINED = 1024
"""Its characters, without blanks."""

_joined: dict[tuple[Line, ...], Line] = {}
"""Such statements by their lines."""


def _join(lines: tuple[Line, ...]) -> Line | None:
    """Several lines as one; None where they are too long."""
    known = _joined.get(lines)
    if known is None:
        tokens = tuple(chain.from_iterable([line.tokens for line in lines]))
        if sum(map(len, tokens)) > MAX_JOINED:
            return None
        if len(_joined) >= MAX_REMEMBERED:
            _joined.clear()
        known = _joined[lines] = Line(tokens, None, joined=True)
    return known


def _keep(text: str, line: Line) -> Line:
    """Remember a line, unless it is long; a whole text may have more than the one mark that a line can have."""
    if len(text) <= MAX_REMEMBERED_LINE and "\n" not in text:
        if len(_remembered) >= MAX_REMEMBERED:
            _remembered.clear()
        _remembered[text] = line
    return line


class Tokens:
    """The tokens of one file.

    A text without block comments is read line by line, since no other token goes on in the next line, and most lines
    were met before. Where the tokens stand is found on demand, which is for errors and findings alone.

    Attributes:
        text, file: the source and its name.
        texts: the tokens. The last ones are "" (the end).
        lines: by the index of their first token.
        marks: (token index, step, role) of each ``//@`` mark, in order; step None for ``//@ end``.
    """

    __slots__ = (
        "_ends",
        "_is_long",
        "_lines",
        "_starts",
        "_starts_of_lines",
        "file",
        "lines",
        "marks",
        "text",
        "texts",
    )

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.texts: list[str] = []
        self.lines: dict[int, Line] = {}
        self.marks: list[tuple[int, str | None, str | None]] = []
        self._is_long = False  # whether a token may be too long
        self._starts: list[int] | None = None
        self._ends: list[int] = []
        self._lines: list[str] | None = None
        self._starts_of_lines: list[int] = []
        if len(text) > MAX_TEXT:
            raise PtxSyntaxError(f"the text has {len(text)} characters; at most {MAX_TEXT} are read", where=file)
        lines = [text] if "/*" in text else text.split("\n")
        known = _remembered.get
        read = [known(line) or self._read(line) for line in lines]
        tokens = [line.tokens for line in read]
        texts = self.texts
        texts += chain.from_iterable(tokens)
        firsts = list(accumulate(map(len, tokens), initial=0))
        self.lines = dict(zip(firsts, read, strict=False))  # of lines with the same first token the last one has it
        self.marks += [(firsts[at + 1], *line.mark) for at, line in enumerate(read) if line.mark is not None]
        if self._is_long and texts and max(map(len, texts)) > MAX_TOKEN:
            index = next(index for index, token in enumerate(self.texts) if len(token) > MAX_TOKEN)
            raise self.error(index, f"a word of {len(self.texts[index])} characters; at most {MAX_TOKEN} are read")
        self.texts += [""] * AHEAD
        if '"' in text and '"' in texts:
            raise self.error(texts.index('"'), "this string is never closed: '\"' is missing in its line")

    def _read(self, text: str) -> Line:
        """A line, or a whole text, with the mark at the end; marks further in front go to `marks`."""
        self._is_long = self._is_long or len(text) > MAX_TOKEN
        found: list[str] = []
        mark: Mark | None = None
        if "//@" not in text and "/*" not in text:  # nearly always: no token is a comment
            return _keep(text, Line(tuple(filter(None, _TOKEN.findall(text))), None))
        for token in filter(None, _TOKEN.findall(text)):
            if mark is not None:
                self.marks.append((len(found), *mark))
                mark = None
            if not _is_comment(token):
                found.append(token)
                continue
            if token == "/*":
                opened = (each.start(1) for each in _TOKEN.finditer(self.text) if each[1] == token)
                raise PtxSyntaxError(
                    "this comment is never closed: '*/' is missing", span=self.span_at(next(opened), len(token))
                )
            said = _MARK.fullmatch(token)
            mark = None if said is None else (said["step"], said["role"])
        return _keep(text, Line(tuple(found), mark))

    def statement(self, at: int) -> Line | None:
        """The line that begins at a token, with those behind it up to a semicolon; None where none is remembered."""
        line = self.lines.get(at)
        if line is None or not line.tokens or line.tokens[-1] == ";":
            return line
        parts = [line]
        while line.tokens[-1] != ";":
            at += len(line.tokens)
            line = self.lines.get(at)
            if line is None or not line.tokens or len(parts) == MOST_JOINED:
                return None
            parts.append(line)
        return _join(tuple(parts))

    @property
    def starts(self) -> list[int]:
        """The positions of the tokens in the text."""
        if self._starts is None:
            found = [each for each in _TOKEN.finditer(self.text) if each[1] and not _is_comment(each[1])]
            end = [len(self.text)] * AHEAD
            self._starts = [each.start(1) for each in found] + end
            self._ends = [each.end(1) for each in found] + end
        return self._starts

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
        start = self.starts[first]
        return self.span_at(start, self._ends[first if last is None else last] - start)

    def forget(self) -> None:
        """Drop the tokens, which are no longer read; instructions still find their place."""
        self.texts = []
        self.lines = {}
        self.marks = []

    def error(self, index: int, message: str, hint: str = "") -> PtxSyntaxError:
        """An error at token ``index``."""
        return PtxSyntaxError(message, span=self.span(index), hint=hint)


def _is_comment(token: str) -> bool:
    """Whether it is a mark, or the beginning of a comment that does not end: other comments are no tokens."""
    return token[0] == "/" and len(token) > 1


def shown(token: str) -> str:
    """A token as a message quotes it."""
    if token == "":
        return "the end of the text"
    if len(token) > 40:
        token = token[:37] + "..."
    return repr(token)
