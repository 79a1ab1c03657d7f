"""Tensor copies from shared to global memory: stores and reductions.

A store is a load the other way round. The same rows of the tensor, by the same walk, meet the same places of shared
memory, swizzle included; rows outside the tensor are skipped, and so is what lies behind dimension 0, but in whole
chunks of 16 bytes: where dimension 0 ends inside a chunk, the rest of the chunk is written into the padding of the row.
Starts must not be negative, and im2col boxes must not reach over the image. All of this is recorded on an H200
(``tests/recordings``); that scatter4 does the same is assumed.

A store through a map of b6x16_p32 elements is one of type b6p2x16 (PTX manual, 5.5.1.1): it takes each element from
the low 6 bits of its own byte, not from where a load puts it, and packs 16 of them into 12 bytes. b4x16_p64 has no
stores, and no type with padding has reductions.

CTAs that write the same place in one instruction do so in the order of their numbers, or in the opposite one (the
switches ``colliding_stores`` and ``atomic_order``): hardware promises none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from convc.errors import MachineFault
from convc.ir.tensormap import PADDED, TensorMap
from convc.machine.base.switches import DEFAULTS, Switches
from convc.machine.base.swizzle import XOR
from convc.machine.tma.cache import Coordinate, Walk, signed
from convc.machine.tma.layout import Layout, layout
from convc.machine.tma.load import TensorLoader
from convc.machine.tma.reduce import reduce_into, reduction
from convc.machine.tma.source import CHUNK
from convc.machine.tma.walk import Form

LINE = 7
"""log2 of the bytes of a line of shared memory, of which a tile begins with a whole one."""


@dataclass(frozen=True, slots=True)
class Moves:
    """Whole chunks that a store moved, one after the other.

    Attributes:
        source: int32 (chunks,): where each lay in the shared memory of all CTAs.
        target: int32 (chunks,): where it went in the buffer.
    """

    source: np.ndarray
    target: np.ndarray

    def again(self, smem: np.ndarray, memory: np.ndarray) -> None:
        """Move other chunks, from shared memory uint8 (ctas, bytes) to the bytes of a buffer."""
        _chunks(memory)[self.target] = smem.reshape(-1).view(CHUNK).take(self.source)


class Aim(NamedTuple):
    """The chunks that a store moves.

    Attributes:
        place: where they lie from the address on.
        source: int64 (ctas, chunks): where in the shared memory of all CTAs each lies; int32 where that is enough.
        target: of this type (1 | ctas, chunks): where in the buffer each goes, in units of ``unit`` bytes.
        inside: bool (1 | ctas, chunks): which are written; None: every one.
        size: bytes that a chunk takes in the buffer.
        unit: 16 where chunks arrive as they are, else 1.
    """

    place: Layout
    source: np.ndarray
    target: np.ndarray
    inside: np.ndarray | None
    size: int
    unit: int

    def moving(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        """``source`` and ``target`` of the chunks that are written, one after the other (``order`` -1: backwards)."""
        target = np.broadcast_to(self.target, self.source.shape)
        if self.inside is None:
            return self.source.reshape(-1)[::order], target.reshape(-1)[::order]
        inside = np.broadcast_to(self.inside, self.source.shape)
        return self.source[inside][::order], target[inside][::order]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreResult:
    """What one store did.

    Attributes:
        bytes: of shared memory that belong to the box, whether they were skipped or not.
        read: (start, stop) byte ranges of shared memory, relative to the source address.
        aim: which chunks it moved.
        moved: these as `Aim.moving` has them; None where they did not arrive as they were.
    """

    bytes: int
    read: tuple[tuple[int, int], ...]
    aim: Aim
    moved: tuple[np.ndarray, np.ndarray] | None

    def moves(self) -> Moves | None:
        """Name the chunks that moved, to move others the same way; None where that takes more."""
        if self.moved is None:
            return None
        source, target = self.moved
        return Moves(source, target)

    def hits(self, offset: int) -> np.ndarray:
        """Find the CTAs that wrote the byte at an offset of the buffer, by their place among those that took part."""
        aim = self.aim
        first = aim.target.astype(np.int64) * aim.unit
        over = (first <= offset) & (offset < first + aim.size)
        if aim.inside is not None:
            over = over & aim.inside
        return np.flatnonzero(np.broadcast_to(over, aim.source.shape).any(axis=1))


def store(
    tensor: TensorLoader,
    smem: np.ndarray,
    address: int | np.ndarray,
    coords: tuple[Coordinate, ...],
    rows: np.ndarray | None = None,
    mode: str | None = None,
    operation: str | None = None,
    switches: Switches = DEFAULTS,
) -> StoreResult:
    """One copy per CTA.

    Args:
        tensor: the tensor to write.
        smem, coords, rows, mode: as in `TensorLoader.load`.
        address: source in the shared window of each CTA: one for all, or int64 (ctas,), see `joinable`.
        operation: the reduction, or None to overwrite.
        switches: in which order CTAs come, and whether sums of ftz types flush.
    """
    aim = _aim(tensor, smem, address, coords, rows, mode, whole=operation is None)
    place = aim.place
    order = -1 if switches.colliding_stores == "lowest" else 1
    moved = None
    if aim.unit == CHUNK.itemsize and place.flipped is None and aim.source.dtype == np.int32:
        moved = source, target = aim.moving(order)
        _chunks(tensor.memory)[target] = smem.reshape(-1).view(CHUNK).take(source)
    else:
        _changed(tensor, smem, aim, order, operation, switches)
    return StoreResult(bytes=place.bytes, read=place.written, aim=aim, moved=moved)


def _aim(
    tensor: TensorLoader,
    smem: np.ndarray,
    address: int | np.ndarray,
    coords: tuple[Coordinate, ...],
    rows: np.ndarray | None,
    mode: str | None,
    *,
    whole: bool,
) -> Aim:
    """Which chunks a store moves; faults where the hardware does. ``whole``: chunks replace what is there."""
    tmap = tensor.tmap
    if tmap.dtype == "b4x16_p64":
        raise MachineFault(
            "there are no tensor stores of b4x16_p64 elements",
            hint="b4x16 maps have some: their shared memory is packed",
        )
    shape = _shape(tensor, mode)
    numbers = np.arange(smem.shape[0]) if rows is None else np.asarray(rows)
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
    target = walk.base.astype(kind).take(place.row, axis=1)
    if unit == 1:
        target *= 16
    column = place.column if isinstance(address, int) else _columns(tensor, place, address)
    first = (((column * 16 + lead) * size // 16 + tmap.offset) // unit).astype(kind)
    if first.ndim == 1:
        target += first  # before it is repeated for every CTA
    if walk.members is not None:
        target = target[walk.members]
    if first.ndim > 1:
        target = target + first
    start = np.arange(place.row.size) if place.places is None else place.places
    begin = numbers * (smem.shape[1] >> 4) + (address >> 4)
    inside = _inside(tensor, walk, shape, place.row, column, lead)
    return Aim(place, begin.astype(kind)[:, None] + start.astype(kind), target, inside, size, unit)


def _columns(tensor: TensorLoader, place: Layout, address: np.ndarray) -> np.ndarray:
    """Which 16 bytes of its row each chunk is, (chunks,), or int64 (ctas, chunks) where the swizzle differs."""
    phases = (address >> LINE) & XOR[tensor.tmap.swizzle][0]
    if (phases == place.phase).all():
        return place.column
    rows = place.bytes // tensor.tmap.row_bytes
    table = [layout(tensor.tmap, rows, phase).column for phase in range(int(phases.max()) + 1)]
    return np.stack(table)[phases]


def _inside(
    tensor: TensorLoader, walk: Walk, shape: Form, row: np.ndarray, column: np.ndarray, lead: int | np.ndarray
) -> np.ndarray | None:
    """bool (1 | ctas, chunks): the chunks inside the tensor, from the row and column of each; None: all are."""
    tmap = tensor.tmap
    outside = tensor.lines_outside(walk, shape)
    found = None
    if outside.any():
        found = ~outside.take(row, axis=1)
        if walk.members is not None:
            found = found[walk.members]
    room = (tmap.dims[0] * tmap.shared_bits >> 3) - lead
    if np.min(room) < tmap.row_bytes:
        short = np.atleast_2d(column * 16 < room)
        found = short if found is None else found & short
    return found


def _changed(
    tensor: TensorLoader, smem: np.ndarray, aim: Aim, order: int, operation: str | None, switches: Switches
) -> None:
    """Store chunks that do not arrive as they were: combined with what is there, packed, or with halves exchanged."""
    data = smem.reshape(-1).view(CHUNK).take(aim.source)
    if aim.place.flipped is not None:
        halves = data.view(np.uint64).reshape(*data.shape, 2)
        halves[:, aim.place.flipped] = halves[:, aim.place.flipped, ::-1]
    inside = np.broadcast_to(True if aim.inside is None else aim.inside, data.shape)
    target = np.broadcast_to(aim.target, data.shape)
    if operation is not None:
        _reduce(tensor, data, target, inside, operation, switches)
    elif aim.unit == 1:
        tensor.memory[target[inside][::order, None] + np.arange(aim.size)] = packed_six(data[inside][::order])
    else:
        _chunks(tensor.memory)[target[inside][::order]] = data[inside][::order]


def _chunks(memory: np.ndarray) -> np.ndarray:
    """The whole chunks of a buffer."""
    return memory[: memory.size // 16 * 16].view(CHUNK)


def span(tensor: TensorLoader, address: int, mode: str | None, limit: int) -> tuple[int, int]:
    """First shared address that a store from ``address`` reads, and the one behind the last; ``limit``: of the CTA."""
    if address % 16:
        return 0, limit  # `store` faults
    return address, address + tensor.place(_shape(tensor, mode).steps.size, address, limit).extent


def joinable(tensor: TensorLoader, addresses: list[int], mode: str | None, limit: int) -> bool:
    """Whether tiles at these shared addresses may be stored as one.

    They lie as one piece each, or alike; their chunks arrive as they are, and no tile has two for one place.
    """
    rows = _shape(tensor, mode).steps.size
    layouts = [tensor.place(rows, address, limit) for address in addresses]
    alike = all(each is layouts[0] or each.places is layouts[0].places is None for each in layouts)
    aligned = not any(address % (1 << LINE) for address in addresses)
    return (
        alike
        and aligned
        and layouts[0].flipped is None
        and tensor.tmap.dtype not in PADDED
        and not overlaps(tensor.tmap)
    )


def _shape(tensor: TensorLoader, mode: str | None) -> Form:
    """The rows of a store."""
    return tensor.shape((0,) * (tensor.tmap.rank - 2) if mode == "im2col" else (), mode)


def packed_six(chunks: np.ndarray) -> np.ndarray:
    """Chunks (n,) of 16 bytes, of each the low 6 bits one after another: uint8 (n, 12)."""
    codes = np.ascontiguousarray(chunks).view(np.uint8).reshape(-1, 4, 4).astype(np.uint32) & np.uint32(63)
    words = (codes << np.arange(0, 24, 6, dtype=np.uint32)).sum(-1, dtype=np.uint32)
    return np.ascontiguousarray(words[..., None]).view(np.uint8)[..., :3].reshape(-1, 12)


def _channels(tensor: TensorLoader, address: int, coords: tuple[Coordinate, ...], mode: str | None) -> np.ndarray:
    """First channels of CTAs that start at different ones, int64 (ctas, 1); the oddest is held to the rules."""
    channels = np.asarray(_signed(coords[0])).astype(np.int64)
    odd = int(channels[(channels * tensor.tmap.shared_bits % tensor.grain).argmax()])
    tensor.channel(address, (odd, *coords[1:]), mode)
    return channels[:, None]


def _refuse_outside(tmap: TensorMap, coords: tuple[Coordinate, ...]) -> None:
    """Stores may not start left of the tensor, nor walk a box that reaches over the image."""
    least = min(int(np.min(_signed(c))) for c in coords)
    if least < 0:
        raise MachineFault(
            f"a tensor store starts at a negative coordinate, {least}",
            hint="loads may, stores may not: the hardware stops with an illegal instruction (CUDA error 715)",
        )
    if min(tmap.lower, default=0) < 0 or max(tmap.upper, default=0) > 0:
        raise MachineFault(
            f"a tensor store through a map whose bounding box reaches over the image: lower {tmap.lower}, "
            f"upper {tmap.upper}",
            hint="the hardware stops with an illegal instruction (CUDA error 715)",
        )


def _signed(coordinate: Coordinate) -> Coordinate:
    if isinstance(coordinate, np.ndarray):
        return coordinate.astype(np.int64).astype(np.int32)
    return signed(coordinate)


def _reduce(
    tensor: TensorLoader, data: np.ndarray, target: np.ndarray, inside: np.ndarray, operation: str, switches: Switches
) -> None:
    """Combine the elements of one CTA after the other with what is there."""
    kind, combine = reduction(operation, tensor.tmap.dtype, switches.ftz_sum)
    size = kind.itemsize
    elements = tensor.memory[: tensor.memory.size // 16 * 16].view(kind)
    index = target[..., None] // size + np.arange(16 // size)
    values = np.ascontiguousarray(data).view(kind).reshape(index.shape)
    repeats = overlaps(tensor.tmap)
    step = -1 if switches.atomic_order == "descending" else 1
    for own, chosen, source in zip(index[::step], inside[::step], values[::step], strict=True):
        reduce_into(elements, own[chosen].reshape(-1), source[chosen].reshape(-1), combine, repeats)


def overlaps(tmap: TensorMap) -> bool:
    """Whether two positions of the tensor may be the same bytes of memory."""
    span = tmap.dims[0] * tmap.shared_bits >> 3
    for stride, extent in sorted(zip(tmap.strides, tmap.dims[1:], strict=True)):
        if extent > 1:
            if stride < span:
                return True
            span += stride * (extent - 1)
    return False
