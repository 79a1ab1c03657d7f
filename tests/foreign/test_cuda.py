"""Kernels of NVIDIA's own compiler: the CUDA C++ of the folders cuda_* runs on the simulator and agrees with numpy.

Sums are of small numbers, so that their order does not matter; tolerances are derived where they stand.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
from kernel_folder import foreign, fractions

BF16, F16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)


def test_cooperative_groups() -> None:
    kernel = foreign("cuda_groups")
    x = np.random.default_rng(40).integers(-50, 50, kernel.shape("x")).astype(np.float32)
    out = kernel.run(x=x, total=np.array([7], np.float32), scans=np.full(kernel.shape("scans"), -1, np.int32))
    assert out["total"][0] == 7 + x.sum()
    threads = range(96)
    tiles = [range(i // 8 * 8, i + 1) for i in threads]
    warps = [range(i // 32 * 32, i // 32 * 32 + 32) for i in threads]
    thirds = [[j for j in warp if j % 3 == 0] for warp in warps]
    labels = [[j for j in warp if j % 5 == i % 5] for i, warp in zip(threads, warps, strict=True)]
    want = [
        [sum(tile) - i for i, tile in zip(threads, tiles, strict=True)],
        [max(j ^ 5 for j in tile) for tile in tiles],
        [max(third) * 100 + third.index(i) if i % 3 == 0 else -1 for i, third in zip(threads, thirds, strict=True)],
        [len(label) * 100 + label[0] for label in labels],
    ]
    np.testing.assert_array_equal(out["scans"], want)


def test_switches_functions_and_local_arrays() -> None:
    kernel = foreign("cuda_dispatch")
    x = np.random.default_rng(41).integers(-1000, 1000, kernel.shape("x"), dtype=np.int32)
    assert set((x & 15).tolist()) == set(range(16))
    out = kernel.run(x=x)
    values = x.tolist()
    np.testing.assert_array_equal(out["steps"], [stepped(v, i) for i, v in enumerate(values)])
    np.testing.assert_array_equal(out["sorted"], [np.float32(chosen(v)) for v in values])


def stepped(v: int, i: int) -> int:
    """`step` of kernel.cu; none of these results leaves 32 bits."""
    toward_zero = math.trunc
    match v & 15:
        case 0:
            return v + 1
        case 1:
            return v * 3
        case 2:
            return v ^ 77
        case 3:
            return v * i + (1 if v > i else -1) + v
        case 4:
            return toward_zero(v / 7)
        case 5:
            return int(math.fmod(v, 9))
        case 6:
            return -v
        case 7:
            return (v + 100) >> 1
        case 8:
            return v >> 1
        case 9:
            return (v & 0xFFFFFFFF).bit_count()
        case 10:
            return 2 * v
        case 11:
            return sum(k * k for k in range(v & 31))
        case 12:
            return abs(v)
        case 13:
            return v * (1 << 20) >> 32
        case 14:
            return min(v, i)
    return i * v + (1 if i > v else -1) - i


def chosen(v: int) -> float:
    """What kernel.cu stores in ``sorted``."""
    row = [v * j + (3, 1, 4, 1, 5, 9, 2, 6)[j & 7] for j in range(16)]
    j = v & 3
    return sorted(row)[v & 15] + row[(v + j) & 15] * (0.5, 0.25, 2.0, -1.0)[j] * j + j * v


def test_doubles() -> None:
    """The compiler's own rsqrt, exp and cbrt are right to one or two units in the last place, the rest is exact."""
    kernel = foreign("cuda_formats")
    out, inputs = formats(kernel)
    x = inputs["d"]
    near = np.array([[1 / math.sqrt(v), math.exp(-v), math.cbrt(v)] for v in x.tolist()]).T
    np.testing.assert_allclose(out["doubles"][[0, 1, 3]], near, rtol=2 * 2.0**-52)
    np.testing.assert_array_equal(out["doubles"][2], np.fmod(x, 0.3))
    np.testing.assert_array_equal(out["doubles"][4], x / 3)  # x + 1e-17 rounded down is x


def test_pairs_of_halves() -> None:
    """Fused operations round once: products of two f16 are exact in float64."""
    kernel = foreign("cuda_formats")
    out, inputs = formats(kernel)
    a, c = inputs["h"].astype(np.float64), inputs["b"].astype(np.float64)
    low, high = a[:, :1], a[:, 1:]
    halves = [
        a * a + (a / 2).astype(F16).astype(np.float64),
        np.maximum(-a, np.minimum(a, 0.5)),
        np.maximum(a / 2 - 0.5, 0),
        np.clip(np.abs(a) + 0.5, 0, 1),
        np.where(low < high, a, a[:, ::-1]),
        np.concatenate([np.rint(high), (low / 3).astype(np.float32)], axis=1),
    ]
    np.testing.assert_array_equal(out["halves"], np.array([each.astype(F16) for each in halves]))
    brains = [c * c + c, c * (c - 1).astype(BF16).astype(np.float64)]
    want = np.array([each.astype(np.float32).astype(BF16) for each in brains])
    np.testing.assert_array_equal(out["brains"].astype(np.float32), want.astype(np.float32))


def test_floats_of_eight_six_and_four_bits() -> None:
    kernel = foreign("cuda_formats")
    out, inputs = formats(kernel)
    first, second = inputs["h"].astype(np.float32).T
    e4m3, e5m2 = first.astype(ml_dtypes.float8_e4m3fn), second.astype(ml_dtypes.float8_e5m2)
    e2m3 = first.clip(-7.5, 7.5).astype(ml_dtypes.float6_e2m3fn)
    four = [half.clip(-6, 6).astype(ml_dtypes.float4_e2m1fn).view(np.uint8) for half in (first, second)]
    want = np.stack([e4m3.view(np.uint8), e5m2.view(np.uint8), e2m3.view(np.uint8), four[0] | four[1] << 4], axis=1)
    np.testing.assert_array_equal(out["small"], want)
    back = e4m3.astype(np.float32) + e5m2.astype(np.float32) + e2m3.astype(np.float32)
    np.testing.assert_array_equal(out["back"], back)


def formats(kernel) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Results and inputs of cuda_formats."""
    rng = np.random.default_rng(42)
    inputs = {
        "d": rng.uniform(0.1, 5, kernel.shape("d")),
        "h": rng.normal(0, 2, kernel.shape("h")).astype(F16),
        "b": rng.normal(0, 2, kernel.shape("b")).astype(BF16),
    }
    return kernel.run(**inputs), inputs


def test_a_pipeline_of_asynchronous_copies() -> None:
    kernel = foreign("cuda_pipeline")
    x = fractions(np.random.default_rng(43), kernel.shape("x"), np.dtype(np.float32))
    sums = x.sum(axis=1)[:, ::-1]
    np.testing.assert_array_equal(kernel.run(x=x)["out"], sums + np.roll(sums, -1, axis=1))


def test_shared_memory_of_a_cluster() -> None:
    kernel = foreign("cuda_cluster")
    x = np.random.default_rng(44).integers(0, 1 << 20, kernel.shape("x"), dtype=np.int32)
    out = kernel.run(x=x)
    counts = [np.bincount(each.reshape(-1) % 40, minlength=40).reshape(4, 10) for each in x]
    np.testing.assert_array_equal(out["counts"], counts)
    np.testing.assert_array_equal(out["sums"], np.roll(x, 1, axis=1) + 32)


def test_tensor_copies() -> None:
    kernel = foreign("cuda_tensor_copy")
    x = fractions(np.random.default_rng(45), kernel.shape("from"), np.dtype(np.float32))
    untouched = np.full_like(x, np.nan)
    out = kernel.run(**{"from": x, "to": untouched, "sum": np.ones(kernel.shape("sum"), np.float32)})
    np.testing.assert_array_equal(out["to"], x / 2)
    padded = np.zeros((48, 96), np.float32)
    padded[:40, :72] = x / 2
    np.testing.assert_array_equal(out["sum"], 1 + padded.reshape(3, 16, 3, 32).sum(axis=(0, 2)))


def test_matrices_of_warpgroups() -> None:
    """A GEMM of sm_90a: a producer, a ring of swizzled tiles, two warpgroups with wgmma; registers change hands."""
    kernel = foreign("cuda_warpgroup")
    rng = np.random.default_rng(47)
    a, b = (fractions(rng, kernel.shape(name), np.dtype(F16)) for name in "ab")
    out = kernel.run(a=a, b=b, c=np.zeros(kernel.shape("c"), np.float32))
    np.testing.assert_array_equal(out["c"], a.astype(np.float32) @ b.astype(np.float32).T)


def test_matrices_of_a_warp() -> None:
    """nvcuda::wmma in five element types; numbers are whole or halves, so that every order gives the same."""
    kernel = foreign("cuda_wmma")
    rng = np.random.default_rng(46)
    a, b, brains, floats = (
        fractions(rng, kernel.shape(name), np.dtype(dtype))
        for name, dtype in (("a", F16), ("b", F16), ("brains", BF16), ("floats", np.float32))
    )
    doubles = rng.integers(-9, 10, kernel.shape("doubles")).astype(np.float64)
    integers = rng.integers(-128, 128, kernel.shape("bytes"), dtype=np.int8)
    out = kernel.run(a=a, b=b, brains=brains, floats=floats, doubles=doubles, bytes=integers)
    np.testing.assert_array_equal(out["out"], a.astype(np.float32) @ b.astype(np.float32).T / 2 + 1)
    left, right = (each.astype(np.float32) for each in (brains[:512].reshape(16, 32), brains[512:].reshape(16, 8)))
    np.testing.assert_array_equal(out["brain_out"], right.T @ left + 2)
    left, right, sums = floats[:128].reshape(16, 8), floats[128:256].reshape(8, 16), floats[256:].reshape(16, 16)
    np.testing.assert_array_equal(out["tf32_out"], left @ right + sums)
    np.testing.assert_array_equal(out["double_out"], doubles[0] @ doubles[1].T)
    left, right = (each.astype(np.int32) for each in (integers[:128].reshape(8, 16), integers[128:].reshape(32, 16)))
    np.testing.assert_array_equal(out["byte_out"], left @ right.T + 7)
    bits, others = (np.unpackbits(each.view(np.uint8)).reshape(8, 128) for each in (integers[:128], integers[128:256]))
    np.testing.assert_array_equal(out["bit_out"], (bits[:, None] != others).sum(axis=2))
