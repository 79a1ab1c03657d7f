"""Extents that nodes compute: those that onnxruntime makes, in old operator sets and new ones."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.quantised_models import onnxruntime_outputs

import convc
from convc.frontend.constants import Constants
from convc.frontend.input_shapes import guessed_shapes
from convc.frontend.open_extents import extent_name
from convc.frontend.shape_values import Partial, node_values, shape_value
from convc.frontend.shapes import infer_facts

X = (1, 4, 9, 7)
NUMBERS = {
    "i0": 0, "i1": 1, "i2": 2, "i3": 3, "one": 1, "two": 2, "a0": [0], "a1": [1], "a2": [2], "a3": [3], "v2": [2],
    "v4": [4], "m1": [-1], "zz": [0, 0], "five": [5],
}  # fmt: skip
OPSETS = (7, 9, 10, 11, 12, 13, 17, 18, onnx.defs.onnx_opset_version())


def node(kind: str, given: list[str], made: list[str], **attributes) -> onnx.NodeProto:
    return helper.make_node(kind, given, made, **attributes)


class Writer:
    """Nodes as exporters write them in an operator set."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []

    def add(self, kind: str, given: list[str], made: str, **attributes) -> str:
        self.nodes.append(node(kind, given, [made], **attributes))
        return made

    def row(self, name: str) -> str:
        """A number as a list of one."""
        if self.opset < 13:
            return self.add("Unsqueeze", [name], name + "_row", axes=[0])
        return self.add("Unsqueeze", [name, "a0"], name + "_row")

    def extent(self, of: str, axis: int) -> str:
        shape = self.add("Shape", [of], f"{of}_shape{axis}")
        return self.add("Gather", [shape, f"i{axis}"], f"{of}_{axis}")

    def cut(self, data: str, starts: str, ends: str, axes: str, made: str) -> str:
        if self.opset < 10:  # of constants alone
            named = {k: NUMBERS[v] for k, v in (("starts", starts), ("ends", ends), ("axes", axes))}
            return self.add("Slice", [data], made, **named)
        return self.add("Slice", [data, starts, ends, axes], made)

    def pad(self, data: str, pads: str, made: str) -> str:
        return self.add("Pad", [data, pads], made)

    def resize(self, data: str, sizes: str, made: str) -> str:
        empty = ["empty", "empty"] if self.opset < 13 else ["", ""]
        return self.add("Resize", [data, *empty, sizes], made, mode="nearest")


def view(w: Writer) -> None:
    sizes = [w.row(w.extent("x", 0)), "m1", w.row(w.add("Mul", [w.extent("x", 2), w.extent("x", 3)], "area"))]
    w.add("Reshape", ["x", w.add("Concat", sizes, "flat", axis=0)], "y")


def shuffle(w: Writer) -> None:
    half = w.row(w.add("Div", [w.extent("x", 1), "two"], "half"))
    ends = [w.row(w.extent("x", 2)), w.row(w.extent("x", 3))]
    split = w.add("Concat", [w.row(w.extent("x", 0)), "v2", half, *ends], "split", axis=0)
    swapped = w.add("Transpose", [w.add("Reshape", ["x", split], "parts")], "swapped", perm=[0, 2, 1, 3, 4])
    w.add("Reshape", [swapped, w.add("Concat", ["x_0_row", "m1", *ends], "joined", axis=0)], "y")


def shape_slice(w: Writer) -> None:
    front = w.cut(w.add("Shape", ["x"], "s"), "a0", "v2", "a0", "front")
    w.add("Reshape", ["x", w.add("Concat", [front, "m1"], "sizes", axis=0)], "y")


def crop(w: Writer) -> None:
    ends = w.row(w.add("Sub", [w.extent("x", 2), "two"], "end"))
    w.cut("x", "a0", ends, "a2", "y")


def pad_by_difference(w: Writer) -> None:
    odd = [w.row(w.add("Mod", [w.extent("x", axis), "two"], f"odd{axis}")) for axis in (2, 3)]
    w.pad("x", w.add("Concat", ["zz", "zz", "zz", *odd], "pads", axis=0), "y")


def interpolate(w: Writer) -> None:
    scaled = w.add("Cast", [w.add("Shape", ["x"], "s")], "real", to=TensorProto.FLOAT)
    grown = w.add("Floor", [w.add("Mul", [scaled, "factors"], "scaled")], "grown")
    w.resize("x", w.add("Cast", [grown], "sizes", to=TensorProto.INT64), "y")


def expand(w: Writer) -> None:
    like = w.add(
        "ConstantOfShape", [w.add("Shape", ["x"], "s")], "ones", value=numpy_helper.from_array(np.ones(1, "f"))
    )
    size = w.add("Concat", [w.row(w.extent("x", 0)), "five", w.row(w.extent("x", 2)), "a1"], "size", axis=0)
    w.add("Add", [w.add("Expand", ["m", size], "wide"), w.add("ReduceMin", [like], "one_", keepdims=0)], "y")


def torch_expand(w: Writer) -> None:
    """What torch.onnx writes for ``m.expand(-1, 5, h, w)``."""
    asked = w.add("Concat", ["m1", "five", w.row(w.extent("x", 2)), "m1"], "asked", axis=0)
    ones = w.add("ConstantOfShape", ["v4"], "ones", value=numpy_helper.from_array(np.ones(1, "i8")))
    kept = w.add("Equal", [asked, w.add("Mul", [ones, "m1"], "minus")], "kept")
    w.add("Expand", ["m", w.add("Where", [kept, ones, asked], "size")], "y")


def chosen(w: Writer) -> None:
    w.add("Tile", ["x", w.add("Cast", [w.add("Shape", ["m"], "s")], "repeats", to=TensorProto.INT64)], "t")
    w.add("Range", ["i0", w.extent("t", 2), "one"], "numbers")
    w.add("Gather", ["t", "numbers"], "y", axis=2)


PATTERNS = {  # and the first operator set that has what they are made of
    "view": (view, 7), "shuffle": (shuffle, 7), "shape slice": (shape_slice, 7), "crop": (crop, 10),
    "pad": (pad_by_difference, 11), "interpolate": (interpolate, 11), "expand": (expand, 9),
    "torch's expand": (torch_expand, 11), "range": (chosen, 11),
}  # fmt: skip


def model(nodes: list[onnx.NodeProto], opset: int, x: tuple = X, **more: object) -> onnx.ModelProto:
    """A graph of x."""
    numbers = {name: np.array(value, np.int64) for name, value in NUMBERS.items()}
    numbers |= {"m": np.ones((1, 1, 1, 1), "f"), "empty": np.zeros(0, "f"), "factors": np.array([1, 1, 2, 1.5], "f")}
    numbers |= {name: np.asarray(value) for name, value in more.items()}
    read = {name for each in nodes for name in each.input}
    tensors = [numpy_helper.from_array(value, name) for name, value in numbers.items() if name in read]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, x)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [given], [made], tensors)
    ir_version = 8 if opset < 20 else onnx.IR_VERSION - 1
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=min(ir_version, 10))


def inferred(made: onnx.ModelProto, **shapes: tuple[int, ...]):
    return infer_facts(made, Constants(made.graph, None, {}, opset=made.opset_import[0].version), None, shapes)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", PATTERNS)
def test_extents_that_nodes_compute(name, opset):
    write, first = PATTERNS[name]
    writer = Writer(max(opset, first))
    write(writer)
    made = model(writer.nodes, writer.opset)
    x = np.ones(X, np.float32)
    if writer.opset <= 23:  # onnxruntime's newest
        assert inferred(made).types["y"].shape == onnxruntime_outputs(made, {"x": x}, [])["y"].shape
    assert None not in inferred(made).types["y"].shape
    open_one = model(writer.nodes, writer.opset, x=("n", 4, "h", "w"))
    assert inferred(open_one, x=X).types["y"].shape == inferred(made).types["y"].shape


def test_division_of_extents_goes_towards_zero():
    w = Writer(17)
    less = w.add("Sub", [w.extent("x", 3), w.extent("x", 2)], "less")
    for name, kind in (("half", "Div"), ("rest", "Mod")):
        w.add(kind, [less, "two"], name)
    values = inferred(model(w.nodes, 17, x=(1, 4, 12, 7))).extents.values
    assert (int(values["less"]), int(values["half"]), int(values["rest"])) == (-5, -2, 1)


def test_an_extent_that_is_known_passes_beside_one_that_is_not():
    w = Writer(17)
    w.add("Reshape", ["x", w.row(w.extent("x", 1))], "y")
    facts = inferred(model(w.nodes, 17, x=("n", 4, "h", "w")))
    assert facts.types["y"].shape == (4,)
    w = Writer(17)
    w.add("Reshape", ["x", w.row(w.extent("x", 2))], "y")
    assert inferred(model(w.nodes, 17, x=("n", 4, "h", "w"))).types["y"].shape == (None,)


def test_extents_that_are_known_in_part_are_put_together():
    some = Partial(numbers=np.array([1, 3]), known=np.array([False, True]))
    concat = node("Concat", ["a", "b"], ["c"], axis=0)
    for given, numbers, known in (
        ((some, np.array([0, 5])), [1, 3, 0, 5], [False, True, True, True]),
        ((np.array([0, 5]), some), [0, 5, 1, 3], [True, True, False, True]),
        ((some, some), [1, 3, 1, 3], [False, True, False, True]),
    ):
        [made] = node_values(concat, 17, given)
        assert (made.numbers.tolist(), made.known.tolist()) == (numbers, known)


@pytest.mark.parametrize(("extents", "size"), [((1 << 31, 1 << 31), 1 << 62), ((1 << 32, 1 << 31), None)])
def test_a_size_beyond_64_bits_is_not_known(extents, size):
    found = shape_value(node("Size", ["x"], ["n"]), extents)
    assert (None if found is None else int(found)) == size


def test_extents_that_nobody_asked_for():
    asked = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in
             (("x", ["n", 3, "h"]), ("y", ["m", "n", 5]), ("z", [2, 4]), ("u", ["k", 8]))]  # fmt: skip
    found = guessed_shapes(asked, {"u": (9, 8)}, 7)
    assert found == {"x": (1, 3, 7), "y": (1, 1, 5), "u": (9, 8)}


SCANNED = """<ir_version: 8, opset_import: ["": 17]>
g (float[4, 6] state, float[6, 5, 4] xs) => (last, all) {
    last, all = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [-1],
        body = b (s, x) => (t, y) { t = Identity (s)  y = Transpose (x) }> (state, xs)
}"""


def test_a_scan_takes_its_last_inputs_apart_and_puts_results_together():
    types = inferred(onnx.parser.parse_model(SCANNED)).types
    assert (types["last"].shape, types["all"].shape) == ((4, 6), (4, 6, 5))


WEIGHT = np.random.default_rng(3).standard_normal((6, 4, 3, 3)).astype("f")


def test_weights_that_follow_of_extents():
    """A blur whose filter is repeated once for each channel, as in networks that do not alias."""
    w = Writer(17)
    size = w.add("Concat", [w.row(w.extent("x", 1)), "a1", "a1", "a1"], "size", axis=0)
    w.nodes.append(node("Conv", ["x", w.add("Expand", ["blur", size], "filters")], ["y"], group=4, name="blur"))
    blur = np.array([[[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]], "f")
    conv = convc.load(model(w.nodes, 17, blur=blur)).convs[0]
    np.testing.assert_array_equal(conv.weight, np.broadcast_to(blur, (4, 1, 3, 3)))


def left_out(opset: int = 17) -> onnx.ModelProto:
    """A convolution, and one of as many images as the first has pixels that are not 0."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], name="first"),
        node("NonZero", ["x"], ["places"], name="places"),
        node("Shape", ["places"], ["s"]),
        node("Gather", ["s", "a1"], ["count"]),
        node("Concat", ["count", "v4", "m1", "m1"], ["size"], axis=0),
        node("Expand", ["m", "size"], ["many"]),
        node("Conv", ["many", "w"], ["y"], name="second"),
    ]
    return model(nodes, opset, w=WEIGHT)


def test_what_stays_unknown_is_left_out_by_name():
    network = convc.load(left_out())
    assert [conv.name for conv in network.convs] == ["first"]
    reason = next(each.reason for each in network.skipped if each.name == "second")
    assert reason == (
        "the shape of the input 'many' is not fixed: (?, ?, ?, ?): node 'places' (NonZero): its extents depend on "
        "tensor contents; these commands know them from the data: convc run MODEL, or convc verify MODEL, with "
        "--input FILE"
    )
    assert convc.verify(left_out()).ok


@pytest.mark.parametrize("name", ["?", "None", "unk__12", "unknown", "", "-1", "*", "dynamic", "nan"])
def test_words_for_unknown_are_no_names(name):
    assert extent_name(onnx.TensorShapeProto.Dimension(dim_param=name)) == ""
    made = model([node("Conv", ["x", "w"], ["y"])], 11, x=(1, 4, name, name), w=WEIGHT)
    assert convc.load(made, batch={"x": (1, 4, 9, 7)}).convs[0].problem.in_extent == (9, 7)
    assert convc.run_model(made, np.ones(X, np.float32))["y"].shape == (1, 6, 7, 5)


@pytest.mark.parametrize("name", ["n", "batch", "s0", "height + 2", "N0", "unk_h", "dim_1"])
def test_names_of_extents_are_names(name):
    assert extent_name(onnx.TensorShapeProto.Dimension(dim_param=name)) == name


def test_what_the_model_says_of_a_tensor_is_checked():
    made = model([node("Conv", ["x", "w"], ["c"], name="a"), node("Conv", ["c", "v"], ["y"], name="b")], 17,
                 w=WEIGHT, v=np.ones((2, 6, 1, 1), "f"))  # fmt: skip
    made.graph.value_info.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, [1, 6, 3, 3]))
    network = convc.load(made)
    assert network.convs[1].problem.in_extent == (7, 5)
    assert network.assumed == ("the model declares 'c' as [1, 6, 3, 3], its nodes compute [1, 6, 7, 5]: that is taken",)


def test_what_nobody_can_compute_the_model_may_say():
    nodes = [node("Mystery", ["x"], ["c"], domain="com.example"), node("Conv", ["c", "w"], ["y"], name="a")]
    made = model(nodes, 17, x=("n", 4, 9, 7), w=WEIGHT)
    made.opset_import.append(helper.make_opsetid("com.example", 1))
    made.graph.value_info.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, ["n", 4, 5, 5]))
    network = convc.load(made)
    assert network.convs[0].problem.x_shape == (1, 4, 5, 5)
    said = "the extents of 'c' are those that the model declares: shape inference does not give them"
    assert network.assumed[-1] == said


BOMBS = {
    "Range": (["i0", "big", "one"], {}), "ConstantOfShape": (["bigs"], {}), "Expand": (["m", "bigs"], {}),
    "Tile": (["five", "bigs"], {}), "OneHot": (["five", "big", "zz"], {}), "Resize": (["m1f", "", "", "bigs"], {}),
    "Pad": (["five", "pads"], {}),
}  # fmt: skip


@pytest.mark.parametrize("kind", BOMBS)
def test_a_small_file_takes_no_memory(kind):
    given, attributes = BOMBS[kind]
    huge = 1 << 40
    nodes = [
        node(kind, given, ["r"], **attributes),
        node("Shape", ["r"], ["s"]),
        node("Slice", ["r", "a0", "v4"], ["part"]),
        node("Add", ["part", "part"], ["sum"]),
        node("Conv", ["x", "w"], ["y"]),
    ]
    made = model(nodes, 17, big=np.int64(huge), bigs=np.array([huge]), pads=np.array([0, huge]), w=WEIGHT,
                 m1f=np.ones(1, "f"))  # fmt: skip
    facts = inferred(made)
    assert max(facts.types["r"].shape) >= huge
    assert facts.extents.values["s"].max() >= huge
    assert convc.load(made).convs[0].problem.in_extent == (9, 7)
