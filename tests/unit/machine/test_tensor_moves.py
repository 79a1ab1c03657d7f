"""tcgen05.cp and tcgen05.shift: every copy shape, multicast, decompression, and the move by one lane."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_kernels import BASE, TEXTS, run_tensor

from convc.errors import MachineFault
from convc.ptx.descriptors import SharedDescriptor, encode_shared

RNG = np.random.default_rng(5)
IMAGE = RNG.integers(0, 256, 128 * 32 + 2048, np.uint8)
CELLS = np.arange(128 * 64, dtype=np.uint32).reshape(128, 64) + np.uint32(1 << 20)
SHAPES = [
    ("128x256b", "", lambda r: [r]),
    ("128x128b", "", lambda r: [r]),
    ("4x256b", "", lambda r: [(0, 32, 64, 96)[r]]),
    ("64x128b", ".warpx2::02_13", lambda r: [r, r + 64]),
    ("64x128b", ".warpx2::01_23", lambda r: [r, r + 32] if r < 32 else [r + 32, r + 64]),
    ("32x128b", ".warpx4", lambda r: [r, r + 32, r + 64, r + 96]),
]
"""Shape, multicast, and the lanes of a source row (PTX manual; read back on SM100 by others)."""


def source_row(r: int, width: int) -> np.ndarray:
    """Row r of an unswizzled K-major operand with SBO 256 and LBO 128: 8 rows of 16 bytes stand together."""
    at = [(r % 8) * 16 + (r // 8) * 256 + (x // 16) * 128 + x % 16 for x in range(width)]
    return IMAGE[at]


def unpacked(row: np.ndarray, fmt: str, high: bool = False) -> np.ndarray:
    """One element per byte, bit by bit from every 16-byte unit."""
    out = []
    for unit in row.reshape(-1, 16):
        bits = 4 if "b4x16" in fmt else 6
        number = int.from_bytes(unit.tobytes(), "little")
        codes = [number >> (bits * i) & ((1 << bits) - 1) for i in range(16)]
        out += [c << 2 if bits == 4 else c << int(high) for c in codes]
    return np.array(out, np.uint8)


def descriptor(swizzle: str = "none", start: int = 0) -> int:
    return encode_shared(SharedDescriptor(start=BASE + start, lbo=128, sbo=256, swizzle=swizzle))


def copy(shape: str, mods: str, column: int, lane: int = 0, desc: int | None = None) -> str:
    return (
        f"mov.b64 %a, {descriptor() if desc is None else desc}; add.u32 %x4, %c, {column | lane << 16};\n"
        f"tcgen05.cp.cta_group::1.{shape}{mods} [%x4], %a;"
    )


@pytest.mark.parametrize("fmt", ["", ".b8x16.b4x16_p64", ".b8x16.b6x16_p32"])
@pytest.mark.parametrize(("shape", "multicast", "lanes"), SHAPES)
def test_a_copy_puts_every_row_where_its_shape_says(shape, multicast, lanes, fmt):
    rows, width = (int(x) for x in shape.removesuffix("b").split("x"))
    got, result = run_tensor(copy(shape, multicast + fmt, 8), image=IMAGE, cells=CELLS)
    assert result.findings == ()
    want = CELLS.copy()
    for r in range(rows):
        row = source_row(r, width // 8)
        row = unpacked(row, fmt) if fmt else row
        for lane in lanes(r):
            want[lane, 8 : 8 + width // 32] = row.view(np.uint32)
    assert np.array_equal(got, want)


def test_a_copy_reads_through_the_swizzle():
    desc = encode_shared(SharedDescriptor(start=BASE + 32, lbo=16, sbo=1024, swizzle="128B"))
    image = RNG.integers(0, 256, 16384, np.uint8)
    got, _ = run_tensor(copy("128x256b", "", 0, desc=desc), image=image, cells=CELLS)
    for r in range(128):
        line = image[128 * r : 128 * r + 128].reshape(8, 16)
        row = np.concatenate([line[(2 + i) ^ (r % 8)] for i in range(2)])
        assert np.array_equal(got[r, :8], row.view(np.uint32))


def test_the_place_of_6_bit_elements_is_a_switch(read_as):
    read_as(six_bit="high")
    got, _ = run_tensor(copy("128x128b", ".b8x16.b6x16_p32", 0), image=IMAGE, cells=CELLS)
    want = np.stack([unpacked(source_row(r, 16), "b6x16", high=True) for r in range(128)])
    assert np.array_equal(got[:, :4], want.view(np.uint32))


@pytest.mark.parametrize(("read", "first"), [("address", 31), ("zero", 0)])
def test_a_copy_of_four_rows_from_lane_31_refreshes_the_last_lanes(read, first, read_as):
    read_as(refresh_lane=read)
    got, _ = run_tensor(copy("4x256b", "", 0, lane=31), image=IMAGE, cells=CELLS)
    want = CELLS.copy()
    want[first::32, :8] = np.stack([source_row(r, 32) for r in range(4)]).view(np.uint32)
    assert np.array_equal(got, want)


def shifted(cells: np.ndarray, column: int, parts=range(4)) -> np.ndarray:
    want = cells.copy()
    for part in parts:
        for lane in range(31):
            want[32 * part + lane, column : column + 8] = cells[32 * part + lane + 1, column : column + 8]
    return want


SHIFT = "add.u32 %x4, %c, {}; tcgen05.shift.cta_group::1.down [%x4];"


def test_a_shift_moves_eight_columns_inside_every_sub_partition():
    got, result = run_tensor(SHIFT.format(16), cells=CELLS)
    assert result.findings == ()
    assert np.array_equal(got, shifted(CELLS, 16))
    twice, _ = run_tensor(SHIFT.format(16) * 2, cells=CELLS)
    assert np.array_equal(twice, shifted(shifted(CELLS, 16), 16))


def test_how_far_a_shift_reaches_is_a_switch(read_as):
    text = SHIFT.format(16 + (64 << 16))
    got, result = run_tensor(text, cells=CELLS)
    assert [(f.rule, f.verdict.name) for f in result.findings] == [("shift-extent", "review")]
    assert np.array_equal(got, shifted(CELLS, 16))
    read_as(shift_extent="window")
    got, result = run_tensor(text, cells=CELLS)
    assert result.findings == ()
    assert np.array_equal(got, shifted(CELLS, 16, [2]))


def test_a_shift_moves_what_is_known_of_the_cells_too():
    """Of lanes 0 to 31 of columns 96 on, only lane 0 is written; after a shift none is."""
    every = (
        "setp.ne.u32 %p, %w, 0; @%p bra OVER; mov.b32 %x6, {};\n"
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%v0}}, [%x6]; OVER:"
    )
    body = copy("4x256b", "", 96) + SHIFT.format(96)
    _, result = run_tensor(body, image=IMAGE, cells=CELLS, every=every.format(96))
    assert [f.message for f in result.findings] == [
        "tcgen05.ld reads 32 cells of tensor memory that were never written"
    ]
    _, result = run_tensor(copy("4x256b", "", 96), image=IMAGE, cells=CELLS, every=every.format(96))
    assert [f.message for f in result.findings] == [
        "tcgen05.ld reads 31 cells of tensor memory that were never written"
    ]


def test_a_copy_of_bytes_that_nobody_wrote_is_reported():
    _, result = run_tensor(copy("128x256b", "", 0, desc=descriptor(start=2080)), image=IMAGE, cells=CELLS)
    assert [f.rule for f in result.findings] == ["shared-memory-unwritten"]
    assert "tcgen05.cp reads" in result.findings[0].message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (copy("128x256b", "", 0, lane=32), "tcgen05.cp of shape 128x256b from lane 32 on passes lane 127"),
        (copy("128x256b", "", 0, lane=1), "tcgen05.cp of shape 128x256b from lane 1 on passes lane 127"),
        (copy("128x256b", "", 2), "the column must be a multiple of 4"),
        (copy("128x256b", "", 508), "writes columns 508..515, which are not allocated"),
        (copy("128x256b", "", 0, desc=descriptor("128B_atom32")), "cannot have swizzle 128B_atom32"),
        (copy("128x256b", "", 0, desc=descriptor(start=1 << 16)), "reaches shared address"),
        (SHIFT.format(16 << 16), "tcgen05.shift at lane 16: the lane must be a multiple of 32"),
        (SHIFT.format(508), "tcgen05.shift of columns 508..515, which are not allocated"),
    ],
)
def test_copies_and_shifts_refuse(body, message):
    with pytest.raises(MachineFault) as caught:
        run_tensor(body, image=IMAGE, cells=CELLS)
    assert message in str(caught.value)
    assert caught.value.span is not None
    assert "tcgen05" in caught.value.span.text


def test_the_assembler_takes_every_text(ptxas_batch):
    ptxas_batch(TEXTS)
