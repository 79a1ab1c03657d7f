"""Which bytes of global memory a tensor copy reaches: for observers, which look for races.

A row of shared memory is one position along the outer dimensions (see `tma.walk`), so in global memory it is one line
of consecutive bytes. Lines outside the tensor are not touched, nor what lies behind dimension 0; but a store writes
whole chunks of 16 bytes (see `tma.store`).
"""

from __future__ import annotations

import functools
from dataclasses import replace
from itertools import accumulate

import numpy as np

from convc.ir.tensormap import PADDED
from convc.machine.state.observer import GlobalRange, Lines
from convc.machine.tma.cache import Coordinate, signed
from convc.machine.tma.load import TensorLoader


def tensor_reach(
    loader: TensorLoader,
    name: str,
    kind: str,
    coords: tuple[Coordinate, ...],
    offsets: tuple[int, ...] | None,
    mode: str,
    repeat: int = 1,
) -> GlobalRange:
    """What copies with these operands reach.

    Args:
        loader, coords, offsets, mode: as for `TensorLoader.load`; ``offsets`` None: a store or reduction.
        name: of the buffer. kind: see `GlobalRange`.
        repeat: destinations per issuing CTA, for each of which there are coordinates.
    """
    return GlobalRange(buffer=name, kind=kind, lines=functools.partial(_lines, loader, coords, offsets, mode, repeat))


def all_of(memory: GlobalRange, copies: int) -> GlobalRange:
    """The range of so many copies, worked out once for all who ask about all of them, in order."""
    positions = np.arange(copies)
    found = functools.cache(lambda: memory.lines(positions))

    def lines(which: np.ndarray) -> list[Lines]:
        return found() if len(which) == copies else memory.lines(which)

    return replace(memory, lines=lines)


def parts_of(memory: GlobalRange, counts: list[int]) -> list[GlobalRange]:
    """The range of each of several copies by so many CTAs, of that of all of them."""
    firsts = [0, *accumulate(counts)]
    return [replace(memory, lines=functools.partial(_part, memory, first)) for first in firsts[:-1]]


def _part(memory: GlobalRange, first: int, which: np.ndarray) -> list[Lines]:
    """The bytes that the copies at positions ``which``, counted from ``first`` on, reach."""
    return [(of - first, starts, size) for of, starts, size in memory.lines(which + first)]


def _lines(
    loader: TensorLoader,
    coords: tuple[Coordinate, ...],
    offsets: tuple[int, ...] | None,
    mode: str,
    repeat: int,
    which: np.ndarray,
) -> list[Lines]:
    """The bytes that the copies of the issuing CTAs at positions ``which`` reach."""
    tmap = loader.tmap
    store = offsets is None
    if store:
        offsets = (0,) * (tmap.rank - 2) if mode == "im2col" else ()
    at = tuple(c[which * repeat] if isinstance(c, np.ndarray) and c.size > 1 else c for c in coords)
    shape = loader.shape(offsets, mode)
    walk = loader.walks.find(at[1:], shape.steps, len(which))
    first = walk.base * 16 + tmap.offset + sum(t * s for t, s in zip(shape.taps, tmap.strides, strict=True))
    first[loader.lines_outside(walk, shape)] = -1
    first = np.broadcast_to(first, (len(which), first.shape[1])) if walk.members is None else first[walk.members]
    found: list[Lines] = []
    for value, chosen in _by_channel(at[0], len(which)):
        lead = signed(value) * tmap.shared_bits >> 3
        low, high = loader.window(lead)
        if store:
            high = -(-high // 16) * 16
        if tmap.dtype in PADDED:
            low, high, lead = (n // 16 * PADDED[tmap.dtype] for n in (low, high, lead))
        if high > low:
            own = first[chosen]
            starts = own + (lead + low)
            starts[own < 0] = -1
            found.append((which[chosen], starts, high - low))
    return found


def _by_channel(channel: Coordinate, count: int) -> list[tuple[int, slice | np.ndarray]]:
    """The first coordinates that are there, in order, and the positions of the CTAs that have each."""
    if not isinstance(channel, np.ndarray) or channel.size == 1 or (channel == channel[0]).all():
        return [(int(np.asarray(channel).flat[0]), slice(None))]
    order = channel.argsort(kind="stable")
    values = channel[order]
    cuts = np.flatnonzero(values[1:] != values[:-1]) + 1
    return [(int(channel[some[0]]), some) for some in np.split(order, cuts)]
