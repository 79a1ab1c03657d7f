"""External weights: read from beside the model, refused where a file name or a number is not to be trusted."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from convc.errors import ModelError
from convc.frontend.onnx_reader import read_model

VALUES = np.arange(2 * 3 * 3 * 3, dtype=np.float32).reshape(2, 3, 3, 3)


def write(folder, **entries):
    """A model whose weights lie in another file."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=VALUES.shape, data_location=TensorProto.EXTERNAL)
    for key, value in ({"location": "w.bin"} | entries).items():
        tensor.external_data.add(key=key, value=str(value))
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [tensor],
    )
    path = folder / "m.onnx"
    path.write_bytes(helper.make_model(graph, ir_version=10).SerializeToString())
    return path


def message_of(path) -> str:
    with pytest.raises(ModelError) as caught:
        read_model(path)
    assert "tensor 'w'" in caught.value.where
    return caught.value.message


@pytest.mark.parametrize("entries", [{}, {"offset": 0}, {"offset": 40, "length": 216}, {"checksum": "x"}])
def test_weights_beside_the_model(tmp_path, entries):
    data = bytes(int(entries.get("offset", 0))) + VALUES.tobytes() + b"more"
    (tmp_path / "w.bin").write_bytes(data)
    assert np.array_equal(read_model(write(tmp_path, **entries)).convs[0].weight, VALUES)


def test_weights_in_a_folder_below_and_behind_a_link_inside(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(VALUES.tobytes())
    (tmp_path / "link.bin").symlink_to(tmp_path / "data" / "w.bin")
    for location in ("data/w.bin", "link.bin", "./data/w.bin"):
        assert np.array_equal(read_model(write(tmp_path, location=location)).convs[0].weight, VALUES)


def test_a_shape_may_be_external_too(tmp_path):
    """All of a model's constants outside, as `onnx.save` does on request; a Reshape needs one of them."""
    nodes = [helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("Conv", ["r", "w"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (3, 64))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(VALUES, "w"), numpy_helper.from_array(np.array([1, 3, 8, -1]), "s")],
    )
    path = tmp_path / "m.onnx"
    model = helper.make_model(graph, ir_version=10)
    onnx.save(model, path, save_as_external_data=True, location="all.bin", size_threshold=0)
    node = read_model(path).convs[0]
    assert node.input.shape == (1, 3, 8, 8)
    assert np.array_equal(node.weight, VALUES)


@pytest.mark.parametrize(
    "location", ["../w.bin", "a/../../w.bin", "/etc/passwd", "", "C:\\w.bin", "..\\w.bin", "C:w.bin"]
)
def test_names_that_leave_the_folder(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    assert "does not lie in the folder of the model" in message_of(write(folder, location=location))


def test_links_that_leave_the_folder(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(VALUES.tobytes())
    (folder / "w.bin").symlink_to(tmp_path / "secret")
    assert "does not lie in the folder of the model" in message_of(write(folder))
    (folder / "sub").symlink_to(tmp_path)
    assert "does not lie in the folder of the model" in message_of(write(folder, location="sub/secret"))


def test_files_that_are_missing_or_not_files(tmp_path):
    assert message_of(write(tmp_path)) == "there is no file 'w.bin' beside the model"
    assert message_of(write(tmp_path, location="w\0.bin")) == "there is no file 'w\\x00.bin' beside the model"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert message_of(write(tmp_path, location="loop")) == "there is no file 'loop' beside the model"
    (tmp_path / "w.bin").mkdir()
    path = write(tmp_path)
    assert message_of(path) == "external data 'w.bin' is not a regular file"
    path.write_bytes(path.read_bytes().replace(b"w.bin", b"w.bi\xff"))
    assert message_of(path) == "the file name of external data is not valid UTF-8"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"length": 215}, "external data must have 216 bytes at offset 0 or later, got 215 bytes at 0"),
        ({"length": 10**15}, "external data must have 216 bytes at offset 0 or later"),
        ({"offset": -1}, "external data must have 216 bytes at offset 0 or later, got 216 bytes at -1"),
        ({"offset": 1}, "'w.bin' ends before byte 217"),
        ({"offset": 10**30}, "'w.bin' ends before byte"),
        ({"offset": "zero"}, "offset and length of external data must be whole numbers"),
    ],
)
def test_numbers_that_do_not_fit(tmp_path, entries, message):
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    assert message_of(write(tmp_path, **entries)).startswith(message)
