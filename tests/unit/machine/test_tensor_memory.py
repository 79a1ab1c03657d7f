"""tcgen05.alloc, ld and st: every shape against a table written from the manual's figures, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_kernels import TEXTS, run_tensor

from convc.errors import DeadlockError, MachineFault

LANE, COLUMN = np.arange(128)[:, None], np.arange(64)[None, :]
CELLS = (LANE * 1000 + COLUMN).astype(np.uint32)
SHAPES = [("32x32b", 1, 8), ("16x64b", 1, 8), ("16x128b", 2, 4), ("16x256b", 4, 2), ("16x32bx2", 1, 8)]
"""Shape, registers per repetition, repetitions used here."""


def place(shape: str, t: int, r: int, split: int) -> tuple[int, int]:
    """Lane and column of register r of thread t, relative to the address (PTX manual, figures of the shapes)."""
    if shape == "32x32b":
        return t, r
    if shape == "16x32bx2":
        return (t, r) if t < 16 else (t - 16, r + split)
    row, quarter = divmod(t, 4)
    if shape == "16x64b":  # two threads share 64 bits of a row; odd threads hold rows 8 to 15
        return row + 8 * (quarter % 2), 2 * r + quarter // 2
    if shape == "16x128b":  # register pairs alternate between rows 0-7 and 8-15
        return row + 8 * (r % 2), 4 * (r // 2) + quarter
    block, inside = divmod(r, 4)
    return row + 8 * (inside // 2), 8 * block + 2 * quarter + inside % 2


def registers(count: int) -> str:
    return "{" + ", ".join(f"%v{i}" for i in range(count)) + "}"


def address(shape: str, lane: int = 0) -> str:
    return f"shl.b32 %x6, %w, 21; add.u32 %x6, %x6, %c; add.u32 %x7, %x6, 32; add.u32 %x6, %x6, {lane << 16};"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("lane", [0, 16])
@pytest.mark.parametrize(("shape", "each", "times"), SHAPES)
def test_ld_reads_the_cells_of_its_shape(shape, each, times, lane, packed):
    if shape == "32x32b" and lane:
        lane = 0
    count, split = each * times, 5
    imm, pack = (f", {split}" if shape == "16x32bx2" else ""), ".pack::16b" if packed else ""
    every = (
        f"{address(shape, lane)} tcgen05.ld.sync.aligned.{shape}.x{times}{pack}.b32 {registers(count)}, [%x6]{imm};\n"
        f"tcgen05.wait::ld.sync.aligned; tcgen05.st.sync.aligned.32x32b.x{count}.b32 [%x7], {registers(count)};\n"
        "tcgen05.wait::st.sync.aligned;"
    )
    got, result = run_tensor("", cells=CELLS, shown=64, every=every)
    assert result.findings == ()
    for warp in range(4):
        for t in range(32):
            for r in range(count):
                row, column = place(shape, t, r, 0)
                if packed:
                    column *= 2
                if shape == "16x32bx2":
                    column += split * (t // 16)
                low = int(CELLS[32 * warp + lane + row, column])
                want = low & 0xFFFF | (int(CELLS[32 * warp + lane + row, column + 1]) & 0xFFFF) << 16 if packed else low
                assert got[32 * warp + t, 32 + r] == want, (warp, t, r)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("shape", "each", "times"), SHAPES)
def test_st_writes_the_cells_of_its_shape(shape, each, times, packed):
    count, split = each * times, 16
    imm, pack = (f", {split}" if shape == "16x32bx2" else ""), ".unpack::16b" if packed else ""
    cells = CELLS | np.uint32(0xABC00000)
    every = (
        f"{address(shape)} tcgen05.ld.sync.aligned.32x32b.x{count}.b32 {registers(count)}, [%x6];\n"
        "tcgen05.wait::ld.sync.aligned;"
        f"tcgen05.st.sync.aligned.{shape}.x{times}{pack}.b32 [%x7]{imm}, {registers(count)};\n"
        "tcgen05.wait::st.sync.aligned;"
    )
    got, _ = run_tensor("", cells=cells, shown=64, every=every)
    want = cells.copy()
    for warp in range(4):
        for t in range(32):
            for r in range(count):
                row, column = place(shape, t, r, 0)
                value, at = int(cells[32 * warp + t, r]), 32 + column * (2 if packed else 1)
                if shape == "16x32bx2":
                    at += split * (t // 16)
                line = want[32 * warp + row]
                if packed:
                    line[at] = (line[at] & 0xFFFF0000) | value & 0xFFFF
                    line[at + 1] = (line[at + 1] & 0xFFFF0000) | value >> 16
                else:
                    line[at] = value
    assert np.array_equal(got, want)


def test_the_upper_half_of_an_unpacked_cell_is_a_switch(read_as):
    read_as(unpack_upper="zero")
    every = (
        f"{address('32x32b')} tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%v0}}, [%x6]; tcgen05.wait::ld.sync.aligned;\n"
        "tcgen05.st.sync.aligned.32x32b.x1.unpack::16b.b32 [%x7], {%v0}; tcgen05.wait::st.sync.aligned;"
    )
    cells = CELLS | np.uint32(0xABC00000)
    got, _ = run_tensor("", cells=cells, shown=64, every=every)
    assert np.array_equal(got[:, 32], cells[:, 0] & 0xFFFF)
    assert np.array_equal(got[:, 33], cells[:, 0] >> 16)


@pytest.mark.parametrize("relative", [True, False])
def test_the_lane_field_is_absolute_or_counted_from_the_warps_first_lane(relative):
    every = address("16x64b")
    every += "mov.b32 %x6, 1048576; add.u32 %x6, %x6, %c;" if relative else "add.u32 %x6, %x6, 1048576;"
    every += (
        "tcgen05.ld.sync.aligned.16x64b.x1.b32 {%v0}, [%x6]; tcgen05.wait::ld.sync.aligned;"
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [%x7], {%v0}; tcgen05.wait::st.sync.aligned;"
    )
    got, _ = run_tensor("", cells=CELLS, shown=64, every=every)
    assert [got[32 * w, 32] for w in range(4)] == [CELLS[32 * w + 16, 0] for w in range(4)]


@pytest.mark.parametrize(
    ("every", "message"),
    [
        ("mov.b32 %x6, 2097152; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%x6];",
         "tcgen05.ld.32x32b at tensor-memory lane 32: warp 2 can access lanes 64..95 only"),
        ("mov.b32 %x6, 524288; tcgen05.ld.sync.aligned.16x64b.x1.b32 {%v0}, [%x6];", "starts at a multiple of 16"),
        ("mov.b32 %x6, 510; tcgen05.ld.sync.aligned.32x32b.x4.b32 {%v0, %v1, %v2, %v3}, [%x6];",
         "reads columns 510..513, which are not allocated"),
        ("mov.b32 %x6, 511; tcgen05.st.sync.aligned.32x32b.x1.unpack::16b.b32 [%x6], {%v0};",
         "writes columns 511..512, which are not allocated"),
        ("mov.b32 %x6, %t; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%x6];", "the same operands in all lanes"),
        ("setp.eq.u32 %p, %t, 5; @%p tcgen05.wait::st.sync.aligned; mov.b32 %x6, 0; @%p "
         "tcgen05.st.sync.aligned.32x32b.x1.b32 [%x6], {%v0};", "must be executed by all 32 lanes"),
        ("setp.ne.u32 %p, %w, 0; @%p bra OVER; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot], 32;"
         "OVER:", "tcgen05.alloc after tcgen05.relinquish_alloc_permit"),
    ],
)  # fmt: skip
def test_ld_st_and_alloc_refuse(every, message):
    with pytest.raises(MachineFault) as caught:
        run_tensor("", every=every, cells=CELLS)
    assert message in str(caught.value)
    assert caught.value.span is not None


def test_reading_cells_that_nobody_wrote_is_reported():
    every = "mov.b32 %x6, 200; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%x6];"
    _, result = run_tensor("", every=every, cells=CELLS)
    assert [f.rule for f in result.findings] == ["tensor-memory-unwritten"]
    assert "cells of tensor memory that were never written" in result.findings[0].message


AGAIN = """setp.eq.u32 %p, %w, 1; setp.eq.u32 %add, %w, 0;
{first}
@!%p bra OVER; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot], 512;
OVER: bar.sync 0; ld.shared.b32 %c, [%slot];"""
"""Warp 1 asks for 512 columns, which warp 0 holds."""

FREE = "@%add tcgen05.dealloc.cta_group::1.sync.aligned.b32 %c, 512;"


def test_an_allocation_blocks_until_columns_are_free():
    _, result = run_tensor("", every=AGAIN.format(first=FREE), shown=0, more=True)
    assert result.findings == ()
    with pytest.raises(DeadlockError) as caught:
        run_tensor("", every=AGAIN.format(first=""), shown=0, more=True)
    assert "512 free columns of tensor memory" in str(caught.value)


def test_allocations_of_a_cta_must_not_grow():
    ask = "@%add tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot], "
    with pytest.raises(MachineFault) as caught:
        run_tensor("", every=AGAIN.format(first=f"{FREE} {ask}32; {ask}64;"), shown=0, more=True)
    assert "tcgen05.alloc of 64 columns after one of 32" in str(caught.value)


def test_the_assembler_takes_every_text(ptxas_batch):
    ptxas_batch(TEXTS)
