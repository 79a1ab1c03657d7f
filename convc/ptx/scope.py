"""Names of one kernel: nested scopes, and the slots and unique names that declarations get.

A scope is a ``{ … }`` of the body. A name means its innermost declaration that stands before the use; a label may
also stand after it (``ptxas`` resolves ``bra L`` to a label of the same scope even where an outer one exists already).
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from convc.ptx.diagnose import near
from convc.ptx.lexer import Tokens
from convc.ptx.special import SPECIAL_NAMES, SPECIAL_TYPES
from convc.ptx.syntax import Imm, Label, Operand, Prototype, Reg, Special, Symbol, Targets, Variable

MAX_REGISTERS = 1 << 18
"""Registers that one entry may declare, and all functions of a module together."""

MAX_DEPTH = 256
"""Scopes inside one another."""

_NAME = re.compile(r"[A-Za-z][\w$]*|[_$%][\w$]+", re.ASCII)

Entry = tuple[Operand, str]
"""What a name means, and the word that stands for its kind and type when forms are looked up."""


class Jump(NamedTuple):
    """A label that is named before it is known where it stands.

    Attributes:
        user: number of the instruction that jumps there, or of the target list that has it.
        position: its place in that list; `BRANCH` for an instruction.
        name: of the label.
        at: the token that names it.
    """

    user: int
    position: int
    name: str
    at: int


BRANCH = -1
"""`Jump.position` of an instruction, which has one label."""


class Scope:
    """One ``{ … }``: own declarations, labels, and jumps that wait for their label.

    Attributes:
        own: the names that are declared here, each with what it means outside.
    """

    __slots__ = ("jumps", "labels", "opened_at", "own")

    def __init__(self, opened_at: int) -> None:
        self.opened_at = opened_at
        self.own: dict[str, Entry | None] = {}
        self.labels: dict[str, int] = {}
        self.jumps: list[Jump] = []


class Budget:
    """Registers that an entry, or the functions of a module, may still declare."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


class Names:
    """The scopes of one kernel, innermost last, and everything declared in it so far.

    Attributes:
        seen: what each name means here, of those that are declared in the kernel and those that were met in it.
    """

    def __init__(self, tokens: Tokens, outside: dict[str, Entry], opened_at: int, budget: Budget) -> None:
        self.tokens = tokens
        self.outside = outside
        self.budget = budget
        self.registers: list[Reg] = []
        self.variables: list[Variable] = []
        self.used: dict[str, None] = {}
        self.seen: dict[str, Entry] = {}
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}
        self.scopes = [Scope(opened_at)]

    def open(self, at: int) -> None:
        """Enter a scope."""
        if len(self.scopes) >= MAX_DEPTH:
            raise self.tokens.error(at, f"more than {MAX_DEPTH} scopes inside one another")
        self.scopes.append(Scope(at))

    def close(self) -> list[tuple[Jump, int]]:
        """Leave the innermost scope; the jumps to labels of it, each with the instruction that its label stands before.

        The others wait for a label of the scope around it; PtxSyntaxError where there is none.
        """
        scope = self.scopes.pop()
        for name, outer in scope.own.items():
            if outer is None:
                del self.seen[name]
            else:
                self.seen[name] = outer
        found: list[tuple[Jump, int]] = []
        if not scope.jumps:
            return found
        waiting: list[Jump] = []
        for jump in scope.jumps:
            target = scope.labels.get(jump.name)
            if target is None:
                waiting.append(jump)
            else:
                found.append((jump, target))
        if self.scopes:
            self.scopes[-1].jumps += waiting
        elif waiting:
            first = waiting[0]
            raise self.tokens.error(first.at, f"no label {first.name!r} here", self._label_hint(first.name, scope))
        return found

    def _label_hint(self, name: str, scope: Scope) -> str:
        return near(name, scope.labels) or (
            "a label is visible in its own { … } and in those inside it" if not scope.labels else ""
        )

    def look_up(self, name: str) -> Entry | None:
        """What a name means here; None for one that is not declared."""
        entry = self.seen.get(name)
        if entry is None:
            entry = self.outside.get(name)
            if entry is not None:
                self.used[name] = None
            else:
                entry = _special(name)
            if entry is not None:
                self.seen[name] = entry
        return entry

    def meaning(self, name: str) -> Entry:
        """Look up a name; one that is not declared is a label."""
        return self.look_up(name) or (Label(name, -1), "L")

    def declare_registers(self, name: str, count: int | None, kind: str, at: int) -> None:
        """Declare the registers of ``.reg .b32 name`` or, with a count, of ``name<count>``."""
        wanted = 1 if count is None else count
        if wanted > self.budget.left:
            raise self.tokens.error(at, f"{wanted} registers are too many: an entry may declare {MAX_REGISTERS}")
        self.budget.left -= wanted
        if not _can_be_declared(name):
            check_name(self.tokens, name, at)
        scope = self.scopes[-1]
        own = scope.own
        labels = scope.labels
        seen = self.seen
        registers = self.registers
        for each in (name,) if count is None else [f"{name}{index}" for index in range(wanted)]:
            if each in own or each in labels:
                raise self.tokens.error(at, f"{each!r} is declared twice in this scope")
            own[each] = seen.get(each)
            seen[each] = entry = _register(len(registers), each, kind)
            registers.append(entry[0])

    def declare_variable(self, variable: Variable, at: int, *, rename: bool = True) -> None:
        """Declare a variable of the kernel: it gets a name that no other of the kernel or the module has."""
        self._check_new(variable.name, at)
        number = self._numbers.get(variable.name, 1)
        unique = variable.name if number == 1 else f"{variable.name}${number}"
        while rename and (unique in self._taken or unique in self.outside):
            number += 1
            unique = f"{variable.name}${number}"
        self._numbers[variable.name] = number
        self._taken.add(unique)
        self.variables.append(variable if unique == variable.name else replace(variable, name=unique))
        self._declare(variable.name, (Symbol(unique, variable.space), f"&{variable.space}"))

    def declare_targets(self, name: str, targets: Targets, at: int) -> None:
        """Declare the list of ``name: .branchtargets …;``."""
        self._check_new(name, at)
        self._declare(name, (targets, "T"))

    def declare_prototype(self, name: str, prototype: Prototype, at: int) -> None:
        """Declare what ``name: .callprototype …;`` says."""
        self._check_new(name, at)
        self._declare(name, (prototype, "P"))

    def declare_label(self, name: str, target: int, at: int) -> None:
        """Define the label ``name:``, which stands before instruction ``target``."""
        check_name(self.tokens, name, at)
        scope = self.scopes[-1]
        if name in scope.labels:
            raise self.tokens.error(at, f"label {name!r} is defined twice in this scope")
        if name in scope.own:
            raise self.tokens.error(at, f"{name!r} is declared in this scope already, so it cannot be a label")
        scope.labels[name] = target

    def _declare(self, name: str, entry: Entry) -> None:
        self.scopes[-1].own[name] = self.seen.get(name)
        self.seen[name] = entry

    def _check_new(self, name: str, at: int) -> None:
        check_name(self.tokens, name, at)
        scope = self.scopes[-1]
        if name in scope.own or name in scope.labels:
            raise self.tokens.error(at, f"{name!r} is declared twice in this scope")

    def declared(self) -> list[str]:
        """All names that can be seen here, for hints."""
        names = [*self.seen, *(name for scope in reversed(self.scopes) for name in scope.labels)]
        return list(dict.fromkeys([*names, *self.outside, *(f"%{name}" for name in SPECIAL_TYPES)]))


@lru_cache(maxsize=1 << 14)
def _register(slot: int, name: str, kind: str) -> tuple[Reg, str]:
    """What the name of a register means: kernels of one compiler declare the same ones."""
    return Reg(slot, name, kind), kind


def check_name(tokens: Tokens, name: str, at: int) -> None:
    """Raise unless ``name`` is one that can be declared."""
    if _can_be_declared(name):
        return
    if name in SPECIAL_NAMES:
        raise tokens.error(at, f"{name!r} is a special register and cannot be declared")
    raise tokens.error(at, f"expected a name, got {name!r}")


@lru_cache(maxsize=1 << 12)
def _can_be_declared(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name not in SPECIAL_NAMES


def _special(name: str) -> Entry | None:
    kind = SPECIAL_TYPES.get(name[1:]) if name[:1] == "%" else None
    if kind is not None:
        return Special(name[1:]), f"%{kind}"
    return (Imm(32, False, 32), "#") if name == "WARP_SZ" else None
