"""``convc run``: the folder's text is what runs, and a refused or failed run writes nothing."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil

import numpy as np
import pytest
from support.kernel_edits import EXPECT_MORE, KEEP_OLD, MISPLACE_SHARED, edited

import convc as package
from convc.build.folder import load_build
from convc.errors import InputError
from convc.ir.epilogue import AddResidual, Relu
from convc.verification import reference

SHAPE = (1, 16, 12, 12)


def expected(tiny, x) -> np.ndarray:
    """The exact result for the tiny model, in float64."""
    conv = package.load(tiny).convs[0]
    return reference.conv_problem(conv.problem, np.load(x).astype(np.float64), conv.weight, conv.bias)


def test_a_kernel_of_hopper_multiplies_by_warps(convc, tiny, tmp_path):
    build = tmp_path / "hopper"
    convc.good("compile", tiny, "--target", "sm_90a", "-o", build)
    said = convc.good("run", build, "--seed", 1, "-o", tmp_path / "y.npy")
    count = re.search(r"instructions, (\d+) MMA instructions of warps, ", said)
    assert int(count[1]) % 4 == 0, "a warpgroup is four warps"


def test_a_run_writes_the_convolution(convc, tiny, build, x, tmp_path):
    said = convc.good("run", build, "--input", x, "-o", tmp_path / "y.npy")
    y = np.load(tmp_path / "y.npy")
    assert y.dtype == np.float16
    exact = expected(tiny, x)
    assert y.shape == exact.shape == (1, 24, 12, 12)
    np.testing.assert_allclose(y, exact, rtol=2**-10, atol=2**-10)
    assert re.search(r" \d+ MMA instructions, \d", said)
    assert f"wrote {tmp_path / 'y.npy'}: float16 [1, 24, 12, 12]" in said
    np.testing.assert_array_equal(package.run(build, np.load(x)), y)


MASKED = ("--schedule", "slide", "--border", "mask")
SHIFTED = [
    ("--schedule", "shift", "--shift", variant, "--border", "mask") for variant in ("chain", "ashift", "windows")
]
STATIONARY = ("--schedule", "stationary", "--border", "mask")


@pytest.mark.parametrize("schedule", [MASKED, *SHIFTED, STATIONARY], ids=" ".join)
def test_kernels_with_masks_run_and_are_counted(convc, tiny, x, tmp_path, schedule):
    convc.good("compile", tiny, "-o", tmp_path / "b", *schedule)
    convc.good("run", tmp_path / "b", "--input", x, "-o", tmp_path / "y.npy", "--json", tmp_path / "run.json")
    exact = expected(tiny, x)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), exact, rtol=2**-10, atol=2**-10)
    counters = json.loads((tmp_path / "run.json").read_text())["counters"]
    assert counters["zeroed_columns" if "stationary" in schedule else "masked_lanes"] > 0
    convc.good("verify", tiny, *schedule, "--json", tmp_path / "verify.json")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_wider_inputs_are_rounded_to_the_kernels_type(convc, build, x, tmp_path, dtype):
    convc.good("run", build, "--input", x, "-o", tmp_path / "y.npy")
    np.save(tmp_path / "wide.npy", np.load(x).astype(dtype))
    convc.good("run", build, "--input", tmp_path / "wide.npy", "-o", tmp_path / "wide_y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.load(tmp_path / "wide_y.npy"))


def test_a_kernel_edited_by_hand_runs_as_it_is(convc, build, kernel, x, tmp_path):
    convc.good("run", build, "--input", x, "-o", tmp_path / "y.npy")
    text = edited(kernel.read_text(), r"add\.rn\.f32 %v1, %v1, %b1;", "mov.f32 %v1, 0f42280000;  // 42")
    kernel.write_text(text)
    columns = int(re.search(r"%v<(\d+)>", text)[1])  # what one pass of the epilogue carries
    convc.good("run", build, "--input", x, "-o", tmp_path / "edited.npy")
    before, after = np.load(tmp_path / "y.npy"), np.load(tmp_path / "edited.npy")
    assert (after[:, 1::columns] == 42).all()
    others = [k for k in range(24) if k % columns != 1]
    np.testing.assert_array_equal(after[:, others], before[:, others])


def test_with_several_layers_a_name_is_needed(convc, two, tmp_path):
    folder = tmp_path / "b"
    convc.good("compile", two, "-o", folder)
    np.save(tmp_path / "x.npy", np.ones((1, 16, 8, 8), np.float32))
    said = convc.refused("run", folder, "--input", tmp_path / "x.npy", "-o", tmp_path / "y.npy")
    assert "2 layers: choose one with --layer" in said
    assert "stem, head" in said
    convc.good("run", folder, "--input", tmp_path / "x.npy", "-o", tmp_path / "y.npy", "--layer", "head")
    assert np.load(tmp_path / "y.npy").shape == (1, 10, 8, 8)


def test_bfloat16_goes_in_as_two_bytes_and_comes_out_readable(convc, tmp_path):
    import ml_dtypes

    from convc.support.resources import model_folder

    convc.good("compile", model_folder() / "tiny_bf16.onnx", "-o", tmp_path / "b")
    x = np.random.default_rng(1).standard_normal((2, 8, 10, 9)).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", x)
    convc.good("run", tmp_path / "b", "--input", tmp_path / "x.npy", "-o", tmp_path / "y.npy")
    y = np.load(tmp_path / "y.npy")
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, package.run(tmp_path / "b", x).astype(np.float32))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((1, 16, 12, 13), np.float16), "shape [1, 16, 12, 12] (N, C, H, W), got [1, 16, 12, 13]"),
        (np.zeros(SHAPE[1:], np.float16), "got [16, 12, 12]"),
        (np.zeros(SHAPE, np.int64), "float16, bfloat16, float32 or float64, got int64"),
        (np.zeros(SHAPE, np.complex64), "got complex64"),
        (np.zeros(SHAPE, "U3"), "got str96"),
        (np.full(SHAPE, None, dtype=object), "array of numbers"),
    ],
)
def test_a_wrong_input_is_refused(convc, build, tmp_path, array, message):
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    said = convc.refused("run", build, "--input", tmp_path / "x.npy", "-o", tmp_path / "y.npy")
    assert message in said
    assert "x.npy" in said
    assert not (tmp_path / "y.npy").exists()


def test_a_missing_or_damaged_input_is_refused(convc, build, x, tmp_path):
    assert "no such file" in convc.refused("run", build, "--input", tmp_path / "no.npy", "-o", "y.npy")
    x.write_bytes(x.read_bytes()[:-8])
    assert "truncated" in convc.refused("run", build, "--input", x, "-o", tmp_path / "y.npy")
    x.write_text("1 2 3")
    assert "not a .npy file" in convc.refused("run", build, "--input", x, "-o", tmp_path / "y.npy")


def test_a_folder_that_is_no_build_is_refused(convc, x, tmp_path):
    assert "error[B100]" in convc.refused("run", tmp_path, "--input", x, "-o", tmp_path / "y.npy")
    assert "there is no such file or folder" in convc.refused(
        "run", tmp_path / "no", "--input", x, "-o", tmp_path / "y.npy"
    )


def test_a_damaged_build_is_refused(convc, build, kernel, x, tmp_path):
    shutil.rmtree(kernel.parent)
    assert "there is no such file or folder" in convc.refused("run", build, "--input", x, "-o", tmp_path / "y.npy")
    (build / "network.json").write_text("{")
    assert "damaged" in convc.refused("run", build, "--input", x, "-o", tmp_path / "y.npy")


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        (r"add\.rn\.f32 %v1,", "add.rn.f33 %v1,", 2, "error[P100]"),
        (r"add\.rn\.f32 %v1, %v1, %b1;", "add.rn.f32 %v1, %v1, %nobody;", 2, "error[P100]"),
        (r"\.entry \w+\(", ".entry renamed(", 2, "error[L100]"),
        (*EXPECT_MORE, 1, "error[M200]"),
        (*MISPLACE_SHARED, 1, "error[M100]"),
    ],
)
def test_a_kernel_that_cannot_run_to_its_end_writes_nothing(convc, build, kernel, x, tmp_path, old, new, code, message):
    text = kernel.read_text()
    kernel.write_text(edited(text, old, new))
    (tmp_path / "y.npy").write_bytes(b"old")
    result = convc("run", build, "--input", x, "-o", tmp_path / "y.npy")
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert message in result.stderr
    if message == "error[P100]":
        line = text[: re.search(old, text).start()].count("\n") + 1
        assert f"kernel.ptx:{line}:" in result.stderr
        assert "^" in result.stderr
    assert (tmp_path / "y.npy").read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["build", "x.npy", "y.npy"]


def test_what_the_machine_finds_ends_the_run_with_1(convc, build, kernel, x, tmp_path):
    kernel.write_text(edited(kernel.read_text(), *KEEP_OLD))
    result = convc("run", build, "--input", x, "-o", tmp_path / "y.npy")
    assert result.exit_code == 1
    assert "error[" in result.stderr
    assert not (tmp_path / "y.npy").exists()


def test_an_output_that_cannot_be_written_is_refused(convc, build, x, tmp_path):
    assert "error[I100]" in convc("run", build, "--input", x, "-o", tmp_path / "no" / "y.npy").stderr
    assert "this is a folder" in convc("run", build, "--input", x, "-o", tmp_path).stderr


def test_the_run_never_loads_the_compiler(build, x, tmp_path):
    import subprocess
    import sys

    code = (
        "import sys\nfrom convc.cli.main import main\n"
        f"main(['run', {str(build)!r}, '--input', {str(x)!r}, '-o', {str(tmp_path / 'y.npy')!r}],"
        " standalone_mode=False)\n"
        "print('loaded', [n for n in ('onnx', 'islpy', 'jinja2', 'convc.compiler.plan') if n in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "loaded []" in done.stdout


def test_the_api_names_the_layers_too(build):
    assert load_build(build).names == ("conv",)
    with pytest.raises(InputError, match="no layer 'x'"):
        package.run(build, np.zeros(SHAPE), layer="x")


def test_a_layer_with_a_residual_takes_it_as_a_second_file(convc, tiny, x, tmp_path):
    network = package.load(tiny)
    (conv,) = network.convs
    problem = dataclasses.replace(conv.problem, epilogue=(AddResidual(), Relu()))
    finished = dataclasses.replace(network, convs=(dataclasses.replace(conv, problem=problem),))
    package.compile(finished, tmp_path / "b")
    residual = np.random.default_rng(1).integers(-40, 41, problem.y_shape).astype(np.float16)
    np.save(tmp_path / "r.npy", residual)
    call = ("run", tmp_path / "b", "--input", x, "-o", tmp_path / "y.npy")
    convc.good(*call, "--residual", tmp_path / "r.npy")
    y = np.load(tmp_path / "y.npy")
    np.testing.assert_allclose(y, np.maximum(expected(tiny, x) + residual, 0), rtol=2**-10, atol=2**-10)
    np.testing.assert_array_equal(package.run(tmp_path / "b", np.load(x), residual=residual), y)
    assert "adds a residual of shape [1, 24, 12, 12] (N, K, P, Q), and there is none" in convc.refused(*call)
    assert "expected a residual of shape [1, 24, 12, 12]" in convc.refused(*call, "--residual", x)
    convc.good("check", tmp_path / "b")


def test_a_layer_without_one_refuses_a_residual(convc, build, x, tmp_path):
    said = convc.refused("run", build, "--input", x, "-o", tmp_path / "y.npy", "--residual", x)
    assert "the layer adds no residual, and there is one" in said
