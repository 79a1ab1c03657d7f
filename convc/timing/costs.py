"""Issue cycles of a warp, by class: until the next one issues, and until others can read the result.

What ptxas makes of a text is not known here: these are costs of classes, taken from loops whose assembly was measured.
"""

from __future__ import annotations

from collections.abc import Mapping

from convc.timing.parameters import Chip
from convc.timing.trace import Item

FREE: Mapping[str, str] = dict.fromkeys(
    ("tcgen05.fence", "fence.mbarrier_init", "mov", "cvta", "bar.warp.sync", "ret"), "free"
)
"""Forms that ptxas leaves out, or that cost nothing to speak of, by their name up to some dot."""

HOLDS = {
    "mbarrier.try_wait": "mbarrier.ready", "mbarrier.arrive": "mbarrier.arrive", "mbarrier.init": "mbarrier.arrive",
    "tcgen05.alloc": "tensor_memory.allocate", "tcgen05.mma": "tensor_core.issue", "tcgen05.cp": "tensor_core.issue",
    "tcgen05.shift": "tensor_core.issue", "cp.async.bulk.tensor": "tma.issue_next", "cp.async.bulk": "tma.issue_next",
    "cp.reduce.async.bulk": "tma.issue_next", "float.add": "threads.float", "float.sub": "threads.float",
    "float.mul": "threads.float", "float.fma": "threads.float",
}  # fmt: skip
"""Instructions that hold their warp, by their form's name up to some dot; all others hold it for `threads.issue`."""

ELSEWHERE: Mapping[str, str] = dict.fromkeys(
    ("float.add", "float.sub", "float.mul", "float.fma", "int.mad", "int.mul", "ld", "st"), "elsewhere"
)
"""Instructions that other pipes of a quarter of the SM perform than the one for logic, comparisons and conversions."""

RESULTS = {
    "int.div": "threads.divide", "int.rem": "threads.divide", "int.div.constant": "threads.divide_constant",
    "int.rem.constant": "threads.divide_constant", "vote": "threads.vote", "shfl": "threads.issue",
}  # fmt: skip
"""Instructions whose result takes longer than `threads.alu`."""


def holds(item: Item, chip: Chip, jumps: bool) -> float:
    """Cycles until the warp can issue its next instruction; ``jumps``: that one is not the next in the text."""
    if item.cycles is not None:
        return item.cycles
    if item.sass is not None:
        return item.sass.stall + (chip["assembler.branch"] if item.sass.taken else 0.0)
    if _is_free(item):
        return 0.0
    if item.name == "bra" and jumps:
        return chip["threads.branch"]
    cycles = chip[_of(HOLDS, item.name, "threads.issue")]
    return cycles * chip["threads.unrolled"] if item.unrolled and item.tests else cycles


def slots(item: Item, chip: Chip) -> float:
    """Cycles for which the other warps of its quarter of the SM cannot issue: of the simulator's instructions one."""
    if item.sass is not None:
        return 1.0
    if item.cycles is not None or _is_free(item):
        return 0.0
    if _of(HOLDS, item.name, "") or _of(ELSEWHERE, item.name, ""):
        return 0.0
    return chip["threads.issue"]


def result(item: Item, chip: Chip) -> float:
    """Cycles until a result can be read."""
    if item.sass is not None:
        return chip[item.sass.after] if item.sass.after else 0.0
    if _is_free(item):
        return 0.0
    return chip[_of(RESULTS, item.name, "threads.alu")]


def _is_free(item: Item) -> bool:
    """Whether nothing of an instruction is left when ptxas is done."""
    return item.repeats or _of(FREE, item.name, "") != ""


def _of(table: Mapping[str, str], name: str, other: str) -> str:
    """The entry of a name, or of what it begins with up to some dot."""
    while name:
        if name in table:
            return table[name]
        name = name.rpartition(".")[0]
    return other
