"""From the definition of a convolution to the loops of a schedule, one checked rewrite after the other.

    Algorithm 1      n, p, q, k, c, r, s: the definition
    Algorithm 2      tiles for the tensor core; every filter tap loads its own        (schedule `reload`)
    row addresses    one load for all filter columns of a buffer, read at a later row (schedule `slide`)
    Algorithm 3      shared loads, with weights as the first operand                  (schedule `stationary`)
    Algorithm 3.b    shared loads, and the rows move to their lanes                   (schedule `shift`)

The rewrites are checked on the problem itself, by the algebra; and by running the nests, on the problem where it is
small enough, otherwise on a smaller one that keeps what matters: filter, strides, dilation, padding, width, lanes, and
whether tiles end where their loop ends.
"""

from __future__ import annotations

import dataclasses

import msgspec
from msgspec.structs import replace

from convc.compiler.index.conv import ConvMaps
from convc.compiler.index.geometry import geometry_of
from convc.compiler.index.lane_masks import masked_columns, masked_lines
from convc.compiler.index.maps import Counterexample, Outcome
from convc.compiler.index.reuse import ReuseMaps, reuse_maps
from convc.compiler.schedules.all import RELOAD
from convc.compiler.schedules.base import Schedule
from convc.explain.algorithms import MmaTile, RewriteStage, chapters, pixel_tiles
from convc.explain.nests import Nest, plain
from convc.explain.products import POINTS
from convc.explain.rewrites import Step
from convc.ir.problem import ConvProblem


class Algorithm(msgspec.Struct, frozen=True):
    """A nest with a name, and the rewrites that made it from the one before."""

    title: str
    steps: tuple[Step, ...]
    nest: Nest


class Derivation(msgspec.Struct, frozen=True):
    """A chain of algorithms; where a rewrite was refused, it ends there.

    Attributes:
        tried: the problem that the nests were run on.
    """

    schedule: str
    problem: ConvProblem
    tried: ConvProblem
    algorithms: tuple[Algorithm, ...]

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """Outcomes that were refuted, or not decided."""
        return tuple(step.outcome for each in self.algorithms for step in each.steps if not step.ok)


def derive(maps: ReuseMaps, schedule: Schedule, mma: MmaTile) -> Derivation:
    """Derive the loops of a schedule on the stream of `maps`, of one group."""
    maps = replace(maps, problem=maps.problem.one_group)
    masked = bool(masked_columns(maps) or masked_lines(maps))
    full = _chain(maps.problem, chapters(maps, schedule, mma, masked))
    if _quick(full):
        return Derivation(schedule.name, maps.problem, maps.problem, full)
    # The algebra's verdicts stand for the problem itself; the nests are run on a smaller one, cut in the same way.
    problem, tile = smaller(maps.problem, maps.tile.outputs, mma)
    geometry = geometry_of(
        problem,
        merged=maps.stream.merged,
        border=maps.walk.border,
        lanes=maps.tile.lanes,
        windowed=maps.windowed,
        boxed=maps.stream.boxed,
    )
    less = reuse_maps(problem, geometry)
    small = _chain(problem, chapters(less, schedule, tile, masked))
    return Derivation(schedule.name, maps.problem, problem, _joined(full, small))


def derive_reload(maps: ConvMaps) -> Derivation:
    """Derive the loops of a kernel that loads a tile for every filter tap: tiles of all output pixels (n, p, q)."""
    problem = maps.problem.one_group
    lanes = maps.tiles.block_m
    mma = MmaTile(columns=maps.tiles.block_n, channels=maps.tiles.channels_per_step)
    title = "Algorithm 2: reload"
    full = _chain(problem, (RewriteStage(title, pixel_tiles(problem, lanes, mma)),))
    if _quick(full):
        return Derivation(RELOAD.name, problem, problem, full)
    less, tile = smaller(problem, lanes, mma)
    small = _chain(less, (RewriteStage(title, pixel_tiles(less, lanes, tile)),))
    return Derivation(RELOAD.name, problem, less, _joined(full, small))


def smaller(problem: ConvProblem, places: int, mma: MmaTile) -> tuple[ConvProblem, MmaTile]:
    """A problem that is quick to run, with the borders, residues and partly filled tiles of the given one.

    Args:
        places: output pixels of a tile.
    """
    height, width = problem.in_extent
    out_h, out_w = problem.out_extent
    down, across = problem.stride
    # Four output rows have every border; the height loses whole strides, so that it keeps its remainder.
    rows = min(max(0, out_h - 4), (height - 1) // down)
    # The width loses whole tiles of output pixels: what is left is at least two tiles, and ends like the given one.
    spans = max(0, (width - 2 * places * across) // (places * across))
    extent = (height - rows * down, width - spans * places * across)
    # Enough images that a tile crosses from one to the next.
    pixels = max(1, out_w - spans * places)
    batch = min(problem.batch, max(2, 1 + -(-places // pixels)))
    in_channels, channels = _less(problem.in_channels, mma.channels)
    out_channels, columns = _less(problem.out_channels, mma.columns)
    less = dataclasses.replace(
        problem, batch=batch, in_extent=extent, in_channels=in_channels, out_channels=out_channels
    )
    return less, MmaTile(columns=columns, channels=channels)


def _less(extent: int, size: int) -> tuple[int, int]:
    """(extent, tile) with as many tiles, up to two, the last one filled like the given one's."""
    full, rest = divmod(extent, size)
    if not rest:
        return min(full, 2), 1
    return (3, 2) if full else (1, 2)


def _chain(problem: ConvProblem, chapters: tuple[RewriteStage, ...]) -> tuple[Algorithm, ...]:
    """Apply the rewrites one after the other, up to the first that is refused."""
    nest = plain(problem)
    found = [Algorithm("Algorithm 1: the definition", (), nest)]
    for chapter in chapters:
        steps: list[Step] = []
        for rewrite in chapter.rewrites:
            steps.append(rewrite(nest))
            nest = steps[-1].nest
            if isinstance(steps[-1].outcome, Counterexample):
                return (*found, Algorithm(chapter.title, tuple(steps), nest))
        found.append(Algorithm(chapter.title, tuple(steps), nest))
    return tuple(found)


def _quick(algorithms: tuple[Algorithm, ...]) -> bool:
    """Whether every nest was small enough to run."""
    return all(step.nest.points <= POINTS for each in algorithms for step in each.steps)


def _joined(full: tuple[Algorithm, ...], small: tuple[Algorithm, ...]) -> tuple[Algorithm, ...]:
    """Steps decided by the algebra on the problem itself and by running the smaller one, up to the first refused."""
    found: list[Algorithm] = []
    for one, two in zip(full, small, strict=False):  # either chain may end early, at what was refused
        steps = tuple(map(_both, one.steps, two.steps))
        found.append(replace(one, steps=steps, nest=steps[-1].nest if steps else one.nest))
    return tuple(found)


def _both(full: Step, small: Step) -> Step:
    """The step on the problem itself, refused where it failed there or on the smaller one."""
    if isinstance(full.outcome, Counterexample) or not isinstance(small.outcome, Counterexample):
        return replace(full, ran=small.ran and f"{small.ran}, on a smaller problem")
    return replace(full, outcome=small.outcome)
