"""Instructions that lanes of a warp do together, and that only compute (PTX manual, 9.7.9.6, 9.7.13.9 to 9.7.13.14)."""

from __future__ import annotations

from convc.auditor.effects.registry import Run, effect
from convc.auditor.lanes import LANES, Value, at, each, evaluate, gather
from convc.auditor.layout import GENERIC, RANK_SHIFT
from convc.auditor.operands import reader
from convc.auditor.state import Warp
from convc.ptx import Instr, Pair, Reg


def _results(instr: Instr) -> tuple[Reg | None, Reg | None]:
    """The registers of ``d`` and ``d|p``."""
    first = instr.operands[0]
    if isinstance(first, Pair):
        one = first.first
        two = first.second
        return (one if isinstance(one, Reg) else None), (two if isinstance(two, Reg) else None)
    return (first if isinstance(first, Reg) else None), None


@effect("elect.sync", pure=True)
def _elect(instr: Instr) -> Run:
    """The lowest lane: which one it is makes no difference to any rule."""
    number, elected = _results(instr)
    members = reader(instr.args["membermask"])

    def run(warp: Warp, lanes: int) -> bool | None:
        mask = at(members(warp), lanes)
        if mask is not None and mask & warp.alive & ~lanes:
            warp.waiting_for = "lanes of this warp"
            return True
        leader = (lanes & -lanes).bit_length() - 1
        if number is not None:
            warp.write(number.slot, leader, lanes)
        if elected is not None:
            warp.write(elected.slot, tuple(int(lane == leader) for lane in range(LANES)), lanes)
        return None

    return run


@effect("shfl.sync", pure=True)
def _shuffle(instr: Instr) -> Run:
    number, valid = _results(instr)
    source, by, clamp = (reader(instr.args[name]) for name in ("a", "b", "c"))
    mode = instr.slots.get("mode")

    def run(warp: Warp, lanes: int) -> None:
        value = source(warp)
        if number is not None:
            warp.write(number.slot, _taken(mode, value, at(by(warp), lanes), at(clamp(warp), lanes)), lanes)
        if valid is not None:
            warp.write(valid.slot, None, lanes)

    return run


def _taken(mode: str | None, value: Value, by: int | None, clamp: int | None) -> Value:
    """What lanes get of each other, of whole warps."""
    if type(value) is not tuple:
        return value
    if by is None or clamp is None or clamp >> 8:
        return None
    match mode:
        case "idx":
            return value[by % LANES]
        case "bfly":
            return gather(value[lane ^ by] if lane ^ by < LANES else value[lane] for lane in range(LANES))
        case _:
            return None


@effect("vote.sync", "vote.sync.ballot", pure=True)
def _vote(instr: Instr) -> Run:
    number, _ = _results(instr)
    source = reader(instr.args["a"])
    mode = "ballot" if instr.form.name.endswith("ballot") else instr.slots.get("mode")

    def run(warp: Warp, lanes: int) -> None:
        votes = each(source(warp), lanes)
        if number is None:
            return
        result: int | None = None
        if None not in votes:
            if mode == "ballot":
                value = source(warp)
                marks = value if type(value) is tuple else (value,) * LANES
                result = sum(1 << lane for lane in range(LANES) if lanes >> lane & 1 and marks[lane])
            else:
                result = {"all": all(votes), "any": any(votes), "uni": len(set(votes)) == 1}.get(str(mode))
        warp.write(number.slot, None if result is None else int(result), lanes)

    return run


@effect("activemask", pure=True)
def _active(instr: Instr) -> Run:
    number, _ = _results(instr)

    def run(warp: Warp, lanes: int) -> None:
        if number is not None:
            warp.write(number.slot, lanes, lanes)

    return run


@effect("mapa", pure=True)
def _mapa(instr: Instr) -> Run:
    """The place at the same offset in another CTA of the cluster."""
    number, _ = _results(instr)
    address = reader(instr.args["a"])
    rank = reader(instr.args["b"])
    generic = not instr.slots.get("space")

    def moved(place: int, to: int) -> int:
        base = GENERIC if generic and place >= GENERIC else 0
        offset = (place - base) & ((1 << RANK_SHIFT) - 1)
        return base + (to << RANK_SHIFT) + offset

    def run(warp: Warp, lanes: int) -> None:
        if number is not None:
            warp.write(number.slot, evaluate(moved, address(warp), rank(warp)), lanes)

    return run


@effect("getctarank", pure=True)
def _rank(instr: Instr) -> Run:
    number, _ = _results(instr)
    address = reader(instr.args["a"])

    def run(warp: Warp, lanes: int) -> None:
        found = warp.locate(at(address(warp), lanes))
        if number is not None:
            warp.write(number.slot, None if found is None else found[0].rank, lanes)

    return run


@effect("cvta", "cvta.to", pure=True)
def _convert(instr: Instr) -> Run:
    """Generic addresses of shared memory have `GENERIC` in front; all others are the same in both spaces."""
    number, _ = _results(instr)
    address = reader(instr.args["a"])
    shared = (instr.slots.get("space") or "").startswith("shared")
    back = instr.form.name == "cvta.to"

    def changed(place: int) -> int:
        if not shared:
            return place
        return place - GENERIC if back and place >= GENERIC else place + (0 if back else GENERIC)

    def run(warp: Warp, lanes: int) -> None:
        if number is not None:
            warp.write(number.slot, evaluate(changed, address(warp)), lanes)

    return run
