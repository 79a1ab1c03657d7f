"""Everything that can be broken in the text of a kernel, one change at a time, each in a category.

The categories are those of instructions that are left out (`LEFT_OUT`; a wait is made to pass) and those of numbers
that are moved by one step (`MOVED`). What a number means is found by following registers back: a number that ends up
in the parity of a wait is a phase, one in the address of tensor memory a column, and so on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from convc.machine.execute.facts import registers_of
from convc.machine.isa.registry import NO_RESULT
from convc.ptx import Address, Instr, parse
from convc.ptx.descriptors import INSTRUCTION_FIELDS, SHARED_FIELDS, ZERO_MASK_FIELDS, Fields

LEFT_OUT = {
    "wait": r"mbarrier\.(try|test)_wait|tcgen05\.wait|wgmma\.wait|cp\.async\.(bulk\.)?wait|barrier\.cluster\.wait",
    "commit": r"tcgen05\.commit|wgmma\.commit|cp\.async\.(bulk\.)?commit",
    "proxy fence": r"fence\.proxy",
    "fence": r"fence\.(?!proxy)|membar|tcgen05\.fence|wgmma\.fence",
    "expect_tx": r"mbarrier\.\S*expect_tx",
    "arrival": r"mbarrier\.arrive(?!\S*expect_tx)|cp\.async\.mbarrier\.arrive|barrier\.cluster\.arrive|bar\.arrive",
    "barrier": r"bar\.(sync|warp|red)|barrier(\.cta)?\.(sync|red)|mbarrier\.init",
    "allocation": r"tcgen05\.(alloc|dealloc|relinquish)|setmaxnreg\.dec",
    "work": r"tcgen05\.(mma|ld|st|cp|shift)\b|wgmma\.mma_async|"
    r"cp\.(reduce\.)?async\.(c[ag]|bulk\.(?!prefetch|commit|wait))|st\.async",
}
"""Instructions that are left out, by the beginning of their opcode."""

MOVED = ("byte count", "arrival count", "phase", "mask", "descriptor", "column", "number")
"""Numbers that are moved; ``number`` is any other."""

DIRECT = {
    "byte count": r"mbarrier\.\S*expect_tx|cp\.(reduce\.)?async\.bulk(?!\.(tensor|wait))|st\.bulk",
    "arrival count": r"mbarrier\.init|bar\.(sync|arrive|red)",
    "mask": r"elect|bar\.warp",
    "column": r"tcgen05\.(alloc|dealloc)",
    "phase": r"mbarrier\.(try|test)_wait\.parity",
}
"""What a number written into an instruction itself means."""

WARP = re.compile(r"shfl|vote|redux|match")
"""Instructions that end with a membermask."""

FIELDS: dict[str, Fields] = {
    "instruction": INSTRUCTION_FIELDS, "zero mask": ZERO_MASK_FIELDS, "shared": SHARED_FIELDS,
}  # fmt: skip
PROVED_STEPS = (
    r"load\.start_\w+", r"mma\.start_w", r"mma\.entered_\w+", r"epilogue\.m\d+",
    r"(masks|epilogue)\.(column|line)_mask(_first|_next)?(_\d)?",
)  # fmt: skip
"""Steps of kernels that share activations whose numbers are coordinates: proved, and compared with plain enumeration,
in ``tests/unit/compiler/index``. Of the few tiles here a wrong number may hit the right ones; test_sharing breaks
masks.
"""
PROVED = re.compile(r"%tile_m, |div\.u32|rem\.u32")
"""Arithmetic of start coordinates, proved elsewhere: of the few tiles here a wrong number may hit the right ones."""

WORD = 1 << 24
"""A number from here on is a whole descriptor, one below is a part of its address."""

_PROVED = re.compile("|".join(PROVED_STEPS))
_NUMBER = re.compile(r"(?<![\w%.:$])(-?0[xX][0-9a-fA-F]+|-?\d+)(?![\w.:])")
_HEAD = re.compile(r"(?:@!?[%\w]+\s+)?([\w.:]+)")


@dataclass(frozen=True, slots=True)
class Change:
    """One thing broken: its category, what it is in words, and the changed text."""

    category: str
    what: str
    text: str


class Sabotage:
    """The changes of one kernel text.

    ``ours``: made by convc; then every number from the first step on is moved, also those that are none of the named
    kinds.
    """

    def __init__(self, text: str, ours: bool) -> None:
        self.text, self.ours = text, ours
        self.code = re.sub(r"//[^\n]*", lambda comment: " " * len(comment[0]), text)
        (kernel,) = parse(text).kernels
        self.body = kernel.body
        self.first_step = next((instr.index for instr in self.body if instr.step), len(self.body))
        starts = [0]
        for line in text.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        self.first = [starts[i.span.line - 1] + i.span.column - 1 for i in self.body]
        self.end = [self.code.index(";", first) + 1 for first in self.first]

    def changes(self) -> Iterator[Change]:
        """All of them, in the order of the text."""
        for instr in self.body:
            head = self.head(instr)
            for category, pattern in LEFT_OUT.items():
                if re.match(pattern, head):
                    yield self._without(instr, category)
            if "xor" in head and instr.index in self.roles.get("phase", ()):
                yield self._without(instr, "phase")
            yield from self._numbers(instr)

    def head(self, instr: Instr) -> str:
        """The opcode with its modifiers, as it stands in the text."""
        return _HEAD.match(self.code, self.first[instr.index])[1]

    def _where(self, instr: Instr) -> str:
        statement = " ".join(self.code[self.first[instr.index] : self.end[instr.index]].split())
        return f"{instr.span.line}: {statement} @{instr.step or ''}"

    def _without(self, instr: Instr, category: str) -> Change:
        """Leave an instruction out; a wait for an mbarrier passes at once. Lines keep their numbers."""
        first, end = self.first[instr.index], self.end[instr.index]
        lines = "\n" * self.text.count("\n", first, end)
        passing = re.search(r"(?:try|test)_wait\S*\s+([%$\w]+)", self.code[first:end])
        new = f"setp.eq.u32 {passing[1]}, 0, 0;" if passing else ""
        text = self.text[:first] + new + lines + self.text[end:]
        return Change(category, f"without {self._where(instr)}", text)

    # ---- numbers -----------------------------------------------------------------------------------------------

    def _numbers(self, instr: Instr) -> Iterator[Change]:
        head, first, end = self.head(instr), self.first[instr.index], self.end[instr.index]
        if _PROVED.fullmatch(instr.step or ""):
            return
        for found in _NUMBER.finditer(self.code, self.code.index(head, first) + len(head), end):
            before = self.code[first : found.start()]
            inside = bool(re.search(r"\[[^\[\]]*\+\s*$", before))
            last = self.code[found.end() : end].strip() == ";"
            category = "mask" if last and WARP.match(head) else self._category(instr, head, inside)
            if category == "number" and not (
                self.ours and instr.index >= self.first_step and not PROVED.search(self.code, first, end)
            ):
                continue
            number = int(found[0], 0)
            high = head == "mov.b64" and "{" in before
            for step in self._steps(instr, category, found[0], _unit(head, before) if inside else None, high):
                what = f"{found[0]} {step:+d} in {self._where(instr)}"
                text = self.text[: found.start()] + str(number + step) + self.text[found.end() :]
                yield Change(category, what, text)

    def _category(self, instr: Instr, head: str, inside: bool) -> str:
        """What a number of an instruction means."""
        if not inside:
            for category, pattern in DIRECT.items():
                if re.match(pattern, head):
                    return category
        return next((role for role, indices in self.roles.items() if instr.index in indices), "number")

    def _steps(self, instr: Instr, category: str, written: str, unit: int | None, high: bool) -> list[int]:
        """How a number is moved: by the least that the instruction tells apart, or each field of a descriptor.

        ``high``: it is the upper half of 64 bits.
        """
        number = int(written, 0)
        if category == "descriptor" and (number >= WORD or len(written) == len("0x00000000")):
            fields = next(table for name, table in FIELDS.items() if instr.index in self.descriptors[name])
            first = 32 if high else 0
            size = 64 if number >> 32 else 32
            places = [(low - first, bits) for low, bits in fields.values() if first <= low < first + size]
            moves = ((1 << low, number >> low & (1 << bits) - 1) for low, bits in places)
            return [step for move, value in moves for step in ((move, -move) if value else (move,))]
        in_bytes = category == "descriptor" and self.head(instr).startswith("mad") and not self.ours
        unit = unit or (16 if in_bytes else 1)
        return [unit, -unit]

    # ---- where numbers go --------------------------------------------------------------------------------------

    @cached_property
    def descriptors(self) -> dict[str, frozenset[int]]:
        """Instructions that a descriptor comes from, by kind."""
        return {
            "instruction": self._origins(r"tcgen05\.mma", "idesc"),
            "zero mask": self._origins(r"tcgen05\.mma", "zero_mask"),
            "shared": self._origins(r"tcgen05\.(mma|cp)", "a", "b", "sdesc", addresses=False),
        }

    @cached_property
    def roles(self) -> dict[str, frozenset[int]]:
        """Instructions that make a phase, byte count, mask, descriptor or column."""
        return {
            "phase": self._origins(r"mbarrier\.(try|test)_wait", 2),
            "byte count": self._origins(r"mbarrier|cp\.async\.bulk", "tx_count", "size"),
            "mask": self._origins("", "mask", "membermask"),
            "descriptor": frozenset().union(*self.descriptors.values()),
            "column": self._origins("tcgen05", "d", "taddr", "scale_a", "scale_b")
            | self._origins(r"tcgen05\.mma", "a", addresses=True),
        }

    @cached_property
    def _makers(self) -> dict[int, list[Instr]]:
        """Instructions by the register that they write."""
        makers: dict[int, list[Instr]] = {}
        for instr in self.body:
            if instr.form.name not in NO_RESULT and instr.operands:
                for register in registers_of(instr.operands[0]):
                    makers.setdefault(register.slot, []).append(instr)
        return makers

    def _origins(self, opcode: str, *operands: str | int, addresses: bool | None = None) -> frozenset[int]:
        """Instructions whose results end up in operands (by name or place) of those that an opcode pattern matches.

        With ``addresses``, only in operands that are addresses in brackets, or only in others.
        """
        seen: set[int] = set()
        for instr in self.body:
            if not re.match(opcode, instr.form.name):
                continue
            for name in operands:
                operand = instr.operands[name] if isinstance(name, int) else instr.args.get(name)
                if operand is not None and addresses in (None, isinstance(operand, Address)):
                    seen |= {register.slot for register in registers_of(operand)}
        todo, found = list(seen), set()
        while todo:
            for instr in self._makers.get(todo.pop(), ()):
                found.add(instr.index)
                sources = {r.slot for operand in instr.operands[1:] for r in registers_of(operand)} - seen
                seen |= sources
                todo += sources
        return frozenset(found)


def _unit(head: str, before: str) -> int:
    """By how many bytes an address is moved: one barrier, one 16-byte unit of a copy, or one element."""
    if re.match(r"mbarrier|tcgen05\.commit|cp\.async\.mbarrier", head):
        return 8
    if re.match(r"cp\.async\.bulk", head):
        return 16 if before.count("[") == 1 else 8
    types, vector = re.findall(r"\.[busf](\d+)\b", head), re.search(r"\.v(\d)", head)
    return int(types[-1] if types else 32) // 8 * int(vector[1] if vector else 1)
