"""Tensor copies that wait: which rows of which tensor lie where in shared memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convc.ir.tensormap import PADDED
from convc.machine.tma.cache import Coordinate, LoadResult, Walk
from convc.machine.tma.layout import BoxLayout
from convc.machine.tma.load import CopyPlan, TensorLoader
from convc.machine.tma.walk import ROWS4, CopyRows


@dataclass(slots=True, eq=False, kw_only=True)
class Region:
    """A tensor copy into the same shared addresses of some CTAs of a cohort, not yet performed.

    Attributes:
        start, stop: shared addresses; every byte between them is written.
        loader, walk, form, place, lead: as `TensorLoader.put` takes them.
        shift: chunks from the base of a row in ``walk`` to the first that is copied: channel and filter offsets.
        outside: bool (copies, rows), rows that lie outside the tensor; None: none does.
        inside: chunks of a row that are inside dimension 0, if only in part; those behind them are fill.
        cut: bytes at the end of the last of these that are fill as well.
        result: what the copy does.
        rows: int64, the CTAs that copy, those of ``walk`` in their order; None: every CTA.
    """

    start: int
    stop: int
    loader: TensorLoader
    walk: Walk
    form: CopyRows
    place: BoxLayout
    lead: int
    shift: int
    outside: np.ndarray | None
    inside: int
    cut: int
    result: LoadResult
    rows: np.ndarray | None = None

    def perform(self, memory: np.ndarray) -> None:
        """Copy now."""
        self.loader.put(memory, self.start, self.walk, self.form, self.place, self.lead, self.rows)


def region(
    loader: TensorLoader,
    limit: int,
    address: int,
    coords: tuple[Coordinate, ...],
    offsets: tuple[int, ...],
    mode: str | None,
    ctas: int,
) -> Region | None:
    """A copy into ``ctas`` CTAs as a region; None where it must be performed at once.

    The caller says which CTAs where they are not all (`Region.rows`).
    Args and faults are those of `TensorLoader.load`; ``limit``: bytes of shared memory of a CTA.

    To be performed at once are copies whose bytes are changed on their way or leave gaps in shared memory, or that
    start at negative channels, or at different ones from which not as many bytes are inside the tensor.
    """
    first = coords[0]
    if type(first) is int:
        key = (first, address, limit, offsets, mode, len(coords))
        if key not in loader.plans:
            loader.plans[key] = _plan(loader, limit, address, coords, offsets, mode)
        plan = loader.plans[key]
        chunks = None
    else:
        plan, chunks = _plan_of_each(loader, limit, address, coords, offsets, mode)
    if plan is None:
        return None
    form, place, lead, shift, inside = plan
    walk = loader.walks.find(coords[1:], form.steps, ctas)
    if chunks is not None:
        walk = walk.from_channels(chunks)
    outside, result = _lines(loader, walk, form, place, inside)
    return Region(
        start=address,
        stop=address + place.extent,
        loader=loader,
        walk=walk,
        form=form,
        place=place,
        lead=lead,
        shift=shift,
        outside=outside,
        inside=-(-inside // 16),
        cut=-inside % 16,
        result=result,
    )


def _plan(
    loader: TensorLoader,
    limit: int,
    address: int,
    coords: tuple[Coordinate, ...],
    offsets: tuple[int, ...],
    mode: str | None,
) -> CopyPlan | None:
    """What follows from all but the outer coordinates; None where the copy must be performed at once."""
    tmap = loader.tmap
    if tmap.dtype in PADDED or mode == ROWS4:
        return None
    form = loader.shape(offsets, mode)
    channel = loader.channel(address, coords, mode)
    if channel is None:
        return None
    place = loader.place(form.steps.size, address, limit)
    if place.places is not None or place.flipped is not None:
        return None
    lead = loader.lead(channel)
    low, high = loader.window(lead)
    if low or high <= 0 or (high < tmap.row_bytes and tmap.fill != "zero"):
        return None
    shift = lead >> 4
    for tap, stride in zip(form.taps, tmap.strides, strict=True):
        shift += tap * (stride >> 4)
    return CopyPlan(form, place, lead, shift, high)


def _plan_of_each(
    loader: TensorLoader,
    limit: int,
    address: int,
    coords: tuple[Coordinate, ...],
    offsets: tuple[int, ...],
    mode: str | None,
) -> tuple[CopyPlan | None, np.ndarray | None]:
    """Do as `_plan`, where the first coordinate has a number for each CTA.

    The plan is that of the first CTA; the others start so many chunks, int64 (ctas,), behind it (None: where it does).
    """
    first = coords[0]
    if isinstance(first, int) or loader.channel(address, coords, mode) is not None:
        return _plan(loader, limit, address, coords, offsets, mode), None
    starts = first.astype(np.uint32).view(np.int32).astype(np.int64) * loader.tmap.shared_bits
    windows = {loader.window(start >> 3) for start in set(starts.tolist())}
    if (starts % loader.grain).any() or len(windows) > 1:
        return None, None
    plan = _plan(loader, limit, address, (int(first[0]), *coords[1:]), offsets, mode)
    return plan, (starts - starts[0]) >> 7


def _lines(
    loader: TensorLoader, walk: Walk, form: CopyRows, place: BoxLayout, high: int
) -> tuple[np.ndarray | None, LoadResult]:
    """The rows outside the tensor, and what the copy does; kept with the walk."""
    key = (form.taps, place.phase, high)
    known = walk.lines.get(key)
    if known is None:
        outside = loader.lines_outside(walk, form)
        filled = loader.filled(outside, walk, high)
        result = LoadResult(bytes=place.bytes, filled=filled, written=place.written)
        known = walk.lines[key] = (outside if outside.any() else None), result
        loader.walks.keep(walk, outside.nbytes)
    return known
