"""Operand A in tensor memory, lane masks, .ashift, collectors: the pieces of convolutions that keep activations in
place.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensor_kernels
from tensor_kernels import BASE, TEXTS, k_major, mma_text, run_tensor

from convc.errors import MachineFault
from convc.machine import RunOptions
from convc.machine.base.switches import Switches
from convc.ptx.descriptors import InstructionDescriptor, SharedDescriptor, encode_instruction, encode_shared
from convc.sanitizer.run import check_kernel

pytestmark = pytest.mark.usefixtures("both_numerics")
RNG = np.random.default_rng(11)
N = 32


def integers(*shape: int) -> np.ndarray:
    return RNG.integers(-4, 5, shape).astype(np.float16)


def idesc(m: int = 128, n: int = N, **more) -> int:
    fields = {"kind": "f16", "d_type": "f32", "a_type": "f16", "b_type": "f16", "m": m, "n": n} | more
    return encode_instruction(InstructionDescriptor(**fields))


def b_desc(rows: int = N, start: int = 0) -> int:
    return encode_shared(SharedDescriptor(start=BASE + start, lbo=16 * rows, sbo=128, swizzle="none"))


def cells_of(a: np.ndarray, width: int = 96, column: int = 0) -> np.ndarray:
    """Tensor memory with one 16-bit row per lane from a column on; other cells hold 1.0."""
    cells = np.full((128, width), np.float32(1).view(np.uint32), np.uint32)
    data = np.ascontiguousarray(a).view(np.uint32)
    cells[: len(a), column : column + data.shape[1]] = data
    return cells


def f32(cells: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(cells).view(np.float32)


def test_a_from_tensor_memory_over_several_steps_of_k():
    a, b = integers(128, 64), integers(N, 64)
    body = "\n".join(mma_text(f"[{8 * i}]", b_desc(start=2 * i * 16 * N), idesc(), d=64, add=i > 0) for i in range(4))
    got, result = run_tensor(body, image=k_major(b.view(np.uint8)), cells=cells_of(a), shown=96)
    assert result.findings == ()
    assert np.array_equal(f32(got[:, 64:96]), a.astype(np.float32) @ b.astype(np.float32).T)
    assert np.array_equal(got[:, :64], cells_of(a)[:, :64])


@pytest.mark.parametrize("base", [0, 16])
def test_m_64_takes_16_of_every_32_lanes_of_a_and_d(base):
    a, b = integers(128, 16), integers(N, 16)
    at = base << 16
    body = mma_text(f"[{at}]", b_desc(), idesc(m=64), d=64 | at)
    got, _ = run_tensor(body, image=k_major(b.view(np.uint8)), cells=cells_of(a), shown=96)
    want = f32(cells_of(a)).copy()
    for m in range(64):
        lane = base + 32 * (m // 16) + m % 16
        want[lane, 64:96] = a[lane].astype(np.float32) @ b.astype(np.float32).T
    assert np.array_equal(got, want.view(np.uint32))


WORDS = (0x00100001, 0x10000100, 0x80010000, 0x01000010)


def lanes_off(words: tuple[int, ...]) -> np.ndarray:
    return np.array([words[lane // 32] >> (lane % 32) & 1 for lane in range(128)], bool)


def mask_text(words: tuple[int, ...]) -> tuple[str, str]:
    moves = " ".join(f"mov.b32 %m{i}, {w};" for i, w in enumerate(words))
    return moves, ", {" + ", ".join(f"%m{i}" for i in range(len(words))) + "}"


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("in_tensor", [False, True])
def test_masked_lanes_keep_their_old_d_even_when_d_is_not_added(add, in_tensor):
    a, b = integers(128, 16), integers(N, 16)
    moves, mask = mask_text(WORDS)
    image = np.concatenate([k_major(b.view(np.uint8)), k_major(a.view(np.uint8))])
    left = "[0]" if in_tensor else str(b_desc(128, start=b.nbytes))
    body = moves + mma_text(left, b_desc(), idesc(), d=64, add=add, mask=mask)
    got, result = run_tensor(body, image=image, cells=cells_of(a), shown=96)
    want = a.astype(np.float32) @ b.astype(np.float32).T + (1 if add else 0)
    want[lanes_off(WORDS)] = 1
    assert result.findings == ()
    assert np.array_equal(f32(got[:, 64:96]), want)


def test_masks_may_differ_between_ctas_in_lockstep():
    a, b, ctas = integers(128, 16), integers(N, 16), 5
    words = RNG.integers(0, 1 << 32, (ctas, 4), np.uint64).astype(np.uint32)
    load = "mul.wide.u32 %from, %cta, 16; add.u64 %from, %from, %ar; ld.global.v4.b32 {%m0, %m1, %m2, %m3}, [%from];"
    body = load + mma_text("[0]", b_desc(), idesc(), d=64, mask=", {%m0, %m1, %m2, %m3}")
    got, result = run_tensor(body, image=k_major(b.view(np.uint8)), cells=cells_of(a), shown=96, ctas=ctas, args=words)
    assert result.counters.mma == ctas
    for cta in range(ctas):
        want = a.astype(np.float32) @ b.astype(np.float32).T
        want[lanes_off(tuple(int(w) for w in words[cta]))] = 1
        assert np.array_equal(f32(got[cta, :, 64:96]), want)


def test_masked_lanes_stay_unwritten():
    a, b = integers(128, 16), integers(N, 16)
    moves, mask = mask_text(WORDS)
    body = moves + mma_text("[0]", b_desc(), idesc(), d=128, mask=mask)
    every = "add.u32 %x6, %c, 128; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%x6];"
    _, result = run_tensor(body, image=k_major(b.view(np.uint8)), cells=cells_of(a), shown=0, every=every)
    assert [f.rule for f in result.findings] == ["tensor-memory-unwritten"]
    moves, mask = mask_text((0, 0, 0, 0))
    body = moves + mma_text("[0]", b_desc(), idesc(), d=128, mask=mask)
    _, result = run_tensor(body, image=k_major(b.view(np.uint8)), cells=cells_of(a), shown=0, every=every)
    assert result.findings == ()


def down(a: np.ndarray) -> np.ndarray:
    """Rows after one move: lane i takes i + 1, but the last of every 32 keeps its content."""
    out = a.copy()
    for lane in range(128):
        if lane % 32 != 31:
            out[lane] = a[lane + 1]
    return out


def test_ashift_multiplies_first_and_moves_all_lanes_whatever_is_masked():
    a, b = integers(128, 16), integers(N, 16)
    moves, mask = mask_text(WORDS)
    text = mma_text("[0]", b_desc(), idesc(), d=64, mods=".ashift.collector::a::lastuse", mask=mask, add=True)
    body = moves + text * 3
    got, result = run_tensor(body, image=k_major(b.view(np.uint8)), cells=cells_of(a), shown=96)
    rows, want = a.astype(np.float32), np.ones((128, N), np.float32)
    for _ in range(3):
        want += rows @ b.astype(np.float32).T
        rows = down(rows)
    want[lanes_off(WORDS)] = 1
    assert np.array_equal(f32(got[:, 64:96]), want)
    assert np.array_equal(got[:, :8], rows.astype(np.float16).view(np.uint32))
    assert np.array_equal(got[:, 8:64], cells_of(a)[:, 8:64])
    assert {f.rule for f in result.findings} == {"collector-protocol"}  # lastuse without a fill


def test_another_thread_may_issue_in_every_cta():
    """A predicated shift: lane 3 of CTA 0, lane 4 of CTA 1, and so on; each CTA shifts once."""
    ctas, a = 4, integers(4, 128, 16)
    every = (
        "add.u32 %x0, %cta, 3; setp.eq.u32 %p, %t, %x0; @%p tcgen05.shift.cta_group::1.down [%c];\n"
        "@%p tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bar];\n"
        "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 1; @!%p bra AGAIN;\n"
        "tcgen05.fence::after_thread_sync;"
    )
    got, _ = run_tensor("", cells=np.stack([cells_of(x) for x in a]), every=every, shown=96)
    for cta in range(ctas):
        assert np.array_equal(got[cta, :, :8], down(a[cta]).view(np.uint32))


def test_ctas_that_go_different_ways_keep_apart():
    """Even CTAs shift, copy and multiply with a mask, odd ones multiply only; all in one cohort."""
    ctas, b = 5, integers(N, 16)
    a = integers(ctas, 128, 16)
    fresh = RNG.integers(0, 256, (ctas, 256), np.uint8)
    image = np.concatenate([np.broadcast_to(k_major(b.view(np.uint8)), (ctas, b.nbytes)), fresh], axis=1)
    desc = encode_shared(SharedDescriptor(start=BASE + b.nbytes, lbo=128, sbo=128, swizzle="none"))
    moves, mask = mask_text(WORDS)
    body = (
        "and.b32 %x0, %cta, 1; setp.eq.u32 %p, %x0, 1; @%p bra ODD;\n"
        "tcgen05.shift.cta_group::1.down [%c];\n"
        f"mov.b64 %a, {desc}; add.u32 %x4, %c, {31 << 16}; tcgen05.cp.cta_group::1.4x256b [%x4], %a;\n"
        f"{moves} {mma_text('[0]', b_desc(), idesc(), d=64, add=True, mask=mask, mods='.ashift')} bra OVER;\n"
        f"ODD: {mma_text('[0]', b_desc(), idesc(), d=64, add=True)}\nOVER:"
    )
    got, result = run_tensor(body, image=image, cells=np.stack([cells_of(x) for x in a]), shown=96)
    assert result.findings == ()
    assert result.counters.mma == ctas
    for cta in range(ctas):
        rows, want = a[cta], np.ones((128, N), np.float32)
        if cta % 2 == 0:
            rows = down(rows)
            lines = fresh[cta].reshape(2, 8, 16).transpose(1, 0, 2).reshape(8, 32)[:4]
            rows[31::32] = lines.view(np.float16)
        with np.errstate(invalid="ignore"):
            want = want + rows.astype(np.float32) @ b.astype(np.float32).T
        if cta % 2 == 0:
            want[lanes_off(WORDS)] = 1
            rows = down(rows)
        quiet = np.arange(128) % 32 != 31  # the fresh lanes hold any bits
        assert np.array_equal(f32(got[cta, quiet, 64:96]), want[quiet])
        assert np.array_equal(got[cta, :, :8], rows.view(np.uint32))


def test_scale_input_d_divides_the_old_d():
    a, b = integers(128, 16), integers(N, 16)
    got, _ = run_tensor(
        mma_text("[0]", b_desc(), idesc(), d=64, add=True, tail=", 3")
        + mma_text("[0]", b_desc(), idesc(), d=64, add=True, tail=", 0"),
        image=k_major(b.view(np.uint8)),
        cells=cells_of(a),
        shown=96,
    )
    product = a.astype(np.float32) @ b.astype(np.float32).T
    assert np.array_equal(f32(got[:, 64:96]), 2 * product + np.float32(0.125))


def test_an_instruction_that_scales_d_scales_what_the_one_before_it_made():
    a, b = integers(128, 16), integers(N, 16)
    text = mma_text("[0]", b_desc(), idesc(), d=64) + mma_text("[0]", b_desc(), idesc(), d=64, add=True, tail=", 1")
    got, _ = run_tensor(text, image=k_major(b.view(np.uint8)), cells=cells_of(a), shown=96)
    product = a.astype(np.float32) @ b.astype(np.float32).T
    assert np.array_equal(f32(got[:, 64:96]), np.float32(1.5) * product)


def test_the_next_instruction_sees_rows_moved_by_ashift():
    a, b = integers(128, 16), integers(N, 16)
    text = mma_text("[0]", b_desc(), idesc(), d=64, mods=".ashift") + mma_text("[0]", b_desc(), idesc(), d=64, add=True)
    got, _ = run_tensor(text, image=k_major(b.view(np.uint8)), cells=cells_of(a), shown=96)
    rows = a.astype(np.float32)
    assert np.array_equal(f32(got[:, 64:96]), (rows + down(rows)) @ b.astype(np.float32).T)


def test_d_over_a_takes_effect_one_instruction_after_the_other():
    """D covers the columns of A: the second instruction reads what the first wrote."""
    a, b = integers(128, 16), integers(8, 16)
    cells = cells_of(a, 64)
    cells[:, :8] = np.ascontiguousarray(a).view(np.uint32)
    one = mma_text("[0]", b_desc(8), idesc(n=8), d=0)
    two = mma_text("[0]", b_desc(8), idesc(n=8), d=0, add=True)
    got, _ = run_tensor(one + two, image=k_major(b.view(np.uint8)), cells=cells)
    first = a.astype(np.float32) @ b.astype(np.float32).T
    again = np.ascontiguousarray(first).view(np.float16).astype(np.float32)
    with np.errstate(invalid="ignore"):
        want = first + again @ b.astype(np.float32).T
    finite = np.isfinite(want).all(axis=1) & (np.abs(again).max(axis=1) < 1e3)
    assert finite.sum() > 4
    assert np.allclose(f32(got[finite, :8]), want[finite], rtol=1e-5)


USES = [
    (("fill", "use", "lastuse"), None),
    (("fill", "use", "use"), None),
    (("use",), "collector a::use without a valid fill"),
    (("fill", "lastuse", "use"), "collector a::use without a valid fill"),
    (("fill", "discard", "lastuse"), "collector a::lastuse without a valid fill"),
]


@pytest.mark.parametrize(("uses", "problem"), USES)
def test_the_collector_protocol(uses, problem):
    a, b = integers(128, 16), integers(N, 16)
    body = "\n".join(
        mma_text("[0]", b_desc(), idesc(), d=64, add=i > 0, mods=f".collector::a::{use}") for i, use in enumerate(uses)
    )
    got, result = run_tensor(body, image=k_major(b.view(np.uint8)), cells=cells_of(a), shown=96)
    assert [f.message for f in result.findings] == ([problem] if problem else [])
    assert np.array_equal(f32(got[:, 64:96]), len(uses) * (a.astype(np.float32) @ b.astype(np.float32).T))


def test_a_use_of_another_matrix_is_reported():
    a, b = integers(128, 32), integers(N, 16)
    body = mma_text("[0]", b_desc(), idesc(), d=64, mods=".collector::a::fill")
    body += mma_text("[8]", b_desc(), idesc(), d=64, mods=".collector::a::use")
    _, result = run_tensor(body, image=k_major(b.view(np.uint8)), cells=cells_of(a), shown=96)
    assert [f.message for f in result.findings] == ["collector a::use uses another matrix than the one that filled it"]


# ---- the worked example: three taps over rows of 20 pixels, output pixels in the 128 lanes ---------------------------

WIDTH, TAPS, PAD, CHANNELS = 20, 3, 1, 16
MASKS = (
    (0x00100001, 0x10000100, 0x00010000, 0x01000010),
    (0, 0, 0, 0),
    (0x00080000, 0x08000080, 0x00008000, 0x00800008),
)


def pixel(t: int) -> tuple[int, int]:
    """(image, column) of the t-th pixel of the walk, which starts one pixel left of the first row."""
    return (t - PAD) // WIDTH, (t - PAD) % WIDTH


def convolution_row(move: str, between: str = "") -> bool:
    """Whether the kernel finds the row of the convolution.

    ``move`` shifts: an instruction, or .ashift; ``between`` stands between that and the refresh of tap ``{s}``.
    """
    images = RNG.integers(-4, 5, (8, WIDTH, CHANNELS)).astype(np.float16)
    filters = RNG.integers(-4, 5, (TAPS, N, CHANNELS)).astype(np.float16)
    # The walk runs along W and then to the next image; its very first pixel lies outside and is zero.
    walk = np.zeros((132, CHANNELS), np.float16)
    for t in range(1, 132):
        walk[t] = images[pixel(t)]
    halo = np.stack([np.stack([walk[32 * (g + 1) + h] for g in range(4)]) for h in range(TAPS - 1)])
    image = np.concatenate(
        [k_major(f.view(np.uint8)) for f in filters]
        + [k_major(np.concatenate([h, np.zeros((4, CHANNELS), np.float16)]).view(np.uint8)) for h in halo]
    )
    b_bytes, halo_bytes = N * 2 * CHANNELS, 8 * 2 * CHANNELS
    body = ""
    # The centre tap comes first in other orders; here D is cleared by an unmasked product with enable-input-d off.
    for s in range(TAPS):
        moves, mask = mask_text(MASKS[s])
        if s and move == "shift":
            body += "tcgen05.shift.cta_group::1.down [%c];\n"
        if s:
            body += between.format(s=s, parity=(s - 1) % 2)
            start = TAPS * b_bytes + (s - 1) * halo_bytes
            desc = encode_shared(SharedDescriptor(start=BASE + start, lbo=128, sbo=128, swizzle="none"))
            body += f"mov.b64 %a, {desc}; add.u32 %x4, %c, {31 << 16}; tcgen05.cp.cta_group::1.4x256b [%x4], %a;\n"
        mods = ".ashift" if move == "ashift" and s < TAPS - 1 else ""
        body += moves + mma_text("[0]", b_desc(start=s * b_bytes), idesc(), d=64, add=True, mask=mask, mods=mods)
    start = cells_of(walk[:128])
    start[:, 64:96] = 0
    got, result = run_tensor(body, image=image, cells=start, shown=96)
    want = np.zeros((128, N), np.float32)
    for lane in range(128):
        n, q = lane // WIDTH, lane % WIDTH
        for s in range(TAPS):
            w = q + s - PAD
            if 0 <= w < WIDTH:
                want[lane] += filters[s].astype(np.float32) @ images[n, w].astype(np.float32)
    assert result.findings == ()
    right = np.array_equal(f32(got[:, 64:96]), want)
    assert right == np.array_equal(got[:, :8].view(np.float16), walk[2:130])
    return right


COMMITTED = """
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bar];
MOVED{s}: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], {parity}; @!%p bra MOVED{s};
tcgen05.fence::after_thread_sync;
"""


@pytest.mark.parametrize("order", ["ordered", "unordered"])
@pytest.mark.parametrize("move", ["shift", "ashift"])
@pytest.mark.parametrize("between", ["", COMMITTED])
def test_a_convolution_row_with_shifts_halo_and_masks(move, between, order, read_as):
    """A refresh behind tcgen05.shift is in order; behind an .ashift only where somebody has waited, or says so."""
    read_as(ashift_then_cp=order)
    assert convolution_row(move, between) == (move == "shift" or bool(between) or order == "ordered")


@pytest.mark.one_of(2)
@pytest.mark.parametrize(("order", "raced"), [("unordered", True), ("ordered", False)])
def test_a_refresh_right_behind_an_ashift_is_a_race(order, raced, monkeypatch):
    """One behind a shift, or behind a wait, is none: mma, shift, cp.4x256b and mma follow each other in order."""
    found: list[str] = []

    def checked(text, launch, buffers, *, options):
        seen = check_kernel(text, launch, buffers, options=RunOptions(switches=Switches(ashift_then_cp=order)))
        found[:] = [f.message for f in seen.findings if f.rule == "race-tensor-memory" and "dealloc" not in f.message]
        return seen.result

    monkeypatch.setattr(tensor_kernels, "run", checked)
    for move, between in (("shift", ""), ("ashift", COMMITTED)):
        assert convolution_row(move, between)
        assert not found
    assert convolution_row("ashift") is not raced
    assert len(found) == (TAPS - 1 if raced else 0)
    assert all("cp.4x256b" in message and "after write by mma.ashift" in message for message in found)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (mma_text("[0]", b_desc(), idesc(transpose_a=True), d=64), "operand A in tensor memory must be K-major"),
        (mma_text("[505]", b_desc(), idesc(), d=64), "operand A: columns 505..512 are not allocated"),
        (mma_text(f"[{16 << 16}]", b_desc(), idesc(), d=64), "operand A at tensor-memory lane 16"),
        (mma_text("[0]", b_desc(), idesc(m=64), d=64, mods=".ashift"), ".ashift needs M = 128"),
        (mma_text("[0]", b_desc(), idesc(m=32), d=64), "M=32, N=32 is not a shape of cta_group::1"),
        (mma_text("[0]", b_desc(), idesc(ws_max_shift=8), d=64), "a largest column shift (bits 30-31)"),
        (mma_text("[0]", b_desc(), idesc() | 4, d=64), "asks for sparse A"),
        (mma_text("[0]", b_desc(), idesc(), d=64 | 16 << 16), "lane 16 is not allowed for M=128"),
    ],
)
def test_neighbours_are_refused(body, message):
    with pytest.raises(MachineFault) as caught:
        run_tensor(body, image=np.zeros(2048, np.uint8), cells=cells_of(integers(128, 16)))
    assert message in str(caught.value)


def test_the_assembler_takes_every_text(ptxas_batch):
    ptxas_batch(TEXTS)
