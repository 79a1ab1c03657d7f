"""Compile Triton kernels of everyday use for sm_100a into kernel folders, as make_triton.py does for matmuls.

The dots are too small for tcgen05.mma, so Triton makes them of ldmatrix and mma.sync: f16, bf16, tf32 and int8. The
others bring what such kernels need besides: atomics, scans, sorts, philox random numbers.
"""

from __future__ import annotations

import argparse

import make_triton
import triton
import triton.language as tl
from make_triton import Buffer, Case, flat, tiles


@triton.jit
def small_dots(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """out[i] = a[i] @ b[i]: one small product for each program."""
    at = tl.program_id(0)
    row, column, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + at * M * K + row[:, None] * K + depth[None, :])
    right = tl.load(b + at * K * N + depth[:, None] * N + column[None, :])
    product = tl.dot(left, right, out_dtype=tl.int32 if left.dtype == tl.int8 else tl.float32)
    tl.store(out + at * M * N + row[:, None] * N + column[None, :], product.to(out.dtype.element_ty))


@triton.jit
def attention(q, k, v, out, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Causal softmax(q k^T scale) v of (heads, length, D), block by block with a running maximum and sum."""
    head = tl.program_id(1) * length * D
    row, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    queries = tl.load(q + head + row[:, None] * D + d[None, :], mask=row[:, None] < length, other=0.0)
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, length, BN):
        column = start + tl.arange(0, BN)
        inside = column < length
        keys = tl.load(k + head + column[None, :] * D + d[:, None], mask=inside[None, :], other=0.0)
        scores = tl.dot(queries, keys) * scale
        scores = tl.where(inside[None, :] & (column[None, :] <= row[:, None]), scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, axis=1))
        weights = tl.exp(scores - higher[:, None])
        fade = tl.exp(top - higher)
        total = total * fade + tl.sum(weights, axis=1)
        values = tl.load(v + head + column[:, None] * D + d[None, :], mask=inside[:, None], other=0.0)
        acc = acc * fade[:, None] + tl.dot(weights.to(values.dtype), values)
        top = higher
    result = (acc / total[:, None]).to(out.dtype.element_ty)
    tl.store(out + head + row[:, None] * D + d[None, :], result, mask=row[:, None] < length)


@triton.jit
def split_k(a, b, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PARTS: tl.constexpr):
    """out += a @ b, the sum over k split among programs that add atomically."""
    row, column = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(tl.program_id(2) * BK, k, BK * PARTS):
        depth = start + tl.arange(0, BK)
        left = tl.load(a + row[:, None] * k + depth[None, :], mask=(row[:, None] < m) & (depth[None, :] < k), other=0.0)
        inside = (depth[:, None] < k) & (column[None, :] < n)
        acc = tl.dot(left, tl.load(b + depth[:, None] * n + column[None, :], mask=inside, other=0.0), acc)
    tl.atomic_add(out + row[:, None] * n + column[None, :], acc, mask=(row[:, None] < m) & (column[None, :] < n))


@triton.jit
def conv_pointers(
    x,
    w,
    out,
    batch,
    height,
    width,
    filters,
    C: tl.constexpr,
    R: tl.constexpr,
    S: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    """Convolution as a sum of dots over the filter's taps: x (N, H, W, C), w (K, R, S, C), out (N H W, K), padded."""
    pixel, filter_ = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    n, h, v, c = pixel // (height * width), pixel // width % height, pixel % width, tl.arange(0, C)
    acc = tl.zeros((BM, BN), tl.float32)
    for tap in range(R * S):
        y, z = h + tap // S - R // 2, v + tap % S - S // 2
        inside = (n < batch) & (y >= 0) & (y < height) & (z >= 0) & (z < width)
        place = (n * height + y) * width + z
        taken = tl.load(x + place[:, None] * C + c[None, :], mask=inside[:, None], other=0.0)
        weight = tl.load(
            w + (filter_[None, :] * R * S + tap) * C + c[:, None], mask=filter_[None, :] < filters, other=0.0
        )
        acc = tl.dot(taken, weight, acc)
    inside = (pixel[:, None] < batch * height * width) & (filter_[None, :] < filters)
    tl.store(out + pixel[:, None] * filters + filter_[None, :], acc.to(out.dtype.element_ty), mask=inside)


@triton.jit
def layer_norm(x, weight, bias, out, columns, epsilon, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < columns
    start = tl.program_id(0) * columns
    row = tl.load(x + start + at, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, row - tl.sum(row, axis=0) / columns, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + epsilon)
    result = centred * scale * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
    tl.store(out + start + at, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def dropout(x, out, n, chance, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    kept = tl.rand(seed, at) > chance
    tl.store(out + at, tl.where(kept, tl.load(x + at, mask=inside) / (1 - chance), 0.0), mask=inside)


@triton.jit
def sort_rows(x, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + at, tl.sort(tl.load(x + at)))


@triton.jit
def after(factor, term, next_factor, next_term):
    """Two steps h -> factor h + term as one."""
    return factor * next_factor, term * next_factor + next_term


@triton.jit
def recurrence(factor, term, out, columns, BLOCK: tl.constexpr):
    """h[i] = factor[i] h[i - 1] + term[i], as an associative scan."""
    at = tl.arange(0, BLOCK)
    inside = at < columns
    start = tl.program_id(0) * columns
    f = tl.load(factor + start + at, mask=inside, other=1.0)
    t = tl.load(term + start + at, mask=inside, other=0.0)
    _, h = tl.associative_scan((f, t), 0, after)
    tl.store(out + start + at, h, mask=inside)


def dots_case(dtype: str, result: str, count: int, m: int, n: int, k: int) -> Case:
    """``count`` products of m x k and k x n."""
    return Case(
        kernel=small_dots,
        arguments={
            "a": Buffer(dtype=dtype, shape=(count, m, k)),
            "b": Buffer(dtype=dtype, shape=(count, k, n)),
            "out": Buffer(dtype=result, shape=(count, m, n)),
        },
        constants={"M": m, "N": n, "K": k},
        grid=(count, 1, 1),
    )


def attention_case(dtype: str, heads: int, length: int, width: int, block: int) -> Case:
    each = Buffer(dtype=dtype, shape=(heads, length, width))
    return Case(
        kernel=attention,
        arguments={"q": each, "k": each, "v": each, "out": each, "length": length, "scale": width**-0.5},
        constants={"BM": block, "BN": block, "D": width},
        grid=(tiles(length, block), heads, 1),
        options={"num_stages": 1},
    )


def split_case(dtype: str, m: int, n: int, k: int, parts: int) -> Case:
    return Case(
        kernel=split_k,
        arguments={
            "a": Buffer(dtype=dtype, shape=(m, k)),
            "b": Buffer(dtype=dtype, shape=(k, n)),
            "out": Buffer(dtype="f32", shape=(m, n)),
            "m": m,
            "n": n,
            "k": k,
        },
        constants={"BM": 32, "BN": 32, "BK": 32, "PARTS": parts},
        grid=(tiles(m, 32), tiles(n, 32), parts),
        options={"num_stages": 2},
    )


def conv_case(batch: int, height: int, width: int, channels: int, filters: int) -> Case:
    pixels = batch * height * width
    return Case(
        kernel=conv_pointers,
        arguments={
            "x": Buffer(dtype="f16", shape=(batch, height, width, channels)),
            "w": Buffer(dtype="f16", shape=(filters, 3, 3, channels)),
            "out": Buffer(dtype="f16", shape=(pixels, filters)),
            "batch": batch,
            "height": height,
            "width": width,
            "filters": filters,
        },
        constants={"C": channels, "R": 3, "S": 3, "BM": 32, "BN": 16},
        grid=(tiles(pixels, 32), tiles(filters, 16), 1),
    )


def rows(dtype: str) -> Buffer:
    return Buffer(dtype=dtype, shape=(5, 200))


CASES = {
    "small_dot_f16": dots_case("f16", "f16", 6, 16, 16, 16),
    "small_dot_s8": dots_case("s8", "s32", 3, 32, 16, 64),
    "attention_bf16": attention_case("bf16", 2, 100, 32, 32),
    "split_k_tf32": split_case("tf32", 70, 50, 200, 2),
    "conv_pointers": conv_case(2, 7, 9, 16, 20),
    "layer_norm": Case(
        kernel=layer_norm,
        arguments={
            "x": rows("f16"), "weight": flat("f32", 200), "bias": flat("f32", 200), "out": rows("f16"),
            "columns": 200, "epsilon": 1e-5,
        },
        constants={"BLOCK": 256}, grid=(5, 1, 1),
    ),
    "dropout": Case(
        kernel=dropout,
        arguments={"x": flat("f32", 1000), "out": flat("f32", 1000), "n": 1000, "chance": 0.25, "seed": 1234567},
        constants={"BLOCK": 256}, grid=(4, 1, 1),
    ),
    "sort_rows": Case(
        kernel=sort_rows,
        arguments={"x": Buffer(dtype="s32", shape=(3, 128)), "out": Buffer(dtype="s32", shape=(3, 128))},
        constants={"N": 128}, grid=(3, 1, 1),
    ),
    "recurrence": Case(
        kernel=recurrence,
        arguments={"factor": rows("f32"), "term": rows("f32"), "out": rows("f32"), "columns": 200},
        constants={"BLOCK": 256}, grid=(5, 1, 1),
    ),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}; all when left out")
    for name in parser.parse_args().names or CASES:
        make_triton.make(name, CASES[name])


if __name__ == "__main__":
    main()
