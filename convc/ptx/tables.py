"""The grammar as data: what one row of `forms/*.txt` says.

A row is an instruction of the PTX manual, in the manual's own notation, with the name that the simulator knows it by:

    ## 9.7.13.15.16 Parallel Synchronization and Communication: mbarrier.try_wait; PTX 7.8, sm_90
    mbarrier.try_wait.parity: mbarrier.try_wait.parity{.sem.scope}{.space}.b64 p, [addr], parity {, hint}
        .sem = {.acquire, .relaxed}
        parity, hint: value .u32

Rows directly under one another share the indented lines below them. A modifier that has a ``.name = {…}`` line is a
*set* (a slot to fill); any other is a literal. Braces mean "optional", always; vectors are written as one name and
described below the row. docs/add_a_form.md explains every kind of line.

The files are split into rows when the first one is asked for, and a row is read when its opcode is first used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple

from convc.ptx.syntax import TYPE_BITS, Form

FOLDER = os.path.join(os.path.dirname(__file__), "forms")

_OPERAND = re.compile(r"\{,\s*([^}]+)\}|(\[[^\]]+\]|\(\w+\)|\w+(?:\|\w+|\{\|\w+\})?)")
_ITEM = re.compile(r"\{([^}]*)\}|\.([\w:]+)")
_NAME = re.compile(r"\w+")
_VALUE = re.compile(r"\.([\w:.]+)(?:=(\d+))?")
_OPCODE = re.compile(r"[^.{ ]+")
_JOINT = re.compile(r"\\\n\s*")
_COMMENT = re.compile(r"\n#(?!#).*")
_PART = re.compile(r"((?:^[^\s#.].*\n)+)((?:^ .*\n)*)|^\.(\w+) = (.*)|^##(.*)", re.MULTILINE)
"""Rows with the indented lines below them, a set of the whole file, or what stands above rows."""

_SET = re.compile(r"^ +\.(\w+) = (.*)", re.MULTILINE)
_RULE = re.compile(r"^ +if (.*?): (.*)", re.MULTILINE)
_KIND = re.compile(r"^ +(?!if )(\w[\w, ]*): (.*)", re.MULTILINE)
_SINCE = re.compile(r"PTX (\d+)\.(\d+), (sm_\w+)( only)?")
_SHAPES = {"[": "address", "(": "list"}


class Choice(NamedTuple):
    """A place in the modifiers where one of several stands.

    Attributes:
        slot: name of the slot it fills, or None for a literal.
        values: text (without the leading dot) -> the modifiers it consists of.
        sizes: text -> the number that the row gives it (``.x4=4``), for vector lengths.
        words: the modifiers of all values.
        several: whether a value consists of more than one.
    """

    slot: str | None
    values: dict[str, tuple[str, ...]]
    sizes: dict[str, int]
    words: frozenset[str]
    several: bool


class Group(NamedTuple):
    """Modifiers that come together or not at all."""

    items: tuple[Choice, ...]


class Place(NamedTuple):
    """An operand of a row.

    Attributes:
        name, second: name in the row; the second name of ``d|p``. second_optional: the row says ``d{|p}``.
        shape: plain, address ``[a]``, tensor ``[a, c]``, or list ``(a)``.
        optional: in braces.
        words: the description below the row, split at blanks; () without one.
    """

    name: str
    second: str | None
    second_optional: bool
    shape: str
    optional: bool
    words: tuple[str, ...]


class Row:
    """One row, read: its modifiers once an instruction has all its literals, its operands once the modifiers fit.

    Attributes:
        name: of the form.
        literals: modifiers that every instruction of the row has.
        length: number of items.
    """

    def __init__(self, opcode: str, block: _Block, name: str, pattern: str) -> None:
        self.name = name
        self._block = block
        self._opcode = opcode
        self._pattern = pattern
        head, _, self._operands = pattern.partition(" ")
        self._mods: list[tuple[str, str]] = _ITEM.findall(head, len(opcode))
        sets = block.sets
        self.literals = frozenset([word for _, word in self._mods if word and word not in sets])
        self.length = len(self._mods)
        self._items: list[Choice | Group | None] = [None] * self.length

    @cached_property
    def form(self) -> Form:
        """The row as the simulator sees it."""
        section, _, since = self._block.section.partition("; ")
        version, target, only = _since(since)
        return Form(
            name=self.name,
            opcode=self._opcode,
            pattern=self._pattern,
            section=section,
            ptx=version,
            target=target,
            only=only,
        )

    def item(self, number: int) -> Choice | Group:
        """A place in the modifiers, or several that go together."""
        found = self._items[number]
        if found is None:
            group, word = self._mods[number]
            found = self._items[number] = _item(group, word, self._block.sets)
        return found

    @property
    def items(self) -> tuple[Choice | Group, ...]:
        """The modifiers."""
        return tuple(map(self.item, range(self.length)))

    @property
    def slots(self) -> list[str]:
        """The slots that its modifiers fill."""
        sets = self._block.sets
        found: list[str] = []
        for group, word in self._mods:
            if group:
                found += group[1:].split(".")
            elif word in sets:
                found.append(word)
        return found

    @property
    def names(self) -> list[str]:
        """The names of its operands."""
        return _NAME.findall(self._operands)

    @cached_property
    def fixed(self) -> int:
        """Number of the first modifiers that are literals, which keep their place."""
        literal = [isinstance(item, Choice) and item.slot is None for item in self.items]
        return (*literal, False).index(False)

    @cached_property
    def words(self) -> frozenset[str]:
        """All modifiers that stand in any of the items."""
        return frozenset[str]().union(*[choice.words for choice in choices(self.items)])

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The ``if`` lines."""
        return self._block.rules

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The operands."""
        kinds = self._block.kinds
        places = _places(self._operands)
        return tuple([Place(*place[:-1], kinds[place.name]) if place.name in kinds else place for place in places])

    @property
    def default_type(self) -> str | None:
        """Type of plain operands."""
        words = [word for group, mod in self._mods for word in (group[1:].split(".") if group else (mod,))]
        if "type" in words and "type" in self._block.sets:
            return ".type"
        return next((f".{word}" for word in reversed(words) if word in TYPE_BITS and word in self.literals), None)


Condition = tuple[str, tuple[str, ...]]
"""A slot and the values it may have; () means any value, "none" an absent modifier."""

Rule = tuple[tuple[Condition, ...], tuple[Condition, ...]]
"""Where all of the first hold, the others must."""


class _Block:
    """Rows that share their indented lines.

    Attributes:
        section: what stands above them.
        file_sets: values of the sets of the whole file, as text.
        lines: the indented lines.
    """

    def __init__(self, section: str, file_sets: dict[str, str], lines: str) -> None:
        self.section = section
        self.file_sets = file_sets
        self.lines = lines

    @cached_property
    def sets(self) -> dict[str, str]:
        """Values of each set, as text."""
        own = _SET.findall(self.lines)
        return {**self.file_sets, **dict(own)} if own else self.file_sets

    @cached_property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        """Description of each operand, split at blanks."""
        kinds: dict[str, tuple[str, ...]] = {}
        for names, words in _KIND.findall(self.lines):
            described = tuple(words.split())
            for each in names.split(","):
                kinds[each.strip()] = described
        return kinds

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The ``if`` lines."""
        return tuple((_conditions(left), _conditions(right)) for left, right in _RULE.findall(self.lines))


_index: dict[str, list[tuple[_Block, str, str]]] = {}
_rows: dict[str, tuple[Row, ...]] = {}


def opcodes() -> list[str]:
    """Every opcode of the table."""
    if not _index:
        index: dict[str, list[tuple[_Block, str, str]]] = {}
        for name in sorted(os.listdir(FOLDER)):
            if name.endswith(".txt"):
                with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
                    _split(file.read(), index)
        _index.update(index)
    return list(_index)


def rows_of(opcode: str) -> tuple[Row, ...]:
    """The rows of one opcode, in the order of the files; () for an unknown one."""
    if opcode not in _rows:
        if not _index:
            opcodes()
        found = tuple(Row(opcode, *each) for each in _index.get(opcode, ()))
        if not found:
            return ()
        _rows[opcode] = found
    return _rows[opcode]


def _split(text: str, index: dict[str, list[tuple[_Block, str, str]]]) -> None:
    """Sort the lines of a file into blocks, and their rows into ``index`` by opcode."""
    section = ""
    sets: dict[str, str] = {}
    for found in _PART.finditer(_COMMENT.sub("", _JOINT.sub("", text + "\n"))):
        rows, lines, key, values, title = found.groups()
        if rows is None:
            if key is None:
                section = title.strip()
            else:
                sets[key] = values
            continue
        block = _Block(section, sets, lines)
        for header in rows.splitlines():
            name, _, pattern = header.partition(": ")
            opcode = _OPCODE.match(pattern)
            index.setdefault(opcode[0] if opcode else "", []).append((block, name, pattern))


@lru_cache(maxsize=256)
def _since(text: str) -> tuple[tuple[int, int], str, bool]:
    """Version and target of ``PTX 8.6, sm_100a``, and whether ``only`` follows: no later target has it.

    The oldest that anybody asks for where nothing is said.
    """
    found = _SINCE.fullmatch(text)
    if found is None:
        return (1, 0), "sm_50", False
    return (int(found[1]), int(found[2])), found[3], found[4] is not None


@lru_cache(maxsize=1 << 9)
def _conditions(text: str) -> tuple[Condition, ...]:
    """``sem=acquire|release, scope`` as slots with their values."""
    parts = (part.strip().partition("=") for part in text.split(","))
    return tuple((slot, tuple(values.split("|")) if values else ()) for slot, _, values in parts)


def _item(group: str, word: str, sets: dict[str, str]) -> Choice | Group:
    """A modifier of a row from what stands in braces, or the word that does not: ``.to{.sem.scope}.b64``."""
    if word:
        return _choice(word, _values(word, sets), optional=False)
    return Group(tuple([_choice(each, _values(each, sets), optional=True) for each in group[1:].split(".")]))


def _values(word: str, sets: dict[str, str]) -> str | None:
    """The values of the set of that name, as text; None where there is none."""
    text = sets.get(word)
    while text is not None and text.startswith("."):  # one set is another one: ".atype = .type"
        text = sets[text[1:]]
    return text


@lru_cache(maxsize=1 << 11)
def _choice(word: str, text: str | None, *, optional: bool) -> Choice:
    """The set of that name and with these values, or the word itself where there is none."""
    if text is None:
        return Choice(word if optional else None, {word: (word,)}, {}, frozenset((word,)), False)
    found = _VALUE.findall(text)
    values = {value: tuple(value.split(".")) for value, _ in found}
    sizes = {value: int(size) for value, size in found if size}
    words = frozenset(chain.from_iterable(values.values()))
    return Choice(word, values, sizes, words, words != values.keys())


def choices(items: tuple[Choice | Group, ...]) -> Iterator[Choice]:
    """The choices of a row, those in groups too."""
    for item in items:
        yield from (item.items if isinstance(item, Group) else (item,))


@lru_cache(maxsize=1 << 10)
def _places(text: str) -> tuple[Place, ...]:
    """The operands of a row from ``d{|p}, [a], b {, c}``, without their descriptions."""
    places: list[Place] = []
    for optional, plain in _OPERAND.findall(text):
        word = optional or plain
        shape = _SHAPES.get(word[0], "plain")
        names = _NAME.findall(word)
        if shape == "address" and len(names) == 2:
            shape = "tensor"
        second = names[1] if shape == "plain" and len(names) == 2 else None
        places.append(Place(names[0], second, "{|" in word, shape, bool(optional), ()))
    return tuple(places)
