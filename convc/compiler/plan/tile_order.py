"""The order in which tiles are made, chosen by what it moves (`convc.compiler.index.traffic`).

Tiles that are made at the same time read what they have in common once. What one round has left in L2 the next ones
find there, as far as L2 holds it: it is taken to keep what was used last. So the order matters where L2 does not hold
all of a launch: along M first, every column of tiles reads all activations again, and along N first only once.

A grid of many tiles is looked at as one of fewer, larger ones.
"""

from __future__ import annotations

import math

import msgspec

from convc.compiler.index.maps import Proof
from convc.compiler.index.order_names import BOUSTROPHEDON, COLUMNS, GROUPED, HILBERT, ORDERS, ROWS, OrderName
from convc.compiler.index.tile_order import MOST_ENTRIES, order_of
from convc.compiler.index.traffic import Bytes, Traffic, traffic_of
from convc.errors import PlanError
from convc.ir.tile_order import OrderTraffic, TilePlaces

GAIN = 0.95
"""Part of the bytes that another order moves, of those along M first, from which on it is worth having."""

ALIKE = 1.02
"""Orders that move so many times as much as the best are as good: the simplest of them is taken."""

LOOKED_AT = 8192
"""Tiles of a grid that the model looks at; of more, some are taken together."""

HEIGHTS = (2, 4, 8, 16, 32, 64)
"""Tiles along M of a group that are looked at."""

BY_ARITHMETIC: tuple[OrderName, ...] = (ROWS, COLUMNS, GROUPED, BOUSTROPHEDON)
BY_SIMPLICITY: tuple[OrderName, ...] = (ROWS, COLUMNS, BOUSTROPHEDON, GROUPED, HILBERT)


class TileOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The order in which tiles are made.

    Attributes:
        name: which (`convc.compiler.index.tile_order`).
        groups: how many the grid is cut into.
        places: the place of the tile of each number; None: along M first, as the hardware counts CTAs.
        why: the reason; empty where there is no choice.
        proof: that every tile is made once.
        traffic: what it moves; behind it, what others would that were looked at.
        timed: what a timer needs to know.
    """

    name: OrderName = ROWS
    groups: int = 1
    places: TilePlaces | None = None
    why: str = ""
    proof: str = ""
    traffic: tuple[Traffic, ...] = ()
    timed: OrderTraffic | None = None


def in_rows(size: Bytes) -> TileOrder:
    """Leave tiles as the hardware counts CTAs, each byte read from memory once."""
    return TileOrder(timed=OrderTraffic(fetched=size.read, reached=size.read))


def choose_order(
    tiles: tuple[int, int], together: int, at_once: int, size: Bytes, asked: OrderName | None
) -> TileOrder:
    """Choose the order in which tiles are made.

    Args:
        tiles: along M and along N.
        together: CTAs that multiply as one.
        at_once: tiles that are made at the same time.
        size: of what is moved.
        asked: the requested order; None: the one with the least traffic, along M first where that is equal.

    Raises:
        PlanError: the order that is asked for needs a larger table than a kernel has.
    """
    units = tiles[0] // together
    entries = units * tiles[1]
    if asked == HILBERT and entries > MOST_ENTRIES:
        raise PlanError(
            f"rasterization order {HILBERT} needs a table of {entries} tiles, and the largest has {MOST_ENTRIES}: "
            f"{GROUPED} needs none"
        )
    along_m = in_rows(size)
    if min(units, tiles[1]) == 1:
        return along_m
    why = ""
    if size.all <= size.l2:
        why = f"rasterization along M first: L2 holds all {size.all} bytes, so every order reads each once"
    if asked is None and why:
        return msgspec.structs.replace(along_m, why=why)
    able = ORDERS if entries <= MOST_ENTRIES else BY_ARITHMETIC
    names = able if asked is None else (asked, ROWS)
    found = [traffic for name in dict.fromkeys(names) for traffic in _looked_at(name, tiles, together, at_once, size)]
    best: dict[OrderName, Traffic] = {}
    for one in sorted(found, key=lambda one: (one.memory_bytes, one.round_bytes)):
        best.setdefault(one.order, one)
    taken = best[asked or _best(best)]
    others = tuple(one for one in best.values() if one is not taken)
    why = f"rasterization order {taken.order}: {taken.memory_bytes} bytes of memory traffic"
    if taken.order != ROWS:
        why += f", along M first {best[ROWS].memory_bytes}"
    if asked is not None:
        why += "; as requested"
    made = TileOrder(
        name=taken.order,
        groups=taken.groups,
        why=why,
        traffic=(taken, *others),
        timed=OrderTraffic(fetched=taken.fetched, reached=size.read),
    )
    if taken.order == ROWS:
        return made
    order = order_of(taken.order, tiles, together=together, groups=taken.groups)
    proof = order.prove()
    if not isinstance(proof, Proof):
        raise PlanError(str(proof))
    return msgspec.structs.replace(made, places=order.places, proof=str(proof))


def _best(found: dict[OrderName, Traffic]) -> OrderName:
    """The simplest of the orders that are about as good as the best, if that is worth having."""
    least = min(one.memory_bytes for one in found.values())
    if least > GAIN * found[ROWS].memory_bytes:
        return ROWS
    near = [one.order for one in found.values() if one.memory_bytes <= ALIKE * least]
    return BY_SIMPLICITY[min(map(BY_SIMPLICITY.index, near))]


def _looked_at(name: OrderName, tiles: tuple[int, int], together: int, at_once: int, size: Bytes) -> list[Traffic]:
    """Find what an order moves; of groups, those of several heights."""
    units = tiles[0] // together
    groups = (
        [1] if name != GROUPED else sorted({-(-units // height) for height in HEIGHTS if height < units} or {units})
    )
    merged = -(-math.prod(tiles) // LOOKED_AT)
    found: list[Traffic] = []
    for count in groups:
        # Of a large grid some units are one, which is as many times as large.
        smaller = max(1, units // merged)
        order = order_of(name, (smaller * together, tiles[1]), together=together, groups=max(1, min(smaller, count)))
        moved = traffic_of(order, max(1, at_once // merged), size)
        found.append(msgspec.structs.replace(moved, groups=count))
    return found
