"""Situations of the tensor cores: tcgen05 of sm_100a, wgmma of sm_90a, and tensor memory."""

from __future__ import annotations

from situations import FENCE, TILE, arrive, fill, kernel, load, of, once, small, smalls, wait

from convc.ptx.descriptors import InstructionDescriptor, SharedDescriptor, encode_instruction, encode_shared

TENSOR_RACE, SHARED = "race-tensor-memory", "race-shared-memory"
SHAPE = encode_instruction(InstructionDescriptor(kind="f16", d_type="f32", a_type="f16", b_type="f16", m=128, n=32))
OPERANDS = [
    encode_shared(SharedDescriptor(start=1024 + TILE * tile, lbo=128, sbo=256, swizzle="none")) for tile in (0, 4)
]
"""A in tiles 0 to 3, B in tile 4."""

ZERO = "mad.lo.u32 %far, %lane, 16, %v;" + "".join(
    f"st.shared.v4.b32 [%far+{512 * i}], {{%x0, %x0, %x0, %x0}};" for i in range(10)
)
"""By one warp: the operands."""

BEFORE, AFTER = "tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;"
FIRST = f"{ZERO} {FENCE} tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;"
THEN = """.reg .b32 %d, %e, %dw, %id; .reg .b64 %da, %db, %dc; .reg .pred %no;
ld.shared.u32 %d, [slot]; add.u32 %e, %d, 32; and.b32 %dw, %warp, 3; shl.b32 %dw, %dw, 21; add.u32 %dw, %dw, %d;
setp.ne.u32 %no, %x0, 0; """ + (f"mov.b64 %da, {OPERANDS[0]}; mov.b64 %db, {OPERANDS[1]}; mov.b32 %id, {SHAPE};")
LAST = f"{AFTER} tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, 64;"
LD_WAIT, ST_WAIT = "tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::st.sync.aligned;"


def mma(acc: str = "%d", add: bool = False) -> str:
    how = "setp.eq.u32 %p, %x0, 0;" if add else "setp.ne.u32 %p, %x0, 0;"
    return once(f"{how} tcgen05.mma.cta_group::1.kind::f16 [{acc}], %da, %db, %id, %p;")


def commit(bar: int) -> str:
    at = f"[%b+{8 * bar}]"
    return once(f"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 {at};")


def ld(column: int = 0, count: int = 1, waited: bool = True) -> str:
    """Columns of the warp's own 32 lanes."""
    registers = ", ".join(f"%x{2 + i}" for i in range(count))
    text = f"add.u32 %far, %dw, {column}; tcgen05.ld.sync.aligned.32x32b.x{count}.b32 {{{registers}}}, [%far];"
    return text + (LD_WAIT if waited else "")


def st(column: int = 0, waited: bool = True) -> str:
    text = f"add.u32 %far, %dw, {column}; tcgen05.st.sync.aligned.32x32b.x1.b32 [%far], {{%lane}};"
    return text + (ST_WAIT if waited else "")


def tensor(*warps: str) -> str:
    """A kernel with operands of zeros and 64 columns of tensor memory: %d, and 32 columns on, %e."""
    return kernel(*(body + BEFORE for body in warps), first=FIRST, then=THEN, last=LAST)


def lanes(first: str, fifth: str) -> str:
    """A kernel whose first and fifth warp have the same lanes of tensor memory."""
    return tensor(first, "", "", "", fifth)


MULTIPLY = mma() + commit(0)
DONE = wait(0) + AFTER
USES = {
    "an operand is copied into": (SHARED, load(0, 1) + wait(1)),
    "an operand is stored over": (SHARED, fill(0)),
    "an operand is copied into by threads": (SHARED, small(0) + smalls(0)),
    "the second operand is stored over": (SHARED, fill(4)),
    "the accumulator is read": (TENSOR_RACE, ld()),
    "the accumulator is stored over": (TENSOR_RACE, st()),
}
OTHER = mma("%e") + commit(2)
SOURCE = encode_shared(SharedDescriptor(start=1024, lbo=128, sbo=256, swizzle="none"))
COPY = once(f"mov.b64 %dc, {SOURCE}; tcgen05.cp.cta_group::1.128x256b [%e], %dc;") + commit(0)
ADDED = mma(add=True)
SAY = BEFORE + arrive(1)
HEAR = wait(1) + AFTER

PRODUCTS = (
    *(of(f"{what} before the product is waited for", rule, tensor(MULTIPLY + use + DONE), tensor(MULTIPLY + DONE + use))
      for what, (rule, use) in USES.items()),
    *(of(f"{what} behind the wait for another product", rule,
         tensor(OTHER + MULTIPLY + wait(2) + AFTER + use + DONE), tensor(OTHER + MULTIPLY + wait(2) + DONE + use))
      for what, (rule, use) in USES.items()),
    of("the commit stands before the product", TENSOR_RACE,
       tensor(commit(0) + mma() + DONE + ld() + commit(1) + wait(1)), tensor(MULTIPLY + DONE + ld())),
    of("an operand is stored without a proxy fence", SHARED,
       tensor(fill(0) + MULTIPLY + DONE), tensor(fill(0) + FENCE + MULTIPLY + DONE)),
    of("a source is stored over while tcgen05.cp reads it", SHARED,
       tensor(COPY + fill(0) + DONE), tensor(COPY + DONE + fill(0))),
    of("columns are read before tcgen05.cp is waited for", TENSOR_RACE,
       tensor(COPY + ld(32) + DONE), tensor(COPY + DONE + ld(32))),
    of("a warp multiplies over what another still reads", TENSOR_RACE,
       tensor(MULTIPLY + OTHER.replace("%e", "%d") + DONE + wait(2), DONE + ld() + SAY),
       tensor(MULTIPLY + HEAR + OTHER.replace("%e", "%d") + wait(2), DONE + ld() + SAY)),
    of("another warp reads behind the arrival of its own warp", TENSOR_RACE,
       tensor(MULTIPLY + SAY + DONE, HEAR + ld() + wait(0)), tensor(MULTIPLY + DONE + SAY, HEAR + ld())),
    of("a warp reads behind the arrival of the warp that multiplies", TENSOR_RACE,
       tensor(HEAR + ld() + wait(0), MULTIPLY + SAY + DONE), tensor(HEAR + ld(), MULTIPLY + DONE + SAY)),
    of("two warps add to one accumulator, and none waits", TENSOR_RACE,
       tensor(MULTIPLY + DONE + SAY + ADDED + commit(2) + wait(2), HEAR + ADDED + commit(3) + wait(3)),
       tensor(MULTIPLY + DONE + ADDED + commit(2) + wait(2), wait(2) + AFTER + ADDED + commit(3) + wait(3))),
    of("columns are given back before the product is waited for", TENSOR_RACE,
       tensor(MULTIPLY), tensor(MULTIPLY + DONE)),
)  # fmt: skip
"""tcgen05.mma and .cp."""

COLUMNS = (
    of("columns are read before another warp has stored them", TENSOR_RACE,
       lanes(st() + SAY, st() + BEFORE + ld() + wait(1)), lanes(st() + SAY, HEAR + ld())),
    of("columns are read behind a store that was not waited for", TENSOR_RACE,
       lanes(st(waited=False) + SAY + ST_WAIT, HEAR + ld()), lanes(st() + SAY, HEAR + ld())),
    of("columns are stored over behind a load that was not waited for", TENSOR_RACE,
       lanes(st() + ld(waited=False) + SAY + LD_WAIT, HEAR + st()), lanes(st() + ld() + SAY, HEAR + st())),
    of("columns are stored over while another warp reads", TENSOR_RACE,
       lanes(st() + ld() + SAY, st()), lanes(st() + ld() + SAY, HEAR + st())),
    of("columns that overlap are read and stored", TENSOR_RACE,
       lanes(st() + st(1) + ld(0, 2), st(1)), lanes(st() + st(1) + ld(0, 2), st(2))),
    of("nothing stands between two warps but the barrier", TENSOR_RACE,
       lanes(st() + arrive(1), wait(1) + ld()), lanes(st() + SAY, HEAR + ld())),
)  # fmt: skip
"""tcgen05.ld and .st of warps that have the same lanes."""

A, B = (
    encode_shared(SharedDescriptor(start=1024 + TILE * i, lbo=128, sbo=256, swizzle="none")) & (1 << 46) - 1
    for i in (0, 4)
)


def wgmma(tile: int = 0) -> str:
    """A product of 64 x 8 x 16 by all four warps, and its group; A in two tiles from this one on."""
    a = A + (tile * TILE >> 4)
    return (
        f"mov.b64 %da, {a}; mov.b64 %db, {B};"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %da, %db, %no, 1, 1, 0, 0;"
        "wgmma.commit_group.sync.aligned;"
    )


def groups(pending: int) -> str:
    return f"wgmma.wait_group.sync.aligned {pending};"


def hopper(body: str, *warps: str, counts: tuple[int, ...] = (4,)) -> str:
    """A kernel for sm_90a: four warps that multiply, and others with bodies of their own."""
    head = """.reg .f32 %f<4>; .reg .b64 %da, %db; .reg .pred %no; setp.ne.u32 %no, %x0, 0; setp.ge.u32 %r, %t, 128;
    mov.b32 %f0, %x0; mov.b32 %f1, %x0; mov.b32 %f2, %x0; mov.b32 %f3, %x0;"""
    then = f"{head} @%r bra BESIDE; {body} BESIDE: bar.warp.sync -1;"
    return kernel("", "", "", "", *warps, first=ZERO + FENCE, then=then, counts=counts, target="sm_90a")


START = "wgmma.fence.sync.aligned;"
OWN = "setp.ne.u32 %q, %warp, 0; @%q bra KEPT; {} KEPT: bar.warp.sync -1;"
KEEP = "bar.sync 1, 128;"

HOPPER = (
    of("an operand is stored over while wgmma reads it", SHARED,
       hopper(START + wgmma() + OWN.format(fill(0)) + groups(0)),
       hopper(START + wgmma() + groups(0) + KEEP + OWN.format(fill(0)))),
    of("one of two groups is waited for, and the other's operand is stored over", SHARED,
       hopper(START + wgmma(0) + wgmma(2) + groups(1) + KEEP + OWN.format(fill(2)) + groups(0)),
       hopper(START + wgmma(0) + wgmma(2) + groups(1) + KEEP + OWN.format(fill(0)) + groups(0))),
    of("another warp stores over an operand of the group that is not waited for", SHARED,
       hopper(START + wgmma(0) + wgmma(2) + groups(1) + arrive(0) + groups(0), wait(0) + fill(2)),
       hopper(START + wgmma(0) + wgmma(2) + groups(1) + arrive(0) + groups(0), wait(0) + fill(0))),
    of("registers are read before their group is waited for", "accumulator-before-wait",
       hopper(START + wgmma() + "add.f32 %f0, %f0, %f1;" + groups(0)),
       hopper(START + wgmma() + groups(0) + "add.f32 %f0, %f0, %f1;")),
    of("registers are written without a fence in front of wgmma", "wgmma-fence-missing",
       hopper(wgmma() + groups(0)), hopper(START + wgmma() + groups(0))),
    of("an operand of wgmma is stored without a proxy fence", SHARED,
       hopper(OWN.format(fill(0)) + KEEP + START + wgmma() + groups(0)),
       hopper(OWN.format(fill(0) + FENCE) + KEEP + START + wgmma() + groups(0))),
)  # fmt: skip

TENSOR = (*PRODUCTS, *COLUMNS, *HOPPER)
