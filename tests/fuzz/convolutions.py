"""Random operators as models, over all that the front end reads; three oracles say whether a result is right."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
from fuzz.subjects import Case
from onnx import TensorProto, helper, numpy_helper
from support.oracles import oracles_agree

from convc.errors import DeadlockError, LaunchError, MachineFault, PtxSyntaxError, TileError, ToolError, UnmodelledError
from convc.frontend.onnx_reader import read_model
from convc.ir.gradients import gradient_network
from convc.ir.problem import ConvProblem
from convc.support.ptxas import assemble, find_ptxas

FLOATS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
OF_OURS = (DeadlockError, LaunchError, MachineFault, PtxSyntaxError, TileError, ToolError, UnmodelledError)
"""Errors that are no answer where the kernel is one that we made."""

MOST_WORK = 3_000_000
"""Multiply-adds of a case."""


ASSEMBLED = 8
"""The kernel of one of so many cases is assembled: ptxas takes nearly as long as the three oracles."""


def assembled(text: str, target: str) -> object:
    """What ptxas makes of a text; without one, as if it were well."""
    return assemble(text, target) if find_ptxas() is not None else unseen(text, target)


def unseen(text: str, target: str) -> object:
    """What a text is taken for that nobody assembles."""
    return SimpleNamespace(spill_bytes=0)


class Convolutions:
    """Conv, ConvTranspose, ConvInteger and QLinearConv in one to three dimensions, alone and with what follows them."""

    def case(self, rng: random.Random) -> Case:
        """A node, its shapes and its attributes."""
        while True:
            case = self._case(rng)
            work = case["batch"] * case["inputs"] * case["outputs"] // case["group"]
            if work * math.prod(case["kernel"]) * math.prod(case["extent"]) <= MOST_WORK:
                return case

    def _case(self, rng: random.Random) -> Case:
        rank = rng.choice((1, 2, 2, 2, 3))
        kernel = [rng.randint(1, 5) for _ in range(rank)]
        dilation = [rng.choice((1, 1, 2, 3)) for _ in range(rank)]
        group = rng.choice((1, 1, 1, 2, 3, 4))
        depthwise = rng.random() < 0.1
        inputs = rng.choice((1, 2, 3, 5, 8, 16, 31, 33, 64))
        op = rng.choice(("Conv", "Conv", "Conv", "ConvTranspose", "ConvInteger", "QLinearConv"))
        return {
            "op": op,
            "type": rng.choice((*FLOATS, "float32")) if op.startswith("Conv") and op != "ConvInteger" else "u8",
            "signs": [rng.choice(("uint8", "int8")), rng.choice(("uint8", "int8"))],
            "batch": rng.randint(1, 3),
            "inputs": group * inputs if not depthwise else inputs,
            "outputs": group * rng.randint(1, 20) if not depthwise else inputs,
            "group": inputs if depthwise else group,
            "kernel": kernel,
            "dilation": dilation,
            "stride": [rng.choice((1, 1, 2, 3, 4)) for _ in range(rank)],
            "pads": [rng.randint(0, 3) for _ in range(2 * rank)],
            "auto": rng.choice(("NOTSET",) * 4 + ("SAME_UPPER", "SAME_LOWER", "VALID")),
            "extent": [(k - 1) * d + 1 + rng.randint(0, 9) for k, d in zip(kernel, dilation, strict=True)],
            "bias": rng.random() < 0.5,
            "then": rng.choice((None, None, "Relu", "LeakyRelu", "Sigmoid", "Clip"))
            if op[:5] == "ConvT" or op == "Conv"
            else None,
            "seed": rng.randrange(1 << 32),
        }

    def model(self, case: Case) -> onnx.ModelProto:
        """The case as a model."""
        rng = np.random.default_rng(case["seed"])
        integer = case["type"] == "u8"
        kind = np.float32
        transposed = case["op"] == "ConvTranspose"
        shape = (case["outputs"], case["inputs"] // case["group"], *case["kernel"])
        if transposed:
            shape = (case["inputs"], case["outputs"] // case["group"], *case["kernel"])
        attributes = {
            "strides": case["stride"],
            "dilations": case["dilation"],
            "group": case["group"],
            "kernel_shape": case["kernel"],
        }
        attributes |= {"pads": case["pads"]} if case["auto"] == "NOTSET" else {"auto_pad": case["auto"]}
        if integer:
            sign, other = case["signs"]
            weight = numpy_helper.from_array(rng.integers(0, 100, shape).astype(other), "w")
            element = helper.np_dtype_to_tensor_dtype(np.dtype(sign))
        else:
            element = FLOATS[case["type"]]
            weight = helper.make_tensor(
                "w", element, shape, rng.integers(-4, 5, shape).astype(kind).reshape(-1).tolist()
            )
        names = ["x", "w"]
        constants = [weight]
        out = element
        if case["op"] == "QLinearConv":
            names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"]
            zeros = {"zx": case["signs"][0], "zw": case["signs"][1], "zy": case["signs"][0]}
            constants += [numpy_helper.from_array(np.array(0.5, kind), name) for name in ("sx", "sw", "sy")]
            constants += [
                numpy_helper.from_array(np.array(rng.integers(0, 9), dtype), name) for name, dtype in zeros.items()
            ]
        elif case["op"] == "ConvInteger":
            out = TensorProto.INT32
        elif case["bias"]:
            names.append("b")
            values = rng.integers(-4, 5, case["outputs"]).tolist()
            constants.append(helper.make_tensor("b", element, (case["outputs"],), [float(v) for v in values]))
        last = "y" if case["then"] is None else "c"
        nodes = [helper.make_node(case["op"], names, [last], name="op", **attributes)]
        if case["then"] is not None:
            nodes.append(helper.make_node(case["then"], [last], ["y"], name="then"))
        extents = [case["batch"], case["inputs"], *case["extent"]]
        graph = helper.make_graph(
            nodes,
            "fuzz",
            [helper.make_tensor_value_info("x", element, extents)],
            [helper.make_tensor_value_info("y", out, None)],
            constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)

    def check(self, case: Case) -> None:
        """Read it, and let the oracles agree on every convolution in it, or on its gradients."""
        gradient = case.get("gradient")
        network = gradient_network(read_model(self.model(case), fuse=gradient is None), gradient)
        for conv in network.convs:
            try:
                self.agree(conv.problem, case["seed"])
            except OF_OURS as wrong:
                raise AssertionError(str(wrong)) from wrong

    def agree(self, problem: ConvProblem, seed: int) -> None:
        """Let the oracles agree on a convolution."""
        oracles_agree(problem, seed, unseen if seed % ASSEMBLED else assembled)

    def smaller(self, case: Case) -> Iterator[Case]:
        """The same with less of one thing."""
        if case["then"] is not None:
            yield case | {"then": None}
        for name, least in (("batch", 1), ("group", 1), ("bias", False), ("auto", "NOTSET")):
            if case[name] != least:
                yield case | {name: least}
        for name in ("inputs", "outputs"):
            for value in (case["group"], case[name] // 2 // case["group"] * case["group"]):
                if 0 < value < case[name]:
                    yield case | {name: value}
        for name, least in (("pads", 0), ("stride", 1), ("dilation", 1), ("kernel", 1), ("extent", 1)):
            for i, value in enumerate(case[name]):
                for less in (least, value // 2):
                    if least <= less < value:
                        yield case | {name: [*case[name][:i], less, *case[name][i + 1 :]]}

    def write(self, case: Case, folder: Path) -> None:
        """The model, and the numbers that made it."""
        (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n", encoding="ascii")
        onnx.save(self.model(case), folder / "model.onnx")


class Gradients(Convolutions):
    """Gradients of Conv and ConvTranspose, by input or by weights."""

    def case(self, rng: random.Random) -> Case:
        """A case of operators that has gradients, and which of them."""
        while True:
            case = super().case(rng)
            if case["type"] in FLOATS:
                return case | {"gradient": rng.choice(("input", "weights"))}
