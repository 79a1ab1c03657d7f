"""The chunks that a tensor store moves: from which places of shared memory to which of the buffer.

Where a store writes whole rows, as the tiles of an epilogue are, the chunks of a row follow one another in the buffer,
whatever the swizzle has made of their order in shared memory. They are one *piece* then, moved at once; everywhere else
each chunk is a piece of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from convc.errors import MachineFault
from convc.ir.tensormap import PADDED, TensorMap
from convc.machine.base.swizzle import XOR
from convc.machine.tma.cache import Coordinate, Walk, signed
from convc.machine.tma.layout import BoxLayout, layout
from convc.machine.tma.load import TensorLoader
from convc.machine.tma.source import CHUNK
from convc.machine.tma.walk import CopyRows

LINE = 7
"""log2 of the bytes of a line of shared memory, of which a tile begins with a whole one."""


@dataclass(frozen=True, slots=True)
class Moves:
    """Pieces that a store moved as they were, one after the other.

    Attributes:
        source: int32 (pieces x chunks,): where each chunk lay in the shared memory of all CTAs.
        target: int32 (pieces,): where each piece went in the buffer, in chunks.
    """

    source: np.ndarray
    target: np.ndarray

    def again(self, smem: np.ndarray, memory: np.ndarray) -> None:
        """Move other pieces, from shared memory uint8 (ctas, bytes) to the bytes of a buffer."""
        pieces = pieces_of(memory, len(self.source) // max(1, len(self.target)))
        pieces[self.target] = smem.reshape(-1).view(CHUNK).take(self.source).view(pieces.dtype)


class Aim(NamedTuple):
    """The pieces that a store moves.

    Attributes:
        place: where the chunks lie from the address on.
        source: int64 (ctas, pieces x chunks): where in the shared memory of all CTAs each chunk lies, those of a piece
            one after the other; int32 where that is enough.
        target: of this type (1 | ctas, pieces): where in the buffer each goes, in units of ``unit`` bytes.
        inside: bool (1 | ctas, pieces): which are written; None: every one.
        chunks: of a piece.
        size: bytes that a piece takes in the buffer.
        unit: 16 where chunks arrive as they are, else 1.
    """

    place: BoxLayout
    source: np.ndarray
    target: np.ndarray
    inside: np.ndarray | None
    chunks: int
    size: int
    unit: int

    def moving(self, order: int) -> Moves:
        """Name the pieces that are written, one after the other (``order`` -1: backwards)."""
        shape = len(self.source), self.target.shape[1]
        source = self.source.reshape(-1, self.chunks)
        target = np.broadcast_to(self.target, shape).reshape(-1)
        if self.inside is not None:
            inside = np.broadcast_to(self.inside, shape).reshape(-1)
            source = source[inside]
            target = target[inside]
        return Moves(source[::order].reshape(-1), target[::order])


def aim_of(
    tensor: TensorLoader,
    smem: np.ndarray,
    address: int | np.ndarray,
    coords: tuple[Coordinate, ...],
    rows: np.ndarray | None,
    mode: str | None,
    *,
    whole: bool,
) -> Aim:
    """Find the pieces that a store moves; faults where the hardware does. ``whole``: chunks replace what is there."""
    tmap = tensor.tmap
    if tmap.dtype == "b4x16_p64":
        raise MachineFault(
            "there are no tensor stores of b4x16_p64 elements",
            hint="b4x16 maps have some: their shared memory is packed",
        )
    shape = shape_of(tensor, mode)
    numbers = np.arange(len(smem)) if rows is None else np.asarray(rows)
    one = address if isinstance(address, int) else int(address.max())
    channel = tensor.channel(one, coords, mode)
    if channel is None:
        channel = _channels(tensor, one, coords, mode)
    _refuse_outside(tmap, coords)
    place = tensor.place(shape.steps.size, one, smem.shape[1])
    walk = tensor.walks.find(coords[1:], shape.steps, len(numbers))
    lead = channel * tmap.shared_bits >> 3
    size = PADDED.get(tmap.dtype, 16)
    unit = 16 if whole and size == 16 else 1
    few = unit == 16 and max(smem.size, tensor.memory.size) >> 4 < 1 << 31
    kind = np.int32 if few else np.int64
    begin = (numbers * (smem.shape[1] >> 4) + (address >> 4)).astype(kind)[:, None]
    if unit == 16 and place.flipped is None and bool((_room(tmap, lead) >= tmap.row_bytes).all()):
        target = _of_each(walk, walk.base.astype(kind), ((lead + tmap.offset) // 16))
        inside = _inside(tensor, walk, shape)
        source = begin + _of_phases(tensor, place, address, attrgetter("by_row")).astype(kind)
        return Aim(place, source, target, inside, tmap.row_bytes >> 4, tmap.row_bytes, unit)
    column = _of_phases(tensor, place, address, attrgetter("column"))
    target = walk.base.astype(kind).take(place.row, axis=1)
    if unit == 1:
        target *= 16
    target = _of_each(walk, target, ((column * 16 + lead) * size // 16 + tmap.offset) // unit)
    start = np.arange(place.row.size) if place.places is None else place.places
    inside = _inside(tensor, walk, shape, place.row)
    short = np.atleast_2d(column * 16 < _room(tmap, lead))
    if not short.all():
        inside = short if inside is None else inside & short
    return Aim(place, begin + start.astype(kind), target, inside, 1, size, unit)


def _of_each(walk: Walk, target: np.ndarray, first: int | np.ndarray) -> np.ndarray:
    """Targets (1 | copies, pieces), of each CTA where copies differ, and ``first`` behind them."""
    if isinstance(first, np.ndarray) and first.ndim > 1:
        target = target if walk.members is None else target[walk.members]
        return target + first.astype(target.dtype)
    target += np.asarray(first).astype(target.dtype)  # before it is repeated for every CTA
    return target if walk.members is None else target[walk.members]


def _of_phases(
    tensor: TensorLoader, place: BoxLayout, address: int | np.ndarray, part: Callable[[BoxLayout], np.ndarray]
) -> np.ndarray:
    """A part of the layout, (chunks,), or (ctas, chunks) where the swizzle differs from CTA to CTA."""
    if isinstance(address, int):
        return part(place)
    phases = (address >> LINE) & XOR[tensor.tmap.swizzle][0]
    if (phases == place.phase).all():
        return part(place)
    rows = place.bytes // tensor.tmap.row_bytes
    layouts = [layout(tensor.tmap, rows, phase) for phase in range(int(phases.max()) + 1)]
    return np.stack([part(each) for each in layouts])[phases]


def _room(tmap: TensorMap, lead: int | np.ndarray) -> np.ndarray:
    """Bytes of a row from its start up to the end of dimension 0."""
    return np.asarray((tmap.dims[0] * tmap.shared_bits >> 3) - lead)


def _inside(tensor: TensorLoader, walk: Walk, shape: CopyRows, row: np.ndarray | None = None) -> np.ndarray | None:
    """bool (1 | ctas, rows): the rows inside the tensor, or of chunks the ``row`` of each; None: all are."""
    outside = tensor.lines_outside(walk, shape)
    if not outside.any():
        return None
    found = ~outside if row is None else ~outside.take(row, axis=1)
    return found if walk.members is None else found[walk.members]


def shape_of(tensor: TensorLoader, mode: str | None) -> CopyRows:
    """The rows of a store."""
    return tensor.shape((0,) * (tensor.tmap.rank - 2) if mode == "im2col" else (), mode)


def pieces_of(memory: np.ndarray, chunks: int = 1) -> np.ndarray:
    """Each so many chunks of a buffer, from every one on: what is written last stays where they meet."""
    count = max(0, memory.size // 16 - chunks + 1)
    return np.ndarray(count, np.dtype((np.void, 16 * chunks)), memory, 0, 16)


def _channels(tensor: TensorLoader, address: int, coords: tuple[Coordinate, ...], mode: str | None) -> np.ndarray:
    """First channels of CTAs that start at different ones, int64 (ctas, 1); the oddest is held to the rules."""
    channels = np.asarray(_signed(coords[0])).astype(np.int64)
    odd = int(channels[(channels * tensor.tmap.shared_bits % tensor.grain).argmax()])
    tensor.channel(address, (odd, *coords[1:]), mode)
    return channels[:, None]


def _refuse_outside(tmap: TensorMap, coords: tuple[Coordinate, ...]) -> None:
    """Stores may not start left of the tensor, nor traverse a box that exceeds the image."""
    least = min([int(np.minimum.reduce(_signed(c), axis=None)) for c in coords])
    if least < 0:
        raise MachineFault(
            f"a tensor store starts at a negative coordinate, {least}",
            hint="only loads may: the hardware stops with an illegal instruction (CUDA error 715)",
        )
    if min(tmap.lower, default=0) < 0 or max(tmap.upper, default=0) > 0:
        raise MachineFault(
            f"a tensor store through a map whose bounding box exceeds the image: lower {tmap.lower}, "
            f"upper {tmap.upper}",
            hint="the hardware stops with an illegal instruction (CUDA error 715)",
        )


def _signed(coordinate: Coordinate) -> Coordinate:
    if isinstance(coordinate, np.ndarray):
        return coordinate.astype(np.int32)
    return signed(coordinate)
