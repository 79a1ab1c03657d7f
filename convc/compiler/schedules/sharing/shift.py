"""The schedule ``shift``: the tile goes to tensor memory, and its rows move from lane to lane.

chain    tcgen05.shift moves the rows by one lane, and the last lane of each sub-partition is refreshed from the
         halo; every link is a pair of instructions that keep order
ashift   the same, but the MMA itself moves the rows (.ashift); since a refresh is not ordered after that, the
         issuing thread waits before each one
windows  the four sub-partitions hold windows of the stream that overlap by the halo, so that nothing has to be
         refreshed; .ashift alone moves the rows
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from convc.compiler.index.geometry import Geometry
from convc.compiler.plan.candidates import atoms_of
from convc.compiler.plan.issue_cycles import ROW_STORE
from convc.compiler.plan.names import ACC, A, B, RingName
from convc.compiler.plan.records import Pipeline, Plan, Tiling
from convc.compiler.plan.storage import BarrierRing, TmemTile
from convc.compiler.plan.work import STORE_BYTES, CtaWork, row_chunk, row_store_cycles
from convc.compiler.schedules.epilogue import row_epilogue
from convc.compiler.schedules.sharing.base import Sharing
from convc.compiler.schedules.sharing.buffers import SharedTile
from convc.compiler.schedules.sharing.k_loop import before_tap, k_loop, release_filter, release_tile
from convc.compiler.schedules.sharing.storage import (
    A_TMEM,
    masks_read,
    ring_uses,
    row_moves,
)
from convc.compiler.schedules.skeleton import about, number
from convc.compiler.tile.steps.base import Compute, Loop, Step
from convc.compiler.tile.steps.lanes import MoveRows, Refresh, TensorFill
from convc.compiler.tile.steps.mma import MmaTensor
from convc.compiler.tile.steps.rings import Advance, Commit, RingWait
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.arch import Arch
from convc.ir.expr import Const, IntExpr, Var

TENSOR_TILES = 2
"""Activation tiles in tensor memory: one is filled while the other is multiplied."""
EMPTY_TMEM = RingName("empty_tmem")
ORDER = RingName("order")
"""Rings: for room in tensor memory, and for the mma role to wait for its own operations."""


@dataclass(frozen=True, kw_only=True)
class Shift(Sharing):
    """Rows that move by one lane between filter columns.

    Attributes:
        ashift: whether the MMA moves them (.ashift), else ``tcgen05.shift`` does.
        windows: whether sub-partitions overlap by the halo, else their last lanes are refreshed from it.
    """

    ashift: bool = False
    windows: bool = False

    @property
    def windowed(self) -> bool:
        return self.windows

    @property
    def haloed(self) -> bool:
        return not self.windows

    def refuses(self, geometry: Geometry) -> str | None:
        """The condition that a cut breaks: ``.ashift`` moves by one lane."""
        step = max(buffer.step for buffer in geometry.walk.buffers)
        refused = super().refuses(geometry)
        if refused is None and self.ashift and step > 1:
            return f"filter columns of a buffer are {step} lanes apart, and .ashift moves by one"
        return refused

    def tensor_tiles(self, layout: DeviceLayout, tiling: Tiling, arch: Arch) -> tuple[TmemTile, ...]:
        """The accumulator, and activation tiles behind it."""
        acc = TmemTile(name=ACC, lanes=arch.limits.tmem_lanes, columns=tiling.block_n, column_offset=0)
        a_tmem = TmemTile(
            name=A_TMEM,
            lanes=arch.limits.tmem_lanes,
            columns=8 * atoms_of(layout, tiling, arch.limits.mma_atom_bytes),
            column_offset=acc.end,
            stages=min(tiling.a_stages, TENSOR_TILES),
            state="tmem" if self.apart(tiling) else "a",
        )
        return acc, a_tmem

    def own_rings(self, tiling: Tiling, geometry: Geometry) -> tuple[BarrierRing, ...]:
        """Rings of the mma role with itself.

        `order` lets it wait for its own operations, and `empty_tmem` counts the activation tiles in tensor memory,
        unless these come and go with those in shared memory.
        """
        rings: list[BarrierRing] = []
        if self.apart(tiling):
            turns = min(tiling.a_stages, TENSOR_TILES)
            rings.append(BarrierRing(name=EMPTY_TMEM, stages=turns, producer="mma", consumer="mma", state="tmem"))
        if self.waits(geometry):
            rings.append(BarrierRing(name=ORDER, stages=1, producer="mma", consumer="mma", state="order"))
        return tuple(rings)

    def work(self, layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline, geometry: Geometry, arch: Arch) -> CtaWork:
        """Count the K loop: filter rows and channel blocks outside, buffers inside, their filter columns innermost."""
        rounds = pipeline.taps[0] * pipeline.blocks
        buffers = geometry.walk.buffers
        taps = rounds * pipeline.taps[1]
        moves = rounds * sum(buffer.halo for buffer in buffers) * pipeline.atoms
        rows = sum(self.tile_rows(geometry, buffer.halo) for buffer in buffers)
        return CtaWork(
            mmas=taps * pipeline.atoms,
            m=tiling.block_m,
            n=tiling.block_n,
            ctas=tiling.ctas,
            a_in_tensor=True,
            activation_bytes=rounds * rows * tiling.row_bytes,
            filter_bytes=taps * tiling.b_rows * tiling.row_bytes,
            row_bytes=tiling.row_bytes,
            chunks=tiling.block_n // row_chunk(tiling.block_n),
            stores=tiling.block_n * layout.problem.out_dtype.bytes // STORE_BYTES,
            store_own=ROW_STORE,
            store_cycles=row_store_cycles(layout, arch.rates),
            loads=taps + rounds * len(buffers) * geometry.tile.windows,
            rings=ring_uses(tiling, pipeline, geometry, loop="but last"),
            copies=rounds * len(buffers) * pipeline.atoms,
            refreshes=0 if self.windows else moves,
            shifts=0 if self.ashift else moves,
            moving=(taps - rounds * len(buffers)) * pipeline.atoms if self.ashift else 0,
            drains=rounds * self.drains(geometry) if self.waits(geometry) else 0,
            own_waits=rounds * len(buffers) if self.windows else 0,
            masks=self.masks(layout, geometry) * tiling.ctas,
            masked=taps * masks_read(geometry),
        )

    def multiply(self, plan: Plan) -> tuple[Step, ...]:
        """The tile goes to tensor memory, and its rows move on from column to column."""
        return k_loop(plan, self._multiply)

    def epilogue(self, plan: Plan) -> tuple[Step, ...]:
        """A lane has an output pixel."""
        return row_epilogue(plan)

    # ---- what has to wait --------------------------------------------------------------------------------------------

    def apart(self, tiling: Tiling) -> bool:
        """Whether activation tiles in tensor memory are used longer, or are fewer, than those in shared memory.

        Otherwise who waits for one of those knows that the tile in tensor memory has been multiplied.
        """
        return self.windows or tiling.a_stages > TENSOR_TILES

    def waits(self, geometry: Geometry) -> bool:
        """Whether the chain of moves has a link that only a commit and a wait put in order."""
        return not self.windows and max(buffer.step for buffer in geometry.walk.buffers) > (0 if self.ashift else 1)

    def drains(self, geometry: Geometry) -> int:
        """Waits for the own tensor operations per filter row and channel block.

        ``ashift``: before every refresh. ``chain``: between two moves that no MMA stands between.
        """
        waits = 0
        for buffer in geometry.walk.buffers:
            turns, lanes = row_moves(geometry.form, len(buffer.taps) - 1, buffer.step)
            waits += turns if self.ashift else lanes - turns
        return waits

    # ---- steps -------------------------------------------------------------------------------------------------------

    def _multiply(self, tile: SharedTile) -> Iterator[Step]:
        """One activation tile with all its filter columns."""
        plan = tile.plan
        mark = tile.mark
        own = self.apart(plan.tiling)
        if own:
            note = "until the tile in tensor memory has been multiplied"
            yield RingWait(id=f"mma.wait_tmem{mark}", note=note, ring=EMPTY_TMEM, starts_open=True)
        note = "128 rows to 128 lanes"
        fill = TensorFill(id=f"mma.fill{mark}", note=note, source=A, tile=A_TMEM, atoms=plan.pipeline.atoms)
        yield from about(tile.only_column, fill)
        if self.windows:
            yield from release_tile(tile)
        last = tile.taps - 1
        if last:
            position = Var(tile.position)
            body = (*self._tap(tile, position, moves=True), *self._move(tile))
            yield Loop(
                id=f"mma.columns{mark}",
                note=f"filter columns of {tile.name} but the last",
                var=tile.position,
                count=last,
                body=about(tile.column(position), *body),
            )
        yield from about(tile.column(Const(last)), *self._tap(tile, Const(last), "_last"))
        if own:
            yield Commit(id=f"mma.used{mark}", note="the tile is free once it has been multiplied", ring=EMPTY_TMEM)
            stages = plan.storage.tmem_tile(A_TMEM).stages
            yield Advance(id=f"mma.next_tmem{mark}", note="next tile in tensor memory", state="tmem", stages=stages)
        if not self.windows:
            yield from release_tile(tile)

    def _tap(self, tile: SharedTile, position: IntExpr, which: str = "", moves: bool = False) -> Iterator[Step]:
        """One filter column with the tile in tensor memory."""
        plan = tile.plan
        yield from before_tap(tile, position, which)
        yield MmaTensor(
            id=f"mma.multiply{which}{tile.mark}",
            note="activations from tensor memory",
            acc=ACC,
            a=A_TMEM,
            b=B,
            operand=plan.problem.operand,
            m=plan.tiling.block_m,
            n=plan.tiling.block_n,
            atoms=plan.pipeline.atoms,
            counter=tile.counter(position, which),
            masked=plan.storage.masks > 0,
            moves=moves and self.ashift,
            filter_operand=plan.problem.filter_operand,
        )
        yield from release_filter(plan, f"{which}{tile.mark}")

    def _move(self, tile: SharedTile) -> Iterator[Step]:
        """From one filter column to the next: the rows move up by a lane, the last of 32 comes from the halo."""
        if self.windows:
            return
        mark = tile.mark
        atoms = tile.plan.pipeline.atoms
        apart = tile.nest.number("moved", "rows", tap=1)
        halo = number(f"halo{mark}")
        used = tile.nest.value("moved", "rows", tap=Var(tile.position))
        yield Compute(id=f"mma.halo{mark}", note="halo rows used so far", dst=halo, expr=used)
        for move in range(apart):
            turn = f"_{move}{mark}" if apart > 1 else mark
            if self.ashift or move:
                yield from self._settle(turn)
            if not self.ashift:
                yield MoveRows(id=f"mma.move{turn}", note="lane i takes row i + 1", tile=A_TMEM, atoms=atoms)
            yield Refresh(
                id=f"mma.refresh{turn}",
                note="copy halo rows to the last lane of every 32",
                source=A,
                tile=A_TMEM,
                atoms=atoms,
                halo=halo,
                extra=move,
            )

    def _settle(self, turn: str) -> Iterator[Step]:
        """Wait until all operations on the tile in tensor memory are done."""
        why = "a refresh is not ordered after .ashift" if self.ashift else "nor is a shift after a refresh"
        yield Commit(id=f"mma.order{turn}", note=why, ring=ORDER)
        yield RingWait(id=f"mma.settle{turn}", note="until the rows have moved", ring=ORDER, starts_open=False)
        yield Advance(id=f"mma.turn{turn}", note="next phase", stages=1, state="order")
