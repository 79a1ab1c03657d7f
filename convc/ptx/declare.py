"""Declarations: ``.reg``, and variables of every state space (PTX manual, chapter 5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from convc.ptx.diagnose import listed, near
from convc.ptx.lexer import Tokens, shown
from convc.ptx.numbers import read_integer, read_number
from convc.ptx.scope import Entry, check_name
from convc.ptx.syntax import REGISTER_TYPES, TYPE_BITS, Func, Initial, Symbol, Variable

MAX_ELEMENTS = 1 << 40
MAX_DIMENSIONS = 16
MAX_VALUES = 1 << 20

Resolve: TypeAlias = Callable[[str], Entry | None]
"""What a name means where a declaration stands; None for one that is not declared."""


class DeclaredRegisters(NamedTuple):
    """What one name of a ``.reg`` declares.

    Attributes:
        name: ``%a``, or the ``%r`` of ``%r<4>``.
        numbered: how many registers ``%r0``, ``%r1``, … there are; None: one, of just this name.
        type: of each.
        at: the token of the name, counted from ``.reg``.
    """

    name: str
    numbered: int | None
    type: str
    at: int


def skip_line(tokens: Tokens, at: int) -> int:
    """The first token of a later line (``.loc`` and ``.file`` end with their line)."""
    line = tokens.span(at).line
    while tokens.texts[at] and tokens.span(at).line == line and tokens.texts[at] != "}":
        at += 1
    return at


def read_registers(tokens: Tokens, at: int) -> tuple[int, tuple[DeclaredRegisters, ...]]:
    """``.reg .b32 %a, %r<4>;``: the token after it, and what it declares, which the line remembers that it fills."""
    line = tokens.lines.get(at)
    end, found = _read_registers(tokens, at)
    if line is not None and end - at == len(line.tokens):
        line.declared = found
    return end, found


def _read_registers(tokens: Tokens, first: int) -> tuple[int, tuple[DeclaredRegisters, ...]]:
    texts = tokens.texts
    at = first + 1
    if texts[at] in (".v2", ".v4"):
        raise tokens.error(at, "vector registers are not read; declare the elements one by one")
    kind = _type(tokens, at)
    at += 1
    found: list[DeclaredRegisters] = []
    while True:
        name = texts[at]
        where = at
        count = None
        at += 1
        if texts[at] == "<":
            count = read_integer(texts[at + 1])
            if count is None:
                raise tokens.error(at + 1, f"expected a number of registers, got {shown(texts[at + 1])}")
            at = expect(tokens, at + 2, ">", f"after {name}<{texts[at + 1]}")
        found.append(DeclaredRegisters(name, count, kind, where - first))
        if texts[at] != ",":
            break
        at += 1
    return expect(tokens, at, ";", "at the end of the declaration"), tuple(found)


def read_variables(
    tokens: Tokens, at: int, *, linkage: str | None, resolve: Resolve
) -> tuple[int, list[tuple[Variable, int]]]:
    """``.shared .align 8 .b64 a, b[4];``: the token after it, and each variable with its token."""
    variable, where, at = read_variable(tokens, at, linkage=linkage, resolve=resolve)
    found = [(variable, where)]
    while tokens.texts[at] == ",":
        variable, where, at = _read_declarator(tokens, at + 1, variable, resolve)
        found.append((variable, where))
    return expect(tokens, at, ";", "at the end of the declaration"), found


def read_parameters(
    tokens: Tokens, at: int, resolve: Resolve, *, nameless: bool = False
) -> tuple[tuple[Variable, ...], int]:
    """``(.param .b32 a, …)`` from its parenthesis on, and the token after it; ``nameless``: names may be ``_``."""
    texts = tokens.texts
    found: list[Variable] = []
    names: set[str] = set()
    at += 1
    while texts[at] != ")":
        if texts[at] not in (".param", ".reg"):
            raise tokens.error(at, f"expected a parameter (.param …), got {shown(texts[at])}")
        variable, where, at = read_variable(tokens, at, linkage=None, resolve=resolve, nameless=nameless)
        if variable.name in names:
            raise tokens.error(where, f"parameter {variable.name!r} is declared twice")
        names |= {variable.name} - {"_"}
        found.append(variable)
        if texts[at] == ",":
            at += 1
        elif texts[at] != ")":
            raise tokens.error(at, f"expected ',' or ')' after the parameter, got {shown(texts[at])}")
    return tuple(found), at + 1


def read_variable(
    tokens: Tokens, at: int, *, linkage: str | None, resolve: Resolve, nameless: bool = False
) -> tuple[Variable, int, int]:
    """One variable without what follows it: the variable, its name's token, the token after it."""
    texts = tokens.texts
    space = texts[at][1:]
    align = None
    vector = 1
    points_to = None
    managed = False
    at += 1
    while texts[at] in (".align", ".v2", ".v4", ".attribute"):
        if texts[at] == ".align":
            align, at = _alignment(tokens, at + 1)
        elif texts[at] == ".attribute":
            managed, at = _managed(tokens, at + 1, space)
        else:
            vector = int(texts[at][2:])
            at += 1
    kind = _type(tokens, at)
    if kind == "pred" and space != "reg":
        raise tokens.error(at, f"a predicate cannot be in .{space} space")
    at += 1
    if texts[at] == ".ptr":
        points_to = "generic"
        at += 1
        if texts[at] in (".global", ".shared", ".const", ".local"):
            points_to = texts[at][1:]
            at += 1
        if texts[at] == ".align":
            _, at = _alignment(tokens, at + 1)
    pattern = Variable(
        name="",
        space=space,
        type=kind,
        vector=vector,
        align=align or max(1, vector * TYPE_BITS[kind] // 8),
        linkage=linkage,
        points_to=points_to,
        managed=managed,
    )
    return _read_declarator(tokens, at, pattern, resolve, nameless)


def _managed(tokens: Tokens, at: int, space: str) -> tuple[bool, int]:
    """``(.managed)`` behind ``.attribute``, and the token after it."""
    if tokens.texts[at : at + 3] != ["(", ".managed", ")"]:
        raise tokens.error(at, "expected (.managed): variables have no other attribute here")
    if space != "global":
        raise tokens.error(at, f"a variable of .{space} space cannot be managed, only one of .global space")
    return True, at + 3


def _read_declarator(
    tokens: Tokens, at: int, pattern: Variable, resolve: Resolve, nameless: bool = False
) -> tuple[Variable, int, int]:
    """``b[4] = {…}`` of a declaration whose other facts ``pattern`` has; returns as `read_variable` does."""
    texts = tokens.texts
    where = at
    if not (nameless and texts[at] == "_"):
        check_name(tokens, texts[at], at)
    name = texts[at]
    shape, at = _shape(tokens, at + 1, where)
    init = None
    if texts[at] == "=":
        if pattern.space not in ("global", "const"):
            raise tokens.error(at, f"a .{pattern.space} variable has no initial value")
        init, at = _initial_value(tokens, at + 1, resolve)
        if shape[:1] == [0]:
            shape[0] = len(init) if isinstance(init, tuple) else 1
    elif shape[:1] == [0] and pattern.linkage != "extern" and pattern.space != "param":
        raise tokens.error(where, f"{name!r} has no size", "only an .extern array may leave it open")
    variable = Variable(
        name=name,
        space=pattern.space,
        type=pattern.type,
        align=pattern.align,
        shape=tuple(shape),
        vector=pattern.vector,
        init=init,
        linkage=pattern.linkage,
        points_to=pattern.points_to,
        managed=pattern.managed,
    )
    return variable, where, at


def _shape(tokens: Tokens, at: int, where: int) -> tuple[list[int], int]:
    """``[2][4]``, and the token after it; 0 for a size that is left out. Errors about all of it stand at ``where``."""
    texts = tokens.texts
    shape: list[int] = []
    while texts[at] == "[":
        at += 1
        extent = 0
        if texts[at] != "]":
            extent = read_integer(texts[at]) or 0
            if not extent:
                raise tokens.error(at, f"expected an array size, got {shown(texts[at])}")
            at += 1
        shape.append(extent)
        at = expect(tokens, at, "]", "after the array size")
    if len(shape) > MAX_DIMENSIONS or 0 in shape[1:]:
        raise tokens.error(where, "only the first of an array's sizes may be left out, and it has at most 16")
    elements = math.prod(max(1, extent) for extent in shape)
    if elements > MAX_ELEMENTS:
        raise tokens.error(where, f"{elements} elements are too many")
    return shape, at


def _initial_value(tokens: Tokens, at: int, resolve: Resolve) -> tuple[Initial, int]:
    """A number, the address of a variable, or ``{ … }`` of them, and the token after it.

    Braces are kept on a stack of our own: a stranger's text may nest them deeper than Python's calls go.
    """
    texts = tokens.texts
    stack: list[list[Initial]] = []
    values = 0
    while True:
        token = texts[at]
        if token == "{":
            if len(stack) >= MAX_DIMENSIONS:
                raise tokens.error(at, "too many braces inside one another")
            stack.append([])
            at += 1
            if texts[at] != "}":
                continue
            value: Initial = tuple(stack.pop())
            at += 1
        else:
            value, at = _one_value(tokens, at, resolve)
            values += 1
            if values > MAX_VALUES:
                raise tokens.error(at, f"more than {MAX_VALUES} initial values")
        while True:
            if not stack:
                return value, at
            stack[-1].append(value)
            if texts[at] == ",":
                at += 1
                break
            at = expect(tokens, at, "}", "or ',' after the value")
            value = tuple(stack.pop())


def _one_value(tokens: Tokens, at: int, resolve: Resolve) -> tuple[int | float | Symbol | Func, int]:
    """``-1.5``, ``name+8`` or ``generic(name)+8``, and the token after it."""
    texts = tokens.texts
    negative = texts[at] == "-"
    number = read_number(texts[at + negative], negative=negative)
    if number is not None:
        return number.value, at + 1 + negative
    generic = texts[at] == "generic" and texts[at + 1] == "("
    where = at + 2 if generic else at
    entry = resolve(texts[where])
    value = None if entry is None else entry[0]
    if not isinstance(value, Symbol | Func):
        raise tokens.error(where, f"expected a number or a variable, got {shown(texts[where])}")
    at = where + 1
    if generic:
        at = expect(tokens, at, ")", "after generic(…")
    if texts[at] == "+" and isinstance(value, Symbol):
        offset = read_integer(texts[at + 1])
        if offset is None:
            raise tokens.error(at + 1, f"expected an offset, got {shown(texts[at + 1])}")
        value = Symbol(value.name, value.space, offset)
        at += 2
    return value, at


def _type(tokens: Tokens, at: int) -> str:
    name = tokens.texts[at]
    if name[1:] not in REGISTER_TYPES or name[:1] != ".":
        known = [f".{each}" for each in REGISTER_TYPES]
        raise tokens.error(at, f"expected a type ({listed(known)}), got {shown(name)}", near(name, known))
    return name[1:]


def _alignment(tokens: Tokens, at: int) -> tuple[int, int]:
    value = read_integer(tokens.texts[at])
    if not value or value & value - 1 or value > 1 << 20:
        raise tokens.error(at, f"an alignment is a power of two, got {shown(tokens.texts[at])}")
    return value, at + 1


def expect(tokens: Tokens, at: int, wanted: str, where: str) -> int:
    """The token after ``wanted``; PtxSyntaxError where another one stands at ``at``."""
    token = tokens.texts[at]
    if token == wanted:
        return at + 1
    raise tokens.error(at, f"expected {wanted!r} {where}, got {shown(token)}")
