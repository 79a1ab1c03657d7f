"""Whole networks with fused convolutions: what is taken in, what is handed over, and that nothing else changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from convc.compiler.kernels import Kernels
from convc.errors import PlanError
from convc.frontend.model_file import load_model
from convc.runtime.network import convolutions as convolutions_module
from convc.runtime.network import ort_session
from convc.runtime.network.constants import StartValues
from convc.runtime.network.convolutions import Convolutions
from convc.runtime.network.executor import Graph
from convc.verification.network import random_inputs
from convc.verification.random_weights import random_weights
from convc.verification.rms_error import allowed_rms_error, rms_error

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
RNG = np.random.default_rng(8)

RESIDUAL = """<ir_version: 8, opset_import: ["": 17]>
g (float[N, 3, 8, 8] x) => (float[N, 6, 8, 8] y, float[N, 6, 1, 1] pooled) {
    c0 = Conv <pads = [1, 1, 1, 1]> (x, w0, b0)
    stem = Relu (c0)
    c1 = Conv <pads = [1, 1, 1, 1]> (stem, w1)
    n1 = BatchNormalization (c1, scale, shift, mean, variance)
    r1 = Relu (n1)
    c2 = Conv (r1, w2, b2)
    n2 = BatchNormalization (c2, scale, shift, mean, variance)
    s = Add (n2, stem)
    y = Relu (s)
    e = Conv (y, w2)
    f = Sigmoid (e)
    pooled = GlobalAveragePool (f)
}"""
TAKEN = {"c0": ("stem",), "c1": ("n1", "r1"), "c2": ("n2", "s", "y"), "e": ("f",)}


def whole(*shape: int) -> np.ndarray:
    return RNG.integers(-3, 4, shape).astype(np.float32)


def parameters() -> dict[str, np.ndarray]:
    """Whole numbers; a normalisation that scales by 1/2 without rounding."""
    return {
        "w0": whole(6, 3, 3, 3),
        "b0": whole(6),
        "w1": whole(6, 6, 3, 3),
        "w2": whole(6, 6, 1, 1),
        "b2": whole(6),
        "scale": np.ones(6, np.float32),
        "shift": whole(6),
        "mean": whole(6),
        "variance": np.full(6, 4 - 1e-5, np.float32),
    }


def model(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    made = onnx.parser.parse_model(text)
    made.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    return made


def residual() -> onnx.ModelProto:
    return model(RESIDUAL, **parameters())


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def agree(got: dict[str, np.ndarray], made: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    """With `onnx.reference`, but for the rounding of operands."""
    with np.errstate(all="ignore"):
        answer = ReferenceEvaluator(made).run(None, feeds)
    for mine, expected in zip(got.values(), answer, strict=True):
        assert rms_error(mine, expected) < allowed_rms_error(4, 2.0**-11)


@pytest.mark.parametrize("precision", ["tf32", "tf32x3"])
def test_a_residual_network(precision):
    """Two batches one after the other; with and without handing over, the same bits."""
    made = residual()
    ways = [
        Graph(made, convolutions=Convolutions(precision=precision), fuse=True, share_buffers=share_buffers)
        for share_buffers in (True, False)
    ]
    for batch in (1, 2):
        feeds = {"x": whole(batch, 3, 8, 8)}
        packed, unpacked = (graph.run(feeds) for graph in ways)
        assert list(packed) == list(unpacked) == ["y", "pooled"]
        assert all(same_bits(packed[name], unpacked[name]) for name in packed)
        agree(packed, made, feeds)
        for graph in ways:
            assert graph.stats.compiled == list(TAKEN)
            assert graph.stats.fused == TAKEN
            assert graph.stats.host == 1
        # stem, r1 and y as activations unless they are split into parts; stem as residual
        assert [graph.stats.handed for graph in ways] == [4 if precision == "tf32" else 1, 0]


def test_fusing_changes_only_what_is_rounded():
    """Without a normalisation that is folded into weights every bit stays."""
    text = RESIDUAL.replace("n2 = BatchNormalization (c2, scale, shift, mean, variance)", "n2 = Identity (c2)")
    text = text.replace("n1 = BatchNormalization (c1, scale, shift, mean, variance)", "n1 = LeakyRelu (c1)")
    text = text.replace("f = Sigmoid (e)", "f = Clip (e, low)")
    made = model(text, low=np.array(-5, np.float32), **parameters())
    feeds = {"x": whole(1, 3, 8, 8)}
    fused = Graph(made, fuse=True)
    one, other = fused.run(feeds), Graph(made).run(feeds)
    assert all(same_bits(one[name], other[name]) for name in one)
    assert fused.stats.fused == {"c0": ("stem",), "c1": ("n1", "r1"), "e": ("f",)}
    assert fused.stats.host == 4


def test_tensors_inside_are_not_kept_and_the_others_let_go():
    graph = Graph(residual(), fuse=True)
    graph.run({"x": whole(1, 3, 8, 8)})
    steps = graph._plan.steps
    freed = {name: steps[index].name for index, names in graph._plan.last_uses.items() for name in names}
    assert [step.name for step in steps] == ["c0", "c1", "c2", "e", "pooled"]
    assert freed.items() >= {"x": "c0", "stem": "c2", "r1": "c2", "f": "pooled"}.items()
    assert not {"n1", "n2", "s", "c1", "y", "pooled"} & set(freed)


def test_weights_that_a_run_is_given_are_no_constants():
    made = residual()
    made.graph.input.append(helper.make_tensor_value_info("w2", TensorProto.FLOAT, (6, 6, 1, 1)))
    made.graph.input.append(helper.make_tensor_value_info("scale", TensorProto.FLOAT, (6,)))
    graph = Graph(made, fuse=True)
    feeds = {"x": whole(1, 3, 8, 8)}
    first = graph.run(feeds)
    for given, fused in (
        ({"w2": whole(6, 6, 1, 1)}, {"c0": ("stem",), "c1": ("n1", "r1")}),
        ({"scale": np.full(6, 2, np.float32)}, {"c0": ("stem",), "e": ("f",)}),
    ):
        changed = graph.run(feeds | given)
        agree(changed, made, feeds | given)
        assert rms_error(changed["y"], first["y"]) > 0.1
        assert graph.stats.fused == fused
        assert graph.stats.compiled == list(TAKEN)
    again = graph.run(feeds)
    assert all(same_bits(again[name], first[name]) for name in first)
    assert graph.stats.fused == TAKEN


def test_weights_of_a_run_behind_an_identity_are_no_constants_either():
    made = model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[1, 3, 5, 5] x, float[2, 3, 3, 3] w) => (float[1, 2, 3, 3] y) {
            same = Identity (w)
            c = Conv (x, same)
            y = Relu (c)
        }""",
        w=whole(2, 3, 3, 3),
    )
    graph, x = Graph(made, fuse=True), whole(1, 3, 5, 5)
    for feeds, fused in (({"x": x}, 1), ({"x": x, "w": whole(2, 3, 3, 3)}, 0), ({"x": x}, 1)):
        np.testing.assert_array_equal(graph.run(feeds)["y"], ReferenceEvaluator(made).run(None, feeds)[0])
        assert len(graph.stats.fused) == fused


def test_replaced_constants_are_what_is_folded():
    made, feeds = residual(), {"x": whole(1, 3, 8, 8)}
    others = {"w1": whole(6, 6, 3, 3), "scale": np.array([1, 2, -1, 0.5, 4, 3], np.float32)}
    changed = residual()
    changed.CopyFrom(made)
    for tensor in changed.graph.initializer:
        if tensor.name in others:
            tensor.CopyFrom(onnx.numpy_helper.from_array(others[tensor.name], tensor.name))
    got = Graph(made, fuse=True, replaced=others).run(feeds)
    expected = Graph(changed, fuse=True).run(feeds)
    assert all(same_bits(got[name], expected[name]) for name in got)
    agree(got, changed, feeds)


def test_other_shapes_than_the_model_states():
    """What was read for the stated shapes is not run on others: the nodes run one by one."""
    made = model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[192] x, int64[4] shape) => (float[A, 4, B, C] y) <float[1, 3, 8, 8] r> {
            r = Reshape (x, shape)
            c = Conv (r, w)
            y = Relu (c)
        }""",
        w=whole(4, 3, 1, 1),
    )
    graph, x = Graph(made, fuse=True), whole(192)
    for shape, fused in (((1, 3, 8, 8), {"c": ("y",)}), ((2, 3, 4, 8), {}), ((1, 3, 8, 8), {"c": ("y",)})):
        feeds = {"x": x, "shape": np.array(shape, np.int64)}
        np.testing.assert_array_equal(graph.run(feeds)["y"], ReferenceEvaluator(made).run(None, feeds)[0])
        assert graph.stats.fused == fused
        assert graph.stats.compiled == ["c"]


def test_a_kernel_that_cannot_be_made_with_what_it_took_in(monkeypatch):
    compiled = Kernels.compiled

    def refusing(kernels, problem):
        if problem.residual:
            raise PlanError("no room for a residual")
        return compiled(kernels, problem)

    made, feeds = residual(), {"x": whole(1, 3, 8, 8)}
    monkeypatch.setattr(Kernels, "compiled", refusing)
    graph = Graph(made, fuse=True)
    for _ in range(2):
        agree(graph.run(feeds), made, feeds)
        assert list(graph.stats.fused) == ["c0", "c1", "e"]
        assert sorted(graph.stats.compiled) == ["c0", "c1", "c2", "e"]
        assert graph.stats.host == 4  # three that c2 took in, and the pooling


@pytest.mark.parametrize("host", [True, False])
def test_a_convolution_that_no_kernel_is_made_for(monkeypatch, host):
    def refusing(kernels, problem):
        raise PlanError("no kernel")

    made, feeds = residual(), {"x": whole(1, 3, 8, 8)}
    monkeypatch.setattr(Kernels, "compiled", refusing)
    graph = Graph(made, fuse=True, refused="host" if host else "raise")
    if host:
        agree(graph.run(feeds), made, feeds)
        assert graph.stats.refused == dict.fromkeys(TAKEN, "no kernel")
        assert graph.stats.fused == {}
    else:
        with pytest.raises(PlanError, match="no kernel") as caught:
            graph.run(feeds)
        assert "node 'c0' (Conv)" in str(caught.value)


def test_who_watches_sees_arrays(monkeypatch):
    seen = {}
    graph = Graph(residual(), fuse=True)
    results = graph.run({"x": whole(2, 3, 8, 8)}, lambda name, ran: seen.update({name: ran}))
    assert list(seen) == list(TAKEN)
    assert seen["c1"].x is seen["c1"].arrays[0]
    assert same_bits(seen["c1"].x, seen["c0"].run.y)
    assert same_bits(seen["c2"].residual, seen["c0"].run.y)
    assert same_bits(seen["c2"].run.y, results["y"])
    assert seen["c1"].residual is None
    assert [len(ran.arrays) for ran in seen.values()] == [3, 2, 3, 2]


def test_a_second_run_packs_no_weights(monkeypatch):
    graph, feeds = Graph(residual(), fuse=True), {"x": whole(1, 3, 8, 8)}
    first = graph.run(feeds)
    monkeypatch.setattr(convolutions_module, "layer_of", None)
    assert same_bits(graph.run(feeds)["pooled"], first["pooled"])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fused", "handed"), [("resnet50", 118, 66), ("densenet121", 236, 58)])
def test_light_networks_with_and_without_handing_over(name, fused, handed):
    path = LIGHT / f"light_{name}.onnx"
    made = load_model(path)
    weights = random_weights(made.graph, StartValues(made.graph, path.parent), 11)
    kernels = Kernels()
    runs = []
    for share_buffers in (True, False):
        graph = Graph(
            made,
            convolutions=Convolutions(kernels=kernels),
            host="onnxruntime",
            replaced=weights,
            fuse=True,
            share_buffers=share_buffers,
        )
        feeds = random_inputs(graph.inputs, 11, 1)
        runs.append(graph.run(feeds))
        assert sum(map(len, graph.stats.fused.values())) == fused
        assert graph.stats.handed == (handed if share_buffers else 0)
    one, other = runs
    expected = ort_session.run_model(made, feeds, weights, [])
    for output in one:
        assert same_bits(one[output], other[output])
        assert 0 < rms_error(one[output], expected[output]) <= allowed_rms_error(len(graph.stats.compiled), 2.0**-11)


@pytest.mark.parametrize("operand", ["mxfp8", "nvfp4"])
def test_scaled_numbers_are_multiplied_alike_fused_or_not(operand):
    """The scale of the activations as a whole reaches a fused kernel too."""
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[1, 3, 8, 8] x) => (float[1, 6, 8, 8] y) {
        c = Conv <pads = [1, 1, 1, 1]> (x, w0, b0)
        r = Relu (c)
        y = Conv (r, w2)
    }"""
    made, x = model(text, **{name: parameters()[name] for name in ("w0", "b0", "w2")}), 40 * whole(1, 3, 8, 8)
    graphs = [Graph(made, convolutions=Convolutions(operand=operand), fuse=fuse) for fuse in (True, False)]
    fused, alone = (graph.run({"x": x})["y"] for graph in graphs)
    assert graphs[0].stats.fused == {"c": ("r",)}
    assert same_bits(fused, alone)
