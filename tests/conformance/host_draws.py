"""Random cases of the operators whose attributes meet in many ways: pooling, convolution, resizing, padding, recurrent.

The corners in `conformance.host_cases_images` are one attribute at a time; a fault that needs two shows here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from conformance.host_cases import HostCase, case, in_each_opset


def drawn_cases(seed: int, count: int, newest: int) -> Iterator[HostCase]:
    """Cases that ONNX's shape inference takes, each in the two newest versions of its operator."""
    for index in range(count):
        pick = random.Random(f"{seed}.{index}")
        kind = pick.choice((_pool, _pool, _convolution, _resize, _pad, _recurrent))
        arrays = np.random.default_rng([seed, index])
        for each in list(in_each_opset([kind(pick, arrays)], newest))[-2:]:
            try:
                onnx.shape_inference.infer_shapes(each.model, strict_mode=True)
            except onnx.shape_inference.InferenceError:  # an empty result, or pads wider than the image
                continue
            yield each


def _floats(arrays: np.random.Generator, *shape: int) -> np.ndarray:
    return arrays.standard_normal(shape).astype(np.float32)


def _windows(pick: random.Random, rank: int, largest: int) -> dict[str, Any]:
    """Kernel, strides, dilations and pads of any kind."""
    kernel = [pick.randint(1, largest) for _ in range(rank)]
    made: dict[str, Any] = {"kernel_shape": kernel}
    if pick.random() < 0.7:
        made["strides"] = [pick.randint(1, largest) for _ in kernel]
    if pick.random() < 0.3:
        made["dilations"] = [pick.randint(1, 2) for _ in kernel]
    how = pick.random()
    if how < 0.4:
        made["auto_pad"] = pick.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif how < 0.8:
        made["pads"] = [pick.randint(0, extent - 1) for extent in kernel * 2]
    return made


def _pool(pick: random.Random, arrays: np.random.Generator) -> HostCase:
    op = pick.choice(("MaxPool", "AveragePool", "LpPool"))
    rank = pick.choice((1, 2, 2, 3))
    made = _windows(pick, rank, 4)
    if pick.random() < 0.3:
        made["ceil_mode"] = 1
    if op == "AveragePool" and pick.random() < 0.4:
        made["count_include_pad"] = 1
    if op == "LpPool":
        made["p"] = pick.choice((1, 2, 3))
    extents = [pick.randint(7, 11) for _ in range(rank)]
    return case(op, "drawn", _floats(arrays, pick.randint(1, 2), pick.randint(1, 3), *extents), **made)


def _convolution(pick: random.Random, arrays: np.random.Generator) -> HostCase:
    rank = pick.choice((1, 2, 2, 3))
    groups = pick.choice((1, 1, 2))
    made = _windows(pick, rank, 3)
    x = _floats(arrays, pick.randint(1, 2), 2 * groups, *[pick.randint(6, 8) for _ in range(rank)])
    bias = pick.choice((None, _floats(arrays, 3 * groups)))
    if pick.random() < 0.5:
        return case(
            "Conv", "drawn", x, _floats(arrays, 3 * groups, 2, *made["kernel_shape"]), bias, group=groups, **made
        )
    if pick.random() < 0.3:
        made["output_padding"] = [pick.randint(0, stride - 1) for stride in made.get("strides", [1] * rank)]
    made.pop("auto_pad", None)  # onnxruntime takes SAME otherwise than ONNX where a stride is longer than the kernel
    w = _floats(arrays, 2 * groups, 3, *made["kernel_shape"])
    return case("ConvTranspose", "drawn", x, w, bias, group=groups, **made)


def _resize(pick: random.Random, arrays: np.random.Generator) -> HostCase:
    rank = pick.choice((1, 2, 2))
    made: dict[str, Any] = {"mode": pick.choice(("nearest", "linear", "cubic")[: rank + 1])}
    made["coordinate_transformation_mode"] = pick.choice(
        ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    )
    if made["mode"] == "nearest":
        made["nearest_mode"] = pick.choice(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    x = _floats(arrays, 1, 2, *[pick.randint(3, 7) for _ in range(rank)])
    if pick.random() < 0.5:
        scales = np.array(
            [1, 1, *[pick.choice((0.5, 0.75, 1, 1.5, 2, 3, 1.23, 0.61)) for _ in range(rank)]], np.float32
        )
        return case("Resize", "drawn", x, None, scales, opsets=(13, 99), **made)
    sizes = np.array([1, 2, *[pick.randint(1, 12) for _ in range(rank)]], np.int64)
    return case("Resize", "drawn", x, None, None, sizes, opsets=(13, 99), **made)


def _pad(pick: random.Random, arrays: np.random.Generator) -> HostCase:
    x = _floats(arrays, *[pick.randint(2, 5) for _ in range(pick.randint(1, 4))])
    least = pick.choice((0, 0, -1))
    pads = np.array([pick.randint(least, min(x.shape) - 1) for _ in range(2 * x.ndim)], np.int64)
    return case("Pad", "drawn", x, pads, mode=pick.choice(("constant", "edge", "reflect", "wrap")), opsets=(11, 99))


def _recurrent(pick: random.Random, arrays: np.random.Generator) -> HostCase:
    op = pick.choice(("RNN", "GRU", "LSTM"))
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    direction = pick.choice(("forward", "reverse", "bidirectional"))
    ways = 2 if direction == "bidirectional" else 1
    hidden, batch, wide = pick.randint(1, 4), pick.randint(1, 3), pick.randint(1, 4)
    made: dict[str, Any] = {"direction": direction, "hidden_size": hidden}
    if op == "GRU":
        made["linear_before_reset"] = pick.choice((0, 1))
    draw: Callable[..., np.ndarray] = lambda *shape: _floats(arrays, *shape)  # noqa: E731
    inputs: list[Any] = [draw(pick.randint(1, 4), batch, wide), draw(ways, gates * hidden, wide)]
    inputs += [draw(ways, gates * hidden, hidden), pick.choice((None, draw(ways, 2 * gates * hidden)))]
    ends = 3 if op == "LSTM" else 2
    if pick.random() < 0.5:
        inputs += [None, *[draw(ways, batch, hidden) for _ in range(ends - 1)]]
    return case(op, "drawn", *inputs, outputs=pick.choice((1, 2, ends)), **made)
