"""Translation validation: the numbers in a kernel are those that its theorems speak of.

Every number that a kernel computes about positions, its tensor maps, its grid and the trip counts of its loops are held
against what they mean for the problem (`convc.compiler.plan.meanings`). Equality of index expressions is decided by isl
for all points at once. What is found is a mistake of convc and not of the user: no schedule is tried in place of this
one, and no kernel is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from convc.compiler.index.geometry import Geometry
from convc.compiler.index.maps import Proof
from convc.compiler.index.presburger import apart
from convc.compiler.index.row_stream import WINDOW
from convc.compiler.index.row_walk import Tap
from convc.compiler.plan.coordinates import Coordinate, Coordinates, moved
from convc.compiler.plan.meanings import COLUMN, Meaning, common, of_rows, of_taps, sizes_meant
from convc.compiler.plan.names import RANK
from convc.compiler.plan.offer import Candidate
from convc.compiler.plan.records import Indexing
from convc.compiler.plan.summed import spans, summed_counts, summed_meanings
from convc.errors import DerivationError
from convc.ir.expr import Interval, evaluate
from convc.ir.problem import ConvProblem

Count = tuple[str, int, int]
"""A number by its name, what it is, and what it has to be."""


def validated(candidate: Candidate, indexing: Indexing, *, transposed: bool) -> Indexing:
    """Say of each number of a kernel, in its derivation, on which theorem it rests.

    Args:
        candidate, indexing: the kernel: its tiles, and its numbers.
        transposed: whether its lanes are output channels, so that none is masked.

    Raises:
        DerivationError: a number is another one; the message has its theorem, where it fails, and both numbers.
    """
    layout = candidate.tiled.layout
    for name, found, wanted in _counts(candidate, indexing):
        if found != wanted:
            raise wrong_number(layout.problem, f"{name} is {found}, and the problem needs {wanted}")
    meanings = list(_meanings(candidate, masks=not transposed))
    numbers = [(each, _number(layout.problem, indexing, each)) for each in meanings]
    if transposed:  # a lane of the accumulator is an output channel there, and elsewhere a lane of the copy
        numbers = [(x, moved(number, lane=COLUMN) if x.name == "k" else number) for x, number in numbers]
    ranges = _ranges(candidate)
    asked = [(meaning, number.value) for meaning, number in numbers if number.value != meaning.value]
    found = apart(ranges, [(value, meaning.value) for meaning, value in asked])
    if found is not None:
        which, point = found
        meaning, value = asked[which]
        read = value.variables() | meaning.value.variables()
        at = ", ".join(f"{name} = {number}" for name, number in point.items() if name in read)
        there = f"{meaning.name} = {evaluate(value, point)} at {at or 'all points'}"
        why = f"{there}, and its meaning is {evaluate(meaning.value, point)}: {meaning.value}"
        raise wrong_number(layout.problem, why, meaning.theorem)
    said = (Proof(f"{each.name} = {number.value}", "", each.theorem) for each, number in numbers)
    return replace(
        indexing,
        derivation=(*indexing.derivation, *map(str, said)),
        coordinates=_with_theorems(indexing.coordinates, meanings),
    )


def _meanings(candidate: Candidate, *, masks: bool) -> Iterator[Meaning]:
    """What the numbers of a kernel mean; masks: whether its lanes may be masked."""
    layout = candidate.tiled.layout
    tiling = candidate.tiled.tiling
    if layout.summed:
        yield from summed_meanings(layout, tiling, candidate.pipeline)
        return
    yield from common(layout, tiling, candidate.pipeline)
    if candidate.geometry is None:
        yield from of_taps(layout, tiling)
    else:
        yield from of_rows(layout, candidate.geometry, masks=masks)


def _counts(candidate: Candidate, indexing: Indexing) -> Iterator[Count]:
    tiled = candidate.tiled
    if tiled.layout.summed:
        return summed_counts(tiled.layout, tiled.tiling, candidate.pipeline, tiled.grid, indexing)
    return counts(candidate, indexing)


def _with_theorems(coordinates: Coordinates, meanings: Iterable[Meaning]) -> Coordinates:
    found = {each.name: replace(getattr(coordinates, each.name), theorem=each.theorem) for each in meanings}
    return replace(coordinates, **found)


def wrong_number(problem: ConvProblem, why: str, theorem: str = "") -> DerivationError:
    """Make the error that says which number is wrong, and on which theorem it should rest."""
    by = f' (theorem "{theorem}")' if theorem else ""
    return DerivationError(
        f"a number of the kernel is not what it means{by}: {why}",
        where=f"convolution {problem.name!r}",
        hint="this is a mistake of convc: please report it with this message",
    )


def _number(problem: ConvProblem, indexing: Indexing, meaning: Meaning) -> Coordinate:
    found: Coordinate | None = getattr(indexing.coordinates, meaning.name)
    if found is None:
        raise wrong_number(problem, f"the kernel has no {meaning.name}", meaning.theorem)
    return found


def _ranges(candidate: Candidate) -> dict[str, Interval]:
    """First and last value of each variable."""
    tiled = candidate.tiled
    problem = tiled.layout.problem
    tiling = tiled.tiling
    extents = {
        "tile_m": tiled.grid[0],
        "tile_n": tiled.grid[1],
        "r": problem.kernel[0],
        "s": problem.kernel[1],
        "block": candidate.pipeline.blocks,
        "lane": tiling.block_m,
        "column": tiling.block_n,
        "window": _windows(candidate),
        RANK: tiling.ctas,
        "m": problem.gemm_m,
        "k": tiled.layout.k_pitch,
    }
    return {name: (0, extent - 1) for name, extent in extents.items()}


def _windows(candidate: Candidate) -> int:
    """Windows of a tile; where pixels are summed, spans."""
    tiling = candidate.tiled.tiling
    if candidate.tiled.layout.summed:
        return spans(candidate.tiled.layout, max(tiling.block_m, tiling.block_n))
    return tiling.block_m // WINDOW or 1


def counts(candidate: Candidate, indexing: Indexing) -> Iterator[Count]:
    """Trip counts, tiles, limits and corners: numbers that no formula has as a coordinate."""
    tiled = candidate.tiled
    layout = tiled.layout
    tiling = tiled.tiling
    pipeline = candidate.pipeline
    problem = layout.problem
    yield "trip count of the loop over filter rows", pipeline.taps[0], problem.kernel[0]
    yield "trip count of the loops over filter columns", pipeline.taps[1], problem.kernel[1]
    yield "trip count of the loop over channel blocks", pipeline.blocks, -(-layout.c_pitch // pipeline.channels)
    tiles_n = -(-problem.out_channels // tiling.block_n)
    yield "tiles of output channels", tiled.grid[1], -(-tiles_n // tiling.multicast[1]) * tiling.multicast[1]
    whole = tiled.grid[1] * tiling.block_n <= layout.k_pitch
    yield "end of the output channels", indexing.channel_limit or layout.k_pitch, layout.k_pitch
    if indexing.channel_limit is None:
        yield "whether all tiles are full of output channels", int(whole), 1
    if indexing.row_limit is not None:
        yield "end of the output pixels", indexing.row_limit, problem.gemm_m
    yield "lower corner along W of the box of activations", indexing.loads.a.lower[0], _lower(candidate)
    yield from _steps(candidate, indexing)
    if candidate.geometry is None:
        reach = tiled.grid[0] * tiling.block_m
        yield "output pixels that tiles reach", min(reach, problem.gemm_m), problem.gemm_m
        if indexing.row_limit is None:
            yield "output pixels of full tiles", reach, problem.gemm_m
    else:
        yield from _of_walk(problem, candidate.geometry)


def _lower(candidate: Candidate) -> int:
    """The first pixel of a row of the box."""
    problem = candidate.tiled.layout.problem
    lead = 0 if candidate.geometry is None else candidate.geometry.walk.lead
    return problem.stride[1] * lead - problem.pad_lo[1]


def _steps(candidate: Candidate, indexing: Indexing) -> Iterator[Count]:
    """The box of activations: pixels apart, and how many positions a row and an image have."""
    problem = candidate.tiled.layout.problem
    geometry = candidate.geometry
    a = indexing.loads.a
    wanted = problem.out_extent[::-1] if geometry is None else (geometry.walk.period, geometry.stream.image_rows)
    boxed = geometry is None or geometry.stream.boxed
    for axis, name in enumerate("WH" if boxed else "W"):
        stride = a.element_strides[1 + axis]
        yield f"stride along {name} of the box of activations", stride, problem.stride[1 - axis]
        positions = (a.dims[1 + axis] + a.upper[axis] - a.lower[axis] - 1) // stride + 1
        yield f"positions along {name} of the box of activations", positions, wanted[axis]
    if boxed:
        yield "lower corner along H of the box of activations", a.lower[1], -problem.pad_lo[0]
    elif geometry is not None and geometry.stream.merged:
        yield "image rows from one row of the stream to the next", a.element_strides[2], problem.stride[0]


def _of_walk(problem: ConvProblem, geometry: Geometry) -> Iterator[Count]:
    """The buffers of a walk: each filter column once, as many lanes on as bring it to the pixels that it needs."""
    stride = problem.stride[1]
    dilation = problem.dilation[1]
    columns = [tap.s for buffer in geometry.walk.buffers for tap in buffer.taps]
    yield "filter columns of all buffers", len(columns), problem.kernel[1]
    yield "different ones of them", len({s for s in columns if 0 <= s < problem.kernel[1]}), problem.kernel[1]
    for buffer in geometry.walk.buffers:
        yield "offset of a buffer", buffer.offset, buffer.taps[0].s * dilation
        for tap in buffer.taps:
            yield f"pixels to filter column {tap.s}", buffer.offset + tap.lanes * stride, tap.s * dilation
            yield f"whether filter column {tap.s} reads the image as said", int(_reads(problem, tap)), 1
    yield (
        "whether rows of the filter leave lanes out",
        int(geometry.stream.masked),
        int(_leaves_images(problem, geometry)),
    )
    streams = 1 if geometry.stream.merged else problem.out_extent[0]
    yield "streams of output rows", geometry.stream.streams, streams
    yield "tiles of all streams", geometry.all_tiles, streams * geometry.tiles + geometry.spare
    last = (problem.batch - 1, problem.out_extent[0] - 1) if geometry.stream.merged else (0, problem.batch - 1)
    place = (last[0] * geometry.stream.image_rows + last[1]) * geometry.walk.period + problem.out_extent[1] - 1
    yield "last place of a stream that its tiles reach", min(geometry.tiles * geometry.tile.outputs - 1, place), place


def _leaves_images(problem: ConvProblem, geometry: Geometry) -> bool:
    """Whether a filter row of several images in one stream reads above or below its own."""
    stream = geometry.stream
    if not stream.merged or stream.boxed or problem.batch == 1:
        return False
    first = -problem.pad_lo[0]
    last = first + (problem.out_extent[0] - 1) * problem.stride[0] + (problem.kernel[0] - 1) * problem.dilation[0]
    return first < 0 or last >= problem.in_extent[0]


def _reads(problem: ConvProblem, tap: Tap) -> bool:
    """Whether the outputs whose pixel lies in the image, at a filter column, are those that the walk names."""
    first, last = tap.inside
    outputs = problem.out_extent[1]
    width = problem.in_extent[1]
    stride = problem.stride[1]
    begins = tap.s * problem.dilation[1] - problem.pad_lo[1]

    def real(q: int) -> bool:
        return 0 <= q < outputs and 0 <= q * stride + begins < width

    if first > last:
        return not real(max(0, -(begins // stride)))
    return real(first) and real(last) and not real(first - 1) and not real(last + 1)


def check_sizes(problem: ConvProblem, sizes: Mapping[str, int], wanted: Mapping[str, int]) -> None:
    """Hold the numbers that stand for sizes in formulas and conditions against what they mean.

    Args:
        problem: for the message.
        sizes: the numbers, by the names of their sizes.
        wanted: what they are (`convc.compiler.plan.meanings.sizes_meant`).

    Raises:
        DerivationError: one is another number, or has no meaning.
    """
    for name, number in sizes.items():
        if name not in wanted:
            raise wrong_number(problem, f"size {name} = {number} has no meaning in convc.compiler.plan.meanings")
        if number != wanted[name]:
            raise wrong_number(problem, f"size {name} is {number}, and the problem needs {wanted[name]}")


def check_candidate(candidate: Candidate, sizes: Mapping[str, int]) -> None:
    """Hold the numbers of a candidate, by the names of their sizes, against what they mean."""
    tiled = candidate.tiled
    wanted = sizes_meant(tiled.layout, tiled.tiling, candidate.pipeline, tiled.grid[0], candidate.geometry)
    check_sizes(tiled.layout.problem, sizes, wanted)
