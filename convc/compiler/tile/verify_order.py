"""Tiles that are made in an order: each once, and all roles of a CTA at the same place, whatever the order is called.

The formulas are not trusted: they are computed here for every number of a tile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from convc.compiler.plan.names import NewNumber, Number
from convc.compiler.tile.interpret.places import places_of
from convc.compiler.tile.program import Role, TileProgram
from convc.errors import TileError

PLACE = (NewNumber(Number("tile_m")), NewNumber(Number("tile_n")))
"""Row and column of a tile."""


def every_place_once(program: TileProgram) -> Iterator[str]:
    """Each tile has one number, each role finds the same place for it, and the CTAs are as many as the tiles."""
    if program.ordered is None:
        return
    extents = program.ordered
    tiles = extents[0] * extents[1]
    across, height, _ = program.launch.grid
    if program.visits is None and (across, height) != (tiles, 1):
        yield f"{tiles} tiles are made in an order, each by its own CTA, and the grid is {across} x {height}"
    agreed: dict[str, tuple[Role, list[int]]] = {}
    for role in program.all_roles:
        try:
            found = places_of(program, role, tiles)
        except TileError as error:
            yield error.message
            return
        for name in PLACE:
            if name not in found:
                continue
            first, others = agreed.setdefault(name, (role, found[name]))
            if others != found[name]:
                yield f"roles {first.name} and {role.name} find other places for a tile: {name} differs"
    missing = [name for name, extent in zip(PLACE, extents, strict=True) if name not in agreed and extent > 1]
    if missing:
        yield f"nobody finds {missing[0]} of a tile"
        return
    m, n = (agreed[name][1] if name in agreed else [0] * tiles for name in PLACE)
    times = Counter(zip(m, n, strict=True))
    for (row, column), count in times.items():
        if not (0 <= row < extents[0] and 0 <= column < extents[1]):
            yield f"a number leads to tile ({row}, {column}) of {extents[0]} x {extents[1]}"
            return
        if count > 1:
            yield f"tile ({row}, {column}) has {count} numbers, and another one has none"
            return


ORDER_CHECKS: tuple[Callable[[TileProgram], Iterator[str]], ...] = (every_place_once,)
