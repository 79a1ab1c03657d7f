"""Cases of operators that move and look for elements, make tensors, and of losses and attention."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import onnx
from conformance.host_cases import HostCase, case, counts, floats, ints, normal


def tensors_cases() -> Iterator[HostCase]:
    """All of them."""
    for part in (_shapes, _slices, _gathers, _scatters, _searches, _makers, _losses, _transformers):
        yield from part()


def _shapes() -> Iterator[HostCase]:
    x = normal(2, 3, 4)
    for what, shape in {"zero": (0, -1), "infer": (-1, 4), "flat": (-1,), "more": (2, 1, 3, 4)}.items():
        yield case("Reshape", what, x, ints(*shape))
    yield case("Reshape", "allowzero", np.zeros((0, 3), "f4"), ints(3, 0), allowzero=1)
    yield case("Reshape", "to scalar", np.array([3], "f4"), ints())
    for axis in (0, 1, 2, 3, -1, -2):
        yield case("Flatten", f"axis {axis}", x, axis=axis, opsets=(7 if axis >= 0 else 11, 99))
    yield case("Flatten", "default", x)
    y = normal(1, 3, 1, 4)
    for axes in ([0], [2], [0, 2], [-2]):
        yield case("Squeeze", f"{axes}", y, axes=axes, opsets=(7 if min(axes) >= 0 else 11, 12))
        yield case("Squeeze", f"{axes}", y, ints(*axes), opsets=(13, 99))
    yield case("Squeeze", "all", y)
    for axes in ([0], [1, 3], [3, 0], [-1], [0, -1]):
        yield case("Unsqueeze", f"{axes}", normal(3, 4), axes=axes, opsets=(7 if min(axes) >= 0 else 11, 12))
        yield case("Unsqueeze", f"{axes}", normal(3, 4), ints(*axes), opsets=(13, 99))
    yield case("Transpose", "default", x)
    yield case("Transpose", "perm", x, perm=[1, 2, 0])
    yield case("Expand", "both", normal(3, 1), ints(2, 1, 4))
    yield case("Expand", "smaller", normal(2, 3), ints(1, 1))
    yield case("Tile", "plain", normal(2, 3), ints(2, 3))
    yield case("Tile", "none", normal(2, 3), ints(0, 1))
    for axis in (0, 1, -1):
        yield case(
            "Concat",
            f"axis {axis}",
            normal(2, 3),
            normal(2, 3),
            normal(2, 3),
            axis=axis,
            opsets=(7 if axis >= 0 else 11, 99),
        )
    yield case("Concat", "empty", normal(2, 3), np.zeros((0, 3), "f4"), axis=0)
    z = normal(6, 4)
    yield case("Split", "equal", z, axis=0, outputs=3, opsets=(7, 17))
    yield case("Split", "attribute", z, axis=0, split=[1, 2, 3], outputs=3, opsets=(7, 12))
    yield case("Split", "input", z, ints(1, 5), axis=0, outputs=2, opsets=(13, 99))
    yield case("Split", "number", z, axis=0, num_outputs=4, outputs=4, opsets=(18, 99))
    yield case("Split", "last", z, axis=-1, outputs=2, opsets=(11, 17))
    yield case("Split", "default axis", z, outputs=2, opsets=(7, 17))
    yield case("Shape", "plain", x)
    for start, end in ((1, 3), (-2, 3), (0, -1), (-9, 9), (2, 1)):
        yield case("Shape", f"{start} {end}", x, start=start, end=end)
    yield case("Size", "plain", x)
    for upper, k in itertools.product((0, 1), (-1, 0, 2)):
        yield case("Trilu", f"{upper} {k}", normal(2, 3, 4), np.array(k, "i8"), upper=upper)
    yield case("EyeLike", "k", normal(3, 4), k=1)
    yield case("EyeLike", "type", normal(3, 4), dtype=7)


def _slices() -> Iterator[HostCase]:
    x = normal(4, 5, 6)
    for what, starts, ends, axes, steps in (
        ("plain", (1, 0), (3, 4), (0, 1), (1, 1)),
        ("negative", (-3,), (-1,), (1,), (1,)),
        ("backwards", (-1,), (-99,), (2,), (-1,)),
        ("backwards by 2", (4,), (0,), (1,), (-2,)),
        ("beyond", (0,), (999,), (0,), (2,)),
        ("empty", (3,), (1,), (0,), (1,)),
        ("axes", (1, 2), (4, 5), (-1, -2), (1, 2)),
        ("max int", (1,), (2**63 - 1,), (0,), (1,)),
        ("min int", (-1,), (-(2**63),), (0,), (-1,)),
        ("before", (-99,), (2,), (0,), (1,)),
    ):
        yield case("Slice", what, x, *(ints(*values) for values in (starts, ends, axes, steps)), opsets=(10, 99))
        if set(steps) == {1} and min(axes) >= 0:
            yield case("Slice", what, x, starts=list(starts), ends=list(ends), axes=list(axes), opsets=(7, 9))
    yield case("Slice", "no axes", x, ints(1, 1, 1), ints(3, 3, 3), opsets=(10, 99))
    yield case("Slice", "int32", x, np.array([1], "i4"), np.array([3], "i4"), np.array([0], "i4"), opsets=(10, 99))
    for time in (0, 1):
        yield case(
            "ReverseSequence", f"time {time}", normal(4, 4), ints(1, 2, 3, 4), time_axis=time, batch_axis=1 - time
        )


def _gathers() -> Iterator[HostCase]:
    x = normal(3, 4, 5)
    for axis in (0, 1, -1):
        yield case(
            "Gather",
            f"axis {axis}",
            x,
            np.array([[0, 2], [1, 0]], "i8"),
            axis=axis,
            opsets=(7 if axis >= 0 else 11, 99),
        )
    yield case("Gather", "scalar", x, np.array(1, "i8"))
    yield case("Gather", "negative", x, np.array([-1, -3], "i4"), opsets=(11, 99))
    for axis in (0, 1):
        yield case(
            "GatherElements",
            f"axis {axis}",
            normal(3, 3),
            np.array([[0, 2, 1], [1, 0, -1]], "i8") if axis == 0 else np.array([[0, 2], [1, 0], [-1, 1]], "i8"),
            axis=axis,
        )
    yield case("GatherND", "plain", x, np.array([[0, 1], [2, 3]], "i8"))
    yield case("GatherND", "batch", x, np.array([[1], [0], [3]], "i8"), batch_dims=1)
    yield case("GatherND", "negative", x, np.array([[-1, -2]], "i8"))
    yield case("Compress", "axis", normal(3, 4), np.array([True, False, True]), axis=0)
    yield case("Compress", "flat", normal(3, 4), np.array([False, True, False, True, True]))
    for axis in (0, 1, -1):
        yield case("OneHot", f"axis {axis}", ints(1, 0, 2), np.array(3, "i8"), floats(2, 5), axis=axis)
    yield case("OneHot", "outside", ints(-1, 3, -4), np.array(3, "i8"), floats(0, 1))
    yield case("OneHot", "float indices", floats(1, 2), np.array(3, "f4"), ints(0, 1))
    yield case("NonZero", "plain", np.array([[1, 0, 2], [0, 0, 3]], "f4"))
    yield case("NonZero", "bool", np.array([True, False, True]))


def _scatters() -> Iterator[HostCase]:
    x, news = normal(3, 4), normal(2, 2)
    where = np.array([[0, 2], [1, 0]], "i8")
    for axis in (0, 1, -1):
        yield case("ScatterElements", f"axis {axis}", x, where, news, axis=axis)
        yield case("Scatter", f"axis {axis}", x, where, news, axis=axis)
    yield case("ScatterElements", "negative", x, where - 3, news)
    for how in ("add", "mul", "max", "min"):
        yield case("ScatterElements", how, x, np.array([[0, 0], [0, 1]], "i8"), news, reduction=how)
        yield case("ScatterND", how, x, np.array([[0], [0]], "i8"), normal(2, 4), reduction=how)
    yield case("ScatterND", "plain", x, np.array([[0, 1], [2, 3]], "i8"), normal(2))
    yield case("ScatterND", "rows", x, np.array([[2], [0]], "i8"), normal(2, 4))


def _searches() -> Iterator[HostCase]:
    x = np.array([[3, 1, 3, 2], [0, 5, 4, 5], [7, 6, 6, 7]], "f4")
    for axis, largest in itertools.product((0, 1, -1), (0, 1)):
        yield case(
            "TopK", f"axis {axis} largest {largest}", x, ints(2), axis=axis, largest=largest, outputs=2, opsets=(11, 99)
        )
    yield case("TopK", "attribute", x, k=2, axis=1, outputs=2, opsets=(7, 9))
    yield case("TopK", "set 10", x, ints(3), axis=0, outputs=2, opsets=(10, 10))
    yield case("TopK", "int64", x.astype("i8"), ints(2), outputs=2, opsets=(11, 99))
    for order in (0, 1):
        yield case("Unique", f"flat {order}", floats(2, 1, 1, 3, 4, 3), sorted=order, outputs=4)
        yield case(
            "Unique",
            f"axis {order}",
            np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4]], "f4"),
            axis=0,
            sorted=order,
            outputs=4,
        )
    yield case("Unique", "columns", np.array([[1, 1, 0], [1, 1, 0]], "f4"), axis=1, outputs=4)


def _makers() -> Iterator[HostCase]:
    yield case("Range", "float", *(np.array(v, "f4") for v in (1, 5, 0.7)))
    yield case("Range", "down", *(np.array(v, "i8") for v in (10, 2, -3)))
    yield case("Range", "none", *(np.array(v, "i4") for v in (1, 1, 1)))
    yield case("Range", "wrong way", *(np.array(v, "i8") for v in (1, 5, -1)))
    yield case("ConstantOfShape", "zeros", ints(2, 3))
    yield case("ConstantOfShape", "scalar", ints())
    yield case("ConstantOfShape", "empty", ints(2, 0))
    for value in (floats(7), ints(3), np.array([True])):
        yield case("ConstantOfShape", f"of {value.dtype}", ints(2, 2), value=onnx.numpy_helper.from_array(value))


def _losses() -> Iterator[HostCase]:
    x, target = np.log(abs(normal(3, 5)) + 0.1), ints(1, 0, 4)
    for how in ("mean", "sum", "none"):
        yield case("NegativeLogLikelihoodLoss", how, x, target, reduction=how)
        yield case("NegativeLogLikelihoodLoss", f"{how} weights", x, target, abs(normal(5)), reduction=how)
        yield case("SoftmaxCrossEntropyLoss", how, x, target, reduction=how, outputs=2)
        yield case("SoftmaxCrossEntropyLoss", f"{how} ignore", x, target, reduction=how, ignore_index=0)
    image = normal(2, 3, 4, 4)
    yield case("SoftmaxCrossEntropyLoss", "image", image, counts(2, 4, 4, low=0, high=3, dtype="i8"), reduction="mean")
    counted = {
        "mode": "TF",
        "min_gram_length": 2,
        "max_gram_length": 2,
        "max_skip_count": 0,
        "ngram_counts": [0, 4],
        "ngram_indexes": list(range(7)),
        "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
    }
    yield case("TfIdfVectorizer", "bigrams", np.array([1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8], "i4"), **counted)
    yield case(
        "TfIdfVectorizer",
        "skips",
        np.array([1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8], "i4"),
        **{**counted, "max_skip_count": 5},
    )


def _transformers() -> Iterator[HostCase]:
    q, k, v = normal(2, 3, 4, 8), normal(2, 3, 6, 8), normal(2, 3, 6, 8)
    yield case("Attention", "plain", q, k, v)
    yield case("Attention", "causal", q, k, v, is_causal=1)
    yield case("Attention", "scale", q, k, v, scale=0.1)
    yield case("Attention", "softcap", q, k, v, softcap=2.0)
    yield case("Attention", "mask", q, k, v, normal(4, 6))
    yield case("Attention", "bool mask", q, k, v, np.tri(4, 6, 2, dtype=bool))
    yield case("Attention", "groups", q, k[:, :1], v[:, :1])
    flat = [normal(2, 4, 24), normal(2, 6, 24), normal(2, 6, 24)]
    yield case("Attention", "3d", *flat, q_num_heads=3, kv_num_heads=3)
    cos, sin = normal(9, 4), normal(9, 4)
    places = counts(2, 4, low=0, high=9, dtype="i8")
    for way in (0, 1):
        yield case("RotaryEmbedding", f"interleaved {way}", q, cos, sin, places, interleaved=way)
    yield case("RotaryEmbedding", "partial", q, normal(9, 2), normal(9, 2), places, rotary_embedding_dim=4)
