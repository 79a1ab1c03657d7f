"""The work of one cohort that waits, and when it is performed.

Three things wait, each until it is looked at: tensor copies (in `SharedMemory.deferred`), the rows that copies of the
tensor core filled columns of tensor memory with (`tags`), and products (`waiting`, by the columns of their
accumulators). No column is in both of the last two at once: who writes columns that another names materializes it
first.
"""

from __future__ import annotations

import numpy as np

from convc.machine.lazy.evaluate import DeferredProduct, Kind, Waiting, products_of
from convc.machine.lazy.record import CohortRecord, Name
from convc.machine.lazy.regions import Region
from convc.machine.lazy.rows import TensorRows, find_rows
from convc.machine.lazy.tiles import OperandTiles
from convc.machine.lazy.widen import CODES, Workspace, is_finite
from convc.machine.memory.shared_memory import SharedMemory, same_rows
from convc.machine.tensor_core.copy_shift import unit_index
from convc.machine.tensor_core.datapath import Datapath
from convc.machine.tensor_core.fetch import A_COLUMNS, chunk_index
from convc.machine.tensor_core.mma import Mma
from convc.machine.tensor_core.mma_operands import Operands
from convc.machine.tensor_core.tensor_memory import COLUMNS, LANES, TensorMemory

UNIT_COLUMNS = 4
"""Columns of tensor memory that a unit of 16 bytes fills."""

START = 0x3FFF
"""The bits of a shared-memory descriptor that say in which 16-byte unit its operand starts."""

SAME = 64
"""Units after which every swizzle repeats: operands that start so many apart have the same layout."""

Columns = tuple[int, int]
"""First column and how many."""


class Deferral:
    """The work of one cohort that waits (`convc.machine.tensor_core.datapath.DeferralHook`, `TensorMemory.deferral`).

    Args:
        shared, tensor: the memories of the cohort.
        workspaces: to gather A and B in, those of the launch.
    """

    def __init__(self, shared: SharedMemory, tensor: TensorMemory, workspaces: tuple[Workspace, Workspace]) -> None:
        self.shared = shared
        self.tensor = tensor
        self.workspaces = workspaces
        self.tags: dict[Columns, TensorRows] = {}
        self.waiting: dict[Columns, Waiting] = {}
        self.read: set[str] = set()  # buffers that something which may wait is read from
        self._looked_at: set[Columns] = set()  # columns whose rows had to be filled in: naming them first costs more
        self.record: CohortRecord | None = None  # what is done to data, where that is recorded
        self.handed: dict[Name, np.ndarray] = {}  # by segments of a record that is replayed
        self.refused: dict[str, int] = {}  # why products did not wait: how many of them
        tensor.deferral = self

    # ---- when it is performed --------------------------------------------------------------------------------------

    def materialize(self, column: int, width: int) -> None:
        """Perform what reaches into some columns of tensor memory."""
        for key in _overlapping(self.waiting, column, width):
            waiting = self.waiting.pop(key, None)
            if waiting is not None:  # else materialized on the way, by a read of all columns
                products = products_of(key, waiting, self.tensor.ctas)
                products.perform(self.tensor, self.workspaces)
                if self.record is not None:
                    self.record.events.append(products)
        for key in _overlapping(self.tags, column, width):
            rows = self.tags.pop(key, None)
            if rows is not None:
                self._looked_at.add(key)
                self._fill(key, rows)

    def materialize_reads(self, buffer: str) -> None:
        """A buffer is about to change: what waits for its contents is performed now."""
        if buffer in self.read:
            self.materialize(0, COLUMNS)
            self.shared.part(0, self.shared.padded)
            self.read.clear()

    def release(self) -> None:
        """The CTAs have ended, and no result is looked at."""
        self.waiting.clear()
        self.tags.clear()

    def _fill(self, key: Columns, rows: TensorRows) -> None:
        tiles = OperandTiles([rows], [None], self.tensor.ctas)
        raw = tiles.raw(slice(0, len(tiles.first)), tiles.rows, self.workspaces[0]).view("u4")
        self.tensor.panel(*key, fresh=True)[...] = raw.reshape(len(tiles.first), LANES, -1)[tiles.which]

    # ---- what waits ------------------------------------------------------------------------------------------------

    def load(self, buffer: str, region: Region) -> None:
        """A tensor copy of a buffer waits."""
        self.read.add(buffer)
        self.shared.remember(region)

    def copy(self, column: int, width: int, units: tuple[int, int, int, int]) -> bool:
        """Columns that are filled with rows of a tensor are known as these rows."""
        if (column, width) in self._looked_at:
            return False
        rows = find_rows(self.shared, unit_index, units, LANES)
        if rows is None or not rows.whole or not rows.of(None):
            return False
        if (column, width) not in self.tags:
            self.materialize(column, width)
        self.tags[column, width] = rows
        return True

    def refresh(self, column: int, width: int, lanes: np.ndarray, units: tuple[int, int, int, int]) -> bool:
        """Columns that are known as rows of copies are known with other rows of these in some lanes."""
        known = self.tags.get((column, width))
        rows = None if known is None else find_rows(self.shared, unit_index, units, len(lanes))
        if known is None or rows is None or not known.beside(rows):
            return False
        self.tags[column, width] = known.with_rows(lanes, rows)
        return True

    def move(self, column: int, width: int) -> bool:
        """Columns that are known as rows of a tensor are known as the rows that follow."""
        rows = self.tags.get((column, width))
        if rows is None:
            return False
        self.tags[column, width] = rows.moved()
        return True

    def product(self, path: Datapath, run: list[Mma]) -> bool:
        """A product of rows of tensors waits; everything that can go wrong with it goes wrong now."""
        first = run[0]
        reason = _why_now(first)
        if reason is not None:
            return self._refused(reason)
        shape = first.shape
        steps = self._steps(run)
        if isinstance(steps, str):
            return self._refused(steps)
        kind = Kind(shape.desc.a_type, shape.desc.b_type, shape.pair)
        self._check(path, run, steps)
        accumulate = first.accumulate
        for step in steps:
            self._add((first.d & 0xFFFF, shape.columns), step, kind, accumulate, _ctas(first))
            accumulate = True
        return True

    def _steps(self, run: list[Mma]) -> list[DeferredProduct] | str:
        """A run as steps, one of all of it where possible; where not, why."""
        whole = self._step(run)
        if isinstance(whole, DeferredProduct):
            return [whole]
        parts = _strides(run)
        if len(parts) == 1:
            return whole
        steps: list[DeferredProduct] = []
        for part in parts:
            step = self._step(part)
            if isinstance(step, str):
                return step
            steps.append(step)
        return steps

    def _step(self, run: list[Mma]) -> DeferredProduct | str:
        """Instructions whose operands are a tile of a tensor each; where they are not, which one is not."""
        first = run[0]
        shape = first.shape
        if first.rows is not None and (first.a_in_tensor or first.mask is not None):
            return "some CTAs only, and A in tensor memory or a lane mask"
        a = self._in_tensor(run) if first.a_in_tensor else self._in_shared(tuple([m.a for m in run]), shape.rows)
        if a is None:
            return "A is no tile of a tensor"
        b = self._in_shared(tuple([m.b for m in run]), shape.b_rows)
        if b is None or a.units != b.units:
            return "B is no tile of a tensor"
        rows = _ctas(first)
        if not a.of(rows) or not b.of(rows):
            return "copies of other CTAs"
        if first.mask is not None:
            zero = a.regions[0].loader.tmap.fill == "zero"  # what a masked row is read as
            if not zero or not is_finite(b.regions[0].loader, shape.desc.b_type):
                return "lane mask, and B is not finite"
        return DeferredProduct(a, b, first.mask)

    def _refused(self, reason: str) -> bool:
        self.refused[reason] = self.refused.get(reason, 0) + 1
        return False

    def _check(self, path: Datapath, run: list[Mma], steps: list[DeferredProduct]) -> None:
        """What `Product` checks and marks before it multiplies.

        Every byte of an operand in shared memory that is rows of copies was written, by these: no need to look.
        """
        operands = Operands(path, run)
        if run[0].a_in_tensor or not all(self._written(step.a) for step in steps):
            operands.a()
        if not all(self._written(step.b) for step in steps):
            operands.b()
        operands.mark(*operands.accumulator())

    def _written(self, operand: TensorRows) -> bool:
        """Whether the copies that an operand in shared memory lies in end inside it, and none of them was forgotten."""
        return operand.regions[-1].stop <= self.shared.size and not self.shared.written.generation

    def _in_shared(self, descriptors: tuple[int, ...], rows: int) -> TensorRows | None:
        first = min([descriptor & START for descriptor in descriptors]) & -SAME
        moved = tuple([descriptor - first for descriptor in descriptors])
        try:
            return find_rows(self.shared, chunk_index, (moved, rows), rows, 16 * first)
        except ValueError:  # a descriptor that names nothing: who performs the product says so
            return None

    def _in_tensor(self, run: list[Mma]) -> TensorRows | None:
        """Operand A in columns of tensor memory that are known as rows."""
        column = run[0].a & 0xFFFF
        width = A_COLUMNS * len(run)
        if run[0].a >> 16 or any(mma.a != column + A_COLUMNS * at for at, mma in enumerate(run)):
            return None
        for (first, count), rows in self.tags.items():
            unit, apart = divmod(column - first, UNIT_COLUMNS)
            if first <= column and column + width <= first + count and not apart:
                return rows.part(unit, width // UNIT_COLUMNS)
        return None

    def _add(self, key: Columns, step: DeferredProduct, kind: Kind, accumulate: bool, rows: np.ndarray | None) -> None:
        known = self.waiting.get(key)
        if known is None:
            self.materialize(*key)
        elif not accumulate and (rows is None or same_rows(rows, known.rows)):
            del self.waiting[key]
        elif accumulate and known.takes(step, kind, rows):
            known.steps.append(step)
            return
        else:
            self.materialize(*key)
        self.waiting[key] = Waiting(kind, accumulate, [step], rows)


def _ctas(first: Mma) -> np.ndarray | None:
    """int64, the CTAs that multiply; None: every CTA."""
    return None if first.rows is None else np.asarray(first.rows)


def _strides(run: list[Mma]) -> list[list[Mma]]:
    """A run cut where an operand begins further behind the last one than that did; into its parts where none does.

    Filter taps of one buffer of activations: each begins some rows further on, and all are multiplied for one commit.
    """
    parts = [run[:2]]
    for mma in run[2:]:
        last = parts[-1]
        if len(last) > 1 and (mma.a + last[-2].a, mma.b + last[-2].b) != (2 * last[-1].a, 2 * last[-1].b):
            parts.append([mma])
        else:
            last.append(mma)
    return parts if len(parts) > 1 else [[mma] for mma in run]


def _why_now(first: Mma) -> str | None:
    """Why a run cannot wait, whatever its operands are; None where it can.

    It can where all lanes of D take part, with K-major elements of whole bytes.
    """
    shape = first.shape
    desc = shape.desc
    reasons = {
        "zero-column mask": first.zero is not None,
        "scaled D": bool(first.scale),
        "scale factors": bool(shape.factors),
        "weight stationary": shape.ws,
        "CTA pair, and a lane mask for two banks": shape.pair and shape.banks > 1 and first.mask is not None,
        "64 rows": shape.spread_lanes,
        "sums in f16": shape.d_type == "f16",
        "saturating sums": shape.saturate,
        "MN-major": desc.transpose_a or desc.transpose_b,
        "one side negated": desc.negate_a != desc.negate_b,
        "lane mask, and D is written anew": first.mask is not None and not first.accumulate,
        "elements below a byte": desc.a_type not in CODES or desc.b_type not in CODES,
    }
    return next((reason for reason, true in reasons.items() if true), None)


def _overlapping(table: dict[Columns, Waiting] | dict[Columns, TensorRows], column: int, width: int) -> list[Columns]:
    return [(first, count) for first, count in table if first < column + width and column < first + count]
