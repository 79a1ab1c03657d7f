"""Cases of operators that work element by element, reduce, multiply, cast and quantise."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from conformance.host_cases import HostCase, case, counts, floats, ints, normal


def elements_cases() -> Iterator[HostCase]:
    """All of them."""
    for part in (_unary, _binary, _activations, _softmaxes, _reductions, _products, _casts, _quantised):
        yield from part()


def _unary() -> Iterator[HostCase]:
    x = np.array([-2.5, -1.5, -0.5, 0, 0.5, 1.5, 2.5, 3.7], "f4")
    for op in (
        "Abs",
        "Neg",
        "Ceil",
        "Floor",
        "Round",
        "Sign",
        "Exp",
        "Sin",
        "Cos",
        "Tan",
        "Atan",
        "Sinh",
        "Cosh",
        "Asinh",
        "Erf",
        "Identity",
        "Reciprocal",
        "Sqrt",
        "Log",
        "Tanh",
        "Sigmoid",
    ):
        yield case(op, "float", x)
        yield case(op, "special", floats(np.inf, -np.inf, np.nan, -0.0, 1e30, -1e30, 90.0, -90.0))
        yield case(op, "half", x.astype("f2"))
    for op in ("Acos", "Asin", "Atanh"):
        yield case(op, "float", floats(-1, -0.5, 0, 0.5, 0.999))
    yield case("Acosh", "float", floats(1, 1.5, 20))
    for op in ("Abs", "Neg", "Sign", "Identity"):
        yield case(op, "whole", counts(3, 4))
    yield case("Abs", "smallest byte", np.array([-128, 127], "i1"))
    yield case("Not", "plain", np.array([True, False]))
    yield case("IsNaN", "plain", floats(1, np.nan, np.inf))
    for up, down in itertools.product((0, 1), repeat=2):
        yield case("IsInf", f"{up}{down}", floats(1, np.nan, np.inf, -np.inf), detect_positive=up, detect_negative=down)
    yield case("BitwiseNot", "plain", counts(3, 4))
    yield case("Det", "batch", normal(3, 4, 4))


def _binary() -> Iterator[HostCase]:
    x, y = normal(2, 3, 4), normal(3, 1)
    for op in ("Add", "Sub", "Mul", "Div", "Pow", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"):
        yield case(op, "float", abs(x), y)
        yield case(op, "half", abs(x).astype("f2"), y.astype("f2"))
        yield case(op, "scalar", x, np.array(2, "f4"))
        yield case(op, "NaN", floats(np.nan, 1, np.inf, np.inf), floats(1, np.nan, np.inf, -np.inf))
        if op != "Pow":
            yield case(op, "whole", counts(2, 3, 4, low=1), counts(3, 1, low=1))
            yield case(op, "int64", counts(2, 3, dtype="i8"), counts(3, low=1, dtype="i8"))
    yield case("Div", "toward zero", np.array([-7, 7, -7, 7], "i4"), np.array([2, -2, -2, 2], "i4"))
    yield case("Div", "bytes", np.array([200, 7], "u1"), np.array([3, 2], "u1"))
    yield case("Pow", "mixed", x[0], ints(2, 3, 0, 1))
    yield case("Pow", "whole base", np.array([2, -3, 5], "i4"), floats(2, 3, 0))
    yield case("Pow", "whole", np.array([2, -3, 5], "i8"), ints(2, 3, 0))
    whole, divisor = np.array([-7, 7, -7, 7], "i4"), np.array([3, -3, -3, 3], "i4")
    yield case("Mod", "whole", whole, divisor)
    yield case("Mod", "whole fmod", whole, divisor, fmod=1)
    yield case("Mod", "float fmod", floats(-5.3, 5.3, -5.3), floats(2, -2, -2), fmod=1)
    for op in ("And", "Or", "Xor"):
        yield case(op, "broadcast", np.array([[True], [False]]), np.array([True, False]))
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield case(op, "broadcast", counts(3, 4), counts(4))
    for way in ("LEFT", "RIGHT"):
        yield case("BitShift", way, np.array([255, 4, 1], "u1"), np.array([1, 2, 7], "u1"), direction=way)
    for op in ("Max", "Min", "Sum", "Mean"):
        yield case(op, "three", x, y, normal(4))
        yield case(op, "one", x)
        yield case(op, "NaN", floats(np.nan, 1), floats(1, np.nan))
    yield case("Max", "whole", counts(3, 4), counts(4))
    yield case("Min", "int64", counts(3, 4, dtype="i8"), counts(4, dtype="i8"))
    yield case("PRelu", "per channel", normal(2, 3, 4), normal(3, 1))
    yield case("PRelu", "one", normal(2, 3), normal(1))
    yield case("Where", "broadcast", np.array([[True], [False]]), normal(2, 3), normal(3))
    yield case("Where", "whole", np.array([True, False]), ints(1, 2), ints(3, 4))


def _activations() -> Iterator[HostCase]:
    x = normal(3, 5, scale=3)
    for op, more in {
        "Relu": {}, "LeakyRelu": {"alpha": 0.3}, "Elu": {"alpha": 0.7}, "Selu": {"alpha": 1.5, "gamma": 1.2},
        "Celu": {"alpha": 0.6}, "HardSigmoid": {"alpha": 0.3, "beta": 0.4}, "HardSwish": {}, "Mish": {}, "Softplus": {},
        "Softsign": {}, "Gelu": {"approximate": "tanh"}, "ThresholdedRelu": {"alpha": 0.5},
        "Shrink": {"bias": 0.3, "lambd": 0.7}, "Swish": {"alpha": 0.8},
    }.items():  # fmt: skip
        yield case(op, "defaults", x)
        yield case(op, "large", floats(100, -100, 1000, -1000))
        if more:
            yield case(op, "attributes", x, **more)
    yield case("Relu", "NaN", floats(np.nan, 1, -1))
    for what, more in {
        "both": [np.array(-1, "f4"), np.array(2, "f4")],
        "low": [np.array(0, "f4")],
        "high": [None, np.array(1, "f4")],
        "none": [],
        "crossed": [np.array(2, "f4"), np.array(1, "f4")],
    }.items():
        yield case("Clip", what, x, *more, opsets=(11, 99))
    yield case("Clip", "attributes", x, min=-1.0, max=2.0, opsets=(7, 10))
    yield case("Clip", "whole", counts(9), np.array(-2, "i4"), np.array(4, "i4"), opsets=(12, 99))
    yield case("Dropout", "inference", x)
    yield case("Dropout", "mask", x, outputs=2, opsets=(10, 99))
    yield case("Dropout", "ratio 0", x, np.array(0, "f4"), np.array(True), opsets=(12, 99))


def _softmaxes() -> Iterator[HostCase]:
    x = normal(2, 3, 4)
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        yield case(op, "default", x)
        for axis in (0, 1, 2, -1, -2):
            yield case(op, f"axis {axis}", x, axis=axis, opsets=(7 if axis >= 0 else 11, 99))
        yield case(op, "large", normal(2, 5, scale=300))
        yield case(op, "infinite", floats(-np.inf, 1, 2).reshape(1, 3))
        yield case(op, "half", x.astype("f2"))
    yield case("Hardmax", "ties", floats(1, 3, 3, 2).reshape(1, 4))


def _reductions() -> Iterator[HostCase]:
    x = normal(2, 3, 4)
    for kind in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"):
        op = f"Reduce{kind}"
        data = abs(x) if kind == "LogSum" else x
        moved = 13 if kind == "Sum" else 18
        for keep in (0, 1):
            for axes in ([0], [1, 2], [-1], [2, 0]):
                old = 7 if min(axes) >= 0 else 11
                yield case(op, f"{axes} keep {keep}", data, axes=axes, keepdims=keep, opsets=(old, moved - 1))
                yield case(op, f"{axes} keep {keep}", data, ints(*axes), keepdims=keep, opsets=(moved, 99))
            yield case(op, f"all keep {keep}", data, keepdims=keep)
        yield case(op, "no axes, noop", data, ints(), noop_with_empty_axes=1, opsets=(moved, 99))
        yield case(op, "axes left out, noop", data, noop_with_empty_axes=1, opsets=(moved, 99))
        yield case(op, "no axes", data, ints(), opsets=(moved, 99))
        yield case(op, "whole", counts(3, 4, low=1), ints(1), opsets=(moved, 99))
        yield case(op, "whole", counts(3, 4, low=1), axes=[1], opsets=(7, moved - 1))
        yield case(op, "large", normal(2, 3, scale=200), ints(1), opsets=(moved, 99))
        yield case(op, "infinite", floats(-np.inf, 1, -np.inf, -np.inf).reshape(2, 2), ints(1), opsets=(moved, 99))
        yield case(op, "scalar", np.array(3, "f4"))
        if kind not in ("Max", "Min", "Mean"):
            yield case(op, "empty", np.zeros((2, 0, 3), "f4"), ints(1), opsets=(moved, 99))
    for kind in ("Max", "Min"):
        yield case(f"Reduce{kind}", "bytes", counts(3, 4, low=0, dtype="u1"), ints(1), opsets=(18, 99))
        yield case(f"Reduce{kind}", "bool", np.array([[True, False], [True, True]]), ints(1), opsets=(20, 99))
        for last, keep, axis in itertools.product((0, 1), (0, 1), (0, 1, -1)):
            ties = np.array([[3, 1, 3, 1], [1, 1, 2, 2], [2, 3, 1, 2]], "f4")
            yield case(
                f"Arg{kind}",
                f"axis {axis} keep {keep} last {last}",
                ties,
                axis=axis,
                keepdims=keep,
                select_last_index=last,
                opsets=(12, 99),
            )
        yield case(f"Arg{kind}", "default", x)
    for exclusive, backwards in itertools.product((0, 1), repeat=2):
        yield case("CumSum", f"{exclusive}{backwards}", x, np.array(1, "i4"), exclusive=exclusive, reverse=backwards)
        yield case("CumProd", f"{exclusive}{backwards}", x, np.array(1, "i4"), exclusive=exclusive, reverse=backwards)
    yield case("CumSum", "last", x, np.array(-1, "i8"))


def _products() -> Iterator[HostCase]:
    for a, b in (
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((4,), (4,)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((3, 0), (0, 2)),
    ):
        yield case("MatMul", f"{len(a)}x{len(b)} {a[-1]}", normal(*a), normal(*b))
    yield case("MatMul", "half", normal(3, 4, dtype="f2"), normal(4, 5, dtype="f2"))
    yield case("MatMul", "whole", counts(3, 4), counts(4, 5))
    for ta, tb in itertools.product((0, 1), repeat=2):
        a, b = normal(*((4, 3) if ta else (3, 4))), normal(*((5, 4) if tb else (4, 5)))
        for c in ((3, 5), (5,), (3, 1), ()):
            yield case(
                "Gemm", f"{ta}{tb} C {len(c)} {c[-1:]}", a, b, normal(*c), transA=ta, transB=tb, alpha=0.5, beta=2.0
            )
        yield case("Gemm", f"{ta}{tb} no C", a, b, transA=ta, transB=tb)
    a, b = counts(3, 4, low=0, high=256, dtype="u1"), counts(4, 5, low=0, high=256, dtype="u1")
    yield case("MatMulInteger", "plain", a, b)
    yield case("MatMulInteger", "zero points", a, b, np.array(9, "u1"), np.array(3, "u1"))
    yield case("MatMulInteger", "per column", a, b, np.array(9, "u1"), counts(5, low=0, dtype="u1"))
    yield case("MatMulInteger", "signs", a, b.astype("i1"), np.array(9, "u1"), np.array(-3, "i1"))
    scales = [np.array(0.02, "f4"), np.array(0.01, "f4"), np.array(0.5, "f4")]
    zeros = [np.array(z, "u1") for z in (9, 3, 100)]
    yield case("QLinearMatMul", "plain", a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2])
    for equation, shapes in {
        "ij,jk->ik": ((2, 3), (3, 4)),
        "ij->ji": ((2, 3),),
        "bij,bjk": ((2, 2, 3), (2, 3, 4)),
        "ii->i": ((3, 3),),
        "...ij,...jk->...ik": ((2, 2, 3), (2, 3, 4)),
        "i,i": ((3,), (3,)),
        "ij->": ((2, 3),),
    }.items():
        yield case("Einsum", equation, *(normal(*shape) for shape in shapes), equation=equation)


def _casts() -> Iterator[HostCase]:
    types = {1: "f4", 10: "f2", 11: "f8", 6: "i4", 7: "i8", 2: "u1", 3: "i1", 9: "?", 5: "i2", 12: "u4"}
    for (_, source), (to, _) in itertools.product(types.items(), repeat=2):
        yield case("Cast", f"{source} to {to}", np.array([0, 1, 3, 100]).astype(source), to=to)
    yield case("Cast", "fractions", floats(-1.9, -0.5, 0.5, 1.9, 2.5), to=6)
    yield case("Cast", "truth", floats(0, -0.0, 0.1, np.nan), to=9)
    yield case("Cast", "overflow half", floats(70000, -70000), to=10)
    yield case("CastLike", "plain", normal(3), counts(1))


def _quantised() -> Iterator[HostCase]:
    x = normal(3, 4, scale=30)
    for dtype in ("u1", "i1"):
        zero = np.array(5, dtype)
        yield case("QuantizeLinear", dtype, x, np.array(0.3, "f4"), zero)
        yield case("QuantizeLinear", f"{dtype} ties", floats(0.5, 1.5, 2.5, -0.5, -1.5), np.array(1, "f4"), zero)
        yield case("QuantizeLinear", f"{dtype} far", floats(1e30, -1e30, 3e9), np.array(1e-3, "f4"), zero)
        yield case(
            "QuantizeLinear", f"{dtype} axis", x, floats(0.1, 0.2, 0.3, 0.4), np.array([1, 2, 3, 4], dtype), axis=1
        )
        yield case("QuantizeLinear", f"{dtype} axis 0", x, floats(0.1, 0.2, 0.3), np.array([1, 2, 3], dtype), axis=0)
        q = counts(3, 4, low=0, high=120, dtype=dtype)
        yield case("DequantizeLinear", dtype, q, np.array(0.3, "f4"), zero)
        yield case(
            "DequantizeLinear", f"{dtype} axis", q, floats(0.1, 0.2, 0.3, 0.4), np.array([1, 2, 3, 4], dtype), axis=1
        )
        yield case("DequantizeLinear", f"{dtype} axis 0", q, floats(0.1, 0.2, 0.3), None, axis=0)
    yield case("QuantizeLinear", "no zero point", abs(x), np.array(0.3, "f4"))
    yield case("DequantizeLinear", "int32", counts(3, 4), np.array(0.3, "f4"))
    yield case(
        "QuantizeLinear",
        "blocks",
        normal(4, 6, scale=30),
        abs(normal(2, 6)) + 0.1,
        counts(2, 6, low=0, dtype="u1"),
        axis=0,
        block_size=2,
    )
    yield case(
        "DequantizeLinear",
        "blocks",
        counts(4, 6, low=0, dtype="u1"),
        abs(normal(2, 6)),
        counts(2, 6, low=0, dtype="u1"),
        axis=0,
        block_size=2,
    )
    yield case("QuantizeLinear", "16 bits", normal(5, scale=3e4), np.array(0.3, "f4"), np.array(7, "i2"))
    yield case("DynamicQuantizeLinear", "both signs", x, outputs=3)
    yield case("DynamicQuantizeLinear", "positive", abs(x), outputs=3)
    yield case("DynamicQuantizeLinear", "negative", -abs(x), outputs=3)
