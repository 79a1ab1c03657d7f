"""A kernel as operations that a walk performs: what matters for barriers, memory and control, and nothing else.

An instruction matters where it has an effect that a rule is about, where it decides where control goes, or where it
computes a register that one of these reads. All others are left out. The result of an instruction whose function the
auditor does not have is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from convc.auditor.arithmetic import function_of, width
from convc.auditor.effects.registry import NO_RESULT, OPAQUE, effect_of
from convc.auditor.lanes import Numeric, evaluate, remembering
from convc.auditor.operands import Reader, reader
from convc.auditor.state import Warp
from convc.ptx import (
    Address,
    Guard,
    Imm,
    Instr,
    Kernel,
    Label,
    NotPred,
    Operand,
    Pair,
    Reg,
    Targets,
    TensorAddress,
    Vector,
)

PLAIN, EFFECT, BRANCH, EXIT, LOST, SWITCH = range(6)
"""What an operation does to control: nothing; perhaps wait; go elsewhere; end; something that is not
followed; go to one of several places."""

WARP_WIDE = frozenset({"bar.sync", "bar.red", "barrier.cluster.arrive", "barrier.cluster.wait", "bar.warp.sync"})
"""Forms for which lanes that parted wait for each other."""


@dataclass(slots=True)
class Operation:
    """One operation.

    Attributes:
        kind: see above. instr: what it is. run: performs it for the lanes of a mask; an `EFFECT` says whether it could.
        guard, negate: register of the predicate, -1 without one. target: of a branch, an index of operations.
        choose: the number of a way. ways: the operations of each.
        writes: registers that it writes. strict: whether a guard that is not known ends the walk.
        together: whether all lanes of the warp have to be there. anyway: it is performed though its guard is not known.
    """

    kind: int
    instr: Instr
    run: Callable[[Warp, int], bool | None] | None = None
    guard: int = -1
    negate: bool = False
    target: int = -1
    choose: Reader | None = None
    ways: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    strict: bool = False
    together: bool = False
    anyway: bool = False


@dataclass(slots=True)
class Program:
    """Operations in the order of the text, and how many registers the kernel has."""

    operations: list[Operation]
    registers: int


def program_of(kernel: Kernel) -> Program:
    """Take from a kernel what matters."""
    body = kernel.body
    needed = _needed(body)
    kept = [instr for instr in body if _matters(instr, needed)]
    index = {instr.index: number for number, instr in enumerate(kept)}
    # A branch may aim at an instruction that is left out: it goes to the next one that is not.
    after = [len(kept)] * (len(body) + 1)
    for at in reversed(range(len(body))):
        after[at] = index.get(at, after[at + 1])
    return Program(operations=[_operation(instr, after) for instr in kept], registers=len(kernel.registers))


def registers_in(operand: Operand | None) -> Iterator[int]:
    """The registers that an operand names, of vectors too."""
    match operand:
        case Reg(slot=slot) | NotPred(reg=Reg(slot=slot)):
            yield slot
        case Address(base=base):
            yield from registers_in(base)
        case TensorAddress(map=base):
            yield from registers_in(base)
        case Vector(items=items):
            for item in items:
                yield from registers_in(item)
        case Pair(first=first, second=second):
            yield from registers_in(first)
            yield from registers_in(second)
        case _:
            return


def results(instr: Instr) -> tuple[int, ...]:
    """Registers that an instruction writes: those of its first operand, but for forms that have no result."""
    if not instr.operands or instr.form.name in NO_RESULT or instr.form.opcode in ("st", "bar", "red", "tcgen05.mma"):
        return ()
    first = instr.operands[0]
    if isinstance(first, Address | TensorAddress):
        return ()
    return tuple(registers_in(first))


def _sources(instr: Instr) -> set[int]:
    """Registers that it reads and that its effect, or its result, depends on."""
    effect = effect_of(instr)
    operands = instr.operands
    found: set[int] = set()
    if effect is not None:
        for operand in operands:
            if isinstance(operand, Vector) and operand is instr.args.get("info"):
                found |= set(registers_in(operand))
            if not isinstance(operand, Vector) and not (effect.data and operand is instr.args.get(effect.data)):
                found |= set(registers_in(operand))
        found -= set(results(instr))
    else:
        own = results(instr)
        for operand in operands[1 if own else 0 :]:
            found |= set(registers_in(operand))
    if instr.guard is not None:
        found.add(instr.guard.slot)
    return found


def _needed(body: tuple[Instr, ...]) -> set[int]:
    """All registers that matter: those that effects and branches read, and those that these are computed of."""
    writers: dict[int, list[Instr]] = {}
    needed: set[int] = set()
    for instr in body:
        for slot in results(instr):
            writers.setdefault(slot, []).append(instr)
        name = instr.form.name
        if effect_of(instr) is not None or name in ("bra", "brx.idx", "ret", "exit", "trap") or name in OPAQUE:
            needed |= _sources(instr)
    waiting = list(needed)
    while waiting:
        for instr in writers.get(waiting.pop(), ()):
            fresh = _sources(instr) - needed
            needed |= fresh
            waiting += fresh
    return needed


def _matters(instr: Instr, needed: set[int]) -> bool:
    name = instr.form.name
    if name in ("bra", "brx.idx", "ret", "exit", "trap") or name in OPAQUE:
        return True
    effect = effect_of(instr)
    if effect is not None:
        return not effect.pure or any(slot in needed for slot in results(instr))
    return any(slot in needed for slot in results(instr))


def _operation(instr: Instr, after: list[int]) -> Operation:
    """The operation of an instruction that matters."""
    name = instr.form.name
    guard: Guard | None = instr.guard
    slot = -1 if guard is None else guard.slot
    operation = partial(Operation, instr=instr, guard=slot, negate=guard is not None and guard.negate)
    if name == "bra":
        label = instr.operands[0]
        assert isinstance(label, Label)
        return operation(BRANCH, target=after[label.target])
    if name in ("ret", "exit", "trap"):
        return operation(EXIT)
    if name == "brx.idx":
        number, targets = instr.operands
        assert isinstance(targets, Targets)
        ways = tuple(after[label.target] for label in targets.labels)
        return operation(SWITCH, choose=reader(number), ways=ways)
    if name in OPAQUE:
        return operation(LOST)
    writes = results(instr)
    effect = effect_of(instr)
    if effect is not None:
        return operation(
            EFFECT,
            run=effect.build(instr),
            writes=writes,
            strict=effect.strict,
            anyway=effect.anyway,
            together=name in WARP_WIDE or "aligned" in instr.mods,
        )
    return operation(PLAIN, run=_plain(instr, writes), writes=writes)


def _plain(instr: Instr, writes: tuple[int, ...]) -> Callable[[Warp, int], None]:
    """What an instruction without effects does to its registers."""
    name = instr.form.name
    if name == "mov.pack":
        return _pack(instr)
    if name == "mov.unpack":
        return _unpack(instr)
    function = function_of(instr)
    first = instr.operands[0] if instr.operands else None
    if function is None or not isinstance(first, Reg | Pair):
        return _forget(writes)
    readers = [reader(operand) for operand in instr.operands[1:]]
    if isinstance(first, Pair):
        return _both(function, readers, first)
    apply = remembering(function)
    slot = first.slot
    mask = (1 << (width(first.type) or 64)) - 1
    if name == "mov":
        (only,) = readers

        def move(warp: Warp, lanes: int) -> None:
            warp.write(slot, only(warp), lanes)

        return move
    if len(readers) == 2:
        one, two = readers

        def work(warp: Warp, lanes: int) -> None:
            value = apply(one(warp), two(warp))
            warp.write(slot, value & mask if type(value) is int else value, lanes)

        return work

    def compute(warp: Warp, lanes: int) -> None:
        value = apply(*[read(warp) for read in readers])
        warp.write(slot, value & mask if type(value) is int else value, lanes)

    return compute


def _forget(writes: tuple[int, ...]) -> Callable[[Warp, int], None]:
    """Results that are not known."""

    def forget(warp: Warp, lanes: int) -> None:
        for slot in writes:
            warp.write(slot, None, lanes)

    return forget


def _both(function: Numeric, readers: list[Reader], pair: Pair) -> Callable[[Warp, int], None]:
    """A comparison that gives its opposite too; a second result that is not that is unknown."""
    plain = len(readers) == 2

    def compute(warp: Warp, lanes: int) -> None:
        value = evaluate(function, *[read(warp) for read in readers])
        if isinstance(pair.first, Reg):
            warp.write(pair.first.slot, value, lanes)
        if isinstance(pair.second, Reg):
            warp.write(pair.second.slot, evaluate(lambda bit: bit ^ 1, value) if plain else None, lanes)

    return compute


def _parts(operand: Operand) -> tuple[tuple[Operand, ...], int]:
    assert isinstance(operand, Vector)
    widths = [width(item.type) for item in operand.items if isinstance(item, Reg)]
    return operand.items, widths[0] if widths else 32


def _pack(instr: Instr) -> Callable[[Warp, int], None]:
    target, source = instr.operands
    items, bits = _parts(source)
    whole = width(instr.slots.get("type") or "b64")
    bits = whole // len(items) if all(isinstance(item, Imm) for item in items) else bits
    readers = [reader(item) for item in items]
    assert isinstance(target, Reg)
    mask = (1 << bits) - 1

    def joined(*numbers: int) -> int:
        return sum((number & mask) << bits * place for place, number in enumerate(numbers))

    def pack(warp: Warp, lanes: int) -> None:
        warp.write(target.slot, evaluate(joined, *[read(warp) for read in readers]), lanes)

    return pack


def _unpack(instr: Instr) -> Callable[[Warp, int], None]:
    target, source = instr.operands
    items, bits = _parts(target)
    read = reader(source)
    mask = (1 << bits) - 1

    def part(number: int, shift: int) -> int:
        return number >> shift & mask

    def unpack(warp: Warp, lanes: int) -> None:
        value = read(warp)
        for place, item in enumerate(items):
            if isinstance(item, Reg):
                warp.write(item.slot, evaluate(part, value, bits * place), lanes)

    return unpack
