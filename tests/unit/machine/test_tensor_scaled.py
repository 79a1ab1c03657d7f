"""Block-scaled kinds: mxf8f6f4, mxf4 and mxf4nvf4, with their scale factors in tensor memory."""

from __future__ import annotations

import numpy as np
import pytest
import tensor_kernels
from tensor_kernels import BASE, TEXTS, k_major, mma_text, run_tensor

from convc.errors import MachineFault
from convc.machine import RunOptions
from convc.machine.base.switches import Switches
from convc.ptx.descriptors import BlockScaledDescriptor, SharedDescriptor, encode_block_scaled, encode_shared

RNG = np.random.default_rng(53)
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
SFA, SFB, D = 0, 16, 32
"""Columns of tensor memory."""


def e4m3(code: int) -> float:
    power, fraction = code >> 3 & 15, code & 7
    size = fraction * 2.0**-9 if power == 0 else (8 + fraction) * 2.0 ** (power - 10)
    return -size if code >> 7 else size


def factor(code: int, kind: str) -> float:
    return 2.0 ** (code - 127) if kind == "ue8m0" else abs(e4m3(code & 0x7F))


def word(kind: str, scale: str, m: int, n: int, a: str = "e2m1", b: str = "e2m1", ida: int = 0, idb: int = 0) -> int:
    return encode_block_scaled(
        BlockScaledDescriptor(kind=kind, a_type=a, b_type=b, scale_type=scale, m=m, n=n, sfa_id=ida, sfb_id=idb)
    )


def plain(rows: int, start: int = 0) -> int:
    return encode_shared(SharedDescriptor(start=BASE + start, lbo=16 * rows, sbo=128, swizzle="none"))


def place(cells: np.ndarray, column: int, codes: np.ndarray, first: int, lanes: range = range(0, 128, 32)) -> None:
    """Write scale-factor bytes (rows, factors) into uint32 (128, width) cells, a copy in each 32 lanes."""
    data = cells.view(np.uint8).reshape(128, -1, 4)
    for row, line in enumerate(codes):
        for start in lanes:
            data[start + row % 32, column + row // 32, first : first + len(line)] = line


def scales(kind: str, rows: int, count: int) -> np.ndarray:
    if kind == "ue8m0":
        return RNG.integers(125, 130, (rows, count)).astype(np.uint8)
    return (RNG.integers(5, 9, (rows, count)) << 3 | RNG.integers(0, 2, (rows, count)) << 2).astype(np.uint8)


def scaled(values: np.ndarray, codes: np.ndarray, kind: str) -> np.ndarray:
    """Every element times the factor of its block along K."""
    factors = np.vectorize(lambda c: factor(int(c), kind))(codes)
    return values * np.repeat(factors, values.shape[1] // codes.shape[1], axis=1)


def packed(codes: np.ndarray) -> np.ndarray:
    return (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8)


FOUR_BIT = [
    ("mxf4", ".scale_vec::2X", "ue8m0", 2), ("mxf4", ".block32", "ue8m0", 2), ("mxf4", "", "ue8m0", 2),
    ("mxf4nvf4", ".scale_vec::2X", "ue8m0", 2), ("mxf4nvf4", ".scale_vec::4X", "ue4m3", 4),
    ("mxf4nvf4", ".block16", "ue8m0", 4), ("mxf4nvf4", ".block32", "ue8m0", 2),
]  # fmt: skip


def f32(cells: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(cells).view(np.float32)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("numerics", ["float32", "exact"])
@pytest.mark.parametrize("in_tensor", [False, True])
@pytest.mark.parametrize(("kind", "size", "scale", "count"), FOUR_BIT)
def test_packed_4_bit_kinds(kind, size, scale, count, in_tensor, numerics, monkeypatch):
    monkeypatch.setattr(tensor_kernels, "OPTIONS", RunOptions(switches=Switches(numerics=numerics)))
    n = 48
    a, b = (RNG.integers(0, 16, (rows, 64)) for rows in (128, n))
    sa, sb = scales(scale, 128, count), scales(scale, n, count)
    cells = np.zeros((128, D + 64), np.uint32)
    ids = (0, 2) if count == 2 else (0, 0)
    place(cells, SFA, sa, ids[0])
    place(cells, SFB, sb, ids[1])
    cells[:, 24:32] = packed(a).view(np.uint32)
    cells[:, D : D + n] = np.float32(1).view(np.uint32)
    image = np.concatenate([k_major(packed(b)), k_major(packed(a))])
    left = "[24]" if in_tensor else str(plain(128, n * 32))
    text = mma_text(
        left,
        plain(n),
        word(kind, scale, 128, n, ida=ids[0], idb=ids[1]),
        d=D,
        kind=kind,
        add=True,
        mods=f".block_scale{size}",
        scales=", [%x6], [%x7]",
    )
    got, result = run_tensor(
        f"add.u32 %x6, %c, {SFA}; add.u32 %x7, %c, {SFB};\n{text}", image=image, cells=cells, shown=D + n
    )
    want = scaled(E2M1[a], sa, scale) @ scaled(E2M1[b], sb, scale).T + 1
    assert result.findings == ()
    assert np.array_equal(f32(got[:, D:]), want)
    assert result.counters.multiply_adds == 128 * n * 64


def codes8(shape: tuple[int, int]) -> np.ndarray:
    """e4m3 codes of moderate size."""
    codes = RNG.integers(6, 9, shape) << 3 | RNG.integers(0, 8, shape) | RNG.integers(0, 2, shape) << 7
    return codes.astype(np.uint8)


@pytest.mark.parametrize("numerics", ["float32", "exact"])
@pytest.mark.parametrize("n", [8, 200])
def test_mxf8f6f4_takes_one_factor_at_any_byte(n, numerics, monkeypatch):
    monkeypatch.setattr(tensor_kernels, "OPTIONS", RunOptions(switches=Switches(numerics=numerics)))
    a, b = codes8((128, 128)), codes8((n, 128))
    sa, sb = scales("ue8m0", 128, 4), scales("ue8m0", n, 4)
    cells = np.zeros((128, D), np.uint32)
    place(cells, SFA, sa, 0)
    place(cells, SFB, sb, 0)
    image = np.concatenate([k_major(b), k_major(a)])
    body = f"add.u32 %x6, %c, {SFA}; add.u32 %x7, %c, {SFB};\n"
    for step in range(4):
        body += mma_text(
            str(plain(128, n * 128 + 32 * 128 * step)),
            plain(n, 32 * n * step),
            word("mxf8f6f4", "ue8m0", 128, n, "e4m3", "e4m3", step, step),
            d=D,
            kind="mxf8f6f4",
            add=step > 0,
            mods=".block_scale.scale_vec::1X",
            scales=", [%x6], [%x7]",
        )
    got, result = run_tensor(body, image=image, cells=cells, shown=D + n)
    values = [np.vectorize(lambda c: e4m3(int(c)))(x) for x in (a, b)]
    want = scaled(values[0], sa, "ue8m0") @ scaled(values[1], sb, "ue8m0").T
    assert result.findings == ()
    assert np.array_equal(f32(got[:, D:]), want)


@pytest.mark.parametrize(("scale_id", "ids"), [("descriptor", (1, 3)), ("address", (2, 0))])
def test_factors_copied_from_shared_memory_for_all_sub_partitions(scale_id, ids, read_as):
    """512 bytes hold 4 factors for each of 128 rows: line i has those of rows i, i + 32, i + 64 and i + 96.

    Descriptor and addresses name other bytes; a switch says which of them count.
    """
    read_as(scale_id=scale_id)
    n = 32
    a, b = codes8((128, 32)), codes8((n, 32))
    sa, sb = scales("ue8m0", 128, 4), scales("ue8m0", 128, 4)
    blocks = [s.reshape(4, 32, 4).transpose(1, 0, 2).reshape(-1) for s in (sa, sb)]
    image = np.concatenate([k_major(b), k_major(a), *blocks])
    body, start = "", n * 32 + 128 * 32
    for number, column in enumerate((SFA, SFB)):
        desc = encode_shared(SharedDescriptor(start=BASE + start + 512 * number, lbo=16, sbo=128, swizzle="none"))
        body += f"mov.b64 %a, {desc}; add.u32 %x6, %c, {column}; tcgen05.cp.cta_group::1.32x128b.warpx4 [%x6], %a;\n"
    body += f"add.u32 %x6, %c, {SFA | 2 << 30}; add.u32 %x7, %c, {SFB};\n"
    body += mma_text(
        str(plain(128, n * 32)),
        plain(n),
        word("mxf8f6f4", "ue8m0", 128, n, "e4m3", "e4m3", 1, 3),
        d=D,
        kind="mxf8f6f4",
        mods=".block_scale",
        scales=", [%x6], [%x7]",
    )
    got, result = run_tensor(body, image=image, cells=np.zeros((128, D), np.uint32), shown=D + n)
    values = [np.vectorize(lambda c: e4m3(int(c)))(x) for x in (a, b)]
    left, right = (codes[:, at : at + 1] for codes, at in zip((sa, sb[:n]), ids, strict=True))
    want = scaled(values[0], left, "ue8m0") @ scaled(values[1], right, "ue8m0").T
    assert result.findings == ()
    assert np.array_equal(f32(got[:, D:]), want)


@pytest.mark.parametrize("m", [128, 256])
def test_a_pair_reads_factors_in_both_ctas(m):
    n = 64
    a, b = (RNG.integers(0, 16, (rows, 64)) for rows in (m, n))
    sa, sb = scales("ue8m0", m, 2), scales("ue8m0", n, 2)
    cells = np.zeros((2, 128, D), np.uint32)
    for cta in range(2):
        place(cells[cta], SFA, np.split(sa, 2)[cta], 0)
        if m == 256:
            place(cells[cta], SFB, sb, 0)
        else:  # the halves of B stand in the halves of the lanes
            for half in range(2):
                place(cells[cta], SFB, np.split(sb, 2)[half], 0, range(64 * half, 64 * half + 64, 32))
    image = np.stack(
        [
            np.concatenate([k_major(packed(y)), k_major(packed(x))])
            for x, y in zip(np.split(a, 2), np.split(b, 2), strict=True)
        ]
    )
    body = f"add.u32 %x6, %c, {SFA}; add.u32 %x7, %c, {SFB};\n" + mma_text(
        str(plain(m // 2, n * 16)),
        plain(n // 2),
        word("mxf4", "ue8m0", m, n),
        d=D,
        kind="mxf4",
        group=2,
        mods=".block_scale",
        scales=", [%x6], [%x7]",
    )
    columns = n if m == 256 else n // 2
    got, result = run_tensor(body, image=image, cells=cells, shown=D + columns, group=2)
    want = scaled(E2M1[a], sa, "ue8m0") @ scaled(E2M1[b], sb, "ue8m0").T
    assert result.findings == ()
    out = f32(got[:, :, D:])
    if m == 256:
        assert np.array_equal(out, want.reshape(2, 128, n))
    else:
        for cta in range(2):
            for half in range(2):
                part = want[64 * cta : 64 * cta + 64, 32 * half : 32 * half + 32]
                assert np.array_equal(out[cta, 64 * half : 64 * half + 64], part)


def one(kind: str = "mxf4", size: str = "", idesc: int | None = None, sfa: int = SFA, sfb: int = SFB) -> str:
    idesc = word("mxf4", "ue8m0", 128, 32) if idesc is None else idesc
    return f"add.u32 %x6, %c, {sfa}; add.u32 %x7, %c, {sfb};\n" + mma_text(
        str(plain(128, 1024)), plain(32), idesc, d=D, kind=kind, mods=f".block_scale{size}", scales=", [%x6], [%x7]"
    )


def test_copies_of_factors_that_differ_are_reported():
    cells = np.full((128, D), 0x7F7F7F7F, np.uint32)
    cells[70, SFA + 1] = 0
    _, result = run_tensor(one(), image=np.zeros(8192, np.uint8), cells=cells, shown=0)
    assert [f.rule for f in result.findings] == ["scale-factors-not-replicated"]
    assert "scale factors of A" in result.findings[0].message
    cells = np.full((128, SFB), 0x7F7F7F7F, np.uint32)
    _, result = run_tensor(one(), image=np.zeros(8192, np.uint8), cells=cells, shown=0)
    assert [f.rule for f in result.findings] == ["tensor-memory-unwritten"]
    assert result.findings[0].message == "scale factors of B: 128 cells were never written"


def test_a_scale_factor_that_is_no_number():
    cells = np.full((128, D), 0x7F7F7F7F, np.uint32)
    cells[5::32, SFA] = 0xFFFFFFFF
    got, _ = run_tensor(one(), image=np.zeros(8192, np.uint8), cells=cells, shown=D + 32)
    out = f32(got[:, D:])
    assert np.isnan(out[5]).all()
    assert np.isfinite(np.delete(out, 5, axis=0)).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (one(idesc=word("mxf4", "ue8m0", 128, 32, ida=1)), "scale id 1 of A does not go with 2 factor(s)"),
        (one("mxf4nvf4", ".scale_vec::4X", word("mxf4nvf4", "ue4m3", 128, 32, idb=2)), "scale id 2 of B"),
        (one("mxf4nvf4", ".scale_vec::2X", word("mxf4nvf4", "ue4m3", 128, 32)), "ue4m3 need scale_vec::4X"),
        (one(idesc=word("mxf4", "ue8m0", 256, 32)), "M=256, N=32 is not a shape of cta_group::1"),
        (one(sfa=5 << 16), "scale factors of A at tensor-memory lane 5"),
        (one(sfb=512), "scale factors of B: columns 512..512 are not allocated"),
    ],
)
def test_neighbours_are_refused(text, message):
    with pytest.raises(MachineFault) as caught:
        run_tensor(text, image=np.zeros(8192, np.uint8), cells=np.full((128, D), 0x7F7F7F7F, np.uint32), shown=0)
    assert message in str(caught.value)


def test_the_assembler_takes_every_text(ptxas_batch):
    ptxas_batch(TEXTS)
