"""Functions in the place of their calls: drawn ones against onnxruntime, and each rule by itself."""

from __future__ import annotations

import random

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto, helper, numpy_helper

from convc.errors import ModelError
from convc.frontend import inline
from convc.frontend.inline import DOMAIN, inlined
from convc.frontend.same_node import as_in
from convc.runtime.network.convolutions import Convolutions
from convc.runtime.network.executor import Graph
from convc.runtime.network.ort_session import run_model

OPSET = 17
AXES_ARE_AN_INPUT = 18
"""Of ReduceMean, since this operator set: onnxruntime reads functions in the operator set of the model."""
QUICK = 6
"""Of the drawn functions so many are run by default."""
OTHERS = (13, 14, 15, 18, 19, 21)
X = np.random.default_rng(1).integers(-3, 4, (1, 4, 6, 6)).astype(np.float32)


def refer(node: NodeProto, name: str, to: str, kind: int) -> NodeProto:
    """A node whose attribute is one of the function."""
    node.attribute.append(AttributeProto(name=name, ref_attr_name=to, type=kind))
    return node


class Drawn:
    """A model of random functions that call one another, with convolutions in them.

    Each function takes x, a weight and an optional bias, and has one or two results. Attributes of its nodes are given
    by the call, left to a default of the function, or to the operator's. Each has an operator set of its own.
    """

    def __init__(self, seed: int) -> None:
        self._pick = random.Random(seed)
        self._rng = np.random.default_rng(seed)
        self.functions: list[FunctionProto] = []
        for level in range(self._pick.randint(1, 3)):
            self._function(level)
        nodes: list[NodeProto] = []
        tensor = "x"
        for call in range(self._pick.randint(1, 2)):
            nodes.append(self._call(tensor, f"c{call}", "bias", self._pick.choice(("", f"call{call}"))))
            tensor = f"c{call}"
        nodes.append(helper.make_node("Neg", [tensor], ["y"]))
        constants = {"w": self._weights(), "bias": self._rng.integers(-2, 3, 4).astype(np.float32)}
        graph = helper.make_graph(
            nodes,
            "drawn",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, X.shape)],
            [numpy_helper.from_array(array, name) for name, array in constants.items()],
        )
        imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("my", 1)]
        self.model = helper.make_model(graph, functions=self.functions, opset_imports=imports, ir_version=9)

    def _weights(self) -> np.ndarray:
        return self._rng.integers(-2, 3, (4, 4, 3, 3)).astype(np.float32) / 16

    def _function(self, level: int) -> None:
        """One more function; it may call the one before."""
        pick = self._pick
        opset = pick.choice((OPSET, OPSET, *OTHERS))
        defaults = {"slope": 0.5, "axis": -1, "gaps": [1, 1]}
        own = [helper.make_attribute(name, value) for name, value in defaults.items() if pick.random() < 0.6]
        plain = sorted(defaults.keys() - {each.name for each in own})
        conv = helper.make_node("Conv", ["x", pick.choice(("w", "own")), "b"], ["c"], pads=[1, 1, 1, 1])
        nodes = [
            helper.make_node("Constant", [], ["own"], value=numpy_helper.from_array(self._weights())),
            refer(conv, "dilations", "gaps", AttributeProto.INTS),
            refer(helper.make_node("LeakyRelu", ["c"], ["r"]), "alpha", "slope", AttributeProto.FLOAT),
        ]
        last = "r"
        if level and pick.random() < 0.8:
            nodes.append(self._call("r", "n", "b", pick.choice(("", "inner"))))
            last = "n"
        for other in pick.sample(("softmax", "mean", "branch", "add", "clip"), 2):
            nodes += self._step(other, last, f"{last}_{other}", opset)
            last = f"{last}_{other}"
        nodes.append(helper.make_node("Identity", [last], ["z"]))
        outputs = pick.choice((["z"], ["z", "c"]))
        imports = [helper.make_opsetid("", opset), helper.make_opsetid("my", 1)]
        self.functions.append(
            helper.make_function("my", f"F{level}", ["x", "w", "b"], outputs, nodes, imports, plain, own)
        )

    def _step(self, kind: str, x: str, y: str, opset: int) -> list[NodeProto]:
        """Nodes that keep the shape of a tensor; some are read otherwise in another operator set."""
        if kind == "softmax":
            return [refer(helper.make_node("Softmax", [x], [y]), "axis", "axis", AttributeProto.INT)]
        if kind == "clip":
            low = helper.make_node("Constant", [], [f"{y}_low"], value_float=-4.0)
            return [low, helper.make_node("Clip", [x, f"{y}_low"], [y])]
        if kind == "mean" and opset < AXES_ARE_AN_INPUT:
            return [
                helper.make_node("ReduceMean", [x], [f"{y}_m"], axes=[3]),
                helper.make_node("Sub", [x, f"{y}_m"], [y]),
            ]
        if kind in ("add", "mean"):
            return [helper.make_node("Add", [x, "x"], [y])]
        leaky = refer(helper.make_node("LeakyRelu", [x], ["t"]), "alpha", "slope", AttributeProto.FLOAT)
        yes = helper.make_graph([leaky], "yes", [], [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)])
        no = helper.make_graph(
            [helper.make_node("Neg", [x], ["t"])],
            "no",
            [],
            [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)],
        )
        true = helper.make_node("Constant", [], [f"{y}_which"], value=numpy_helper.from_array(np.array(True)))
        return [true, helper.make_node("If", [f"{y}_which"], [y], then_branch=yes, else_branch=no)]

    def _call(self, x: str, y: str, bias: str, name: str) -> NodeProto:
        """A call of the last function, with some of its attributes, and the bias given, left out or not there."""
        function = self.functions[-1]
        given = {"slope": 0.25, "axis": 1, "gaps": [1, 1]}
        attributes = {each: value for each, value in given.items() if self._pick.random() < 0.5}
        inputs = self._pick.choice(([x, "w", bias], [x, "w", ""], [x, "w"]))
        outputs = [y, f"{y}_c"][: len(function.output)]  # onnxruntime does not take a call with fewer
        return helper.make_node(function.name, inputs, outputs, name, domain="my", **attributes)


SEEDS = [seed if seed < QUICK else pytest.param(seed, marks=pytest.mark.slow) for seed in range(60)]


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_functions_are_what_onnxruntime_makes_of_them(seed):
    model = Drawn(seed).model
    expected = run_model(model, {"x": X}, {}, [])
    assert not isinstance(expected, str), expected
    whole = inlined(model)
    assert not [node for node in whole.graph.node if node.domain == "my"]
    assert inlined(whole) is whole
    for fuse in (False, True):
        graph = Graph(model, convolutions=Convolutions(precision="tf32x3"), fuse=fuse)
        found = graph.run({"x": X})["y"]
        assert found.shape == X.shape
        np.testing.assert_allclose(found, expected["y"], rtol=1e-3, atol=1e-4 * np.abs(expected["y"]).max())
    assert not graph.stats.hidden


def model_of(text: str, **arrays: np.ndarray) -> onnx.ModelProto:
    """A model from ONNX's own notation, with initializers."""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    return model


def kinds(model: onnx.ModelProto) -> list[str]:
    return [f"{node.domain}.{node.op_type}" if node.domain else node.op_type for node in inlined(model).graph.node]


def test_defaults_of_attributes_stay():
    model = model_of("""<ir_version: 9, opset_import: ["": 17, "my": 1]>
    g (float[1, 4, 8, 8] x, float[4, 4, 3, 3] w) => (y, z) { y = my.F (x, w)  z = my.F <s = [1, 1]> (x, w) }
    <domain: "my", opset_import: ["": 17]> F <s: ints = [2, 2]> (x, w) => (y) {
        y = Conv <strides: ints = @s> (x, w)
    }""")
    strides = [list(node.attribute[0].ints) for node in inlined(model).graph.node]
    assert strides == [[2, 2], [1, 1]]


def test_nodes_that_another_operator_set_reads_alike_are_put_in_place_and_others_are_called():
    text = """<ir_version: 9, opset_import: ["": 17, "my": 1]>
    g (float[1, 4] x) => (y) { y = my.F (x) }
    <domain: "my", opset_import: ["": 11]> F (x) => (y) {
        low = Constant <value_float: float = 0.5> ()
        a = Relu (x)
        b = Softmax (a)
        c = Add (b, x)
        y = Clip (c, low)
    }"""
    model = model_of(text.replace("<value_float: float = 0.5>", "<value: tensor = float {0.5}>"))
    assert kinds(model) == ["Constant", "Relu", f"{DOMAIN}.Softmax_0", "Add", "Clip"]
    graph = Graph(model)
    x = X[:, :, 0, 0]
    softmax = np.exp(np.maximum(x, 0))
    np.testing.assert_allclose(graph.run({"x": x})["y"], np.maximum(softmax / softmax.sum() + x, 0.5), rtol=1e-6)
    assert "Softmax" in graph.stats.evaluators


def test_a_node_that_the_model_s_operator_set_cannot_say_runs_in_its_own():
    model = model_of("""<ir_version: 9, opset_import: ["": 13, "my": 1]>
    g (float[1, 4] x) => (y) { y = my.F (x) }
    <domain: "my", opset_import: ["": 18]> F (x) => (y) {
        axes = Constant <value_ints: ints = [1]> ()
        m = ReduceMean (x, axes)
        y = Sub (x, m)
    }""")
    x = np.array([[1, 2, 3, 6]], np.float32)
    for host in ("onnxruntime", "reference"):
        graph = Graph(model, host=host)
        assert graph.run({"x": x})["y"].tolist() == [[-2, -1, 0, 3]]
        assert graph.stats.elsewhere == {}


def test_an_attribute_of_the_function_in_a_branch():
    model = model_of("""<ir_version: 9, opset_import: ["": 17, "my": 1]>
    g (float[1, 4] x, bool c) => (y) { y = my.F <slope = 0.5> (x, c) }
    <domain: "my", opset_import: ["": 17]> F <slope> (x, c) => (y) {
        y = If (c) <then_branch = t () => (float[1, 4] z) { z = LeakyRelu <alpha: float = @slope> (x) },
                    else_branch = e () => (float[1, 4] z) { z = Neg (x) }>
    }""")
    x = np.array([[-4, 2, -1, 0]], np.float32)
    graph = Graph(model)
    assert graph.run({"x": x, "c": np.array(True)})["y"].tolist() == [[-2, 2, -0.5, 0]]
    assert graph.run({"x": x, "c": np.array(False)})["y"].tolist() == [[4, -2, 1, 0]]


@pytest.mark.parametrize(("call", "y"), [
    ("y = my.F (x, x)", 8.0), ("y = my.F (x)", 4.0), ('y = my.F (x, "")', 4.0), ('"", y = my.F (x)', 2.0),
])  # fmt: skip
def test_what_a_call_leaves_out(call, y):
    model = model_of(f"""<ir_version: 9, opset_import: ["": 17, "my": 1]>
    g (float[1] x) => (y) {{ {call} }}
    <domain: "my", opset_import: ["": 17]> F (x, m) => (y, x) {{ s = Add (x, x)  h = Max (s, m)  y = Mul (h, x) }}""")
    model.functions[0].node[1].CopyFrom(helper.make_node("Clip", ["s", "m"], ["h"]))
    assert Graph(model).run({"x": np.array([2 if y != 4 else 1.414213562], np.float32)})["y"] == pytest.approx(y)


CALLED = """<ir_version: 8, opset_import: ["": 17, "own": 1]>
g (float[2] x) => (float[2] y) { a = own.two (x)  y = own.two (a) }
<domain: "own", opset_import: ["": 17]> two (x) => (z) { y = Neg (x)  z = Neg (y) }"""


@pytest.mark.parametrize(("most", "right"), [(6, True), (5, False)])
def test_nodes_are_counted_with_those_of_functions(most, right, monkeypatch):
    """Two calls, of two nodes each."""
    monkeypatch.setattr(inline, "MAX_NODES", most)
    model = onnx.parser.parse_model(CALLED)
    if right:
        inline._check_size(model)
        return
    with pytest.raises(ModelError, match="with its functions inlined the model has 6 nodes, more than 5"):
        inline._check_size(model)


def test_a_call_with_more_than_the_function_takes():
    model = model_of("""<ir_version: 9, opset_import: ["": 17, "my": 1]>
    g (float[1] x) => (y) { y = my.F (x, x) }
    <domain: "my", opset_import: ["": 17]> F (x) => (y) { y = Neg (x) }""")
    with pytest.raises(ModelError, match="the function 'F' has 1 inputs, and a call has 2") as raised:
        inlined(model)
    assert raised.value.where == "y"


def test_overloads_are_different_functions():
    model = model_of("""<ir_version: 10, opset_import: ["": 17, "my": 1]>
    g (float[1] x) => (y) { y = my.F (x) }
    <domain: "my", opset_import: ["": 17]> F (x) => (y) { y = Neg (x) }""")
    other = FunctionProto()
    other.CopyFrom(model.functions[0])
    other.overload = "two"
    other.node[0].op_type = "Abs"
    model.functions.append(other)
    model.graph.node[0].overload = "two"
    assert kinds(model) == ["Abs"]


def test_an_older_normalisation_is_read_where_it_is_inference():
    """From operator set 14 on a node says that it trains; before, it did where it gives more than its result."""
    names = ["x", "s", "o", "m", "v"]
    infers = helper.make_node("BatchNormalization", names, ["y"], epsilon=0.5)
    trains = helper.make_node("BatchNormalization", names, ["y", "mean", "var"])
    assert as_in(infers, 9, 17) is infers
    assert as_in(trains, 9, 17) is None
    assert as_in(infers, 17, 9) is None
