"""Gluon programs that run on the simulator through `convc.triton`, as triton_programs.py has those of Triton.

    triton-env/bin/python tests/foreign/gluon_programs.py [NAME ...]

Gluon's interface changes from release to release: these are for Triton 3.9, the kernels of make_gluon.py.
"""

from __future__ import annotations

import make_gluon
import numpy as np
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor, TensorDescriptorIm2Col
from triton_programs import F16, Result, integers, main, product

from convc.triton import Tensor

PAIRS = make_gluon.PAIRS.value


def layout(ctas: tuple[tuple[int, int], ...] = ()) -> gl.NVMMASharedLayout:
    return gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, cga_layout=ctas)


def tiles(array: np.ndarray, block: list[int], ctas: tuple[tuple[int, int], ...] = ()) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(Tensor(array), block, layout(ctas))


def run_conv() -> Result:
    """3 x 3, stride 2, padding 1, with im2col copies; tiles span images."""
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
    make_gluon.gluon_conv[(2, 2)](*descriptors, P=p, Q=q, STRIDE=2, PAD=1, C=channels)
    padded = np.pad(x.astype("f4"), ((0, 0), (1, 1), (1, 1), (0, 0)))
    want = sum(
        padded[:, r : r + 2 * p : 2, s : s + 2 * q : 2] @ w[:, r, s].astype("f4").T for r in range(3) for s in range(3)
    )
    return y, want.reshape(y.shape).astype(F16)


def run_pairs() -> Result:
    """Clusters of four CTAs, two pairs, which share a tile."""
    a, b = integers((600, 200)), integers((200, 200), seed=1)
    out = np.zeros((600, 200), F16)
    descriptors = (
        tiles(a, [512, 64], PAIRS),
        tiles(b, [128, 64], ((1, 0), (0, 0))),
        tiles(out, [512, 128], PAIRS),
    )
    make_gluon.gluon_pairs[(2, 2)](*descriptors, 200, num_ctas=4)
    return out, product(a, b.T, F16)


if __name__ == "__main__":
    main({"conv": run_conv, "pairs": run_pairs})
