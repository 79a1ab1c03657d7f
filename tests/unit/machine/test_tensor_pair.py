"""cta_group::2: two CTAs of a cluster multiply together; layouts A and B, masks, copies, shifts, allocation."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_kernels import BASE, TEXTS, k_major, mma_text, run_tensor

from convc.errors import MachineFault
from convc.ptx.descriptors import InstructionDescriptor, SharedDescriptor, encode_instruction, encode_shared

pytestmark = pytest.mark.usefixtures("both_numerics")
RNG = np.random.default_rng(41)


def integers(*shape: int) -> np.ndarray:
    return RNG.integers(-4, 5, shape).astype(np.float16)


def idesc(m: int, n: int, **more) -> int:
    fields = {"kind": "f16", "d_type": "f32", "a_type": "f16", "b_type": "f16"} | more
    return encode_instruction(InstructionDescriptor(m=m, n=n, **fields))


def plain(rows: int, start: int = 0) -> int:
    return encode_shared(SharedDescriptor(start=BASE + start, lbo=16 * rows, sbo=128, swizzle="none"))


def f32(cells: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(cells).view(np.float32)


def halves(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Shared memory of the two CTAs: each has its half of B, then its half of A."""
    parts = zip(np.split(a, 2), np.split(b, 2), strict=True)
    return np.stack([np.concatenate([k_major(y.view(np.uint8)), k_major(x.view(np.uint8))]) for x, y in parts])


def laid_out(product: np.ndarray) -> np.ndarray:
    """(2, 128, columns): D as the two CTAs hold it."""
    m, n = product.shape
    if m == 256:
        return product.reshape(2, 128, n)
    out = np.zeros((2, 128, n // 2), product.dtype)
    for row in range(128):
        for column in range(n):
            lane = row % 64 + 64 * (column // (n // 2))
            out[row // 64, lane, column % (n // 2)] = product[row, column]
    return out


@pytest.mark.parametrize("n", [16, 48, 256])
@pytest.mark.parametrize("m", [128, 256])
def test_a_pair_multiplies_its_halves(m, n):
    a, b = integers(m, 32), integers(n, 32)
    at = n // 2 * 64
    body = "".join(
        mma_text(str(plain(m // 2, at + i * 16 * m)), plain(n // 2, i * 16 * n), idesc(m, n), group=2, add=i > 0)
        for i in range(2)
    )
    want = laid_out(a.astype(np.float32) @ b.astype(np.float32).T)
    got, result = run_tensor(body, image=halves(a, b), shown=want.shape[2], group=2)
    assert result.findings == ()
    assert np.array_equal(f32(got), want)
    assert result.counters.mma == 2
    assert result.counters.multiply_adds == m * n * 32


@pytest.mark.parametrize("m", [128, 256])
def test_a_pair_with_a_in_tensor_memory_and_shifts(m):
    """Every CTA holds its own rows; with M = 128 the two banks hold a copy each."""
    n = 32
    cells = integers(2, 128, 16)
    b = integers(n, 16)
    body = mma_text("[0]", plain(n // 2), idesc(m, n), d=8, group=2, mods=".ashift")
    body += "tcgen05.shift.cta_group::2.down [%c];\n"
    body += mma_text("[0]", plain(n // 2), idesc(m, n), d=8, group=2, add=True)
    image = np.stack([k_major(x.view(np.uint8)) for x in np.split(b, 2)])
    got, result = run_tensor(
        body,
        image=image,
        cells=np.ascontiguousarray(cells).view(np.uint32),
        shown=8 + (n if m == 256 else n // 2),
        group=2,
    )
    moved = cells.copy()
    for _ in range(2):
        before = moved.copy()
        for lane in range(128):
            if lane % 32 != 31:
                moved[:, lane] = before[:, lane + 1]
    both = cells.astype(np.float32), moved.astype(np.float32)
    assert result.findings == ()
    for cta in range(2):
        for lane in range(128):
            part = b if m == 256 else np.split(b, 2)[lane // 64]
            want = sum(x[cta, lane] @ part.astype(np.float32).T for x in both)
            assert np.array_equal(f32(got[cta, lane, 8:]), want)


@pytest.mark.parametrize("first", ["even", "odd"])
def test_eight_words_mask_the_lanes_of_both_ctas(first, read_as):
    read_as(pair_mask=first)
    a, b = integers(256, 16), integers(32, 16)
    words = RNG.integers(0, 1 << 32, 8, np.uint64).astype(int)
    moves = " ".join(f"mov.b32 %m{i}, {w};" for i, w in enumerate(words))
    mask = ", {" + ", ".join(f"%m{i}" for i in range(8)) + "}"
    body = moves + mma_text(str(plain(128, 512)), plain(16), idesc(256, 32), group=2, mask=mask)
    ones = np.full((2, 128, 32), np.float32(1).view(np.uint32), np.uint32)
    got, result = run_tensor(body, image=halves(a, b), cells=ones, shown=32, group=2)
    want = (a.astype(np.float32) @ b.astype(np.float32).T).reshape(2, 128, 32)
    for cta in range(2):
        for lane in range(128):
            if words[4 * (cta ^ (first == "odd")) + lane // 32] >> (lane % 32) & 1:
                want[cta, lane] = 1
    assert result.findings == ()
    assert np.array_equal(f32(got), want)


def test_both_ctas_copy_from_their_own_shared_memory():
    image = RNG.integers(0, 256, (2, 4096), np.uint8)
    body = f"mov.b64 %a, {plain(128)}; tcgen05.cp.cta_group::2.128x256b [%c], %a;"
    got, _ = run_tensor(body, image=image, shown=8, group=2)
    for cta in range(2):
        rows = image[cta].reshape(2, 128, 16).transpose(1, 0, 2).reshape(128, 32)
        assert np.array_equal(got[cta], rows.view(np.uint32))


def test_several_pairs_in_lockstep_stay_apart():
    a, b = integers(3, 256, 16), integers(3, 32, 16)
    image = np.concatenate([halves(x, y) for x, y in zip(a, b, strict=True)])
    body = mma_text(str(plain(128, 512)), plain(16), idesc(256, 32), group=2)
    got, result = run_tensor(body, image=image, shown=32, group=2)
    assert result.counters.ctas == 6
    want = a.astype(np.float32) @ b.astype(np.float32).transpose(0, 2, 1)
    assert np.array_equal(f32(got), want.reshape(6, 128, 32))


def test_integers_of_a_pair():
    a, b = (RNG.integers(-128, 128, (rows, 32)).astype(np.int8) for rows in (256, 64))
    word = idesc(256, 64, kind="i8", d_type="s32", a_type="s8", b_type="s8")
    body = mma_text(str(plain(128, 1024)), plain(32), word, kind="i8", group=2)
    got, _ = run_tensor(body, image=halves(a, b), shown=64, group=2)
    assert np.array_equal(got.view(np.int32), (a.astype(np.int64) @ b.astype(np.int64).T).reshape(2, 128, 64))


def test_a_pair_needs_a_cluster_of_even_size():
    body = mma_text(str(plain(128, 512)), plain(16), idesc(256, 32), group=2)
    with pytest.raises(MachineFault, match=r"cta_group::2 in a cluster of 1 CTA") as caught:
        run_tensor(body, image=np.zeros(8192, np.uint8), group=2, cluster=1)
    assert "tcgen05.alloc" in caught.value.span.text, "the first that is for a pair"


@pytest.mark.parametrize(
    ("m", "n", "message"),
    [(64, 32, "M=64, N=32 is not a shape of cta_group::2"), (256, 24, "M=256, N=24 is not a shape of cta_group::2")],
)
def test_neighbours_are_refused(m, n, message):
    with pytest.raises(MachineFault, match=message):
        run_tensor(
            mma_text(str(plain(128)), plain(16), idesc(m, n), group=2), image=np.zeros((2, 8192), np.uint8), group=2
        )


PARTED = """
setp.ne.u32 %p, %w, 0; @%p bra OVER; tcgen05.dealloc.cta_group::2.sync.aligned.b32 %c, 512;
setp.ne.u32 %p, %rank, 0; @%p bra ODD;
tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%slot], {even}; bra OVER;
ODD: tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%slot], {odd};
OVER: bar.sync 0; ld.shared.b32 %c, [%slot];
"""


def test_the_first_cta_of_a_pair_waits_in_alloc_for_the_second():
    _, result = run_tensor(
        "", image=np.zeros((4, 2048), np.uint8), shown=0, group=2, more=True, every=PARTED.format(even=512, odd=512)
    )
    assert result.findings == ()
    with pytest.raises(MachineFault, match="the even CTA of a pair asks for 512 columns, the odd one for 64"):
        run_tensor(
            "", image=np.zeros((2, 2048), np.uint8), shown=0, group=2, more=True, every=PARTED.format(even=512, odd=64)
        )


def test_the_assembler_takes_every_text(ptxas_batch):
    ptxas_batch(TEXTS)
