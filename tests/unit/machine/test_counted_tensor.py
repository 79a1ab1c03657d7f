"""What the simulator counts of the tensor core, compared with what a hand counts, under every completion policy."""

from __future__ import annotations

import numpy as np
import pytest
import tensor_kernels
from support.kernels import execute, module
from tensor_kernels import BASE, TEXTS, mma_text, run_tensor

from convc.machine import Counters, RunOptions
from convc.ptx.descriptors import (
    InstructionDescriptor,
    SharedDescriptor,
    ZeroColumnMask,
    encode_instruction,
    encode_shared,
    encode_zero_mask,
)

IMAGE = np.zeros(16384, np.uint8)
CELLS = np.zeros((128, 8), np.uint32)
MASK = ", {%m0, %m1, %m2, %m3}"


@pytest.fixture(params=["eager", "late", "seeded"], autouse=True)
def policy(request, monkeypatch):
    """Every count holds under every policy."""
    monkeypatch.setattr(tensor_kernels, "OPTIONS", RunOptions(policy=request.param))
    return request.param


def count(body: str, shown: int = 0, **more) -> Counters:
    result = run_tensor(body, image=IMAGE, shown=shown, **more)[1]
    assert result.findings == ()
    return result.counters


def idesc(m: int, n: int, **more) -> int:
    fields = {"kind": "f16", "d_type": "f32", "a_type": "f16", "b_type": "f16"} | more
    return encode_instruction(InstructionDescriptor(m=m, n=n, **fields))


def plain(rows: int, start: int = 0) -> int:
    return encode_shared(SharedDescriptor(start=BASE + start, lbo=16 * rows, sbo=128, swizzle="none"))


def mma(m: int, n: int, a: str | None = None, group: int = 1, **more) -> str:
    """One MMA of kind f16: K = 16."""
    own = m // group
    return mma_text(a or str(plain(own)), plain(n // group), idesc(m, n), d=8, group=group, **more)


def operands(found: Counters) -> tuple[int, int, int]:
    return found.mma_a_bytes, found.mma_b_bytes, found.collector_bytes


def test_a_product_of_several_ctas():
    found = count(mma(128, 32) + mma(128, 32, add=True), ctas=3, cells=CELLS, shown=40)
    assert (found.ctas, found.mma, found.multiply_adds) == (3, 6, 6 * 128 * 32 * 16)
    assert (found.mma_lanes, found.masked_lanes, found.zeroed_columns) == (6 * 128, 0, 0)
    assert operands(found) == (6 * 128 * 32, 6 * 32 * 32, 0)
    assert (found.mma_a_in_tensor, found.mma_ashift, found.mma_ws, found.cp, found.shift) == (0, 0, 0, {}, 0)
    assert (found.commit, found.mbarrier_waits) == (3, 3)
    assert (found.tensor_loads, found.tensor_stores) == (3 * 4 * 2, 3 * 4)  # 40 columns are 32 and 8, for four warps
    assert found.global_load_bytes == 3 * (16384 + 128 * 8 * 4)
    assert found.global_store_bytes == 3 * 128 * 40 * 4
    assert found.operand_bytes == 6 * (128 + 32) * 32


@pytest.mark.parametrize(
    ("kind", "element", "d_type", "k"),
    [("tf32", "tf32", "f32", 8), ("f8f6f4", "e2m1", "f32", 32), ("i8", "s8", "s32", 32)],
)
def test_a_row_of_an_operand_is_32_bytes_in_every_kind(kind, element, d_type, k):
    word = idesc(128, 16, kind=kind, a_type=element, b_type=element, d_type=d_type)
    found = count(mma_text(str(plain(128)), plain(16), word, kind=kind))
    assert (found.multiply_adds, operands(found)) == (128 * 16 * k, (4096, 512, 0))


def test_a_in_tensor_memory_is_not_read_from_shared_memory():
    found = count(mma(128, 64, a="[0]", mods=".ashift") + mma(128, 64, a="[0]"), cells=CELLS)
    assert (found.mma, found.mma_a_in_tensor, found.mma_ashift) == (2, 2, 1)
    assert operands(found) == (0, 2 * 64 * 32, 0)


def test_m_64_has_64_lanes():
    """Layout F, from lane 0: 16 of every 32. Masks of lanes that D does not have mask nothing."""
    for word, masked in ((0xFFFF0000, 0), (0x0000FFFF, 64), (0x00030001, 4)):
        moves = "".join(f"mov.b32 %m{i}, {word};" for i in range(4))
        found = count(moves + mma(64, 16, mask=MASK), cells=CELLS)
        assert (found.mma_lanes, found.masked_lanes) == (64, masked)


def test_every_cta_has_its_own_masked_lanes():
    """CTA c masks the first c lanes of each sub-partition and all of the last, twice; the other MMA masks none."""
    moves = "mov.b32 %m0, 1; shl.b32 %m0, %m0, %cta; sub.u32 %m0, %m0, 1; mov.b32 %m1, %m0; mov.b32 %m2, %m0;"
    masked = moves + "mov.b32 %m3, 0xffffffff;" + 2 * mma(128, 16, mask=MASK)
    found = count(masked + mma(128, 16, add=True), ctas=5, cells=np.zeros((128, 24), np.uint32))
    assert found.masked_lanes == 2 * sum(3 * c + 32 for c in range(5))
    assert found.mma_lanes == 3 * 5 * 128


def test_ctas_that_give_different_operands_or_do_not_issue():
    """CTAs 0 and 3 of 5 do not issue; the others accumulate into different columns."""
    body = "setp.eq.u32 %p, %cta, 0; @%p bra OUT; setp.eq.u32 %p, %cta, 3; @%p bra OUT; shl.b32 %x6, %cta, 4;\n"
    text = mma(128, 16).replace("add.u32 %x4, %c, 8;", "add.u32 %x4, %c, %x6;")
    cp = f"mov.b64 %a, {plain(128)}; tcgen05.cp.cta_group::1.128x256b [%x4], %a; tcgen05.shift.cta_group::1.down [%x4];"
    found = count(body + text + cp + "OUT:", ctas=5)
    assert (found.mma, found.mma_lanes, operands(found)) == (3, 3 * 128, (3 * 4096, 3 * 512, 0))
    assert (found.cp, found.cp_bytes, found.shift) == ({"128x256b": 3}, 3 * 4096, 3)
    assert (found.commit, found.mbarrier_waits) == (5, 5)


@pytest.mark.parametrize("m", [32, 64, 128])
def test_weight_stationary_instructions_zero_columns(m):
    """Of 64 columns in 128 / M banks every fourth is zero, from the first of a bank on; D has all 128 lanes."""
    word = encode_zero_mask(ZeroColumnMask(generate=True, zeroed=1, used=3, zero_first=(True,) * 4))
    idle = encode_zero_mask(ZeroColumnMask(generate=False, zeroed=1, used=3))
    body = "".join(
        f"mov.b64 %zm, {mask};\n" + mma(m, 64, form=".ws", tail=", %zm", add=i > 0)
        for i, mask in enumerate((word, word, idle))
    )
    found = count(body, ctas=2)
    assert (found.mma, found.mma_ws, found.zeroed_columns) == (6, 6, 2 * 2 * 16)
    assert (found.mma_lanes, found.masked_lanes) == (6 * 128, 0)
    assert operands(found) == (6 * m * 32, 6 * 64 * 32, 0)


def test_an_instruction_of_a_pair_counts_once_with_both_ctas():
    moves = "".join(f"mov.b32 %m{i}, {word};" for i, word in enumerate((1, 0, 0, 0, 7, 0, 0, 0x80000000)))
    words = ", {" + ", ".join(f"%m{i}" for i in range(8)) + "}"
    both = moves + mma(256, 32, group=2, mask=words) + mma(128, 32, group=2, add=True)
    cp = f"mov.b64 %a, {plain(128)}; add.u32 %x4, %c, 64; tcgen05.cp.cta_group::2.128x256b [%x4], %a;"
    found = count(
        both + cp + "tcgen05.shift.cta_group::2.down [%x4];", ctas=4, group=2, cells=np.zeros((128, 64), np.uint32)
    )
    assert (found.ctas, found.mma, found.multiply_adds) == (4, 4, 2 * (256 + 128) * 32 * 16)
    assert (found.mma_lanes, found.masked_lanes) == (4 * 256, 2 * 5)
    assert operands(found) == (2 * (256 + 128) * 32, 4 * 32 * 32, 0)
    assert (found.cp, found.cp_bytes, found.shift, found.commit) == ({"128x256b": 2}, 2 * 2 * 4096, 2, 2)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ("128x256b", 4096), ("128x128b", 2048), ("4x256b", 128), ("64x128b.warpx2::02_13", 1024),
        ("64x128b.warpx2::01_23", 1024), ("32x128b.warpx4", 512),
    ],
)  # fmt: skip
@pytest.mark.parametrize("unpacked", ["", ".b8x16.b4x16_p64"])
def test_copies_into_tensor_memory_by_shape(shape, size, unpacked):
    line = f"tcgen05.cp.cta_group::1.{shape}{unpacked} [%c], %a;\n"
    found = count(f"mov.b64 %a, {plain(128)};\n" + 3 * line + "tcgen05.shift.cta_group::1.down [%c];", ctas=2)
    assert (found.cp, found.cp_bytes, found.shift) == ({shape: 6}, 6 * size, 2)
    assert found.operand_bytes == 6 * size


def test_what_a_collector_may_supply_is_counted_apart():
    """A is kept from the first to the third MMA; of a weight-stationary MMA it is B."""
    usages = ("fill", "use", "lastuse", "discard")
    body = "".join(mma(128, 16, mods=f".collector::a::{use}", add=True) for use in usages)
    found = count(body, cells=np.zeros((128, 24), np.uint32), ctas=2)
    assert operands(found) == (8 * 4096, 8 * 512, 4 * 4096)
    body = "".join(mma(128, 64, form=".ws", mods=f".collector::b2::{use}") for use in usages)
    assert operands(count(body)) == (4 * 4096, 4 * 2048, 2 * 2048)


WAITS = """
.reg .b32 %s, %t, %c, %n, %d; .reg .b64 %a; .reg .pred %p, %q;
mov.u32 %s, bar; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x;
setp.ne.u32 %p, %t, 0; @%p bra MADE;
mbarrier.init.shared::cta.b64 [%s], 1;
MADE: bar.sync 0;
mbarrier.test_wait.parity.shared::cta.b64 %q, [%s], 0;
bar.sync 0; setp.ne.u32 %p, %t, 64; @%p bra GO;
mbarrier.arrive.shared::cta.b64 _, [%s];
GO: mbarrier.try_wait.parity.shared::cta.b64 %q, [%s], 0; @!%q bra GO;
mbarrier.test_wait.parity.shared::cta.b64 %q, [%s], 0;
setp.lt.u32 %p, %t, 40;
@%p mbarrier.test_wait.parity.shared::cta.b64 %q, [%s], 0;
setp.eq.u32 %p, %c, 1; @%p mbarrier.try_wait.parity.shared::cta.b64 %q, [%s], 0;
setp.eq.u32 %p, %t, 33; @%p mbarrier.test_wait.parity.shared::cta.b64 %q, [%s], 0;
shl.b32 %n, %t, 3; mul.wide.u32 %a, %n, 1; add.u64 %a, %a, %p_out;
setp.lt.u32 %p, %t, 5; @%p ld.global.v2.b32 {%n, %d}, [%a]; @!%p st.global.b16 [%a], 7;
"""


def test_waits_count_when_the_phase_is_over_and_threads_when_they_move_bytes(policy):
    """Three warps in four CTAs, of which a guard takes two warps, one CTA, or one thread."""
    text = module(WAITS, shared=".shared .align 8 .b64 bar;\n")
    buffers = {"out": np.zeros(200, np.uint32)}
    found = execute(text, buffers, grid=(4, 1, 1), block=(96, 1, 1), options=RunOptions(policy=policy)).counters
    assert found.mbarrier_waits == 4 * 3 + 4 * 3 + 4 * 2 + 3 + 4
    assert (found.global_load_bytes, found.global_store_bytes) == (4 * 5 * 8, 4 * 91 * 2)
    assert found.commit == found.tensor_loads == 0


def test_the_assembler_takes_every_text(ptxas_batch):
    ptxas_batch(TEXTS)
