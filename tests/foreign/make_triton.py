"""Compile small Triton kernels for sm_100a into kernel folders: PTX that convc did not write.

Every kernel becomes ``<name>/kernel.ptx`` and ``<name>/launch.json`` beside this file; the folders are committed, so
that the tests need neither Triton nor a GPU. To make them anew (Triton compiles without a GPU):

    python -m venv triton-env && triton-env/bin/pip install triton==3.9.0
    triton-env/bin/python tests/foreign/make_triton.py [NAME ...]

Triton appends two pointers to the parameters of every kernel: scratch memory (null unless the kernel makes tensor maps
of its own there) and memory for profiles (null). A tensor descriptor of the host becomes a tensor map followed by its
shape and strides as integers.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("TRITON_DISABLE_LINE_INFO", "1")

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HERE = Path(__file__).parent
TARGET = GPUTarget("cuda", 100, 32)
PTX_VERSION = 86
POINTER = {
    "f16": "*fp16", "bf16": "*bf16", "f32": "*fp32", "tf32": "*fp32", "e4m3": "*fp8e4nv", "e5m2": "*fp8e5",
    "s8": "*i8", "s32": "*i32", "u8": "*u8",
}  # fmt: skip
STORED = {"tf32": "f32", "e4m3": "u8", "e5m2": "u8"}
"""How the launch file calls the elements of a buffer, where not by their own name."""
SWIZZLE = ("none", "32B", "64B", "128B")
"""The launch file's names of Triton's swizzles."""


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < columns
    start = tl.program_id(0) * columns
    row = tl.load(x + start + at, mask=inside, other=-float("inf"))
    shifted = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + start + at, shifted / tl.sum(shifted, axis=0), mask=inside)


@triton.jit
def transpose(x, out, rows, columns, BLOCK: tl.constexpr):
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(x + r[:, None] * columns + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < columns))
    tl.store(out + c[:, None] * rows + r[None, :], tl.trans(tile), mask=(c[:, None] < columns) & (r[None, :] < rows))


@triton.jit
def histogram(x, counts, total, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, mask=inside, other=0)
    tl.atomic_add(counts + value, 1, mask=inside)
    tl.atomic_add(total, tl.sum(value, axis=0))


@triton.jit
def casts(x, half, brain, e4m3, e5m2, whole, back, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, mask=inside, other=0.0)
    tl.store(half + at, value.to(tl.float16), mask=inside)
    tl.store(brain + at, value.to(tl.bfloat16), mask=inside)
    tl.store(e4m3 + at, value.to(tl.float8e4nv), mask=inside)
    tl.store(e5m2 + at, value.to(tl.float8e5), mask=inside)
    clamped = tl.minimum(tl.maximum(value, -128.0), 127.0).to(tl.int8)
    tl.store(whole + at, clamped, mask=inside)
    tl.store(back + at, value.to(tl.float8e4nv).to(tl.float32) + clamped.to(tl.float32), mask=inside)


@triton.jit
def matmul(a, b, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """out = a @ b with pointers: a is (m, k), b is (k, n), out is (m, n) in float32."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        depth = start + tl.arange(0, BK)
        left = tl.load(
            a + rows[:, None] * k + depth[None, :], mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0
        )
        right = tl.load(
            b + depth[:, None] * n + columns[None, :], mask=(depth[:, None] < k) & (columns[None, :] < n), other=0.0
        )
        acc = tl.dot(left, right, acc)
    tl.store(out + rows[:, None] * n + columns[None, :], acc, mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def matmul_tma(a, b, out, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALIZE: tl.constexpr):
    """out = a @ b.T with tensor descriptors: a is (m, k), b is (n, k), out is (m, n)."""
    row = tl.program_id(0) * BM
    column = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for start in tl.range(0, k, BK, warp_specialize=SPECIALIZE):
        acc = tl.dot(a.load([row, start]), b.load([column, start]).T, acc)
    out.store([row, column], acc.to(out.dtype))


@triton.jit
def matmul_device_tma(a, b, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """`matmul_tma` with descriptors that the kernel makes itself."""
    left = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [n, k], [k, 1], [BN, BK])
    result = tl.make_tensor_descriptor(out, [m, n], [n, 1], [BM, BN])
    row = tl.program_id(0) * BM
    column = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        acc = tl.dot(left.load([row, start]), right.load([column, start]).T, acc)
    result.store([row, column], acc.to(out.dtype.element_ty))


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """A pointer argument."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def signature(self) -> str:
        return POINTER[self.dtype]


@dataclass(frozen=True, kw_only=True)
class Descriptor(Buffer):
    """A tensor-descriptor argument: the whole of a row-major buffer, in tiles of ``block``."""

    block: tuple[int, ...]

    @property
    def signature(self) -> str:
        return f"tensordesc<{POINTER[self.dtype][1:]}{list(self.block)}>"

    def tensor_map(self, name: str, meta: dict) -> dict:
        """The map that Triton's launcher would make, from what the compiler says of the descriptor."""
        rank = len(self.shape)
        pitches = [math.prod(self.shape[axis:]) * meta["elem_size"] for axis in range(rank - 1, 0, -1)]
        return {
            "mode": "tile",
            "buffer": name,
            "dtype": STORED.get(self.dtype, self.dtype),
            "dims": self.shape[::-1],
            "strides": pitches,
            "element_strides": (1,) * rank,
            "box": meta["block_size"][::-1],
            "swizzle": SWIZZLE[meta["swizzle"]],
            "fill": "zero",
        }


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kernel to compile: its arguments by name (a buffer, an integer as i32, a float as f32) and its launch."""

    kernel: object
    arguments: dict[str, Buffer | int | float]
    constants: dict[str, object]
    grid: tuple[int, int, int]
    options: dict[str, object] = field(default_factory=dict)


def tiles(extent: int, block: int) -> int:
    return -(-extent // block)


def elementwise(kernel, arguments: dict[str, Buffer | int], n: int, block: int = 512) -> Case:
    """A kernel that covers ``n`` elements in blocks."""
    return Case(
        kernel=kernel, arguments={**arguments, "n": n}, constants={"BLOCK": block}, grid=(tiles(n, block), 1, 1)
    )


def matmul_case(dtype: str, m: int, n: int, k: int, depth: int, **options: object) -> Case:
    """A matmul with pointer loads in tiles of 128 x 128 x ``depth``."""
    return Case(
        kernel=matmul,
        arguments={
            "a": Buffer(dtype=dtype, shape=(m, k)),
            "b": Buffer(dtype=dtype, shape=(k, n)),
            "out": Buffer(dtype="f32", shape=(m, n)),
            "m": m,
            "n": n,
            "k": k,
        },
        constants={"BM": 128, "BN": 128, "BK": depth},
        grid=(tiles(m, 128), tiles(n, 128), 1),
        options=options,
    )


def tma_case(dtype: str, result: str, m: int, n: int, k: int, depth: int, specialize: bool = False, **options) -> Case:
    """A matmul with host descriptors in tiles of 128 x 128 x ``depth``."""
    return Case(
        kernel=matmul_tma,
        arguments={
            "a": Descriptor(dtype=dtype, shape=(m, k), block=(128, depth)),
            "b": Descriptor(dtype=dtype, shape=(n, k), block=(128, depth)),
            "out": Descriptor(dtype=result, shape=(m, n), block=(128, 128)),
            "k": k,
        },
        constants={"BM": 128, "BN": 128, "BK": depth, "SPECIALIZE": specialize},
        grid=(tiles(m, 128), tiles(n, 128), 1),
        options=options,
    )


def device_tma_case(dtype: str, m: int, n: int, k: int, depth: int, **options: object) -> Case:
    """A matmul with descriptors made in the kernel, in tiles of 128 x 128 x ``depth``."""
    return Case(
        kernel=matmul_device_tma,
        arguments={
            "a": Buffer(dtype=dtype, shape=(m, k)),
            "b": Buffer(dtype=dtype, shape=(n, k)),
            "out": Buffer(dtype=dtype, shape=(m, n)),
            "m": m,
            "n": n,
            "k": k,
        },
        constants={"BM": 128, "BN": 128, "BK": depth},
        grid=(tiles(m, 128), tiles(n, 128), 1),
        options=options,
    )


def flat(dtype: str, n: int) -> Buffer:
    return Buffer(dtype=dtype, shape=(n,))


CASES = {
    "vector_add": elementwise(
        vector_add, {"x": flat("f32", 1000), "y": flat("f32", 1000), "out": flat("f32", 1000)}, 1000
    ),
    "softmax": Case(
        kernel=softmax,
        arguments={
            "x": Buffer(dtype="f32", shape=(5, 200)), "out": Buffer(dtype="f32", shape=(5, 200)), "columns": 200,
        },
        constants={"BLOCK": 256}, grid=(5, 1, 1),
    ),
    "transpose": Case(
        kernel=transpose,
        arguments={
            "x": Buffer(dtype="f16", shape=(70, 100)), "out": Buffer(dtype="f16", shape=(100, 70)),
            "rows": 70, "columns": 100,
        },
        constants={"BLOCK": 64}, grid=(2, 2, 1),
    ),
    "histogram": elementwise(
        histogram, {"x": flat("s32", 1000), "counts": flat("s32", 16), "total": flat("s32", 1)}, 1000
    ),
    "casts": elementwise(
        casts,
        {
            "x": flat("f32", 1000), "half": flat("f16", 1000), "brain": flat("bf16", 1000), "e4m3": flat("e4m3", 1000),
            "e5m2": flat("e5m2", 1000), "whole": flat("s8", 1000), "back": flat("f32", 1000),
        },
        1000,
    ),
    "matmul_f16": matmul_case("f16", 200, 144, 112, 64, num_stages=3),
    "matmul_bf16": matmul_case("bf16", 136, 150, 50, 32, num_stages=1),
    "matmul_tf32": matmul_case("tf32", 144, 160, 80, 32, num_stages=2),
    "matmul_e4m3": matmul_case("e4m3", 144, 160, 160, 128, num_stages=1),
    "matmul_tma_f16": tma_case("f16", "f16", 200, 152, 200, 64, num_stages=3),
    "matmul_tma_e5m2": tma_case("e5m2", "f32", 144, 132, 240, 128, num_stages=2),
    "matmul_tma_specialized": tma_case("f16", "f16", 200, 152, 200, 64, specialize=True, num_stages=2),
    "matmul_device_tma": device_tma_case("bf16", 200, 152, 200, 64, num_stages=2),
}  # fmt: skip


def parameters(case: Case, descriptors: list[dict], scratch: int) -> list[dict]:
    """Launch parameters in the order of Triton's launcher."""
    out: list[dict] = []
    described = iter(descriptors)
    for name, argument in case.arguments.items():
        match argument:
            case Descriptor():
                out.append({"kind": "tensor_map", "map": argument.tensor_map(name, next(described))})
                out += [{"kind": "scalar", "dtype": "s32", "value": extent} for extent in argument.shape]
                steps = [math.prod(argument.shape[axis + 1 :]) for axis in range(len(argument.shape))]
                out += [{"kind": "scalar", "dtype": "s64", "value": step} for step in steps]
            case Buffer():
                out.append({"kind": "pointer", "buffer": name})
            case value:
                out.append({"kind": "scalar", "dtype": "f32" if isinstance(value, float) else "s32", "value": value})
    null = {"kind": "scalar", "dtype": "u64", "value": 0}
    return [*out, {"kind": "pointer", "buffer": "scratch"} if scratch else null, null]


def make(name: str, case: Case, source_type: type[ASTSource] = ASTSource) -> None:
    """Compile one kernel and write its folder."""
    scalars = {int: "i32", float: "fp32"}
    signature = {k: v.signature if isinstance(v, Buffer) else scalars[type(v)] for k, v in case.arguments.items()}
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, v in enumerate(case.arguments.values())
        if not isinstance(v, Descriptor | float) and (isinstance(v, Buffer) or v % 16 == 0)
    }
    source = source_type(
        case.kernel, signature | dict.fromkeys(case.constants, "constexpr"), constexprs=case.constants, attrs=aligned
    )
    compiled = triton.compile(source, target=TARGET, options={"ptx_version": PTX_VERSION, **case.options})
    meta = compiled.metadata
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    text = compiled.asm["ptx"]
    (folder / "kernel.ptx").write_text(text)
    threads = int(re.search(r"\.reqntid (\d+)", text)[1])
    grid = (case.grid[0] * meta.num_ctas, *case.grid[1:])
    scratch = meta.global_scratch_size * math.prod(grid)
    buffers = {
        k: {"dtype": STORED.get(v.dtype, v.dtype), "shape": v.shape}
        for k, v in case.arguments.items()
        if isinstance(v, Buffer)
    }
    if scratch:
        buffers["scratch"] = {"dtype": "u8", "shape": (scratch,)}
    launch = {
        "format": "convc-launch/1",
        "entry": meta.name,
        "grid": grid,
        "block": (threads, 1, 1),
        "cluster": (meta.num_ctas, 1, 1),
        "shared_bytes": meta.shared,
        "buffers": buffers,
        "params": parameters(case, meta.tensordesc_meta or [], scratch),
    }
    (folder / "launch.json").write_text(json.dumps(launch, indent=1) + "\n")
    print(f"{name}: {len(text)} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}; all when left out")
    for name in parser.parse_args().names or CASES:
        make(name, CASES[name])


if __name__ == "__main__":
    main()
