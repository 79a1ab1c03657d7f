"""Cases of operators that slide windows over images, or normalise them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from conformance.host_cases import HostCase, case, counts, floats, ints, normal

_SIZES = {1: (11,), 2: (9, 10), 3: (5, 6, 7)}


def windows_cases() -> Iterator[HostCase]:
    """All of them."""
    for part in (_pools, _global_pools, _norms, _convolutions):
        yield from part()


def _pools() -> Iterator[HostCase]:
    own = {"MaxPool": {}, "AveragePool": {}, "LpPool": {"p": 3}}
    for (op, more), rank in itertools.product(own.items(), (1, 2, 3)):
        x = normal(2, 3, *_SIZES[rank])
        k3 = {"kernel_shape": [3] * rank, **more}
        for what, corner in {
            "plain": {},
            "s1p1": {"pads": [1] * 2 * rank},
            "s2": {"strides": [2] * rank},
            "uneven pads": {"pads": [0] * rank + [1] * rank, "strides": [2] * rank},
            "ceil s2": {"strides": [2] * rank, "ceil_mode": 1},
            "ceil s3": {"strides": [3] * rank, "ceil_mode": 1},
            "ceil s1p1": {"pads": [1] * 2 * rank, "ceil_mode": 1},
            "ceil s2p1": {"strides": [2] * rank, "pads": [1] * 2 * rank, "ceil_mode": 1},
            "same upper": {"strides": [2] * rank, "auto_pad": "SAME_UPPER"},
            "same lower": {"strides": [2] * rank, "auto_pad": "SAME_LOWER"},
            "same lower s1": {"auto_pad": "SAME_LOWER"},
            "valid": {"strides": [2] * rank, "auto_pad": "VALID"},
            "dilated": {"dilations": [2] * rank},
            "dilated p1": {"dilations": [2] * rank, "pads": [1] * 2 * rank},
            "dilated ceil": {"dilations": [2] * rank, "strides": [2] * rank, "ceil_mode": 1},
        }.items():
            yield case(op, f"{rank}d {what}", x, **k3, **corner)
        even = {"kernel_shape": [2] * rank, "strides": [2] * rank, **more}
        yield case(op, f"{rank}d k2 same lower", x, **even, auto_pad="SAME_LOWER")
        yield case(op, f"{rank}d k2 same upper", x, **even, auto_pad="SAME_UPPER")
        yield case(op, f"{rank}d k2 ceil", x, **even, ceil_mode=1)
        if op == "AveragePool":
            for what, corner in {"p1": {}, "p1 ceil": {"ceil_mode": 1}}.items():
                yield case(
                    op,
                    f"{rank}d counted pads {what}",
                    x,
                    **k3,
                    pads=[1] * 2 * rank,
                    strides=[2] * rank,
                    count_include_pad=1,
                    **corner,
                )
        if op == "MaxPool":
            yield case(op, f"{rank}d indices", x, **k3, outputs=2)
            yield case(op, f"{rank}d indices s2p1", x, **k3, strides=[2] * rank, pads=[1] * 2 * rank, outputs=2)
            yield case(op, f"{rank}d negative numbers", -abs(x), **k3, pads=[1] * 2 * rank)
    yield case("MaxPool", "storage order", normal(1, 2, 6, 6), kernel_shape=[2, 2], storage_order=1, outputs=2)
    yield case("MaxPool", "bytes", counts(1, 2, 6, 6, low=0, high=200, dtype="u1"), kernel_shape=[2, 2], strides=[2, 2])
    yield case("MaxPool", "signed bytes", counts(1, 2, 6, 6, low=-99, dtype="i1"), kernel_shape=[2, 2], pads=[1] * 4)
    yield case("MaxPool", "half", normal(1, 2, 6, 6, dtype="f2"), kernel_shape=[2, 2], strides=[2, 2])
    yield case("MaxPool", "uneven kernel", normal(1, 2, 9, 8), kernel_shape=[3, 2], strides=[1, 2], pads=[1, 0, 1, 0])
    yield case(
        "AveragePool", "uneven kernel", normal(1, 2, 9, 8), kernel_shape=[3, 2], strides=[1, 2], pads=[1, 0, 1, 0]
    )
    yield case("LpPool", "p 2", normal(1, 2, 9, 8), kernel_shape=[3, 2], p=2, pads=[1, 1, 1, 1])
    pooled = normal(1, 1, 2, 2)
    yield case("MaxUnpool", "2d", pooled, np.array([[[[5, 7], [13, 15]]]]), kernel_shape=[2, 2], strides=[2, 2])
    yield case(
        "MaxUnpool",
        "sized",
        pooled,
        np.array([[[[5, 7], [13, 15]]]]),
        ints(1, 1, 5, 5),
        kernel_shape=[2, 2],
        strides=[2, 2],
    )
    rois = np.array([[0, 1, 1, 6, 7], [1, 0, 2, 3, 8]], "f4")
    yield case("MaxRoiPool", "two", normal(2, 3, 9, 9), rois, pooled_shape=[2, 2])
    yield case("MaxRoiPool", "scaled", normal(2, 3, 9, 9), rois * 2, pooled_shape=[3, 2], spatial_scale=0.5)


def _global_pools() -> Iterator[HostCase]:
    for op, shape in itertools.product(
        ("GlobalMaxPool", "GlobalAveragePool"), ((2, 3, 7), (2, 3, 5, 6), (2, 3, 3, 4, 5))
    ):
        yield case(op, f"{len(shape) - 2}d", normal(*shape))
    yield case("GlobalLpPool", "p 2", normal(1, 3, 4, 5))
    yield case("GlobalLpPool", "p 3", normal(1, 3, 4, 5), p=3)
    yield case("GlobalLpPool", "3d", normal(1, 3, 2, 4, 5), p=1)
    yield case("GlobalMaxPool", "half", normal(1, 3, 4, 5, dtype="f2"))
    yield case("GlobalAveragePool", "half", normal(1, 3, 4, 5, dtype="f2"))


def _norms() -> Iterator[HostCase]:
    x = normal(2, 6, 5, 4, scale=9)
    for size in (1, 2, 3, 5, 9):
        yield case("LRN", f"size {size}", x, size=size, alpha=0.01, beta=0.7, bias=2.0)
    yield case("LRN", "defaults", x, size=3)
    yield case("LRN", "one image", x[:1], size=5, alpha=1e-4)
    yield case("LRN", "many images", normal(7, 3, 2, 2, scale=9), size=3, alpha=0.1)
    yield case("LRN", "3d", normal(2, 4, 3, 3, 3), size=3, alpha=0.1)
    four = [normal(6), normal(6), normal(6), abs(normal(6))]
    yield case("BatchNormalization", "plain", x, *four)
    yield case("BatchNormalization", "epsilon", x, *four, epsilon=0.1)
    yield case("BatchNormalization", "1d", normal(2, 6, 7), *four)
    yield case("BatchNormalization", "matrix", normal(2, 6), *four)
    yield case("BatchNormalization", "3d", normal(2, 6, 2, 3, 4), *four)
    yield case("BatchNormalization", "training", x, *four, training_mode=1, outputs=3)
    for shape in ((2, 6, 7), (2, 6, 5, 4), (2, 6, 2, 3, 4)):
        y = normal(*shape)
        yield case("InstanceNormalization", f"{len(shape) - 2}d", y, normal(6), normal(6))
        yield case(
            "GroupNormalization",
            f"{len(shape) - 2}d by channel",
            y,
            normal(6),
            normal(6),
            num_groups=3,
            opsets=(21, 99),
        )
        yield case(
            "GroupNormalization", f"{len(shape) - 2}d by group", y, normal(3), normal(3), num_groups=3, opsets=(18, 20)
        )
    yield case("InstanceNormalization", "epsilon", x, normal(6), normal(6), epsilon=0.5)
    for axis in (-1, 1, 2, 0):
        scale = normal(*x.shape[axis:])
        yield case("LayerNormalization", f"axis {axis}", x, scale, normal(*x.shape[axis:]), axis=axis)
        yield case("LayerNormalization", f"axis {axis} three", x, scale, normal(*x.shape[axis:]), axis=axis, outputs=3)
        yield case("RMSNormalization", f"axis {axis}", x, scale, axis=axis)
    yield case("LayerNormalization", "no bias", x, normal(4), epsilon=0.1)
    yield case("MeanVarianceNormalization", "default", x)
    yield case("MeanVarianceNormalization", "axes", x, axes=[2, 3])
    for axis, p in itertools.product((0, 1, -1), (1, 2)):
        yield case("LpNormalization", f"axis {axis} p {p}", x, axis=axis, p=p)
    yield case("LpNormalization", "zeros", np.zeros((2, 3), "f4"), axis=1)


def _convolutions() -> Iterator[HostCase]:
    for rank in (1, 2, 3):
        x, w, b = normal(2, 4, *_SIZES[rank]), normal(6, 4, *[3] * rank), normal(6)
        for what, corner in {
            "plain": {},
            "s2p1": {"strides": [2] * rank, "pads": [1] * 2 * rank},
            "same upper": {"strides": [2] * rank, "auto_pad": "SAME_UPPER"},
            "same lower": {"strides": [2] * rank, "auto_pad": "SAME_LOWER"},
            "dilated": {"dilations": [2] * rank},
            "valid": {"auto_pad": "VALID"},
            "uneven": {"pads": [0] * rank + [1] * rank},
        }.items():
            if rank == 3 and what == "dilated":
                x = normal(2, 4, 7, 7, 7)
            yield case("Conv", f"{rank}d {what}", x, w, b, **corner)
        grouped = normal(6, 2, *[3] * rank)
        yield case("Conv", f"{rank}d groups", x, grouped, b, group=2)
        yield case("Conv", f"{rank}d even", x, normal(6, 4, *[2] * rank), None, auto_pad="SAME_LOWER")
        wt = normal(4, 3, *[3] * rank)
        for what, corner in {
            "plain": {},
            "s2p1": {"strides": [2] * rank, "pads": [1] * 2 * rank},
            "output padding": {"strides": [2] * rank, "output_padding": [1] * rank},
            "same upper": {"strides": [2] * rank, "auto_pad": "SAME_UPPER"},
            "same lower": {"strides": [2] * rank, "auto_pad": "SAME_LOWER"},
            "dilated": {"dilations": [2] * rank},
            "output shape": {"strides": [2] * rank, "output_shape": [2 * n for n in x.shape[2:]]},
            "groups": {"group": 2},
        }.items():
            yield case("ConvTranspose", f"{rank}d {what}", x, wt, None, **corner)
    x, w = counts(1, 3, 6, 6, low=0, high=256, dtype="u1"), counts(4, 3, 3, 3, low=0, high=256, dtype="u1")
    yield case("ConvInteger", "zero points", x, w, np.array(9, "u1"), np.array(3, "u1"), pads=[1] * 4)
    yield case("ConvInteger", "strides", x, w, np.array(9, "u1"), strides=[2, 2])
    yield case(
        "QLinearConv",
        "one scale",
        x,
        np.array(0.02, "f4"),
        np.array(9, "u1"),
        w,
        np.array(0.01, "f4"),
        np.array(3, "u1"),
        np.array(0.3, "f4"),
        np.array(120, "u1"),
        counts(4, dtype="i4"),
        pads=[1] * 4,
    )
    yield case(
        "QLinearConv",
        "scale per channel",
        x,
        np.array(0.02, "f4"),
        np.array(9, "u1"),
        w,
        floats(0.01, 0.02, 0.03, 0.001),
        np.full(4, 3, "u1"),
        np.array(0.3, "f4"),
        np.array(120, "u1"),
    )
    offset = normal(1, 18, 4, 4, scale=0.5)
    yield case("DeformConv", "plain", normal(1, 4, 6, 6), normal(3, 4, 3, 3), offset)
    yield case("DeformConv", "mask", normal(1, 4, 6, 6), normal(3, 4, 3, 3), offset, normal(3), abs(normal(1, 9, 4, 4)))
    yield case("Col2Im", "plain", normal(1, 8, 9), ints(4, 4), ints(2, 2))
    yield case("Col2Im", "pads", normal(1, 8, 25), ints(4, 4), ints(2, 2), pads=[1, 1, 1, 1])
    yield case("Col2Im", "strides dilations", normal(1, 4, 4), ints(5, 5), ints(2, 2), strides=[2, 2], dilations=[2, 2])
