"""Operands of packs: collected from the results of other packs, and from registers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convc.machine.base.values import Value, array
from convc.machine.execute.slp import Pack, Source
from convc.machine.state.slots import SlotTable
from convc.ptx import Guard

Blocks = dict[Pack, np.ndarray]
"""Results of packs: (rows | 1, warps | 1, lanes | 1, elements)."""

NOBODY = np.zeros((1, 1, 1), bool)
"""The threads where a guard holds: none."""

Fetch = Callable[[Blocks, list[Value]], Value]
"""From results of packs and the registers to an operand of a pack."""


def pairs_of(sources: list[list[Source]]) -> tuple[Pack, slice] | None:
    """The pack and its part whose odd elements are the first source, and its even ones the second."""
    if len(sources) != 2:
        return None
    high = _stretch(sources[0])
    low = _stretch(sources[1])
    if high is None or low is None or high[0] is not low[0] or high[2] != 2 or low[2] != 2 or high[1] != low[1] + 1:
        return None
    return low[0], slice(low[1], low[1] + 2 * len(sources[0]))


def _stretch(sources: list[Source]) -> tuple[Pack, int, int] | None:
    """The pack, the first element and the step of sources that are evenly spaced in one pack."""
    head = sources[0]
    if isinstance(head, int):
        return None
    pack, first = head
    if len(sources) == 1:
        return pack, first, 1
    second = sources[1]
    if isinstance(second, int) or second[1] <= first:
        return None
    step = second[1] - first
    even = sources == [(pack, at) for at in range(first, first + step * len(sources), step)]
    return (pack, first, step) if even else None


def _runs(sources: list[Source]) -> list[tuple[Pack, slice] | int]:
    """Sources as slots and as slices of packs, the elements of which follow one another."""
    found: list[tuple[Pack, slice] | int] = []
    for source in sources:
        if isinstance(source, int):
            found.append(source)
            continue
        pack, at = source
        last = found[-1] if found else 0
        if not isinstance(last, int) and last[0] is pack and last[1].stop == at:
            found[-1] = pack, slice(last[1].start, at + 1)
        else:
            found.append((pack, slice(at, at + 1)))
    return found


def fetch_of(sources: list[Source], table: SlotTable) -> Fetch:
    """Collect an operand of all members of a pack."""
    stretch = _stretch(sources)
    if stretch is not None:
        pack, first, step = stretch
        part = slice(first, first + step * (len(sources) - 1) + 1, step)
        return lambda blocks, regs: blocks[pack][..., part]
    slots = {source for source in sources if isinstance(source, int)}
    if len(slots) == 1 and sources.count(sources[0]) == len(sources):
        [slot] = slots
        return lambda blocks, regs: v[..., None] if isinstance(v := regs[slot], np.ndarray) else v
    bits = max([table.widths[slot] for slot in slots], default=32)
    runs = _runs(sources)

    registers = [run for run in runs if isinstance(run, int)]
    alone = len(registers) == len(runs)

    def collect(blocks: Blocks, regs: list[Value]) -> np.ndarray:
        if alone and (found := side_by_side([regs[slot] for slot in registers])) is not None:
            return found
        parts = [
            array(regs[run], bits)[..., None] if isinstance(run, int) else blocks[run[0]][..., run[1]] for run in runs
        ]
        shapes = {part.shape[:3] for part in parts}
        if len(shapes) > 1:
            shape = np.broadcast_shapes(*shapes)
            parts = [np.broadcast_to(part, (*shape, part.shape[3])) for part in parts]
        return np.concatenate(parts, axis=-1)

    return collect


def side_by_side(values: list[Value]) -> np.ndarray | None:
    """Registers (rows, warps, lanes) as the block, or a part of it, that a pack left in them; None: they are none.

    Put together again they would be read once for each register: of a layer on eight images, a fourth of its time.
    """
    first = values[0]
    if not isinstance(first, np.ndarray) or first.base is None:
        return None
    place = first.ctypes.data
    for at, value in enumerate(values):
        if (
            not isinstance(value, np.ndarray)
            or value.base is not first.base
            or value.shape != first.shape
            or value.strides != first.strides
            or value.dtype != first.dtype
            or value.ctypes.data != place + at * first.itemsize
        ):
            return None
    return np.lib.stride_tricks.as_strided(
        first, (*first.shape, len(values)), (*first.strides, first.itemsize), writeable=False
    )


def mask_of(guard: Guard | None, regs: list[Value]) -> np.ndarray | None:
    """bool, in the shape of a register: the threads where a guard holds; None: in all of them."""
    if guard is None:
        return None
    predicate = regs[guard.slot]
    if isinstance(predicate, np.ndarray):
        return ~predicate if guard.negate else predicate
    return NOBODY if bool(predicate) == guard.negate else None


def merged(mask: np.ndarray, block: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Elements of a block where a mask (rows | 1, warps | 1, lanes | 1) holds, old ones elsewhere.

    Mostly it fails in few threads, and their rows alone are copied: `np.where` would look at every word.
    """
    shape = np.broadcast_shapes((*mask.shape, 1), block.shape, old.shape)
    out = np.array(np.broadcast_to(block, shape), order="C")
    off = np.flatnonzero(~np.broadcast_to(mask, shape[:3]))
    rows = out.reshape(-1, shape[3])
    if old.shape[:3] == (1, 1, 1):
        rows[off] = old.reshape(-1)
    else:
        rows[off] = np.broadcast_to(old, shape).reshape(rows.shape)[off]
    return out


Merge = Callable[[np.ndarray, np.ndarray, Blocks, list[Value]], np.ndarray]
"""From a mask, results, the blocks and the registers to the results where the mask holds, what was there elsewhere."""


def merge_of(pack: Pack, table: SlotTable) -> Merge:
    """Leave what the targets held in the threads where the guard of a pack does not hold."""
    fetch = fetch_of(pack.olds, table) if pack.olds else None

    def merge(mask: np.ndarray, block: np.ndarray, blocks: Blocks, regs: list[Value]) -> np.ndarray:
        return block if fetch is None else merged(mask, block, array(fetch(blocks, regs), 32))

    return merge
