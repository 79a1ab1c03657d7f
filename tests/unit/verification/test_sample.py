"""A sample of a launch: which CTAs it takes, what they must write, and that something wrong there shows."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest
from support.kernel_edits import edited

from convc.compiler.kernels import Kernels
from convc.compiler.options import ScheduleOptions
from convc.errors import LimitError
from convc.host_layout.device_layout import device_layout
from convc.ir.debug_info import read_debug_info
from convc.ir.epilogue import AddResidual, Relu
from convc.ir.launch import KernelArtifact
from convc.ir.network import ConvNode, TensorRef
from convc.ir.problem import ConvProblem
from convc.verification import sampled_layer
from convc.verification.data import normal_data
from convc.verification.layer import check_layer
from convc.verification.sample import TileMap, sample_ctas
from convc.verification.sample_data import _strip, strips_of

KERNELS = Kernels()


def problem(**fields) -> ConvProblem:
    base = {"in_channels": 8, "out_channels": 12, "in_extent": (29, 31), "kernel": (3, 3)}
    return ConvProblem(**{**base, "pad_lo": (1, 1), "pad_hi": (1, 1), **fields})


def node(asked: ConvProblem) -> ConvNode:
    smaller = (min(n, 100) for n in asked.in_extent)  # the weights are the same, and no large image is drawn
    _, weight, bias = normal_data(dataclasses.replace(asked, in_extent=tuple(smaller)), 0)
    ends = {name: TensorRef(name=name, dtype="f32", shape=None) for name in ("input", "output")}
    return ConvNode(name="conv", problem=asked, weight=weight, bias=bias, **ends)


def tiles_of(asked: ConvProblem) -> TileMap:
    kernel = KERNELS.compiled(asked)
    return TileMap(read_debug_info(kernel.debug_info), device_layout(asked), kernel.artifact.launch)


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    "asked",
    [
        problem(batch=3, bias=True, in_extent=(7, 7)),
        problem(stride=(9, 9), in_extent=(100, 90)),
        problem(groups=4),
        problem(in_extent=(5, 9, 11), kernel=(3, 3, 3), pad_lo=(1, 1, 1), pad_hi=(1, 1, 1)),
        problem(transposed=True, kernel=(4, 4), stride=(2, 2), output_padding=(1, 1)),
        problem(operand="u8", out="s32", pad_value=7),
        problem(operand="mxfp8", out="f32", in_channels=32),
        problem(epilogue=(AddResidual(), Relu())),
        problem(multiplier=True, bias=True),
    ],
    ids=lambda asked: f"{asked.rank}d {asked.operand} groups {asked.groups} {'transposed' * asked.transposed}",
)
def test_a_sample_of_everything_compares_every_output_once(asked):
    report = check_layer(node(asked), KERNELS.compiled(asked), sample=10_000)
    assert report.ok
    assert report.sampled is not None
    assert report.sampled.ctas == report.sampled.of == KERNELS.compiled(asked).artifact.launch.ctas
    assert {check.comparison.count for check in report.checks} == {np.prod(asked.y_shape)}
    assert check_layer(node(asked), KERNELS.compiled(asked), sample=0).ok


@pytest.mark.parametrize("border", ["auto", "zero"])
def test_a_tile_that_ctas_share_is_sampled_with_all_of_them(border):
    """CTAs of part 0 are those that say which tile they have; sums of the others are part of what they write."""
    asked = problem(in_channels=16, out_channels=32, in_extent=(30, 31))
    schedule = "reload" if border == "auto" else "slide"
    kernel = Kernels(ScheduleOptions(schedule=schedule, border=border, split_k="2")).compiled(asked)
    assert kernel.artifact.launch.cluster == (1, 1, 2)
    some = check_layer(node(asked), kernel, sample=0, modes=("integer",))
    assert some.ok
    assert 0 < some.checks[0].comparison.count < np.prod(asked.y_shape)
    text = edited(
        kernel.artifact.ptx, r"mapa\.shared::cluster\.u32 %peer, %at, 1;", "mapa.shared::cluster.u32 %peer, %at, 0;"
    )
    artifact = KernelArtifact(ptx=text, launch=kernel.artifact.launch)
    wrong = check_layer(node(asked), msgspec.structs.replace(kernel, artifact=artifact), sample=0, modes=("integer",))
    assert not wrong.ok


def test_a_sample_of_shared_tiles_can_be_all_of_them():
    asked = problem(in_channels=16, out_channels=32, in_extent=(12, 12))
    kernel = Kernels(ScheduleOptions(schedule="reload", split_k="4")).compiled(asked)
    every = check_layer(node(asked), kernel, sample=10_000, modes=("integer",))
    assert every.ok
    assert every.checks[0].comparison.count == np.prod(asked.y_shape)


def test_a_sample_has_every_border_and_is_drawn_by_the_seed():
    asked = problem(in_extent=(200, 300))
    tiles = tiles_of(asked)
    layout = device_layout(asked)
    borders = sample_ctas(tiles, layout, 0, seed=1)
    assert len(borders) <= 8 < tiles.grid[0]
    rows, columns = (np.concatenate([tiles.outputs(cta).element[axis] for cta in borders]) for axis in (2, 3))
    for row in (0, 100, 199):
        for column in (0, 299):
            near = abs(rows - row) < (100 if row == 100 else 1)
            assert (near & (columns == column)).any()
    more = sample_ctas(tiles, layout, 5, seed=1)
    assert set(borders) <= set(more)
    assert len(borders) < len(more) <= len(borders) + 5
    assert more == sample_ctas(tiles, layout, 5, seed=1) != sample_ctas(tiles, layout, 5, seed=2)


@pytest.mark.parametrize("options", [ScheduleOptions(), ScheduleOptions(schedule="stationary")], ids=str)
def test_the_tile_of_a_pixel_is_found(options):
    asked = problem(in_extent=(40, 50), batch=2)
    kernel = Kernels(options).compiled(asked)
    tiles = TileMap(read_debug_info(kernel.debug_info), device_layout(asked), kernel.artifact.launch)
    for pixel in (0, 49, 50, 1999, 2000, 3999):
        found = tiles.tile_of(pixel)
        assert found is not None
        assert (tiles.pixels(np.array([found])) == pixel).any()
    assert tiles.tile_of(4000) is None or asked.gemm_m <= 4000


def test_a_strip_does_not_repeat_in_a_row_or_an_image():
    asked = problem(in_extent=(4200, 4201))
    strips = strips_of(node(asked), "integer", 0)
    length = strips.x.shape[1]
    assert length > 1000
    assert 4201 % length
    assert (4200 * 4201) % length


def test_one_scale_for_all_activations_is_refused():
    asked = problem(operand="nvfp4", out="f32", in_channels=64, out_channels=64)
    with pytest.raises(LimitError, match="one scale for all activations"):
        check_layer(node(asked), KERNELS.compiled(asked), sample=1)


def test_a_write_outside_of_the_sample_shows(monkeypatch):
    monkeypatch.setattr(sampled_layer, "sample_ctas", lambda *_: (0,))
    asked = problem(in_extent=(60, 60))
    kernel = Kernels(ScheduleOptions(schedule="reload", store="direct")).compiled(asked)
    stores = r"(st\.global\.v4\.b32 \[%to\+)0(\], .*;)"
    text = edited(kernel.artifact.ptx, stores, r"\g<1>0\2 \g<1>16384\2")  # the same 512 pixels on
    artifact = KernelArtifact(ptx=text, launch=kernel.artifact.launch)
    report = check_layer(node(asked), msgspec.structs.replace(kernel, artifact=artifact), sample=0, modes=("integer",))
    assert not report.ok
    assert report.checks[0].comparison.ok
    assert "outputs that are not theirs" in report.checks[0].fault


@pytest.mark.parametrize(
    ("box", "extent", "length"),
    [((7, 1), (7, 11), 5), ((1, 11), (11, 7), 5), ((13, 1), (9, 10), 13), ((3, 4), (13, 13), 11), ((2, 1), (3, 2), 1)],
)
def test_the_length_of_a_strip_is_prime_and_divides_no_step(box, extent, length):
    """As long as can be: a step is a row, or an image."""
    assert _strip(np.zeros((1, 2, *box)), extent).shape == (2, length)


def test_the_tiles_of_a_ctas_turn_are_those_that_it_writes():
    """In an order that is neither by rows nor by columns."""
    asked = problem(in_extent=(40, 50), out_channels=300, kernel=(1, 1), pad_lo=(0, 0), pad_hi=(0, 0))
    kernel = Kernels(ScheduleOptions(rasterization_order="hilbert")).compiled(asked)
    report = check_layer(node(asked), kernel, sample=2, modes=("integer",))
    assert report.ok, report.checks
    assert 0 < report.checks[0].comparison.count < np.prod(asked.y_shape)
