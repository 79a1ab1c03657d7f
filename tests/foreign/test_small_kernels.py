"""The everyday kernels of make_triton_small.py run on the simulator and agree with numpy.

Dots, sorts and scans work on small numbers, where no order can change the result. The others have a tolerance, derived
where it stands.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from kernel_folder import foreign, fractions

BF16 = np.dtype(ml_dtypes.bfloat16)


def test_small_dots_of_f16() -> None:
    kernel = foreign("small_dot_f16")
    rng = np.random.default_rng(20)
    a, b = (fractions(rng, kernel.shape(key), np.dtype(np.float16)) for key in "ab")
    want = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(kernel.run(a=a, b=b)["out"], want)


def test_small_dots_of_bytes() -> None:
    kernel = foreign("small_dot_s8")
    rng = np.random.default_rng(21)
    a, b = (rng.integers(-128, 128, kernel.shape(key), dtype=np.int8) for key in "ab")
    np.testing.assert_array_equal(kernel.run(a=a, b=b)["out"], a.astype(np.int32) @ b.astype(np.int32))


def test_sums_that_programs_add_up_atomically() -> None:
    kernel = foreign("split_k_tf32")
    rng = np.random.default_rng(22)
    a, b = (fractions(rng, kernel.shape(key), np.dtype(np.float32)) for key in "ab")
    start = fractions(rng, kernel.shape("out"), np.dtype(np.float32))
    np.testing.assert_array_equal(kernel.run(a=a, b=b, out=start)["out"], start + a @ b)


def test_attention() -> None:
    kernel = foreign("attention_bf16")
    rng = np.random.default_rng(23)
    q, k, v = (rng.normal(size=kernel.shape(key)).astype(BF16) for key in "qkv")
    out = kernel.run(q=q, k=k, v=v)["out"].astype(np.float64)
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    length, width = q.shape[1:]
    scores = np.where(np.tri(length, dtype=bool), q @ k.swapaxes(1, 2) / np.sqrt(width), -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    # The weights and the result are rounded to bf16, 2^-9 of at most sum |w v| each; what is done in f32 is finer.
    tolerance = 2.0**-8 * (1 + 2.0**-7) * (weights @ np.abs(v))
    assert (np.abs(out - weights @ v) <= tolerance).all()


def test_convolution_with_pointers() -> None:
    kernel = foreign("conv_pointers")
    rng = np.random.default_rng(24)
    x, w = (fractions(rng, kernel.shape(key), np.dtype(np.float16)) for key in "xw")
    batch, height, width, channels = x.shape
    padded = np.zeros((batch, height + 2, width + 2, channels), np.float32)
    padded[:, 1:-1, 1:-1] = x
    taps = w.astype(np.float32)
    want = sum(padded[:, r : r + height, s : s + width] @ taps[:, r, s].T for r in range(3) for s in range(3))
    out = kernel.run(x=x, w=w)["out"]
    np.testing.assert_array_equal(out, want.reshape(out.shape).astype(np.float16))


def test_layer_norm() -> None:
    kernel = foreign("layer_norm")
    rng = np.random.default_rng(25)
    x = rng.normal(3, 2, kernel.shape("x")).astype(np.float16)
    weight, bias = rng.normal(size=(2, *kernel.shape("weight"))).astype(np.float32)
    out = kernel.run(x=x, weight=weight, bias=bias)["out"].astype(np.float64)
    wide = x.astype(np.float64)
    normal = (wide - wide.mean(axis=1, keepdims=True)) / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
    want = normal * weight + bias
    # In f32: sums of 256 numbers as trees of 8 roundings, rsqrt.approx 2^-22, few roundings more; then one to f16.
    before = 2.0**-19 * (
        (np.abs(normal) + np.abs(wide) / wide.std(axis=1, keepdims=True)) * np.abs(weight) + np.abs(bias)
    )
    assert (np.abs(out - want) <= before + 2.0**-11 * (np.abs(want) + before) + 2.0**-25).all()


def philox(seed: int, count: int) -> np.ndarray:
    """First word of Philox4x32-10 (Salmon et al. 2011) for the counters 0, 1, ...: uint32 (count,)."""
    low = np.uint64(0xFFFFFFFF)
    words = [np.arange(count, dtype=np.uint64), *(np.zeros(count, np.uint64) for _ in range(3))]
    keys = [np.uint64(seed), np.uint64(0)]
    for _ in range(10):
        first, second = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        half = np.uint64(32)
        words = [second >> half ^ words[1] ^ keys[0], second & low, first >> half ^ words[3] ^ keys[1], first & low]
        keys = [key + np.uint64(step) & low for key, step in zip(keys, (0x9E3779B9, 0xBB67AE85), strict=True)]
    return words[0].astype(np.uint32)


def test_dropout() -> None:
    """Triton makes a number below 1 of a random word: its magnitude as s32, times 2^-31."""
    kernel = foreign("dropout")
    x = np.random.default_rng(26).normal(size=1000).astype(np.float32)
    words = philox(1234567, 1000).view(np.int32)
    uniform = np.where(words < 0, -words - 1, words).astype(np.float32) * np.float32(4.6566127342e-10)
    kept = uniform > np.float32(0.25)
    assert 700 < kept.sum() < 800
    out = kernel.run(x=x)["out"]
    assert (out[~kept] == 0).all()
    np.testing.assert_allclose(out[kept], x[kept] / 0.75, rtol=2.0**-22)  # div.full


def test_sort() -> None:
    kernel = foreign("sort_rows")
    x = np.random.default_rng(27).integers(-1000, 1000, kernel.shape("x"), dtype=np.int32)
    np.testing.assert_array_equal(kernel.run(x=x)["out"], np.sort(x, axis=1))


def test_a_recurrence_as_a_scan() -> None:
    kernel = foreign("recurrence")
    rng = np.random.default_rng(28)
    factor = rng.choice([1, -1, 1, -1, 0], kernel.shape("factor")).astype(np.float32)
    term = rng.integers(-8, 9, kernel.shape("term")).astype(np.float32)
    want, state = np.empty_like(term), np.zeros(len(term), np.float32)
    for i in range(term.shape[1]):
        state = want[:, i] = factor[:, i] * state + term[:, i]
    np.testing.assert_array_equal(kernel.run(factor=factor, term=term)["out"], want)
