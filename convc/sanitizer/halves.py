"""Registers that hold several elements: which instructions keep them apart, and which element goes where.

A register of 32 bits or more may hold a vector: mov packs and unpacks them, arithmetic of two numbers at once works on
each alone, bits and shifts take single ones out. What is said of registers (`convc.sanitizer.registers`) is then said
of each 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from convc.machine.isa.all import forms_with
from convc.machine.isa.registry import Traits
from convc.ptx import Imm, Instr, Operand, Reg, Sink, Vector

BITWISE = forms_with(Traits.BITWISE)
PURE = forms_with(Traits.PURE)

BITS = 16
"""Of the smallest element that is told apart."""

Held = np.ndarray | int
"""Of each element (elements or 1, rows, warps, 32) of a register; a number where all are the same."""

PAIRS = {"f32x2": 2, "f16x2": 1, "bf16x2": 1}
"""Types of two numbers, by how many times `BITS` each has."""


def whole(held: Held) -> Held:
    """Join the elements of a register into what is said of all of them (rows, warps, 32)."""
    return held.max(axis=0) if isinstance(held, np.ndarray) else held


def results(instr: Instr, bits: int, held: Callable[[Operand], Held]) -> dict[int, Held] | None:
    """Follow elements into each register that an instruction writes; None where it does not keep them apart.

    Args:
        bits: of its first result. held: what an operand holds.
    """
    name = instr.form.name
    sources = [held(operand) for operand in instr.operands[1:]]
    type_ = instr.slots.get("type") or ""
    if name == "mov.pack":
        return _packed(instr, bits, held)
    if name == "mov.unpack":
        return _unpacked(instr, sources[0])
    target = instr.operands[0]
    if not isinstance(target, Reg) or bits < BITS or bits % BITS:
        return None
    count = bits // BITS
    found: Held | None = None
    if name == "mov":
        found = sources[0]
    elif name in BITWISE:
        found = _most([_masked(name, instr.operands[1:], at, each, count) for at, each in enumerate(sources)])
    elif type_ in PAIRS and name in PURE:
        found = _of_pairs(_most(sources), PAIRS[type_], count)
    elif name in ("logic.shl", "logic.shr") and isinstance(by := instr.operands[2], Imm) and not type_.startswith("s"):
        found = _shifted(sources[0], by.bits, count, name == "logic.shl")
    elif name == "cvt" and _narrows(instr):
        found = sources[0][:count] if isinstance(sources[0], np.ndarray) else sources[0]
    return None if found is None else {target.slot: found}


def _packed(instr: Instr, bits: int, held: Callable[[Operand], Held]) -> dict[int, Held] | None:
    """mov d, {a, b, …}: the first is the lowest."""
    target, source = instr.operands[:2]
    assert isinstance(target, Reg), "mov.pack makes a register"
    assert isinstance(source, Vector), "mov.pack takes a vector"
    each = bits // len(source.items) // BITS
    if not each:
        return None
    parts = [_spread(held(item), each) for item in source.items]
    if all(isinstance(part, int) and not part for part in parts):
        return {target.slot: 0}
    shape = next(part.shape[1:] for part in parts if isinstance(part, np.ndarray))
    rows = [np.broadcast_to(part, (each, *shape)) for part in parts]
    return {target.slot: np.concatenate(rows)}


def _unpacked(instr: Instr, source: Held) -> dict[int, Held] | None:
    """mov {d, e, …}, a."""
    targets = instr.operands[0]
    assert isinstance(targets, Vector), "mov.unpack makes a vector of a register"
    if not isinstance(source, np.ndarray) or len(source) == 1:
        return {item.slot: source for item in targets.items if isinstance(item, Reg)}
    each = len(source) // len(targets.items)
    if not each:
        return None
    return {
        item.slot: source[at * each : (at + 1) * each]
        for at, item in enumerate(targets.items)
        if isinstance(item, Reg) and not isinstance(item, Sink)
    }


def _spread(held: Held, count: int) -> Held:
    """A register's elements as so many."""
    if isinstance(held, np.ndarray) and len(held) != count:
        return np.broadcast_to(held.max(axis=0), (count, *held.shape[1:]))
    return held


def _most(held: Sequence[Held]) -> Held:
    """Element by element, what any of several registers holds."""
    found: Held = 0
    for each in held:
        found = np.maximum(found, each) if isinstance(each, np.ndarray) or isinstance(found, np.ndarray) else 0
    return found


def _masked(name: str, operands: Sequence[Operand], at: int, held: Held, count: int) -> Held:
    """An operand of and, without the elements that the other one makes zero."""
    other = operands[1 - at] if name == "logic.and" else None
    if not isinstance(other, Imm) or not isinstance(held, np.ndarray):
        return held
    kept = [bool(other.bits >> BITS * element & (1 << BITS) - 1) for element in range(count)]
    return np.where(np.array(kept)[:, None, None, None], held, 0)


def _of_pairs(held: Held, each: int, count: int) -> Held:
    """Numbers of several elements, of which one stands for all."""
    if not isinstance(held, np.ndarray) or len(held) == 1 or each == 1:
        return held
    joined = held.reshape(count // each, each, *held.shape[1:]).max(axis=1)
    return np.repeat(joined, each, axis=0)


def _shifted(held: Held, by: int, count: int, up: bool) -> Held | None:
    """A register shifted by whole elements, zeros behind; None where they are cut."""
    if by % BITS:
        return None
    if not isinstance(held, np.ndarray):
        return held
    full = np.broadcast_to(held, (count, *held.shape[1:]))
    moved = np.zeros_like(full)
    step = min(by // BITS, count)
    if up:
        moved[step:] = full[: count - step]
    else:
        moved[: count - step] = full[step:]
    return moved


def _narrows(instr: Instr) -> bool:
    """Whether a cvt takes the lower part of an integer."""
    to = instr.slots.get("dtype") or ""
    of = instr.slots.get("atype") or ""
    return to[:1] in "us" and of[:1] in "us" and not instr.slots.get("sat") and int(to[1:]) < int(of[1:])
