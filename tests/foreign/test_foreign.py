"""Kernels of another compiler: those of make_triton.py and make_gluon.py run on the simulator and agree with numpy.

Where an operation is exact, or rounds once, so is the comparison: the matmuls multiply small integers (or small
binary fractions), so that no order of the sum can change it. Only the softmax and the tf32 matmul have a tolerance,
derived where it stands.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from kernel_folder import foreign, fractions

E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
BF16 = np.dtype(ml_dtypes.bfloat16)
F32_UNIT = 2.0**-24
"""Relative error of one rounding to float32."""


def test_saxpy() -> None:
    """The hand-written example of the README; its launch file says a = 2.5."""
    kernel = foreign("saxpy")
    x, y = np.random.default_rng(0).integers(-99, 99, (2, 1000)).astype(np.float32)
    np.testing.assert_array_equal(kernel.run(x=x, y=y)["y"], np.float32(2.5) * x + y)


def test_vector_add() -> None:
    kernel = foreign("vector_add")
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 1000)).astype(np.float32)
    np.testing.assert_array_equal(kernel.run(x=x, y=y)["out"], x + y)


def test_softmax() -> None:
    kernel = foreign("softmax")
    x = np.random.default_rng(2).normal(scale=4, size=kernel.shape("x")).astype(np.float32)
    out = kernel.run(x=x)["out"]
    shifted = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    want = shifted / shifted.sum(axis=1, keepdims=True)
    # x - max and its product with log2(e) round once each: |x - max| * 2 roundings of the exponent. Then, relative:
    # ex2.approx 2^-22, a sum of 256 terms as a tree 8 roundings of the exponentials' own error, div.full 2^-22.
    exponent = 2 * F32_UNIT * np.ptp(x, axis=1, keepdims=True)
    tolerance = want * (2 * exponent + 2 * 2.0**-22 + 8 * F32_UNIT + 2.0**-22)
    assert (np.abs(out - want) <= tolerance).all()


def test_transpose() -> None:
    kernel = foreign("transpose")
    x = np.random.default_rng(3).normal(size=kernel.shape("x")).astype(np.float16)
    np.testing.assert_array_equal(kernel.run(x=x)["out"], x.T)


def test_histogram() -> None:
    kernel = foreign("histogram")
    x = np.random.default_rng(4).integers(0, 16, 1000, dtype=np.int32)
    out = kernel.run(x=x, counts=np.arange(16, dtype=np.int32), total=np.array([100], np.int32))
    np.testing.assert_array_equal(out["counts"], np.arange(16) + np.bincount(x, minlength=16))
    assert out["total"][0] == 100 + x.sum()


def test_casts() -> None:
    """Rounding to nearest even everywhere; the eight-bit floats saturate, and their subnormals are kept."""
    kernel = foreign("casts")
    rng = np.random.default_rng(5)
    x = (rng.normal(size=1000) * 2.0 ** rng.uniform(-20, 14, 1000)).astype(np.float32)
    out = kernel.run(x=x)
    e4m3 = np.clip(x, -448, 448).astype(E4M3)
    e5m2 = np.clip(x, -57344, 57344).astype(E5M2)
    whole = np.trunc(np.clip(x, -128, 127)).astype(np.int8)
    np.testing.assert_array_equal(out["half"], x.astype(np.float16))
    np.testing.assert_array_equal(out["brain"].astype(np.float32), x.astype(BF16).astype(np.float32))
    np.testing.assert_array_equal(out["e4m3"].view(np.uint8), e4m3.view(np.uint8))
    np.testing.assert_array_equal(out["e5m2"].view(np.uint8), e5m2.view(np.uint8))
    np.testing.assert_array_equal(out["whole"], whole)
    np.testing.assert_array_equal(out["back"], e4m3.astype(np.float32) + whole)


@pytest.mark.parametrize(
    ("name", "dtype"), [("matmul_f16", np.dtype(np.float16)), ("matmul_bf16", BF16), ("matmul_e4m3", E4M3)]
)
def test_matmul_with_pointers(name: str, dtype: np.dtype) -> None:
    kernel = foreign(name)
    rng = np.random.default_rng(6)
    a, b = (fractions(rng, kernel.shape(key), dtype) for key in "ab")
    np.testing.assert_array_equal(kernel.run(a=a, b=b)["out"], a.astype(np.float32) @ b.astype(np.float32))


def test_matmul_tf32() -> None:
    """The tensor core takes float32 operands without their low 13 bits."""
    kernel = foreign("matmul_tf32")
    rng = np.random.default_rng(7)
    a, b = (rng.normal(size=kernel.shape(key)).astype(np.float32) for key in "ab")
    cut_a, cut_b = ((v.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64) for v in (a, b))
    # Products of 11-bit numbers are exact; each of the k additions rounds a partial sum that is at most sum |a||b|.
    tolerance = a.shape[1] * F32_UNIT * (np.abs(cut_a) @ np.abs(cut_b))
    assert (np.abs(kernel.run(a=a, b=b)["out"] - cut_a @ cut_b) <= tolerance).all()


@pytest.mark.parametrize(
    ("name", "dtype", "result"),
    [
        ("matmul_tma_f16", np.dtype(np.float16), np.dtype(np.float16)),
        ("matmul_tma_specialized", np.dtype(np.float16), np.dtype(np.float16)),
        ("matmul_tma_e5m2", E5M2, np.dtype(np.float32)),
        ("matmul_device_tma", BF16, BF16),
        ("gluon_pairs", np.dtype(np.float16), np.dtype(np.float16)),
    ],
)
def test_matmul_with_tensor_maps(name: str, dtype: np.dtype, result: np.dtype) -> None:
    """Tiles that overhang the tensor are filled with zeros when loaded and cut when stored."""
    kernel = foreign(name)
    rng = np.random.default_rng(8)
    a, b = (fractions(rng, kernel.shape(key), dtype) for key in "ab")
    want = (a.astype(np.float32) @ b.astype(np.float32).T).astype(result)
    out = kernel.run(a=a, b=b)["out"]
    np.testing.assert_array_equal(out.astype(np.float32), want.astype(np.float32))


def test_convolution_by_another_compiler() -> None:
    """gluon_conv: 3 x 3, stride 2, padding 1, with im2col tensor copies; tiles span images."""
    kernel = foreign("gluon_conv")
    rng = np.random.default_rng(9)
    x, w = (fractions(rng, kernel.shape(key), np.dtype(np.float16)) for key in "xw")
    batch, height, width, channels = x.shape
    padded = np.zeros((batch, height + 2, width + 2, channels), np.float32)
    padded[:, 1:-1, 1:-1] = x
    taps = w.astype(np.float32).reshape(-1, 3, 3, channels)
    p, q = (height + 1) // 2, (width + 1) // 2
    want = sum(
        padded[:, r : r + 2 * p : 2, s : s + 2 * q : 2] @ taps[:, r, s].T for r in range(3) for s in range(3)
    ).reshape(batch * p * q, -1)
    np.testing.assert_array_equal(kernel.run(x=x, w=w)["y"], want.astype(np.float16))
