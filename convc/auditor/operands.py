"""Readers: what gives the value of an operand in a warp."""

from __future__ import annotations

from collections.abc import Callable

from convc.auditor.lanes import LANES, Value, evaluate, gather
from convc.auditor.state import Warp
from convc.ptx import Address, Imm, NotPred, Operand, Reg, Special, Symbol

Reader = Callable[[Warp], Value]
WORD = (1 << 32) - 1
DOUBLE = (1 << 64) - 1


def reader(operand: Operand | None) -> Reader:
    """The value of a register, a number, a special register, the address of a variable, or an address operand."""
    match operand:
        case Reg(slot=slot):
            return lambda warp: warp.read(slot)
        case Imm(bits=bits):
            return lambda warp: bits
        case Special(name=name):
            return lambda warp: special_value(warp, name)
        case Symbol(name=name, space=space, offset=offset):
            return lambda warp: warp.place(name, space, offset)
        case NotPred(reg=reg):
            slot = reg.slot
            return lambda warp: evaluate(lambda bit: bit ^ 1, warp.read(slot))
        case Address(base=base, offset=0):
            return reader(base)
        case Address(base=base, offset=offset):
            return _moved(reader(base), offset)
        case _:
            return lambda warp: None


def _moved(base: Reader, offset: int) -> Reader:
    def read(warp: Warp) -> Value:
        value = base(warp)
        if type(value) is int:
            return (value + offset) & DOUBLE
        return evaluate(lambda number: (number + offset) & DOUBLE, value)

    return read


def special_value(warp: Warp, name: str) -> Value:
    """A special register (PTX manual, chapter 10); None where the launch does not say it."""
    cta = warp.cta
    head, _, axis = name.partition(".")
    if axis in ("x", "y", "z"):
        index = "xyz".index(axis)
        if head == "tid":
            return gather(_thread(warp.index * LANES + lane, cta.block)[index] for lane in range(LANES))
        extents = {
            "ntid": cta.block,
            "ctaid": cta.place,
            "nctaid": cta.grid,
            "cluster_ctaid": cta.inside,
            "cluster_nctaid": cta.shape,
            "clusterid": cta.cluster_place,
            "nclusterid": cta.clusters,
        }.get(head)
        return None if extents is None else extents[index]
    if name in _MASKS:
        return tuple(_MASKS[name](lane) & WORD for lane in range(LANES))
    return {
        "laneid": tuple(range(LANES)),
        "warpid": warp.index,
        "nwarpid": cta.warp_count,
        "cluster_ctarank": cta.rank,
        "cluster_nctarank": cta.shape[0] * cta.shape[1] * cta.shape[2],
        "is_explicit_cluster": int(cta.explicit),
    }.get(name)


_MASKS: dict[str, Callable[[int], int]] = {
    "lanemask_eq": lambda lane: 1 << lane,
    "lanemask_lt": lambda lane: (1 << lane) - 1,
    "lanemask_le": lambda lane: (2 << lane) - 1,
    "lanemask_gt": lambda lane: -(2 << lane),
    "lanemask_ge": lambda lane: -(1 << lane),
}


def _thread(number: int, block: tuple[int, int, int]) -> tuple[int, int, int]:
    """The coordinates of a thread of a CTA."""
    x, y, _ = block
    return number % x, number // x % y, number // (x * y)
