"""Kinds f8f6f4 and i8, all element types and packings, MN-major operands, and the table of shapes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tensor_kernels import BASE, TEXTS, k_major, mma_text, run_tensor

from convc.errors import MachineFault, UnmodelledError
from convc.machine.tensor_core.shapes import shape_of
from convc.ptx.descriptors import InstructionDescriptor, SharedDescriptor, encode_instruction, encode_shared

pytestmark = pytest.mark.usefixtures("both_numerics")
RNG = np.random.default_rng(23)
N, K = 32, 32
FLOATS = {"e4m3": (4, 3, 7), "e5m2": (5, 2, 15), "e2m3": (2, 3, 1), "e3m2": (3, 2, 3), "e2m1": (2, 1, 1)}
"""Exponent bits, mantissa bits, bias."""


def value(code: int, name: str) -> float:
    """A finite number of a small format, from its definition."""
    exponent, mantissa, bias = FLOATS[name]
    sign = -1.0 if code >> (exponent + mantissa) else 1.0
    power, fraction = code >> mantissa & ((1 << exponent) - 1), code & ((1 << mantissa) - 1)
    if power == 0:
        return sign * fraction * 2.0 ** (1 - bias - mantissa)
    return sign * (1 + fraction / (1 << mantissa)) * 2.0 ** (power - bias)


def bits_of(name: str) -> int:
    return 1 + sum(FLOATS[name][:2])


def finite_codes(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Codes of numbers whose products add exactly: exponents in the middle of the format's range."""
    codes = RNG.integers(0, 1 << bits_of(name), shape)
    exponent, mantissa, bias = FLOATS[name]
    if exponent > 3:
        power = RNG.integers(bias - 2, bias + 3, shape)
        codes = codes & ~(((1 << exponent) - 1) << mantissa) | power << mantissa
    return codes


def values(codes: np.ndarray, name: str) -> np.ndarray:
    return np.vectorize(lambda c: value(int(c), name))(codes)


def padded(codes: np.ndarray, name: str) -> np.ndarray:
    """uint8 (rows, bytes) as shared memory holds it: 16 elements to every 16 bytes, whatever their width."""
    rows, out = codes.shape[0], []
    for unit in codes.reshape(-1, 16):
        number = sum(int(c) << (bits_of(name) * i) for i, c in enumerate(unit))
        data = bytearray(number.to_bytes(16, "little"))
        for i in range(2 * bits_of(name), 16):
            data[i] = 0xEE  # padding must not matter
        out.append(np.frombuffer(bytes(data), np.uint8))
    return np.concatenate(out).reshape(rows, -1)


def spread(codes: np.ndarray, name: str, high: bool = False) -> np.ndarray:
    """uint32 (rows, columns) as tensor memory holds it: one element per byte."""
    up = 2 if bits_of(name) == 4 else int(high)
    return np.ascontiguousarray((codes << up).astype(np.uint8)).view(np.uint32)


def idesc(kind: str, a: str, b: str, m: int = 128, n: int = N, d_type: str = "f32", **more) -> int:
    return encode_instruction(InstructionDescriptor(kind=kind, d_type=d_type, a_type=a, b_type=b, m=m, n=n, **more))


def plain(rows: int, start: int = 0) -> int:
    return encode_shared(SharedDescriptor(start=BASE + start, lbo=16 * rows, sbo=128, swizzle="none"))


def f32(cells: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(cells).view(np.float32)


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("a_type", "b_type", "in_tensor"),
    [
        pytest.param(a, b, in_tensor, marks=() if (i + j) % 2 == in_tensor else pytest.mark.slow)
        for (i, a), (j, b) in itertools.product(enumerate(FLOATS), enumerate(FLOATS))
        for in_tensor in (False, True)
    ],
)
def test_every_mix_of_small_formats(a_type, b_type, in_tensor):
    """A comes from tensor memory in every other one, and both ways in ``make slow``."""
    a, b = finite_codes(a_type, (128, K)), finite_codes(b_type, (N, K))
    image = np.concatenate([k_major(padded(b, b_type)), k_major(padded(a, a_type))])
    left = "[0]" if in_tensor else str(plain(128, N * K))
    got, result = run_tensor(
        mma_text(left, plain(N), idesc("f8f6f4", a_type, b_type), d=8, kind="f8f6f4"),
        image=image,
        cells=spread(a, a_type),
        shown=40,
    )
    assert result.findings == ()
    assert np.array_equal(f32(got[:, 8:40]), values(a, a_type) @ values(b, b_type).T)
    assert result.counters.multiply_adds == 128 * N * K


def test_six_bit_elements_of_tensor_memory_by_the_other_reading(read_as):
    read_as(six_bit="high")
    a, b = finite_codes("e3m2", (128, K)), finite_codes("e2m3", (N, K))
    got, _ = run_tensor(
        mma_text("[0]", plain(N), idesc("f8f6f4", "e3m2", "e2m3"), d=8, kind="f8f6f4"),
        image=k_major(padded(b, "e2m3")),
        cells=spread(a, "e3m2", high=True),
        shown=40,
    )
    assert np.array_equal(f32(got[:, 8:40]), values(a, "e3m2") @ values(b, "e2m3").T)


def test_special_values_of_the_8_bit_formats():
    a, b = np.zeros((128, K), np.int64), np.zeros((N, K), np.int64)
    b[:, 0] = 0x3C  # e5m2: 1.0
    a[0, 0], a[1, 0], a[2, 0], a[3, 0] = 0x7E, 0x7F, 0xFF, 0x01  # 448, NaN, NaN, the smallest subnormal
    image = np.concatenate([k_major(padded(b, "e5m2")), k_major(padded(a, "e4m3"))])
    text = mma_text(str(plain(128, N * K)), plain(N), idesc("f8f6f4", "e4m3", "e5m2"), kind="f8f6f4")
    got = f32(run_tensor(text, image=image, shown=32)[0])
    assert (got[0] == 448).all()
    assert np.isnan(got[1:3]).all()
    assert (got[3] == 2.0**-9).all()
    b[:, 0] = 0x7C  # e5m2: infinity
    a[0, 0], a[1, 0], a[2, 0] = 0x38, 0xB8, 0  # 1, -1, 0
    image = np.concatenate([k_major(padded(b, "e5m2")), k_major(padded(a, "e4m3"))])
    got = f32(run_tensor(text, image=image, shown=32)[0])
    assert np.isposinf(got[0]).all()
    assert np.isneginf(got[1]).all()
    assert np.isnan(got[2]).all()


def test_d_of_type_f16_from_8_bit_operands():
    a, b = finite_codes("e2m1", (128, K)), finite_codes("e2m1", (N, K))
    cells = np.full((128, 64), 0xABCD4000, np.uint32)  # 2.0 in the low half
    cells[:, :8] = spread(a, "e2m1")
    text = mma_text("[0]", plain(N), idesc("f8f6f4", "e2m1", "e2m1", d_type="f16"), d=8, kind="f8f6f4", add=True)
    got, _ = run_tensor(text, image=k_major(padded(b, "e2m1")), cells=cells)
    want = (values(a, "e2m1") @ values(b, "e2m1").T + 2).astype(np.float16)
    assert np.array_equal(got[:, 8:40], want.view(np.uint16).astype(np.uint32))


@pytest.mark.parametrize("in_tensor", [False, True])
@pytest.mark.parametrize(("a_type", "b_type"), list(itertools.product(("u8", "s8"), repeat=2)))
def test_integers_add_exactly_over_many_instructions(a_type, b_type, in_tensor):
    steps = 10
    types = {"u8": np.uint8, "s8": np.int8}
    a = RNG.integers(0, 256, (128, K), np.uint8).view(types[a_type])
    b = RNG.integers(0, 256, (N, K), np.uint8).view(types[b_type])
    image = np.concatenate([k_major(b.view(np.uint8)), k_major(a.view(np.uint8))])
    left = "[0]" if in_tensor else str(plain(128, b.nbytes))
    word = idesc("i8", a_type, b_type, d_type="s32")
    cells = np.full((128, 64), 0x7FFFF000, np.uint32)
    cells[:, :8] = np.ascontiguousarray(a).view(np.uint32)
    body = mma_text(left, plain(N), word, d=8, kind="i8", add=True) * steps
    got, result = run_tensor(body, image=image, cells=cells)
    assert result.findings == ()
    want = steps * (a.astype(np.int64) @ b.astype(np.int64).T) + 0x7FFFF000
    assert np.array_equal(got[:, 8:40], (want & 0xFFFFFFFF).astype(np.uint32))
    assert (want > 0x7FFFFFFF).any() or (want < 0x7FFFF000).any()


def test_integers_stay_exact_past_24_bits():
    steps, a, b = 20, np.full((128, K), 255, np.uint8), np.full((N, K), 255, np.uint8)
    a[:, 0] = np.arange(128)
    image = np.concatenate([k_major(b), k_major(a)])
    word = idesc("i8", "u8", "u8", d_type="s32")
    text = mma_text(str(plain(128, b.nbytes)), plain(N), word, kind="i8")
    again = mma_text(str(plain(128, b.nbytes)), plain(N), word, kind="i8", add=True)
    got, _ = run_tensor(text + again * (steps - 1), image=image, shown=N)
    assert np.array_equal(got, steps * (a.astype(np.int64) @ b.astype(np.int64).T))


def test_integers_clamp_where_the_descriptor_saturates():
    a, b = np.full((128, K), 255, np.uint8), np.full((N, K), -128, np.int8)
    a[64:] = 1
    image = np.concatenate([k_major(b.view(np.uint8)), k_major(a)])
    word = idesc("i8", "u8", "s8", d_type="s32", saturate=True)
    cells = np.full((128, 64), 0x80000010, np.uint32)
    cells[:, :8] = a.view(np.uint32)
    got, _ = run_tensor(
        mma_text(str(plain(128, b.nbytes)), plain(N), word, d=8, kind="i8", add=True) * 2, image=image, cells=cells
    )
    assert (got[:, 8:40].view(np.int32) == -(1 << 31)).all()


def mn_major(matrix: np.ndarray, swizzle: str) -> tuple[np.ndarray, SharedDescriptor]:
    """Bytes of an MN-major operand (rows, k), and its descriptor; blocks along M or N follow each other."""
    rows, depth = matrix.shape
    size = matrix.dtype.itemsize
    width = {"none": 16, "32B": 32, "64B": 64, "128B": 128, "128B_atom32": 128}[swizzle] // size
    group = 4 if swizzle == "128B_atom32" else 8
    out = np.zeros(-(-rows // width) * width * depth * size, np.uint8)
    for i in range(rows):
        for k in range(depth):
            at = (i // width) * width * depth * size + k * width * size + (i % width) * size
            if swizzle == "128B_atom32":
                at ^= (at >> 7 & 3) << 5
            elif swizzle != "none":
                at ^= (at >> 7 & (width * size // 16 - 1)) << 4
            out[at : at + size] = matrix[i, k : k + 1].view(np.uint8)
    along_mn, along_k = width * depth * size, group * width * size
    if swizzle == "none":
        return out, SharedDescriptor(start=BASE, lbo=along_k, sbo=along_mn, swizzle=swizzle)
    return out, SharedDescriptor(start=BASE, lbo=along_mn, sbo=along_k, swizzle=swizzle)


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("kind", ["i8", "f8f6f4", "f16"])
def test_mn_major_operands_of_8_and_16_bits(kind, swizzle):
    depth = 16 if kind == "f16" else 32
    dtype = {"i8": np.int8, "f8f6f4": np.uint8, "f16": np.float16}[kind]
    a, b = (RNG.integers(-4, 5, (rows, depth)).astype(dtype) for rows in (128, N))
    if kind == "f8f6f4":
        a, b = (finite_codes("e4m3", (rows, depth)).astype(np.uint8) for rows in (128, N))
    bytes_b, desc_b = mn_major(b, swizzle)
    bytes_a, desc_a = mn_major(a, swizzle)
    gap = -len(bytes_b) % 1024
    image = np.concatenate([bytes_b, np.zeros(gap, np.uint8), bytes_a])
    start = len(bytes_b) + gap
    element = {"i8": "s8", "f8f6f4": "e4m3", "f16": "f16"}[kind]
    word = idesc(kind, element, element, d_type="s32" if kind == "i8" else "f32", transpose_a=True, transpose_b=True)
    left = encode_shared(desc_a) + (start >> 4)
    got, result = run_tensor(mma_text(str(left), encode_shared(desc_b), word, kind=kind), image=image, shown=32)
    real_a, real_b = (values(x, "e4m3") if kind == "f8f6f4" else x.astype(np.float64) for x in (a, b))
    assert result.findings == ()
    assert np.array_equal(got.view(np.int32) if kind == "i8" else f32(got), real_a @ real_b.T)


def test_mn_major_tf32_needs_atoms_of_32_bytes_and_drops_13_bits():
    a, b = (RNG.integers(-4, 5, (rows, 8)).astype(np.float32) for rows in (128, N))
    noisy = (a.view(np.uint32) | RNG.integers(0, 1 << 13, a.shape, np.uint32)).view(np.float32)
    bytes_b, desc_b = mn_major(b, "128B_atom32")
    bytes_a, desc_a = mn_major(noisy, "128B_atom32")
    image = np.concatenate([bytes_b, bytes_a])
    word = idesc("tf32", "tf32", "tf32", transpose_a=True, transpose_b=True)
    left = encode_shared(desc_a) + (len(bytes_b) >> 4)
    got, _ = run_tensor(mma_text(str(left), encode_shared(desc_b), word, kind="tf32"), image=image, shown=32)
    assert np.array_equal(f32(got), a @ b.T)
    wrong = encode_shared(SharedDescriptor(start=BASE, lbo=1024, sbo=1024, swizzle="128B"))
    with pytest.raises(MachineFault, match="MN-major elements of 32 bits cannot have swizzle 128B"):
        run_tensor(mma_text(str(wrong), encode_shared(desc_b), word, kind="tf32"), image=image, shown=32)


LEGAL = {
    ("f16", False): ({64, 128}, set(range(8, 257, 8))),
    ("f16", True): ({128, 256}, set(range(16, 257, 16))),
    ("tf32", False): ({64, 128}, set(range(8, 257, 8))),
    ("f8f6f4", True): ({128, 256}, set(range(16, 257, 16))),
    ("i8", False): ({64, 128}, {8, 16, 24, *range(32, 257, 16)}),
    ("i8", True): ({128, 256}, set(range(32, 257, 32))),
}


@pytest.mark.parametrize(("kind", "pair"), LEGAL)
def test_the_table_of_shapes(kind, pair):
    element = {"f16": "f16", "tf32": "tf32", "f8f6f4": "e4m3", "i8": "s8"}[kind]
    for m, n in itertools.product(range(16, 257, 16), range(8, 257, 8)):
        word = idesc(kind, element, element, m, n, "s32" if kind == "i8" else "f32")
        allowed_m, allowed_n = LEGAL[kind, pair]
        if m in allowed_m and n in allowed_n:
            shape = shape_of(word, kind, pair, False, False)
            assert (shape.m, shape.n) == (m, n)
            assert shape.columns * shape.banks == n
        else:
            with pytest.raises(MachineFault, match=f"M={m}, N={n} is not a shape"):
                shape_of(word, kind, pair, False, False)


def test_transposed_8_bit_b_needs_a_wider_step_of_n():
    word = idesc("f8f6f4", "e4m3", "e4m3", n=24, transpose_b=True)
    with pytest.raises(MachineFault, match="M=128, N=24 is not a shape of cta_group::1"):
        shape_of(word, "f8f6f4", False, False, False)
    shape_of(idesc("f8f6f4", "e4m3", "e4m3", n=24), "f8f6f4", False, False, False)
    wide = idesc("f8f6f4", "e4m3", "e4m3", m=256, n=48, transpose_b=True)
    with pytest.raises(MachineFault, match="N=48"):
        shape_of(wide, "f8f6f4", True, False, False)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("tcgen05.mma.sp.cta_group::1.kind::f16 [%x4], %a, %b, [%x5], %id, %no;", "tcgen05.mma.sp"),
        ("tcgen05.mma.ws.sp.cta_group::1.kind::f16 [%x4], %a, %b, [%x5], %id, %no;", "tcgen05.mma.ws.sp"),
        ("tcgen05.mma.sp.cta_group::1.kind::mxf4.block_scale.scale_vec::2X "
         "[%x4], %a, %b, [%x5], %id, [%x6], [%x7], %no;",
         "tcgen05.mma.sp.block_scale"),
    ],
)  # fmt: skip
def test_sparse_operands_are_refused_by_name(line, name):
    with pytest.raises(UnmodelledError, match=f"no {name}: sparse A .* are not modelled"):
        run_tensor(line)


def test_the_assembler_takes_every_text(ptxas_batch):
    ptxas_batch(TEXTS)
