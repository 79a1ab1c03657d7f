"""Tensor maps: how a tensor in global memory is described to the tensor memory accelerator (TMA).

On a GPU a tensor map is 128 opaque bytes made by the driver (``cuTensorMapEncodeTiled``,
``cuTensorMapEncodeIm2col``, ``cuTensorMapEncodeIm2colWide``). convc carries the *description* instead: the
launch file holds it in readable form, the simulator reads it, and a launcher for real hardware can encode it.

Dimension 0 is the innermost (contiguous) one, as in the driver's interface. `check` refuses what the driver's
encoders refuse, so that a map which convc accepts can be encoded for real hardware.
"""

from __future__ import annotations

import math
from typing import Literal, Protocol, get_args

import msgspec

from convc.errors import LaunchError
from convc.ir.element_types import ELEMENT_TYPES, TENSOR_MAP_TYPES

Mode = Literal["tile", "im2col", "im2col_w", "im2col_w128"]
Swizzle = Literal["none", "32B", "64B", "128B", "128B_atom32", "128B_atom32_flip8", "128B_atom64"]
Fill = Literal["zero", "nan"]

PADDED = {"b4x16_p64": 8, "b6x16_p32": 12}
"""Types that are spread out on their way: bytes of data in each 16 bytes of shared memory, which hold 16 elements."""

SWIZZLE_SPAN = {
    "none": 0, "32B": 32, "64B": 64, "128B": 128,
    "128B_atom32": 128, "128B_atom32_flip8": 128, "128B_atom64": 128,
}  # fmt: skip
"""Bytes that one row takes in shared memory under each swizzle; 0: rows are dense."""

CORNER_BITS = {3: 16, 4: 8, 5: 5}
"""Signed bits of an im2col bounding-box corner by rank; offsets of a copy have as many unsigned bits."""

MAX_COPY_BYTES = 228 << 10
"""The encoder refuses a box larger than an SM's shared memory (recorded: 233472 bytes pass, 237568 fail)."""


class TensorMap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tensor map. Interleaved layouts (16B, 32B) are not modelled, and there is no field to ask for one.

    Attributes:
        mode: which encoder made it.
        buffer: name of the buffer (see `LaunchSpec.buffers`) that the tensor lies in.
        offset: byte offset of the tensor inside that buffer (multiple of 16).
        dtype: element type, one of `convc.ir.element_types.TENSOR_MAP_TYPES`. Some pack 16 elements of less than a
            byte: b4x16 is packed in shared memory too; b4x16_p64 takes 8 bytes of data and 8 of padding there;
            b6x16_p32 takes 12 and 4 on loads, while stores take a byte for each element (PTX's b6p2x16). Extents count
            single elements in all of them.
        dims: extent of each dimension in elements, innermost first (rank 1 to 5; 3 to 5 for im2col).
        strides: byte stride of dimensions 1.. (rank - 1 entries, multiples of 16).
        box: tile mode: box extent per dimension, in elements of the tensor.
        element_strides: step per dimension (1 to 8); entry 0 has no effect (recorded), write 1.
        lower, upper: im2col modes: bounding-box corners per spatial dimension, W first; wide modes: W alone.
        channels: im2col modes: channels per pixel (elements).
        pixels: im2col modes: pixels per column.
        swizzle: layout of the 16-byte chunks in shared memory.
        fill: what out-of-bounds elements read as.
    """

    mode: Mode
    buffer: str
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    element_strides: tuple[int, ...]
    offset: int = 0
    box: tuple[int, ...] = ()
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0
    swizzle: Swizzle = "none"
    fill: Fill = "zero"

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dims)

    @property
    def element_bytes(self) -> int:
        """Bytes of one element; ValueError for types of less than a byte."""
        return ELEMENT_TYPES[self.dtype].bytes

    @property
    def shared_bits(self) -> int:
        """Bits that one element takes in shared memory, padding included."""
        return 8 if self.dtype in PADDED else ELEMENT_TYPES[self.dtype].bits

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of shared memory (the inner box, or the channels of one pixel), without a swizzle's gap."""
        return (self.box[0] if self.mode == "tile" else self.channels) * self.shared_bits // 8

    @property
    def row_pitch(self) -> int:
        """Bytes from one row of shared memory to the next: a swizzled row takes its whole span (recorded)."""
        return SWIZZLE_SPAN[self.swizzle] or self.row_bytes

    @property
    def rows(self) -> int:
        """Rows of one copy, without the halo rows of the wide modes."""
        match self.mode:
            case "tile":
                visits = zip(self.box[1:], self.element_strides[1:], strict=True)
                return math.prod(-(-box // step) for box, step in visits)
            case "im2col_w128":
                return 128
            case _:
                return self.pixels

    @property
    def tensor_bytes(self) -> int:
        """Bytes from the first to the last element of the tensor in global memory."""
        outer = zip(self.dims[1:], self.strides, strict=True)
        row = self.dims[0] * ELEMENT_TYPES[self.dtype].bits // 8
        return sum((extent - 1) * stride for extent, stride in outer) + row


class _Need(Protocol):
    """Raises where a condition does not hold: what must be what, and what it is instead."""

    def __call__(self, holds: bool, name: str, expected: str, got: object, hint: str = "") -> None: ...


def check(tmap: TensorMap, buffer_bytes: int, where: str = "") -> None:
    """Raise `LaunchError` where a host encoder would refuse the map, or where the tensor leaves its buffer.

    Args:
        tmap: the map to check.
        buffer_bytes: size of the buffer that the tensor lies in.
        where: what the error names as its place.

    Source: CUDA driver API, section Tensor Map Object Management (``cuTensorMapEncodeTiled``, ``...Im2col``,
    ``...Im2colWide``). The limits of the first two were also recorded on an H200 (see ``tests/recordings``).
    The driver does not know the size of a buffer; that the tensor lies inside it is our rule.
    """

    def need(holds: bool, name: str, expected: str, got: object, hint: str = "") -> None:
        if not holds:
            raise LaunchError(f"tensor map: {name} must be {expected}, got {got}", where=where, hint=hint)

    need(tmap.mode in get_args(Mode), "mode", f"one of {', '.join(get_args(Mode))}", repr(tmap.mode))
    types = f"one of {', '.join(TENSOR_MAP_TYPES)}"
    need(tmap.dtype in TENSOR_MAP_TYPES, "dtype (tensorDataType)", types, repr(tmap.dtype))
    need(tmap.swizzle in SWIZZLE_SPAN, "swizzle", f"one of {', '.join(SWIZZLE_SPAN)}", repr(tmap.swizzle))
    need(tmap.fill in get_args(Fill), "fill (oobFill)", "zero or nan", repr(tmap.fill))
    nan_ok = tmap.fill == "zero" or ELEMENT_TYPES[tmap.dtype].floating
    need(nan_ok, "fill (oobFill)", f"zero for {tmap.dtype}", "nan", "only float types have a NaN")
    _check_tensor(tmap, buffer_bytes, need)
    if tmap.mode == "tile":
        _check_tile(tmap, need)
    else:
        _check_im2col(tmap, need)
    _check_row(tmap, need)
    copied = tmap.rows * tmap.row_bytes
    limit = f"at most {MAX_COPY_BYTES} bytes (shared memory)"
    need(copied <= MAX_COPY_BYTES, "one copy", limit, f"{copied} bytes")


def _check_row(tmap: TensorMap, need: _Need) -> None:
    """A row of shared memory is whole 16 bytes, and not longer than its swizzle's span."""
    inner = tmap.row_bytes
    span = SWIZZLE_SPAN[tmap.swizzle]
    count = tmap.box[0] if tmap.mode == "tile" else tmap.channels
    whole = count * tmap.shared_bits % 128 == 0
    name = "box[0] (boxDim[0])" if tmap.mode == "tile" else "channels (channelsPerPixel)"
    need(whole, f"{name} times the element size", "a multiple of 16 bytes", f"{inner} bytes")
    need(
        not span or inner <= span,
        f"{name} times the element size",
        f"at most the {span}-byte span of swizzle {tmap.swizzle}",
        f"{inner} bytes",
        "take a narrower box, or a wider swizzle",
    )
    if ELEMENT_TYPES[tmap.dtype].bits < 8:
        _check_packed(tmap, name, need)


def _check_tensor(tmap: TensorMap, buffer_bytes: int, need: _Need) -> None:
    """The rules that all three encoders share."""
    low = 1 if tmap.mode == "tile" else 3
    ranks = f"{low} to 5 in mode {tmap.mode}"
    need(low <= tmap.rank <= 5, "the number of dims (tensorRank)", ranks, tmap.rank)
    aligned = tmap.offset >= 0 and tmap.offset % 16 == 0
    need(aligned, "offset (globalAddress)", "a multiple of 16", tmap.offset)
    for axis, extent in enumerate(tmap.dims):
        need(1 <= extent <= 1 << 32, f"dims[{axis}] (globalDim[{axis}])", "in 1..2^32", extent)
    count = tmap.rank - 1
    need(len(tmap.strides) == count, "strides (globalStrides)", f"rank - 1 = {count} numbers", tmap.strides)
    for axis, stride in enumerate(tmap.strides):
        good = 0 <= stride < 1 << 40 and stride % 16 == 0
        hint = "pad the innermost dimension in memory to 16 bytes" if stride % 16 else ""
        name = f"strides[{axis}] (globalStrides[{axis}])"
        need(good, name, "a multiple of 16 below 2^40, in bytes", stride, hint)
    steps = tmap.element_strides
    need(len(steps) == tmap.rank, "element_strides (elementStrides)", f"rank = {tmap.rank} numbers", steps)
    for axis, step in enumerate(steps):
        need(1 <= step <= 8, f"element_strides[{axis}] (elementStrides[{axis}])", "in 1..8", step)
    end = tmap.offset + tmap.tensor_bytes
    need(
        end <= buffer_bytes,
        "the tensor",
        f"inside buffer {tmap.buffer!r} of {buffer_bytes} bytes",
        f"dims and strides that end at byte {end}",
    )


def _check_packed(tmap: TensorMap, name: str, need: _Need) -> None:
    """Types of less than a byte (CUDA driver API, notes on the packed types of each parameter)."""
    extent = tmap.dims[0]
    if tmap.dtype not in PADDED:
        need(extent % 2 == 0, "dims[0] (globalDim[0])", f"a multiple of 2 for {tmap.dtype}", extent)
        return
    need(extent % 128 == 0, "dims[0] (globalDim[0])", f"a multiple of 128 for {tmap.dtype}", extent)
    need(tmap.offset % 32 == 0, "offset (globalAddress)", f"a multiple of 32 for {tmap.dtype}", tmap.offset)
    for axis, stride in enumerate(tmap.strides):
        what = f"strides[{axis}] (globalStrides[{axis}])"
        need(stride % 32 == 0, what, f"a multiple of 32 for {tmap.dtype}", stride)
    need(tmap.row_bytes == 128, name.split()[0], f"128 for {tmap.dtype}", tmap.row_bytes)
    wide = ("none", "128B", "128B_atom32")
    need(tmap.swizzle in wide, "swizzle", f"one of {', '.join(wide)} for {tmap.dtype}", tmap.swizzle)


def _check_tile(tmap: TensorMap, need: _Need) -> None:
    """The rules of ``cuTensorMapEncodeTiled`` alone."""
    for name in ("lower", "upper", "channels", "pixels"):
        value = getattr(tmap, name)
        need(not value, name, "left out in mode tile", value, "mode tile has a box instead")
    need(len(tmap.box) == tmap.rank, "box (boxDim)", f"rank = {tmap.rank} numbers", tmap.box)
    for axis, extent in enumerate(tmap.box):
        need(1 <= extent <= 256, f"box[{axis}] (boxDim[{axis}])", "in 1..256", extent)


def _check_im2col(tmap: TensorMap, need: _Need) -> None:
    """The rules of ``cuTensorMapEncodeIm2col`` and ``cuTensorMapEncodeIm2colWide`` alone."""
    instead = "this mode has channels and pixels instead"
    need(not tmap.box, "box (boxDim)", f"left out in mode {tmap.mode}", tmap.box, instead)
    need(1 <= tmap.channels <= 256, "channels (channelsPerPixel)", "in 1..256", tmap.channels)
    wide = tmap.mode != "im2col"
    if tmap.mode != "im2col_w128":
        need(1 <= tmap.pixels <= 1024, "pixels (pixelsPerColumn)", "in 1..1024", tmap.pixels)
    corners = 1 if wide else tmap.rank - 2
    bits = 16 if wide else CORNER_BITS[tmap.rank]
    least = -(1 << (bits - 1))
    most = (1 << (bits - 1)) - 1
    for name, corner in (("lower", tmap.lower), ("upper", tmap.upper)):
        cuda = f"pixelBox{name.capitalize()}Corner" + ("Width" if wide else "")
        need(len(corner) == corners, f"{name} ({cuda})", f"{corners} number(s) in mode {tmap.mode}", corner)
        for axis, value in enumerate(corner):
            within = f"in {least}..{most} for a map of rank {tmap.rank}"
            need(least <= value <= most, f"{name}[{axis}] ({cuda})", within, value)
    for axis, (extent, lower, upper) in enumerate(zip(tmap.dims[1:], tmap.lower, tmap.upper, strict=False)):
        size = extent + upper - lower
        hint = "it runs from lower to dims + upper"
        need(size >= 1, f"the bounding box along {'WHD'[axis]}", "at least one pixel wide", size, hint)
    if wide:
        need(
            tmap.swizzle in ("64B", "128B", "128B_atom32"),
            "swizzle",
            f"64B, 128B or 128B_atom32 in mode {tmap.mode}",
            tmap.swizzle,
        )
