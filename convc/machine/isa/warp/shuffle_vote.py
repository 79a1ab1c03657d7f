"""Lanes of a warp among themselves (PTX manual, "shfl.sync", "vote.sync", "match.sync", "redux.sync", "elect.sync").

The lanes that take part are those of the membermask that are active. A membermask that also names lanes that have
parted from these (on hardware they would have to come here first) is reported: the simulator does not wait for them. So
is one that leaves out a lane that executes the instruction, which is undefined.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from convc.machine.base.values import DTYPE, MASK, SIGNED, Value, array, fixed, narrow, width
from convc.machine.isa.float.floating import EXTREME, canonical, extreme
from convc.machine.isa.operands import reader, type_of
from convc.machine.isa.registry import BLIND, CROSS_LANE, Run, op
from convc.machine.isa.threads import first_active_warp
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr

LANES = np.arange(32)


def members(strand: Strand, mask: Value, instr: Instr) -> np.ndarray:
    """bool (rows | 1, warps, 32): lanes that take part."""
    warps = len(strand.warps)
    named = expect_named(strand, mask, instr)
    active = np.ones((1, 1, 1), bool) if strand.mask is None else strand.mask
    part = named & active
    alive = strand.alive()
    if strand.mask is not None and (named & ~active & (True if alive is None else alive)).any():
        strand.cohort.findings.report(
            "warp-sync-mask",
            f"{instr.form.name}: the membermask includes lanes that have diverged from the executing ones",
            instr,
            who=first_active_warp(strand),
        )
    return np.broadcast_to(part, (part.shape[0], warps, 32))


def everyone(strand: Strand, mask: Value) -> bool:
    """Whether a membermask that names all lanes is executed by all of them, as nearly every one is."""
    return strand.mask is None and not isinstance(mask, np.ndarray) and mask == MASK[32]


def expect_named(strand: Strand, mask: Value, instr: Instr) -> np.ndarray:
    """bool (rows | 1, warps | 1, 32 | 1): lanes of a membermask, which must name all that execute (PTX manual)."""
    if not isinstance(mask, np.ndarray) and mask == MASK[32]:
        return np.ones((1, 1, 1), bool)
    named = (array(mask, 32) >> LANES.astype(np.uint32)) & np.uint32(1) != 0
    if (~named if strand.mask is None else strand.mask & ~named).any():
        text = f"{instr.form.name}: the membermask does not include all executing lanes, which is undefined"
        strand.cohort.findings.report("warp-sync-mask", text, instr)
    return named


def lanes_of(value: Value, strand: Strand, bits: int) -> np.ndarray:
    """A value with all warps and lanes spelled out: (rows | 1, warps, 32)."""
    wide = array(value, bits)
    return np.broadcast_to(wide, (wide.shape[0], len(strand.warps), 32))


@op("shfl.sync", traits=BLIND | CROSS_LANE)
def shfl(instr: Instr, table: SlotTable) -> Run:
    """shfl.sync.mode d|p, a, b, c, mask: another lane's a; p says whether that lane is inside the segment.

    Out of the segment a lane gets its own a; from a lane that does not take part (undefined in the manual) what the
    switch ``absent_lane`` says.
    """
    mode = next(m for m in instr.mods if m in ("up", "down", "bfly", "idx"))
    d, p = table.pair(instr.operands[0])
    a, b, c, mask = (table.slot(o, 32) for o in instr.operands[1:5])

    def run(strand: Strand) -> None:
        regs = strand.regs
        if p is None and d is not None and everyone(strand, regs[mask]):
            source, _ = _lanes_read(mode, regs[b], regs[c])
            value = regs[a]
            if not isinstance(value, np.ndarray) or value.shape[2] == 1:
                strand.write(d, value)
                return
            if source.size == 32:
                strand.write(d, narrow(value.take(source.reshape(32), axis=2)))
                return
        taking = members(strand, regs[mask], instr)
        zero = strand.cohort.launch.switches.absent_lane == "zero" and not taking.all()
        if not isinstance(regs[a], np.ndarray) and p is None and not zero:
            if d is not None:
                strand.write(d, regs[a])
            return
        source, inside = _lanes_read(mode, regs[b], regs[c])
        value = lanes_of(regs[a], strand, 32)
        rows = max(value.shape[0], source.shape[0], taking.shape[0])
        shape = (rows, len(strand.warps), 32)
        source = np.broadcast_to(source, shape)
        there = np.take_along_axis(np.broadcast_to(taking, shape), source, axis=2)
        source = np.where(there, source, LANES)
        if d is not None:
            found = np.take_along_axis(np.broadcast_to(value, shape), source, axis=2)
            strand.write(d, narrow(np.where(there, found, 0).astype(found.dtype) if zero else found))
        if p is not None:
            strand.write(p, np.broadcast_to(inside, shape))

    return run


def _lanes_read(mode: str, b: Value, c: Value) -> tuple[np.ndarray, np.ndarray]:
    """`_source` of the values of registers, or of numbers."""
    if isinstance(b, int) and isinstance(c, int):
        return _constant(mode, b, c)
    return _source(mode, array(b, 32), array(c, 32))


@lru_cache(maxsize=256)
def _constant(mode: str, b: int, c: int) -> tuple[np.ndarray, np.ndarray]:
    source, inside = _source(mode, array(b, 32), array(c, 32))
    return fixed(source), fixed(inside)


def _source(mode: str, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(lane to read, whether it is inside the segment), as the manual's program for shfl computes them."""
    b, c = b.astype(np.int64) & 31, c.astype(np.int64)
    clamp = c & 31
    segment = c >> 8 & 31
    limit = (LANES & segment) | (clamp & ~segment)
    low = LANES & segment
    if mode == "up":
        lane = LANES - b
        inside = lane >= limit
    elif mode == "down":
        lane = LANES + b
        inside = lane <= limit
    elif mode == "bfly":
        lane = LANES ^ b
        inside = lane <= limit
    else:
        lane = low | (b & ~segment)
        inside = lane <= limit
    return np.where(inside, lane, LANES), inside


@op("vote.sync", "vote.sync.ballot", traits=CROSS_LANE)
def vote(instr: Instr, table: SlotTable) -> Run:
    """vote.sync.{all, any, uni}.pred and .ballot.b32 over the lanes that take part."""
    mode = next(m for m in instr.mods if m in ("all", "any", "uni", "ballot"))
    d = table.slot(instr.operands[0])
    predicate = reader(instr.operands[1], table)
    mask = table.slot(instr.operands[2], 32)

    def run(strand: Strand) -> None:
        taking = members(strand, strand.regs[mask], instr)
        value = array(predicate(strand.regs), 1)
        yes = taking & value
        if mode == "ballot":
            strand.write(d, _as_bits(yes))
            return
        some = yes.any(axis=2, keepdims=True)
        other = (taking & ~value).any(axis=2, keepdims=True)
        result = {"all": ~other, "any": some, "uni": ~(some & other)}[mode]
        strand.write(d, narrow(np.asarray(result)))

    return run


def _as_bits(lanes: np.ndarray) -> Value:
    """bool (…, 32) as one 32-bit number per warp."""
    words = (lanes.astype(np.uint64) << LANES.astype(np.uint64)).sum(axis=2, keepdims=True)
    return narrow(words.astype(np.uint32))


@op("activemask", traits=CROSS_LANE)
def activemask(instr: Instr, table: SlotTable) -> Run:
    """activemask.b32 d: the lanes that execute this together."""
    d = table.slot(instr.operands[0])

    def run(strand: Strand) -> None:
        if strand.mask is None:
            strand.write(d, MASK[32])
            return
        strand.write(d, _as_bits(np.broadcast_to(strand.mask, (strand.mask.shape[0], len(strand.warps), 32))))

    return run


@op("elect.sync", traits=BLIND | CROSS_LANE)
def elect(instr: Instr, table: SlotTable) -> Run:
    """elect.sync d|p, membermask: one active lane (the switch ``elect`` says which) gets p = true, d is its number."""
    d, p = table.pair(instr.operands[0])
    lanes = LANES.reshape(1, 1, 32)
    members = table.slot(instr.args["membermask"], 32)

    def run(strand: Strand) -> None:
        expect_named(strand, strand.regs[members], instr)
        highest = strand.cohort.launch.switches.elect == "highest"
        if strand.mask is None:
            leader: Value = 31 if highest else 0
            chosen = lanes == leader
        else:
            full = np.broadcast_to(strand.mask, (strand.mask.shape[0], len(strand.warps), 32))
            number = (31 - full[:, :, ::-1].argmax(axis=2) if highest else full.argmax(axis=2))[:, :, None]
            leader = number.astype(np.uint32)
            chosen = (lanes == number) & full
        if d is not None:
            strand.write(d, leader)
        if p is not None:
            strand.write(p, chosen)

    return run


@op("match.sync", traits=CROSS_LANE)
def match(instr: Instr, table: SlotTable) -> Run:
    """match.any: the lanes with the same value; match.all: all of them if they agree (p says so), else 0."""
    bits = width(type_of(instr))
    d, p = table.pair(instr.operands[0])
    a = table.slot(instr.operands[1], bits)
    mask = table.slot(instr.operands[2], 32)

    def run(strand: Strand) -> None:
        taking = members(strand, strand.regs[mask], instr)
        value = lanes_of(strand.regs[a], strand, bits)
        same = (value[..., :, None] == value[..., None, :]) & taking[..., None, :]
        words = (same.astype(np.uint64) << LANES.astype(np.uint64)).sum(axis=3).astype(np.uint32)
        if "any" in instr.mods:
            if d is not None:
                strand.write(d, narrow(words))
            return
        everyone = array(_as_bits(taking), 32)
        agree = words == everyone
        if d is not None:
            strand.write(d, narrow(np.where(agree, everyone, np.uint32(0))))
        if p is not None:
            strand.write(p, agree)

    return run


_REDUCE: dict[str, tuple[np.ufunc, int | None]] = {
    "add": (np.add, 0), "and": (np.bitwise_and, MASK[32]), "or": (np.bitwise_or, 0), "xor": (np.bitwise_xor, 0),
    "min": (np.minimum, None), "max": (np.maximum, None),
}  # fmt: skip
_LIMIT = {("u32", "min"): MASK[32], ("u32", "max"): 0, ("s32", "min"): 0x7FFFFFFF, ("s32", "max"): 0x80000000}


@op("redux.sync", traits=CROSS_LANE)
def redux(instr: Instr, table: SlotTable) -> Run:
    """redux.sync.op: the same reduction over the lanes that take part, in every one of them."""
    kind = type_of(instr)
    name = next(m for m in instr.mods if m in _REDUCE)
    d, a, mask = (table.slot(o, 32) for o in instr.operands[:3])
    if kind == "f32":
        return _redux_float(instr, d, a, mask, name)
    function, neutral = _REDUCE[name]
    if neutral is None:
        neutral = _LIMIT[kind, name]

    def run(strand: Strand) -> None:
        taking = members(strand, strand.regs[mask], instr)
        value = np.where(taking, lanes_of(strand.regs[a], strand, 32), np.uint32(neutral))
        if kind == "s32":
            value = value.view(SIGNED[32])
        result = function.reduce(value, axis=2, keepdims=True, dtype=value.dtype)
        strand.write(d, narrow(result.view(DTYPE[32])))

    return run


def _redux_float(instr: Instr, d: int, a: int, mask: int, name: str) -> Run:
    """min and max of f32: lane by lane; lanes that do not take part repeat the first one that does."""
    two = extreme(name == "max", "f32", {"NaN"} & set(instr.mods))
    reduce = EXTREME[name == "max", "NaN" in instr.mods].reduce

    def run(strand: Strand) -> None:
        if everyone(strand, strand.regs[mask]):
            value = array(strand.regs[a], 32)
        else:
            taking = members(strand, strand.regs[mask], instr)
            value = lanes_of(strand.regs[a], strand, 32)
            shape = np.broadcast_shapes(value.shape, taking.shape)
            first = np.broadcast_to(taking, shape).argmax(axis=2)[..., None]
            value = np.where(taking, value, np.take_along_axis(np.broadcast_to(value, shape), first, axis=2))
        if "abs" in instr.mods:
            value = value & np.uint32(0x7FFFFFFF)
        found = reduce(value.view(np.float32), axis=2, keepdims=True)
        if np.logical_and.reduce(found, axis=None):
            strand.write(d, narrow(canonical(found, 32)))
            return
        while value.shape[2] > 1:  # a zero, whose sign numpy does not look at
            half = value.shape[2] // 2
            halves = np.ascontiguousarray(value[..., :half]), np.ascontiguousarray(value[..., half:])
            value = np.asarray(two(*halves))
        strand.write(d, narrow(value))

    return run
