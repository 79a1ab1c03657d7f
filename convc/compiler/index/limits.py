"""Limits of the hardware on tensor maps, and on the coordinates and offsets that copies are given.

Those of im2col copies over (C, W, H, N) are from the PTX manual (tensor im2col mode) and the CUDA driver API
(``cuTensorMapEncodeIm2col``, ``cuTensorMapEncodeIm2colWide``); the alignment of the innermost coordinate was recorded
on sm_90a hardware. That a kernel's numbers are the right ones is not asked here: see `convc.compiler.plan.validation`.
"""

from __future__ import annotations

from convc.compiler.index.conv import ConvMaps
from convc.compiler.index.lower import translate
from convc.compiler.index.maps import Counterexample, Outcome, Proof
from convc.compiler.index.reuse import ReuseMaps
from convc.ir.arch import SM_100A
from convc.ir.dtypes import BY_NAME

CORNER_LIMITS = SM_100A.limits.im2col_corner
WIDE_CORNER_LIMITS = SM_100A.limits.wide_corner
OFFSET_LIMITS = (0, SM_100A.limits.im2col_offset)
WIDE_OFFSET_LIMIT = SM_100A.limits.wide_offset
STRIDE_LIMITS = (1, SM_100A.limits.tma_element_stride)
MAX_PIXELS = SM_100A.limits.im2col_pixels
MAX_CHANNELS = SM_100A.limits.tma_box


def prove_limits(maps: ConvMaps) -> tuple[Outcome, ...]:
    """The limits of the im2col tensor map and of the coordinates given to the copies."""
    box = maps.box
    tiles = maps.tiles
    element = BY_NAME[maps.problem.operand].bytes
    corners = [
        (f"{which} corner along {axis}", corner)
        for which, pair in (("lower", box.lower), ("upper", box.upper))
        for axis, corner in zip("WH", pair, strict=True)
    ]
    strides = [(f"stride along {axis}", stride) for axis, stride in zip("WH", box.stride, strict=True)]
    low, high = OFFSET_LIMITS
    step_bytes = tiles.channels_per_step * element
    aligned = f"every channel coordinate is a multiple of 16 bytes (elements of {element} bytes)"
    return (
        _within("the corners of the im2col box fit 8 bits", corners, CORNER_LIMITS),
        _within("the element strides are 1 to 8", strides, STRIDE_LIMITS),
        maps.step.prove_in(
            {"off_w": OFFSET_LIMITS, "off_h": OFFSET_LIMITS},
            f"the filter offsets are {low} to {high} (8 bits)",
        ),
        _within(f"a column has at most {MAX_PIXELS} pixels", [("block_m", tiles.block_m)], (1, MAX_PIXELS)),
        _within(
            f"a pixel has at most {MAX_CHANNELS} channels",
            [("channels", tiles.channels_per_step)],
            (1, MAX_CHANNELS),
        ),
        maps.start.prove_in(
            {
                "w": (box.lower[0], box.last[0]),
                "h": (box.lower[1], box.last[1]),
                "n": (0, maps.problem.batch - 1),
            },
            "every copy starts inside the im2col box and inside the batch",
        ),
        Counterexample(aligned, (("block", 1),), f"the copy starts at byte {step_bytes}")
        if step_bytes % 16 and tiles.blocks > 1
        else Counterexample(aligned, (("group", 1),), f"the copy starts at byte {tiles.c_pitch * element}")
        if tiles.c_pitch * element % 16 and maps.problem.groups > 1
        else Proof(aligned, f"c = {translate(maps.pack['c'])}"),
    )


def prove_wide_limits(maps: ReuseMaps) -> tuple[Outcome, ...]:
    """The limits of the tensor map and of the operands of the copies."""
    walk = maps.walk
    outcomes: list[Outcome] = []
    least, most = SM_100A.limits.im2col_corner if maps.stream.boxed else WIDE_CORNER_LIMITS
    for name, value in (("lower", walk.lower), ("upper", walk.upper)):
        claim = f"the {name} corner fits {8 if maps.stream.boxed else 16} bits"
        inside = least <= value <= most
        outcomes.append(Proof(claim, str(value)) if inside else Counterexample(claim, (), str(value)))
    claim = f"offsets of the buffers are at most {WIDE_OFFSET_LIMIT}"
    last = max(buffer.offset for buffer in walk.buffers)
    outcomes.append(
        Proof(claim, f"the largest is {last}") if last <= WIDE_OFFSET_LIMIT else Counterexample(claim, (), str(last))
    )
    end = walk.problem.width + walk.upper
    outcomes.append(
        maps.start.prove_in({"w": (-walk.problem.pad, end - 1)}, "every copy starts before the end of its box")
    )
    return tuple(outcomes)


def _within(claim: str, values: list[tuple[str, int]], limits: tuple[int, int]) -> Outcome:
    for name, value in values:
        if not limits[0] <= value <= limits[1]:
            return Counterexample(claim, (), f"{name} is {value}, allowed are {limits[0]} to {limits[1]}")
    return Proof(claim, ", ".join(f"{name} {value}" for name, value in values))
