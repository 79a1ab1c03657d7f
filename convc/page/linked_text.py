"""The loop nest, the tile program, the PTX and its machine code side by side: lines that belong to one step.

A step belongs to a line of the nest by what it does (its class) and by the number that its loop counts.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from convc.compiler.tile.program import TileProgram, walk
from convc.compiler.tile.show import show
from convc.compiler.tile.steps.base import Loop, Step
from convc.compiler.tile.steps.copies import TensorCopy
from convc.compiler.tile.steps.epilogue import ValueStep
from convc.compiler.tile.steps.lanes import ClearAcc, MoveRows, Refresh, TensorFill
from convc.compiler.tile.steps.mma import MmaTensor, Multiply
from convc.compiler.tile.steps.staged import ResultStore
from convc.draw.fields import ExplainedDescriptor, explain_instruction, explain_matrix
from convc.ptx.parser import parse
from convc.timing.attribution import PathPart
from convc.timing.sass import STEP, Sass
from convc.timing.trace import Trace

INDENT = "    "
"""Before the line of a step in the text of a tile program; headings have less."""

MATRIX = re.compile(r"add\.u32 %word, %word, 0x([0-9a-f]{8});\s+mov\.b64 %\w+, \{ %word, 0x([0-9a-f]{8}) \};")
INSTRUCTION = re.compile(r"mov\.b32 %shape, (0x[0-9a-f]{8});")
MARK = re.compile(r"\s*//@ step=(\S+)")
KIND = re.compile(r"tcgen05\.mma\S*\.kind::(\w+)")

ACTS: tuple[tuple[str, tuple[type[Step], ...]], ...] = (
    ("clear", (ClearAcc,)),
    ("load", (TensorFill,)),
    ("move", (MoveRows, Refresh)),
    ("multiply", (Multiply,)),
    ("store", (ValueStep, ResultStore)),
)
"""Steps that do a statement; copies of activations and moves beside an MMA are `_kinds`'s."""


@dataclass(frozen=True, slots=True)
class StepLine:
    """A line of the tile program.

    Attributes:
        step: its name; "" for a heading.
        words: the line.
        lines: lines of the PTX that have instructions of the step.
        first: where the first run of these begins; 0 where there is none.
        cycles: of the critical path that lie in the step.
        kinds: of the lines of the nest that it does, as `convc.derive.text.NestLine` has them.
    """

    step: str
    words: str
    lines: int = 0
    first: int = 0
    cycles: float = 0.0
    kinds: str = ""


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of the PTX, from 1, with the step of its instruction; "" where it has none.

    ``turns``: how often warps of the recorded cluster execute it (`turns_of`).
    """

    number: int
    step: str
    words: str
    turns: int = 0


@dataclass(frozen=True, slots=True)
class TextRun:
    """Lines in a row of one step, "" for none: the number of the first, and each behind its number and its turns."""

    first: int
    step: str
    words: list[str]


def turns_of(trace: Trace) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Count how often warps of the recorded cluster execute each line of the text, and each instruction.

    A wait counts once, however often it asks. Where a trace has machine instructions, a line counts as that of its own
    which is executed most.
    """
    each = Counter((item.line, item.index) for items in trace.items.values() for item in items)
    lines: dict[int, int] = defaultdict(int)
    for (line, _), count in each.items():
        lines[line] = max(lines[line], count)
    return lines, {index: count for (_, index), count in each.items()}


def text_lines(text: str, turns: Mapping[int, int] | None = None) -> list[TextLine]:
    """The lines of a PTX text with their steps, by the marks ``//@ step=`` as the parser reads them."""
    turns = turns or {}
    module = parse(text)
    steps = {one.span.line: one.step for kernel in module.kernels for one in kernel.body if one.step}
    return [
        TextLine(number, steps.get(number, ""), words, turns.get(number, 0))
        for number, words in enumerate(text.splitlines(), 1)
    ]


def text_runs(lines: Sequence[TextLine]) -> list[TextRun]:
    """The lines in runs of one step: from its mark to its last instruction, with what stands between."""
    steps = [line.step for line in lines]
    ahead = ""
    behind = [ahead := step or ahead for step in reversed(steps)][::-1]
    runs: list[TextRun] = []
    last = ""
    for line, after in zip(lines, behind, strict=True):
        mark = MARK.match(line.words)
        if mark is not None:
            last = mark[1]
        elif line.step or last != after:
            last = line.step
        words = f"{line.number:5} {line.turns or '':>5} {line.words}"
        if runs and runs[-1].step == last:
            runs[-1].words.append(words)
        else:
            runs.append(TextRun(line.number, last, [words]))
    return runs


def _kinds(step: Step) -> str:
    """The lines of the nest that a step does, separated by spaces."""
    found = [kind for kind, steps in ACTS if isinstance(step, steps)]
    match step:
        case Loop(var=var):
            found.append(f"loop-{var}")
        case TensorCopy(tile="a"):
            found.append("load")
        case MmaTensor(moves=True):
            found.append("move")
        case _:
            pass
    return " ".join(found)


def sass_runs(code: Sequence[Sass], lines: Sequence[TextLine], turns: Mapping[int, int] | None = None) -> list[TextRun]:
    """Machine instructions in runs of one step: that of the PTX line which ptxas says they are from."""
    starts = [line.number for line in lines if line.step]
    steps = {line.number: line.step for line in lines}
    runs: list[TextRun] = []
    for number, one in enumerate(code):
        place = bisect_right(starts, one.line)
        step = steps[starts[place - 1]] if place and one.line else ""
        count = (turns or {}).get(number, "")
        words = f"{number * STEP:05x} {count:>5} {one.opcode:<28} {f'line {one.line}' if one.line else ''}".rstrip()
        if runs and runs[-1].step == step:
            runs[-1].words.append(words)
        else:
            runs.append(TextRun(number, step, [words]))
    return runs


def step_lines(program: TileProgram, text: Sequence[TextLine], parts: Sequence[PathPart]) -> list[StepLine]:
    """The lines of a tile program, each step with its count of PTX lines and its cycles of the critical path."""
    counts = Counter(line.step for line in text if line.step)
    first: dict[str, int] = {}
    for run in text_runs(text):
        first.setdefault(run.step, run.first)
    cycles: dict[str, float] = defaultdict(float)
    for part in parts:
        cycles[part.step] += part.cycles
    kinds = {step.id: _kinds(step) for role in program.all_roles for step in walk(role.steps)}
    found: list[StepLine] = []
    for words in show(program).splitlines()[2:]:
        step = words.split()[0] if words.startswith(INDENT) else ""
        if step and words.strip():
            spent = cycles.get(step, 0.0)
            found.append(StepLine(step, words[2:], counts[step], first.get(step, 0), spent, kinds[step]))
        elif words.strip():
            found.append(StepLine("", words))
    return found


def descriptors(text: str) -> list[tuple[str, ExplainedDescriptor]]:
    """The descriptors that the MMAs of a text are given, each once: the step, and the fields.

    Of a matrix descriptor the text has the constant part, to which the address of the stage is added.
    """
    found: dict[tuple[str, int], tuple[str, ExplainedDescriptor]] = {}
    for block in text.split("//@ step=")[1:]:
        kind = KIND.search(block)
        if kind is None:
            continue
        step = block.split(maxsplit=1)[0]
        for word in INSTRUCTION.findall(block):
            found.setdefault((kind[1], int(word, 16)), (step, explain_instruction(int(word, 16), kind[1])))
        for low, high in MATRIX.findall(block):
            word = int(high + low, 16)
            found.setdefault(("matrix", word), (step, explain_matrix(word)))
    return list(found.values())
