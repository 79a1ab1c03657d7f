"""The bytes that a rasterization order moves: a model of L2 that looks at a round of CTAs at a time.

The model has no addresses. Activations are as many equal pieces as there are tiles along M, filters as many as along N,
and results pass through, with what is added to them. A piece that a round reads is read once, and comes from memory if
L2 has lost it, which keeps what was used last.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec
import numpy as np

from convc.compiler.index.order_names import OrderName
from convc.compiler.index.tile_order import RasterOrder


class Bytes(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a launch, of its activations as far as copies reach them, and what L2 holds."""

    activation: int
    filter: int
    residual: int
    output: int
    l2: int

    @property
    def read(self) -> int:
        """Bytes that are read."""
        return self.activation + self.filter + self.residual

    @property
    def all(self) -> int:
        """Bytes that are moved."""
        return self.read + self.output


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that an order moves.

    Attributes:
        order, groups: which.
        round_bytes: of operands that a round of CTAs reads, each byte once, on average.
        memory_bytes: that the launch reads from memory and writes to it.
        fetched: of these, operands.
    """

    order: OrderName
    groups: int
    round_bytes: int
    memory_bytes: int
    fetched: int = 0


def traffic_of(order: RasterOrder, at_once: int, size: Bytes) -> Traffic:
    """Find what an order moves.

    Args:
        order: of a grid.
        at_once: tiles that are made at the same time.
        size: of what is moved. All of it comes from memory once, as if nothing were in L2 at the start.
    """
    rows, columns = order.tiles
    tiles = rows * columns
    pieces = {"m": size.activation / rows, "n": size.filter / columns, "out": (size.output + size.residual) / tiles}
    m, n = (places.tolist() for places in order.at(np.arange(tiles)))
    held: OrderedDict[tuple[str, int], None] = OrderedDict()
    inside = 0.0
    read = 0.0
    rounds = 0.0
    for first in range(0, tiles, at_once):
        here = range(first, min(first + at_once, tiles))
        wanted = [each for tile in here for each in (("m", m[tile]), ("n", n[tile]))]
        rounds += sum(pieces[kind] for kind, _ in set(wanted))
        for piece in (*wanted, *(("out", tile) for tile in here)):
            if piece in held:
                held.move_to_end(piece)
                continue
            held[piece] = None
            amount = pieces[piece[0]]
            inside += amount
            read += amount if piece[0] != "out" else 0
            while inside > size.l2:
                inside -= pieces[held.popitem(last=False)[0][0]]
    return Traffic(
        order=order.name,
        groups=order.groups,
        round_bytes=round(rounds / -(-tiles // at_once)),
        memory_bytes=round(read) + size.residual + size.output,
        fetched=round(read) + size.residual,
    )
