"""What convolutions take in, what they leave, and that the result is what ONNX Runtime says of the graph as it was."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from support.examples import some

from convc.errors import ConvcError
from convc.frontend.fusible_nodes import activation_step
from convc.frontend.onnx_reader import read_model
from convc.ir import dtypes
from convc.ir.epilogue import AddResidual, Clip, LeakyRelu, Relu, Sigmoid, SiLU
from convc.ir.network import Network
from convc.verification import reference

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
CHANNELS = 6


def node(kind, inputs, output, name="", **attributes):
    return helper.make_node(kind, list(inputs), [output], name=name or kind.lower(), **attributes)


def save(path, nodes, values=None, *, outputs=("y",), opset=22, element=TensorProto.FLOAT, extra_inputs=()):
    """A model with inputs x and those of `extra_inputs` (1, 6, 5, 7), and values for initializers."""
    rng = np.random.default_rng(3)
    given = {"w": rng.integers(-4, 5, (CHANNELS, CHANNELS, 1, 1)).astype(np.float32)} | (values or {})
    dtype = helper.tensor_dtype_to_np_dtype(element)
    given = {name: a.astype(dtype) if a.dtype == np.float32 else a for name, a in given.items()}
    used = {name for each in nodes for name in each.input}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, element, (1, CHANNELS, 5, 7)) for name in ("x", *extra_inputs)],
        [helper.make_tensor_value_info(name, element, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in given.items() if name in used],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)])
    path.write_bytes(model.SerializeToString())
    return path


def conv(output="c", inputs=("x", "w"), name="conv"):
    return node("Conv", inputs, output, name)


def norm_values(seed=0, exact=True):
    """scale, B, mean, var; exact: epsilon 0 and powers of two, so that folding rounds nothing."""
    rng = np.random.default_rng(seed)
    if exact:
        arrays = 2.0 ** rng.integers(-1, 2, CHANNELS), rng.integers(-9, 9, CHANNELS), rng.integers(-9, 9, CHANNELS)
        return dict(
            zip(("s", "o", "m", "v"), map(np.float32, (*arrays, 4.0 ** rng.integers(-1, 2, CHANNELS))), strict=True)
        )
    arrays = rng.uniform(0.5, 2, CHANNELS), rng.normal(size=CHANNELS), rng.normal(size=CHANNELS)
    return dict(zip(("s", "o", "m", "v"), map(np.float32, (*arrays, rng.uniform(0.3, 2, CHANNELS))), strict=True))


def norm(source="c", output="y", name="bn", **attributes):
    return node("BatchNormalization", (source, "s", "o", "m", "v"), output, name, **({"epsilon": 0.0} | attributes))


def run_network(network: Network, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All convolutions in order, in float64; every tensor that one needs must be there by then."""
    for each in network.convs:
        residual = None if each.residual is None else tensors[each.residual.name]
        tensors[each.output.name] = reference.conv_problem(
            each.problem, tensors[each.input.name], each.weight, each.bias, residual=residual
        )
    return tensors


def agrees(path, *, exact=True, outputs=("y",), operand=None) -> Network:
    """The fused network gives what ONNX Runtime gives for the file; nothing but convolutions is left in it."""
    network = read_model(path, fuse=True, operand=operand)
    assert network.skipped == ()
    rng = np.random.default_rng(1)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds = {each.name: rng.integers(-4, 5, each.shape).astype(np.float32) for each in session.get_inputs()}
    expected = session.run(list(outputs), feeds)
    found = run_network(network, {name: array.astype(np.float64) for name, array in feeds.items()})
    for name, array in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(found[name], array, rtol=1e-6 if exact else 0, atol=1e-5 if exact else 0.05)
    return network


ACTIVATIONS = {
    "Relu": (lambda a, b: [node("Relu", [a], b)], (Relu(),)),
    "LeakyRelu": (lambda a, b: [node("LeakyRelu", [a], b)], (LeakyRelu(0.01),)),
    "LeakyRelu 1/4": (lambda a, b: [node("LeakyRelu", [a], b, alpha=0.25)], (LeakyRelu(0.25),)),
    "Sigmoid": (lambda a, b: [node("Sigmoid", [a], b)], (Sigmoid(),)),
    "Clip": (lambda a, b: [node("Clip", [a, "low", "high"], b)], (Clip(0.0, 6.0),)),
    "Clip from below": (lambda a, b: [node("Clip", [a, "low"], b)], (Clip(0.0),)),
    "Clip from above": (lambda a, b: [node("Clip", [a, "", "high"], b)], (Clip(None, 6.0),)),
    "Clip at nothing": (lambda a, b: [node("Clip", [a], b)], (Clip(),)),
    "SiLU": (lambda a, b: [node("Sigmoid", [a], b + "s"), node("Mul", [a, b + "s"], b)], (SiLU(),)),
    "SiLU turned": (lambda a, b: [node("Sigmoid", [a], b + "s"), node("Mul", [b + "s", a], b)], (SiLU(),)),
}
BOUNDS = {"low": np.float32(0), "high": np.float32(6)}


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_an_activation_becomes_a_step(tmp_path, kind):
    make, epilogue = ACTIVATIONS[kind]
    network = agrees(save(tmp_path / "m.onnx", [conv(), *make("c", "y")], BOUNDS))
    (only,) = network.convs
    assert only.problem.epilogue == epilogue
    assert only.output.name == "y"
    assert network.notes == (" + ".join(["conv", *only.fused]),)
    plain = read_model(tmp_path / "m.onnx")
    assert plain.convs[0].problem.epilogue == ()
    assert len(plain.skipped) == len(only.fused)


@pytest.mark.parametrize("alpha", [np.inf, -np.inf, np.nan])
def test_a_slope_that_is_no_number_stays_a_node(tmp_path, alpha):
    network = read_model(save(tmp_path / "m.onnx", [conv(), node("LeakyRelu", ["c"], "y", alpha=alpha)]), fuse=True)
    assert network.convs[0].problem.epilogue == ()
    assert len(network.skipped) == 1


@pytest.mark.parametrize(("low", "high"), [(np.nan, 6), (0, np.nan), (np.inf, np.inf), (-np.inf, -np.inf)])
def test_a_bound_that_is_no_number_stays_a_node(tmp_path, low, high):
    bounds = {"low": np.float32(low), "high": np.float32(high)}
    network = read_model(
        save(tmp_path / "m.onnx", [conv(), node("Clip", ["c", "low", "high"], "y")], bounds), fuse=True
    )
    assert network.convs[0].problem.epilogue == ()


def test_a_node_with_an_attribute_that_is_not_known_stays_a_node():
    leaky = node("LeakyRelu", ["c"], "y")
    leaky.attribute.append(onnx.helper.make_attribute("beta", 2.0))
    assert activation_step(None, leaky) is None


def test_clip_of_opset_6(tmp_path):
    (only,) = agrees(save(tmp_path / "m.onnx", [conv(), node("Clip", ["c"], "y", min=-1.0, max=2.0)], opset=9)).convs
    assert only.problem.epilogue == (Clip(-1.0, 2.0),)
    unbounded = node("Clip", ["c"], "y", min=-3.4028234663852886e38, max=3.4028234663852886e38)
    assert agrees(save(tmp_path / "m.onnx", [conv(), unbounded], opset=9)).convs[0].problem.epilogue == (Clip(),)


@pytest.mark.parametrize("biased", [False, True])
def test_normalisation_is_folded_without_rounding(tmp_path, biased):
    values = norm_values() | {"b": np.arange(CHANNELS, dtype=np.float32)}
    inputs = ("x", "w", "b") if biased else ("x", "w")
    (only,) = agrees(save(tmp_path / "m.onnx", [conv(inputs=inputs), norm()], values)).convs
    assert only.problem.bias
    assert only.problem.epilogue == ()
    assert only.fused == ("bn",)
    scale = values["s"] / np.sqrt(values["v"])
    given = read_model(tmp_path / "m.onnx").convs[0].weight
    np.testing.assert_array_equal(only.weight, given * scale[:, None, None, None])


@pytest.mark.parametrize(("kind", "group"), [("Conv", 2), ("ConvTranspose", 1), ("ConvTranspose", 3)])
def test_groups_and_transposed_convolutions(tmp_path, kind, group):
    w = np.random.default_rng(2).integers(-3, 4, (CHANNELS, CHANNELS // group, 3, 3)).astype(np.float32)
    nodes = [
        node(kind, ("x", "w"), "c", "conv", group=group, pads=[1] * 4),
        norm(output="n"),
        node("Add", ["n", "x"], "a"),
        node("Relu", ["a"], "y"),
    ]
    network = agrees(save(tmp_path / "m.onnx", nodes, norm_values() | {"w": w}))
    assert network.notes == ("conv + bn + add + relu",)


@given(st.integers(0, 2**31), st.sampled_from(["tf32", "f16", "bf16"]))
@settings(max_examples=some(20))
def test_folded_weights_are_rounded_once(tmp_path_factory, seed, operand):
    """From the weights of the file, in float64: not from weights that were rounded before."""
    values = norm_values(seed, exact=False)
    values["w"] = np.random.default_rng(seed).normal(size=(CHANNELS, CHANNELS, 1, 1)).astype(np.float32)
    path = save(tmp_path_factory.mktemp("m") / "m.onnx", [conv(), norm(epsilon=1e-3)], values)
    (only,) = agrees(path, exact=False, operand=operand if operand != "bf16" else None).convs
    s, o, m, v = (values[name].astype(np.float64) for name in "somv")
    scale = s / np.sqrt(v + float(np.float32(1e-3)))
    folded = values["w"].astype(np.float64) * scale[:, None, None, None]
    np.testing.assert_array_equal(only.weight, dtypes.quantise(only.problem.operand_dtype, folded))
    np.testing.assert_array_equal(only.bias, (o - m * scale).astype(np.float32))


def test_scales_and_shifts_per_channel(tmp_path):
    values = norm_values() | {
        "k": 2.0 ** np.arange(CHANNELS, dtype=np.float32),
        "t": np.arange(CHANNELS, dtype=np.float32)[:, None, None],
        "one": np.float32(3),
        "axes": np.array([1, 2]),
    }
    nodes = [
        conv(),
        norm(output="n"),
        node("Unsqueeze", ["k", "axes"], "ku", "unsqueeze"),
        node("Mul", ["n", "ku"], "z"),
        node("Add", ["t", "z"], "a", "add1"),
        node("Add", ["a", "one"], "y", "add2"),
    ]
    network = read_model(save(tmp_path / "m.onnx", nodes, values), fuse=True)
    (only,) = network.convs
    assert only.fused == ("bn", "mul", "add1", "add2")
    assert [each.name for each in network.skipped] == ["unsqueeze"]
    x = np.random.default_rng(0).integers(-3, 4, (1, CHANNELS, 5, 7)).astype(np.float32)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(run_network(network, {"x": x})["y"], session.run(["y"], {"x": x})[0])


def test_a_residual_block(tmp_path):
    """The later of two convolutions takes the sum in, runs after the other, and reads its result."""
    nodes = [
        conv("a", name="one"),
        norm("a", "an", "bn1"),
        node("Relu", ["an"], "ar", "relu1"),
        conv("b", ("ar", "w2"), name="two"),
        conv("d", ("x", "w3"), name="shortcut"),
        norm("d", "dn", "bn3"),
        norm("b", "bb", "bn2"),
        node("Add", ["bb", "dn"], "sum", "add"),
        node("Relu", ["sum"], "y", "relu2"),
    ]
    rng = np.random.default_rng(5)
    more = {name: rng.integers(-2, 3, (CHANNELS, CHANNELS, 1, 1)).astype(np.float32) for name in ("w2", "w3")}
    network = agrees(save(tmp_path / "m.onnx", nodes, norm_values() | more))
    assert network.notes == ("one + bn1 + relu1", "two + bn2", "shortcut + bn3 + add + relu2")
    last = network.convs[-1]
    assert last.problem.epilogue == (AddResidual(), Relu())
    assert [each.name for each in last.inputs] == ["x", "bb"]
    assert last.residual.shape == last.problem.y_shape


def test_a_sum_with_what_came_in(tmp_path):
    for kind, inputs in (("Add", ("c", "x")), ("Add", ("x", "c")), ("Sum", ("x", "c"))):
        network = agrees(save(tmp_path / "m.onnx", [conv(), node(kind, inputs, "y")]))
        assert network.convs[0].residual.name == "x"
    nodes = [conv(), node("Add", ["c", "x"], "s"), node("Add", ["s", "r"], "y", "second")]
    network = read_model(save(tmp_path / "m.onnx", nodes, extra_inputs=("r",)), fuse=True)
    assert network.convs[0].fused == ("add",)
    assert [each.name for each in network.skipped] == ["second"]


LEFT = {
    "two readers": ([conv(), node("Relu", ["c"], "y"), node("Neg", ["c"], "z")], ("y", "z")),
    "a graph output": ([conv(), node("Relu", ["c"], "y")], ("y", "c")),
    "HardSwish": ([conv(), node("HardSwish", ["c"], "y")], ("y",)),
    "x + x": ([conv(), node("Add", ["c", "c"], "y")], ("y",)),
    "a pixel constant": ([conv(), node("Add", ["c", "pixels"], "y")], ("y",)),
    "a full constant": ([conv(), node("Add", ["c", "full"], "y")], ("y",)),
    "a larger rank": ([conv(), node("Add", ["c", "five"], "y")], ("y",)),
    "a broadcast tensor": ([conv(), node("GlobalAveragePool", ["x"], "p"), node("Add", ["c", "p"], "y")], ("y",)),
    "other statistics": ([conv(), node("ReduceMean", ["x", "axes"], "q", keepdims=0),
                          node("BatchNormalization", ["c", "q", "o", "m", "v"], "y")], ("y",)),
    "bounds unknown": ([conv(), node("ReduceMin", ["x"], "q", keepdims=0), node("Clip", ["c", "q"], "y")], ("y",)),
    "clipped by it": ([conv(), node("ReduceMin", ["c"], "q", keepdims=0), node("Clip", ["x", "q"], "y")], ("y",)),
    "Swish of another slope": ([conv(), node("Swish", ["c"], "y", alpha=2.0)], ("y",)),
    "sigmoid of another": ([conv(), node("Sigmoid", ["x"], "q"), node("Mul", ["c", "q"], "y")], ("y",)),
}  # fmt: skip


@pytest.mark.parametrize("case", LEFT)
def test_what_is_left_alone(tmp_path, case):
    nodes, outputs = LEFT[case]
    values = norm_values() | {
        "pixels": np.ones((5, 7), np.float32),
        "full": np.ones((1, CHANNELS, 5, 7), np.float32),
        "five": np.ones((1, 1, 1, 1, 1), np.float32),
        "axes": np.array([0, 2, 3]),
    }
    network = read_model(save(tmp_path / "m.onnx", nodes, values, outputs=outputs, opset=24), fuse=True)
    (only,) = network.convs
    assert only.fused == ()
    assert only.output.name == "c"
    assert only.problem.epilogue == ()
    assert not only.problem.bias
    assert network.notes == ()
    assert len(network.skipped) == len(nodes) - 1


def test_swish_is_silu(tmp_path):
    nodes = [conv(), node("Swish", ["c"], "y")]
    assert read_model(save(tmp_path / "m.onnx", nodes, opset=24), fuse=True).convs[0].problem.epilogue == (SiLU(),)


def test_a_relu_of_another_domain_is_none_of_ours(tmp_path):
    path = save(tmp_path / "m.onnx", [conv(), node("Relu", ["c"], "y")])
    model = onnx.load(path)
    model.graph.node[1].domain = "strange"
    model.opset_import.append(helper.make_opsetid("strange", 1))
    path.write_bytes(model.SerializeToString())
    assert read_model(path, fuse=True).convs[0].fused == ()


def test_a_reader_inside_a_branch_counts(tmp_path):
    branch = helper.make_graph(
        [node("Neg", ["c"], "inner", "neg")],
        "then",
        [],
        [helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)],
    )
    nodes = [
        conv(),
        node("Relu", ["c"], "y"),
        helper.make_node("If", ["flag"], ["z"], name="if", then_branch=branch, else_branch=branch),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"flag": np.array(True)}, outputs=("y", "z"))
    assert read_model(path, fuse=True).convs[0].fused == ()


def test_training_is_not_folded(tmp_path):
    for attributes in ({"training_mode": 1}, {"unknown": 1}):
        path = save(tmp_path / "m.onnx", [conv(), norm(**attributes)], norm_values(), opset=15)
        assert read_model(path, fuse=True).convs[0].fused == ()


def test_no_normalisation_behind_an_activation(tmp_path):
    nodes = [conv(), node("Relu", ["c"], "r"), norm("r", "y")]
    network = read_model(save(tmp_path / "m.onnx", nodes, norm_values()), fuse=True)
    assert network.convs[0].fused == ("relu",)
    assert [each.name for each in network.skipped] == ["bn"]


@pytest.mark.parametrize(("changes", "operand"), [({"v": -1.0}, None), ({"s": 1e38}, None)])
def test_weights_that_would_leave_their_type_are_not_scaled(tmp_path, changes, operand):
    values = norm_values() | {name: np.full(CHANNELS, value, np.float32) for name, value in changes.items()}
    nodes = [conv(), norm(output="n"), node("Relu", ["n"], "y")]
    path = save(tmp_path / "m.onnx", nodes, values)
    network = read_model(path, fuse=True, operand=operand)
    assert network.convs[0].fused == ()
    assert np.array_equal(network.convs[0].weight, read_model(path, operand=operand).convs[0].weight)
    assert [each.name for each in network.skipped] == ["bn", "relu"]


def test_weights_that_would_leave_a_narrow_type_have_their_scale_in_the_epilogue(tmp_path):
    values = norm_values() | {"s": np.full(CHANNELS, 1e5, np.float32)}
    path = save(tmp_path / "m.onnx", [conv(), norm(output="n"), node("Relu", ["n"], "y")], values)
    (only,) = read_model(path, fuse=True, operand="f16").convs
    assert (only.fused, only.problem.multiplier) == (("bn", "relu"), True)
    assert np.array_equal(only.weight, read_model(path, operand="f16").convs[0].weight)
    np.testing.assert_array_equal(only.multiplier, np.float32(1e5) / np.sqrt(values["v"]))


@pytest.mark.parametrize("element", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_narrow_types(tmp_path, element):
    nodes = [conv(), norm(output="n"), node("Add", ["n", "x"], "a"), node("Relu", ["a"], "y")]
    (only,) = read_model(save(tmp_path / "m.onnx", nodes, norm_values(), element=element), fuse=True).convs
    assert only.fused == ("bn", "add", "relu")
    assert only.residual.dtype == only.problem.out == ("f16" if element == TensorProto.FLOAT16 else "bf16")
    assert ml_dtypes.finfo(only.problem.out_dtype.storage).bits == 16


FUSED = {"resnet50": (53 + 49 + 16, 16), "inception_v1": (57, 0), "vgg19": (16, 0), "inception_v2": (4 * 69, 0)}


@pytest.mark.parametrize("name", FUSED)
def test_light_models(name):
    """ResNet-50: every BatchNormalization, Relu and Sum; the other nodes are skipped as before."""
    network = read_model(LIGHT / f"light_{name}.onnx", fuse=True)
    taken, residuals = FUSED[name]
    names = [each for conv in network.convs for each in conv.fused]
    assert len(names) == len(set(names)) == taken
    assert sum(conv.residual is not None for conv in network.convs) == residuals
    graph = onnx.load(LIGHT / f"light_{name}.onnx").graph
    assert len(graph.node) == len(network.convs) + len(names) + len(network.skipped)
    made = set()
    for conv in network.convs:  # in an order in which they can be run
        later = {each.output.name for each in network.convs} - made
        assert not later & {each.name for each in conv.inputs}
        made.add(conv.output.name)


@pytest.mark.parametrize(
    "axes", [np.array([2**31]), np.array([2**62]), np.array([np.inf], np.float32), np.array([1.5])]
)
def test_axes_that_are_none_are_not_followed(tmp_path, axes):
    """Whoever computes the Unsqueeze may say what is wrong; a reader of convolutions leaves the Mul alone."""
    values = {"flat": np.ones((CHANNELS, 1), np.float32), "axes": axes}
    nodes = [conv(), node("Unsqueeze", ("flat", "axes"), "f"), node("Mul", ("c", "f"), "y")]
    try:
        network = read_model(save(tmp_path / "m.onnx", nodes, values), fuse=True)
    except ConvcError:  # shape inference refuses some of them
        return
    assert network.convs[0].fused == ()


def test_weights_that_a_node_makes_too_are_those_that_were_read(tmp_path):
    """Two makers of one name: not a valid model, and no reason to fail in another way than to say so."""
    scale = {"s": np.full((CHANNELS, 1, 1), 2, np.float32)}
    nodes = [node("Unsqueeze", ("x",), "w", axes=[0]), conv(), node("Mul", ("c", "s"), "y")]
    try:
        network = read_model(save(tmp_path / "m.onnx", nodes, scale, opset=11), fuse=True)
    except ConvcError:
        return
    assert network.convs[0].fused == ("mul",)
