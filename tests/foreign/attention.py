"""A small attention kernel of our own, by the protocol of fused attention kernels for sm_100a.

One CTA of four warps: scores S = Q K' of 128 queries and 32 keys go to tensor memory, each thread makes the weights
P = 2^(S - max) of its row and stores them to tensor memory as f16, and O = P V is multiplied with P as the operand in
tensor memory. As in those kernels one elected thread copies and multiplies, and the warps meet at mbarriers alone.
"""

from __future__ import annotations

import numpy as np
from support.kernels import module

from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.ptx.descriptors import InstructionDescriptor, SharedDescriptor, encode_instruction, encode_shared

QUERIES, KEYS, WIDTH = 128, 32, 16
Q_BYTES, TILE_BYTES = QUERIES * WIDTH * 2, KEYS * WIDTH * 2
SHAPE = encode_instruction(InstructionDescriptor(kind="f16", d_type="f32", a_type="f16", b_type="f16", m=128, n=32))
TOGETHER = "bar.warp.sync 0xffffffff;"
"""What brings the lanes together behind an elected thread; compilers leave it out."""


def operand(at: int) -> int:
    """The descriptor of a tile of rows of 16 numbers, which lie as 8 rows of 16 bytes after one another."""
    return encode_shared(SharedDescriptor(start=1024 + at, lbo=128, sbo=256, swizzle="none"))


def names(letter: str, count: int) -> str:
    return "{" + ", ".join(f"%{letter}{i}" for i in range(count)) + "}"


def bring(buffer: str, at: int, size: int) -> str:
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    return f"{copy} [%smem+{at}], [%p_{buffer}], {size}, [%bar];"


def wait(bar: int, label: str) -> str:
    return f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar+{8 * bar}], 0; @!%p bra {label};"


SOFTMAX = [
    f"mov.b32 %most, %s0; {''.join(f'max.f32 %most, %most, %s{i};' for i in range(1, KEYS))}",
    "mov.b32 %sum, 0f00000000;",
    *(f"sub.f32 %s{i}, %s{i}, %most; ex2.approx.f32 %s{i}, %s{i}; add.f32 %sum, %sum, %s{i};" for i in range(KEYS)),
    *(f"cvt.rn.f16x2.f32 %h{i}, %s{2 * i + 1}, %s{2 * i};" for i in range(KEYS // 2)),
]


def attention(together: str = TOGETHER, loaded: str = "tcgen05.wait::ld.sync.aligned;") -> str:
    """The text; ``loaded``: what stands behind the loads of the results."""
    lines = [
        f""".reg .f32 %s<{KEYS}>, %o<{KEYS}>, %most, %sum;
        .reg .b32 %h<{KEYS // 2}>, %t, %warp, %smem, %bar, %d, %w, %a;
        .reg .b64 %row, %q, %k, %v; .reg .pred %p, %one, %first; mov.u32 %t, %tid.x; shr.u32 %warp, %t, 5;
        mov.u32 %smem, tiles; mov.u32 %bar, bars; setp.ne.u32 %first, %warp, 0; @%first bra READY;
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 128;
        elect.sync _|%one, 0xffffffff; @!%one bra MADE;
        mbarrier.init.shared::cta.b64 [%bar], 1; mbarrier.init.shared::cta.b64 [%bar+8], 1;
        mbarrier.init.shared::cta.b64 [%bar+16], 128; mbarrier.init.shared::cta.b64 [%bar+24], 1;
        fence.mbarrier_init.release.cluster;
        MADE: {TOGETHER} READY: tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
        ld.shared.u32 %d, [slot]; shl.b32 %w, %warp, 21; add.u32 %w, %w, %d; add.u32 %a, %d, 32;
        @%first bra ISSUED; elect.sync _|%one, 0xffffffff; @!%one bra IDLE;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {Q_BYTES + 3 * TILE_BYTES};""",
        bring("q", 0, Q_BYTES) + bring("k", Q_BYTES, TILE_BYTES) + bring("v", Q_BYTES + TILE_BYTES, 2 * TILE_BYTES),
        wait(0, "LANDED"),
        f"mov.b64 %q, {operand(0)}; mov.b64 %k, {operand(Q_BYTES)}; setp.ne.u32 %p, %warp, 0;",
        f"tcgen05.mma.cta_group::1.kind::f16 [%d], %q, %k, {SHAPE}, %p;",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bar+8];",
        f"IDLE: {together} ISSUED:",
        wait(1, "SCORED"),
        "tcgen05.fence::after_thread_sync;",
        f"tcgen05.ld.sync.aligned.32x32b.x{KEYS}.b32 {names('s', KEYS)}, [%w]; tcgen05.wait::ld.sync.aligned;",
        *SOFTMAX,
        f"add.u32 %w, %w, 32; tcgen05.st.sync.aligned.32x32b.x{KEYS // 2}.b32 [%w], {names('h', KEYS // 2)};",
        "tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;",
        "mbarrier.arrive.shared::cta.b64 _, [%bar+16]; @%first bra SENT; elect.sync _|%one, 0xffffffff;",
        f"@!%one bra REST; {wait(2, 'WEIGHED')} tcgen05.fence::after_thread_sync; add.u32 %d, %d, 64;",
        *(
            f"mov.b64 %v, {operand(Q_BYTES + (1 + i) * TILE_BYTES)}; setp.ne.u32 %p, %warp, {i};"
            f"tcgen05.mma.cta_group::1.kind::f16 [%d], [%a], %v, {SHAPE}, %p; add.u32 %a, %a, {WIDTH // 2};"
            for i in range(2)
        ),
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bar+24];",
        f"REST: {together} SENT:",
        wait(3, "DONE"),
        "tcgen05.fence::after_thread_sync; add.u32 %w, %w, 32;",
        f"tcgen05.ld.sync.aligned.32x32b.x{KEYS}.b32 {names('o', KEYS)}, [%w]; {loaded}",
        f"mul.wide.u32 %row, %t, {4 * KEYS}; add.u64 %row, %row, %p_out;",
        *(f"div.rn.f32 %o{i}, %o{i}, %sum; st.global.f32 [%row+{4 * i}], %o{i};" for i in range(KEYS)),
        f"tcgen05.fence::before_thread_sync; bar.sync 0; @%first bra END; {TOGETHER}",
        "tcgen05.fence::after_thread_sync; ld.shared.u32 %d, [slot];",
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, 128; END:",
    ]
    size = Q_BYTES + 3 * TILE_BYTES
    shared = f".shared .align 1024 .b8 tiles[{size}]; .shared .align 16 .b64 bars[4]; .shared .b32 slot;"
    return module("\n".join(lines).replace(";", ";\n"), pointers=("q", "k", "v", "out"), shared=shared)


def rows(matrix: np.ndarray) -> np.ndarray:
    """A matrix of rows of 16 numbers as `operand` has it."""
    return matrix.reshape(-1, 8, 2, 8).transpose(0, 2, 1, 3).reshape(-1)


def problem(seed: int = 3) -> tuple[LaunchSpec, dict[str, np.ndarray], np.ndarray]:
    """Launch, inputs, and the result in float64."""
    rng = np.random.default_rng(seed)
    q, k, v = (rng.normal(size=(count, WIDTH)).astype(np.float16) for count in (QUERIES, KEYS, 2 * KEYS))
    v = v.reshape(KEYS, KEYS)
    inputs = {
        "q": rows(q),
        "k": rows(k),
        "v": np.concatenate([rows(np.ascontiguousarray(v.T[:, at : at + WIDTH])) for at in (0, WIDTH)]),
    }
    buffers = {name: BufferSpec(dtype="f16", shape=array.shape) for name, array in inputs.items()}
    buffers["out"] = BufferSpec(dtype="f32", shape=(QUERIES, KEYS))
    launch = LaunchSpec(
        entry="k",
        grid=(1, 1, 1),
        block=(128, 1, 1),
        buffers=buffers,
        params=tuple(PointerParam(buffer=name) for name in ("q", "k", "v", "out")),
    )
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    weights = np.exp2(scores - scores.max(axis=1, keepdims=True))
    return launch, inputs, weights @ v.astype(np.float64) / weights.sum(axis=1, keepdims=True)
