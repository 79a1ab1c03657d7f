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

import numpy as np

from convc.errors import MachineFault
from convc.ir.tensormap import PADDED, TensorMap
from convc.machine.base.switches import DEFAULTS, Switches
from convc.machine.tma.cache import Coordinate, signed
from convc.machine.tma.load import TensorLoader
from convc.machine.tma.reduce import reduce_into, reduction
from convc.machine.tma.source import CHUNK
from convc.machine.tma.walk import Form


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreResult:
    """What one store did.

    Attributes:
        bytes: of shared memory that belong to the box, whether they were skipped or not.
        read: (start, stop) byte ranges of shared memory, relative to the source address.
        target: int64 (ctas, chunks): where in the buffer each chunk goes.
        inside: bool (ctas, chunks): which chunks were written.
        size: bytes that a chunk takes there.
        source: int64 (ctas, chunks): where in the shared memory of all CTAs each chunk lay.
        order: 1, or -1 where the first of two chunks for one place stays.
        plain: whether chunks arrived as they were.
    """

    bytes: int
    read: tuple[tuple[int, int], ...]
    target: np.ndarray
    inside: np.ndarray
    size: int
    source: np.ndarray
    order: int
    plain: bool

    def moves(self) -> Moves | None:
        """Name the chunks that moved, to move others the same way; None where that takes more."""
        if not self.plain or not self.source.size or max(self.source.max(), self.target.max() >> 4) >= 1 << 31:
            return None
        source = self.source[self.inside][:: self.order]
        return Moves(source.astype(np.int32), (self.target[self.inside][:: self.order] >> 4).astype(np.int32))

    def hits(self, offset: int) -> np.ndarray:
        """Find the CTAs that wrote the byte at an offset of the buffer, by their place among those that took part."""
        over = self.inside & (self.target <= offset) & (offset < self.target + self.size)
        return np.flatnonzero(over.any(axis=1))


def store(
    tensor: TensorLoader,
    smem: np.ndarray,
    address: int,
    coords: tuple[Coordinate, ...],
    rows: np.ndarray | None = None,
    mode: str | None = None,
    operation: str | None = None,
    switches: Switches = DEFAULTS,
) -> StoreResult:
    """One copy per CTA, all with the same source address.

    Args:
        tensor: the tensor to write.
        smem, address, coords, rows, mode: as in `TensorLoader.load`.
        operation: the reduction, or None to overwrite.
        switches: in which order CTAs come, and whether sums of ftz types flush.
    """
    tmap = tensor.tmap
    if tmap.dtype == "b4x16_p64":
        raise MachineFault(
            "there are no tensor stores of b4x16_p64 elements",
            hint="b4x16 maps have some: their shared memory is packed",
        )
    shape = _shape(tensor, mode)
    numbers = np.arange(smem.shape[0]) if rows is None else np.asarray(rows)
    channel = tensor.channel(address, coords, mode)
    if channel is None:
        channel = _channels(tensor, address, coords, mode)
    _refuse_outside(tmap, coords)
    place = tensor.place(shape.steps.size, address, smem.shape[1])
    walk = tensor.walks.find(coords[1:], shape.steps, len(numbers))
    inside = ~tensor.lines_outside(walk, shape).take(place.row, axis=1)
    target = walk.base.take(place.row, axis=1) * 16
    if walk.members is not None:
        inside = inside[walk.members]
        target = target[walk.members]
    lead = channel * tmap.shared_bits >> 3
    at = place.column * 16
    size = PADDED.get(tmap.dtype, 16)
    inside = inside & (at < (tmap.dims[0] * tmap.shared_bits >> 3) - lead)
    target = target + ((at + lead) * size // 16 + tmap.offset)
    start = (address >> 4) + (np.arange(place.row.size) if place.places is None else place.places)
    source = numbers[:, None] * (smem.shape[1] >> 4) + start
    data = smem.reshape(-1).view(CHUNK).take(source)
    if place.flipped is not None:
        halves = data.view(np.uint64).reshape(*data.shape, 2)
        halves[:, place.flipped] = halves[:, place.flipped, ::-1]
    inside = np.broadcast_to(inside, data.shape)
    target = np.broadcast_to(target, data.shape)
    order = -1 if switches.colliding_stores == "lowest" else 1
    plain = operation is None and size == 16
    if operation is not None:
        _reduce(tensor, data, target, inside, operation, switches)
    elif size < 16:
        tensor.memory[target[inside][::order, None] + np.arange(size)] = packed_six(data[inside][::order])
    else:
        taking = ... if inside.all() else inside
        _chunks(tensor.memory)[target[taking].reshape(-1)[::order] >> 4] = data[taking].reshape(-1)[::order]
    return StoreResult(
        bytes=place.bytes,
        read=place.written,
        target=target,
        inside=inside,
        size=size,
        source=source,
        order=order,
        plain=plain and place.flipped is None,
    )


def _chunks(memory: np.ndarray) -> np.ndarray:
    """The whole chunks of a buffer."""
    return memory[: memory.size // 16 * 16].view(CHUNK)


def span(tensor: TensorLoader, address: int, mode: str | None, limit: int) -> tuple[int, int]:
    """First shared address that a store from ``address`` reads, and the one behind the last; ``limit``: of the CTA."""
    if address % 16:
        return 0, limit  # `store` faults
    return address, address + tensor.place(_shape(tensor, mode).steps.size, address, limit).extent


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
