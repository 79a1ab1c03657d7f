"""Spelling of the steps on the values of the accumulator (`convc.compiler.tile.steps.epilogue`)."""

from __future__ import annotations

import itertools
import math
import struct

from convc.compiler.emit.fragments.base import Names, RoleContext, fragment
from convc.compiler.emit.guards import PIECE_BYTES, lane_names, lane_pieces, row_names, row_pieces
from convc.compiler.emit.operands import acc_address, braces, quads, register_rows, values_per_word
from convc.compiler.tile.steps.epilogue import (
    AddBias,
    AddLaneBias,
    AddLaneResidual,
    AddRowResidual,
    ApplyClip,
    ApplyLeakyRelu,
    ApplyRelu,
    ApplySigmoid,
    ApplySilu,
    ChannelStep,
    Convert,
    FragmentLoad,
    GlobalStore,
    HoldNumbers,
    LaneAccess,
    PixelStore,
    Requantise,
    RequantiseLane,
    ScaleLane,
    ScaleSums,
    StageNumbers,
    TmemLoad,
    ValueStep,
)
from convc.compiler.tile.steps.staged import AddSlabResidual, LineStore, SlabAccess, StageRow, TileStore
from convc.ir import dtypes


@fragment.register
def _(step: TmemLoad, context: RoleContext) -> Names:
    return {
        "acc_address": acc_address(context.storage.tmem_tile(step.acc)),
        "first": step.first,
        "columns": step.columns,
        "values": register_rows(_values(step)),
    }


@fragment.register
def _(step: FragmentLoad, context: RoleContext) -> Names:
    """Four lanes trade pairs of columns: of every 8 columns lane q has two of both its rows, and gets 8 of one row.

    A transposition of 4 x 4 pairs: first lanes q and q ^ 1 trade, then q and q ^ 2. Slot s of a lane is what lane s
    of the four is to get: row i + 8 * (s // 2), and of the chunk's columns its half s % 2.
    """
    eights = step.columns // 8
    chunk = context.unrolled[step.chunk]
    if step.slab is not None:
        chunk += context.unrolled[step.slab] * step.slab_chunks
    first = chunk * 2 * eights
    lines: list[str] = []
    for eight in range(eights):
        own = [4 * (first + eights * (s % 2) + eight) + 2 * (s // 2) for s in range(4)]
        for e in range(2):
            slots = [f"%d{register + e}" for register in own]
            turned = [f"%turned{s}" for s in range(4)]
            values = [f"%v{8 * eight + 2 * s + e}" for s in range(4)]
            for low, high in ((0, 1), (2, 3)):
                lines += _trade(slots, turned, low, high, 1)
            for low, high in ((0, 2), (1, 3)):
                lines += _trade(turned, values, low, high, 2)
    return {"lines": lines}


def _trade(have: list[str], get: list[str], low: int, high: int, distance: int) -> list[str]:
    """Lines in which lanes some distance apart trade: the lower one gives its slot `high` for the other's `low`."""
    upper = {1: "%odd", 2: "%upper"}[distance]
    return [
        f"selp.b32 %give, {have[low]}, {have[high]}, {upper};",
        f"selp.b32 %keep, {have[high]}, {have[low]}, {upper};",
        f"shfl.sync.bfly.b32 %got, %give, {distance}, 31, 0xffffffff;",
        f"selp.b32 {get[low]}, %got, %keep, {upper};",
        f"selp.b32 {get[high]}, %keep, %got, {upper};",
    ]


@fragment.register
def _(step: StageNumbers, context: RoleContext) -> Names:
    """(byte in the buffer, byte in shared memory, lines that set the guard, guard) of each number of a thread."""
    tile = context.storage.smem_tile(step.tile)
    pieces: list[tuple[int, int, list[str], str]] = []
    for row, first in itertools.product(range(step.rows), range(0, step.columns, step.threads)):
        source = 4 * (row * step.pitch + first)
        target = tile.offset + row * tile.row_bytes + 4 * first
        left = step.columns - first
        test = f"setp.lt.u32 %in, %thread, {left};"
        pieces.append((source, target, [test], "@%in ") if left < step.threads else (source, target, [], ""))
    return {"buffer": step.buffer, "channel": step.channel, "threads": step.threads, "pieces": pieces}


@fragment.register
def _(step: HoldNumbers, context: RoleContext) -> Names:
    """(byte behind the tile's first number, registers) of every four numbers."""
    loads = [(4 * first, braces(_held(first, 4))) for first in range(0, step.columns, 4)]
    return {"buffer": step.buffer, "channel": step.channel, "loads": loads}


@fragment.register
def _(step: AddBias, context: RoleContext) -> Names:
    if step.held is None:
        return _numbers(step, context) | _addition(step.dtype)
    first = context.numbers[step.held]
    assert first.low == first.high, "registers have no number that a kernel works out"
    pairs = list(zip(_values(step), _held(first.low, step.columns), strict=True))
    none: Names = {"space": "", "bits": 32, "address": [], "numbers": 0}
    return none | _addition(step.dtype) | {"quads": [([], pairs)]}


@fragment.register
def _(step: AddLaneBias, context: RoleContext) -> Names:
    return {"buffer": step.buffer, "channel": step.channel, "values": _values(step), **_addition(step.dtype)}


@fragment.register
def _(step: ScaleSums, context: RoleContext) -> Names:
    return _numbers(step, context)


@fragment.register
def _(step: ScaleLane, context: RoleContext) -> Names:
    return {"buffer": step.buffer, "channel": step.channel, "values": _values(step), "offset": 4 * step.first}


@fragment.register
def _(step: Requantise, context: RoleContext) -> Names:
    return _numbers(step, context) | {"zero_point": step.zero_point}


@fragment.register
def _(step: RequantiseLane, context: RoleContext) -> Names:
    return {
        "buffer": step.buffer,
        "channel": step.channel,
        "zero_point": step.zero_point,
        "values": _values(step),
        "offset": 4 * step.first,
    }


@fragment.register
def _(step: ApplyRelu, context: RoleContext) -> Names:
    return {"values": _values(step)}


@fragment.register
def _(step: ApplyLeakyRelu, context: RoleContext) -> Names:
    return {"values": _values(step), "alpha": float_literal(step.alpha)}


@fragment.register
def _(step: ApplyClip, context: RoleContext) -> Names:
    return {
        "values": _values(step),
        "low_bound": step.low is not None,
        "high_bound": step.high is not None,
        "low": float_literal(step.low or 0.0),
        "high": float_literal(step.high or 0.0),
    }


@fragment.register(ApplySigmoid)
@fragment.register(ApplySilu)
def _(step: ApplySigmoid | ApplySilu, context: RoleContext) -> Names:
    return {"values": _values(step), "minus_log2_e": float_literal(-math.log2(math.e))}


@fragment.register
def _(step: Convert, context: RoleContext) -> Names:
    """The words, each with its instructions, high values first."""
    per_word = values_per_word(step.out)
    lines: list[str] = []
    for word, first in enumerate(range(0, step.columns, per_word)):
        to = f"%h{word}"
        if per_word == 2:
            lines.append(f"cvt.rn.{step.out}x2.f32 {to}, %v{first + 1}, %v{first};")
        else:
            lines.append(f"cvt.pack.sat.{step.out}.s32.b32 {to}, %v{first + 3}, %v{first + 2}, 0;")
            lines.append(f"cvt.pack.sat.{step.out}.s32.b32 {to}, %v{first + 1}, %v{first}, {to};")
    return {"lines": lines}


@fragment.register
def _(step: AddRowResidual, context: RoleContext) -> Names:
    """Sixteen bytes a piece, each with the registers that take them, and what is done with those.

    ``.nc`` is for what nobody writes while the kernel runs (PTX manual, "ld.global.nc").
    """
    per_piece = PIECE_BYTES // dtypes.BY_NAME[step.out].bytes
    words = [f"%res{i}" for i in range(4)]
    pieces = [
        (*piece, braces(words), _added(step.out, words, per_piece * index))
        for index, piece in enumerate(row_pieces(step))
    ]
    return row_names(step, context.numbers[step.row].bits) | {
        "guarded": step.row_limit is not None or step.channel_limit is not None,
        "packed": step.out != "f32",
        "words": words,
        "pieces": pieces,
        "constant": "" if context.program.dependent else ".nc",
    }


@fragment.register
def _(step: AddLaneResidual, context: RoleContext) -> Names:
    """One value a column."""
    names = lane_names(step, _row_bits(step, context))
    return names | {
        "type": step.out,
        "guarded": step.row_limit is not None or step.channel_limit is not None,
        "read": "%half" if names["packed"] else "%wide",
        "constant": "" if context.program.dependent else ".nc",
        "pieces": [(*piece, f"%v{index}") for index, piece in enumerate(lane_pieces(step, _row_bits(step, context)))],
    }


@fragment.register
def _(step: GlobalStore, context: RoleContext) -> Names:
    """Sixteen bytes a piece, each with the registers that hold them."""
    register = "v" if dtypes.BY_NAME[step.out].bits == 32 else "h"
    words = (braces(f"%{register}{4 * index + word}" for word in range(4)) for index in itertools.count())
    return row_names(step, context.numbers[step.row].bits) | {
        "pieces": [(*piece, held) for piece, held in zip(row_pieces(step), words, strict=False)]
    }


@fragment.register
def _(step: StageRow, context: RoleContext) -> Names:
    """The place of the row, and the registers that are written there."""
    element = dtypes.BY_NAME[step.out].bytes
    register = "v" if element == 4 else "h"
    return _slab_row(step, context, "to", [f"%{register}{word}" for word in range(_words(step))]) | {
        "halved": step.half is not None,
        "half": step.half or "",
        "half_bytes": step.columns * element,
    }


@fragment.register
def _(step: AddSlabResidual, context: RoleContext) -> Names:
    """The place of the row, the registers that take what is there, and what is done with those."""
    words = [f"%res{word}" for word in range(_words(step))]
    return _slab_row(step, context, "from", words) | {
        "packed": step.out != "f32",
        "words": len(words),
        "lines": _added(step.out, words, 0),
    }


def _words(step: SlabAccess) -> int:
    """32-bit words of a chunk of a lane's row."""
    return step.columns * dtypes.BY_NAME[step.out].bytes // 4


def _slab_row(step: SlabAccess, context: RoleContext, address: str, words: list[str]) -> Names:
    """Sixteen bytes a piece: the register of its address, its distance in an unswizzled row, those that hold it.

    The tile and its rows lie at multiples of their size, so that a distance can be added by XOR, before and after the
    swizzle (PTX manual, swizzling modes).
    """
    tile = context.storage.smem_tile(step.tile)
    element = dtypes.BY_NAME[step.out].bytes
    pieces = [
        (f"%{address}{piece}", piece * PIECE_BYTES, braces(words[4 * piece : 4 * piece + 4]))
        for piece in range(len(words) // 4)
    ]
    return {
        "row_bytes": tile.row_bytes,
        "stage_bytes": tile.stage_bytes,
        "offset": tile.offset,
        "slab": step.slab,
        "chunked": step.chunk is not None,
        "chunk": step.chunk or "",
        "chunk_bytes": step.chunk_columns * element,
        "lane": step.lane,
        "count": len(pieces),
        "line_shift": tile.row_bytes.bit_length() - 4,  # a line of 128 bytes counts in 16 bytes
        "line_mask": tile.row_bytes - PIECE_BYTES,
        "pieces": pieces,
    }


@fragment.register
def _(step: TileStore, context: RoleContext) -> Names:
    tile = context.storage.smem_tile(step.tile)
    return {
        "map": step.map,
        "coords": braces(f"%{name}" for name in step.coords),
        "slab": step.slab,
        "stage_bytes": tile.stage_bytes,
        "warp_bytes": step.rows * tile.row_bytes,
        "offset": tile.offset,
    }


@fragment.register
def _(step: LineStore, context: RoleContext) -> Names:
    tile = context.storage.smem_tile(step.tile)
    return {
        "map": step.map,
        "coords": braces([f"%{step.channel}", "%m0", "%m1", "%m2", "%m3"]),
        "pixel": step.pixel,
        "take": "cvt.u32.u64" if context.numbers[step.pixel].bits == 64 else "mov.b32",
        "lane": step.lane,
        "slab": step.slab,
        "stage_bytes": tile.stage_bytes,
        "row_bytes": tile.row_bytes,
        "offset": tile.offset,
    }


@fragment.register
def _(step: PixelStore, context: RoleContext) -> Names:
    """One value a column, converted where it is not stored as it is."""
    stored = dtypes.BY_NAME[step.out]
    conversion = f"cvt.sat.{step.out}.s32" if stored.integer else f"cvt.rn.{step.out}.f32"
    pieces = [
        (*piece, f"{conversion} %half, %v{index};", f"%v{index}" if stored.bits == 32 else "%half")
        for index, piece in enumerate(lane_pieces(step, _row_bits(step, context)))
    ]
    return lane_names(step, _row_bits(step, context)) | {"pieces": pieces}


def float_literal(value: float) -> str:
    """A float32 number as PTX writes it: ``0f`` and its bits."""
    return f"0f{struct.unpack('<I', struct.pack('<f', value))[0]:08X}"


def _values(step: ValueStep) -> list[str]:
    """The registers of the lane's values."""
    return [f"%v{i}" for i in range(step.columns)]


def _row_bits(step: LaneAccess, context: RoleContext) -> int:
    """Width of the numbers of the columns' output pixels."""
    return max(context.numbers[row].bits for row in step.rows)


def _numbers(step: ChannelStep, context: RoleContext) -> Names:
    """How a number a channel is read, four at a time: from global memory, or where they were staged.

    Shared memory answers so soon that all reads of a chunk go out before the first number is used.
    """
    if step.staged is None:
        address = [f"mul.wide.u32 %from, %{step.channel}, 4;", f"add.u64 %from, %from, %{step.buffer};"]
        return {
            "space": "global.nc",
            "bits": 64,
            "address": address,
            "numbers": 4,
            "quads": quads(step.columns, step.first),
        }
    n = step.columns
    column, row = step.staged
    tile = context.storage.numbers
    assert tile is not None, "numbers are staged in a tile of their own"
    offset = tile.offset + row * tile.row_bytes
    address = [f"mad.lo.u32 %from, %{column}, 4, %smem;"]
    return {"space": "shared", "bits": 32, "address": address, "numbers": n, "quads": quads(n, offset // 4, n)}


def _held(first: int, columns: int) -> list[str]:
    """The registers of the numbers that a thread holds, from a column of the tile on."""
    return [f"%held{first + i}" for i in range(columns)]


def _addition(dtype: str) -> dict[str, str]:
    """How numbers of the sums' type are declared and added."""
    return {"type": dtype, "add": "add.s32" if dtype == "s32" else "add.rn.f32"}


def _added(out: str, words: list[str], first: int) -> list[str]:
    """The lines that add four words of residual to the values from a column on."""
    if out == "f32":
        return [f"add.rn.f32 %v{first + i}, %v{first + i}, {word};" for i, word in enumerate(words)]
    lines: list[str] = []
    for i, word in enumerate(words):
        lines.append(f"mov.b32 {{%low, %high}}, {word};")
        for half, value in (("%low", f"%v{first + 2 * i}"), ("%high", f"%v{first + 2 * i + 1}")):
            lines += [f"cvt.f32.{out} %wide, {half};", f"add.rn.f32 {value}, {value}, %wide;"]
    return lines
