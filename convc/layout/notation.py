"""The notation of CuTe, read: ``((4,8),(2,2)):((16,1),(8,64))`` and ``Sw<3,4,3> o _0 o (8,64):(64,1)``.

    text     swizzle "o" [middle "o"] layout, or layout
    swizzle  "Sw" or "S", "<" number "," number "," number ">"
    middle   number, or "smem_ptr" "[" number "b" "]" "(" ("unset" or an address such as 0x400) ")"
    layout   tuple [":" tuple]
    tuple    "(" [tuple {"," tuple}] ")", or extent
    extent   ["-"] factor {"*" factor}
    factor   ["_"] digits, or name ["^" digits]

A name is a positive whole number that is not known. Numbers may have CuTe's underscore of what is known when a program
is compiled. Texts are a stranger's: they are of limited length, depth and size, and nothing in them is evaluated.
"""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from convc.errors import InputError, Span
from convc.layout.extents import Extent, product, symbol
from convc.layout.layouts import Layout
from convc.layout.swizzled import Composed, Swizzle
from convc.layout.tuples import Nested, leaves

MOST_LETTERS = 2000
MOST_DEPTH = 16
MOST_DIGITS = 15
MOST_NAME = 16
MOST_FACTORS = 8
MOST_NUMBERS = 64
"""What a text may have at most: letters, tuples in each other, digits, letters of a name, factors of an extent (and its
power), extents of a shape."""

EXAMPLE = "a layout is written ((4,8),(2,2)):((32,1),(16,8)), behind a swizzle Sw<3,4,3> o _0 o (8,64):(64,1)"

TOKEN = re.compile(
    r"\s*(?:(?P<address>0x[0-9a-fA-F]+)|(?P<number>_?[0-9]+)|(?P<name>[A-Za-z][A-Za-z0-9_]*)|(?P<sign>[^\s]))", re.ASCII
)


class Token(NamedTuple):
    """A number, a name or a sign of a text, at a place; of the kind ``end`` behind the last one."""

    kind: str
    text: str
    start: int


def parse(text: str) -> Layout | Composed:
    """Read a layout, or a layout behind a swizzle.

    Raises:
        InputError: the text is not of the notation, with the place where it is not, or it is too large.
    """
    if len(text) > MOST_LETTERS:
        raise InputError(f"expected a layout of at most {MOST_LETTERS} letters, got {len(text)}", hint=EXAMPLE)
    return _Reader(text).whole()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [_token(found) for found in TOKEN.finditer(text)]
        self.tokens.append(Token("end", "the end", len(text)))
        self.at = 0

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def whole(self) -> Layout | Composed:
        behind = self.next.text in ("Sw", "S") and self.tokens[self.at + 1].text == "<"
        layout = self.composed() if behind else self.layout()
        if self.next.kind != "end":
            self.refuse("the end")
        return layout

    def composed(self) -> Composed:
        numbers = self.swizzle()
        swizzle = Swizzle(*numbers)
        self.take("o")
        offset = 0
        unit = None
        if self.next.text == "smem_ptr":
            unit, offset = self.pointer()
            self.take("o")
        elif self.next.kind == "number" and self.tokens[self.at + 1].text == "o":
            offset = self.number()
            self.take("o")
        return Composed(swizzle=swizzle, offset=offset, unit=unit, layout=self.layout())

    def swizzle(self) -> list[int]:
        self.at += 1
        numbers: list[int] = []
        for sign in "<,,":
            self.take(sign)
            negative = self.next.text == "-"
            self.at += negative
            numbers.append(-self.number() if negative else self.number())
        self.take(">")
        return numbers

    def pointer(self) -> tuple[int, int]:
        """Bits of an element of ``smem_ptr[16b](unset)``, and the elements before its address."""
        self.at += 1
        self.take("[")
        bits = self.number()
        for sign in ("b", "]", "("):
            self.take(sign)
        address = self.next
        if address.kind == "address" and len(address.text) <= MOST_DIGITS and bits:
            offset, rest = divmod(int(address.text, 16) * 8, bits)
            if rest:
                self.refuse(f"an address that is a multiple of {bits} bits")
        elif address.text == "unset":
            offset = 0
        else:
            self.refuse("unset or an address such as 0x400")
        self.at += 1
        self.take(")")
        return bits, offset

    def layout(self) -> Layout:
        start = self.next
        shape = self.tuple(MOST_DEPTH)
        if sum(1 for _ in leaves(shape)) > MOST_NUMBERS:
            self.refuse(f"a shape of at most {MOST_NUMBERS} extents", start)
        stride: Nested = ()
        if self.next.text == ":":
            self.at += 1
            stride = self.tuple(MOST_DEPTH)
        try:
            return Layout(shape, stride)
        except InputError as wrong:
            raise InputError(wrong.message, hint=wrong.hint, span=self.span(start)) from None

    def tuple(self, deep: int) -> Nested:
        if self.next.text != "(":
            return self.extent()
        if not deep:
            self.refuse(f"at most {MOST_DEPTH} tuples in each other")
        self.at += 1
        modes: list[Nested] = []
        while self.tokens[self.at].text != ")":
            if modes:
                self.take(",")
            modes.append(self.tuple(deep - 1))
        self.at += 1
        return tuple(modes)

    def extent(self) -> Extent:
        sign = -1 if self.next.text == "-" else 1
        self.at += sign < 0
        factors = [self.factor()]
        while self.next.text == "*":
            if len(factors) == MOST_FACTORS:
                self.refuse(f"at most {MOST_FACTORS} factors")
            self.at += 1
            factors.append(self.factor())
        return product(sign, *factors)

    def factor(self) -> Extent:
        if self.next.kind != "name":
            return self.number()
        if len(self.next.text) > MOST_NAME:
            self.refuse(f"a name of at most {MOST_NAME} letters")
        name = symbol(self.next.text)
        self.at += 1
        if self.next.text != "^":
            return name
        self.at += 1
        power = self.next
        count = self.number()
        if not 0 < count <= MOST_FACTORS:
            self.refuse(f"a power from 1 to {MOST_FACTORS}", power)
        return product(*[name] * count)

    def number(self) -> int:
        token = self.next
        if token.kind != "number":
            self.refuse("a number")
        digits = token.text.removeprefix("_")
        if len(digits) > MOST_DIGITS:
            self.refuse(f"a number of at most {MOST_DIGITS} digits")
        self.at += 1
        return int(digits)

    def take(self, sign: str) -> None:
        if self.next.text != sign:
            self.refuse(f"{sign!r}")
        self.at += 1

    def refuse(self, expected: str, token: Token | None = None) -> NoReturn:
        found = token or self.next
        hint = NOT_READ.get(found.text, EXAMPLE)
        got = found.text if found.kind == "end" else repr(found.text)
        raise InputError(f"expected {expected} in a layout, got {got}", hint=hint, span=self.span(found))

    def span(self, token: Token) -> Span:
        line = "".join(letter if letter.isprintable() else " " for letter in self.text)
        return Span(file="layout", line=1, column=token.start + 1, length=max(1, len(token.text)), text=line)


NOT_READ = {
    "?": "an extent that is not known has a name here, such as (m,64):(64,1)",
    "@": "strides such as 1@0 are coordinates of a tensor map and no offsets, and are not read here",
    "/": "write what divides as a name of its own: 64*m in place of n, m in place of n/64",
    "+": "an extent is a number, or a product of numbers and names",
}
"""What to do about signs that CuTe, or algebra, has and this notation has not."""


def _token(found: re.Match[str]) -> Token:
    kind = str(found.lastgroup)
    return Token(kind, found[kind], found.start(kind))
