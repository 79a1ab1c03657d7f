"""One operand of many products that wait: its distinct tiles, and the gather that makes matrices of them.

CTAs whose copies started at the same coordinates have the same tile, and a convolution has few of them: as many of A as
tiles of pixels, as many of B as tiles of channels. Every step of the joint K adds the same number of units to each row
of a tile, so that a tile is one gather from the tensor, of runs of units as long as their alignment allows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from convc.machine.base.values import distinct_columns
from convc.machine.lazy.rows import TensorRows
from convc.machine.lazy.widen import Workspace, widened, widened_source
from convc.machine.tensor_core.mma import LaneMask
from convc.machine.tma.cache import Walk
from convc.machine.tma.load import TensorLoader

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Group:
    """Steps that read the same rows.

    Attributes:
        base: int64 (tiles, rows), where each row of each tile is, in pieces as long as can be moved at once.
        steps: which steps they are, in the order of K.
        shifts: int64 (steps, 1), how far behind ``base`` each of them reads.
    """

    base: np.ndarray
    steps: slice | np.ndarray
    shifts: np.ndarray


class OperandTiles:
    """The tiles of one operand over some steps.

    Args:
        steps: the rows of each step, all of one loader and of as many units.
        masks: for each step, the rows of A that are written (all others count as zero); None: every one.
        ctas: of the cohort.

    Attributes:
        first: int64 (tiles,), a CTA that has each distinct tile. which: int64 (ctas,), the tile of each CTA.
        count: of the steps. rows: of a tile. run: bytes of a row in each step.
        step: bytes that places are counted in: 16, or those of a run where each begins at a multiple of it.
        cuts: bytes at the end of each run that are fill, by the steps that have such.
    """

    def __init__(self, steps: Sequence[TensorRows], masks: Sequence[LaneMask | None], ctas: int) -> None:
        self.steps = steps
        self.count = len(steps)
        self.ctas = ctas
        self.loader = steps[0].regions[0].loader
        self.rows = len(steps[0].rows)
        self.run = 16 * steps[0].units
        self.first, self.which = self._distinct(masks)
        self._joints: dict[tuple[int | bytes, ...], np.ndarray] = {}
        self.groups, self.step = self._groups()
        self._places: np.ndarray | None = None
        self.cuts = {n: step.cut for n, step in enumerate(steps) if step.cut}
        self.outside = [self._outside(step, mask) for step, mask in zip(steps, masks, strict=True)]

    def _distinct(self, masks: Sequence[LaneMask | None]) -> tuple[np.ndarray, np.ndarray]:
        """CTAs differ in a tile where a walk or a mask of theirs differs."""
        numbers: list[np.ndarray] = []
        everyone = np.arange(self.ctas)
        for walk in {id(r.walk): r.walk for step in self.steps for r in step.regions}.values():
            if len(walk.base) > 1:
                if walk.members is None:
                    return everyone, everyone
                numbers.append(walk.members)
        for mask in {id(mask): mask for mask in masks if mask is not None}.values():
            if len(mask.enabled) > 1:
                kinds: dict[bytes, int] = {}
                lines = [line.tobytes() for line in mask.enabled]
                numbers.append(np.array([kinds.setdefault(line, len(kinds)) for line in lines]))
        if not numbers:
            return np.zeros(1, np.int64), np.zeros(self.ctas, np.int64)
        return distinct_columns(np.stack(numbers))

    def _groups(self) -> tuple[list[_Group], int]:
        """Steps by the rows that they read, and the bytes that their places are counted in."""
        kinds: dict[tuple[Ids, int], list[int]] = {}
        for number, step in enumerate(self.steps):
            kinds.setdefault((tuple([id(r.walk) for r in step.regions]), id(step.rows)), []).append(number)
        found: list[tuple[list[int], np.ndarray, np.ndarray]] = []
        bits = 0
        walks: dict[int, Walk] = {}
        for numbers in kinds.values():
            step = self.steps[numbers[0]]
            walks.update({id(region.walk): region.walk for region in step.regions})
            base = self._joined([r.walk.base for r in step.regions], step)
            shifts = np.array([self.steps[n].regions[0].shift + self.steps[n].first for n in numbers], np.int64)
            found.append((numbers, base, shifts))
            bits |= int(np.bitwise_or.reduce(shifts))
        for walk in walks.values():
            bits |= walk.bits()
        units = self.steps[0].units
        power = units.bit_length() - 1
        if units != 1 << power or bits & (units - 1) or self.loader.source.size < units:
            power = 0
        groups: list[_Group] = []
        for numbers, base, shifts in found:
            run = numbers[-1] - numbers[0] == len(numbers) - 1
            where = slice(numbers[0], numbers[-1] + 1) if run else np.array(numbers)
            groups.append(_Group(base >> power if power else base, where, (shifts >> power)[:, None]))
        return groups, 16 << power

    def narrowed(self, size: int) -> OperandTiles:
        """The first ``size`` bytes of each run alone."""
        found = copy(self)
        if self.step != 16:
            units = self.step // 16
            found.groups = [_Group(group.base * units, group.steps, group.shifts * units) for group in self.groups]
            found.step = 16
        found.run = size
        found.cuts = {step: cut + size - self.run for step, cut in self.cuts.items() if cut + size > self.run}
        return found

    def apart(self, step: int) -> list[OperandTiles]:
        """Every so many tiles, from each of the first ones on, without the CTAs that have them."""
        if step == 1:
            return [self]
        of_tile = self.rows * self.count
        tile, place = np.divmod(self._places_outside(), of_tile)
        parts: list[OperandTiles] = []
        for first in range(step):
            part = slice(first, None, step)
            found = copy(self)
            found.first = self.first[part]
            found.which = self.which[:0]
            found.groups = [_Group(group.base[part], group.steps, group.shifts) for group in self.groups]
            tables = {id(table): table[part] for table in self.outside if table is not None}
            found.outside = [None if table is None else tables[id(table)] for table in self.outside]
            if len(tile):
                own = tile % step == first
                found._places = tile[own] // step * of_tile + place[own]
            parts.append(found)
        return parts

    def over(self, loader: TensorLoader) -> OperandTiles:
        """Take the tiles from another tensor of the same map."""
        found = copy(self)
        found.loader = loader
        found.steps = ()
        return found

    def _joined(self, tables: list[np.ndarray], step: TensorRows) -> np.ndarray:
        """For each tile, tables (copies, rows) of the regions of a step, end to end, of the rows that it reads."""
        parts: list[np.ndarray] = []
        for table, region in zip(tables, step.regions, strict=True):
            members = region.walk.members
            if len(table) > 1:
                table = table[self.first if members is None else members[self.first]]
            elif len(self.first) > 1:
                table = table.repeat(len(self.first), axis=0)
            parts.append(table)
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        first = int(step.rows[0])
        last = int(step.rows[-1])
        if last - first == len(step.rows) - 1 and (step.rows[1:] > step.rows[:-1]).all():
            return whole[:, first : last + 1]
        return whole.take(step.rows, axis=1)

    def _outside(self, step: TensorRows, mask: LaneMask | None) -> np.ndarray | None:
        """bool (tiles, rows): which rows are fill, outside the tensor or masked; None: none is."""
        inside = all(r.outside is None for r in step.regions)
        if inside and mask is None:
            return None
        key = (id(step.rows), *[id(r.outside) for r in step.regions], b"" if mask is None else mask.enabled.tobytes())
        found = self._joints.get(key)
        if found is None:
            tables = [
                np.zeros((1, r.walk.base.shape[1]), bool) if r.outside is None else r.outside for r in step.regions
            ]
            found = self._joined(tables, step)
            if mask is not None:
                found = found | ~(mask.enabled if len(mask.enabled) == 1 else mask.enabled[self.first])
            self._joints[key] = found
        return found

    def empty(self) -> np.ndarray | None:
        """bool (tiles, rows): the rows that are fill in every step; None: there is none."""
        tables = {id(table): table for table in self.outside if table is not None}
        if not tables or any(table is None for table in self.outside):
            return None
        found = np.logical_and.reduce(list(tables.values()))
        return found if found.any() else None

    def gather(self, part: slice, rows: int, element: str, finite: bool, workspace: Workspace) -> np.ndarray:
        """The first ``rows`` rows of some tiles in float32 (tiles, rows, k); it lives until the next gather.

        ``finite``: no element is infinite or a NaN.
        """
        count = part.stop - part.start
        size = self.rows * self.count * self.run
        wide = widened_source(self.loader, element, finite, size * len(self.first))
        self.loader.gathered += size * count
        if wide is None:
            found = widened(self.raw(part, rows, workspace), element, finite, workspace)
        else:
            found = self._runs(*wide, part, rows, workspace).view(np.float32)
        return found.reshape(count, rows, -1)

    def raw(self, part: slice, rows: int, workspace: Workspace) -> np.ndarray:
        """The first ``rows`` rows of some tiles, one after the other, as they lie in shared memory."""
        return self._runs(self.loader.source.view(np.uint8), self.loader.fill[:1].view(np.uint8), part, rows, workspace)

    def _runs(self, source: np.ndarray, fill: np.ndarray, part: slice, rows: int, workspace: Workspace) -> np.ndarray:
        """The runs (tiles x rows x steps,) of some tiles, each of a number of bytes.

        ``source``: uint8, of the tensor. ``fill``: uint8, what takes the place of 16 bytes of it.
        """
        wider = len(fill) // 16
        run = self.run * wider
        step = self.step * wider
        kind = np.dtype((np.void, run))
        index = self._index(part, rows, workspace)
        outside = self._outside_of(part, rows)
        if run == step:
            found = workspace.array("raw", index.size, kind)
            source[: source.size // run * run].view(kind).take(index, out=found, mode="clip")
        else:
            index[outside] = 0  # what lies outside may begin anywhere
            found = np.ndarray((source.size - run) // step + 1, kind, source, 0, step)[index]
        if outside.size:
            found[outside] = np.resize(fill, run).view(kind)[0]
        self._cut(found.view(np.uint8).reshape(-1, self.count, run), fill)
        return found

    def _index(self, part: slice, rows: int, workspace: Workspace) -> np.ndarray:
        """int64 (tiles x rows x steps,): where each run of some tiles begins."""
        count = part.stop - part.start
        index = workspace.array("index", count * rows * self.count, np.dtype(np.int64)).reshape(count, rows, self.count)
        for group in self.groups:
            own = group.shifts[:, 0]
            if isinstance(group.steps, slice):
                np.add(group.base[part, :rows, None], own, out=index[:, :, group.steps])
            else:
                index[:, :, group.steps] = group.base[part, :rows, None] + own
        return index.reshape(-1)

    def _cut(self, runs: np.ndarray, fill: np.ndarray) -> None:
        """Fill the ends of the runs of bytes (rows, steps, bytes) that dimension 0 of the tensor ends inside."""
        wider = len(fill) // 16
        for cut in set(self.cuts.values()):
            steps = [step for step, own in self.cuts.items() if own == cut]
            low = (self.run - cut) * wider
            where = slice(None) if len(steps) == self.count else steps
            word = np.dtype(f"u{math.gcd(low, cut * wider, 8)}")  # the widest that both are made of: fewer are faster
            runs.view(word)[:, where, low // word.itemsize :] = fill[low % len(fill) :][: cut * wider].view(word)

    def _outside_of(self, part: slice, rows: int) -> np.ndarray:
        """int64: the runs of some tiles (tiles x rows x steps) that are outside, in order."""
        line = self.count
        places = self._places_outside()
        low, high = np.searchsorted(places, (part.start * self.rows * line, part.stop * self.rows * line))
        found = places[low:high] - part.start * self.rows * line
        if rows < self.rows:
            tile, found = np.divmod(found, self.rows * line)
            found = (found + tile * rows * line)[found < rows * line]
        return found

    def _places_outside(self) -> np.ndarray:
        """int64: the runs (of tiles x rows x steps) that are outside, in order."""
        if self._places is None:
            kinds: dict[int, tuple[np.ndarray, list[int]]] = {}
            for number, table in enumerate(self.outside):
                if table is not None:
                    kinds.setdefault(id(table), (table, []))[1].append(number)
            bad = np.zeros((len(self.first) * self.rows, self.count), bool)
            for table, numbers in kinds.values():
                bad[np.flatnonzero(table)[:, None], np.array(numbers)] = True
            self._places = np.flatnonzero(bad)
        return self._places
