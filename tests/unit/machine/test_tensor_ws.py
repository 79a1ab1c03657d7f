"""tcgen05.mma.ws: layouts D, E and G, zeroed and shifted columns of B, the four collectors of B."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_kernels import BASE, TEXTS, k_major, mma_text, run_tensor

from convc.errors import MachineFault
from convc.ptx.descriptors import (
    InstructionDescriptor,
    SharedDescriptor,
    ZeroColumnMask,
    encode_instruction,
    encode_shared,
    encode_zero_mask,
)

pytestmark = pytest.mark.usefixtures("both_numerics")
RNG = np.random.default_rng(31)
D = 8


def integers(*shape: int) -> np.ndarray:
    return RNG.integers(-4, 5, shape).astype(np.float16)


def idesc(m: int, n: int = 64, shift: int = 0) -> int:
    return encode_instruction(
        InstructionDescriptor(kind="f16", d_type="f32", a_type="f16", b_type="f16", m=m, n=n, ws_max_shift=shift)
    )


def plain(rows: int, start: int = 0) -> int:
    return encode_shared(SharedDescriptor(start=BASE + start, lbo=16 * rows, sbo=128, swizzle="none"))


def ws(a: str, b: int, word: int, mask: ZeroColumnMask | None = None, **more) -> str:
    before, tail = "", ""
    if mask is not None:
        before, tail = f"mov.b64 %zm, {encode_zero_mask(mask)};\n", ", %zm"
    return before + mma_text(a, b, word, d=D, form=".ws", tail=tail, **more)


def laid_out(product: np.ndarray, m: int) -> np.ndarray:
    """M x N as tensor memory holds it: the columns in 128 / M slices, one below the other."""
    slices = np.split(product, 128 // m, axis=1)
    return np.concatenate(slices, axis=0)


def run_ws(m: int, n: int, mask: ZeroColumnMask | None = None, shift: int = 0, extra: int = 0, copies=None):
    """One .ws MMA; returns D, and A and B as float32. ``copies``: A per bank, in tensor memory."""
    a, b = integers(m, 16), integers(n + extra, 16)
    image = np.concatenate([k_major(b.view(np.uint8)), k_major(a.view(np.uint8))])
    cells = np.ones((128, 8), np.uint32)
    left = str(plain(m, b.nbytes))
    if copies is not None:
        cells, left = np.ascontiguousarray(copies).view(np.uint32), "[0]"
    body = ws(left, plain(n + extra), idesc(m, n, shift), mask)
    columns = n * m // 128
    got, result = run_tensor(body, image=image, cells=cells, shown=D + columns)
    assert result.findings == ()
    return np.ascontiguousarray(got[:, D:]).view(np.float32), a.astype(np.float32), b.astype(np.float32)


@pytest.mark.parametrize("n", [64, 128, 256])
@pytest.mark.parametrize("m", [32, 64, 128])
def test_d_lies_in_banks(m, n):
    got, a, b = run_ws(m, n)
    assert np.array_equal(got, laid_out(a @ b.T, m))


@pytest.mark.parametrize("read", ["own", "first"])
@pytest.mark.parametrize("m", [32, 64, 128])
def test_every_bank_reads_its_own_copy_of_a_in_tensor_memory(m, read, read_as):
    read_as(bank_copies=read)
    copies = integers(128, 16)
    got, _, b = run_ws(m, 128, copies=copies)
    own = copies.astype(np.float32).reshape(128 // m, m, 16)
    if read == "first":
        own = np.broadcast_to(own[:1], own.shape)
    parts = np.split(b, 128 // m)
    assert np.array_equal(got, np.concatenate([x @ y.T for x, y in zip(own, parts, strict=True)]))


def zeroed(mask: ZeroColumnMask, m: int, n: int, counted: str = "after") -> list[bool]:
    """Which columns are zero: walk each sub-mask column by column, from the first, or from that of the shift on."""
    out = []
    for bank in range(128 // m):
        zero = mask.zero_first[bank]
        run = mask.zeroed if zero else mask.used
        left = max(1, run - mask.starts[bank])
        for column in range(-(mask.shift if counted == "before" else 0), n * m // 128):
            if column >= 0:
                out.append(zero)
            left -= 1
            if left == 0:
                zero = not zero
                left = mask.zeroed if zero else mask.used
    return out


@pytest.mark.one_of(3)
@pytest.mark.parametrize("m", [32, 64, 128])
@pytest.mark.parametrize(
    "fields",
    [
        {"zeroed": 1, "used": 19, "zero_first": (True,) * 4},
        {"zeroed": 3, "used": 5, "starts": (0, 1, 4, 200), "zero_first": (False, True, False, False)},
        {"zeroed": 7, "used": 2, "starts": (6, 6, 250, 3), "zero_first": (True, False, True, True), "shift": 1},
        {"zeroed": 200, "used": 10, "shift": 8},
    ],
)
@pytest.mark.parametrize("counted", ["after", "before"])
def test_zeroed_and_shifted_columns(m, fields, counted, read_as):
    read_as(zero_mask=counted)
    n, mask = 128, ZeroColumnMask(generate=True, **fields)
    got, a, b = run_ws(m, n, mask, shift=8, extra=8)
    used = b[mask.shift : mask.shift + n].copy()
    used[zeroed(mask, m, n, counted)] = 0
    assert np.array_equal(got, laid_out(a @ used.T, m))


def test_a_mask_that_is_not_generated_only_shifts():
    mask = ZeroColumnMask(generate=False, zeroed=256, used=1, zero_first=(True,) * 4, shift=16)
    got, a, b = run_ws(32, 64, mask, shift=16, extra=16)
    assert np.array_equal(got, laid_out(a @ b[16:].T, 32))


def test_a_row_of_a_convolution_with_three_taps():
    """Weights as A, pixels of rows of 20 as columns of B: borders by zeroed columns, taps by shifts, B kept."""
    width, n, m = 20, 64, 128
    pixels, weights = integers(n + 8, 16), [integers(m, 16) for _ in range(3)]
    pixels[0] = 0
    image = np.concatenate([k_major(x.view(np.uint8)) for x in (pixels, *weights)])
    body = ""
    for s in range(3):
        # column j is pixel j - 1 + s of a walk that starts left of the first row; one column in 20 is border
        mask = ZeroColumnMask(generate=s != 1, zeroed=1, used=width - 1, shift=s, zero_first=(s == 0,) + (False,) * 3)
        start = pixels.nbytes + s * weights[0].nbytes
        use = ("fill", "use", "lastuse")[s]
        body += ws(str(plain(m, start)), plain(n + 8), idesc(m, n, 8), mask, add=s > 0, mods=f".collector::b1::{use}")
    got, result = run_tensor(body, image=image, cells=np.ones((128, 8), np.uint32), shown=D + n)
    want = np.zeros((m, n), np.float32)
    for j in range(n):
        row, q = divmod(j, width)
        for s in range(3):
            if 0 <= q + s - 1 < width:
                want[:, j] += weights[s].astype(np.float32) @ pixels[1 + row * width + q + s - 1].astype(np.float32)
    assert result.findings == ()
    assert np.array_equal(np.ascontiguousarray(got[:, D:]).view(np.float32), want)


def test_the_four_collectors_are_apart():
    a, b = integers(128, 16), integers(64, 16)
    image = np.concatenate([k_major(b.view(np.uint8)), k_major(a.view(np.uint8))])

    def rules(*uses: str) -> list[str]:
        body = "".join(
            ws(str(plain(128, b.nbytes)), plain(64), idesc(128), add=i > 0, mods=f".collector::{use}")
            for i, use in enumerate(uses)
        )
        return [f.message for f in run_tensor(body, image=image, shown=0)[1].findings]

    assert rules("b0::fill", "b1::fill", "b0::use", "b1::lastuse", "b0::lastuse") == []
    assert rules("b0::fill", "b2::use") == ["collector b2::use without a valid fill"]
    assert rules("b3::fill", "b3::lastuse", "b3::use") == ["collector b3::use without a valid fill"]


@pytest.mark.parametrize(
    ("word", "mask", "message"),
    [
        (idesc(64, 96), None, "M=64, N=96 is not a shape of tcgen05.mma.ws"),
        (idesc(16, 64), None, "M=16, N=64 is not a shape of tcgen05.mma.ws"),
        (idesc(64, 64, 8), ZeroColumnMask(shift=9), "a shift of 9 columns is more than 8"),
        (idesc(32, 64, 32), ZeroColumnMask(shift=17), "a shift of 17 columns is more than 16"),
        (idesc(64, 64), ZeroColumnMask(shift=1), "a shift of 1 columns is more than 0"),
    ],
)
def test_neighbours_are_refused(word, mask, message):
    with pytest.raises(MachineFault) as caught:
        run_tensor(ws(str(plain(128)), plain(128), word, mask), image=np.zeros(8192, np.uint8))
    assert message in str(caught.value)


def test_the_assembler_takes_every_text(ptxas_batch):
    ptxas_batch(TEXTS)
