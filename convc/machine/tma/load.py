"""The tensor memory accelerator: tensor copies from global to shared memory, for many CTAs at once.

(The other direction is in `tma_store`.)

One `TensorLoader` serves one tensor map. A copy is a gather of 16-byte chunks, ``shared[place] =
source[index]``, and almost all of the index can be kept from one copy to the next:

* The *walk* (which rows of the tensor) depends on the start coordinates along the outer dimensions alone,
  and these stay the same through the whole K loop of a convolution.
* A filter offset and a channel step move every chunk by one constant, so the same index is applied to the
  source from another first chunk on.
* Which chunks are out of bounds depends on the walk and the offset; they are overwritten after the gather.

CTAs with equal coordinates are gathered once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from convc.errors import MachineFault
from convc.ir.tensormap import PADDED, TensorMap, check
from convc.machine.base.swizzle import XOR
from convc.machine.tma.cache import Coordinate, LoadResult, Walk, signed, walks_of
from convc.machine.tma.layout import BoxLayout, layout
from convc.machine.tma.source import CHUNK, FILL, padded_chunks, source_chunks
from convc.machine.tma.walk import ROWS4, CopyRows, copy_rows

SCANNED = 1 << 16
"""Words looked at together: they stay inside a level-2 cache."""


class CopyPlan(NamedTuple):
    """All that copies to one address have in common, from one channel and with one filter offset on.

    Attributes:
        form: their rows. place: where these lie. lead: as of `TensorLoader.lead`.
        shift: chunks from the base of a row in a walk to the first that is copied.
        inside: bytes of a row that are inside dimension 0.
    """

    form: CopyRows
    place: BoxLayout
    lead: int
    shift: int
    inside: int


checked = lru_cache(maxsize=64)(check)
"""`check`, for maps that come back: the layers of a network are launched one after the other."""


class TensorLoader:
    """Copies boxes of one tensor into shared memory; knows what copies in both directions need.

    Args:
        tmap: the tensor map; checked, `LaunchError` where it is wrong.
        memory: uint8 (bytes,): the buffer that the map names. It is read at each `load`; where the loader
            had to make its own copy of it (see `source_chunks`), that is renewed by `invalidate`.

    Attributes:
        grain: bits of which a start in dimension 0 is a multiple.
        widened: the whole source and its fill as bytes of float32 elements, by the type of these: for those who read
            most of them more than once.
        gathered: bytes of the source that `convc.machine.lazy` has read; both are forgotten by `invalidate`.
    """

    def __init__(self, tmap: TensorMap, memory: np.ndarray) -> None:
        checked(tmap, memory.size)
        self.tmap = tmap
        self.memory = memory
        self.walks = walks_of(tmap)
        self._bits = tmap.shared_bits
        self.grain = 128 * 8 if tmap.dtype in PADDED else 16 * 8
        self._source: np.ndarray | None = None
        self._any_word: dict[tuple[np.dtype, int], bool] = {}
        self.widened: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.gathered = 0
        self._forms: dict[tuple[object, ...], CopyRows] = {}
        self._layouts: dict[tuple[int, int], BoxLayout] = {}
        self.plans: dict[
            tuple[object, ...], CopyPlan | None
        ] = {}  # of copies that are deferred (`convc.machine.lazy.regions`)
        self._scratch = np.empty(0, CHUNK)
        self._shifted = np.empty(0, np.int64)
        self._fill = FILL[tmap.fill]

    def invalidate(self) -> None:
        """Forget what was derived from the contents of global memory."""
        self._source = None
        self._any_word.clear()
        self.widened.clear()
        self.gathered = 0

    def any_word(self, kind: np.dtype, bits: int) -> bool:
        """Whether any word of the tensor, read as this unsigned type, has all of some bits set."""
        known = self._any_word.get((kind, bits))
        if known is None:
            words = self.source.view(kind)
            blocks = (words[low : low + SCANNED] & kind.type(bits) for low in range(0, words.size, SCANNED))
            known = self._any_word[kind, bits] = any(int(block.max()) == bits for block in blocks)
        return known

    def load(
        self,
        smem: np.ndarray,
        address: int,
        coords: tuple[Coordinate, ...],
        offsets: tuple[int, ...] = (),
        rows: np.ndarray | None = None,
        mode: str | None = None,
    ) -> LoadResult:
        """One copy per CTA, all with the same destination address and offsets.

        Args:
            smem: uint8 (ctas, bytes), C-contiguous, row length a multiple of 16: the shared memory of the
                CTAs.
            address: destination in the shared window of each CTA.
            coords: start coordinates, innermost first, as signed 32-bit numbers: each one number for all
                CTAs, or an array with one per CTA that takes part. Mode rows4: that of dimension 0 and four lines.
            offsets: im2col: filter offsets, W first; wide modes: (wHalo, wOffset); tile: none.
            rows: numbers of the CTAs that take part; None for all.
            mode: mode that the instruction names: rows4 or, to be compared with the map's, one of its modes;
                None to leave that out.

        Returns:
            Byte counts and written ranges. `MachineFault` where the hardware faults.
        """
        shape = self.shape(offsets, mode)
        channel = self.channel(address, coords, mode)
        if channel is None:
            return self._load_by_channel(smem, address, coords, offsets, rows, mode)
        place = self.place(shape.steps.size, address, smem.shape[1])
        walk = self.walks.find(coords[1:], shape.steps, smem.shape[0] if rows is None else len(rows))
        return self.put(smem, address, walk, shape, place, self.lead(channel), rows)

    def put(
        self,
        smem: np.ndarray,
        address: int,
        walk: Walk,
        shape: CopyRows,
        place: BoxLayout,
        lead: int,
        rows: np.ndarray | None = None,
    ) -> LoadResult:
        """Perform a copy that is checked: gather, fill, and store from ``address`` on; ``lead`` as of `lead`."""
        data = self._gather(walk, shape, place, lead)
        result = self._fill_outside(data, walk, shape, place, lead)
        if place.flipped is not None:
            halves = data.view(np.uint64).reshape(*data.shape, 2)
            halves[:, place.flipped] = halves[:, place.flipped, ::-1]
        if walk.members is not None:
            data = data[walk.members]
        _store(smem.view(CHUNK), rows, address >> 4, place, data)
        return result

    def lead(self, channel: int) -> int:
        """The start in dimension 0 of a copy from a channel on, in bytes of shared memory."""
        return channel * self._bits >> 3

    @property
    def fill(self) -> np.ndarray:
        """The chunk (1,) that stands for elements outside the tensor."""
        return self._fill

    @property
    def source(self) -> np.ndarray:
        """Chunks of the tensor, from its first byte on, as they arrive in shared memory."""
        if self._source is None:
            self._source = source_chunks(self.tmap, self.memory)
        return self._source

    def shape(self, offsets: tuple[int, ...], mode: str | None) -> CopyRows:
        """The rows of a copy; faults where the instruction and the map do not go together."""
        found = self._forms.get((offsets, mode))
        if found is None:
            found = self._forms[offsets, mode] = copy_rows(self.tmap, offsets, mode)
        return found

    def channel(self, address: int, coords: tuple[Coordinate, ...], mode: str | None) -> int | None:
        """Fault on operands that the hardware refuses; the first channel, or None where the CTAs' differ."""
        tmap = self.tmap
        if len(coords) != (5 if mode == ROWS4 else tmap.rank):
            raise MachineFault(f"a map of rank {tmap.rank} takes {tmap.rank} coordinates, got {len(coords)}")
        if address % 128:
            raise MachineFault(
                f"a tensor copy needs a shared address that is a multiple of 128, got {address:#x}",
                hint="the hardware stops with a misaligned address (CUDA error 716)",
            )
        channel = _uniform(coords[0])
        if channel is not None and channel * self._bits % self.grain:
            unit = "128 elements" if tmap.dtype in PADDED else "16 bytes"
            raise MachineFault(
                f"coordinate 0 of a tensor copy must be a multiple of {unit}, got element {channel} "
                f"of {_size(self._bits)} each",
                hint="the hardware stops with an illegal instruction (CUDA error 715)",
            )
        return channel

    def place(self, rows: int, address: int, limit: int) -> BoxLayout:
        """Where ``rows`` rows lie from ``address`` on; faults where they leave the ``limit`` bytes of a CTA."""
        phase = (address >> 7) & XOR[self.tmap.swizzle][0]
        found = self._layouts.get((rows, phase))
        if found is None:
            found = self._layouts[rows, phase] = layout(self.tmap, rows, phase)
        end = address + found.extent
        if address < 0 or end > limit:
            raise MachineFault(
                f"a tensor copy at shared address {address:#x} ends at {end:#x}, but the CTA has {limit:#x} bytes",
                hint="a row takes the full span of the swizzle, even where the box is narrower",
            )
        return found

    def window(self, lead: int) -> tuple[int, int]:
        """Which bytes of a row of shared memory are inside dimension 0, when it starts ``lead`` bytes in."""
        row = self.tmap.row_bytes
        return min(max(-lead, 0), row), min(max((self.tmap.dims[0] * self._bits >> 3) - lead, 0), row)

    def _load_by_channel(
        self,
        smem: np.ndarray,
        address: int,
        coords: tuple[Coordinate, ...],
        offsets: tuple[int, ...],
        rows: np.ndarray | None,
        mode: str | None,
    ) -> LoadResult:
        """CTAs that start at different channels: one load for each group with the same."""
        numbers = np.arange(len(smem)) if rows is None else np.asarray(rows)
        results: list[LoadResult] = []
        for channel in np.unique(coords[0]):
            chosen = coords[0] == channel
            rest = (c[chosen] if isinstance(c, np.ndarray) and c.size > 1 else c for c in coords[1:])
            results.append(self.load(smem, address, (int(channel), *rest), offsets, numbers[chosen], mode))
        return replace(results[-1], filled=sum(result.filled for result in results))

    def _gather(self, walk: Walk, shape: CopyRows, place: BoxLayout, lead: int) -> np.ndarray:
        """Chunks (copies, chunks) in the order of the layout; those out of bounds hold anything."""
        if place.phase not in walk.indices:
            least = int(walk.base.min())
            index = walk.base.take(place.row, axis=1)  # unlike base[:, row], in C order
            index += place.column - least
            walk.indices[place.phase] = least, index
            self.walks.keep(walk, index.nbytes)
        if self.tmap.dtype in PADDED:
            return padded_chunks(self.tmap, self.memory, walk.base, place, shape.taps, lead)
        source = self.source
        least, index = walk.indices[place.phase]
        shift = least + (lead >> 4)
        for tap, stride in zip(shape.taps, self.tmap.strides, strict=True):
            shift += tap * (stride >> 4)
        if shift < 0:
            if self._shifted.size < index.size:
                self._shifted = np.empty(index.size, np.int64)
            index = np.add(index, shift, out=self._shifted[: index.size].reshape(index.shape))
        else:
            source = source[min(shift, source.size - 1) :]
        if self._scratch.size < index.size:
            self._scratch = np.empty(index.size, CHUNK)
        return source.take(index, out=self._scratch[: index.size].reshape(index.shape), mode="clip")

    def _fill_outside(self, data: np.ndarray, walk: Walk, shape: CopyRows, place: BoxLayout, lead: int) -> LoadResult:
        """Overwrite what lies outside the tensor: whole chunks, then the rest of a chunk cut by dimension 0.

        Returns what the copy does.
        """
        low, high = self.window(lead)
        key = (place.phase, shape.taps, low, high)
        if key not in walk.outside:
            bad = self.lines_outside(walk, shape)
            outside = self._outside(bad, place, low, high)
            filled = self.filled(bad, walk, high - low)
            walk.outside[key] = outside, LoadResult(bytes=place.bytes, filled=filled, written=place.written)
            self.walks.keep(walk, 0 if outside is None else outside.nbytes)
        outside, result = walk.outside[key]
        if outside is not None:
            data.reshape(-1)[outside] = self._fill
        if high % 16:
            chunks = np.flatnonzero(place.column == high >> 4)
            pieces = data.view(np.uint8).reshape(*data.shape, 16)
            pieces[:, chunks, high % 16 :] = self._fill.view(np.uint8)[high % 16 :]
        return result

    def lines_outside(self, walk: Walk, shape: CopyRows) -> np.ndarray:
        """bool (copies, rows): the rows that lie outside the tensor."""
        bad = np.zeros(walk.base.shape, bool)
        for at, tap, extent in zip(walk.at, shape.taps, self.tmap.dims[1:], strict=True):
            bad |= (at + np.int32(tap)).view(np.uint32) >= np.uint32(min(extent, 1 << 31))
        return bad

    def filled(self, bad: np.ndarray, walk: Walk, inside: int) -> int:
        """Bytes of fill that the CTAs get: whole rows where ``bad`` (copies, rows), else all but ``inside`` bytes."""
        lines = bad.sum(axis=1)
        row = self.tmap.row_bytes
        filled = lines * row + (bad.shape[1] - lines) * (row - inside)
        if walk.members is not None:
            filled = filled[walk.members]
        return int(filled.sum()) * (walk.ctas // len(filled))

    def _outside(self, bad: np.ndarray, place: BoxLayout, low: int, high: int) -> np.ndarray | None:
        """Flat numbers (in copies x chunks) of the chunks wholly outside; bytes low to high of a row are inside."""
        if not low and high == self.tmap.row_bytes:
            lines = np.flatnonzero(bad)
            per_row = self.tmap.row_bytes >> 4
            return (lines[:, None] * per_row + np.arange(per_row)).reshape(-1) if lines.size else None
        chunks = (place.column < low >> 4) | (place.column >= -(-high // 16))
        return np.flatnonzero(bad.take(place.row, axis=1) | chunks)


def _size(bits: int) -> str:
    return f"{bits // 8} byte(s)" if bits >= 8 else f"{bits} bits"


def _uniform(coordinate: Coordinate) -> int | None:
    """The number that all CTAs have, or None where they differ."""
    if isinstance(coordinate, np.ndarray):
        first = coordinate.flat[0]
        if (coordinate != first).any():
            return None
        coordinate = int(first)
    return signed(coordinate)


def _store(target: np.ndarray, rows: np.ndarray | None, first: int, place: BoxLayout, data: np.ndarray) -> None:
    """Write chunks ``data`` (ctas or 1, chunks) behind chunk ``first`` of the rows of ``target``."""
    if place.places is None:
        target[slice(None) if rows is None else np.asarray(rows), first : first + data.shape[1]] = data
    elif rows is None:
        target[:, first + place.places] = data
    else:
        target[np.asarray(rows)[:, None], first + place.places] = data
