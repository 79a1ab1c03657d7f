"""What observers are told of tensor operations: shared bytes read, cells read and written."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_kernels import BASE

from convc.machine.base.switches import Switches
from convc.machine.tensor_core.copy_shift import Copy, Shift
from convc.machine.tensor_core.footprints import footprint
from convc.machine.tensor_core.mma import Mma
from convc.machine.tensor_core.shapes import shape_of
from convc.ptx.descriptors import (
    BlockScaledDescriptor,
    InstructionDescriptor,
    SharedDescriptor,
    ZeroColumnMask,
    encode_block_scaled,
    encode_instruction,
    encode_shared,
    encode_zero_mask,
)

N = 64


def cells(places: np.ndarray) -> set[tuple[int, int]]:
    """(lane, column) of flat numbers."""
    return {divmod(int(p), 512) for p in places}


def block(lanes, columns) -> set[tuple[int, int]]:
    return {(lane, column) for lane in lanes for column in columns}


def mma(*, ws: bool = False, pair: bool = False, m: int = 128, n: int = N, in_tensor: bool = False, **more) -> Mma:
    fields = {"kind": "f16", "d_type": "f32", "a_type": "f16", "b_type": "f16", "ws_max_shift": 8 if ws else 0}
    word = encode_instruction(InstructionDescriptor(m=m, n=n, **fields))
    desc = encode_shared(SharedDescriptor(start=BASE, lbo=8192, sbo=128, swizzle="none"))
    other = encode_shared(SharedDescriptor(start=BASE + 4096, lbo=8192, sbo=128, swizzle="none"))
    return Mma(
        shape_of(word, "f16", pair, ws, in_tensor),
        100,
        40 if in_tensor else other,
        desc,
        rows=None,
        instr=None,
        a_in_tensor=in_tensor,
        **{"accumulate": False} | more,
    )


def two_chunks(start: int, rows: int) -> set[int]:
    return {start + 16 * r + 8192 * k + i for r in range(rows) for k in range(2) for i in range(16)}


@pytest.mark.parametrize("accumulate", [False, True])
def test_operands_in_shared_memory(accumulate):
    shared, _, reads, writes = footprint(mma(accumulate=accumulate), Switches())
    assert set(shared.tolist()) == two_chunks(BASE, N) | two_chunks(BASE + 4096, 128)
    assert cells(writes) == block(range(128), range(100, 100 + N))
    assert cells(reads) == (cells(writes) if accumulate else set())


def test_a_shifted_operand_in_tensor_memory_is_read_and_written():
    shared, _, reads, writes = footprint(mma(in_tensor=True, ashift=True), Switches())
    assert set(shared.tolist()) == two_chunks(BASE, N)
    assert cells(reads) == block(range(128), range(40, 48))
    assert cells(writes) == block(range(128), [*range(40, 48), *range(100, 100 + N)])


def test_weight_stationary_and_pair_shapes():
    mask = encode_zero_mask(ZeroColumnMask(shift=8))
    shared, _, _, writes = footprint(mma(ws=True, m=32, zero=mask), Switches())
    assert set(shared.tolist()) == two_chunks(BASE + 8 * 16, N) | two_chunks(BASE + 4096, 32)
    assert cells(writes) == block(range(128), range(100, 116))
    shared, _, _, writes = footprint(mma(pair=True), Switches())
    assert set(shared.tolist()) == two_chunks(BASE, N // 2) | two_chunks(BASE + 4096, 64)
    assert cells(writes) == block(range(128), range(100, 132))


def test_scale_factors_are_read():
    word = encode_block_scaled(
        BlockScaledDescriptor(kind="mxf4", a_type="e2m1", b_type="e2m1", scale_type="ue8m0", m=128, n=N)
    )
    one = mma()
    shape = shape_of(word, "mxf4", False, False, False)
    _, _, reads, _ = footprint(Mma(shape, 100, one.a, one.b, False, None, None, sfa=4 | 1 << 30, sfb=8), Switches())
    assert cells(reads) == block(range(128), [4, 5, 6, 7, 8, 9])


def test_copies_and_shifts():
    desc = encode_shared(SharedDescriptor(start=BASE, lbo=16, sbo=64, swizzle="none"))
    shared, _, reads, writes = footprint(Copy("32x128b", "warpx4", None, 12, desc, None, None), Switches())
    assert set(shared.tolist()) == {BASE + 64 * (r // 8) + 16 * (r % 8) + i for r in range(32) for i in range(16)}
    assert not reads.size
    assert cells(writes) == block(range(128), range(12, 16))
    _, _, reads, writes = footprint(Shift(24 | 32 << 16, None, None), Switches(shift_extent="window"))
    assert cells(reads) == block(range(33, 64), range(24, 32))
    assert cells(writes) == block(range(32, 63), range(24, 32))
    _, _, _, writes = footprint(Shift(24, None, None), Switches())
    assert len(writes) == 4 * 31 * 8
