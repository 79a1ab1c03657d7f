"""A seed says all of a case: what it draws is what it drew when the case was written down."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from convc.ir import dtypes
from convc.ir.epilogue import AddResidual, Relu
from convc.ir.network import ConvNode, TensorRef
from convc.ir.problem import ConvProblem
from convc.runtime.network.constants import StartValues
from convc.verification.data import normal_data
from convc.verification.layer_data import data_of
from convc.verification.random_weights import random_weights
from convc.verification.sample_data import strips_of


def problem(channels: int = 8, filters: int = 4, **fields) -> ConvProblem:
    base = {"in_extent": (9, 7), "kernel": (3, 3), "pad_lo": (1, 1), "pad_hi": (1, 0)}
    return ConvProblem(in_channels=channels, out_channels=filters, **(base | fields))


PROBLEMS = {
    **{name: problem(operand=name, out="f32", bias=True) for name in dtypes.FLOAT_OPERANDS},
    "long sums": problem(5000, 2, in_extent=(3, 3), out="f32", bias=True),
    "one term": problem(1, 1, kernel=(1, 1), pad_lo=(), pad_hi=()),
    "transposed": problem(transposed=True, stride=(2, 3), output_padding=(1, 0)),
    "transposed, long": problem(5000, 2, in_extent=(3, 3), transposed=True, stride=(2, 2)),
    "groups, strides, dilation": problem(12, 8, groups=4, stride=(2, 1), dilation=(1, 2)),
    "residual": problem(64, epilogue=(AddResidual(), Relu()), bias=True),
    "multiplier": problem(multiplier=True, bias=True),
    "multiplier, long": problem(5000, 2, in_extent=(3, 3), multiplier=True),
    "u8, s8": problem(operand="u8", filter_operand="s8", out="s32", bias=True, pad_value=3),
    "s8, two parts": problem(operand="s8", out="s32", filter_parts=2),
    "u8 in, u8 out": problem(operand="u8", out="u8", out_zero_point=9, bias=True),
    "a volume": problem(in_extent=(3, 5, 4), kernel=(2, 2, 2), pad_lo=(), pad_hi=(), batch=2),
    "a row": problem(in_extent=(50,), kernel=(5,), pad_lo=(), pad_hi=(), out="bf16"),
}


def node(asked: ConvProblem) -> ConvNode:
    ends = {name: TensorRef(name=name, dtype="f32", shape=None) for name in ("input", "output")}
    _, weight, bias = normal_data(asked, 0)
    return ConvNode(name="conv", problem=asked, weight=weight, bias=bias, **ends)


def crc(array: np.ndarray | None) -> str:
    """Of values, which all float types spell alike, and of the shape."""
    if array is None:
        return "none"
    wide = np.asarray(array, np.float64) + 0.0  # -0 and 0 are drawn alike
    wide[np.isnan(wide)] = 12345.0
    return f"{'x'.join(map(str, array.shape))}:{zlib.crc32(wide.tobytes()):08x}"


def drawn(asked: ConvProblem) -> Iterator[str]:
    conv = node(asked)
    for mode in ("integer", "normal"):
        for seed in (0, 1):
            data = data_of(mode, conv, seed)
            arrays = (data.x, data.weight, data.bias, data.multiplier, data.residual)
            yield f"{mode} {seed} {' '.join(map(crc, arrays))} {data.drawn and (data.drawn.place, data.drawn.value)}"
        if asked.in_channels <= 64:
            strips = strips_of(conv, mode, 3)
            yield f"{mode} strip {' '.join(map(crc, (strips.x, strips.weight, strips.bias, strips.residual)))}"


def test_data_of_layers_follow_from_mode_and_seed(golden):
    lines = [f"{name}: {line}\n" for name, asked in PROBLEMS.items() for line in drawn(asked)]
    golden("drawn", {"layers.txt": "".join(lines)})


NETWORK = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[1, 8, 6, 6] x) => (float[1, 5] y)
<float[8,8,3,3] w1, float[8] b1, float[8] scale, float[8] shift, float[8] mean, float[8] var, float[8,4,2,2] w2,
 float[8] b2, float[8,8,1,1] w3, float[8,1,1] m, float[8,1,1] a, float[288,10] g, float[10] gb, float[10,5] q,
 float[5,10] t, float one>
{
    c1 = Conv<pads=[1,1,1,1]>(x, w1, b1)
    n1 = BatchNormalization(c1, scale, shift, mean, var)
    r1 = Relu(n1)
    c2 = ConvTranspose<group=2, strides=[2,1], pads=[0,0,0,0]>(r1, w2, b2)
    r2 = Relu(c2)
    p2 = MaxPool<kernel_shape=[2,2], strides=[2,1]>(r2)
    c3 = Conv(p2, w3)
    s3 = Mul(c3, m)
    a3 = Add(s3, a)
    h3 = Add(a3, r1)
    r3 = Relu(h3)
    f = Flatten(r3)
    d = Gemm(f, g, gb)
    e = Relu(d)
    k = Mul(e, one)
    y = MatMul(k, q)
    z = Gemm<transB=1>(k, t)
}
"""


@pytest.mark.parametrize("seed", [0, 7])
def test_random_weights_follow_from_the_seed_and_the_name(seed, golden):
    graph = onnx.parser.parse_model(NETWORK).graph
    ones = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in graph.value_info}
    graph.initializer.extend(
        onnx.numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in ones.items()
    )
    made = random_weights(graph, StartValues(graph, Path()), seed)
    assert set(made) == set(ones) - {"one"}
    golden("drawn", {f"weights-{seed}.txt": "".join(f"{name} {crc(values)}\n" for name, values in made.items())})
