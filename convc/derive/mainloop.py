"""The mainloop of a kernel, read off its nest: what a role repeats between clearing the sums of a tile and storing.

The loops are those of the nest: inside of the one that accumulates, and outside of those that one instruction runs by
itself (`INSTRUCTION`). What a kernel computes from their numbers is here: whether a multiplication is the first of its
tile, which column of the filter comes, how far its rows are from those of the first, and where rows lie in a stage.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy import Expr, S

from convc.derive import symbols as z
from convc.derive.kernels import Map
from convc.derive.nests import Loop, Nest
from convc.derive.reuse import J, window_start
from convc.derive.streams import LAST
from convc.derive.symbols import FloorDiv, Mod, axis, dividend, size
from convc.derive.theorem import Theorem, at_most, below, proved

INSTRUCTION = (z.lane, z.column, z.e)
"""The loops of one instruction: rows, columns and terms of a product."""

ROW_BYTES = size("ROW_BYTES")
"""Bytes of a row of an operand tile."""
B_ROWS = size("B_ROWS")
"""Rows of a filter tile that a CTA has: half of them in a pair, else all."""
PARTITIONS = size("PARTITIONS")
"""Windows of WINDOW lanes in a tile that is not cut into windows."""
PARTS = size("PARTS")
"""CTAs that share the channel blocks of a tile, one after the other."""
OWN_BLOCKS = size("OWN_BLOCKS")
"""Channel blocks that each of them has."""
FIRST = size("FIRST", least=0)
"""The column of a buffer that comes first."""
PADDED = size("PADDED", least=0)
"""The first output column of a row at which a column of the filter needs padding."""

ROUND = axis("round")
"""Counts the iterations of the loops around the buffers."""
POSITION = axis("position")
"""Counts the columns of a buffer in the order in which they come."""
START_W = axis("start_w")
"""Where a copy begins along W, where the kernel has it as a number."""
BYTE = axis("byte")
MINE = axis("mine")
"""Counts the channel blocks of a CTA."""

HALO_ROWS = (z.TAPS - 1) * z.d

MainloopMaps = tuple[dict[str, Map], tuple[Theorem, ...]]


def mainloop(nest: Nest) -> tuple[Loop, ...]:
    """The loops inside of the one that accumulates, up to those of an instruction."""
    inside = nest.loops[nest.axes.index(nest.accumulate) + 1 :]
    count = next(number for number, loop in enumerate(inside) if loop.axis in INSTRUCTION)
    return inside[:count]


def counted(loops: Sequence[Loop]) -> Expr:
    """The number of an iteration of some loops, outermost first: they are the digits of a mixed radix."""
    number: Expr = S.Zero
    for loop in loops:
        number = number * loop.extent + loop.axis
    return number


def plain_mainloop(nest: Nest) -> MainloopMaps:
    """The mainloop of a nest that loads pixels and filters in every iteration."""
    assert nest.load is not None
    return _stages(nest.load.rows)


def _stages(rows: Expr) -> MainloopMaps:
    """Where rows lie in a stage, and how many bytes its barrier counts, of a tile with so many rows of pixels."""
    at = z.row * ROW_BYTES + BYTE
    brought = POSITION * B_ROWS + z.row
    filters = brought.xreplace({z.row: S.Zero})
    maps = {
        "bytes": Map(axes=(), results={"a": rows * ROW_BYTES, "b": B_ROWS * ROW_BYTES}),
        "filters": Map(axes=(POSITION,), results={"row": filters, "byte": at.xreplace({z.row: filters, BYTE: S.Zero})}),
    }
    theorems = (
        proved(
            "byte b of row i of a tile has a place of its own, i*ROW_BYTES + b",
            [(FloorDiv(at, ROW_BYTES), z.row), (Mod(at, ROW_BYTES), BYTE)],
            [below(BYTE, ROW_BYTES)],
        ),
        proved(
            "a filter row of a stage that has those of several columns is of one column",
            [(FloorDiv(brought, B_ROWS), POSITION), (Mod(brought, B_ROWS), z.row)],
            [below(z.row, B_ROWS)],
        ),
    )
    return maps, theorems


def shared_mainloop(nest: Nest, *, overlapping: bool) -> MainloopMaps:
    """The mainloop of a nest whose pixels serve the columns of a buffer.

    overlapping: whether a tile is cut into windows that overlap by the halo; else those whose rows move have one each.
    """
    assert nest.load is not None
    rows, enough = _rows(nest, overlapping=overlapping)
    maps, theorems = _stages(rows)
    turn, any_order = _turns(nest)
    rounds, once = _rounds(nest)
    at = z.window * z.WINDOW * ROW_BYTES
    maps |= {
        **rounds,
        "turn": Map(axes=(POSITION,), results={"tap": turn}),
        "halo": Map(axes=(), results={"rows": HALO_ROWS}),
        "moved": Map(axes=(z.tap,), results={"rows": S.Zero if nest.move is None else z.tap * nest.move.lanes}),
        "window_at": Map(axes=(z.window,), results={"byte": at}),
        "copied": Map(axes=(), results={"rows": rows}),
        "moves": Map(axes=(), results=_moves(nest)),
    }
    reach = proved("no column of a buffer is further on than its halo", [at_most(J, HALO_ROWS)], [below(z.tap, z.TAPS)])
    if not nest.swapped:
        return maps, (*theorems, *any_order, *once, reach, *enough)
    entered, where = _entered(nest)
    maps["entered"] = Map(axes=(START_W,), results={"place": entered})
    return maps, (*theorems, *any_order, *once, reach, *enough, where)


def _moves(nest: Nest) -> dict[str, Expr]:
    """How often rows of a buffer move, and by how many lanes altogether: behind each of its columns but the last."""
    lanes = S.Zero if nest.move is None else nest.move.lanes
    return {"turns": S.Zero if nest.move is None else LAST, "lanes": LAST * lanes}


def _rounds(nest: Nest) -> MainloopMaps:
    """Numbers of the iterations around the buffers, and of multiplications with a buffer: both are 0 in the first.

    CTAs that share the channel blocks of a tile have every PARTS-th of them.
    """
    assert nest.load is not None
    loops = mainloop(nest)
    around = loops[: [loop.axis for loop in loops].index(nest.load.inside)]
    own = [Loop(axis=MINE, extent=OWN_BLOCKS) if loop.axis == z.block else loop for loop in around]
    number = counted(own)
    found = number.xreplace({MINE: FloorDiv(z.block, PARTS)})
    step = ROUND * z.TAPS + POSITION
    maps = {
        "round": Map(axes=tuple(loop.axis for loop in around), results={"number": found}),
        "step": Map(axes=(ROUND, POSITION), results={"number": step}),
    }
    shared = found.xreplace({z.block: MINE * PARTS + z.rank})
    weight: Expr = S.One
    digits: list[tuple[Expr, Expr]] = []
    for loop in reversed(own):
        digit = FloorDiv(shared, weight)
        digits.append((digit if loop is own[0] else Mod(digit, loop.extent), loop.axis))
        weight = weight * loop.extent
    given = [below(z.rank, PARTS), *(below(loop.axis, loop.extent) for loop in own[1:])]
    theorems = (
        proved("a CTA's iterations around the buffers are counted once each, from 0 on", digits, given),
        proved(
            "the multiplications of a buffer are counted once each, from 0 on",
            [(FloorDiv(step, z.TAPS), ROUND), (Mod(step, z.TAPS), POSITION)],
            [below(POSITION, z.TAPS)],
        ),
    )
    return maps, theorems


def _turns(nest: Nest) -> tuple[Expr, tuple[Theorem, ...]]:
    """The column of a buffer that comes at a position, and why each of them comes once."""
    if nest.move is not None or nest.swapped:
        return POSITION, ()
    tap = Mod(POSITION + FIRST, z.TAPS)
    once = proved(
        "the columns of a buffer may come in any order: those from FIRST on come first, each of them once",
        [(Mod(tap - FIRST, z.TAPS), POSITION)],
        [below(POSITION, z.TAPS)],
    )
    return tap, (once,)


def _rows(nest: Nest, *, overlapping: bool) -> tuple[Expr, tuple[Theorem, ...]]:
    """Rows of a tile of pixels, and why they are enough."""
    assert nest.load is not None
    lanes = nest.load.rows - z.HALO
    inside = axis("i")
    reach = at_most(J, z.HALO)
    name = "a tile has the rows that its lanes multiply"
    if overlapping:
        rows = z.WINDOWS * z.WINDOW
        row = z.window * z.WINDOW + inside + J
        given = [below(z.window, z.WINDOWS), below(inside, z.USEFUL), reach, at_most(z.USEFUL + z.HALO, z.WINDOW)]
    elif nest.move is not None:
        rows = PARTITIONS * (z.WINDOW + z.HALO)
        row = z.window * (z.WINDOW + z.HALO) + inside + J
        given = [below(z.window, PARTITIONS), below(inside, z.WINDOW), reach]
    else:
        rows = nest.load.rows
        row = z.lane + J
        given = [below(z.lane, lanes), reach]
    return rows, (proved(name, [below(row, rows)], given),)


def _entered(nest: Nest) -> tuple[Expr, Theorem]:
    """Where in the pattern of columns that need padding a tile begins: they are PADDED, PADDED + 1, ... of every T."""
    place = dividend(nest.space["q"].xreplace({z.column: z.lane}))
    first = window_start(place, z.lane)
    start = z.u_w * Mod(first, z.T) - z.pad_w
    found = Mod(FloorDiv(START_W + z.pad_w, z.u_w) + z.T - PADDED, z.T)
    says = "`entered` is how many columns behind PADDED, of every T, the first column of a tile lies"
    number = found.xreplace({START_W: start}) + z.lane
    return found, proved(says, [(Mod(number, z.T), Mod(place - PADDED, z.T))])
