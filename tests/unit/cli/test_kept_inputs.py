"""Nothing that a command reads is overwritten by what it writes, by whatever name."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from convc import api
from convc.errors import InputError
from convc.support.resources import model_folder

KERNEL = Path(__file__).parents[2] / "foreign" / "saxpy"


@pytest.fixture
def place(tmp_path, build, monkeypatch) -> Path:
    """A folder with one of each thing that a command reads: m.onnx and its weights, build, x.npy, r.npy, a kernel."""
    model = onnx.load(model_folder() / "tiny_conv.onnx")
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    shutil.copy(model_folder() / "tiny_two_convs.onnx", tmp_path / "n.onnx")
    shutil.copytree(KERNEL, tmp_path / "k")
    numbers = np.arange(1000, dtype=np.float32)
    for name in ("x", "y"):
        np.save(tmp_path / "k" / f"{name}.npy", numbers)
        np.save(tmp_path / f"{name}.npy", numbers)
    monkeypatch.chdir(tmp_path)
    return tmp_path


VERIFY = ("verify", "m.onnx")
EXEC = ("exec", "k/kernel.ptx", "k/launch.json")
RUN = ("run", "build", "--input", "x.npy")
INSPECT = ("inspect", "m.onnx", "--layer", "conv")
NETWORK = "build/network.json"
PTX = "build/kernels/*/kernel.ptx"

CALLS = [
    *((VERIFY, option, "m.onnx") for option in ("--json", "--csv", "--markdown", "--annotate")),
    *((VERIFY, option, "m.bin") for option in ("--json", "--csv")),
    (("verify", "n.onnx", "m.onnx"), "--json", "n.onnx"),
    (("verify", "n.onnx", "m.onnx"), "--csv", "m.onnx"),
    ((*VERIFY, "--reweight", "1"), "--json", "m.onnx"),
    (("compile", "m.onnx", "-o", "new"), "--json", "m.onnx"),
    *((INSPECT, option, "m.onnx") for option in ("--json", "--svg")),
    *((("check", "build"), option, NETWORK) for option in ("--json", "--sarif")),
    (("check", "build"), "--sarif", PTX),
    *(
        (EXEC, option, name)
        for option in ("--json", "--sarif")
        for name in ("k/kernel.ptx", "k/launch.json", "k/y.npy")
    ),
    *((RUN, option, name) for option in ("-o", "--output") for name in ("x.npy", NETWORK, PTX)),
    ((*RUN, "-o", "z.npy", "--residual", "y.npy"), "--json", "y.npy"),
    ((*RUN, "-o", "z.npy"), "--json", "x.npy"),
    ((*RUN, "-o", "z.npy"), "--json", "z.npy"),
    (("run", "m.onnx", "--input", "x=x.npy"), "-o", "m.onnx"),
    (("run", "m.onnx", "--input", "x=x.npy"), "-o", "y=x.npy"),
]


@pytest.mark.one_of(3)
@pytest.mark.parametrize(("call", "option", "name"), CALLS)
@pytest.mark.parametrize("link", [None, os.symlink, os.link], ids=["itself", "symlink", "hard link"])
def test_an_input_is_no_place_for_a_report(convc, place, call, option, name, link):
    prefix, equals, name = name.rpartition("=")
    if name == "z.npy":
        (place / name).write_bytes(b"of the day before")
    (file,) = place.glob(name)
    target = str(file.relative_to(place))
    if link is not None:
        target = "alias"
        link(file, place / target)
    given = f"{prefix}{equals}{target}"
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    said = convc.refused(*((call[0], option, given, *call[1:]) if link else (*call, option, given)))
    assert "error[I100]" in said
    assert any(part in said for part in ("is read here", "two reports", "is replaced"))
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def test_a_model_in_the_folder_that_is_replaced(convc, place):
    shutil.copy("m.onnx", "build/kernels/m.onnx")
    assert "this lies in 'build', which the command replaces" in convc.refused(
        "compile", "n.onnx", "-o", "build", "--json", NETWORK
    )
    assert "'build/kernels/m.onnx', which is read here" in convc.refused(
        "compile", "build/kernels/m.onnx", "-o", "build"
    )


def test_a_device_takes_everything(convc, place):
    convc.good("verify", "n.onnx", "--json", "/dev/null", "--csv", "/dev/null")


def test_a_launch_that_saves_over_what_it_reads(convc, place):
    launch = place / "k" / "launch.json"
    whole = launch.read_text()
    for name in ("y.npy", "x.npy", "kernel.ptx", "launch.json"):
        launch.write_text(whole.replace("out.npy", name))
        assert f"this would overwrite 'k/{name}'" in convc.refused(*EXEC)
    launch.write_text(whole.replace('"file": "x.npy"', '"file": "x.npy", "save": "out.npy"'))
    assert "are saved to one file" in convc.refused(*EXEC)


def test_the_verbs_keep_their_inputs(place):
    x = np.ones((1, 16, 12, 12), np.float16)
    with pytest.raises(InputError, match=r"'build/network\.json' of 'build', which is read here"):
        api.run_layer("build", x, save=NETWORK)
    with pytest.raises(InputError, match=r"'m\.bin' of 'm\.onnx', which is read here"):
        api.run_network("m.onnx", x, save={"": "m.bin"})
    with pytest.raises(InputError, match=r"'k/x\.npy', which is read here"):
        api.run_network("m.onnx", "k/x.npy", save={"": "k/x.npy"})
