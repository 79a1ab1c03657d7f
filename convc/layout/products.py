"""Products: a layout repeated as another one says, with their modes in one order or another."""

from __future__ import annotations

from collections.abc import Sequence

from convc.layout.algebra import Tiler, as_layout, coalesce, complement, composition
from convc.layout.division import by_mode, flattened, gathered, spread
from convc.layout.extents import product
from convc.layout.layouts import Layout, concatenated


def logical_product(layout: Layout, tiler: Tiler) -> Layout:
    """The layout, and a mode of its repetitions in the order of another: ``(layout, complement of layout o tiler)``.

    Args:
        layout: what is repeated.
        tiler: a layout or a number n for n:1, and the result is ``(layout, repetitions)``; or several of these for
            the first modes.

    Raises:
        InputError: there is no room for repetitions, or symbols leave it open.
    """
    if isinstance(tiler, Sequence):
        return by_mode(logical_product, layout, tiler)
    tile = as_layout(tiler)
    return concatenated(layout, composition(complement(layout, product(layout.size, tile.cosize)), tile))


def zipped_product(layout: Layout, tiler: Tiler) -> Layout:
    """`logical_product` as ``((mode, mode, ...), (tile, tile, ...))``."""
    return gathered(logical_product(layout, tiler), tiler)


def tiled_product(layout: Layout, tiler: Tiler) -> Layout:
    """`logical_product` as ``((mode, mode, ...), tile, tile, ...)``."""
    return spread(logical_product(layout, tiler), tiler)


def flat_product(layout: Layout, tiler: Tiler) -> Layout:
    """`logical_product` as ``(mode, mode, ..., tile, tile, ...)``."""
    return flattened(logical_product(layout, tiler), tiler)


def blocked_product(block: Layout, tiler: Layout) -> Layout:
    """A block beside itself as ``tiler`` says, mode by mode: each mode is ``(of the block, of the tiler)``."""
    return _by_rank(block, tiler, raked=False)


def raked_product(block: Layout, tiler: Layout) -> Layout:
    """Blocks in each other, mode by mode: each mode is ``(of the tiler, of the block)``."""
    return _by_rank(block, tiler, raked=True)


def _by_rank(block: Layout, tiler: Layout, raked: bool) -> Layout:
    rank = max(block.rank, tiler.rank)
    inner, outer = logical_product(_of_rank(block, rank), _of_rank(tiler, rank)).modes
    if raked:
        inner, outer = outer, inner
    modes = [concatenated(one, other) for one, other in zip(inner.modes, outer.modes, strict=True)]
    return concatenated(*map(coalesce, modes))


def _of_rank(layout: Layout, rank: int) -> Layout:
    return concatenated(*layout.modes, *[Layout(1, 0)] * (rank - layout.rank))
