"""wgmma against A B^T + C of whole numbers, in every type, with the manual's fragments and layouts."""

from __future__ import annotations

import numpy as np
import pytest
from support.recorded import assemble_all, recorded
from warpgroup_kernels import STORED, Wgmma, collect_sums, deal_rows, instructions, kernel, lay, run, tile, word

from convc.machine import RunOptions
from convc.machine.base.switches import Switches


@pytest.fixture(scope="module", autouse=True)
def every_kernel_is_ptx():
    with recorded() as texts:
        yield
    assemble_all(texts)


def small(rng: np.random.Generator, shape: tuple[int, int], kind: str) -> np.ndarray:
    low = 0 if kind == "u8" else -3
    return rng.integers(low, 4, shape).astype(np.float32).astype(STORED[kind])


def problem(mma: Wgmma, steps: int, swizzle: str, seed: int = 1):
    """Matrices of ``steps`` instructions in a shared-memory image, descriptors, and the exact product."""
    rng = np.random.default_rng(seed)
    d, a, b = mma.types
    left, right = small(rng, (64, steps * mma.k), a), small(rng, (mma.n, steps * mma.k), b)
    c = small(rng, (64, mma.n), d)
    image = np.zeros(65536 + 32768, np.uint8)
    tiles = tile(64, 32 * steps, swizzle), tile(mma.n, 32 * steps, swizzle, 32768)
    lay(image, tiles[0], left)
    lay(image, tiles[1], right)
    step = 16 if swizzle == "none" else 2
    words = [(word(tiles[0]) + step * i, word(tiles[1]) + step * i) for i in range(steps)]
    fragments = np.concatenate([deal_rows(left[:, i * mma.k :][:, : mma.k]) for i in range(steps)], axis=1)
    exact = left.astype(np.float64) @ right.astype(np.float64).T
    return image, words, c, fragments, exact


HEADS = [
    "m64n8k16.f32.f16.f16", "m64n72k16.f32.f16.f16", "m64n256k16.f32.f16.f16", "m64n32k16.f16.f16.f16",
    "m64n24k16.f32.bf16.bf16", "m64n40k8.f32.tf32.tf32", "m64n16k32.f32.e4m3.e4m3", "m64n24k32.f16.e4m3.e5m2",
    "m64n8k32.f32.e5m2.e4m3", "m64n32k32.f16.e5m2.e5m2", "m64n96k32.s32.s8.s8", "m64n16k32.s32.u8.s8",
    "m64n8k32.satfinite.s32.s8.u8", "m64n24k32.s32.u8.u8",
]  # fmt: skip


@pytest.mark.parametrize("numerics", ["float32", "exact"])
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("registers", [False, True])
def test_products_of_small_numbers(head, registers, numerics):
    mma = Wgmma(head, a_in_registers=registers)
    swizzle = ("none", "32B", "64B", "128B")[mma.n // 8 % 4]
    steps = {"none": 2, "32B": 1, "64B": 2, "128B": 4}[swizzle]
    image, words, c, fragments, exact = problem(mma, steps, swizzle)
    text = kernel(mma, image.size, instructions(mma, words, ["1"] * steps), count=steps)
    result = run(text, mma, image, c, fragments, options=RunOptions(switches=Switches(numerics=numerics)))
    got = collect_sums(result.buffers["out"], mma.n, mma.types[0])
    assert np.array_equal(got.astype(np.float64), exact + c.astype(np.float64))
    assert result.findings == ()
