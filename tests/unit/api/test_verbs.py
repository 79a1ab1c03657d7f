"""The verbs of the package: found where they are looked for, and what each takes for a model, a build or a kernel."""

from __future__ import annotations

import pydoc
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import convc
from convc import api
from convc.api.options import MachineOptions, ReadOptions, ScheduleOptions, WorkOptions
from convc.cli.main import main
from convc.errors import InputError, LaunchError, MachineFault, ModelError
from convc.ir.launch import BufferSpec, load_launch
from convc.support.resources import model_folder

FOREIGN = Path(__file__).resolve().parents[2] / "foreign"
TINY = model_folder() / "tiny_conv.onnx"
TWO = model_folder() / "tiny_two_convs.onnx"
X = np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> convc.Build:
    return convc.compile(TWO, tmp_path_factory.mktemp("two") / "build")


# ---- finding them -------------------------------------------------------------------------------------------


def test_the_package_lists_its_verbs_and_records():
    assert sorted(convc.__all__, key=str.lower) == sorted(convc._HOME, key=str.lower)
    assert set(convc.__all__) <= set(dir(convc))
    assert set(convc.__all__) <= set(dir(api))
    text = pydoc.plain(pydoc.render_doc(convc))
    for name in convc.__all__:
        assert name in text
    for verb in ("verify(model", "run(build", "simulate(kernel"):
        assert verb in text


def test_a_name_that_the_api_lacks():
    with pytest.raises(AttributeError, match=r"module 'convc\.api' has no attribute 'prove'"):
        _ = api.prove


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("api", ("numpy", "onnx", "islpy", "rich", "click")),
        ("WorkOptions", ("numpy", "onnx", "islpy")),
        ("run", ("onnx", "islpy", "jinja2", "rich")),
        ("run_model", ("islpy", "rich")),
        ("simulate", ("onnx", "islpy", "jinja2", "rich")),
        ("load", ("islpy", "jinja2", "rich", "convc.machine")),
    ],
)
def test_a_verb_loads_what_it_needs(name, absent):
    code = f"import sys, convc; convc.{name}; print(*(each for each in {absent!r} if each in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


# ---- models -------------------------------------------------------------------------------------------------


def test_a_model_is_a_file_a_message_or_a_network(tmp_path):
    message = onnx.load(TWO)
    network = convc.load(message)
    assert [conv.name for conv in network.convs] == ["stem", "head"]
    digests = set()
    for index, model in enumerate((str(TWO), TWO, message, network)):
        build = convc.compile(model, tmp_path / str(index))
        digests.add(tuple(layer.kernel for layer in build.network.layers))
        report = convc.verify(model, mode="integer")
        assert report.ok
        assert repr(report) == f"<VerifyReport {network.name}: 2 of 2 layers right, 2 kernels, seed 0>"
        assert convc.inspect(model, "head").text == build.load("head").ptx
    assert len(digests) == 1


def test_a_message_that_is_no_model_is_refused():
    with pytest.raises(ModelError, match="there is no graph") as caught:
        convc.load(onnx.ModelProto())
    assert caught.value.where == ""
    with pytest.raises(ModelError, match="there is no graph"):
        convc.run_model(onnx.ModelProto(), X)


def test_a_network_has_settled_how_it_was_read():
    network = convc.load(TWO)
    for read in (ReadOptions(batch=2), ReadOptions(dtype="bf16"), ReadOptions(precision="bf16x3")):
        with pytest.raises(InputError, match="already has batch"):
            convc.inspect(network, "stem", read=read)
    assert convc.inspect(network, "stem", read=ReadOptions(fuse=False)).node.fused == ("relu",)


# ---- builds -------------------------------------------------------------------------------------------------


def test_a_build_is_a_folder_or_open(two, tmp_path):
    np.save(tmp_path / "x.npy", X)
    results = [convc.run(build, X, "stem") for build in (two, two.path, str(two.path))]
    results += [convc.run(two, given, "stem") for given in (tmp_path / "x.npy", str(tmp_path / "x.npy"))]
    for y in results[1:]:
        np.testing.assert_array_equal(y, results[0])
    assert repr(two) == f"<Build {two.path}: 2 layers, 2 kernels>"
    copy = convc.load_build(shutil.copytree(two.path, tmp_path / "copy"))
    assert convc.compile(TWO, copy, layer="head").names == ("head",)


def test_a_layer_is_run_with_all_that_was_learnt(two, tmp_path):
    done = convc.run_layer(two, X, "stem", save=tmp_path / "y.npy", machine=MachineOptions(numerics="exact"))
    assert done.ok
    assert done.counters.mma > 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), done.y)
    assert repr(done) == "<LayerRun stem: float32 [1, 16, 8, 8], clean>"
    with pytest.raises(InputError, match="there is no switch 'nope'"):
        convc.run(two, X, "stem", machine=MachineOptions(switches=("nope=1",)))
    with pytest.raises(LaunchError, match="switch numerics must be one of float32, exact"):
        convc.run(two, X, "stem", machine=MachineOptions(numerics="double"))


def test_kernels_are_checked_once_each_and_told_of(two):
    seen = []
    told = []
    report = convc.check(two, watch=seen.append, progress=lambda what, share: told.append(what))
    assert report.ok
    assert report.kernels == tuple(seen)
    assert [kernel.layer for kernel in report.kernels] == ["stem", "head"]
    assert set(told) == {"check stem", "check head"}
    assert repr(report).endswith(": clean, 2 kernels, 0 findings>")


# ---- whole networks -----------------------------------------------------------------------------------------


def test_a_network_runs_from_files_and_arrays(tmp_path):
    np.save(tmp_path / "x.npy", X)
    (expected,) = convc.run_model(TWO, X).values()
    for model, feeds in ((str(TWO), {"x": X}), (onnx.load(TWO), tmp_path / "x.npy"), (TWO, {"": tmp_path / "x.npy"})):
        (y,) = convc.run_model(model, feeds).values()
        np.testing.assert_array_equal(y, expected)
    done = convc.run_network(TWO, X, save={"": tmp_path / "y.npy"})
    (name,) = done.outputs
    assert done.files == {name: tmp_path / "y.npy"}
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)
    assert done.stats.compiled == ["stem", "head"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"work": WorkOptions(jobs=2)}, "leave jobs and executor out"),
        ({"work": WorkOptions(executor="processes")}, "leave jobs and executor out"),
        ({"read": ReadOptions(batch=2)}, "batch is for random inputs"),
        ({"read": ReadOptions(precision="double")}, "precision must be one of"),
        ({"host": "nobody"}, "host must be one of"),
    ],
)
def test_options_that_a_network_has_no_use_for(options, words):
    with pytest.raises(InputError, match=words):
        convc.run_model(TWO, X, **options)


def test_a_network_of_convolutions_alone_does_not_run_as_a_whole():
    with pytest.raises(InputError, match="a Network holds its convolutions only"):
        convc.run_model(convc.load(TWO), X)


# ---- any kernel ---------------------------------------------------------------------------------------------


def test_a_kernel_is_a_text_or_a_file_and_a_launch_a_record_or_a_file(tmp_path):
    folder = Path(shutil.copytree(FOREIGN / "saxpy", tmp_path / "saxpy"))
    x = np.arange(1000, dtype=np.float32)
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", np.ones_like(x))
    text = (folder / "kernel.ptx").read_text()
    spec = load_launch(folder / "launch.json")
    calls = (
        ((folder / "kernel.ptx", folder / "launch.json"), {}),
        ((str(folder / "kernel.ptx"), spec), {"folder": folder}),
        ((text, str(folder / "launch.json"), {"x": x}), {}),
        ((text, spec, {"x": x, "y": np.ones_like(x)}), {"folder": folder, "check": True}),
    )
    for arguments, more in calls:
        done = convc.simulate(*arguments, **more)
        np.testing.assert_array_equal(done.buffers["y"], 2.5 * x + 1)
        np.testing.assert_array_equal(np.load(folder / "out.npy"), done.buffers["y"])
        assert done.ok
        assert done.counters.ctas == 8
        assert done.saved == {"y": folder / "out.npy"}
        (folder / "out.npy").unlink()


def test_a_kernel_that_fails_is_a_fault_or_where_checkers_watch_a_finding():
    text = (FOREIGN / "saxpy/kernel.ptx").read_text()
    good = load_launch(FOREIGN / "saxpy/launch.json")
    short = msgspec.structs.replace(good, buffers=good.buffers | {"x": BufferSpec(dtype="f32", shape=(10,))})
    given = {"x": np.zeros(10, np.float32), "y": np.zeros(1000, np.float32)}
    with pytest.raises(MachineFault):
        convc.simulate(text, short, given)
    done = convc.simulate(text, short, given, check=True)
    assert not done.ok
    assert done.buffers == {}
    assert (done.counters, done.seconds) == (None, None)
    assert {finding.rule for finding in done.findings} == {"fault"}
    assert repr(done) == "<Simulation saxpy: error, 1 finding>"


# ---- one layer, opened --------------------------------------------------------------------------------------


def test_an_inspection_prints_what_the_command_prints():
    found = convc.inspect(TINY, "conv", schedule=ScheduleOptions(schedule="reload"))
    said = CliRunner().invoke(main, ["inspect", str(TINY), "--layer", "conv", "--schedule", "reload", "--full"]).stdout
    assert str(found) == said
    assert found.text in said or found.launch.entry in said
    assert found.problem.kernel == (3, 3)
    assert found.layout.model == found.problem
    assert found.tiles.count == 2
    assert found.program.roles
