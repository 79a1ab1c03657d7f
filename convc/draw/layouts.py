"""A layout of CuTe as a table: the offset of every coordinate, or who holds each element of a tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from convc.atoms.families import find_atom
from convc.draw.cells import Cells, Placed
from convc.draw.svg import MARGIN, TINTS, TITLE, Picture, legend, titled, width_of
from convc.errors import InputError
from convc.layout import Composed, Layout, Swizzle
from convc.layout.tiled import tiled_copy, tiled_mma

MOST = 1 << 15
"""Cells that are drawn."""

COLOURS = ("thread", "value", "offset")
"""What a cell's colour may be by."""

BYTES = {"32B": Swizzle(1, 4, 3), "64B": Swizzle(2, 4, 3), "128B": Swizzle(3, 4, 3)}
"""Swizzles of offsets that count bytes, by their names in tensor maps."""


def swizzled(layout: Layout | Composed, swizzle: Swizzle) -> Composed:
    """The layout behind a swizzle; `InputError` where it is behind one already."""
    if isinstance(layout, Composed):
        raise InputError(f"expected a layout without a swizzle beside --swizzle, got {layout}")
    return Composed(swizzle=swizzle, layout=layout)


def layout_picture(layout: Layout | Composed, colours: str = "thread") -> Picture:
    """Draw the offset of every coordinate: the first mode down, which is often the thread, the second across.

    Args:
        layout: of one or two modes at the top.
        colours: a name of `COLOURS`: cells of one row, of one column, or with the same offset modulo 8 have one colour.

    Raises:
        InputError: the layout has other modes, symbols, or more than `MOST` offsets.
    """
    rows, _ = _extents(layout)
    offsets = layout.offsets()
    table = [offsets[row::rows] for row in range(rows)]
    tints: dict[str, Callable[[int, int], int]] = {
        "thread": lambda row, column: row,
        "value": lambda row, column: column,
        "offset": lambda row, column: table[row][column],
    }
    if colours not in tints:
        raise InputError(f"expected colours by {', '.join(COLOURS)}, got {colours!r}")
    tint = tints[colours]
    cells = Cells(
        name="layout",
        words=[[str(each) for each in row] for row in table],
        kinds=lambda row, column: TINTS[tint(row, column) % 8],
    )
    heading = "first mode down, second mode across: offset"
    kinds = [(f"{colours} {i}", TINTS[i]) for i in range(8)]
    inner = layout.layout if isinstance(layout, Composed) else layout
    notes = (f"size {layout.size}, cosize {inner.cosize}{' before the swizzle' if inner is not layout else ''}",)
    return _sheet(str(layout), cells, heading, kinds, notes)


def holders_picture(layout: Layout, rows: int, columns: int, what: str = "") -> Picture:
    """Draw a tile with the thread and the value that hold each of its elements.

    Args:
        layout: thread and value to the element ``row + rows * column``, CuTe's thread-value layout.
        rows, columns: of the tile.
        what: the tile in words, for the title.

    Raises:
        InputError: the layout is not of threads and values, or leaves the tile.
    """
    cells = held_cells(layout, rows, columns)
    heading = f"rows down, columns across: thread and value; element row + {rows} * column"
    kinds = [(f"thread {i}", TINTS[i]) for i in range(8)]
    notes = [f"thread, value -> row + {rows} * column: {layout}", "threads that differ by 8 share a colour"]
    shared = len(layout.offsets()) // len({*layout.offsets()})
    if shared > 1:
        notes.append(f"each element is held {shared} times, first by what is shown")
    return _sheet(f"{what or layout}: a tile of {rows} x {columns}", cells, heading, kinds, notes)


def held_cells(layout: Layout, rows: int, columns: int, name: str = "tile") -> Cells:
    """The tile of `holders_picture` as a table; an element that several hold names the first."""
    if rows < 1 or columns < 1 or rows * columns > MOST:
        raise InputError(f"expected a tile of 1 to {MOST} elements, got {rows}x{columns}")
    threads, _ = _extents(layout)
    if layout.rank != 2:
        raise InputError(f"expected a layout of threads and values, which has two modes, got {layout}")
    holders: dict[int, tuple[int, int]] = {}
    for number, offset in enumerate(layout.offsets()):
        if not 0 <= offset < rows * columns:
            who = f"thread {number % threads} and value {number // threads}"
            raise InputError(
                f"{layout} leaves the tile of {rows}x{columns}: {who} are at element {offset} of {rows * columns}",
                hint="strides count elements, one row further is 1, one column further the rows of the tile",
            )
        holders.setdefault(offset, (number % threads, number // threads))
    found = [[holders.get(row + rows * column) for column in range(columns)] for row in range(rows)]
    return Cells(
        name=name,
        words=[[f"T{who[0]} V{who[1]}" if who else "" for who in row] for row in found],
        kinds=lambda row, column: "idle" if (who := found[row][column]) is None else TINTS[who[0] % 8],
    )


def _extents(layout: Layout | Composed) -> tuple[int, int]:
    """Rows and columns of the table of a layout."""
    inner = layout.layout if isinstance(layout, Composed) else layout
    sizes = [mode.size for mode in inner.modes]
    if not 1 <= len(sizes) <= 2:
        raise InputError(
            f"a picture has rows and columns: expected a layout of one or two modes at the top, got {len(sizes)} in "
            f"{layout}",
            hint="put modes together, such as ((4,8),(2,2)) in place of (4,8,2,2)",
        )
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) < len(sizes):
        raise InputError(f"expected numbers to draw, got symbols in {layout}", hint="put numbers in their place")
    rows, columns = numbers if len(numbers) == 2 else (1, numbers[0])
    if rows * columns > MOST:
        raise InputError(f"a picture has at most {MOST} cells, {layout} has {rows * columns} offsets")
    return rows, columns


def _sheet(title: str, cells: Cells, heading: str, kinds: Sequence[tuple[str, str]], notes: Sequence[str]) -> Picture:
    """A picture of one table."""
    placed = Placed(table=cells, x=MARGIN, y=TITLE + 38, heading=heading, quiet=True)
    width = max(placed.right, MARGIN + sum(34 + width_of(words) for words, _ in kinds)) + MARGIN
    parts = [*legend(MARGIN, TITLE - 4, kinds), placed.svg()]
    return titled(title, width, placed.end + MARGIN + 8, parts, notes)


def mma_picture(name: str, groups: Layout, operand: str, tile: tuple[int, int] | None = None) -> Picture:
    """Draw an operand of a tiled MMA: thread and value of each element.

    Args:
        name: of the atom, as `convc.atoms.families.find_atom` takes it.
        groups: of atoms along M, N and K to their numbers.
        operand: A (M by K), B (N by K) or D (M by N).
        tile: its rows and columns; by default one atom in each group.

    Raises:
        InputError: there is no such atom, threads do not hold the operand, or the tile does not fit.
    """
    atom = find_atom(name)
    there = [held.name for held in atom]
    if operand not in there:
        raise InputError(f"expected an operand of {name}, {', '.join(there)}, got {operand!r}")
    held = atom[operand]
    layout = held.layout
    if held.space != "matrix" or not isinstance(layout, Layout):
        raise InputError(
            f"{operand} of {name} lies in {held.space} memory: expected one that threads hold in registers"
        )
    found, (rows, columns) = tiled_mma(layout, (held.rows, held.columns), groups, operand, tile)
    return holders_picture(found, rows, columns, f"{operand} of {name}, atoms {groups}")


def copy_picture(threads: Layout, values: Layout) -> Picture:
    """Draw a tiled copy: thread and value of each element.

    Args:
        threads: of rows and columns to the numbers of threads.
        values: of rows and columns to the numbers of the values of each.
    """
    found, (rows, columns) = tiled_copy(threads, values)
    return holders_picture(found, rows, columns, f"copy, threads {threads}, values {values}")
