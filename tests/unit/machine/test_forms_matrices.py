"""ldmatrix and stmatrix of bytes and packed elements, against maps from (lane, bit) to (address lane, bit)."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import execute, module
from support.recorded import assemble_all, recorded

from convc.errors import MachineFault, PtxSyntaxError


@pytest.fixture(scope="module", autouse=True)
def every_kernel_is_ptx():
    with recorded() as texts:
        yield
    assemble_all(texts)


def offsets(shape, stride) -> list[int]:
    """Values of a layout, the first mode fastest."""
    out = [0]
    for extent, step in zip(shape, stride, strict=True):
        out = [low + step * i for i in range(extent) for low in out]
    return out


REGISTERS = offsets((4, 8), (256, 8))
"""Bit number of lane l's first byte; its further bytes follow `BYTES`, its registers are 1024 bits apart."""
BYTES = offsets((2, 2), (128, 64))
LOAD_ROWS = offsets((2, 2, 4, 2), (128, 1024, 256, 2048))
"""Bit number of the 16 bytes whose address lane l gives to ldmatrix.m16n16 (16 lanes for x1)."""
STORE_ROWS = offsets((32,), (128,))
"""The same for stmatrix.m16n8 (8 lanes for x1, 16 for x2)."""


def places(rows: list[int], count: int) -> list[list[list[tuple[int, int]]]]:
    """[lane][register][byte] -> (lane that gives the address, byte in its row)."""
    return [
        [
            [(rows.index(bit // 128 * 128), bit % 128 // 8) for b in BYTES for bit in [base + b + 1024 * i]]
            for i in range(count)
        ]
        for base in REGISTERS
    ]


FILL = """.reg .b32 %id, %at, %row, %v<4>; .reg .b64 %o, %g; mov.u32 %id, %tid.x; mul.wide.u32 %o, %id, 16;
add.u64 %g, %p_x, %o; add.u64 %o, %p_out, %o; shl.b32 %at, %id, 4; mov.u32 %row, tile; add.u32 %at, %at, %row;
mul.lo.u32 %row, %id, 5; and.b32 %row, %row, 31; shl.b32 %row, %row, 4; mov.u32 %v0, tile; add.u32 %row, %row, %v0;
ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%g];
"""
"""Thread t reads 16 bytes of x and has the address of row t (%at) and of row 5 t mod 32 (%row)."""
TILE = ".shared .align 128 .b8 tile[512];\n"


def run_matrix(body: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns x and what 32 threads store, as bytes (32, 16)."""
    x = np.random.default_rng(len(body)).integers(0, 1 << 32, 128, dtype=np.uint32)
    text = module(FILL + body, pointers=("x", "out"), shared=TILE)
    result = execute(text, {"x": x, "out": np.zeros(128, np.uint32)}, pointers=("x", "out"))
    assert result.findings == ()
    return x.view(np.uint8).reshape(32, 16), result.buffers["out"].view(np.uint8).reshape(32, 16)


def listed(count: int) -> str:
    return "{" + ", ".join(f"%v{i}" for i in range(count)) + "}"


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("generic", [False, True])
def test_ldmatrix_of_bytes(number, generic):
    """The address lanes name rows in a scrambled order."""
    where = "%row" if not generic else "%g"
    got = run_matrix(
        f"""st.shared.v4.u32 [%at], {listed(4)}; bar.warp.sync -1; cvt.u64.u32 %g, %row; cvta.shared.u64 %g, %g;
        mov.u32 %v2, 0; mov.u32 %v3, 0;
        ldmatrix.sync.aligned.m16n16.x{number}.trans{"" if generic else ".shared"}.b8 {listed(2 * number)}, [{where}];
        st.global.v4.u32 [%o], {listed(4)};"""
    )
    want = np.zeros((32, 16), np.uint8)
    for lane, registers in enumerate(places(LOAD_ROWS, 2 * number)):
        for i, register in enumerate(registers):
            want[lane, 4 * i : 4 * i + 4] = [got[0][5 * source % 32, byte] for source, byte in register]
    assert np.array_equal(got[1], want)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_stmatrix_of_bytes(number):
    """Rows whose address no lane gives keep their zeros."""
    x, got = run_matrix(
        f"""{{ .reg .b32 %zero; mov.u32 %zero, 0; st.shared.v4.u32 [%at], {{%zero, %zero, %zero, %zero}}; }}
        bar.warp.sync -1; stmatrix.sync.aligned.m16n8.x{number}.trans.shared.b8 [%row], {listed(number)};
        bar.warp.sync -1; ld.shared.v4.u32 {listed(4)}, [%at]; st.global.v4.u32 [%o], {listed(4)};"""
    )
    want = np.zeros((32, 16), np.uint8)
    for lane, registers in enumerate(places(STORE_ROWS, number)):
        for i, register in enumerate(registers):
            for k, (target, byte) in enumerate(register):
                want[5 * target % 32, byte] = x[lane, 4 * i + k]
    assert np.array_equal(got, want)


PACKED = {"b4x16_p64": 4, "b6x16_p32": 6}
WORDS = offsets((32,), (32,))
"""Bit number of lane l's word after ldmatrix.m8n16; its registers are 1024 bits apart."""


def spread(row: np.ndarray, bits: int) -> list[int]:
    """16 elements from the lowest bit of a row on."""
    number = int.from_bytes(row.tobytes(), "little")
    return [number >> (bits * i) & ((1 << bits) - 1) for i in range(16)]


@pytest.mark.parametrize("source", PACKED)
@pytest.mark.parametrize(("shape", "number"), [("m8n16", 1), ("m8n16", 2), ("m8n16", 4), ("m16n16", 1), ("m16n16", 2)])
def test_ldmatrix_of_packed_rows(source, shape, number):
    """Every element has a byte of its own, with zeros above; the padding is not read."""
    wide = shape == "m16n16"
    registers = 2 * number if wide else number
    x, got = run_matrix(
        f"""st.shared.v2.u32 [%at], {{%v0, %v1}}; {"st.shared.u32 [%at+8], %v2;" if PACKED[source] == 6 else ""}
        bar.warp.sync -1; mov.u32 %v1, 0; mov.u32 %v2, 0; mov.u32 %v3, 0;
        ldmatrix.sync.aligned.{shape}.x{number}{".trans" if wide else ""}.shared.b8x16.{source}
        {listed(registers)}, [%row]; st.global.v4.u32 [%o], {listed(4)};"""
    )
    rows = [spread(x[5 * lane % 32], PACKED[source]) for lane in range(32)]
    table = (
        places(LOAD_ROWS, registers)
        if wide
        else [
            [[divmod(word // 8 + 128 * i + byte, 16) for byte in range(4)] for i in range(registers)] for word in WORDS
        ]
    )
    want = np.zeros((32, 16), np.uint8)
    for lane, each in enumerate(table):
        for i, register in enumerate(each):
            want[lane, 4 * i : 4 * i + 4] = [rows[source_lane][byte] for source_lane, byte in register]
    assert np.array_equal(got, want)


def test_matrices_of_bytes_are_transposed_and_aligned():
    with pytest.raises(PtxSyntaxError, match="trans"):
        run_matrix("ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%v0, %v1}, [%row];")
    with pytest.raises(MachineFault, match="not aligned to 16 bytes"):
        run_matrix("stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%row+8], {%v0};")
