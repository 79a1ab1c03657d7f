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

from convc.ir.tensormap import PADDED, TensorMap
from convc.machine.base.switches import DEFAULTS, Switches
from convc.machine.tma.aim import LINE, Aim, Moves, aim_of, pieces_of, shape_of
from convc.machine.tma.cache import Coordinate
from convc.machine.tma.load import TensorLoader
from convc.machine.tma.reduce import reduce_into, reduction
from convc.machine.tma.source import CHUNK


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreResult:
    """What one store did.

    Attributes:
        bytes: of shared memory that belong to the box, whether they were skipped or not.
        read: (start, stop) byte ranges of shared memory, relative to the source address.
        aim: which pieces it moved.
        moves: to move others the same way; None where that takes more.
    """

    bytes: int
    read: tuple[tuple[int, int], ...]
    aim: Aim
    moves: Moves | None

    def hits(self, offset: int) -> np.ndarray:
        """Find the CTAs that wrote the byte at an offset of the buffer, by their place among those that took part."""
        aim = self.aim
        first = aim.target.astype(np.int64) * aim.unit
        over = (first <= offset) & (offset < first + aim.size)
        if aim.inside is not None:
            over = over & aim.inside
        return np.flatnonzero(np.broadcast_to(over, (len(aim.source), over.shape[1])).any(axis=1))


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
    aim = aim_of(tensor, smem, address, coords, rows, mode, whole=operation is None)
    place = aim.place
    order = -1 if switches.colliding_stores == "lowest" else 1
    moves = None
    if aim.unit == CHUNK.itemsize and place.flipped is None:
        moves = aim.moving(order)
        moves.again(smem, tensor.memory)
    else:
        _changed(tensor, smem, aim, order, operation, switches)
    short = moves is not None and moves.source.dtype == np.int32
    return StoreResult(bytes=place.bytes, read=place.written, aim=aim, moves=moves if short else None)


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
        pieces_of(tensor.memory)[target[inside][::order]] = data[inside][::order]


def span(tensor: TensorLoader, address: int, mode: str | None, limit: int) -> tuple[int, int]:
    """First shared address that a store from ``address`` reads, and the one behind the last; ``limit``: of the CTA."""
    if address % 16:
        return 0, limit  # `store` faults
    return address, address + tensor.place(shape_of(tensor, mode).steps.size, address, limit).extent


def joinable(tensor: TensorLoader, addresses: list[int], mode: str | None, limit: int) -> bool:
    """Whether tiles at these shared addresses may be stored as one.

    They lie as one piece each, or alike; their chunks arrive as they are, and no tile has two for one place.
    """
    rows = shape_of(tensor, mode).steps.size
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


def packed_six(chunks: np.ndarray) -> np.ndarray:
    """Chunks (n,) of 16 bytes, of each the low 6 bits one after another: uint8 (n, 12)."""
    codes = np.ascontiguousarray(chunks).view(np.uint8).reshape(-1, 4, 4).astype(np.uint32) & np.uint32(63)
    words = (codes << np.arange(0, 24, 6, dtype=np.uint32)).sum(-1, dtype=np.uint32)
    return np.ascontiguousarray(words[..., None]).view(np.uint8)[..., :3].reshape(-1, 12)


def _reduce(
    tensor: TensorLoader, data: np.ndarray, target: np.ndarray, inside: np.ndarray, operation: str, switches: Switches
) -> None:
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
