"""One layer from array to array: inputs, results, writers and limits."""

from __future__ import annotations

import dataclasses
import re

import ml_dtypes
import numpy as np
import pytest
from support.schedules import RELOAD_ONLY

from convc.build.writer import layer_of
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import kernel_name, kernel_of
from convc.errors import InputError, LimitError
from convc.ir.findings import Verdict
from convc.ir.problem import ConvProblem
from convc.runtime.layer import last_writer, read_inputs, run_layer, to_standard_dtype
from convc.support import memory as limits
from convc.support.files import write_npy
from convc.verification import reference
from convc.verification.data import integer_data

PROBLEM = ConvProblem(
    name="p",
    batch=2,
    in_channels=5,
    out_channels=20,
    in_extent=(9, 11),
    kernel=(3, 2),
    stride=(2, 1),
    pad_lo=(1, 0),
    pad_hi=(0, 1),
    operand="f16",
    out="f32",
    bias=True,
)


@pytest.fixture(scope="module")
def case():
    x, weight, bias = integer_data(PROBLEM, seed=1)
    return (
        layer_of(PROBLEM, kernel_of(compile_problem(PROBLEM, options=RELOAD_ONLY)), weight, bias),
        x,
        reference.conv_problem(PROBLEM, x, weight, bias),
    )


def test_a_layer_gives_the_convolution(case):
    layer, x, exact = case
    seen = []
    run = run_layer(layer, x, progress=lambda done, total: seen.append((done, total)))
    assert run.y.shape == PROBLEM.y_shape
    assert run.y.dtype == np.float32
    np.testing.assert_array_equal(run.y, exact)
    assert run.verdict == Verdict.clean
    assert run.counters.ctas == layer.launch.ctas
    assert seen[-1] == (layer.launch.ctas, layer.launch.ctas)
    assert run.seconds > 0


def test_every_element_has_the_writer_that_its_tile_says(case):
    layer, x, _ = case
    _, _, rows, columns = PROBLEM.y_shape
    for element in ((0, 0, 0, 0), (0, 7, 3, 4), (1, 19, rows - 1, columns - 1)):
        n, k, p, q = element
        m = (n * rows + p) * columns + q
        who = last_writer(layer, x, element)
        tiles_m, block_n = layer.launch.grid[0], compile_problem(PROBLEM, options=RELOAD_ONLY).plan.tiling.block_n
        assert who.cta == m // 128 + tiles_m * (k // block_n)
        assert (who.warp, *who.lanes) == divmod(m % 128, 32)
        assert "st.global" in layer.ptx.splitlines()[who.line - 1]
        assert who.step == "epilogue.write"


def test_where_nothing_is_stored_there_is_no_writer(case):
    layer, x, _ = case
    silent = dataclasses.replace(layer, ptx=re.sub(r".*st\.global.*\n", "", layer.ptx))
    assert last_writer(silent, x, (0, 0, 0, 0)) is None


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 5, 9, 10)), r"\[2, 5, 9, 11\] \(N, C, H, W\), got \[2, 5, 9, 10\]"),
        (np.zeros((2, 5, 9, 11), int), "got int64"),
        (np.zeros((2, 5, 9, 11), bool), "got bool"),
    ],
)
def test_a_wrong_input_is_refused(case, x, message):
    with pytest.raises(InputError, match=message) as caught:
        run_layer(case[0], x)
    assert "'p'" in caught.value.where


def test_more_than_the_memory_is_refused_before_anything_is_packed(case, monkeypatch):
    layer, x, _ = case
    monkeypatch.setattr(limits, "available_memory", lambda: 1000)
    with pytest.raises(LimitError, match=r"running layer 'p' .* needs"):
        run_layer(layer, x)


def test_an_input_file_of_bfloat16_is_read_as_such(case, tmp_path):
    layer, _, _ = case
    x = np.random.default_rng(0).standard_normal(PROBLEM.x_shape).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", x)
    found = read_inputs(tmp_path / "x.npy", layer)
    assert found.keys() == {"x"}
    back = found["x"]
    assert back.dtype == x.dtype
    np.testing.assert_array_equal(back.view(np.uint16), x.view(np.uint16))
    write_npy(tmp_path / "y.npy", to_standard_dtype(x))
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x.astype(np.float32))


def test_a_file_without_activations_is_refused(case, monkeypatch, tmp_path):
    layer, _, _ = case
    monkeypatch.setattr("convc.runtime.layer._check_residual", lambda *_: None)
    np.savez(tmp_path / "x.npz", residual=np.zeros(PROBLEM.y_shape, np.float32))
    with pytest.raises(InputError, match="there is no array 'x' in the file") as refused:
        read_inputs(tmp_path / "x.npz", layer)
    assert refused.value.where == f"layer {layer.name!r}"


def test_the_name_of_a_kernel_says_what_it_computes():
    assert kernel_name(PROBLEM) == "conv3x2_c5_k20"
