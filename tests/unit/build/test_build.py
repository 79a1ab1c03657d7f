"""The build folder: what is written is read; what is damaged or foreign is refused; nothing half-written stays."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import convc
from convc import api
from convc.build import folder as build
from convc.build.folder import load_build, stems_of
from convc.build.target import writing
from convc.errors import BuildError, InputError, LaunchError, NodeError, PlanError
from convc.host_layout.repack import pack_bias, pack_filter
from convc.ir.epilogue import Relu
from convc.ir.launch import load_launch
from convc.support.resources import model_folder

TWO = model_folder() / "tiny_two_convs.onnx"
BF16 = model_folder() / "tiny_bf16.onnx"


@pytest.fixture(scope="module")
def two_layers(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("builds") / "two"
    api.compile(TWO, folder)
    return folder


@pytest.fixture
def folder(two_layers, tmp_path) -> Path:
    """A private copy of a good build of two layers."""
    return Path(shutil.copytree(two_layers, tmp_path / "build"))


def test_a_network_shows_its_layers_and_not_their_weights():
    shown = repr(convc.load(TWO))
    assert "stem" in shown
    assert "array(" not in shown


def edit(file: Path, change) -> None:
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_build_holds_what_the_docstring_says(folder):
    made = load_build(folder)
    assert made.names == ("stem", "head")
    digests = {layer.kernel for layer in made.network.layers}
    assert len(digests) == 2
    parts = ("debug_info.json", "kernel.ptx", "launch.json", "plan.json", "tile.json")
    expected = ["network.json"]
    expected += [f"kernels/{digest}/{part}" for digest in digests for part in parts]
    expected += [f"weights/{name}.{kind}.npy" for name in ("stem", "head") for kind in ("filter", "bias")]
    assert tree(folder) == sorted(expected)
    assert made.network.skipped == ()
    assert [layer.fused for layer in made.network.layers] == [("relu",), ()]
    assert made.record("stem").problem.epilogue == (Relu(),)
    tile = json.loads((folder / "kernels" / made.record("stem").kernel / "tile.json").read_text())
    assert {step["kind"] for role in tile["setup"] for step in role["steps"]} >= {"InitRings", "TmemAlloc"}


def test_a_layer_comes_back_with_its_weights_and_launch(folder):
    network = convc.load(TWO)
    for conv in network.convs:
        layer = load_build(folder).load(conv.name)
        assert layer.layout.model == conv.problem
        np.testing.assert_array_equal(layer.filter, pack_filter(layer.layout, conv.weight))
        np.testing.assert_array_equal(layer.bias, pack_bias(layer.layout, conv.bias))
        assert ".visible .entry" in layer.ptx
        assert layer.launch.ctas >= 1


def test_debug_info_is_read_back_or_refused(folder):
    made = load_build(folder)
    file = folder / "kernels" / made.record("stem").kernel / "debug_info.json"
    assert made.debug_info("stem").steps.keys() == {
        step["id"] for role in json.loads((file.parent / "tile.json").read_text())["roles"] for step in _walk(role)
    } | {step for step in made.debug_info("stem").steps if step.partition(".")[0] not in ("load", "mma", "store")}
    edit(file, lambda data: data.update(pixel=["?"]))
    with pytest.raises(BuildError, match=r"damaged: expected a number.*got \['\?'\]"):
        made.debug_info("stem")
    file.unlink()
    assert made.debug_info("stem") is None


def _walk(node: dict):
    for step in node.get("steps", node.get("body", ())):
        yield step
        yield from _walk(step)


def test_bfloat16_weights_lie_there_as_uint16(tmp_path):
    api.compile(BF16, tmp_path / "b")
    assert np.load(tmp_path / "b/weights/conv.filter.npy").dtype == np.uint16
    layer = load_build(tmp_path / "b").load()
    conv = convc.load(BF16).convs[0]
    assert layer.filter.dtype.name == "bfloat16"
    expected = pack_filter(layer.layout, conv.weight).view(np.uint16)
    np.testing.assert_array_equal(layer.filter.view(np.uint16), expected)


def test_one_layer_can_be_compiled_alone(tmp_path):
    made = api.compile(TWO, tmp_path / "b", layer="head")
    assert made.names == ("head",)
    assert made.load().name == "head"


def test_names_that_differ_only_in_unsafe_characters_get_files_of_their_own():
    names = ["a/b", "a:b", "A_b", "../../etc", ".hidden", "", "é" * 200, "x" * 200]
    stems = stems_of(names)
    assert len({stem.lower() for stem in stems}) == len(names)
    for stem in stems:
        assert "/" not in stem
        assert not stem.startswith((".", "-"))
        assert 0 < len(stem) <= 100
    assert stems_of(["conv1", "layer1.0.conv2"]) == ("conv1", "layer1.0.conv2")


# ---- picking a layer ------------------------------------------------------------------------------------------


def test_several_layers_and_no_name_lists_the_names(folder):
    with pytest.raises(InputError) as caught:
        load_build(folder).load()
    assert "2 layers: choose one with --layer" in caught.value.message
    assert caught.value.hint == "layers: stem, head"


def test_a_name_that_is_not_there_lists_the_names(folder):
    with pytest.raises(InputError, match="no layer 'tail'") as caught:
        load_build(folder).load("tail")
    assert caught.value.hint == "layers: stem, head"
    with pytest.raises(InputError, match="no layer 'tail'"):
        api.compile(TWO, folder, layer="tail")


def test_a_name_that_is_no_convolution_says_so(tmp_path):
    with pytest.raises(NodeError, match="not a convolution") as caught:
        api.compile(TWO, tmp_path / "b", layer="relu", read=api.ReadOptions(fuse=False))
    assert "relu" in caught.value.where
    with pytest.raises(NodeError, match="fused into convolution 'stem'") as caught:
        api.compile(TWO, tmp_path / "b", layer="relu")
    assert "relu" in caught.value.where
    assert os.listdir(tmp_path) == []


# ---- damaged and foreign folders ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="convc-build/9"), "expected format 'convc-build/4', got 'convc-build/9'"),
        (lambda d: d.update(format="convc-build/1", notes=["of then"]), "format 'convc-build/4', got 'convc-build/1'"),
        (lambda d: d.pop("layers"), "missing required field `layers`"),
        (lambda d: d.update(surprise=1), "unknown field `surprise`"),
        (lambda d: d["layers"][1].update(kernel="../../../etc"), "$.layers[1].kernel"),
        (lambda d: d["layers"][0].update(stem="../x"), "$.layers[0].stem"),
        (lambda d: d["layers"][0].update(stem="/abs"), "$.layers[0].stem"),
        (lambda d: d["layers"][0].update(columns="on"), "$.layers[0].columns"),
        (lambda d: d["layers"][1].update(name="stem"), "two layers are called 'stem'"),
        (lambda d: d["layers"][0]["problem"].update(stride=[0, 1]), "stride must be at least 1"),
        (lambda d: d["layers"][0]["problem"].update(kernel="3x3"), "$.layers[0].problem.kernel"),
    ],
)
def test_a_damaged_network_file_is_refused_with_its_place(folder, change, message):
    edit(folder / "network.json", change)
    with pytest.raises(BuildError) as caught:
        load_build(folder)
    assert message in caught.value.message
    assert "network.json" in caught.value.where


def test_columns_that_cannot_be_channels_are_refused(folder):
    edit(folder / "network.json", lambda d: d["layers"][1].update(columns="host"))
    with pytest.raises(BuildError, match="damaged: filter columns cannot become channels: the filter has one column"):
        load_build(folder).load("head")


@pytest.mark.parametrize("columns", ["off", "overlap", "auto"])
def test_a_layer_is_shown_with_the_columns_of_its_build(columns, tmp_path):
    """The planner lets the host write them; what was asked for is in the folder."""
    built = api.compile(TWO, tmp_path / "b", layer="stem", schedule=api.ScheduleOptions(columns=columns))
    assert built.record("stem").columns == ("host" if columns == "auto" else columns)
    shown = api.inspect(built, "stem")
    assert shown.layout.activation == built.load("stem").layout.activation
    assert shown.compiled.artifact.ptx == shown.text


@pytest.mark.parametrize("name", ["void", "nowhere"])
def test_a_folder_that_is_no_build_says_which_command_makes_one(name, tmp_path):
    (tmp_path / "void").mkdir()
    with pytest.raises(BuildError) as caught:
        load_build(tmp_path / name)
    assert "convc compile MODEL.onnx -o FOLDER" in caught.value.hint


def test_a_folder_of_an_older_convc_is_to_be_compiled_again(folder):
    edit(folder / "network.json", lambda d: d.update(format="convc-build/1", layers=[{"notes": ["of then"]}]))
    with pytest.raises(BuildError) as caught:
        load_build(folder)
    assert caught.value.hint == f"compile the model again: convc compile MODEL.onnx -o {folder}"


def test_cut_short_and_binary_network_files_are_refused(folder):
    whole = (folder / "network.json").read_bytes()
    for data in (b"", whole[: len(whole) // 2], b"\xff\xfe\x00", b"[]"):
        (folder / "network.json").write_bytes(data)
        with pytest.raises(BuildError, match="damaged"):
            load_build(folder)


def test_missing_and_foreign_folders_are_refused(tmp_path):
    with pytest.raises(BuildError, match="there is no such file or folder"):
        load_build(tmp_path / "no")
    with pytest.raises(BuildError, match=r"no network\.json"):
        load_build(tmp_path)


def test_weights_that_do_not_fit_are_refused(folder):
    path = folder / "weights/stem.filter.npy"
    good = np.load(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BuildError, match="truncated"):
        load_build(folder).load("stem")
    np.save(path, good.astype(np.float64))
    with pytest.raises(BuildError, match=r"expected float32 \[16, 5, 16\], got float64"):
        load_build(folder).load("stem")
    np.save(path, good[1:])
    with pytest.raises(BuildError, match=r"got float32 \[15, 5, 16\]"):
        load_build(folder).load("stem")
    path.unlink()
    with pytest.raises(BuildError, match="there is no such file or folder") as caught:
        load_build(folder).load("stem")
    assert caught.value.where.endswith("stem.filter.npy")
    load_build(folder).load("head")


def test_a_kernel_folder_that_is_damaged_is_refused(folder):
    made = load_build(folder)
    kernel = folder / "kernels" / made.record("stem").kernel
    edit(kernel / "launch.json", lambda d: d["buffers"]["output"].update(shape=[1, 8, 8, 8]))
    with pytest.raises(BuildError, match=r"buffer 'output' must be f32 \[1, 8, 8, 16\]"):
        made.load("stem")
    edit(kernel / "launch.json", lambda d: d["buffers"].pop("output"))
    with pytest.raises((BuildError, LaunchError), match="'output'"):
        made.load("stem")
    (kernel / "launch.json").write_text("{")
    with pytest.raises(LaunchError, match="not a launch file"):
        made.load("stem")
    shutil.rmtree(kernel)
    with pytest.raises(LaunchError, match="there is no such file or folder"):
        made.load("stem")


def test_a_kernel_that_is_missing_or_not_text_is_refused(folder):
    made = load_build(folder)
    kernel = folder / "kernels" / made.record("stem").kernel / "kernel.ptx"
    kernel.write_bytes(b"\xff\xff")
    with pytest.raises(BuildError, match="not UTF-8"):
        made.load("stem")
    kernel.unlink()
    with pytest.raises(BuildError, match="there is no such file or folder"):
        made.load("stem")


def test_an_edited_kernel_is_taken_as_it_is(folder):
    made = load_build(folder)
    kernel = folder / "kernels" / made.record("stem").kernel / "kernel.ptx"
    kernel.write_text("// mine\n" + kernel.read_text())
    assert made.load("stem").ptx.startswith("// mine\n")


# ---- writing --------------------------------------------------------------------------------------------------


def test_a_build_replaces_a_build(folder):
    api.compile(TWO, folder, layer="head")
    assert load_build(folder).names == ("head",)
    assert not (folder / "weights/stem.filter.npy").exists()
    assert os.listdir(folder.parent) == ["build"]


def test_a_damaged_build_can_be_replaced(folder):
    network = folder / "network.json"
    network.write_bytes(network.read_bytes()[:300])
    api.compile(TWO, folder)
    assert load_build(folder).names == ("stem", "head")


def test_an_empty_folder_and_missing_parents_are_fine(tmp_path):
    (tmp_path / "empty").mkdir()
    api.compile(TWO, tmp_path / "empty", layer="head")
    api.compile(TWO, tmp_path / "a/b/c", layer="head")
    assert load_build(tmp_path / "a/b/c").names == load_build(tmp_path / "empty").names


def test_anything_else_in_the_way_is_refused_and_kept(folder, tmp_path):
    (folder / "y.npy").write_bytes(b"result")
    with pytest.raises(InputError, match=r"holds 'y\.npy', which convc did not write"):
        api.compile(TWO, folder)
    assert (folder / "y.npy").read_bytes() == b"result"
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "network.json").write_text('{"mine": true}')
    with pytest.raises(InputError, match=r"no network\.json of convc"):
        api.compile(TWO, mine)
    file = tmp_path / "file"
    file.write_text("text")
    with pytest.raises(InputError, match="a file of that name"):
        api.compile(TWO, file)
    assert file.read_text() == "text"


def test_nothing_is_written_over_other_files_whoever_asks(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"notes\.txt"), writing(tmp_path):
        pytest.fail("the folder was given out")
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_a_failed_compile_leaves_the_old_build_and_nothing_else(folder, monkeypatch):
    before = {path: (folder / path).read_bytes() for path in tree(folder)}

    def fail(*arguments):
        raise PlanError("no room")

    monkeypatch.setattr(build, "write_weights", fail)
    with pytest.raises(PlanError):
        api.compile(TWO, folder)
    assert {path: (folder / path).read_bytes() for path in tree(folder)} == before
    assert os.listdir(folder.parent) == ["build"]


def test_an_interrupted_write_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), writing(tmp_path / "b") as part:
        raise_after_writing(part)
    assert os.listdir(tmp_path) == []


def raise_after_writing(part: Path) -> None:
    (part / "network.json").write_text("{}")
    raise KeyboardInterrupt


def test_a_full_disk_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="cannot write the build: No space left"), writing(tmp_path / "b"):
        raise OSError(28, "No space left on device")
    assert os.listdir(tmp_path) == []


def test_the_assemblers_answer_becomes_the_cubin(tmp_path):
    seen = {}
    made = api.compile(TWO, tmp_path / "b", assembler=lambda digest, text: seen.setdefault(digest, b"ELF"))
    assert set(seen) == {layer.kernel for layer in made.network.layers}
    for digest in seen:
        assert (tmp_path / "b/kernels" / digest / "kernel.cubin").read_bytes() == b"ELF"


def test_the_launch_file_in_the_folder_is_the_kernels(folder):
    made = load_build(folder)
    record = made.record("head")
    assert made.launch(record) == load_launch(folder / "kernels" / record.kernel / "launch.json")
