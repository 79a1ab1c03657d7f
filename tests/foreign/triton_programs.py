"""Triton and Gluon programs that run on the simulator through `convc.triton`, each compared with numpy.

    triton-env/bin/pip install "convc[triton]"
    triton-env/bin/python tests/foreign/triton_programs.py [NAME ...] [--target sm_90a]

They are written against what Triton 3.5 to 3.9 have in common. Sums of small integers cannot round, and are compared
bit for bit. Every result must be right, and nothing worse than a review may be found but what `FOUND` has: mistakes of
Triton's own code that a later release mended. `python -m tests.versions.run --set triton` runs them with the oldest and
the newest release.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
os.environ.setdefault("TRITON_DISABLE_LINE_INFO", "0")

import make_triton as plain
import make_triton_small as small
import ml_dtypes
import numpy as np
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import convc.triton
from convc.ir.findings import Verdict
from convc.triton import Tensor

BF16 = np.dtype(ml_dtypes.bfloat16)
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
F16 = np.dtype(np.float16)
F32 = np.dtype(np.float32)

VERSION = tuple(map(int, triton.__version__.split("+")[0].split(".")[:3]))

Result = tuple[np.ndarray, np.ndarray]
"""What came, and what numpy has."""


def integers(shape: tuple[int, ...], dtype: np.dtype = F16, most: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(dtype)


def described(array: np.ndarray, *block: int) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(Tensor(array), list(block))


@triton.jit
def persistent(a, b, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, APART: tl.constexpr):
    """out = a @ b.T by programs that each go on to the next tile; descriptors are made in the kernel."""
    left = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [n, k], [k, 1], [BN, BK])
    result = tl.make_tensor_descriptor(out, [m, n], [n, 1], [BM, BN])
    columns = tl.cdiv(n, BN)
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(m, BM) * columns, tl.num_programs(0), flatten=True, warp_specialize=APART
    ):
        row = tile // columns * BM
        column = tile % columns * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for start in range(0, k, BK):
            acc = tl.dot(left.load([row, start]), right.load([column, start]).T, acc)
        result.store([row, column], acc.to(out.dtype.element_ty))


@triton.jit
def attention(q, k, v, out, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, APART: tl.constexpr):
    """softmax(q k^T scale) v of (heads * length, D), with tensor descriptors and tcgen05."""
    start = tl.program_id(1) * length
    row = start + tl.program_id(0) * BM
    queries = q.load([row, 0])
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for column in tl.range(start, start + length, BN, warp_specialize=APART):
        scores = tl.dot(queries, k.load([column, 0]).T) * scale
        higher = tl.maximum(top, tl.max(scores, axis=1))
        weights = tl.math.exp2(scores - higher[:, None])
        fade = tl.math.exp2(top - higher)
        total = total * fade + tl.sum(weights, axis=1)
        acc = tl.dot(weights.to(tl.float16), v.load([column, 0]), acc * fade[:, None])
        top = higher
    out.store([row, 0], (acc / total[:, None]).to(tl.float16))


@triton.jit
def scaled(
    a, a_scale, b, b_scale, out, K: tl.constexpr, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr,
    KIND: tl.constexpr, PACK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """out = (a * a_scale) @ (b * b_scale).T: one tile; scales are (rows, K / GROUP)."""
    row = tl.arange(0, M)
    column = tl.arange(0, N)
    inner = tl.arange(0, BK // PACK)
    group = tl.arange(0, BK // GROUP)
    acc = tl.zeros((M, N), tl.float32)
    for start in range(0, K, BK):
        left = tl.load(a + row[:, None] * (K // PACK) + start // PACK + inner[None, :])
        right = tl.load(b + column[:, None] * (K // PACK) + start // PACK + inner[None, :])
        left_scale = tl.load(a_scale + row[:, None] * (K // GROUP) + start // GROUP + group[None, :])
        right_scale = tl.load(b_scale + column[:, None] * (K // GROUP) + start // GROUP + group[None, :])
        acc = tl.dot_scaled(left, left_scale, KIND, right.T, right_scale, KIND, acc)
    tl.store(out + row[:, None] * N + column[None, :], acc)


@triton.autotune(configs=[triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 1024})], key=["n"])
@triton.jit
def tuned(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


@triton.jit
def pair_of(arrays, n, BLOCK: tl.constexpr):
    """The second of a tuple becomes the first one's negative."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(arrays[1] + at, -tl.load(arrays[0] + at, mask=at < n), mask=at < n)


def run_add() -> Result:
    x, y = integers((2, 1000), np.dtype(np.float32))
    out = np.zeros_like(x)
    plain.vector_add[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, out, 1000, BLOCK=512)
    return out, x + y


def run_views() -> Result:
    """Source and result are slices of one array."""
    held = integers((3, 512), np.dtype(np.float32))
    want = held[0] + held[1]
    plain.vector_add[(1,)](held[0], held[1], held[2], 512, BLOCK=512)
    return held[2], want


def run_tuple() -> Result:
    x, out = np.arange(100, dtype=np.int32), np.zeros(100, np.int32)
    pair_of[(1,)]((Tensor(x), Tensor(out)), 100, BLOCK=128)
    return out, -x


def run_tuned() -> Result:
    x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    tuned[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, out, 1000)
    return out, 2 * x


def run_histogram() -> Result:
    x = np.random.default_rng(4).integers(0, 16, 1000, dtype=np.int32)
    counts, total = np.zeros(16, np.int32), np.zeros(1, np.int32)
    plain.histogram[(2,)](x, counts, total, 1000, BLOCK=512)
    return counts, np.bincount(x, minlength=16).astype(np.int32)


def run_sort() -> Result:
    x = integers((3, 128), np.dtype(np.int32), 999)
    out = np.zeros_like(x)
    small.sort_rows[(3,)](x, out, N=128)
    return out, np.sort(x, axis=1)


def product(a: np.ndarray, b: np.ndarray, dtype: np.dtype = F32) -> np.ndarray:
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype)


def matmul(dtype: np.dtype, depth: int = 64, **options: int) -> Result:
    a, b = integers((200, 112), dtype), integers((112, 144), dtype, seed=1)
    out = np.zeros((200, 144), np.float32)
    plain.matmul[(2, 2)](a, b, out, 200, 144, 112, BM=128, BN=128, BK=depth, **options)
    return out, product(a, b)


def matmul_tma(apart: bool, **options: int) -> Result:
    a, b = integers((200, 200)), integers((152, 200), seed=1)
    out = np.zeros((200, 152), F16)
    arrays = described(a, 128, 64), described(b, 128, 64), described(out, 128, 128)
    plain.matmul_tma[(2, 2)](*arrays, 200, BM=128, BN=128, BK=64, SPECIALIZE=apart, **options)
    return out, product(a, b.T, F16)


def run_persistent(apart: bool, programs: int = 3, **options: int) -> Result:
    a, b = integers((500, 192)), integers((264, 192), seed=1)
    out = np.zeros((500, 264), F16)
    persistent[(programs,)](a, b, out, 500, 264, 192, BM=128, BN=128, BK=64, APART=apart, **options)
    return out, product(a, b.T, F16)


def run_attention(apart: bool, **options: int) -> Result:
    heads, length, width = 2, 256, 64
    rng = np.random.default_rng(5)
    q, k, v = rng.normal(size=(3, heads * length, width)).astype(F16)
    out = np.zeros_like(q)
    arrays = [described(q, 128, width), described(k, 64, width), described(v, 64, width), described(out, 128, width)]
    scale = width**-0.5 * 1.44269504
    attention[(2, heads)](*arrays, length, scale, BM=128, BN=64, D=width, APART=apart, **options)
    whole = [each.astype(np.float64).reshape(heads, length, width) for each in (q, k, v)]
    scores = whole[0] @ whole[1].transpose(0, 2, 1) * scale
    weights = np.exp2(scores - scores.max(axis=2, keepdims=True))
    want = (weights @ whole[2] / weights.sum(axis=2, keepdims=True)).reshape(q.shape)
    # Weights and the result are float16: 2^-11 of the largest weight's values each, 3 sigma of v and some.
    near = np.abs(out - want) <= 2e-3 * np.abs(v).max()
    return near, np.ones_like(near)


def run_small_attention() -> Result:
    q, k, v = np.random.default_rng(5).normal(size=(3, 2, 100, 32)).astype(BF16)
    out = np.zeros_like(q)
    small.attention[(4, 2)](q, k, v, out, 100, 32**-0.5, BM=32, BN=32, D=32, num_stages=1)
    scores = q.astype("f8") @ k.astype("f8").transpose(0, 2, 1) * 32**-0.5
    scores = np.where(np.tri(100, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    want = weights @ v.astype("f8") / weights.sum(axis=2, keepdims=True)
    near = np.abs(out.astype("f8") - want) <= 2e-2 * np.abs(v.astype("f8")).max()
    return near, np.ones_like(near)


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def run_scaled(kind: str) -> Result:
    """mxfp8 (groups of 32, e8m0), mxfp4 (the same) and nvfp4 (groups of 16, e4m3)."""
    rng = np.random.default_rng(6)
    m, n, k = 128, 128, 256
    group = 16 if kind == "nvfp4" else 32
    sides = []
    for rows in (m, n):
        if kind == "mxfp8":
            data = rng.integers(-4, 5, (rows, k)).astype(E4M3)
            values = data.astype(np.float32)
        else:
            data = rng.integers(0, 256, (rows, k // 2), dtype=np.uint8)
            values = E2M1[np.stack([data & 15, data >> 4], axis=2).reshape(rows, k)]
        if kind == "nvfp4":
            scale = rng.integers(1, 4, (rows, k // group)).astype(E4M3)
            factors = scale.astype(np.float32)
        else:
            scale = rng.integers(126, 129, (rows, k // group), dtype=np.uint8)
            factors = 2.0 ** (scale.astype(np.float32) - 127)
        sides.append((data, scale, (values * factors.repeat(group, axis=1)).astype(np.float32)))
    (a, a_scale, left), (b, b_scale, right) = sides
    out = np.zeros((m, n), np.float32)
    word, pack = ("e4m3", 1) if kind == "mxfp8" else ("e2m1", 2)
    scaled[(1,)](a, a_scale, b, b_scale, out, K=k, M=m, N=n, BK=128, KIND=word, PACK=pack, GROUP=group)
    return out, left @ right.T


def run_layer_norm() -> Result:
    x = integers((5, 200), F16)
    weight, bias = np.ones(200, np.float32), np.zeros(200, np.float32)
    out = np.zeros_like(x)
    small.layer_norm[(5,)](x, weight, bias, out, 200, 1e-5, BLOCK=256)
    centred = x.astype("f8") - x.astype("f8").mean(axis=1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
    near = np.abs(out - want) <= 2e-3 * np.abs(want).max()
    return near, np.ones_like(near)


def run_split_k() -> Result:
    a, b = integers((70, 200), np.dtype(np.float32)), integers((200, 50), np.dtype(np.float32), seed=1)
    out = np.zeros((70, 50), np.float32)
    small.split_k[(3, 2, 2)](a, b, out, 70, 50, 200, BM=32, BN=32, BK=32, PARTS=2, num_stages=2)
    return out, a @ b


def run_conv() -> Result:
    x, w = integers((2, 7, 9, 16)), integers((20, 3, 3, 16), seed=1)
    out = np.zeros((126, 20), F16)
    small.conv_pointers[(4, 2)](x, w, out, 2, 7, 9, 20, C=16, R=3, S=3, BM=32, BN=16)
    padded = np.pad(x.astype("f4"), ((0, 0), (1, 1), (1, 1), (0, 0)))
    want = sum(padded[:, r : r + 7, s : s + 9] @ w[:, r, s].astype("f4").T for r in range(3) for s in range(3))
    return out, want.reshape(126, 20).astype(F16)


PROGRAMS: dict[str, Callable[[], Result]] = {
    "add": run_add,
    "views": run_views,
    "tuple": run_tuple,
    "tuned": run_tuned,
    "histogram": run_histogram,
    "sort": run_sort,
    "layer_norm": run_layer_norm,
    "split_k": run_split_k,
    "conv": run_conv,
    "matmul_f16": lambda: matmul(F16, num_stages=3),
    "matmul_bf16": lambda: matmul(BF16, 32, num_stages=1),
    "matmul_e4m3": lambda: matmul(E4M3, 128, num_stages=2),
    "matmul_eight_warps": lambda: matmul(F16, num_warps=8),
    "matmul_tma": lambda: matmul_tma(apart=False, num_stages=3),
    "matmul_specialized": lambda: matmul_tma(apart=True, num_stages=2),
    "matmul_clusters": lambda: matmul_tma(apart=False, num_stages=2, num_ctas=2),
    "persistent": lambda: run_persistent(apart=False, num_stages=2),
    "persistent_specialized": lambda: run_persistent(apart=True, num_stages=2),
    "attention": lambda: run_attention(apart=False, num_stages=2),
    "attention_specialized": lambda: run_attention(apart=True, num_stages=2),
    "attention_small": run_small_attention,
    "mxfp8": lambda: run_scaled("mxfp8"),
    "mxfp4": lambda: run_scaled("mxfp4"),
    "nvfp4": lambda: run_scaled("nvfp4"),
}


CP_ASYNC = ("matmul_f16", "matmul_e4m3", "matmul_eight_warps", "mxfp8", "mxfp4", "nvfp4")
"""Programs whose pipelined operands come by cp.async."""

TENSOR_CORE = (
    *CP_ASYNC, "matmul_bf16", "matmul_tma", "matmul_specialized", "persistent", "persistent_specialized", "attention",
    "attention_specialized", "pointwise",
)  # fmt: skip
"""Programs with tcgen05.mma."""

FOUND: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "descriptor-version": ((3, 6), TENSOR_CORE),
    "race-shared-memory": ((3, 7, 1), CP_ASYNC),
    "pair-allocation": ((3, 9), ("pairs",)),
}
"""Rules that programs break, and the release that mended it: bits 46 to 48 of descriptors; a proxy fence between
cp.async and the tensor core (Triton's pull requests 9610 and 10537; without it a B200 gave other results from run to
run, PyTorch's issue 181248); a wait for the peer of a pair in front of tcgen05.alloc."""

REFUSED = {"matmul_clusters": ((3, 6), "a kernel uses one of them")}
"""Programs that have no kernel: both .cta_group in one, which ptxas 13 refuses too."""


def expected(name: str) -> set[str]:
    """The rules that a program breaks with this release."""
    return {rule for rule, (mended, names) in FOUND.items() if mended > VERSION and name in names}


def tried(name: str, program: Callable[[], Result]) -> bool:
    """Run a program, say in a line what came, and whether that is as it should be."""
    first = len(convc.triton.launches())
    begun = time.perf_counter()
    mended, words = REFUSED.get(name, ((), ""))
    try:
        got, want = program()
        same = bool(np.array_equal(got, want))
    except Exception as error:
        known = mended > VERSION and words in str(error)
        print(f"{name}: {'known, ' if known else ''}{type(error).__name__}: {error}", flush=True)
        return known
    found = [finding for launch in convc.triton.launches()[first:] for finding in launch.findings]
    worse = {finding.rule for finding in found if finding.verdict > Verdict.review}
    reviews = {finding.rule for finding in found} - worse
    good = same and worse == expected(name) and not mended > VERSION
    said = f"right, {'as known' if good else 'NOT AS KNOWN'}" if same else "WRONG"
    seconds = time.perf_counter() - begun
    print(f"{name}: {said}, {seconds:.1f} s; worse: {sorted(worse)}; reviews: {sorted(reviews)}", flush=True)
    return good


def main(programs: dict[str, Callable[[], Result]]) -> None:
    parser = argparse.ArgumentParser(description="Run programs on the simulator.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(programs)}; all when left out")
    parser.add_argument("--target", default="sm_100a")
    given = parser.parse_args()
    convc.triton.activate(given.target, raises=False)
    print(f"Triton {triton.__version__}, {given.target}")
    done = [tried(name, programs[name]) for name in given.names or programs]
    sys.exit(0 if all(done) else 1)


if __name__ == "__main__":
    main(PROGRAMS)
