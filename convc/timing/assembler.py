"""A trace with the machine instructions that ptxas makes of the text, in place of the text's own.

What a warp does for others to see (a copy, an arrival, a wait, a store) stands in the machine code too, on the same
line and in the same order. Between two of these the warp takes a way through the code: the one whose instructions come
from the lines that it executed. Every instruction on it costs its stall count, which ptxas has set so that results of
fixed latency are there in time; for all others an instruction waits for the scoreboards that its encoding names.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import msgspec

from convc.support.nvdisasm import disassemble
from convc.support.ptxas import assemble
from convc.timing.sass import LaneLoop, Sass, lane_loops, read_sass
from convc.timing.trace import Contribution, Item, Slot, Trace, Warp

ORDERED = (
    "SYNCS", "UTMALDG", "UTMASTG", "UTMAREDG", "UTMACMDFLUSH", "UBLK", "UTC", "LDTM", "STTM", "BAR", "UCGABAR", "STG",
    "ST.", "ATOM", "RED", "LDGSTS", "DEPBAR", "LDGDEPBAR", "CALL", "BPT", "NANOSLEEP", "HGMMA", "QGMMA", "IGMMA",
    "WARPGROUP.DEPBAR",
)  # fmt: skip
"""Instructions that others see, or that a warp does not come past by chance: ptxas keeps their order."""

LOADS = ("LDG", "LD.")
"""Loads of global memory, which ptxas moves."""

TARGET = re.compile(r"^\s*\.target\s+(sm_\w+)", re.MULTILINE)
"""The GPU that a text is for; ptxas says what is wrong with a text that names none."""

RESULTS = {
    "SYNCS.PHASECHK": "assembler.try_wait", "LDS": "shared_memory.load_latency", "LDG": "threads.global_latency",
    "UTCATOMSWS.FIND": "tensor_memory.allocate", "MUFU": "assembler.convert", "I2F": "assembler.convert",
    "F2I": "assembler.convert",
}  # fmt: skip
"""What releases the scoreboard of a result, by the beginning of the opcode; ``assembler.special`` for all others."""

PASSED = 100
"""What it counts against a way that it comes past an instruction that others see."""

LENGTH = 0.05
"""What each of its instructions counts against a way."""

MOST_WAYS = 16
"""Ways between two points that are compared."""

MOST_STEPS = 4000
"""Instructions that are looked at on all of them; behind that, the shortest way is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The machine code of a kernel, and the resources that ptxas gave it.

    Attributes:
        code: its machine instructions.
        registers: per thread. spill_bytes: of registers, stored and loaded. stack_bytes: per thread.
    """

    code: tuple[Sass, ...]
    registers: int
    spill_bytes: int
    stack_bytes: int

    @property
    def lane_loops(self) -> tuple[LaneLoop, ...]:
        """Loops over lanes around tensor instructions and copies."""
        return lane_loops(self.code)

    def shift_loops(self, starts: Sequence[int]) -> frozenset[int]:
        """Lines of the text whose tcgen05.shift is in such a loop; ``starts`` as for `assembled`."""
        return frozenset(_start(loop.line, starts) for loop in self.lane_loops if loop.opcode == "UTCSHIFT")


def assembly(text: str, entry: str, *, file: str = "kernel.ptx") -> Assembly:
    """Assemble a text for its target and read the machine code back.

    Raises:
        ToolError: ptxas or nvdisasm is missing, takes too long, or refuses the text.
    """
    target = TARGET.search(text)
    made = assemble(text, target[1] if target else "sm_100a", file=file, lines=True)
    return Assembly(
        code=read_sass(disassemble(made.cubin, file=file), entry),
        registers=made.registers,
        spill_bytes=made.spill_bytes,
        stack_bytes=made.stack_bytes,
    )


def assembled(trace: Trace, code: Sequence[Sass], starts: Sequence[int]) -> Trace:
    """The trace with the items that the machine code has.

    Args:
        trace: as recorded from the text.
        code: the machine instructions of the same text.
        starts: lines of the text on which an instruction begins, rising; ptxas names the line on which it ends.

    Returns:
        A new trace. Works, phases and barriers are the same; every item is a machine instruction, some of which do what
        an instruction of the text does.
    """
    ways = _Ways([replace(one, line=_start(one.line, starts)) for one in code])
    steps = {item.line: item.step for items in trace.items.values() for item in items}
    items: dict[Warp, list[Item]] = {}
    places: dict[Warp, dict[int, int]] = {}
    lines = _telling_lines(trace)
    for warp, recorded in trace.items.items():
        strand = _Strand(ways, recorded, lines, steps)
        strand.walk()
        items[warp] = strand.items
        places[warp] = strand.places
    return Trace(
        items=items,
        works=trace.works,
        phases={phase: [_moved(one, places) for one in ones] for phase, ones in trace.phases.items()},
        arrivals={
            meeting: [(warp, places[warp][item]) for warp, item in arrivals]
            for meeting, arrivals in trace.arrivals.items()
        },
        ctas=trace.ctas,
        prefetches=trace.prefetches,
    )


def _start(line: int, starts: Sequence[int]) -> int:
    """The line on which the instruction begins that ends on a line."""
    at = bisect_right(starts, line)
    return starts[at - 1] if at else line


def _telling_lines(trace: Trace) -> frozenset[int]:
    """Lines from which something follows besides a value, whenever they are executed."""
    lines: set[int] = set()
    for ones in trace.phases.values():
        lines.update(trace.items[one.warp][one.item].line for one in ones if one.warp is not None)
    for items in trace.items.values():
        for item in items:
            told = item.works or item.waits or item.meets or item.leaves or item.group or item.cells
            if told or item.left is not None or sum(item.sectors):
                lines.add(item.line)
    return frozenset(lines)


def _moved(one: Contribution, places: dict[Warp, dict[int, int]]) -> Contribution:
    """A contribution whose item has another number now."""
    return one if one.warp is None else Contribution(one.warp, places[one.warp][one.item], one.works)


class _Ways:
    """The ways through a kernel's machine code."""

    def __init__(self, code: Sequence[Sass]) -> None:
        self.code = code
        self.ordered = [one.opcode.startswith(ORDERED) for one in code]
        self.of_line: dict[int, list[int]] = defaultdict(list)
        for number, one in enumerate(code):
            if one.opcode.startswith(ORDERED + LOADS):
                self.of_line[one.line].append(number)
        self.exits = frozenset(number for number, one in enumerate(code) if one.opcode.startswith("EXIT"))
        self._known: dict[object, tuple[int, ...]] = {}

    def find(self, start: int, goals: frozenset[int], lines: frozenset[int]) -> tuple[int, ...]:
        """The instructions behind ``start`` up to one of the goals; the first goal alone where no way leads there."""
        key = (start, goals, lines)
        if key not in self._known:
            self._known[key] = self._best(start, goals, lines) or self._shortest(start, goals) or (min(goals),)
        return self._known[key]

    def _after(self, number: int) -> list[int]:
        """What may be executed behind an instruction."""
        one = self.code[number]
        after = [] if one.ends or number + 1 == len(self.code) else [number + 1]
        return after if one.target is None else [*after, one.target]

    def _best(self, start: int, goals: frozenset[int], lines: frozenset[int]) -> tuple[int, ...] | None:
        """Of the ways that pass nothing twice, the one that keeps to the lines; None where none is found soon."""
        best: tuple[int, ...] | None = None
        most = 0.0
        fewest = len(self.code)  # instructions that others see, on the way that passes fewest of them
        ways = 0
        steps = 0
        begin = [0] if start < 0 else self._after(start)
        open_ways: list[tuple[list[int], int]] = [([at], 0) for at in begin]
        while open_ways and ways < MOST_WAYS and steps < MOST_STEPS:
            way, seen = open_ways.pop()
            passed = set(way[:-1])
            while way[-1] not in passed and seen <= fewest:
                at = way[-1]
                if at in goals:
                    ways += 1
                    fewest = min(fewest, seen)
                    score = self._score(way, goals, lines)
                    if best is None or score > most:
                        best = tuple(way)
                        most = score
                    break
                passed.add(at)
                steps += 1
                seen += self.ordered[at]
                after = self._after(at)
                if not after:
                    break
                if len(after) > 1:
                    open_ways.append(([*way, after[1]], seen))
                way.append(after[0])
        return best

    def _shortest(self, start: int, goals: frozenset[int]) -> tuple[int, ...] | None:
        """The way of the fewest instructions; None where there is none."""
        before: dict[int, int] = {}
        reached = deque([start])
        while reached:
            at = reached.popleft()
            for after in [0] if at < 0 else self._after(at):
                if after in before:
                    continue
                before[after] = at
                if after not in goals:
                    reached.append(after)
                    continue
                way = [after]
                while before[way[-1]] != start:
                    way.append(before[way[-1]])
                return tuple(reversed(way))
        return None

    def _score(self, way: Sequence[int], goals: frozenset[int], lines: frozenset[int]) -> float:
        """How well a way fits: every line of those executed counts once, and its length and detours against it."""
        own = [self.code[at].line for at in way]
        passed = sum(self.ordered[at] for at in way[:-1])
        passed += sum(before < goal < at for before, at in pairwise(way) for goal in goals)
        strange = sum(line not in lines for line in own)
        return len(lines.intersection(own)) - strange - LENGTH * len(way) - PASSED * passed


class _Strand:
    """A warp on its way through the machine code."""

    def __init__(self, ways: _Ways, recorded: list[Item], telling: frozenset[int], steps: dict[int, str]) -> None:
        self.items: list[Item] = []
        self.places: dict[int, int] = {}  # number of a recorded item: of the same item here
        self._ways = ways
        self._recorded = recorded
        self._steps = steps
        self._telling = telling
        self._pending: dict[int, deque[int]] = defaultdict(deque)
        for number, item in enumerate(recorded):
            if item.line in telling:
                self._pending[item.line].append(number)
        self._order = deque(n for n, item in enumerate(recorded) if item.line in telling and not item.loads)
        self._board: dict[int, list[int]] = defaultdict(list)  # items that release each scoreboard
        self._waiting: dict[int, int] = {}  # scoreboard: the recorded wait whose outcome releases it
        self._at = -1

    def walk(self) -> None:
        """Take the way that the recorded items take."""
        lines: set[int] = set()
        for number, item in enumerate(self._recorded):
            lines.add(item.line)
            if item.line not in self._telling or item.loads or self._done(number):
                continue
            goals = self._ways.of_line.get(item.line)
            if goals:
                self._go(frozenset(goals), frozenset(lines))
                lines = {item.line}
            if not self._done(number):
                self._take(number, None)
        if self._ways.exits:
            self._go(self._ways.exits, frozenset(lines))
        for number in tuple(self._waiting.values()):
            self._take(number, None)

    def _done(self, number: int) -> bool:
        """Whether a recorded item has its place, or will get it."""
        return number in self.places or number in self._waiting.values()

    def _go(self, goals: frozenset[int], lines: frozenset[int]) -> None:
        """Execute the instructions up to one of the goals."""
        way = self._ways.find(self._at, goals, lines)
        before = self._at
        for at in way:
            if self.items and before >= 0 and at != before + 1:
                self._jumped()
            self._execute(at)
            before = at
        self._at = before

    def _jumped(self) -> None:
        """The latest instruction is a jump that was taken."""
        last = self.items[-1]
        if last.sass is not None:
            last.sass = last.sass._replace(taken=True)

    def _execute(self, at: int) -> None:
        """One machine instruction."""
        one = self._ways.code[at]
        needs = {item for board in one.waits for item in self._board.pop(board, ())}
        for board in one.waits:
            waiting = self._waiting.pop(board, None)
            if waiting is not None:
                self._take(waiting, None, tuple(needs))
        pending = self._pending.get(one.line)
        slot = Slot(one.stall, _after(one), False, _reads(one))
        number = None
        if pending and one.opcode.startswith(ORDERED + LOADS):
            number = pending[0]
            if one.opcode.startswith("SYNCS.PHASECHK") and one.result is not None:
                self._waiting[one.result] = pending.popleft()
                number = None
        if number is None:
            self.items.append(
                Item(
                    name=one.opcode,
                    step=self._steps.get(one.line, ""),
                    line=one.line,
                    index=at,
                    needs=tuple(needs),
                    sass=slot,
                )
            )
        else:
            self._take(number, slot, tuple(needs))
        last = len(self.items) - 1
        if one.result is not None:
            self._board[one.result].append(last)
        if one.operands is not None:
            self._board[one.operands].append(last if one.result is None else ~last)

    def _take(self, number: int, slot: Slot | None, needs: tuple[int, ...] = ()) -> None:
        """A recorded item, here; those before it that others see have happened, wherever their instructions are."""
        if not self._recorded[number].loads:
            while self._order and self._order[0] < number:
                self._put(self._order.popleft(), None, ())
        self._put(number, slot, needs)

    def _put(self, number: int, slot: Slot | None, needs: tuple[int, ...]) -> None:
        """The place of a recorded item, if it has none yet."""
        if number in self.places:
            return
        item = self._recorded[number]
        pending = self._pending[item.line]
        if number in pending:
            pending.remove(number)
        self._waiting = {board: wait for board, wait in self._waiting.items() if wait != number}
        self.places[number] = len(self.items)
        sass = slot or Slot(0, "", False, "")
        self.items.append(msgspec.structs.replace(item, needs=needs, repeats=False, sass=sass))


def _reads(one: Sass) -> str:
    """The parameter that says when an instruction has read its operands; "" where nothing waits for that."""
    if one.operands is None:
        return ""
    return "assembler.operands_im2col" if "IM2COL" in one.opcode else "assembler.operands"


def _after(one: Sass) -> str:
    """The parameter that says when an instruction's result is there; where it has none, its operands have been read."""
    if one.result is None:
        return _reads(one)
    return next((name for start, name in RESULTS.items() if one.opcode.startswith(start)), "assembler.special")
