"""Layers of networks that nothing was fitted to, as `blind_h100.csv` and `candidates_h100.json.xz` name them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.layers import square
from convc.ir.problem import ConvProblem


def _made(
    channels: int, out: int, extent: tuple[int, ...], taps: int, stride: int, pad: int, dilation: int = 1
) -> ConvProblem:
    """A convolution of one or three dimensions, alike along all of them."""
    rank = len(extent)
    return ConvProblem(
        batch=1,
        operand="f16",
        out="f16",
        in_channels=channels,
        out_channels=out,
        in_extent=extent,
        kernel=(taps,) * rank,
        stride=(stride,) * rank,
        pad_lo=(pad,) * rank,
        pad_hi=(pad,) * rank,
        dilation=(dilation,) * rank,
        bias=True,
    )


LAYERS = {
    "effnetv2.fused24": square(24, 96, 112, kernel=3),
    "yolo8.cv1": square(384, 128, 80),
    "sdxl.vae512": square(512, 512, 64, kernel=3),
    "sam.neck3": square(256, 256, 64, kernel=3),
    "vit.patch": square(3, 768, 224, kernel=16, stride=16, pad=0),
    "mobile.stem": square(3, 32, 384, kernel=3, stride=2),
    "aspp.d12": square(512, 256, 33, kernel=3, pad=12, dilation=(12, 12)),
    "regnet.g24": square(240, 240, 28, kernel=3, groups=10),
    "convnext.dw7": square(192, 192, 28, kernel=7, groups=192),
    "whisper.conv1": _made(80, 384, (3000,), 3, 1, 1),
    "wavenet.d16": _made(128, 256, (8000,), 3, 1, 16, 16),
    "medical.down": _made(32, 64, (48, 48, 48), 3, 2, 1),
    "srgan.48": square(64, 256, 96, kernel=3),
}
BATCHES = (1, 4, 16)


def blind() -> Iterator[tuple[str, ConvProblem]]:
    """All layers with all batches, by name."""
    for name, problem in LAYERS.items():
        for batch in BATCHES:
            yield f"{name}_b{batch}", replace(problem, batch=batch)
