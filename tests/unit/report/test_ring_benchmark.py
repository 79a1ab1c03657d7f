"""What going around the rings costs is counted on the warp that goes around them."""

from __future__ import annotations

from benchmarks import ring
from convc.timing.trace import Item, Slot, Trace


def _item(name: str, step: str, stall: int) -> Item:
    return Item(name=name, step=step, line=1, index=0, sass=Slot(stall, "", False, ""))


def _trace(*warps: list[Item]) -> Trace:
    items = {(0, number): warp for number, warp in enumerate(warps)}
    return Trace(items=items, works=[], phases={}, arrivals={}, ctas=1)


MOVED = [
    _item("I2F", "load.rows", 50),
    _item("UMOV", "mma.multiply", 50),
    _item("mbarrier.arrive", "epilogue.done", 50),
]
"""A warp of the epilogue: ptxas has moved to its place what the other roles compute."""


def test_cycles_between_stages_are_those_of_the_warp_that_announces_them():
    announce = _item(ring.ANNOUNCED, "load.expect", 3)
    loads = [_item("IADD3", "load.rows", 40), announce, _item("UTMALDG", "load.a", 5), announce, announce]
    assert ring.load_cycles(_trace(MOVED, loads)) == (3 + 5 + 3) / 2


def test_instructions_between_products_are_those_of_the_warp_that_multiplies():
    multiply = _item("tcgen05.mma", "mma.multiply", 1)
    wait = [_item("SYNCS", "mma.wait", 1), _item(ring.OUTCOME, "mma.wait", 0)]
    assert ring.mma_instructions(_trace(MOVED, [multiply, *wait, multiply])) == 2
