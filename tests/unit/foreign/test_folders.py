"""Folders that Triton and CuTe DSL leave: the arguments of their kernels, launch files, and what is damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import convc
from convc.api.finding import find_kernels, write_launch
from convc.errors import LaunchError
from convc.foreign.folders import arguments_of_text
from convc.ir.launch import StructParam, load_launch
from tests.support.triton_recorded import CACHED, FOREIGN

ARGUMENTS = {"x": "f16[196,256]", "w": "f16[64,256]", "y": "f16[196,64]", "C": "256"}


@pytest.fixture
def cache(tmp_path) -> Path:
    """A cache with one kernel, as Triton leaves it."""
    shutil.copytree(CACHED.parent, tmp_path / "cache" / CACHED.parent.name)
    return tmp_path / "cache"


def damaged(cache: Path, suffix: str, text: str) -> None:
    next(cache.glob(f"*/pointwise{suffix}")).write_text(text)


def test_arguments_of_triton(cache):
    (found,) = find_kernels(cache, "triton")
    kinds = [(each.name, each.kind, each.dtype, each.rank) for each in found.needed]
    assert kinds == [
        ("x", "descriptor", "f16", 2), ("w", "descriptor", "f16", 2), ("y", "descriptor", "f16", 2),
        ("C", "number", "s32", 0),
    ]  # fmt: skip
    assert (found.ctas, found.shared) == (1, 24600)


def test_a_launch_of_triton_runs(cache, tmp_path):
    x = np.random.default_rng(0).integers(-4, 5, (196, 256)).astype(np.float16)
    np.save(tmp_path / "x.npy", x)
    target = tmp_path / "launch.json"
    given = ARGUMENTS | {"x": str(tmp_path / "x.npy")}
    found = write_launch(cache, "triton", target, given, grid=(2, 1, 1))
    w = np.eye(64, 256, dtype=np.float16)
    done = convc.simulate(found.ptx, target, {"w": w, "y": np.zeros((196, 64), np.float16)})
    np.testing.assert_array_equal(done.buffers["y"], x[:, :64])


def test_without_the_source_the_text_says_the_parameters(cache):
    next(cache.glob("*/pointwise.source")).unlink()
    (found,) = find_kernels(cache, "triton")
    assert [each.kind for each in found.needed][:6] == ["map", "number", "number", "number", "number", "map"]


def test_what_is_missing_is_listed(cache, tmp_path):
    with pytest.raises(LaunchError) as caught:
        write_launch(cache, "triton", tmp_path / "launch.json", {"C": "256"})
    said = str(caught.value)
    assert "kernel 'pointwise' needs\n  x: a tensor of rank 2 of f16, as x=f16[64,64]\n  w:" in said
    assert "the grid, as --grid 8,1,1" in said
    assert "C:" not in said


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("x", "f16[196]", "argument 'x': expected 2 extents, got [196]"),
        ("x", "f32[196,256]", "argument 'x': expected elements of f16, got f32"),
        ("x", "f16", "argument 'x': expected NAME.npy, or a type and a shape"),
        ("C", "many", "argument 'C': expected a number, got 'many'"),
        ("z", "1", "kernel 'pointwise' has no argument 'z'"),
    ],
)
def test_values_that_do_not_fit(cache, tmp_path, name, value, message):
    with pytest.raises(LaunchError) as caught:
        write_launch(cache, "triton", tmp_path / "launch.json", ARGUMENTS | {name: value}, grid=(2, 1, 1))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("suffix", "text", "message"),
    [
        (".json", "{", "expected the metadata of Triton's compiler"),
        (".json", "[" * 100_000, "expected the metadata of Triton's compiler"),
        (".json", '{"name": "other"}', "the text has no kernel 'other'"),
        (".json", '{"name": "pointwise", "tensordesc_meta": 7}', "expected the metadata"),
        (".ptx", "", "the text has no kernel 'pointwise'"),
    ],
)
def test_damaged_folders(cache, suffix, text, message):
    damaged(cache, suffix, text)
    with pytest.raises(LaunchError, match=message):
        find_kernels(cache, "triton")


def test_damaged_descriptors(cache, tmp_path):
    path = next(cache.glob("*/pointwise.json"))
    meta = json.loads(path.read_text())
    meta["tensordesc_meta"][0]["elem_type"] = 99
    path.write_text(json.dumps(meta))
    with pytest.raises(LaunchError, match="argument 'x': the metadata of its descriptor is damaged"):
        write_launch(cache, "triton", tmp_path / "launch.json", ARGUMENTS, grid=(2, 1, 1))


@pytest.mark.parametrize("tool", ["triton", "cute"])
def test_folders_without_kernels(tmp_path, tool):
    with pytest.raises(LaunchError, match="there is no such folder"):
        find_kernels(tmp_path / "none", tool)
    with pytest.raises(LaunchError, match=r"there (are|is) none"):
        find_kernels(tmp_path, tool)


def test_a_kernel_of_cute_runs(tmp_path):
    target = tmp_path / "launch.json"
    given = {"arg0": "f32[1024]", "arg1": "f32[1024]", "arg2": "3"}
    found = write_launch(FOREIGN / "cute_dump", "cute", target, given)
    assert (found.grid, [each.dtype for each in found.needed]) == ((8, 1, 1), ["f32", "f32", "f32"])
    x = np.arange(1024, dtype=np.float32)
    done = convc.simulate(found.ptx, target, {"arg0": x, "arg1": 0 * x})
    np.testing.assert_array_equal(done.buffers["arg1"], 3 * x)


def test_arguments_of_several_bytes(tmp_path):
    """A tensor whose extents are known at run time: its address, and whole numbers behind it."""
    text = ".version 8.8\n.target sm_100a\n.entry f(\n.param .align 8 .b8 f_0[16]\n)\n.reqntid 128, 1, 1\n{ ret; }\n"
    (tmp_path / "f.sm_100a.ptx").write_text(text)
    target = tmp_path / "launch.json"
    write_launch(tmp_path, "cute", target, {"arg0": "f16[8]", "arg0.8": "64"}, grid=(1, 1, 1))
    (param,) = load_launch(target).params
    assert isinstance(param, StructParam)
    assert [(each.at, each.size) for each in param.fields] == [(0, 8), (8, 4)]


def test_several_kernels(tmp_path):
    text = ".version 8.8\n.target sm_100a\n.entry f()\n{ ret; }\n.entry g()\n{ ret; }\n"
    (tmp_path / "f.sm_100a.ptx").write_text(text)
    with pytest.raises(LaunchError, match="there are several kernels") as caught:
        write_launch(tmp_path, "cute", tmp_path / "launch.json", {}, grid=(1, 1, 1))
    assert caught.value.hint == "say --kernel with one of: f, g"
    assert write_launch(tmp_path, "cute", tmp_path / "launch.json", {}, kernel="g", grid=(1, 1, 1)).name == "g"


def test_parameters_that_are_not_known():
    with pytest.raises(LaunchError, match="parameter 0 is not one that is known"):
        arguments_of_text("something else")
