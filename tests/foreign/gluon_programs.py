"""Gluon programs that run on the simulator through `convc.triton`, as triton_programs.py has those of Triton.

    triton-env/bin/python tests/foreign/gluon_programs.py [NAME ...]

Gluon's interface changes from release to release: ``pointwise`` takes the names that a release has, and the kernels of
make_gluon.py need Triton 3.8, the first with im2col descriptors.
"""

from __future__ import annotations

import numpy as np
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell
from triton.experimental.gluon.language.nvidia.blackwell import allocate_tensor_memory, tcgen05_mma
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton_programs import F16, VERSION, Result, integers, main, product

from convc.triton import Tensor

load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global
SUMS = gl.constexpr(
    blackwell.TensorMemoryLayout((128, 64), **({"col_stride": 1} if VERSION >= (3, 6) else {"unpacked": True}))
)
REGISTERS = gl.constexpr(gl.BlockedLayout([1, 64], [32, 1], [4, 1], [0, 1]))
TILES = gl.constexpr((128 + 64) * 64 * 2)
"""Bytes of a tile of each operand."""


@gluon.jit
def pointwise(x, w, y, C):
    """A 1 x 1 convolution: y[m, k] = sum over c of x[m, c] * w[k, c], in tiles of 128 pixels and 64 filters."""
    first = gl.program_id(0) * 128
    pixels = gl.allocate_shared_memory(x.dtype, x.block_type.shape, x.layout)
    filters = gl.allocate_shared_memory(w.dtype, w.block_type.shape, w.layout)
    acc = allocate_tensor_memory(gl.float32, [128, 64], SUMS)
    loaded = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    phase = 0
    for c in range(0, C, 64):
        mbarrier.expect(loaded, TILES)
        load(x, [first, c], loaded, pixels)
        load(w, [0, c], loaded, filters)
        mbarrier.wait(loaded, phase)
        tcgen05_mma(pixels, filters.permute((1, 0)), acc, use_acc=c > 0, mbarriers=[done])
        mbarrier.wait(done, phase)
        phase ^= 1
    mbarrier.invalidate(loaded)
    mbarrier.invalidate(done)
    result = gl.allocate_shared_memory(y.dtype, y.block_type.shape, y.layout)
    result.store(acc.load(REGISTERS).to(y.dtype))
    fence_async_shared()
    store(y, [first, 0], result)
    tma.store_wait(pendings=0)


def layout(ctas: tuple[tuple[int, int], ...] = ()) -> gl.NVMMASharedLayout:
    more = {"cga_layout": ctas} if ctas else {}
    return gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2, **more)


def tiles(array: np.ndarray, block: list[int], ctas: tuple[tuple[int, int], ...] = ()) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(Tensor(array), block, layout(ctas))


def run_pointwise() -> Result:
    x, w = integers((196, 256)), integers((64, 256), seed=1)
    y = np.zeros((196, 64), F16)
    pointwise[(2,)](tiles(x, [128, 64]), tiles(w, [64, 64]), tiles(y, [128, 64]), 256)
    return y, product(x, w.T, F16)


def run_conv() -> Result:
    """3 x 3, stride 2, padding 1, with im2col copies; tiles span images."""
    from make_gluon import gluon_conv
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptorIm2Col

    batch, height, width, channels, filters = 5, 13, 10, 128, 72
    x, w = integers((batch, height, width, channels)), integers((filters, 3, 3, channels), seed=1)
    p, q = (height + 1) // 2, (width + 1) // 2
    y = np.zeros((batch * p * q, filters), F16)
    pixels = TensorDescriptorIm2Col.from_tensor(
        Tensor(x),
        [128, 64],
        layout(),
        element_strides=[1, 2, 2, 1],
        pixel_box_lower_corner=[-1, -1],
        pixel_box_upper_corner=[2 * p - 2 - height, 2 * q - 2 - width],
    )
    descriptors = pixels, tiles(w.reshape(filters, -1), [64, 64]), tiles(y, [128, 64])
    gluon_conv[(2, 2)](*descriptors, P=p, Q=q, STRIDE=2, PAD=1, C=channels)
    padded = np.pad(x.astype("f4"), ((0, 0), (1, 1), (1, 1), (0, 0)))
    want = sum(
        padded[:, r : r + 2 * p : 2, s : s + 2 * q : 2] @ w[:, r, s].astype("f4").T for r in range(3) for s in range(3)
    )
    return y, want.reshape(y.shape).astype(F16)


def run_pairs() -> Result:
    """Clusters of four CTAs, two pairs, which share a tile."""
    from make_gluon import PAIRS, gluon_pairs

    pairs = PAIRS.value
    a, b = integers((600, 200)), integers((200, 200), seed=1)
    out = np.zeros((600, 200), F16)
    descriptors = (
        tiles(a, [512, 64], pairs),
        tiles(b, [128, 64], ((1, 0), (0, 0))),
        tiles(out, [512, 128], pairs),
    )
    gluon_pairs[(2, 2)](*descriptors, 200, num_ctas=4)
    return out, product(a, b.T, F16)


if __name__ == "__main__":
    main({"pointwise": run_pointwise} | ({"conv": run_conv, "pairs": run_pairs} if VERSION >= (3, 8) else {}))
