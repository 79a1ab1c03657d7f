"""Infinities and NaN: no output sees one that it does not read, whatever the layout multiplies."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import convc
from convc.build.writer import layer_of
from convc.cli.main import main
from convc.compiler.kernels import Kernels
from convc.compiler.options import ScheduleOptions
from convc.compiler.schedules.all import names
from convc.errors import ConvcError
from convc.host_layout.device_layout import device_layout, unread_products
from convc.host_layout.split_precision import PASSES, activation_parts, filter_parts
from convc.ir import dtypes
from convc.ir.epilogue import AddResidual, Clip, LeakyRelu, Relu, ReluGrad, Sigmoid, SiLU
from convc.ir.network import ConvNode, TensorRef
from convc.ir.problem import ConvProblem
from convc.machine import RunOptions
from convc.machine.base.switches import Switches
from convc.runtime import layer
from convc.runtime.layer import run_layer
from convc.verification.bound import error_bound, expected_result
from convc.verification.compare import compare
from convc.verification.layer import check_layer
from convc.verification.layer_data import MOST, data_of, draw_special

KERNELS = Kernels()
VALUES = (np.inf, -np.inf, np.nan)


def problem(channels, filters, extent, kernel, groups=1, **more) -> ConvProblem:
    rank = len(extent)
    pads = {"pad_lo": tuple(k // 2 for k in kernel), "pad_hi": tuple(k // 2 for k in kernel)}
    given = {"name": "conv", "batch": 2, "operand": "f16", "out": "f32", "bias": True, **pads, **more}
    steps = {name: given.pop(name, (1,) * rank) for name in ("stride", "dilation")}
    return ConvProblem(
        in_channels=channels, out_channels=filters, in_extent=extent, kernel=kernel, groups=groups, **steps, **given
    )


def by_hand(problem: ConvProblem, x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The sums, product by product: no padding, no BLAS, nothing that an output does not read."""
    x, w = np.asarray(x, np.float64), np.asarray(w, np.float64)
    y = np.zeros(problem.y_shape)
    own = problem.in_channels // problem.groups
    made = problem.out_channels // problem.groups
    steps = list(zip(problem.stride, problem.dilation, problem.pad_lo, strict=True))
    with np.errstate(all="ignore"):
        for tap in itertools.product(*map(range, problem.kernel)):
            for at in itertools.product(*map(range, problem.in_extent if problem.transposed else problem.out_extent)):
                far = tuple(p * u + t * d - lo for p, t, (u, d, lo) in zip(at, tap, steps, strict=True))
                pixel, place = (at, far) if problem.transposed else (far, at)
                limits = problem.out_extent if problem.transposed else problem.in_extent
                if not all(0 <= f < limit for f, limit in zip(far, limits, strict=True)):
                    continue
                for g in range(problem.groups):
                    some = slice(g * own, (g + 1) * own)
                    filters = slice(g * made, (g + 1) * made)
                    taps = w[(some, slice(None), *tap)].T if problem.transposed else w[(filters, slice(None), *tap)]
                    y[(slice(None), filters, *place)] += (x[(slice(None), some, *pixel)][:, None] * taps).sum(-1)
        return y + bias.reshape(-1, *(1,) * problem.rank)


def checked(problem: ConvProblem, x_at=(), w_at=(), seed=0) -> str:
    """Run a problem with what is not finite at these places; what the run said of it."""
    rng = np.random.default_rng(seed)
    x = dtypes.quantise(problem.operand_dtype, rng.standard_normal(problem.x_shape).astype(np.float32))
    w = dtypes.quantise(problem.filter_dtype, rng.standard_normal(problem.w_shape).astype(np.float32))
    w.flat[::5] = 0
    for array, places in ((x, x_at), (w, w_at)):
        for place, value in places:
            array.flat[place % array.size] = value
    x, w = (dtypes.quantise(problem.operand_dtype, array) for array in (x, w))
    bias = rng.standard_normal(problem.out_channels).astype(np.float32)
    residual = dtypes.quantise(problem.out_dtype, rng.standard_normal(problem.y_shape)) if problem.residual else None
    kernel = KERNELS.compiled(problem)
    run = run_layer(layer_of(problem, kernel, w, bias), x, residual=residual)
    expected = expected_result(problem, x, w, bias, None, residual)
    found = compare(run.y, expected, error_bound(problem, x, w, bias, residual))
    assert found.ok, (found, np.isnan(dtypes.decode(problem.out_dtype, run.y)).sum(), np.isnan(expected).sum())
    if not problem.epilogue and problem.operand not in dtypes.SCALED_OPERANDS:
        right = by_hand(problem, x, w, bias)
        np.testing.assert_allclose(expected, right, rtol=1e-9, atol=1e-9)  # places of each infinity and NaN too
    return run.special


PACKED = {
    "depthwise": problem(16, 16, (7, 7), (3, 3), 16),
    "depthwise row": problem(8, 16, (9,), (3,), 8),
    "groups of three": problem(12, 8, (5, 6), (3, 3), 4, stride=(2, 1)),
    "many packs": problem(96, 96, (3, 3), (3, 3), 96),
    "volume": problem(8, 8, (3, 4, 4), (2, 2, 2), 8, pad_lo=(0, 0, 0), pad_hi=(0, 0, 0)),
    "phases": problem(8, 8, (4, 4), (3, 3), transposed=True, stride=(2, 2), pad_lo=(0, 0), pad_hi=(0, 0)),
    "phases of volumes": problem(4, 4, (2, 3, 3), (3, 2, 3), transposed=True, stride=(2, 2, 2)),
    "phases with gaps": problem(8, 8, (4,), (2,), transposed=True, stride=(3,), pad_lo=(0,), pad_hi=(0,)),
    "phases of groups": problem(8, 8, (4, 4), (4, 4), 8, transposed=True, stride=(2, 2)),
    "positions that no tap reads": problem(4, 8, (1, 40), (1, 12), stride=(1, 10), pad_lo=(0, 0), pad_hi=(0, 0)),
}


@pytest.mark.one_of(3)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", PACKED)
def test_an_output_sees_only_what_it_reads(name, value):
    for operand in ("f16", "tf32"):
        of = dataclasses.replace(PACKED[name], operand=operand)
        assert unread_products(device_layout(of))
        said = checked(of, [(37, value)])
        assert said.startswith("some activations are not finite, and ")
        assert said.endswith(" more")


@pytest.mark.one_of(2)
@pytest.mark.parametrize("operand", ["bf16", "e4m3", "e5m2", "bf16x3", "bf16x6", "tf32x3", "mxfp8", "mxfp4", "nvfp4"])
def test_every_type(operand):
    of = problem(8, 16, (5, 5), (3, 3), 8, operand=operand)
    for value in VALUES:
        assert "groups share a pack" in checked(of, [(11, value)])
    places = [(11, np.inf), (12, -np.inf), (77, np.nan)]
    assert "activations and weights are not finite" in checked(of, places, [(3, np.inf)])


@pytest.mark.parametrize("operand", PASSES)
@pytest.mark.parametrize("value", VALUES)
def test_parts_have_what_is_not_finite_once(operand, value):
    assert checked(problem(5, 7, (6, 6), (3, 3), operand=operand), [(40, value)]) == ""
    for parts in (activation_parts, filter_parts):
        first, *others = parts(operand, np.array([value, 1.5], np.float32))
        np.testing.assert_array_equal(first.astype(np.float32), np.array([value, 1.5], np.float32))
        assert not any(part[:1].any() for part in others)


@pytest.mark.parametrize(
    "epilogue",
    [
        (Relu(),),
        (LeakyRelu(-0.25), Relu()),
        (Clip(-1.0, 0.0),),
        (Clip(2.0, 6.0),),
        (Clip(300.0, 500.0),),
        (SiLU(), AddResidual()),
        (AddResidual(), Relu()),
        (ReluGrad(),),
        (Sigmoid(),),
    ],
)
def test_any_epilogue(epilogue):
    of = problem(8, 8, (6, 6), (3, 3), 8, epilogue=epilogue, out="f16")
    places = [(20, np.inf), (80, -np.inf), (130, np.nan), (200, np.inf), (203, -np.inf)]
    assert "activations are not finite" in checked(of, places)


@pytest.mark.parametrize("kind", ["dense", "groups", "transposed", "dilated"])
def test_weights(kind):
    more = {"transposed": True, "stride": (2, 2)} if kind == "transposed" else {}
    of = problem(6, 6, (5, 5), (3, 3), 3 if kind == "groups" else 1, **more)
    if kind == "dilated":
        of = problem(4, 4, (3, 3), (2, 2), transposed=True, stride=(3, 3), dilation=(2, 2))
    assert "some weights are not finite" in checked(of, [], [(10, np.inf)])
    said = checked(of, [(3, -np.inf), (70, np.nan)], [(8, np.inf), (31, np.nan), (44, -np.inf)])
    assert "some activations and weights are not finite" in said


def test_finite_numbers_and_dense_layouts_take_one_launch():
    assert checked(PACKED["depthwise"]) == ""
    assert checked(problem(8, 8, (6, 6), (3, 3)), [(5, np.inf), (99, np.nan)]) == ""


def test_an_epilogue_that_makes_the_same_of_everything_is_left_alone():
    of = problem(8, 8, (4, 4), (1, 1), 8, epilogue=(Clip(1.0, 1.0),))
    rng = np.random.default_rng(0)
    x = rng.standard_normal(of.x_shape).astype(np.float32)
    x[0, 0, 0, 0] = np.inf
    ready = layer_of(of, KERNELS.compiled(of), np.ones(of.w_shape, np.float32), np.zeros(8, np.float32))
    assert run_layer(ready, x).special == ""


@pytest.mark.parametrize("seed", range(3))
def test_verification_draws_them_and_sees_where_they_leak(seed, monkeypatch):
    of = dataclasses.replace(PACKED["depthwise"], out="f16")
    ref = TensorRef(name="t", dtype="f16", shape=of.x_shape)
    conv = ConvNode(name="conv", problem=of, input=ref, weight=np.ones(of.w_shape, "f4"), bias=np.ones(16), output=ref)
    drawn = draw_special(of, seed)
    data = data_of("normal", conv, seed)
    assert np.argwhere(~np.isfinite(data.x)).tolist() == [list(drawn.place)]
    assert np.isfinite(data_of("integer", conv, seed).x).all()
    found = check_layer(conv, KERNELS.compiled(of), seed=seed)
    assert found.ok
    assert found.compared("normal").count_nan == found.compared("normal").count_infinite == 0  # they were drawn
    monkeypatch.setattr(layer, "special_launch", lambda layout, given: None)
    assert not check_layer(conv, KERNELS.compiled(of), seed=seed).ok


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", [*PACKED, "dense"])
def test_the_outputs_that_read_what_is_drawn_are_in_its_box(name):
    of = PACKED.get(name, problem(3, 4, (20, 20), (3, 5), stride=(2, 3), dilation=(2, 1)))
    for seed in range(20):
        drawn = draw_special(of, seed)
        if drawn is None:
            continue
        x = np.zeros(of.x_shape)
        x[drawn.place] = 1
        reads = by_hand(of, x, np.ones(of.w_shape), np.zeros(of.out_channels)) != 0
        inside = np.zeros_like(reads)
        inside[drawn.box] = True
        assert not (reads & ~inside).any()
        assert inside.mean() <= MOST
        edges = reads[drawn.box]
        assert edges.any() or not reads.any()
        if not of.transposed and max(of.dilation + of.stride) == 1:
            assert edges.all()


def test_a_run_says_that_it_met_them(tmp_path):
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[1, 8, 5, 5] x) => (float[1, 8, 3, 3] y) <float[8, 1, 3, 3] w> { y = Conv <group = 8> (x, w) }"""
    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(0)
    w = rng.standard_normal((8, 1, 3, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    onnx.save(model, tmp_path / "m.onnx")
    x = rng.standard_normal((1, 8, 5, 5)).astype(np.float32)
    x[0, 3, 0, 0] = np.inf
    run = convc.run_network(tmp_path / "m.onnx", x)
    assert np.argwhere(~np.isfinite(run.outputs["y"])).tolist() == [[0, 3, 0, 0]]
    said = "some activations are not finite, and 8 groups share a pack: 2 launches more"
    assert run.stats.special == {"y": said}
    for fuse in (True, False):
        report = convc.verify(tmp_path / "m.onnx", feeds=x, read=convc.ReadOptions(fuse=fuse))
        assert report.ok
        assert report.network.stats.special == {"y": said}
    convc.compile(tmp_path / "m.onnx", tmp_path / "build")
    np.save(tmp_path / "x.npy", x)
    words = ["run", tmp_path / "build", "--input", tmp_path / "x.npy", "-o", tmp_path / "y.npy"]
    result = CliRunner().invoke(main, list(map(str, words)))
    assert f"y: {said}" in result.stdout


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
def test_other_targets_schedules_and_sums(target):
    """Dense kernels of every schedule pass them on by themselves; a layout that packs is launched again."""
    rng = np.random.default_rng(4)
    found = 0
    for of in (problem(16, 16, (5, 6), (3, 3)), PACKED["depthwise"], PACKED["phases"]):
        for schedule in names():
            try:
                kernel = Kernels(ScheduleOptions(schedule=schedule, target=target)).compiled(of)
            except ConvcError:  # not every schedule has a kernel for every problem
                continue
            x = dtypes.quantise(of.operand_dtype, rng.standard_normal(of.x_shape).astype(np.float32))
            w = dtypes.quantise(of.operand_dtype, rng.standard_normal(of.w_shape).astype(np.float32))
            for place, value in zip(((0, 0, 1, 1), (0, 1, 2, 0), (1, 5, 3, 2)), VALUES, strict=True):
                x[place] = value
            bias = np.zeros(of.out_channels)
            for switches in ("float32", "exact")[: 2 if schedule == "reload" else 1]:
                run = run_layer(layer_of(of, kernel, w, bias), x, RunOptions(switches=Switches(numerics=switches)))
                assert compare(run.y, expected_result(of, x, w, bias), error_bound(of, x, w, bias)).ok
                found += 1
    assert found >= 6
