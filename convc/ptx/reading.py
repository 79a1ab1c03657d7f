"""Operands as they stand in the text: registers, numbers, addresses, vectors, pairs.

Each comes with its *kind*, a word for its shape and type (``b32``, ``#``, ``[b64]``, ``{f32 f32}``). The kinds of all
operands of an instruction, joined, are the key under which its form is remembered.
"""

from __future__ import annotations

from dataclasses import replace

from convc.ptx.diagnose import near
from convc.ptx.lexer import Tokens, shown
from convc.ptx.numbers import read_number
from convc.ptx.scope import Entry, Names
from convc.ptx.syntax import (
    Address,
    Arguments,
    Imm,
    Label,
    NotPred,
    Operand,
    Pair,
    Reg,
    Sink,
    Symbol,
    TensorAddress,
    Vector,
)

MAX_ITEMS = 256
"""Longest vector or argument list."""


class OperandReader:
    """Reads operands. ``at`` is the next token; `read` moves it; `numbers` are those that stand for themselves."""

    __slots__ = ("at", "names", "numbers", "tokens")

    def __init__(self, tokens: Tokens, names: Names) -> None:
        self.tokens = tokens
        self.names = names
        self.numbers: dict[str, Entry] = {}
        self.at = 0

    def read(self, at: int) -> Entry:
        """The operand that begins at token ``at``, and its kind."""
        self.at = at
        texts = self.tokens.texts
        token = texts[at]
        if token == "[":
            return self._address()
        if token == "{":
            items, kind = self._items("}")
            return Vector(items), f"{{{kind}}}"
        if token == "(":
            items, kind = self._items(")")
            return Arguments(items), f"({kind})"
        if token == "!":
            return NotPred(self.predicate(at + 1)), "!"
        first = self._scalar()
        if texts[self.at] == "|":
            self.at += 1
            second = self._scalar()
            return Pair(first[0], second[0]), f"{first[1]}|{second[1]}"
        return first

    def predicate(self, at: int) -> Reg:
        """The predicate register at token ``at``."""
        name = self.tokens.texts[at]
        entry = self.names.look_up(name)
        if entry is None:
            hint = near(name, self.names.declared())
            raise self.tokens.error(at, f"predicate {shown(name)} is not declared", hint)
        operand, _ = entry
        if not isinstance(operand, Reg) or operand.type != "pred":
            what = f"a .{operand.type} register" if isinstance(operand, Reg) else "not a register"
            raise self.tokens.error(at, f"expected a predicate register, {shown(name)} is {what}")
        self.at = at + 1
        return operand

    def _scalar(self) -> Entry:
        tokens = self.tokens
        token = tokens.texts[self.at]
        if token == "_":
            self.at += 1
            return Sink(), "_"
        if token == "-" or token[:1].isdigit() or (token[:1] == "." and token[1:2].isdigit()):
            number = self._number()
            entry = number, f"#{number.width}" if number.is_float else "#"
            if token != "-":
                self.numbers[token] = entry
            return entry
        entry = self.names.look_up(token)
        if entry is None:
            if not (token[:1].isalpha() or token[:1] in "_$%") or not token.isascii() or token in "$%":
                raise tokens.error(self.at, f"expected an operand, got {shown(token)}")
            entry = Label(token, -1), "L"
        self.at += 1
        if tokens.texts[self.at] == "+" and isinstance(entry[0], Symbol):
            return replace(entry[0], offset=self._offset()), entry[1]
        return entry

    def _declared(self) -> Entry:
        """A scalar that is no label: inside brackets and braces every name is declared before."""
        where = self.at
        entry = self._scalar()
        if isinstance(entry[0], Label):
            hint = near(entry[0].name, self.names.declared())
            raise self.tokens.error(where, f"{shown(entry[0].name)} is not declared", hint)
        return entry

    def _number(self) -> Imm:
        texts = self.tokens.texts
        negative = texts[self.at] == "-"
        at = self.at + 1 if negative else self.at
        number = read_number(texts[at], negative=negative)
        if number is None:
            raise self.tokens.error(at, f"{shown(texts[at])} is not a number of at most 64 bits")
        self.at = at + 1
        return number

    def _offset(self) -> int:
        """The bytes that ``+4``, ``+-4`` or ``+4+8`` adds; 0 without any."""
        total = 0
        while self.tokens.texts[self.at] == "+":
            self.at += 1
            value = self._number().value
            if not isinstance(value, int):
                raise self.tokens.error(self.at - 1, "an offset is an integer")
            total += value
        return total

    def _items(self, closing: str) -> tuple[tuple[Operand, ...], str]:
        """The operands up to ``closing``, and their kinds with blanks between them."""
        tokens = self.tokens
        texts = tokens.texts
        opened = self.at
        self.at += 1
        items: list[Operand] = []
        kinds: list[str] = []
        while items or texts[self.at] != closing:
            if texts[self.at] in ("[", "{", "(", ";", ""):
                raise tokens.error(self.at, f"expected an item or {closing!r}, got {shown(texts[self.at])}")
            operand, kind = self._declared()
            items.append(operand)
            kinds.append(kind)
            if len(items) > MAX_ITEMS:
                raise tokens.error(opened, f"more than {MAX_ITEMS} items")
            if texts[self.at] == closing:
                break
            if texts[self.at] != ",":
                raise tokens.error(self.at, f"expected ',' or {closing!r}, got {shown(texts[self.at])}")
            self.at += 1
        self.at += 1
        return tuple(items), " ".join(kinds)

    def _address(self) -> Entry:
        tokens = self.tokens
        texts = tokens.texts
        self.at += 1
        where = self.at
        base, kind = self._declared()
        if not isinstance(base, Reg | Symbol | Imm) or (isinstance(base, Imm) and base.is_float):
            raise tokens.error(where, "an address begins with a register, a variable or an integer")
        offset = self._offset()
        if isinstance(base, Symbol) and base.offset:
            offset = base.offset
            base = replace(base, offset=0)
        token = texts[self.at]
        if token == "," and texts[self.at + 1] == "{" and not offset and not isinstance(base, Imm):
            self.at += 1
            items, kinds = self._items("}")
            if texts[self.at] != "]":
                raise tokens.error(self.at, f"expected ']' after the coordinates, got {shown(texts[self.at])}")
            self.at += 1
            return TensorAddress(base, Vector(items)), f"[{kind},{kinds}]"
        if token == "-":
            raise tokens.error(self.at, "an offset is added, '-' is not allowed here", "write [base+-4]")
        if token != "]":
            raise tokens.error(self.at, f"expected ']' at the end of the address, got {shown(token)}")
        self.at += 1
        return Address(base, offset), f"[{kind}]"
