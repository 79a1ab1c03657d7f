"""Access to the state spaces: what ld, st and the atomics share (PTX manual, 5.1 "State Spaces").

Every space is bytes in a flat array plus one byte offset per thread. Addresses inside a space are what the space's own
instructions take; `convc.machine.memory.global_memory` says how generic addresses are made of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.values import MASK, Value, array, narrow
from convc.machine.isa.memory.shared_space import load_cluster, load_shared, store_cluster, store_shared
from convc.machine.isa.threads import active_only, extent, rows_of, thread_shape, threads_active
from convc.machine.memory.global_memory import (
    BASES,
    LOCAL_PARAMETERS,
    SHIFT,
    WINDOW_SHIFT,
    WINDOWS,
    Buffer,
    read_words,
    write_words,
)
from convc.machine.state.strand import Strand
from convc.ptx import Instr

# ---- generic addresses -------------------------------------------------------------------------------------


def by_space(strand: Strand, address: Value, visit: Callable[[str, Value, np.ndarray | None], None]) -> None:
    """Call ``visit(space, address in the space, lanes)`` for each state space that generic addresses fall into.

    ``lanes`` (bool) is None when all active threads use one space; else the strand runs under it during the call.
    """
    if not isinstance(address, np.ndarray):
        space = _space(address >> WINDOW_SHIFT, address)
        visit(space, _inside(space, address), None)
        return
    tops = address >> np.uint64(WINDOW_SHIFT)
    found = np.unique(active_only(strand, tops))
    if len(found) == 1:
        space = _space(int(found[0]), address)
        visit(space, _inside(space, address), None)
        return
    for top in found:
        space = _space(int(top), address)
        lanes = tops == top
        strand.under(lanes, lambda _, space=space, lanes=lanes: visit(space, _inside(space, address), lanes))


def _space(top: int, address: Value) -> str:
    """The state space of the generic addresses with these upper bits, some of ``address``."""
    space = WINDOWS.get(top)
    if space is None:
        wrong = address[address >> np.uint64(WINDOW_SHIFT) == top][0] if isinstance(address, np.ndarray) else address
        raise MachineFault(f"generic address {int(wrong):#x} is in no state space")
    return space


def _inside(space: str, address: Value) -> Value:
    base = BASES[space]
    if not base:
        return address
    return address - np.uint64(base) if isinstance(address, np.ndarray) else address - base


def load(strand: Strand, instr: Instr, space: str | None, address: Value, bits: int, count: int) -> list[Value]:
    """``count`` consecutive elements per thread from a space, or from generic addresses (None)."""
    if space is not None:
        return _LOAD[space](strand, instr, address, bits, count)
    parts: list[tuple[np.ndarray | None, list[Value]]] = []

    def visit(space: str, inside: Value, lanes: np.ndarray | None) -> None:
        space = "cluster" if space == "shared" else space
        parts.append((lanes, _LOAD[space](strand, instr, inside, bits, count)))

    by_space(strand, address, visit)
    values = parts[0][1]
    for lanes, others in parts[1:]:
        values = _merged(lanes, others, values, bits)
    return values


def _merged(lanes: np.ndarray | None, new: list[Value], old: list[Value], bits: int) -> list[Value]:
    """Values of which some ``lanes`` (bool; None: all) have new ones."""
    if lanes is None:
        return new
    return [np.where(lanes, array(n, bits), array(o, bits)) for n, o in zip(new, old, strict=True)]


def store(strand: Strand, instr: Instr, space: str | None, address: Value, values: list[Value], bits: int) -> None:
    """Store consecutive elements of each active thread to a space, or to generic addresses (None)."""
    if space is not None:
        _STORE[space](strand, instr, address, values, bits)
        return

    def visit(space: str, inside: Value, lanes: np.ndarray | None) -> None:
        _STORE["cluster" if space == "shared" else space](strand, instr, inside, values, bits)

    by_space(strand, address, visit)


# ---- parameters and constants -----------------------------------------------------------------------------


def _of_called_function(strand: Strand, address: Value) -> Value | None:
    """The local address of a called function's parameter; None for a parameter of the kernel.

    One instruction names parameters of one of the two; a fault where its threads differ.
    """
    if isinstance(address, np.ndarray):
        inside = active_only(strand, address) >= address.dtype.type(LOCAL_PARAMETERS)
        if inside.any() != inside.all():
            raise MachineFault("one instruction names parameters of the kernel and of a function that it calls")
        return address - address.dtype.type(LOCAL_PARAMETERS) if inside.all() else None
    return address - LOCAL_PARAMETERS if address >= LOCAL_PARAMETERS else None


def _load_param(strand: Strand, instr: Instr, address: Value, bits: int, count: int) -> list[Value]:
    local = _of_called_function(strand, address)
    if local is not None:
        return _load_local(strand, instr, local, bits, count)
    return _load_image(strand, strand.cohort.launch.params, address, bits, count, "parameter space")


def _store_param(strand: Strand, instr: Instr, address: Value, values: list[Value], bits: int) -> None:
    local = _of_called_function(strand, address)
    if local is None:
        raise _read_only(instr)
    _store_local(strand, instr, local, values, bits)


def _load_const(strand: Strand, instr: Instr, address: Value, bits: int, count: int) -> list[Value]:
    return _load_image(strand, strand.program.constants, address, bits, count, "constant memory")


def _load_image(strand: Strand, data: np.ndarray, offset: Value, bits: int, count: int, what: str) -> list[Value]:
    """Read bytes that are the same for all CTAs."""
    size = bits // 8 * count
    if isinstance(offset, np.ndarray):
        offset = active_only(strand, offset).astype(np.int64)
    low, high, odd = extent(offset, size)
    if low < 0 or high + size > data.size:
        raise MachineFault(f"a read outside {what} (offset {low if low < 0 else high} of {data.size} bytes)")
    if odd:
        raise MachineFault(f"a {size}-byte read of {what} at offset {low} is not aligned to {size} bytes")
    if not isinstance(offset, np.ndarray):
        step = bits // 8
        starts = range(offset, offset + size, step)
        return [int.from_bytes(data[start : start + step].tobytes(), "little") for start in starts]
    padded = data if data.size % 16 == 0 else np.concatenate([data, np.zeros(-data.size % 16, np.uint8)])
    return [narrow(v) for v in read_words(padded, offset, bits, count)]


def _store_const(strand: Strand, instr: Instr, address: Value, values: list[Value], bits: int) -> None:
    raise _read_only(instr)


def _read_only(instr: Instr) -> MachineFault:
    return MachineFault(f"{instr.form.name}: kernel parameters and constants cannot be written")


# ---- global memory ----------------------------------------------------------------------------------------


def in_buffers(
    strand: Strand, address: Value, size: int, visit: Callable[[Buffer, int | np.ndarray, np.ndarray | None], None]
) -> None:
    """Call ``visit(buffer, byte offsets, lanes)`` for each buffer that active threads access (nearly always one).

    ``lanes`` (bool) is None when all active threads use one buffer; else the strand runs under it during the call.
    """
    memory = strand.cohort.launch.memory
    if not isinstance(address, np.ndarray):
        visit(*memory.locate(address, size), None)
        return
    safe = active_only(strand, address)
    try:
        buffer, offset = memory.locate(safe, size)
    except MachineFault:
        # The fault of a stray address, unless threads use several buffers: then each one's own part is looked at.
        numbers = np.unique(safe >> np.uint64(SHIFT))
        if len(numbers) == 1:
            raise
    else:
        visit(buffer, offset, None)
        return
    for number in numbers:
        lanes = (address >> np.uint64(SHIFT)) == number

        def part(inner: Strand, lanes: np.ndarray = lanes) -> None:
            visit(*memory.locate(active_only(inner, address), size), lanes)

        strand.under(lanes, part)


def _load_global(strand: Strand, instr: Instr, address: Value, bits: int, count: int) -> list[Value]:
    size = bits // 8 * count
    strand.cohort.counters.global_load_bytes += size * threads_active(strand)
    values: list[Value] = []

    def visit(buffer: Buffer, offset: int | np.ndarray, lanes: np.ndarray | None) -> None:
        if strand.cohort.observer is not None:
            strand.cohort.observer.global_access(strand, instr, "ld", buffer.name, offset, size, strand.mask)
        words = read_words(buffer.data, offset, bits, count)
        values[:] = _merged(lanes, words, values, bits) if values else words

    in_buffers(strand, address, size, visit)
    return values


def _store_global(strand: Strand, instr: Instr, address: Value, values: list[Value], bits: int) -> None:
    size = bits // 8 * len(values)
    strand.cohort.counters.global_store_bytes += size * threads_active(strand)
    full = np.broadcast_to(array(address, 64), thread_shape(strand))
    note_writers(strand, instr, full, size)

    def visit(buffer: Buffer, offset: int | np.ndarray, lanes: np.ndarray | None) -> None:
        if strand.cohort.observer is not None:
            strand.cohort.observer.global_access(strand, instr, "st", buffer.name, offset, size, strand.mask)
        launch = strand.cohort.launch
        launch.about_to_change(buffer.name)
        write_words(buffer.data, np.asarray(offset), values, bits, strand.mask, launch.switches.colliding_stores)
        launch.contents_changed(buffer.name)

    in_buffers(strand, full, size, visit)


def note_writers(strand: Strand, instr: Instr, address: np.ndarray, size: int) -> None:
    """Note which active threads write the watched byte, where one is watched."""
    cohort = strand.cohort
    memory = cohort.launch.memory
    if memory.watch is None:
        return
    hit = (address <= memory.watch) & (memory.watch < address + np.uint64(size))
    if strand.mask is not None:
        hit = hit & strand.mask
    rows = cohort.rows_or_all(strand.rows)
    for at, warp, lane in np.argwhere(hit).tolist():
        memory.writers.append((instr, cohort.number(int(rows[at])), int(strand.warps[warp]), lane))


# ---- local memory -----------------------------------------------------------------------------------------


def _local(strand: Strand, address: Value, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of all threads' local memory, and where each thread's access is in them."""
    cohort = strand.cohort
    per_thread = -(-strand.program.local_bytes // 16) * 16
    if cohort.local is None:
        cohort.local = np.full(cohort.ctas * cohort.warps * 32 * per_thread, 0xFF, np.uint8)
    place = address if isinstance(address, np.ndarray) else address & MASK[64]  # in front of a variable it is negative
    offset = np.broadcast_to(array(place, 64), thread_shape(strand))
    offset = active_only(strand, offset).astype(np.int64)
    low, high, odd = extent(offset, size)
    if low < 0 or high + size > strand.program.local_bytes:
        raise MachineFault(
            f"access of {size} bytes at local address {high if low >= 0 else low}, "
            f"but a thread has {strand.program.local_bytes} bytes"
        )
    if odd:
        raise MachineFault(f"a {size}-byte access of local memory at {low} is not aligned to {size} bytes")
    thread = (rows_of(strand) * cohort.warps + strand.warps[None, :, None]) * 32 + np.arange(32)
    return cohort.local, thread * per_thread + offset


def _load_local(strand: Strand, instr: Instr, address: Value, bits: int, count: int) -> list[Value]:
    data, index = _local(strand, address, bits // 8 * count)
    return [narrow(v) for v in read_words(data, index, bits, count)]


def _store_local(strand: Strand, instr: Instr, address: Value, values: list[Value], bits: int) -> None:
    data, index = _local(strand, address, bits // 8 * len(values))
    write_words(data, index, values, bits, strand.mask)


Load = Callable[[Strand, Instr, Value, int, int], list[Value]]
Store = Callable[[Strand, Instr, Value, list[Value], int], None]

_LOAD: dict[str, Load] = {
    "param": _load_param, "const": _load_const, "global": _load_global, "local": _load_local,
    "shared": load_shared, "cluster": load_cluster,
}  # fmt: skip
_STORE: dict[str, Store] = {
    "param": _store_param, "const": _store_const, "global": _store_global, "local": _store_local,
    "shared": store_shared, "cluster": store_cluster,
}  # fmt: skip
