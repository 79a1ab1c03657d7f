"""``convc verify --annotate``: a copy of the model that says what was found, and is the same model otherwise."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import convc as package


def notes(path) -> dict[str, dict[str, str]]:
    model = onnx.load(path, load_external_data=False)
    return {node.name: {entry.key: entry.value for entry in node.metadata_props} for node in model.graph.node}


def without_notes(path) -> onnx.ModelProto:
    model = onnx.load(path, load_external_data=False)
    for node in model.graph.node:
        kept = [entry for entry in node.metadata_props if not entry.key.startswith("convc.")]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    return model


def one_conv(path, ir: int, names: tuple[str, ...] = ("c",)) -> None:
    """A model of convolutions of one shape, in a row, of any IR version."""
    weight = numpy_helper.from_array(np.ones((4, 4, 3, 3), np.float32), "w")
    tensors = [f"t{number}" for number in range(len(names) + 1)]
    nodes = [
        helper.make_node("Conv", [tensors[n], "w"], [tensors[n + 1]], name=name, pads=[1, 1, 1, 1])
        for n, name in enumerate(names)
    ]
    shape = (1, 4, 8, 8)
    inputs = [helper.make_tensor_value_info("t0", TensorProto.FLOAT, shape)]
    if ir < 4:  # initializers are inputs too
        inputs.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, (4, 4, 3, 3)))
    outputs = [helper.make_tensor_value_info(tensors[-1], TensorProto.FLOAT, shape)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [weight])
    onnx.save(helper.make_model(graph, ir_version=ir, opset_imports=[helper.make_opsetid("", 7)]), path)


def test_nodes_say_what_the_report_says(convc, two, tmp_path):
    copy = tmp_path / "out.onnx"
    said = convc.good("verify", two, "--seed", 4, "--annotate", copy, "--json", tmp_path / "r.json")
    assert f"wrote {copy}: notes on 3 nodes" in said
    report = json.loads((tmp_path / "r.json").read_text())
    written = notes(copy)
    for layer in report["layers"]:
        found = written[layer["name"]]
        assert found["convc.verdict"] == "exact, in bound"
        assert found["convc.schedule"] == layer["schedule"]
        assert found["convc.kernel"] == layer["kernel"].split("/")[0]
        assert found["convc.type"] == "tf32 -> f32"
        normal = layer["checks"][1]["comparison"]
        assert float(found["convc.worst_error"]) == pytest.approx(abs(normal["got"] - normal["expected"]), rel=0.01)
        assert int(found["convc.cycles"]) == round(layer["planned"]["cycles"])
        assert int(found["convc.activation_bytes"]) == layer["counters"]["tma_loads"]["activation"]["bytes"]
        assert int(found["convc.filter_bytes"]) == layer["counters"]["tma_loads"]["filter"]["bytes"]
        assert int(found["convc.ctas"]) == layer["counters"]["ctas"]
        assert found["convc.seed"] == "4"
        assert found["convc.version"] == package.__version__
    assert written["relu"] == {"convc.fused_into": "stem"}
    assert [name for name, found in written.items() if not found] == [node["name"] for node in report["skipped"]]


def test_the_copy_is_the_same_model(convc, two, tmp_path):
    before = two.read_bytes()
    convc.good("verify", two, "--annotate", tmp_path / "out.onnx")
    assert two.read_bytes() == before
    assert without_notes(tmp_path / "out.onnx") == onnx.load(two)
    onnx.checker.check_model(str(tmp_path / "out.onnx"), full_check=True)
    convc.good("verify", tmp_path / "out.onnx")


def test_notes_are_replaced_and_those_of_others_stay(convc, tiny, tmp_path):
    model = onnx.load(tiny)
    model.graph.node[0].metadata_props.add(key="author", value="somebody")
    model.graph.node[0].metadata_props.add(key="convc.verdict", value="of last year")
    onnx.save(model, tmp_path / "m.onnx")
    convc.good("verify", tmp_path / "m.onnx", "--annotate", tmp_path / "out.onnx")
    (found,) = notes(tmp_path / "out.onnx").values()
    assert found["author"] == "somebody"
    assert found["convc.verdict"] == "exact, in bound"
    convc.good("verify", tmp_path / "out.onnx", "--annotate", tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "out.onnx").read_bytes()


@pytest.mark.parametrize("ir", [3, 4, 7, 9, 10, 11])
def test_old_models_stay_what_they_are_and_pass_the_checker(convc, tmp_path, ir):
    one_conv(tmp_path / "m.onnx", ir)
    convc.good("verify", tmp_path / "m.onnx", "--annotate", tmp_path / "out.onnx")
    copy = onnx.load(tmp_path / "out.onnx")
    assert copy.ir_version == ir
    onnx.checker.check_model(copy, full_check=True)
    assert notes(tmp_path / "out.onnx")["c"]["convc.verdict"] == "exact, in bound"


def test_one_layer_and_nodes_without_a_name(convc, tmp_path):
    one_conv(tmp_path / "m.onnx", 8, ("", "same", "same"))
    convc.good("verify", tmp_path / "m.onnx", "--annotate", tmp_path / "out.onnx", "--layer", "same_2")
    model = onnx.load(tmp_path / "out.onnx")
    assert [len(node.metadata_props) > 0 for node in model.graph.node] == [False, False, True]
    assert [node.name for node in model.graph.node] == ["", "same", "same"]


def test_each_call_of_a_function_is_a_layer_and_has_notes_of_its_own(convc, tmp_path):
    made = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "local": 1]>
        g (float[1, 4, 6, 6] x) => (float[1, 4, 6, 6] y) <float[4, 4, 1, 1] w> {
            a = local.block (x, w)
            y = local.block (a, w)
        }
        <domain: "local", opset_import: ["": 17]>
        block (x, w) => (y) { c = Conv (x, w)  y = Relu (c) }"""
    )
    made.graph.initializer.extend([numpy_helper.from_array(np.ones((4, 4, 1, 1), np.float32), "w")])
    onnx.save(made, tmp_path / "m.onnx")
    said = convc.good("verify", tmp_path / "m.onnx", "--annotate", tmp_path / "out.onnx")
    assert "2 of 2 layers right: 1 kernel" in said
    assert "notes on 4 nodes" in said  # each Conv, and the Relu that it takes in
    assert [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node] == ["Conv", "Relu"] * 2


def external(path, tiny) -> None:
    model = onnx.load(tiny)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)


def test_weights_beside_the_model_are_found_from_a_copy_beside_it(convc, tiny, tmp_path):
    external(tmp_path / "m.onnx", tiny)
    convc.good("verify", tmp_path / "m.onnx", "--annotate", tmp_path / "out.onnx")
    onnx.checker.check_model(str(tmp_path / "out.onnx"))
    assert (tmp_path / "out.onnx").stat().st_size < (tmp_path / "weights.bin").stat().st_size
    assert "1 of 1 layers right" in convc.good("verify", tmp_path / "out.onnx")


def test_weights_beside_the_model_forbid_a_copy_elsewhere(convc, tiny, tmp_path):
    external(tmp_path / "m.onnx", tiny)
    (tmp_path / "other").mkdir()
    said = convc.refused("verify", tmp_path / "m.onnx", "--annotate", tmp_path / "other" / "out.onnx")
    assert "in files beside it" in said
    assert f"write the copy into {tmp_path}" in said
    assert not list((tmp_path / "other").iterdir())


def test_bad_targets_are_refused_before_the_work(convc, tiny, tmp_path):
    model = tmp_path / "m.onnx"
    model.write_bytes(tiny.read_bytes())
    assert "which is read here" in convc.refused("verify", model, "--annotate", model)
    (tmp_path / "link.onnx").symlink_to(model)
    assert "which is read here" in convc.refused("verify", model, "--annotate", tmp_path / "link.onnx")
    assert "does not exist" in convc.refused("verify", model, "--annotate", tmp_path / "no" / "out.onnx")
    assert "no such file" in convc.refused("verify", tmp_path / "none", "--annotate", tmp_path / "o.onnx")
    assert model.read_bytes() == tiny.read_bytes()


def test_convolutions_that_were_left_out_say_why(tmp_path):
    """Where one layer is asked for, the others need not be of a kind that is compiled."""
    from convc import api
    from convc.frontend.annotate import annotate
    from convc.ir.network import SkippedNode
    from convc.report.annotation import notes_of

    one_conv(tmp_path / "m.onnx", 8, ("good", "bad"))
    report = api.verify(tmp_path / "m.onnx", layer="good")
    skipped = (SkippedNode(name="bad", op_type="Conv", reason="group 2 is not compiled"),)
    written = notes_of(package.VerifyReport(source="m", seed=0, layers=report.layers, kernels=1, skipped=skipped))
    assert annotate(tmp_path / "m.onnx", tmp_path / "out.onnx", written) == 2
    assert notes(tmp_path / "out.onnx")["bad"] == {"convc.verdict": "not compiled: group 2 is not compiled"}
