"""Results through tensor copies where lanes follow a stream of pixels with places that are none: right, or refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel.test_random_problems import problems
from support.oracles import oracles_agree
from support.records import replace

from convc.compiler.compile import compile_problem
from convc.compiler.index.conditions import met
from convc.compiler.index.formulas import Instance
from convc.compiler.index.geometry import Geometry, geometry_of
from convc.compiler.index.maps import Counterexample, Proof
from convc.compiler.index.reuse import shared_instance
from convc.compiler.index.row_results import ResultBox, consecutive, consecutive_lanes, result_box, walked_lanes
from convc.compiler.options import ScheduleOptions
from convc.errors import PlanError
from convc.ir.epilogue import AddResidual, Relu
from convc.ir.problem import ConvProblem

ROWS = ConvProblem(
    batch=3,
    in_channels=64,
    out_channels=44,
    in_extent=(5, 14),
    kernel=(3, 3),
    pad_lo=(1, 1),
    pad_hi=(1, 1),
    bias=True,
    epilogue=(AddResidual(), Relu()),
)
"""Rows that are longer than those of the output, tiles behind the last image, channels behind the last one."""

STREAMS = {
    "slide, zeros in one stream": {"schedule": "slide", "border": "zero", "rows": "merged"},
    "slide, masks": {"schedule": "slide", "border": "mask", "rows": "outer"},
    "chain": {"schedule": "shift", "shift": "chain", "border": "zero", "rows": "outer"},
    "ashift, masks in one stream": {"schedule": "shift", "shift": "ashift", "border": "mask", "rows": "merged"},
    "windows": {"schedule": "shift", "shift": "windows", "border": "zero"},
}


@pytest.mark.parametrize("stream", STREAMS)
def test_copies_carry_what_lanes_have(stream, assembled):
    residual = "direct" if stream == "slide, masks" else "tma"
    options = ScheduleOptions(store="tma", residual_load=residual, **STREAMS[stream])
    compiled = oracles_agree(ROWS, 5, assembled, options, block_n=48, stages=2)
    boxed = stream.endswith("masks in one stream")
    assert ("scatter4" in compiled.artifact.ptx) is not boxed
    assert "st.global" not in compiled.artifact.ptx
    assert ("ld.global.nc.v4" in compiled.artifact.ptx) == (residual == "direct")


@settings(max_examples=4, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(problems("f16"), st.sampled_from(list(STREAMS.values())), st.integers(0, 2**32 - 1))
def test_oracles_agree(assembled, problem, stream, seed):
    added = replace(problem, epilogue=(AddResidual(),))
    with contextlib.suppress(PlanError):  # not every schedule can run every problem
        oracles_agree(added, seed, assembled, ScheduleOptions(residual_load="tma", **stream))


def shared_of(geometry: Geometry) -> Instance:
    """The derivation with the numbers of a cut."""
    return shared_instance(ROWS, geometry)


def cut(**options) -> Geometry:
    return geometry_of(ROWS, **options)


def box_of(geometry: Geometry) -> ResultBox:
    """The box of a stream that has one."""
    box = result_box(ROWS, geometry)
    assert isinstance(box, ResultBox)
    return box


def test_facts_about_copies_can_be_refuted():
    zeros = cut(merged=True, border="zero")
    assert not consecutive(ROWS, zeros)
    assert isinstance(met(consecutive_lanes(shared_of(zeros))), Counterexample)
    assert isinstance(met(walked_lanes(shared_of(zeros), box_of(zeros))), Proof)
    masked = cut(merged=True, border="mask")
    assert consecutive(ROWS, masked)
    assert isinstance(met(consecutive_lanes(shared_of(masked))), Proof)
    outer = cut(merged=False, border="zero")
    box = box_of(outer)
    assert isinstance(met(walked_lanes(shared_of(outer), box)), Proof)
    for broken in (
        replace(box, columns=box.columns + 1),
        replace(box, rows=ROWS.batch),  # behind the last image the next output row would come
        replace(box, axes=("q", "p", "n")),
    ):
        assert isinstance(met(walked_lanes(shared_of(outer), broken)), Counterexample)


def test_a_stream_with_far_more_rows_than_its_output_has_no_box():
    short = cut(merged=True, border="zero")
    tall = replace(short, stream=replace(short.stream, image_rows=140))
    assert result_box(ROWS, tall) == (
        "the stream has 1 places a row and 135 rows behind those of the output, and the corners of an im2col map go to "
        "127"
    )


def test_fragments_follow_a_stream_of_output_pixels_alone(assembled):
    options = ScheduleOptions(schedule="slide", target="sm_90a", store="tma", border="zero", rows="merged")
    plain = replace(ROWS, epilogue=())
    with pytest.raises(PlanError, match=r"no consecutive output pixels, and sm_90a has no copy that takes each line"):
        compile_problem(plain, options=options)
    unpadded = replace(plain, kernel=(3, 1), pad_lo=(1, 0), pad_hi=(1, 0))
    compiled = oracles_agree(unpadded, 5, assembled, options, block_n=48, stages=2)
    assert compiled.plan.indexing.loads.out.box[1] == 16  # rows of a warp
