"""Limits of the hardware on tensor maps, and on the coordinates and offsets that copies are given.

Those of im2col copies over (C, W, H, N) are from the PTX manual (tensor im2col mode) and the CUDA driver API
(``cuTensorMapEncodeIm2col``, ``cuTensorMapEncodeIm2colWide``); the alignment of the innermost coordinate was recorded
on sm_90a hardware. That a kernel's numbers are the right ones is not asked here: see `convc.compiler.plan.validation`.
"""

from __future__ import annotations

from convc.compiler.index.formulas import Instance
from convc.compiler.index.maps import Counterexample, Kept, Outcome, Proof
from convc.compiler.index.reuse import ReuseMaps
from convc.ir.arch import SM_100A
from convc.ir.tensormap import TensorMap

CORNER_LIMITS = SM_100A.limits.im2col_corner
WIDE_CORNER_LIMITS = SM_100A.limits.wide_corner
OFFSET_LIMITS = (0, SM_100A.limits.im2col_offset)
WIDE_OFFSET_LIMIT = SM_100A.limits.wide_offset
STRIDE_LIMITS = (1, SM_100A.limits.tma_element_stride)
MAX_PIXELS = SM_100A.limits.im2col_pixels
MAX_CHANNELS = SM_100A.limits.tma_box


def prove_limits(reload: Instance, a: TensorMap) -> tuple[Outcome, ...]:
    """The limits of the im2col tensor map over activations, and of the coordinates given to its copies.

    Args:
        reload: the tiles (`convc.compiler.index.conv.tiled`). a: the map.
    """
    corners = [
        (f"{which} corner along {axis}", corner)
        for which, pair in (("lower", a.lower), ("upper", a.upper))
        for axis, corner in zip("WH", pair, strict=True)
    ]
    strides = [(f"stride along {axis}", stride) for axis, stride in zip("WH", a.element_strides[1:3], strict=True)]
    offsets = {"off_w": OFFSET_LIMITS, "off_h": OFFSET_LIMITS}
    inside = {
        axis: (lower, extent + upper - 1)
        for axis, lower, extent, upper in zip("wh", a.lower, a.dims[1:3], a.upper, strict=True)
    }
    inside["n"] = 0, reload.sizes["N"] - 1
    channels = reload.sizes["BK"]
    return (
        _within("the corners of the im2col box fit 8 bits", corners, CORNER_LIMITS),
        _within("the element strides are 1 to 8", strides, STRIDE_LIMITS),
        _kept(reload.map("step").prove_in(offsets, "the filter offsets are {} to {} (8 bits)".format(*OFFSET_LIMITS))),
        _within(f"a column has at most {MAX_PIXELS} pixels", [("block_m", reload.sizes["BM"])], (1, MAX_PIXELS)),
        _within(f"a pixel has at most {MAX_CHANNELS} channels", [("channels", channels)], (1, MAX_CHANNELS)),
        _kept(reload.map("start").prove_in(inside, "every copy starts inside the im2col box and inside the batch")),
        _aligned(reload, a.element_bytes),
    )


def _aligned(reload: Instance, element: int) -> Outcome:
    claim = f"every channel coordinate is a multiple of 16 bytes (elements of {element} bytes)"
    sizes = reload.sizes
    for axis, count, elements in (
        ("block", sizes["BLOCKS"], sizes["BK"]),
        ("group", sizes["K"] // sizes["K_g"], sizes["C_PITCH"]),
    ):
        if elements * element % 16 and count > 1:
            return Counterexample(claim, ((axis, 1),), f"the copy starts at byte {elements * element}")
    return Kept(claim, f"c = {reload.map('pack')['c']}")


def prove_wide_limits(maps: ReuseMaps) -> tuple[Outcome, ...]:
    """The limits of the tensor map and of the operands of the copies."""
    walk = maps.walk
    corner = CORNER_LIMITS if maps.stream.boxed else WIDE_CORNER_LIMITS
    corners = [("lower corner", walk.lower), ("upper corner", walk.upper)]
    offsets = [("offset of a buffer", buffer.offset) for buffer in walk.buffers]
    inside = {"w": (-walk.problem.pad, walk.problem.width + walk.upper - 1)}
    return (
        _within(f"the corners of the box fit {8 if maps.stream.boxed else 16} bits", corners, corner),
        _within(f"offsets of the buffers are at most {WIDE_OFFSET_LIMIT}", offsets, (0, WIDE_OFFSET_LIMIT)),
        _kept(maps.start.prove_in(inside, "every copy starts before the end of its box")),
    )


def _within(claim: str, values: list[tuple[str, int]], limits: tuple[int, int]) -> Outcome:
    for name, value in values:
        if not limits[0] <= value <= limits[1]:
            return Counterexample(claim, (), f"{name} is {value}, allowed are {limits[0]} to {limits[1]}")
    return Kept(claim, ", ".join(f"{name} {value}" for name, value in values))


def _kept(outcome: Outcome) -> Outcome:
    return Kept(outcome.claim, outcome.how) if isinstance(outcome, Proof) else outcome
