"""The probe of the tensor copy engine: a copy that starts in front of the first image."""

from __future__ import annotations

import numpy as np

from convc.ir.launch import PointerParam, TensorMapParam
from convc.ir.tensormap import TensorMap
from convc.probe.kernel import ProbeKernel, probe_kernel, probe_text
from convc.probe.probes import BOTH, RuleProbe

WIDTH = 9
HEIGHT = 9
IMAGES = 8
CHANNELS = 64
"""Bytes of a pixel."""


def _copy(target: str) -> ProbeKernel:
    """64 pixels from the image in front of the first: im2col::w along a row, on Hopper im2col, which has no other."""
    wide = target == "sm_100a"
    corners = (-1,) if wide else (-1, -1)
    tensor_map = TensorMap(
        mode="im2col_w" if wide else "im2col",
        buffer="x",
        dtype="u8",
        dims=(CHANNELS, WIDTH, HEIGHT, IMAGES),
        strides=(CHANNELS, CHANNELS * WIDTH, CHANNELS * WIDTH * HEIGHT),
        element_strides=(1, 1, 1, 1),
        lower=corners,
        upper=corners,
        channels=CHANNELS,
        pixels=64,
        swizzle="64B",
    )
    row = 4 if wide else HEIGHT - 3
    starts = enumerate((0, -1, row, -1))
    body = "".join(f"    mov.u32 %v{index}, {number};\n" for index, number in starts)
    mode = "im2col::w" if wide else "im2col"
    body += (
        f"    cp.async.bulk.tensor.4d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes "
        "[%rows], [%map, {%v0, %v1, %v2, %v3}], [%full], {%zero, %zero};"
    )
    pixels = np.random.default_rng(21).integers(1, 256, (IMAGES, HEIGHT, WIDTH, CHANNELS), np.uint8)
    buffers = {"x": pixels, "out": np.zeros(4096, np.uint8)}
    params = (TensorMapParam(map=tensor_map), PointerParam(buffer="out"))
    return probe_kernel(probe_text("copy", target, body), buffers, threads=256, params=params)


_BEFORE = "mov.u32 %v3, -1;"

COPIES: tuple[RuleProbe, ...] = (
    RuleProbe(
        name="start_before",
        question="What does a copy in im2col::w (on Hopper: im2col) read in front of the first image?",
        targets=BOTH,
        rule="a start before the first image is filled",
        kernel=_copy,
        variants={"filled": (), "first image": ((_BEFORE, "mov.u32 %v3, 0;"),)},
    ),
)
"""The probes of this module."""
