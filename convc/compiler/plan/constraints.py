"""The rules that a plan keeps: each is one function that answers None or a sentence with the numbers.

Rules about the problem hold whatever the tiling; if one is broken no kernel exists. Rules about a tiling only take that
candidate out of the race. Each rule names the limit in `convc.ir.arch` and the reason in the hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from convc.compiler.index.traffic import Bytes
from convc.compiler.plan.loads import activation_axes, corners, dims_and_strides
from convc.compiler.plan.records import Rejection, Tiling
from convc.compiler.plan.residency import MemoryNeed, beside
from convc.compiler.plan.work import stored_columns
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.arch import Arch
from convc.ir.problem import AXIS_NAMES


class TileGrid(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The tiles of a problem on a target, and the CTAs that make them: what a pace depends on besides their work.

    Attributes:
        layout, arch: the problem and the target.
        grid: tiles of output pixels and of output channels.
        ctas: persistent CTAs; None: each tile has its own.
        parts: CTAs that share the K loop of a tile.
        traffic: bytes of memory traffic, where the rasterization order is chosen; None: as `memory_bytes` expects them.
        size: what the launch reads and writes, where it has been counted.
    """

    layout: DeviceLayout
    arch: Arch
    grid: tuple[int, int]
    ctas: int | None = None
    parts: int = 1
    traffic: int | None = None
    size: Bytes | None = None


class TiledProblem(TileGrid, frozen=True, kw_only=True, gc=False):
    """A tiling of a problem on a target, with what follows from it.

    Attributes:
        tiling, need: one piece of work, and the memory of a CTA that does it.
    """

    tiling: Tiling
    need: MemoryNeed


def persistent_ctas(tiles: int, most: int, together: int = 1) -> int:
    """CTAs that make so many tiles: as few as need no more waves than `most` CTAs, whole groups of `together`."""
    groups = tiles // together
    waves = -(-groups // max(1, most // together))
    return -(-groups // waves) * together


def spatial_axes(layout: DeviceLayout, arch: Arch) -> str | None:
    """The index maps, and the 4-D tensor map, are for images (H, W)."""
    if layout.problem.rank != 2:
        return f"{layout.problem.rank} spatial axes; a kernel is planned for two, H and W"
    return None


def tensor_map_corners(layout: DeviceLayout, arch: Arch) -> str | None:
    """Bounding-box corners of a 4-D im2col map are signed 8-bit numbers (PTX, tensor maps; CUDA driver)."""
    low, high = arch.limits.im2col_corner
    limit = f"is outside {low}..{high}, the limit of a 4-D im2col tensor map"
    problem = layout.walked
    lower, upper = corners(layout)
    for i, axis in enumerate(AXIS_NAMES[problem.rank]):
        if not low <= lower[i] <= high:
            return f"pad {problem.pad_lo[i]} on {axis}: the lower corner {lower[i]} {limit}"
        if not low <= upper[i] <= high:
            filters = f"a filter of {problem.span[i]} pixels"
            return f"pad {problem.pad_hi[i]} and {filters} on {axis}: the upper corner {upper[i]} {limit}"
    return None


def tensor_map_offsets(layout: DeviceLayout, arch: Arch) -> str | None:
    """The offset of a filter tap is an unsigned 8-bit number (PTX, ``cp.async.bulk.tensor`` with 4-D im2col maps)."""
    limit = arch.limits.im2col_offset
    for axis, span in zip(AXIS_NAMES[layout.walked.rank], layout.walked.span, strict=True):
        if span - 1 > limit:
            return (
                f"a filter of {span} pixels (dilation included) on {axis}: the offset {span - 1} of its last tap "
                f"is above {limit}, the limit of a 4-D im2col copy"
            )
    return None


def tensor_map_steps(layout: DeviceLayout, arch: Arch) -> str | None:
    """Element strides of a tensor map are 1 to 8 (CUDA driver, ``cuTensorMapEncodeIm2col``)."""
    for axis, stride in zip(AXIS_NAMES[layout.walked.rank], layout.walked.stride, strict=True):
        if stride > arch.limits.tma_element_stride:
            return (
                f"stride {stride} on {axis} is above {arch.limits.tma_element_stride}, the largest step of a tensor map"
            )
    return None


def tensor_map_extents(layout: DeviceLayout, arch: Arch) -> str | None:
    """Extents and byte strides of tensor maps are limited (CUDA driver, ``cuTensorMapEncodeTiled``)."""
    filters = dims_and_strides(layout.filter)
    for name, (dims, strides) in (("activation", activation_axes(layout)), ("filter", filters)):
        if max(dims) > arch.limits.tma_extent:
            return f"the {name} buffer has an extent of {max(dims)}; a tensor map takes up to {arch.limits.tma_extent}"
        if max(strides) >= arch.limits.tma_stride_bytes:
            return (
                f"the {name} buffer has a stride of {max(strides)} bytes; "
                f"a tensor map takes less than {arch.limits.tma_stride_bytes}"
            )
    return None


def scale_factors(layout: DeviceLayout, arch: Arch) -> str | None:
    """``tcgen05.mma`` with ``.block_scale`` has no disable-output-lane, no ``.ashift`` and no ``.ws`` (PTX manual)."""
    if layout.blocks is None:
        return None
    return (
        f"{layout.blocks.name} has scale factors, and an MMA with them can neither leave out output lanes nor move "
        "rows, nor hold the weights"
    )


def mma_shape(tiled: TiledProblem) -> str | None:
    """With M = 128, N is a multiple of 16 up to 256 (PTX, ``tcgen05.mma`` shapes)."""
    limits = tiled.arch.limits
    n = tiled.tiling.block_n
    if not 0 < n <= limits.mma_n_max or n % limits.mma_n_step:
        return f"{n} columns: an MMA with 128 rows takes multiples of {limits.mma_n_step} up to {limits.mma_n_max}"
    return None


def stored_pieces(tiled: TiledProblem) -> str | None:
    """A thread of the epilogue stores 16 bytes at a time."""
    n = tiled.tiling.block_n
    lanes = tiled.arch.limits.row_lanes
    least = stored_columns(tiled.layout, tiled.arch)
    if n % least:
        return f"{n} columns: {lanes} threads that store 16 bytes each have multiples of {least}"
    return None


def group_tiles(tiled: TiledProblem) -> str | None:
    """A tile of output channels is within one group, as it reads the input channels of one."""
    problem = tiled.layout.problem
    n = tiled.tiling.block_n
    own = problem.out_channels // problem.groups
    if problem.groups > 1 and own % n:
        return f"{n} columns do not divide the {own} output channels of a group"
    return None


def ring_stages(tiled: TiledProblem) -> str | None:
    """A ring has at least one stage."""
    if tiled.tiling.b_stages < 1:
        return f"{tiled.tiling.b_stages} stages: the operand tiles need at least one"
    return None


def tensor_map_box(tiled: TiledProblem) -> str | None:
    """A box has at most 256 elements along each axis (CUDA driver, ``cuTensorMapEncodeTiled``)."""
    limit = tiled.arch.limits.tma_box
    channels = tiled.tiling.row_bytes // tiled.layout.problem.operand_dtype.bytes
    for what, extent in (("channels", channels), ("filter rows", tiled.tiling.block_n)):
        if extent > limit:
            return f"a box of {extent} {what}; a tensor map takes up to {limit}"
    return None


def shared_memory(tiled: TiledProblem) -> str | None:
    """Tiles and barriers fit the dynamic shared memory of a CTA."""
    need = tiled.need.smem_bytes
    limit = tiled.arch.limits.shared_bytes
    if need > limit:
        return f"needs {need} bytes of shared memory, a CTA has {limit}"
    return None


def tensor_memory(tiled: TiledProblem) -> str | None:
    """The accumulator fits the columns of tensor memory."""
    need = tiled.need.tmem_columns
    limit = tiled.arch.limits.tmem_columns
    if need > limit:
        return f"needs {need} columns of tensor memory, a CTA has {limit}"
    return None


def resident_columns(tiled: TiledProblem) -> str | None:
    """The CTAs that fit on an SM by shared memory, threads and registers have enough columns of tensor memory.

    One that waits for columns has begun; the CTAs of a cluster wait for each other, and clusters may then wait in a
    circle (`convc.compiler.plan.residency`).
    """
    columns = tiled.need.tmem_columns
    held = beside(tiled.need, tiled.arch)
    limit = tiled.arch.limits.tmem_columns
    if held * columns > limit:
        return f"an SM holds {held} CTAs with {columns} columns of tensor memory each, and has {limit}"
    return None


def grid(tiled: TiledProblem) -> str | None:
    """The grid keeps the limits of a launch (CUDA programming guide, compute capabilities)."""
    for axis, tiles, limit in zip("xy", tiled.grid, (tiled.arch.limits.grid_x, tiled.arch.limits.grid_y), strict=True):
        if tiles > limit:
            return f"{tiles} tiles along grid axis {axis}, a launch takes up to {limit}"
    return None


ProblemRule = Callable[[DeviceLayout, Arch], str | None]
TilingRule = Callable[[TiledProblem], str | None]

PROBLEM_RULES: tuple[ProblemRule, ...] = (
    tensor_map_corners,
    tensor_map_offsets,
    tensor_map_steps,
    tensor_map_extents,
)
WALK_RULES: tuple[ProblemRule, ...] = (scale_factors, tensor_map_steps, tensor_map_extents)
"""Rules about the problem for schedules that walk along image rows; their corners and offsets are proved as claims."""
TILING_RULES: tuple[TilingRule, ...] = (
    mma_shape,
    stored_pieces,
    group_tiles,
    ring_stages,
    tensor_map_box,
    shared_memory,
    tensor_memory,
    resident_columns,
    grid,
)


def check_problem(
    layout: DeviceLayout, arch: Arch, rules: Sequence[ProblemRule] = PROBLEM_RULES
) -> tuple[Rejection, ...]:
    """Every rule that the problem breaks whatever the tiling; only the first if it has no images."""
    if (reason := spatial_axes(layout, arch)) is not None:
        return (Rejection(rule="spatial_axes", reason=reason),)
    reasons = ((rule.__name__, rule(layout, arch)) for rule in rules)
    return tuple(Rejection(rule=name, reason=reason) for name, reason in reasons if reason is not None)


def check_tiling(tiled: TiledProblem, rules: Sequence[TilingRule] = TILING_RULES) -> Rejection | None:
    """The first rule that a tiling breaks."""
    for rule in rules:
        reason = rule(tiled)
        if reason is not None:
            return Rejection(rule=rule.__name__, reason=reason, tiling=tiled.tiling)
    return None
