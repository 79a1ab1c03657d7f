"""tcgen05 instructions: tensor-memory allocation, mma, commit, ld, waits (PTX manual, "TensorCore 5th Generation")."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from convc.errors import MachineFault, UnmodelledError
from convc.machine.ops.mbarriers import amount_of, barrier_address
from convc.machine.ops.memory import address_of, shared_offset
from convc.machine.ops.registry import op
from convc.machine.strand import BLOCK, Strand
from convc.machine.tensor_core import Mma
from convc.ptx import Address, NotPred, Vector


def _single(strand: Strand, slot: int, what: str) -> int:
    """An operand that must be the same in all CTAs that run in lockstep."""
    value = amount_of(strand, slot)
    if isinstance(value, np.ndarray):
        if (value != value[0]).any():
            raise MachineFault(f"CTAs in lockstep give different {what} operands")
        return int(value[0])
    return int(value)


def _pair(instr) -> bool:
    return instr.slots.get("cta_group") == "cta_group::2"


@op("tcgen05.alloc", result=False)
def alloc(instr, program):
    """tcgen05.alloc [dst], columns: a power of two in 32..512; blocks until free; the address goes to shared memory."""
    if _pair(instr):
        raise UnmodelledError("the machine has no CTA pairs (cta_group::2)")
    target, columns = address_of(instr.args["dst"], program), program.slot(instr.args["columns"], 32)

    def run(strand: Strand) -> int | None:
        cohort = strand.cohort
        count = _single(strand, columns, "column-count")
        if count not in (32, 64, 128, 256, 512):
            raise MachineFault(f"tcgen05.alloc: the column count must be a power of two in 32..512, got {count}")
        if not cohort.tensor.permit:
            raise MachineFault("tcgen05.alloc after tcgen05.relinquish_alloc_permit")
        where = shared_offset(strand, target(strand.regs), 4, "tcgen05.alloc's result")
        base = cohort.tensor.allocate(count)
        if base is None:
            strand.waiting = f"{count} free columns of tensor memory"
            return BLOCK
        cohort.core.seal()
        rows = slice(None) if strand.rows is None else strand.rows
        cohort.shared.bytes[rows, where : where + 4] = np.array([base], np.uint32).view(np.uint8)
        cohort.shared.written.mark(slice(where, where + 4), strand.rows)
        return None

    return run


@op("tcgen05.relinquish_alloc_permit", result=False)
def relinquish(instr, program):
    """tcgen05.relinquish_alloc_permit: this CTA allocates no more."""

    def run(strand: Strand) -> None:
        strand.cohort.tensor.permit = False

    return run


@op("tcgen05.dealloc", result=False)
def dealloc(instr, program):
    """tcgen05.dealloc taddr, columns: give back exactly what was allocated."""
    address, columns = program.slot(instr.operands[0], 32), program.slot(instr.operands[1], 32)

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        cohort.core.seal()
        base, count = _single(strand, address, "address"), _single(strand, columns, "column-count")
        if not cohort.tensor.free(base, count):
            held = ", ".join(f"{n} at {b}" for b, n in cohort.tensor.allocated.items()) or "none"
            raise MachineFault(
                f"tcgen05.dealloc of {count} columns at {base:#x}, which were not allocated so (allocated: {held})"
            )

    return run


@op("tcgen05.mma", result=False)
def mma(instr, program):
    """tcgen05.mma.cta_group::1.kind::{f16,tf32} [d], a-desc, b-desc, idesc, enable-input-d."""
    args = instr.args
    kind = instr.slots["kind"].removeprefix("kind::")
    other = args.get("mask") is not None or args.get("scale") is not None or isinstance(args["a"], Address)
    if kind not in ("f16", "tf32") or other or _pair(instr):
        raise UnmodelledError(
            "the machine multiplies kinds f16 and tf32 of one CTA, operands in shared memory, without mask or scale"
        )
    d, a, b = address_of(args["d"], program), program.slot(args["a"], 64), program.slot(args["b"], 64)
    idesc = program.slot(args["idesc"], 32)
    negate = isinstance(args["enable"], NotPred)
    enable = program.slot(args["enable"].reg if negate else args["enable"], 1)

    def run(strand: Strand) -> None:
        regs, core = strand.regs, strand.cohort.core
        threads = strand.threads()
        rows = None if strand.rows is None else tuple(strand.rows.tolist())
        for thread in threads:
            values = [strand.pick(v, thread) for v in (d(regs), regs[a], regs[b], regs[idesc], regs[enable])]
            for part, where in _uniform_parts(values, rows, strand.cohort.ctas):
                *words, enabled = part
                count = strand.row_count if where is rows else len(where)
                core.issue(Mma(kind, *words, bool(enabled) != negate, where, instr), count)

    return run


def _uniform_parts(values: list, rows: tuple[int, ...] | None, ctas: int):
    """Operands that differ between CTAs issue one group of CTAs after the other."""
    if all(isinstance(v, int) for v in values):
        return [(values, rows)]
    everyone = np.arange(ctas) if rows is None else np.asarray(rows)
    table = np.stack([np.broadcast_to(v, everyone.shape).astype(np.int64) for v in values], axis=1)
    parts = []
    for line in np.unique(table, axis=0):
        chosen = everyone[(table == line).all(axis=1)]
        where = rows if len(chosen) == len(everyone) else tuple(chosen.tolist())
        parts.append(([int(x) & 0xFFFFFFFFFFFFFFFF for x in line], where))
    return parts


@op("tcgen05.commit", result=False)
def commit(instr, program):
    """tcgen05.commit [mbar]: one arrival when the thread's earlier asynchronous tcgen05 operations are done."""
    if _pair(instr) or instr.slots.get("multicast"):
        raise UnmodelledError("the machine has no tcgen05.commit to several CTAs")
    address = barrier_address(instr, program)

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        cohort.core.seal()
        cohort.barrier(address(strand), "tcgen05.commit").arrive(cohort.ctas, strand.rows, strand.count)

    return run


@lru_cache(maxsize=64)
def register_map(shape: str, count: int, offset: int) -> tuple[np.ndarray, np.ndarray]:
    """Lane and column (relative to the address) of every (thread lane, register) of tcgen05.ld and st.

    Tables of the PTX manual, "Data Movement Shapes", compared with a GPU by mlc-ai/TIRx-harness (numsim microtests).
    """
    t, r = np.arange(32)[:, None], np.arange(count)[None, :]
    zero = np.zeros((32, count), np.int64)
    match shape:
        case "32x32b":
            return t + zero, r + zero
        case "16x64b":
            return (t >> 2) + 8 * (t & 1) + zero, ((t >> 1) & 1) + 2 * r
        case "16x128b":
            return (t >> 2) + 8 * (r & 1), (t & 3) + 4 * (r >> 1)
        case "16x256b":
            return (t >> 2) + 8 * ((r >> 1) & 1), (r & 1) + 2 * (t & 3) + 8 * (r >> 2)
        case _:
            return t % 16 + zero, r + offset * (t // 16)


@op("tcgen05.ld")
def load(instr, program):
    """tcgen05.ld.sync.aligned.shape.xN registers, [taddr]: each warp reads its own 32 lanes."""
    shape, target = instr.slots["shape"], instr.args["r"]
    if instr.slots.get("pack") or shape == "16x32bx2":
        raise UnmodelledError("the machine has no tcgen05.ld of shape 16x32bx2, and none with .pack::16b")
    slots = [program.slot(o) for o in (target.items if isinstance(target, Vector) else (target,))]
    lanes, columns = register_map(shape, len(slots), 0)
    span = int(columns.max()) + 1
    address = address_of(instr.args["taddr"], program)

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        cohort.core.seal()
        first = amount_of_value(strand, address(strand.regs))
        block = _window(strand, instr, first, lanes, columns, span, shape)
        for i, slot in enumerate(slots):
            strand.write(slot, block[i])

    return run


def amount_of_value(strand: Strand, value) -> np.ndarray | int:
    """A tensor-memory address per warp: an int, or an array (warps,); the same in all CTAs and lanes."""
    if not isinstance(value, np.ndarray):
        return value
    per_warp = value[:, :, 0]
    if (value != value[:1, :, :1]).any():
        raise MachineFault("tcgen05.ld needs the same address in all lanes of a warp (and, in lockstep, in all CTAs)")
    return np.broadcast_to(per_warp[0], (len(strand.warps),)).astype(np.int64)


def _window(strand: Strand, instr, first, lanes, columns, span: int, shape: str) -> np.ndarray:
    """Cells as (registers, rows, warps, 32), contiguous per register."""
    cohort, warps = strand.cohort, strand.warps
    tensor = cohort.tensor
    base = np.broadcast_to(np.asarray(first), (len(warps),))
    lane, column = base >> 16, base & 0xFFFF
    part = 32 * (warps % 4)
    relative = np.where(lane < 32, lane, lane - part)
    wrong = (relative < 0) | (relative + int(lanes.max()) > 31)
    if wrong.any():
        i = int(wrong.argmax())
        raise MachineFault(
            f"tcgen05.ld.{shape} at tensor-memory lane {int(lane[i])}: "
            f"warp {int(warps[i])} reaches lanes {int(part[i])}..{int(part[i]) + 31} only"
        )
    if not all(tensor.holds(int(c), span) for c in set(column.tolist())):
        raise MachineFault(
            f"tcgen05.ld reads columns {int(column[0])}..{int(column[0]) + span - 1}, which are not allocated"
        )
    rows = slice(None) if strand.rows is None else strand.rows
    where = (part + relative)[:, None, None] + lanes[None]
    wide = column[:, None, None] + columns[None]
    places = (where * 512 + wide).reshape(-1)
    key = ("ld", tuple(base.tolist()), tuple(warps.tolist()), shape, span)
    missing = tensor.written.missing(key, places, strand.rows)
    if missing:
        cohort.report(
            "tensor-memory-unwritten",
            f"tcgen05.ld reads {missing} cells of tensor memory never written",
            instr,
        )
    if (
        shape == "32x32b"
        and len(warps) == 4
        and (warps % 4 == np.arange(4)).all()
        and (relative == 0).all()
        and (column == column[0]).all()
    ):
        block = tensor.cells[rows][:, :, column[0] : column[0] + span].reshape(strand.row_count, 4, 32, span)
    else:
        block = tensor.cells[rows][:, where, wide]
    return np.ascontiguousarray(np.moveaxis(block, -1, 0))


@op("tcgen05.wait", "tcgen05.fence", result=False)
def ordering(instr, program):
    """tcgen05.wait::ld, wait::st and the fences: the machine performs ld and st in order, so nothing is outstanding."""
    return lambda strand: None
