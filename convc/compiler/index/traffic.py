"""The bytes that an order of tiles moves: a model of L2 that looks at a round of CTAs at a time.

The model has no addresses. Activations are as many equal pieces as there are tiles along M, filters as many as along N,
and results pass through. A piece that a round reads is read once, and comes from memory if L2 has lost it, which keeps
what was used last.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec
import numpy as np

from convc.compiler.index.order_names import OrderName
from convc.compiler.index.tile_order import Order


class Bytes(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a launch: of its activations, its filter, what it reads and writes besides; and what L2 holds."""

    activation: int
    filter: int
    passing: int
    l2: int

    @property
    def all(self) -> int:
        """Bytes of all buffers."""
        return self.activation + self.filter + self.passing


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that an order moves.

    Attributes:
        order, groups: which.
        round_bytes: of operands that a round of CTAs reads, each byte once, on average.
        memory_bytes: that the launch reads from memory and writes to it.
    """

    order: OrderName
    groups: int
    round_bytes: int
    memory_bytes: int


def traffic_of(order: Order, at_once: int, size: Bytes) -> Traffic:
    """Find what an order moves.

    Args:
        order: of a grid.
        at_once: tiles that are made at the same time.
        size: of what is moved. All of it comes from memory once, as if nothing were in L2 at the start.
    """
    rows, columns = order.tiles
    piece = (size.activation / rows, size.filter / columns)
    tiles = rows * columns
    m, n = order.places.at(np.arange(tiles))
    held: OrderedDict[tuple[str, int], float] = OrderedDict()
    inside = 0.0
    read = 0.0
    rounds = 0.0
    for first in range(0, tiles, at_once):
        last = min(first + at_once, tiles)
        wanted = [("m", key, piece[0]) for key in np.unique(m[first:last]).tolist()]
        wanted += [("n", key, piece[1]) for key in np.unique(n[first:last]).tolist()]
        rounds += sum(bytes_of for *_, bytes_of in wanted)
        for axis, key, bytes_of in (*wanted, ("out", first, size.passing * (last - first) / tiles)):
            if (axis, key) in held:
                held.move_to_end((axis, key))
                continue
            held[axis, key] = bytes_of
            inside += bytes_of
            read += bytes_of
        while inside > size.l2 and held:
            inside -= held.popitem(last=False)[1]
    return Traffic(
        order=order.name,
        groups=order.groups,
        round_bytes=round(rounds / -(-tiles // at_once)),
        memory_bytes=round(read),
    )
