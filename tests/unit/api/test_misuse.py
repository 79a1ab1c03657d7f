"""A wrong argument of a verb is said in a sentence that names it, what was expected and what came."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import convc as c
from convc import backend
from convc.api.launch_jobs import launch_job
from convc.api.options import MachineOptions, ReadOptions, WorkOptions
from convc.errors import ConvcError, InputError, LimitError
from convc.support import memory
from convc.support.resources import model_folder

TINY = model_folder() / "tiny_conv.onnx"
X = np.ones((1, 16, 12, 12), np.float16)


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return c.compile(TINY, tmp_path_factory.mktemp("misuse") / "b")


WRONG = {
    "verify a number": (lambda b: c.verify(3), "model must be a file, an onnx.ModelProto, or what .* got int 3"),
    "verify a class": (lambda b: c.verify(onnx.ModelProto), "got the class ModelProto"),
    "verify a graph": (lambda b: c.verify(onnx.load(TINY).graph), "model must be a file.*got GraphProto"),
    "verify nothing": (lambda b: c.verify(None), "model must be .* got NoneType None"),
    "verify bytes": (lambda b: c.verify(TINY.read_bytes()), "model must be .* got bytes"),
    "load a list": (lambda b: c.load([TINY]), "model must be .* got list"),
    "inspect a number": (lambda b: c.inspect(3), "model must be .* got int 3"),
    "compile a number": (lambda b: c.compile(3, "out"), "model must be .* got int 3"),
    "compile to a number": (lambda b: c.compile(TINY, 7), "out_dir must be the name of a folder.* got int 7"),
    "a null character": (lambda b: c.load("a\0b"), "model: a file name cannot contain a null character"),
    "layer is a number": (lambda b: c.verify(TINY, layer=3), "layer must be the name of a layer.* got int 3"),
    "layers are numbers": (lambda b: c.check(b, layer=[1]), r"layer must be .* got list \[1\]"),
    "layer is bytes": (lambda b: c.verify(TINY, layer=b"conv"), "layer must be .* got bytes"),
    "seed is a text": (lambda b: c.verify(TINY, seed="x"), "seed must be a whole number, got str 'x'"),
    "seed is half": (lambda b: c.check(b, seed=0.5), "seed must be a whole number, got float 0.5"),
    "seed is true": (lambda b: c.verify(TINY, seed=True), "seed must be a whole number, got bool True"),
    "seed is negative": (lambda b: c.check(b, seed=-1), "seed must be at least 0, got -1"),
    "read is a dict": (lambda b: c.verify(TINY, read={"dtype": "f16"}), "read must be a ReadOptions, got dict"),
    "schedule is a text": (
        lambda b: c.verify(TINY, schedule="slide"),
        "schedule must be a ScheduleOptions.*'slide'",
    ),
    "inspect's schedule": (lambda b: c.inspect(TINY, schedule="slide"), "schedule must be a ScheduleOptions"),
    "machine is a text": (lambda b: c.run(b, X, machine="exact"), "machine must be a MachineOptions, got str"),
    "work is a number": (lambda b: c.verify(TINY, work=4), "work must be a WorkOptions, got int 4"),
    "batch is a text": (
        lambda b: c.load(TINY, batch="2"),
        "ReadOptions.batch must be a whole number or None.* '2'",
    ),
    "dtype is a type": (
        lambda b: c.load(TINY, dtype=np.float16),
        "ReadOptions.dtype must be a text or None, got the class float16",
    ),
    "fuse is a number": (
        lambda b: c.verify(TINY, read=ReadOptions(fuse=1)),
        "ReadOptions.fuse must be True or False, got int 1",
    ),
    "switches are a text": (
        lambda b: c.run(b, X, machine=MachineOptions(switches="elect=highest")),
        "MachineOptions.switches must be a tuple of texts, got str 'elect=highest'",
    ),
    "jobs is a text": (
        lambda b: c.verify(TINY, work=WorkOptions(jobs="2")),
        "WorkOptions.jobs must be a whole number or None, got str '2'",
    ),
    "jobs is none at all": (lambda b: c.verify(TINY, work=WorkOptions(jobs=0)), "jobs must be in 1..1024, got 0"),
    "progress is a text": (
        lambda b: c.verify(TINY, work=WorkOptions(progress="yes")),
        "WorkOptions.progress must be a function or None, got str 'yes'",
    ),
    "mode is another": (
        lambda b: c.verify(TINY, mode="exact"),
        "mode must be both, integer, normal or network, got 'exact'",
    ),
    "run a list": (
        lambda b: c.run(b, [[1, 2]]),
        r"x must be an array or the name of a \.npy file, got list \[\[1, 2",
    ),
    "run a number": (lambda b: c.run(b, 3), "x must be an array"),
    "run None": (lambda b: c.run(b, None), "x must be an array .* got NoneType None"),
    "run the class": (
        lambda b: c.run(c.Build, X),
        "build must be a folder, or an open Build, got the class Build",
    ),
    "run a model as build": (lambda b: c.run(TINY, X), "expected a build folder"),
    "run no folder": (lambda b: c.run("nowhere", X), "there is no such file or folder"),
    "run another shape": (lambda b: c.run(b, X[0]), r"\[1, 16, 12, 12\]"),
    "run whole numbers": (lambda b: c.run(b, X.astype(np.int32)), "float"),
    "a residual that is a list": (lambda b: c.run(b, X, residual=[0]), "residual must be an array"),
    "a residual that nobody adds": (lambda b: c.run(b, X, residual=X), "residual"),
    "check a number": (lambda b: c.check(3), "build must be a folder, or an open Build, got int 3"),
    "load_build a number": (lambda b: c.load_build(3), "opened by the name of its folder, got int"),
    "feeds are a list": (lambda b: c.run_model(TINY, [X]), "feeds must be an array"),
    "a feed is a list": (lambda b: c.run_model(TINY, {"x": [1, 2]}), r"feeds\['x'\] must be an array"),
    "feeds of another name": (lambda b: c.run_model(TINY, {"z": X}), "no input named 'z'"),
    "run a network of a number": (lambda b: c.run_network(3, X), "model must be a file, or an onnx.ModelProto"),
    "verify a layer of a network": (
        lambda b: c.verify(TINY, "conv", feeds=X),
        "a whole network is run: leave layer and sample out",
    ),
    "feeds for a layer": (
        lambda b: c.verify(TINY, mode="integer", feeds=X),
        "feeds, expected and host are for a whole",
    ),
    "expected without feeds": (lambda b: c.verify(TINY, expected=c.Expected()), "feeds, expected and host are for"),
    "verify a network of bytes": (
        lambda b: c.verify(b"x", mode="network"),
        "model must be a file, or an onnx.ModelProto",
    ),
    "simulate a number": (lambda b: c.simulate(3, 4), "kernel must be a text of PTX, or the name of its file"),
    "simulate with a dict": (
        lambda b: c.simulate("k.ptx", {"grid": 1}),
        "launch must be the name of a launch file",
    ),
    "simulate with a list": (lambda b: c.simulate("k.ptx", "l.json", [X]), "buffers must be a dict of arrays by name"),
    "simulate in a number": (lambda b: c.simulate("k.ptx", "l.json", folder=3), "folder must be the name of a file"),
    "save a layer in a number": (lambda b: c.run_layer(b, X, save=3), "save must be the name of a file or folder"),
    "save a network in a text": (lambda b: c.run_network(TINY, X, save="y.npy"), "save must be a dict of names of fil"),
    "save an output in a number": (lambda b: c.run_network(TINY, X, save={"y": 3}), r"save\['y'\] must be the name"),
    "verify a list": (lambda b: c.verify(TINY, feeds=[X]), "feeds must be an array or the name"),
    "expect an array": (lambda b: c.verify(TINY, feeds=X, expected=X), "expected must be an? Expected, got ndarray"),
    "read data as a dict": (lambda b: c.verify(TINY, feeds=X, read={}), "read must be a ReadOptions, got dict"),
    "time on a name": (lambda b: c.time(b, chip="b200"), "chip must be a ChipOptions, got str 'b200'"),
    "time at work": (lambda b: c.time(b, work=2), "work must be a WorkOptions, got int 2"),
    "assume a number": (lambda b: c.assumptions(3), "chip must be the name of a chip, or of a file"),
    "probe a text": (lambda b: c.run_probes("elect"), "names must be a list of names of probes, got str 'elect'"),
    "settle nothing": (lambda b: c.settle_probes(None), "file must be the name of a file, got NoneType"),
    "settle to a number": (
        lambda b: c.settle_probes("a.json", 3),
        "target must be the name of a file or folder, got int",
    ),
    "write a program to a number": (
        lambda b: c.write_host_program(b, None, c.KernelInputs(seed=1), 3),
        "target must be the name of a file, got int 3",
    ),
    "read a build otherwise": (
        lambda b: c.inspect(b, read=ReadOptions(batch=2)),
        "a build folder holds the options that",
    ),
    "schedule a build": (
        lambda b: c.inspect(b, schedule=c.ScheduleOptions(schedule="slide")),
        "a build folder holds the options that",
    ),
    "multiply in two ways": (
        lambda b: c.run_network(TINY, X, read=ReadOptions(dtype="f16", precision="tf32")),
        "dtype replaces float32, whose precision is then not used",
    ),
    "launch on an array": (lambda b: c.launch(b, inputs=X), "inputs must be a KernelInputs, got ndarray"),
    "simulate no file": (lambda b: c.simulate("k.ptx", "l.json"), "k.ptx"),
    "prepare a file": (lambda b: backend.prepare("f.onnx"), "prepare takes an onnx.ModelProto, got str 'f.onnx'"),
    "prepare nothing": (lambda b: backend.prepare(None), "prepare takes an onnx.ModelProto, got NoneType"),
    "run a number prepared": (
        lambda b: backend.prepare(onnx.load(TINY)).run(3),
        "run takes arrays in a list, or by name",
    ),
    "run a text prepared": (lambda b: backend.prepare(onnx.load(TINY)).run("x"), "run takes arrays in a list"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_a_sentence(build, name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    call, words = WRONG[name]
    with pytest.raises(ConvcError, match=words):
        call(build)
    assert list(tmp_path.iterdir()) == []


def test_buffers_of_a_launch_are_given_by_name_and_refused_before_memory_is_taken(monkeypatch):
    kernel = Path(__file__).parents[2] / "golden" / "slide_f16"
    asked = kernel / "kernel.ptx", kernel / "launch.json"
    assert launch_job(*asked, c.KernelInputs(seed=1)).contents.keys() == {"activation", "filter", "bias", "output"}
    with pytest.raises(InputError, match="the inputs of a kernel are arrays or files by the name of the buffer"):
        launch_job(*asked, c.KernelInputs(arrays=X))
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(LimitError, match=r"the launch's buffers needs .* of memory"):
        launch_job(*asked, c.KernelInputs(seed=1))


@pytest.mark.parametrize(
    ("more", "lines"),
    [
        ({}, []),
        ({"where": "node 'a'"}, ["  where: node 'a'"]),
        ({"hint": "try b"}, ["  hint: try b"]),
        ({"where": "node 'a'", "hint": "try b"}, ["  where: node 'a'", "  hint: try b"]),
    ],
)
def test_a_message_has_a_line_for_what_is_known(more, lines):
    assert str(InputError("no", **more)).splitlines() == ["error[I100]: no", *lines]


def test_a_hint_says_how_to_write_it(build):
    with pytest.raises(InputError) as caught:
        c.verify(TINY, read={"dtype": "f16"})
    assert caught.value.hint == "write read=convc.ReadOptions(...)"
    with pytest.raises(InputError) as caught:
        c.run(build, [[1, 2]])
    assert "np.asarray" in caught.value.hint
