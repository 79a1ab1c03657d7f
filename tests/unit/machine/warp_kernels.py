"""Kernels with one mma.sync: matrices are dealt to the lanes by the manual's formulas, and collected again."""

from __future__ import annotations

import re
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import warp_fragments as manual
from support.kernels import execute, module

from convc.machine import RunOptions, RunResult
from convc.machine.base.switches import Switches

STORED = {
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "tf32": np.dtype(np.float32),
    "f32": np.dtype(np.float32), "f64": np.dtype(np.float64), "s32": np.dtype(np.int32), "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8), "e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}  # fmt: skip
BITS = {name: 8 * dtype.itemsize for name, dtype in STORED.items()} | {"s4": 4, "u4": 4, "b1": 1}
RANGES = {"s4": (-8, 8), "u4": (0, 16), "b1": (0, 2), "s8": (-128, 128), "u8": (0, 256), "s32": (-1000, 1000)}


@dataclass(frozen=True)
class Mma:
    """One spelling of mma.sync, with the number of elements that a lane has of each matrix."""

    head: str

    @property
    def shape(self) -> tuple[int, int, int]:
        return tuple(map(int, re.search(r"m(\d+)n(\d+)k(\d+)", self.head).groups()))

    @property
    def types(self) -> dict[str, str]:
        found = re.findall(r"\.(f64|f32|tf32|bf16|f16|e4m3|e5m2|[su]8|[su]4|s32|b1)(?=\.|$)", self.head)
        return dict(zip("dabc", found, strict=True))

    @property
    def quads(self) -> bool:
        return "m8n8k4" in self.head and self.types["a"] == "f16"

    def place(self, name: str) -> tuple[manual.Place, int]:
        """The formula of a matrix, and the number of elements in a fragment."""
        m, n, k = self.shape
        kind = self.types[name]
        if self.quads:
            layouts = re.search(r"\.(row|col)\.(row|col)", self.head).groups()
            key = f"c.{kind}" if name in "cd" else f"{name}.{layouts['ab'.index(name)]}"
            return manual.QUADS[key], 8 if name in "cd" else 4
        parts = max(1, 32 // BITS[kind])
        if name == "a":
            return manual.a_8(parts) if m == 8 else manual.a_16(parts), m * k // 32
        return (manual.b(parts), k * n // 32) if name == "b" else (manual.c, m * n // 32)

    def matrix(self, name: str) -> tuple[int, int, int]:
        m, n, k = self.shape
        return (4 if self.quads else 1, *{"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}[name])


def words(values: np.ndarray, kind: str) -> np.ndarray:
    """(32, elements) of a fragment as (32, bytes), elements of less than a byte packed from the lowest bit on."""
    if kind in STORED:
        return np.ascontiguousarray(values.astype(STORED[kind])).view(np.uint8)
    bits = BITS[kind]
    each = (values.astype(np.int64)[..., None] >> np.arange(bits)) & 1
    return np.packbits(each.reshape(32, -1).astype(np.uint8), axis=1, bitorder="little")


def distribute(mma: Mma, name: str, matrix: np.ndarray) -> np.ndarray:
    place, count = mma.place(name)
    values = np.array([[matrix[place(lane, i)] for i in range(count)] for lane in range(32)])
    return words(values, mma.types[name])


def collect(mma: Mma, raw: np.ndarray) -> np.ndarray:
    """The matrix D that 32 lanes stored; every element must have come from one place."""
    place, count = mma.place("d")
    values = np.ascontiguousarray(raw).view(STORED[mma.types["d"]])[:, :count]
    out = np.zeros(mma.matrix("d"), values.dtype)
    seen = np.zeros(out.shape, int)
    for lane in range(32):
        for i in range(count):
            out[place(lane, i)] = values[lane, i]
            seen[place(lane, i)] += 1
    assert (seen == 1).all()
    return out


def listed(name: str, count: int) -> str:
    return "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"


def kernel(mma: Mma, bytes_of: dict[str, int], guard: str = "") -> str:
    """Each lane loads its fragments of a, b and c, one after another, and stores d."""
    double = mma.types["a"] == "f64"
    size, kind = (8, "b64") if double else (4, "b32")
    counts = {name: bytes_of[name] // size for name in "abcd"}
    stride = sum(bytes_of[name] for name in "abc")
    lines = [f".reg .{kind} %{name}<{counts[name]}>;" for name in "abcd"]
    lines.append(
        f".reg .b32 %id; .reg .b64 %o; .reg .pred %g; mov.u32 %id, %tid.x; setp.lt.u32 %g, %id, 16;"
        f"mul.wide.u32 %o, %id, {stride}; add.u64 %p_x, %p_x, %o;"
        f"mul.wide.u32 %o, %id, {bytes_of['d']}; add.u64 %p_out, %p_out, %o;"
    )
    at = 0
    for name in "abc":
        for i in range(counts[name]):
            lines.append(f"ld.global.{kind} %{name}{i}, [%p_x+{at}];")
            at += size
    lines += [f"mov.{kind} %d{i}, 0;" for i in range(counts["d"])]
    operands = ", ".join(listed(name, counts[name]) for name in "dabc")
    lines.append(f"{guard}mma.sync.aligned.{mma.head} {operands};")
    lines += [f"st.global.{kind} [%p_out+{size * i}], %d{i};" for i in range(counts["d"])]
    return module("\n".join(lines), pointers=("x", "out"))


def multiply(
    mma: Mma, a: np.ndarray, b: np.ndarray, c: np.ndarray, *, numerics: str = "float32", guard: str = ""
) -> tuple[np.ndarray, RunResult]:
    """D of one warp, shaped as `Mma.matrix`."""
    raw = {name: distribute(mma, name, matrix) for name, matrix in zip("abc", (a, b, c), strict=True)}
    kind, (_, count) = mma.types["d"], mma.place("d")
    bytes_of = {name: each.shape[1] for name, each in raw.items()} | {"d": count * BITS[kind] // 8}
    data = np.concatenate([raw[name] for name in "abc"], axis=1).reshape(-1)
    out = np.zeros(32 * bytes_of["d"], np.uint8)
    options = RunOptions(switches=Switches(numerics=numerics))
    result = execute(kernel(mma, bytes_of, guard), {"x": data, "out": out}, pointers=("x", "out"), options=options)
    return collect(mma, result.buffers["out"].reshape(32, -1)), result


def data(mma: Mma, seed: int = 0) -> list[np.ndarray]:
    """Small numbers, so that every sum is exact in every type."""
    rng = np.random.default_rng(seed)

    def one(name: str) -> np.ndarray:
        low, high = RANGES.get(mma.types[name], (-4, 5))
        return rng.integers(low, high, mma.matrix(name)).astype(np.float64)

    return [one(name) for name in "abc"]
