"""Products that waited, performed: one float32 product for each pair of distinct tiles, over their joint K."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from convc.machine.base.values import distinct_columns
from convc.machine.lazy.rows import TensorRows
from convc.machine.lazy.tiles import OperandTiles
from convc.machine.lazy.widen import CODES, WHOLE, Workspace, is_finite
from convc.machine.memory.shared_memory import same_rows
from convc.machine.tensor_core.mma import LaneMask
from convc.machine.tensor_core.tensor_memory import TensorMemory
from convc.machine.tma.load import TensorLoader

BLOCK = 1 << 20
"""Bytes of A, or of B where all of A is less, gathered at a time, and of a product: they stay in a level-2 cache."""

FILTERS = 1 << 25
"""Bytes of B kept in float32 at a time (at most four for each of its own); more is multiplied in several parts of K."""

EXACT = 1 << 24
"""Up to here float32 holds every whole number."""


class Kind(NamedTuple):
    """Types of A and of B, and whether CTAs multiply in pairs: each with the columns of B of both."""

    a: str
    b: str
    pair: bool = False

    @property
    def elements(self) -> tuple[str, str]:
        """Both types."""
        return self.a, self.b


class DeferredProduct(NamedTuple):
    """A run of instructions: both operands, and the lanes of D that are written (None: all)."""

    a: TensorRows
    b: TensorRows
    mask: LaneMask | None


@dataclass(slots=True)
class Waiting:
    """Steps that add up in one accumulator.

    Attributes:
        kind: of the instructions.
        accumulate: whether what is there counts.
        rows: int64, the CTAs that multiply; None: every CTA.
    """

    kind: Kind
    accumulate: bool
    steps: list[DeferredProduct]
    rows: np.ndarray | None = None

    def takes(self, step: DeferredProduct, kind: Kind, rows: np.ndarray | None) -> bool:
        """Whether a step of some CTAs may join: one gather reads one tensor, as one type."""
        if not same_rows(rows, self.rows):
            return False
        last = self.steps[-1]
        same = step.a.regions[0].loader is last.a.regions[0].loader
        return kind == self.kind and same and step.b.regions[0].loader is last.b.regions[0].loader


class TilePair(NamedTuple):
    """Both operands over a joint K, and whether what is in the accumulator counts."""

    left: OperandTiles
    right: OperandTiles
    accumulate: bool


@dataclass(frozen=True, slots=True)
class Products:
    """All steps of an accumulator, ready to be multiplied.

    Attributes:
        key: first column of D, and how many it has.
        kind: of the instructions.
        parts: one after the other.
        masked: whether some lanes of D are not written by a step, so that B must be finite.
        rows: int64, the CTAs that multiply, as the tiles count them; None: every CTA.
    """

    key: tuple[int, int]
    kind: Kind
    parts: tuple[TilePair, ...]
    masked: bool
    rows: np.ndarray | None = None

    def perform(self, tensor: TensorMemory, workspaces: tuple[Workspace, Workspace]) -> None:
        """Multiply, and put D into its columns."""
        whole = self.kind.a in WHOLE
        fresh = self.rows is None and not self.parts[0].accumulate
        panel = tensor.panel(*self.key, fresh=fresh).view(np.int32 if whole else np.float32)
        target = panel if self.rows is None else panel[self.rows]
        with np.errstate(invalid="ignore", over="ignore"):
            for part in self.parts:
                _Joint(target, part, self.kind, workspaces).multiply()
        if self.rows is not None:
            panel[self.rows] = target

    def over(self, tensors: Callable[[TensorLoader], TensorLoader]) -> Products:
        """Apply the products to other tensors of the same maps."""
        parts = [
            TilePair(p.left.over(tensors(p.left.loader)), p.right.over(tensors(p.right.loader)), p.accumulate)
            for p in self.parts
        ]
        return replace(self, parts=tuple(parts))


def products_of(key: tuple[int, int], waiting: Waiting, ctas: int) -> Products:
    """The steps that wait for ``key[1]`` columns from column ``key[0]`` on, as products."""
    steps = _even(waiting.steps)
    ctas = ctas if waiting.rows is None else len(waiting.rows)
    tiles = max([len(region.walk.base) for step in steps for region in step.b.regions])
    count = max(1, FILTERS // (64 * tiles * key[1] * steps[0].b.units))
    parts: list[TilePair] = []
    for low in range(0, len(steps), count):
        some = steps[low : low + count]
        left = OperandTiles([step.a for step in some], [step.mask for step in some], ctas)
        right = OperandTiles([step.b for step in some], [None] * len(some), ctas)
        parts.append(TilePair(left, right, waiting.accumulate or low > 0))
    return Products(key, waiting.kind, tuple(parts), any(step.mask is not None for step in steps), waiting.rows)


def _even(steps: Sequence[DeferredProduct]) -> list[DeferredProduct]:
    """The steps cut into such of equally many units."""
    units = math.gcd(*[step.a.units for step in steps])
    found: list[DeferredProduct] = []
    for step in steps:
        if step.a.units == units:
            found.append(step)
            continue
        for at in range(0, step.a.units, units):
            found.append(DeferredProduct(step.a.part(at, units), step.b.part(at, units), step.mask))
    return found


class _Joint:
    """One product over the joint K of some steps."""

    def __init__(
        self,
        target: np.ndarray,
        part: TilePair,
        kind: Kind,
        workspaces: tuple[Workspace, Workspace],
    ) -> None:
        self.left, self.right, self.accumulate = part
        # Two banks of lanes, each with half of the columns, are as two CTAs that share their rows of A.
        self.banks = target.shape[1] // self.left.rows
        self.target = target.reshape(-1, self.left.rows, target.shape[2])
        self.elements = kind.elements
        self.finite = tuple(
            is_finite(side.loader, element)
            for side, element in zip((self.left, self.right), self.elements, strict=True)
        )
        self.pair = kind.pair
        self.workspaces = workspaces

    def multiply(self) -> None:
        """A few tiles of A at a time, each with every tile of B that goes with it."""
        self._narrow()
        right = self.right
        if not self.pair and (apart := self._apart(self._grid(len(right.first), self.left.which, right.which))):
            self._each(apart)
            return
        b = self._gather_b(slice(0, len(right.first)))
        of_a = self.left.which.repeat(self.banks)
        of_b = right.which
        if self.pair:
            b, of_b = self._of_pairs(b)
        grid = self._grid(len(b), of_a, of_b)
        if np.count_nonzero(grid >= 0) < len(self.target):
            self._one_by_one(b, of_a, of_b)
            return
        if self._apart(grid) == 1:
            self.target = self.target.reshape(len(b), len(grid), *self.target.shape[1:])
            self._by_all(b)
            return
        empty = self._empty()
        step = max(1, BLOCK // (4 * self.left.rows * b.shape[-1]))
        for low in range(0, len(grid), step):
            part = slice(low, min(low + step, len(grid)))
            used = self._used(empty, part)
            if not used:
                if not self.accumulate:
                    self.target[grid[part][grid[part] >= 0]] = 0
                continue
            a = self._gather(part, used)
            for number in range(len(b)):
                self._block(a, b[number], grid[part, number], used)

    def _grid(self, tiles: int, of_a: np.ndarray, of_b: np.ndarray) -> np.ndarray:
        """int64 (tiles of A, tiles of B): the CTA that multiplies them, the last of several; -1: none does."""
        grid = np.full((len(self.left.first), tiles), -1)
        grid[of_a, of_b] = np.arange(len(self.target))
        return grid

    def _apart(self, grid: np.ndarray) -> int:
        """How many products do all of it, each of every so many tiles of A with every so many of B; 0: not so.

        One where each tile of A meets each of B, more where CTAs share the K loop of a tile: these multiply the same
        part of it. The CTAs come in the order of the tiles of A, once for each tile of B that one of them meets.
        """
        count, tiles = grid.shape
        met = np.flatnonzero(grid[0] >= 0)
        apart = int(met[1]) if len(met) > 1 else 0
        if (
            not apart
            or not self.target.flags.c_contiguous
            or count % apart
            or tiles % apart
            or count * tiles != len(self.target) * apart
        ):
            return 0
        a = np.arange(int(count))[:, None]
        b = np.arange(int(tiles))
        return apart if bool((grid == np.where((a - b) % apart, -1, b // apart * count + a)).all()) else 0

    def _each(self, apart: int) -> None:
        """Multiply every so many tiles of A with every so many of B, from each of the first ones on."""
        shape = self.target.shape[1:]
        target = self.target.reshape(-1, len(self.left.first) // apart, apart, *shape)
        for number, (left, right) in enumerate(zip(self.left.apart(apart), self.right.apart(apart), strict=True)):
            own = copy(self)
            own.left = left
            own.right = right
            own.target = target[:, :, number]
            own._side_by_side()

    def _narrow(self) -> None:
        """Leave out the ends of runs that are zero in all of A or in all of B, where the other side is finite there.

        Those of a convolution of few channels are: in B the ends of units, in A what lies behind dimension 0.
        """
        size = min(self._short(self.left, self.finite[1]), self._short(self.right, self.finite[0]))
        if self.right.run == 16 and self.finite[0]:
            raw = self.right.raw(slice(0, len(self.right.first)), self.right.rows, self.workspaces[1])
            used = np.bitwise_or.reduce(raw.view(np.uint32).reshape(-1, 4)).nonzero()[0]
            size = min(size, 4 << int(used[-1]).bit_length() if used.size else 4)
        if size < self.left.run:
            self.left = self.left.narrowed(size)
            self.right = self.right.narrowed(size)

    @staticmethod
    def _short(side: OperandTiles, finite: bool) -> int:
        """Bytes of a run of one operand without the zeros at its end, in whole words."""
        cuts = set(side.cuts.values())
        if not finite or len(side.cuts) < side.count or side.loader.tmap.fill != "zero":
            return side.run
        return side.run - min(cuts) // 4 * 4

    def _of_pairs(self, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """B (tiles, columns, k) as pairs multiply by it, of halves (tiles, rows, k), and which tile each target takes.

        Every CTA takes all columns, those of the even one first, or half of them for each bank.
        """
        halves = self.right.which.reshape(-1, 2)
        if self.banks == 2:
            return b, halves.repeat(2, axis=0).reshape(-1)
        first, which = distinct_columns(halves.T)
        return b[halves[first]].reshape(len(first), -1, b.shape[-1]), which.repeat(2)

    def _one_by_one(self, b: np.ndarray, of_a: np.ndarray, of_b: np.ndarray) -> None:
        """CTAs that share both operands: each has its own accumulator all the same."""
        for cta, (left, right) in enumerate(zip(of_a.tolist(), of_b.tolist(), strict=True)):
            a = self._gather(slice(left, left + 1), self.left.rows)
            self._block(a, b[right], np.array([cta]), self.left.rows)

    def _empty(self) -> np.ndarray | None:
        """Rows of A that are zero in every step: their products are zero where B is finite."""
        zero = self.left.loader.tmap.fill == "zero"
        return self.left.empty() if zero and self.finite[1] else None

    def _used(self, empty: np.ndarray | None, part: slice) -> int:
        """Rows up to the last that some of the tiles uses."""
        if empty is None:
            return self.left.rows
        used = np.flatnonzero(~empty[part].all(axis=0))
        return int(used[-1]) + 1 if used.size else 0

    def _gather(self, part: slice, rows: int) -> np.ndarray:
        return self.left.gather(part, rows, self.elements[0], self.finite[0], self.workspaces[0])

    def _gather_b(self, part: slice) -> np.ndarray:
        return self.right.gather(part, self.right.rows, self.elements[1], self.finite[1], self.workspaces[1])

    def _block(self, a: np.ndarray, b: np.ndarray, ctas: np.ndarray, rows: int) -> None:
        """Multiply tiles (tiles, rows, k) by a tile of B for these CTAs; -1: no CTA has this pair."""
        target = self.target
        first = int(ctas[0])
        side_by_side = first >= 0 and bool((ctas == np.arange(first, first + len(ctas))).all())
        if side_by_side and rows == target.shape[1]:
            self._into(a.reshape(-1, a.shape[-1]), b, target[first : first + len(ctas)].reshape(-1, target.shape[2]))
            return
        for tile, cta in enumerate(ctas.tolist()):
            if cta >= 0:
                self._into(a[tile], b, target[cta, :rows])
                if not self.accumulate:
                    target[cta, rows:] = 0

    def _side_by_side(self) -> None:
        """Multiply all of A by all of B, into targets (tiles of B, tiles of A, rows, columns).

        Where A and the product are little A is kept, and a few tiles of B at a time go with it: B is read but once.
        """
        right = self.right
        count = len(right.first)
        size = 4 * right.count * right.run // CODES[self.elements[1]].itemsize
        if max(size, 4 * count * right.rows) * self.left.rows * len(self.left.first) > BLOCK:
            self._by_all(self._gather_b(slice(0, count)))
            return
        tiles = slice(0, len(self.left.first))
        rows = self._used(self._empty(), tiles)
        a = self._gather(tiles, rows) if rows else None
        step = max(1, BLOCK // (size * right.rows))
        for low in range(0, count, step):
            part = slice(low, min(low + step, count))
            self._put(a, self._gather_b(part) if rows else None, self.target[part])

    def _by_all(self, b: np.ndarray) -> None:
        """Multiply a few tiles of A at a time by all of B (tiles, columns, k)."""
        tiles, columns, depth = b.shape
        empty = self._empty()
        most = 4 * self.left.rows * max(depth, tiles * columns)
        step = max(1, BLOCK // most)
        count = len(self.left.first)
        for low in range(0, count, step):
            part = slice(low, min(low + step, count))
            rows = self._used(empty, part)
            self._put(self._gather(part, rows) if rows else None, b, self.target[:, part])

    def _put(self, a: np.ndarray | None, b: np.ndarray | None, target: np.ndarray) -> None:
        """Multiply tiles of A (tiles, rows, k) by such of B as one product; None: by nothing but zeros."""
        if a is None or b is None:
            if not self.accumulate:
                target[...] = 0
            return
        number, rows, depth = a.shape
        tiles, columns, _ = b.shape
        product = self.workspaces[0].array("product", number * rows * tiles * columns, target.dtype)
        product = product.reshape(number * rows, tiles * columns)
        self._product(a.reshape(-1, depth), b.reshape(-1, depth), product)
        found = product.reshape(number, rows, tiles, columns).transpose(2, 0, 1, 3)
        if self.accumulate:
            target[:, :, :rows] += found
        else:
            target[:, :, :rows] = found
            target[:, :, rows:] = 0

    def _into(self, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        if out.dtype == np.int32:
            self._whole_into(a, b, out)
        elif self.accumulate:
            out += np.matmul(a, b.T)
        else:
            np.matmul(a, b.T, out=out)

    def _product(self, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        """Multiply A (rows, k) by B (columns, k), in place of what was there."""
        if out.dtype == np.int32:
            out[...] = 0
            self._add_whole(a, b, out)
        else:
            np.matmul(a, b.T, out=out)

    def _whole_into(self, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        """Sums of whole numbers, modulo 2^32."""
        if not self.accumulate:
            out[...] = 0
        self._add_whole(a, b, out)

    def _add_whole(self, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        """Add a product of whole numbers: in float32 no more of them at a time than it adds exactly."""
        most = EXACT // (WHOLE[self.elements[0]] * WHOLE[self.elements[1]])
        for low in range(0, a.shape[1], most):
            out += np.matmul(a[:, low : low + most], b[:, low : low + most].T).astype(np.int32)
