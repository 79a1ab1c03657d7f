"""Divides: a layout cut into tiles, with the modes of the tiles and of what is left in one order or another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from convc.layout.algebra import Tiler, as_layout, complement, composition, paired
from convc.layout.layouts import Layout, concatenated
from convc.layout.swizzled import Composed

Any = TypeVar("Any", Layout, Composed)


def logical_divide(layout: Any, tiler: Tiler) -> Any:
    """A mode of what the tiler picks and a mode of where it is picked: ``layout o (tiler, complement of tiler)``.

    Args:
        layout: a layout, or one behind a swizzle, whose layout is divided.
        tiler: a layout or a number n for n:1, and the result is ``(tile, rest)``; or several of these for the first
            modes, and it is ``((tile, rest), (tile, rest), ...)``.

    Raises:
        InputError: the tiles do not fit the layout, or symbols leave it open.
    """
    if isinstance(layout, Composed):
        return replace(layout, layout=logical_divide(layout.layout, tiler))
    if isinstance(tiler, Sequence):
        return by_mode(logical_divide, layout, tiler)
    tile = as_layout(tiler)
    return composition(layout, concatenated(tile, complement(tile, layout.size)))


def by_mode(operation: Callable[[Layout, Tiler], Layout], layout: Layout, tiler: Sequence[Tiler]) -> Layout:
    """Do each mode that has a tiler with it, and leave the others as they are."""
    modes = paired(layout, tiler)
    done = [operation(mode, tile) for mode, tile in zip(modes, tiler, strict=False)]
    return concatenated(*done, *modes[len(done) :])


def zipped(done: Layout, tiler: Tiler) -> tuple[Layout, list[Layout]]:
    """Of what was done by modes the mode of all first halves, and the second halves and modes without a tiler."""
    if not isinstance(tiler, Sequence):
        tile, rest = done.modes
        return tile, [rest]
    pairs = [_halves(mode, inner) for mode, inner in zip(done.modes, tiler, strict=False)]
    return concatenated(*(tile for tile, _ in pairs)), [rest for _, rest in pairs] + list(done.modes[len(pairs) :])


def _halves(mode: Layout, tiler: Tiler) -> tuple[Layout, Layout]:
    tile, rest = zipped(mode, tiler)
    return tile, rest[0] if len(rest) == 1 else concatenated(*rest)


def zipped_divide(layout: Any, tiler: Tiler) -> Any:
    """`logical_divide` as ``((tile, tile, ...), (rest, rest, ...))``."""
    if isinstance(layout, Composed):
        return replace(layout, layout=zipped_divide(layout.layout, tiler))
    return gathered(logical_divide(layout, tiler), tiler)


def gathered(done: Layout, tiler: Tiler) -> Layout:
    """Two modes of all that was done by modes."""
    tile, rest = zipped(done, tiler)
    return concatenated(tile, concatenated(*rest) if isinstance(tiler, Sequence) else rest[0])


def tiled_divide(layout: Any, tiler: Tiler) -> Any:
    """`logical_divide` as ``((tile, tile, ...), rest, rest, ...)``."""
    if isinstance(layout, Composed):
        return replace(layout, layout=tiled_divide(layout.layout, tiler))
    return spread(logical_divide(layout, tiler), tiler)


def spread(done: Layout, tiler: Tiler) -> Layout:
    """All that was done by modes, with the second halves as modes of their own."""
    tile, rest = zipped(done, tiler)
    return concatenated(tile, *(rest if isinstance(tiler, Sequence) else rest[0].modes))


def flat_divide(layout: Any, tiler: Tiler) -> Any:
    """`logical_divide` as ``(tile, tile, ..., rest, rest, ...)``."""
    if isinstance(layout, Composed):
        return replace(layout, layout=flat_divide(layout.layout, tiler))
    return flattened(logical_divide(layout, tiler), tiler)


def flattened(done: Layout, tiler: Tiler) -> Layout:
    """All that was done by modes, with the first and the second halves as modes of their own."""
    tile, rest = zipped(done, tiler)
    return concatenated(*tile.modes, *(rest if isinstance(tiler, Sequence) else rest[0].modes))
