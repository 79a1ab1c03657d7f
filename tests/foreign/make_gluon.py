"""Compile two Gluon kernels for sm_100a into kernel folders, as make_triton.py does for Triton.

Gluon is the explicit language under Triton (part of the same package): the kernel names its barriers, copies and
memory, so it reaches what Triton's own lowering never writes.

* ``gluon_pairs``: a matmul by clusters of four CTAs, two pairs. The CTAs of a pair multiply together
  (``cta_group::2``); both pairs share the tile of b, which a copy multicasts to them.
* ``gluon_conv``: a strided, padded 3 x 3 convolution whose activations come by im2col tensor copies. It is the
  problem that convc itself compiles, solved by another compiler.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import make_triton
from make_triton import POINTER, Case, Descriptor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    tcgen05_mma,
    tcgen05_mma_barrier_count,
)
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

PAIRS = gl.constexpr(((1, 0), (2, 0)))
"""Four CTAs lie one below the other in a and out."""


@gluon.jit
def gluon_pairs(a, b, out, k):
    """out = a @ b.T: a is (m, k) in tiles of 512 x 64, b is (n, k) in tiles of 128 x 64, out is (m, n)."""
    row = gl.program_id(0) * 512
    column = gl.program_id(1) * 128
    left = gl.allocate_shared_memory(a.dtype, a.block_shape, a.layout)
    right = gl.allocate_shared_memory(b.dtype, b.block_shape, b.layout)
    layout: gl.constexpr = TensorMemoryLayout((128, 128), col_stride=1, cga_layout=PAIRS, two_ctas=True)
    acc = allocate_tensor_memory(gl.float32, [512, 128], layout)
    loaded = mbarrier.allocate_mbarrier(two_ctas=True)
    free = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    readers: gl.constexpr = tcgen05_mma_barrier_count([left, right], multicast=True, two_ctas=True)
    mbarrier.init(free, count=readers)
    phase = 0
    for start in range(0, k, 64):
        mbarrier.expect(loaded, a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [row, start], loaded, left, multicast=True)
        tma.async_load(b, [column, start], loaded, right, multicast=True)
        mbarrier.wait(loaded, phase, deps=[left, right])
        tcgen05_mma(left, right.permute((1, 0)), acc, use_acc=start > 0, multicast=True, mbarriers=[free])
        mbarrier.wait(free, phase, deps=[left, right])
        phase ^= 1
    mbarrier.invalidate(loaded)
    mbarrier.invalidate(free)
    result = gl.allocate_shared_memory(out.dtype, out.block_shape, out.layout)
    result.store(acc.load().to(out.dtype))
    fence_async_shared()
    tma.async_store(out, [row, column], result)
    tma.store_wait(pendings=0)


@gluon.jit
def gluon_conv(x, w, y, P: gl.constexpr, Q: gl.constexpr, STRIDE: gl.constexpr, PAD: gl.constexpr, C: gl.constexpr):
    """y[m, k] = sum over r, s, c of the pixel of x under (m, r, s) times w[k, (r, s, c)], for a 3 x 3 filter."""
    first = gl.program_id(0) * 128
    column = gl.program_id(1) * 64
    image = first // (P * Q)
    p = first % (P * Q) // Q
    q = first % Q
    pixels = gl.allocate_shared_memory(x.dtype, x.block_shape, x.layout)
    filters = gl.allocate_shared_memory(w.dtype, w.block_shape, w.layout)
    acc = allocate_tensor_memory(gl.float32, [128, 64], TensorMemoryLayout((128, 64), col_stride=1))
    loaded = mbarrier.allocate_mbarrier()
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    phase = 0
    for step in range(9 * (C // 64)):
        tap = step // (C // 64)
        channel = step % (C // 64) * 64
        mbarrier.expect(loaded, x.nbytes_per_cta + w.nbytes_per_cta)
        corner = [image, p * STRIDE - PAD, q * STRIDE - PAD, channel]
        tma.async_load_im2col(x, corner, [(tap // 3).to(gl.int16), (tap % 3).to(gl.int16)], loaded, pixels)
        tma.async_load(w, [column, tap * C + channel], loaded, filters)
        mbarrier.wait(loaded, phase, deps=[pixels, filters])
        tcgen05_mma(pixels, filters.permute((1, 0)), acc, use_acc=step > 0, mbarriers=[done])
        mbarrier.wait(done, phase, deps=[pixels, filters])
        phase ^= 1
    mbarrier.invalidate(loaded)
    mbarrier.invalidate(done)
    result = gl.allocate_shared_memory(y.dtype, y.block_shape, y.layout)
    result.store(acc.load().to(y.dtype))
    fence_async_shared()
    tma.async_store(y, [first, column], result)
    tma.store_wait(pendings=0)


@dataclass(frozen=True, kw_only=True)
class Tiles(Descriptor):
    """A tensor descriptor that names its layout in shared memory: always a swizzle of 128 bytes of 16-bit elements."""

    ctas: tuple[tuple[int, int], ...] = ()

    @property
    def layout(self) -> str:
        return repr(gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, cga_layout=self.ctas))

    @property
    def signature(self) -> str:
        return f"tensordesc<{POINTER[self.dtype][1:]}{list(self.block)},{self.layout}>"


@dataclass(frozen=True, kw_only=True)
class Im2col(Tiles):
    """An im2col descriptor of an NHWC tensor; ``block`` is (pixels, channels)."""

    stride: int
    lower: int
    upper: tuple[int, int]

    @property
    def signature(self) -> str:
        return f"tensordesc_im2col<{POINTER[self.dtype][1:]}{list(self.block)},input_rank=4,{self.layout}>"

    def tensor_map(self, name: str, meta: dict) -> dict:
        pixels, channels = meta["block_size"]
        plain = super().tensor_map(name, meta)
        del plain["box"]
        return plain | {
            "mode": "im2col",
            "element_strides": (1, self.stride, self.stride, 1),
            "lower": (self.lower, self.lower),
            "upper": self.upper[::-1],
            "pixels": pixels,
            "channels": channels,
        }


def conv_case(batch: int, channels: int, height: int, width: int, filters: int, stride: int, pad: int) -> Case:
    """A 3 x 3 convolution of NHWC activations by KRSC filters."""
    p, q = ((extent + 2 * pad - 3) // stride + 1 for extent in (height, width))
    # The box of start pixels spans P x Q of them: from -pad, in steps of stride.
    upper = tuple((count - 1) * stride + 1 - pad - extent for count, extent in ((p, height), (q, width)))
    m = batch * p * q
    return Case(
        kernel=gluon_conv,
        arguments={
            "x": Im2col(
                dtype="f16",
                shape=(batch, height, width, channels),
                block=(128, 64),
                stride=stride,
                lower=-pad,
                upper=upper,
            ),
            "w": Tiles(dtype="f16", shape=(filters, 9 * channels), block=(64, 64)),
            "y": Tiles(dtype="f16", shape=(m, filters), block=(128, 64)),
        },
        constants={"P": p, "Q": q, "STRIDE": stride, "PAD": pad, "C": channels},
        grid=(-(-m // 128), -(-filters // 64), 1),
    )


def pairs_case(m: int, n: int, k: int) -> Case:
    """A matmul by clusters of four CTAs."""
    return Case(
        kernel=gluon_pairs,
        arguments={
            "a": Tiles(dtype="f16", shape=(m, k), block=(512, 64), ctas=PAIRS.value),
            "b": Tiles(dtype="f16", shape=(n, k), block=(128, 64), ctas=((1, 0), (0, 0))),
            "out": Tiles(dtype="f16", shape=(m, n), block=(512, 128), ctas=PAIRS.value),
            "k": k,
        },
        constants={},
        grid=(-(-m // 512), -(-n // 128), 1),
        options={"num_ctas": 4},
    )


CASES = {"gluon_pairs": pairs_case(600, 200, 200), "gluon_conv": conv_case(5, 128, 13, 10, 72, 2, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}; all when left out")
    for name in parser.parse_args().names or CASES:
        make_triton.make(name, CASES[name], GluonASTSource)


if __name__ == "__main__":
    main()
