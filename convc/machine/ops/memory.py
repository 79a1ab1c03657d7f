"""mov, cvta, ld and st (PTX manual, "Data Movement and Conversion Instructions")."""

from __future__ import annotations

import numpy as np

from convc.errors import MachineFault, UnmodelledError
from convc.machine.memory import read_words, write_words
from convc.machine.ops.alu import apply, type_of
from convc.machine.ops.registry import op
from convc.machine.strand import Strand
from convc.machine.values import DTYPE, MASK, Value, array, narrow, width
from convc.ptx import Address, Reg, Sink, Vector


def address_of(operand: Address, program):
    """A function (regs) -> address value for ``[base+offset]``."""
    slot, offset = program.slot(operand.base), operand.offset
    if not isinstance(operand.base, Reg):
        return lambda regs: regs[slot] + offset
    if offset == 0:
        return lambda regs: regs[slot]
    bits = program.widths[slot]
    mask, step = MASK[bits], offset & MASK[bits]

    def run(regs) -> Value:
        base = regs[slot]
        return base + DTYPE[bits].type(step) if isinstance(base, np.ndarray) else (base + offset) & mask

    return run


@op("mov")
def mov(instr, program):
    """mov: copy."""
    return apply(instr, program, lambda a: a, width(type_of(instr)))


@op("mov.pack")
def pack(instr, program):
    """mov d, {a, b, …}: a is the lowest part."""
    bits, target, items = width(type_of(instr)), program.slot(instr.operands[0]), instr.operands[1].items
    part = bits // len(items)
    slots = [program.slot(o, part) for o in items]

    def run(strand: Strand) -> None:
        values = [strand.regs[s] for s in slots]
        if all(not isinstance(v, np.ndarray) for v in values):
            strand.write(target, sum(v << (part * i) for i, v in enumerate(values)))
            return
        total = DTYPE[bits].type(0)
        for i, value in enumerate(values):
            total = total | (array(value, part).astype(DTYPE[bits]) << DTYPE[bits].type(part * i))
        strand.write(target, total)

    return run


@op("mov.unpack")
def unpack(instr, program):
    """mov {d, e, …}, a: d gets the lowest part."""
    bits, source = width(type_of(instr)), program.slot(instr.operands[1])
    slots = _registers(instr.operands[0], program)
    part = bits // len(slots)

    def run(strand: Strand) -> None:
        value = strand.regs[source]
        for i, slot in enumerate(slots):
            if slot is None:
                continue
            if isinstance(value, np.ndarray):
                strand.write(slot, (value >> DTYPE[bits].type(part * i)).astype(DTYPE[part]))
            else:
                strand.write(slot, (value >> (part * i)) & MASK[part])

    return run


@op("cvta", "cvta.to")
def cvta(instr, program):
    """cvta to or from a generic address: shared, global and parameter windows share one made-up address space here."""
    return apply(instr, program, lambda a: a, width(type_of(instr)))


def _shape(instr) -> tuple[str, int, list[str]]:
    """State space, element bits and vector length of a ld or st."""
    spaces = [m for m in instr.mods if m.split("::")[0] in ("param", "shared", "global", "local", "const")]
    if not spaces or spaces[0].split("::")[0] in ("local", "const"):
        raise UnmodelledError(f"the machine has no {instr.form.name} from {spaces[0] if spaces else 'generic'} space")
    count = next((int(m[1:]) for m in instr.mods if m in ("v2", "v4", "v8")), 1)
    return spaces[0].split("::")[0], width(type_of(instr)), count


def _registers(operand, program) -> list[int | None]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    return [None if isinstance(o, Sink) else program.slot(o) for o in items]


@op("ld", "ld.nc")
def load(instr, program):
    """ld{.vec}.type d, [a] from parameter, shared and global memory."""
    space, bits, count = _shape(instr)
    slots = _registers(instr.operands[0], program)
    address = address_of(instr.operands[1], program)
    is_signed = type_of(instr).startswith("s")
    fetch = {"param": _load_param, "shared": _load_shared, "global": _load_global}[space]

    def run(strand: Strand) -> None:
        values = fetch(strand, instr, address(strand.regs), bits, count)
        for slot, value in zip(slots, values, strict=True):
            if slot is not None:
                strand.write(slot, _fit(value, bits, program.widths[slot], is_signed))

    return run


def _fit(value: Value, bits: int, register: int, is_signed: bool) -> Value:
    """ld may write a wider register: zero- or sign-extended (PTX manual, operand sizes beyond the type's)."""
    if register == bits:
        return value
    from convc.machine.ops.arith import extend

    return extend(value, bits, register, is_signed)


def _load_param(strand: Strand, instr, address: Value, bits: int, count: int) -> list[Value]:
    from convc.machine.program import PARAM_WINDOW

    params = strand.cohort.launch.params
    if isinstance(address, np.ndarray):
        raise MachineFault("ld.param with an address that differs between threads")
    offset = address - PARAM_WINDOW
    if not 0 <= offset <= params.size - bits // 8 * count:
        raise MachineFault(f"ld.param outside parameter space (offset {offset} of {params.size} bytes)")
    return [
        int.from_bytes(params[offset + i * bits // 8 : offset + (i + 1) * bits // 8].tobytes(), "little")
        for i in range(count)
    ]


def _active_only(strand: Strand, address: np.ndarray) -> np.ndarray:
    """Give inactive lanes the address of an active one, so that only real accesses are checked."""
    if strand.mask is None:
        return address
    mask = np.broadcast_to(strand.mask, np.broadcast_shapes(strand.mask.shape, address.shape))
    full = np.broadcast_to(address, mask.shape)
    return np.where(mask, full, full[tuple(np.argwhere(mask)[0])])


def _load_global(strand: Strand, instr, address: Value, bits: int, count: int) -> list[Value]:
    size = bits // 8 * count
    lanes = strand.count * strand.row_count if isinstance(strand.count, int) else int(strand.count.sum())
    strand.cohort.stats.global_load_bytes += size * lanes
    if isinstance(address, np.ndarray):
        address = _active_only(strand, address)
    buffer, offset = strand.cohort.launch.memory.locate(address, size)
    return read_words(buffer.data, offset, bits, count)


def shared_offset(strand: Strand, address: Value, size: int, what: str) -> Value:
    """Check a shared address range and alignment; returns it as int or int64 array."""
    limit = strand.cohort.shared.size
    if isinstance(address, np.ndarray):
        offset = _active_only(strand, address).astype(np.int64)
        low, high, odd = int(offset.min()), int(offset.max()), bool((offset % size).any())
    else:
        offset = low = high = int(address)
        odd = offset % size != 0
    if low < 0 or high + size > limit:
        raise MachineFault(f"{what} of {size} bytes at shared address {high:#x}, but the CTA has {limit:#x} bytes")
    if odd:
        raise MachineFault(f"{what} at shared address {low:#x} is not aligned to {size} bytes")
    return offset


def _load_shared(strand: Strand, instr, address: Value, bits: int, count: int) -> list[Value]:
    cohort = strand.cohort
    size = bits // 8 * count
    offset = shared_offset(strand, address, size, "ld.shared")
    places = np.unique(np.asarray(offset).reshape(-1))[:, None] + np.arange(size)
    missing = cohort.shared.written.missing(None, places.reshape(-1), strand.rows)
    if missing:
        cohort.report(
            "shared-memory-unwritten",
            f"ld.shared reads {missing} bytes of shared memory never written",
            instr,
        )
    words = cohort.shared.bytes.view(DTYPE[bits])
    rows = np.arange(cohort.ctas) if strand.rows is None else strand.rows
    index = np.asarray(offset) // (bits // 8)
    index = index.reshape(1, 1, 1) if index.ndim == 0 else index
    return [narrow(words[rows[:, None, None], index + i]) for i in range(count)]


@op("st", result=False)
def store(instr, program):
    """st{.vec}.type [a], b to shared and global memory."""
    space, bits, _ = _shape(instr)
    slots = _registers(instr.operands[1], program)
    address = address_of(instr.operands[0], program)
    put = {"shared": _store_shared, "global": _store_global}.get(space)
    if put is None:
        raise UnmodelledError(f"the machine has no st to {space} space")
    wide = [program.widths[s] > bits for s in slots]

    def run(strand: Strand) -> None:
        regs = strand.regs
        values = [_low(regs[s], bits) if cut else regs[s] for s, cut in zip(slots, wide, strict=True)]
        put(strand, instr, address(regs), values, bits)

    return run


def _low(value: Value, bits: int) -> Value:
    return value.astype(DTYPE[bits]) if isinstance(value, np.ndarray) else value & MASK[bits]


def _thread_shape(strand: Strand) -> tuple[int, int, int]:
    return (strand.row_count, len(strand.warps), 32)


def _store_global(strand: Strand, instr, address: Value, values: list[Value], bits: int) -> None:
    size = bits // 8 * len(values)
    memory = strand.cohort.launch.memory
    lanes = strand.count * strand.row_count if isinstance(strand.count, int) else int(strand.count.sum())
    strand.cohort.stats.global_store_bytes += size * lanes
    full = np.broadcast_to(array(address, 64), _thread_shape(strand))
    if memory.watch is not None:
        _watch(strand, instr, full, size)
    buffer, offset = memory.locate(_active_only(strand, full), size)
    write_words(buffer.data, offset, values, bits, strand.mask)


def _watch(strand: Strand, instr, address: np.ndarray, size: int) -> None:
    """Note which thread writes the watched byte."""
    memory, cohort = strand.cohort.launch.memory, strand.cohort
    byte = memory.watch[0]
    hit = (address <= byte) & (byte < address + np.uint64(size))
    if strand.mask is not None:
        hit = hit & strand.mask
    for row, warp, lane in np.argwhere(hit):
        number = row if strand.rows is None else strand.rows[row]
        memory.watched.append((instr, cohort.number(number), int(strand.warps[warp]), int(lane)))


def _store_shared(strand: Strand, instr, address: Value, values: list[Value], bits: int) -> None:
    cohort = strand.cohort
    cohort.core.seal()
    size = bits // 8 * len(values)
    offset = shared_offset(strand, address, size, "st.shared")
    stride = cohort.shared.bytes.shape[1]
    rows = np.arange(cohort.ctas) if strand.rows is None else strand.rows
    full = np.broadcast_to(np.asarray(offset), _thread_shape(strand))
    write_words(cohort.shared.bytes.reshape(-1), full + rows[:, None, None] * stride, values, bits, strand.mask)
    active = full if strand.mask is None else full[np.broadcast_to(strand.mask, full.shape)]
    places = (np.unique(active)[:, None] + np.arange(size)).reshape(-1)
    cohort.shared.written.mark(places, strand.rows)
