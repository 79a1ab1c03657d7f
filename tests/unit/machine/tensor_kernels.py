"""Kernels around a few tcgen05 instructions: shared memory and tensor memory come from arrays, and go back to one.

`run_tensor` wraps a body that one thread executes: it fills shared memory from ``image`` (bytes, from shared
address 1024 on), tensor memory from ``cells`` (uint32, 128 lanes), runs the body, commits, waits, and returns
tensor memory. Rows with ``None`` are not filled. Everything else is in the text, and `texts` keeps each for the
assembler.
"""

from __future__ import annotations

import numpy as np

from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.machine import RunOptions, RunResult, run

BASE = 1024
"""Shared address of the first byte of the image."""

OPTIONS = RunOptions()
"""How every kernel is run; tests put other switches here."""

TEXTS: list[str] = []
"""Every kernel text that was run, for one call of the assembler."""

HEAD = """.version 9.0
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u64 image, .param .u64 cells, .param .u64 out, .param .u64 args)
{
.reg .b32 %s, %t, %w, %z, %c, %at, %i, %j, %k, %id, %one, %rank, %cta, %bar, %slot, %x<8>, %v<128>, %m<8>;
.reg .b64 %im, %ce, %o, %ar, %from, %a, %b, %zm; .reg .pred %p, %skip, %add, %yes, %no;
ld.param.u64 %im, [image]; ld.param.u64 %ce, [cells]; ld.param.u64 %o, [out]; ld.param.u64 %ar, [args];
mov.u32 %s, smem; mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; mov.b32 %z, 0; mov.u32 %cta, %ctaid.x;
mov.u32 %rank, %cluster_ctarank; setp.eq.u32 %yes, %z, 0; setp.ne.u32 %no, %z, 0;
"""


def _fill(size: int) -> str:
    """Copy ``size`` bytes of the CTA's image to shared memory."""
    lines = [
        f"mul.wide.u32 %from, %cta, {size}; add.u64 %im, %im, %from; mul.wide.u32 %from, %t, 16;",
        "add.u64 %im, %im, %from; shl.b32 %at, %t, 4; add.u32 %at, %at, %s; mov.b32 %i, %t;",
        f"FILL: setp.ge.u32 %p, %i, {size // 16}; @%p bra FILLED;",
        "ld.global.v4.b32 {%x0, %x1, %x2, %x3}, [%im]; st.shared.v4.b32 [%at], {%x0, %x1, %x2, %x3};",
        "add.u64 %im, %im, 2048; add.u32 %at, %at, 2048; add.u32 %i, %i, 128; bra FILL;",
        "FILLED: fence.proxy.async.shared::cta;",
    ]
    return "\n".join(lines)


def _pieces(width: int) -> list[tuple[int, int]]:
    """(first column, columns) of powers of two that make up ``width``."""
    found, at = [], 0
    while at < width:
        size = min(64, 1 << ((width - at).bit_length() - 1))
        found.append((at, size))
        at += size
    return found


def _cells(width: int, store: bool) -> str:
    """Move ``width`` columns of all lanes between tensor memory and global memory."""
    lines = [
        f"mad.lo.u32 %i, %cta, 128, %t; mul.wide.u32 %from, %i, {4 * width};",
        f"add.u64 %from, %from, {'%o' if store else '%ce'}; shl.b32 %j, %w, 21; add.u32 %j, %j, %c;",
    ]
    for at, size in _pieces(width):
        regs = "{" + ", ".join(f"%v{i}" for i in range(size)) + "}"
        moves = [
            (
                f"st.global.b32 [%from+{4 * (at + i)}], %v{i};"
                if store
                else f"ld.global.b32 %v{i}, [%from+{4 * (at + i)}];"
            )
            for i in range(size)
        ]
        lines.append(f"add.u32 %k, %j, {at};")
        if store:
            lines.append(f"tcgen05.ld.sync.aligned.32x32b.x{size}.b32 {regs}, [%k]; tcgen05.wait::ld.sync.aligned;")
        lines += moves
        if not store:
            lines.append(f"tcgen05.st.sync.aligned.32x32b.x{size}.b32 [%k], {regs};")
    if not store:
        lines.append("tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;")
    return "\n".join(lines)


def tensor_text(
    body: str, *, image: int, filled: int, shown: int, group: int = 1, every: str = "", more: bool = False
) -> str:
    """The kernel: ``body`` by one thread (of the even CTA of a pair), ``every`` by all threads after it."""
    g = f"cta_group::{group}"
    meet = "bar.sync 0;" if group == 1 else "barrier.cluster.arrive; barrier.cluster.wait;"
    started = "" if group == 1 else meet
    setup = f"""
{_fill(image)}
add.u32 %bar, %s, {image}; add.u32 %slot, %s, {image + 16};
setp.ne.u32 %skip, %t, 0; @%skip bra MADE;
mbarrier.init.shared::cta.b64 [%bar], 1; fence.mbarrier_init.release.cluster;
MADE: bar.warp.sync 0xffffffff; {started} setp.ne.u32 %skip, %w, 0; @%skip bra GOT;
tcgen05.alloc.{g}.sync.aligned.shared::cta.b32 [%slot], 512;
{"" if more else f"tcgen05.relinquish_alloc_permit.{g}.sync.aligned;"}
GOT: tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
ld.shared.b32 %c, [%slot];
{_cells(filled, False) if filled else ""}
{meet} tcgen05.fence::after_thread_sync;
setp.ne.u32 %skip, %t, 0; {"setp.ne.or.u32 %skip, %rank, 0, %skip;" if group == 2 else ""} @%skip bra ISSUED;
{body}
tcgen05.commit.{g}.mbarrier::arrive::one.shared::cluster.b64 [%bar];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra WAIT;
ISSUED: bar.warp.sync 0xffffffff; {meet} tcgen05.fence::after_thread_sync;
{every}
{_cells(shown, True) if shown else ""}
tcgen05.fence::before_thread_sync; {meet} tcgen05.fence::after_thread_sync;
setp.ne.u32 %skip, %w, 0;
@!%skip tcgen05.dealloc.{g}.sync.aligned.b32 %c, 512;
ret;
}}
"""
    return HEAD + setup


def run_tensor(body: str, **more) -> tuple[np.ndarray, RunResult]:
    """Run the kernel that `tensor_kernel` makes of a body.

    Returns:
        uint32 (ctas, 128, shown), without the first axis when neither array had it, and the result.
    """
    text, launch, buffers, flat = tensor_kernel(body, **more)
    TEXTS.append(text)
    result = run(text, launch, buffers, options=OPTIONS)
    out = result.buffers["out"]
    return (out[0] if flat else out), result


def tensor_kernel(
    body: str,
    *,
    image: np.ndarray | None = None,
    cells: np.ndarray | None = None,
    shown: int = 64,
    group: int = 1,
    ctas: int | None = None,
    every: str = "",
    args: np.ndarray | None = None,
    more: bool = False,
    cluster: int | None = None,
) -> tuple[str, LaunchSpec, dict[str, np.ndarray], bool]:
    """A kernel around a body.

    Args:
        body: PTX of one thread; `%c` holds the tensor-memory base (0), ``%a`` ``%b`` ``%id`` and others are free.
        image: uint8 (ctas, n) or (n,): shared memory from `BASE` on.
        cells: uint32 (ctas, 128, width) or (128, width): tensor memory from column 0 on.
        shown: columns to give back. group: 1, or 2 for a CTA pair. every: PTX that all threads run afterwards.
        args: uint32 (ctas, n): at ``%ar``. more: the kernel may allocate again.
        cluster: CTAs of a cluster, if not ``group``.

    Returns:
        Its text, launch and buffers, and whether neither array has an axis of CTAs.
    """
    given = [x for x, axes in ((image, 2), (cells, 3)) if x is not None and x.ndim == axes]
    flat = not given and group == 1 and ctas is None
    count = len(given[0]) if given else ctas or group
    data = np.zeros((count, 16), np.uint8) if image is None else np.broadcast_to(image, (count, image.shape[-1]))
    size = -(-data.shape[1] // 2048) * 2048
    padded = np.zeros((count, size), np.uint8)
    padded[:, : data.shape[1]] = data
    filled = 0 if cells is None else cells.shape[-1]
    start = np.zeros((count, 128, 1), np.uint32) if cells is None else np.broadcast_to(cells, (count, 128, filled))
    text = tensor_text(body, image=size, filled=filled, shown=shown, group=group, every=every, more=more)
    buffers = {
        "image": padded,
        "cells": np.ascontiguousarray(start),
        "out": np.zeros((count, 128, max(1, shown)), np.uint32),
        "args": np.zeros((1,), np.uint32) if args is None else np.ascontiguousarray(args, np.uint32),
    }
    types = {"image": "u8", "cells": "u32", "out": "u32", "args": "u32"}
    launch = LaunchSpec(
        entry="k",
        grid=(count, 1, 1),
        block=(128, 1, 1),
        cluster=(cluster or group, 1, 1),
        shared_bytes=size + 32,
        buffers={n: BufferSpec(dtype=types[n], shape=a.shape) for n, a in buffers.items()},
        params=tuple(PointerParam(buffer=n) for n in buffers),
    )
    return text, launch, buffers, flat


def mma_text(
    a: str,
    b: int,
    idesc: int,
    *,
    d: int = 0,
    kind: str = "f16",
    form: str = "",
    group: int = 1,
    add: bool = False,
    mods: str = "",
    mask: str = "",
    tail: str = "",
    scales: str = "",
) -> str:
    """One tcgen05.mma: ``a`` is ``%a`` after its value is set, or ``[column]`` in tensor memory."""
    lines = [f"mov.b64 %b, {b}; mov.b32 %id, {idesc}; add.u32 %x4, %c, {d};"]
    if a.startswith("["):
        lines.append(f"add.u32 %x5, %c, {a[1:-1]};")
        left = "[%x5]"
    else:
        lines.append(f"mov.b64 %a, {a};")
        left = "%a"
    lines.append(
        f"tcgen05.mma{form}.cta_group::{group}.kind::{kind}{mods} [%x4], {left}, %b, %id{scales}{mask}, "
        f"{'%yes' if add else '%no'}{tail};"
    )
    return "\n".join(lines)


def k_major(matrix: np.ndarray) -> np.ndarray:
    """Bytes of a K-major operand without a swizzle: (rows, bytes) as blocks of 8 rows x 16 bytes, K blocks outermost.

    Goes with LBO = 16 * rows and SBO = 128.
    """
    rows, width = matrix.shape
    return matrix.reshape(rows, width // 16, 16).transpose(1, 0, 2).reshape(-1)
