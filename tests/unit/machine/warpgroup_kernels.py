"""Kernels around wgmma: shared memory is filled from a buffer, accumulators and fragments of A come from buffers too.

Matrices are dealt to threads, and laid out in shared memory, by the formulas of the PTX manual.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from support.kernels import execute, module

from convc.machine import RunOptions, RunResult
from convc.ptx.descriptors import SharedDescriptor, encode_warpgroup

STORED = {
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "tf32": np.dtype(np.float32),
    "f32": np.dtype(np.float32), "s32": np.dtype(np.int32), "s8": np.dtype(np.int8), "u8": np.dtype(np.uint8),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}  # fmt: skip
WIDTH = {"none": 16, "32B": 32, "64B": 64, "128B": 128}


@dataclass(frozen=True)
class Wgmma:
    """One spelling of wgmma.mma_async, such as ``m64n32k16.f32.f16.f16``."""

    head: str
    a_in_registers: bool = False
    a_mn: bool = False
    b_mn: bool = False
    scale_a: int = 1
    scale_b: int = 1

    @property
    def n(self) -> int:
        return int(re.search(r"n(\d+)", self.head)[1])

    @property
    def k(self) -> int:
        return int(re.search(r"k(\d+)", self.head)[1])

    @property
    def types(self) -> list[str]:
        """Of D, A and B."""
        return [part for part in self.head.split(".") if part in STORED]

    @property
    def registers(self) -> int:
        return self.n // 4 if self.types[0] == "f16" else self.n // 2

    def text(self, d: str, a: str, b: str, scale_d: str) -> str:
        """The instruction."""
        operands = [d, a, b, scale_d]
        kind = self.types[1]
        if kind not in ("s8", "u8"):
            operands += [str(self.scale_a), str(self.scale_b)]
        if kind in ("f16", "bf16"):
            operands += [] if self.a_in_registers else [str(int(self.a_mn))]
            operands.append(str(int(self.b_mn)))
        return f"wgmma.mma_async.sync.aligned.{self.head} {', '.join(operands)};"


def address(desc: SharedDescriptor, row: np.ndarray, k: np.ndarray, size: int, mn_major: bool) -> np.ndarray:
    """Byte addresses of elements: shared-memory matrix layouts of the manual, as an H200 showed them."""
    width = WIDTH[desc.swizzle]
    if not mn_major:
        x = k * size
        along = x if width > 16 else x // 16 * desc.lbo + x % 16
        flat = desc.start + row // 8 * desc.sbo + row % 8 * width + along
    else:
        x = row * size
        lbo, sbo = (desc.sbo, desc.lbo) if width == 16 else (desc.lbo, desc.sbo)
        flat = desc.start + x // width * lbo + k // 8 * sbo + k % 8 * width + x % width
    return flat ^ ((flat >> 7) - desc.base_offset & width // 16 - 1) << 4


def lay(image: np.ndarray, desc: SharedDescriptor, matrix: np.ndarray, mn_major: bool = False) -> None:
    """Put a matrix (rows, k) into the bytes of shared memory."""
    row, k = np.indices(matrix.shape)
    at = address(desc, row, k, matrix.itemsize, mn_major)
    image[at[..., None] + np.arange(matrix.itemsize)] = (
        np.ascontiguousarray(matrix).view(np.uint8).reshape(*matrix.shape, -1)
    )


def deal_sums(matrix: np.ndarray, kind: str) -> np.ndarray:
    """D (64, n) as words of its threads, uint32 (128, registers): rows lane / 4 and 8 more, columns 2 * (lane % 4)."""
    thread = np.arange(128)[:, None]
    n = matrix.shape[1]
    i = np.arange(n // 2)[None]
    row = thread // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8
    column = i // 4 * 8 + thread % 4 * 2 + i % 2
    dealt = np.ascontiguousarray(matrix[row, column].astype(STORED[kind]))
    return dealt.view(np.uint32)


def collect_sums(words: np.ndarray, n: int, kind: str) -> np.ndarray:
    """The inverse of `deal_sums`."""
    dealt = np.ascontiguousarray(words.reshape(128, -1)).view(STORED[kind])
    matrix = np.empty((64, n), dealt.dtype)
    index = np.arange(64 * n, dtype=np.int32).reshape(64, n)
    places = deal_sums(index, "s32").view(np.int32)
    matrix.reshape(-1)[places] = dealt
    return matrix


def deal_rows(matrix: np.ndarray) -> np.ndarray:
    """A (64, k) of stored elements as words of its threads, uint32 (128, 4)."""
    parts = 4 // matrix.itemsize
    thread = np.arange(128)[:, None]
    e = np.arange(4 * parts)[None]
    register = e // parts
    row = thread // 32 * 16 + thread % 32 // 4 + register % 2 * 8
    column = register // 2 * 4 * parts + thread % 4 * parts + e % parts
    return np.ascontiguousarray(matrix[row, column]).view(np.uint32)


HEAD = """
.reg .b32 %t, %s, %i, %x<4>, %d<DWORDS>, %a<AWORDS>;
.reg .b64 %base, %at, %from, %w, %da<20>, %db<20>;
.reg .pred %more, %scale;
mov.u32 %t, %tid.x; mov.u32 %s, smem;
mul.lo.u32 %i, %t, 16;
FILL: cvt.u64.u32 %w, %i; add.u64 %from, %p_image, %w;
ld.global.v4.b32 {%x0, %x1, %x2, %x3}, [%from];
add.u32 %x0, %x0, 0; add.u32 %s, %s, %i; st.shared.v4.b32 [%s], {%x0, %x1, %x2, %x3}; sub.u32 %s, %s, %i;
add.u32 %i, %i, 2048; setp.lt.u32 %more, %i, IMAGE; @%more bra FILL;
shr.u32 %s, %s, 4; cvt.u64.u32 %base, %s;
mul.wide.u32 %at, %t, DBYTES; add.u64 %from, %p_c, %at; add.u64 %at, %p_out, %at;
"""
SHARED = ".extern .shared .align 1024 .b8 smem[];\n"


def instructions(mma: Wgmma, descriptors: list[tuple[int, int]], scale_d: list[str]) -> list[str]:
    """Lines that compute descriptors, and the wgmma of consecutive instructions."""
    d = f"{{{', '.join(f'%d{i}' for i in range(mma.registers))}}}"
    lines = []
    for i, (a, b) in enumerate(descriptors):
        lines.append(f"add.u64 %da{i}, %base, {a:#x}; add.u64 %db{i}, %base, {b:#x};")
    lines.append("wgmma.fence.sync.aligned;")
    for i, scale in enumerate(scale_d):
        a = f"{{{', '.join(f'%a{4 * i + r}' for r in range(4))}}}" if mma.a_in_registers else f"%da{i}"
        lines.append(mma.text(d, a, f"%db{i}", scale))
    lines += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    return lines


def kernel(mma: Wgmma, image: int, work: list[str], count: int = 1, before: str = "") -> str:
    """A module: fill shared memory and registers, do the work, store D."""
    registers = mma.registers
    text = HEAD.replace("DWORDS", str(registers)).replace("AWORDS", str(4 * count)).replace("IMAGE", str(image))
    lines = [text.replace("DBYTES", str(4 * registers))]
    lines += [f"ld.global.b32 %d{i}, [%from+{4 * i}];" for i in range(registers)]
    if mma.a_in_registers:
        lines.append(f"mul.wide.u32 %w, %t, {16 * count}; add.u64 %from, %p_a, %w;")
        lines += [f"ld.global.b32 %a{i}, [%from+{4 * i}];" for i in range(4 * count)]
    lines += ["fence.proxy.async.shared::cta;", "bar.sync 0;", before, *work]
    lines += [f"st.global.b32 [%at+{4 * i}], %d{i};" for i in range(registers)]
    body = "\n".join(lines)
    return module(body, pointers=("image", "a", "c", "out"), shared=SHARED).replace("sm_100a", "sm_90a")


def run(text: str, mma: Wgmma, image: np.ndarray, c: np.ndarray, a: np.ndarray | None = None, **options) -> RunResult:
    """Run a kernel of `kernel`; D is the buffer ``out``."""
    buffers = {
        "image": image.view(np.uint32),
        "a": np.zeros(1, np.uint32) if a is None else np.ascontiguousarray(a).reshape(-1),
        "c": deal_sums(c, mma.types[0]).reshape(-1),
        "out": np.zeros(128 * mma.registers, np.uint32),
    }
    return execute(
        text,
        buffers,
        block=options.pop("block", (128, 1, 1)),
        shared_bytes=image.size,
        pointers=("image", "a", "c", "out"),
        options=options.pop("options", RunOptions()),
        **options,
    )


def tile(rows: int, row_bytes: int, swizzle: str, start: int = 0) -> SharedDescriptor:
    """K-major tile whose rows are as wide as its swizzle; without one, blocks of 8 rows and 16 bytes side by side."""
    width = WIDTH[swizzle]
    if swizzle == "none":
        return SharedDescriptor(start=start, lbo=128, sbo=row_bytes // 16 * 128, swizzle="none")
    return SharedDescriptor(start=start, lbo=16, sbo=8 * width, swizzle=swizzle)


def word(desc: SharedDescriptor) -> int:
    return encode_warpgroup(desc)
