"""tcgen05.mma, cp, shift and commit (PTX manual, 9.7.16.9 to 9.7.16.12)."""

from __future__ import annotations

from convc.auditor.descriptors import (
    K_BYTES,
    Instruction,
    Shape,
    end_of,
    faults,
    faults_of_tcgen05,
    matrix_of,
    shape_of,
    unversioned,
)
from convc.auditor.effects.mbarriers import barrier_in, signalled
from convc.auditor.effects.registry import Run, effect
from convc.auditor.effects.tensor import inside
from convc.auditor.lanes import at
from convc.auditor.operands import reader
from convc.auditor.shadow import Access
from convc.auditor.state import Cta, Warp
from convc.auditor.tensor_shadow import Cells, Span
from convc.ir.findings import Verdict
from convc.ptx import Address, Instr

ALL_LANES = (0, 128)
OPERAND_COLUMNS = 8
"""Columns of A that one instruction reads from tensor memory."""


MULTIPLICATIONS = [
    "tcgen05.mma",
    "tcgen05.mma.sp",
    "tcgen05.mma.ws",
    "tcgen05.mma.ws.sp",
    "tcgen05.mma.block_scale",
    "tcgen05.mma.sp.block_scale",
]
"""Forms that multiply."""


def form_of(instr: Instr) -> Instruction:
    """Kind, CTAs and variants of a tcgen05.mma."""
    return Instruction(
        kind=(instr.slots.get("kind") or "kind::").removeprefix("kind::"),
        group=_group(instr),
        stationary=".ws" in instr.form.name,
        sparse=".sp" in instr.form.name,
        size=instr.slots.get("scale_size") or "",
        a_in_tensor=isinstance(instr.args["a"], Address),
    )


def _group(instr: Instr) -> int:
    return 2 if "cta_group::2" in instr.mods else 1


def ctas_of(warp: Warp, instr: Instr) -> list[Cta]:
    """The CTAs whose memory an instruction uses: with cta_group::2 both of the pair."""
    ctas = warp.cta.cluster.ctas
    if _group(instr) == 1:
        return [warp.cta]
    first = warp.cta.rank & ~1
    return ctas[first : first + 2]


@effect(*MULTIPLICATIONS)
def _multiply(instr: Instr) -> Run:
    form = form_of(instr)
    reads = {name: reader(instr.args[name]) for name in ("d", "a", "b", "idesc")}
    factors = [reader(instr.args[name]) for name in ("scale_a", "scale_b") if instr.args.get(name) is not None]
    moves = bool(instr.slots.get("ashift"))

    def run(warp: Warp, lanes: int) -> None:
        warp.tick()
        warp.issued += 1
        ledger = warp.cta.cluster.ledger
        word = at(reads["idesc"](warp), lanes)
        shape = None
        if word is None:
            ledger.unknown(instr, "unknown instruction descriptor")
        else:
            ledger.look("instruction-descriptor", instr.index)
            for fault in faults(word, form):
                ledger.accuse("instruction-descriptor", fault, warp.doer(instr))
            shape = shape_of(word, form)
        _matrix(warp, instr, at(reads["b"](warp), lanes), "B", shape, form)
        if form.a_in_tensor:
            columns = at(reads["a"](warp), lanes)
            if columns is not None:
                _cells(warp, instr, columns, OPERAND_COLUMNS, _a_lanes(shape, form), writes=moves)
        else:
            _matrix(warp, instr, at(reads["a"](warp), lanes), "A", shape, form)
        for factor in factors:
            columns = at(factor(warp), lanes)
            if columns is not None:
                _cells(warp, instr, columns & 0x3FFFFFFF, 1, ALL_LANES, writes=False)
        target = at(reads["d"](warp), lanes)
        if target is None:
            ledger.unknown(instr, "unknown destination columns")
        elif shape is not None:
            count, where = _result(shape, form)
            _cells(warp, instr, target, count, where, writes=True)

    return run


def _a_lanes(shape: Shape | None, form: Instruction) -> Span:
    """Lanes of A in tensor memory that are read for sure."""
    full = shape is not None and shape.m == 128 * form.group
    return ALL_LANES if full else (0, 1)


def _result(shape: Shape, form: Instruction) -> tuple[int, Span]:
    """Columns of D, and lanes that it has for sure (PTX manual, 9.7.16.10.5, data path layouts)."""
    if form.stationary:
        return shape.n * shape.m // 128, ALL_LANES
    if form.group == 2:
        return (shape.n if shape.m == 256 or form.sparse else shape.n // 2), ALL_LANES if shape.m == 256 else (0, 16)
    return shape.n, ALL_LANES if shape.m == 128 else (0, 16)


def _cells(warp: Warp, instr: Instr, address: int, columns: int, lanes: Span, *, writes: bool) -> None:
    """An asynchronous access of tensor memory, complete with a commit behind it."""
    first = address & 0xFFFF
    for cta in ctas_of(warp, instr):
        inside(warp, instr, cta, first, columns)
        cells = Cells("mma", writes, lanes, (first, first + columns), warp.id, warp.issued, warp.doer(instr))
        cta.tensor.use(warp.clock, cells)


def _matrix(warp: Warp, instr: Instr, word: int | None, name: str, shape: Shape | None, form: Instruction) -> None:
    """An operand in shared memory: its descriptor, and the bytes that it begins with."""
    ledger = warp.cta.cluster.ledger
    if word is None:
        ledger.unknown(instr, f"the matrix descriptor of {name} is not known")
        return
    ledger.look("matrix-descriptor", instr.index)
    who = warp.doer(instr)
    for fault in faults_of_tcgen05(word):
        ledger.accuse("matrix-descriptor", f"descriptor 0x{word:016x} of {name}: {fault}", who)
    if unversioned(word):
        what = f"descriptor 0x{word:016x} of {name}: bits 46-48 are 000, not 001"
        ledger.accuse("matrix-descriptor", what, who, level=Verdict.rule)
    matrix = matrix_of(word, warpgroup=False)
    rows = None
    transposed = False
    if shape is not None:
        transposed = shape.a_transposed if name == "A" else shape.b_transposed
        rows = (shape.m if name == "A" else shape.n) // form.group
    for cta in ctas_of(warp, instr):
        access = Access("mma", matrix.start, matrix.start + 16, warp.id, warp.issued, who)
        brought = cta.shared.read(warp.clock, access)
        if brought is not None and brought.swizzle and brought.swizzle != matrix.swizzle:
            what = f"descriptor 0x{word:016x} of {name} says swizzle {matrix.swizzle}, the copy wrote {brought.swizzle}"
            ledger.accuse("matrix-descriptor", what, who, brought.who)
    if rows and not transposed and warp.cta.cluster.launched:
        end = end_of(matrix, rows, K_BYTES)
        if end > warp.cta.cluster.layout.end:
            what = f"descriptor 0x{word:016x} of {name}: {rows} rows end at byte {end}, shared memory at "
            ledger.accuse("matrix-descriptor", f"{what}{warp.cta.cluster.layout.end}", who)


COPIED = {
    "128x256b": (8, ALL_LANES), "4x256b": (8, None), "128x128b": (4, ALL_LANES), "64x128b": (4, ALL_LANES),
    "32x128b": (4, ALL_LANES),
}  # fmt: skip
"""Columns that a tcgen05.cp writes, and its lanes; None: one lane in each quarter."""


@effect("tcgen05.cp", result=False)
def _copy(instr: Instr) -> Run:
    target = reader(instr.args["taddr"])
    source = reader(instr.args["sdesc"])
    columns, span = COPIED.get(instr.slots.get("shape") or "", (1, None))

    def run(warp: Warp, lanes: int) -> None:
        warp.tick()
        warp.issued += 1
        form = Instruction(kind="", group=_group(instr))
        _matrix(warp, instr, at(source(warp), lanes), "A", None, form)
        address = at(target(warp), lanes)
        if address is not None:
            lane = address >> 16 & 0x7F
            _cells(warp, instr, address, columns, span or (lane, lane + 1), writes=True)

    return run


@effect("tcgen05.shift", result=False)
def _shift(instr: Instr) -> Run:
    target = reader(instr.args["taddr"])

    def run(warp: Warp, lanes: int) -> None:
        warp.tick()
        warp.issued += 1
        address = at(target(warp), lanes)
        if address is not None:
            lane = address >> 16 & 0x7F
            _cells(warp, instr, address, OPERAND_COLUMNS, (lane, lane + 31), writes=True)

    return run


@effect("tcgen05.commit", result=False)
def _commit(instr: Instr) -> Run:
    signal = reader(instr.args["mbar"])
    mask = reader(instr.args["mask"]) if instr.slots.get("multicast") else None

    def run(warp: Warp, lanes: int) -> None:
        warp.tick()
        ledger = warp.cta.cluster.ledger
        found = warp.locate(at(signal(warp), lanes))
        if found is None:
            warp.lose(instr, "unknown mbarrier address")
            return
        ctas = [found[0]]
        if mask is not None:
            ctas = chosen_ctas(warp, instr, at(mask(warp), lanes))
        clock = dict(warp.clock)
        clock["issued", warp.id] = warp.issued
        for cta in ctas:
            barrier = barrier_in(warp, instr, cta, found[1], asynchronous=True)
            if barrier is None:
                return
            ledger.look("arrival-count", instr.index)
            signalled(warp, instr, cta, barrier, asynchronous=True)
            barrier.arrive(clock)

    return run


def chosen_ctas(warp: Warp, instr: Instr, mask: int | None) -> list[Cta]:
    """The CTAs that a mask names."""
    ledger = warp.cta.cluster.ledger
    ledger.look("cluster-mask", instr.index)
    if mask is None:
        warp.lose(instr, "unknown CTA mask")
        return []
    ctas = warp.cta.cluster.ctas
    if not mask or mask >> len(ctas):
        ledger.accuse("cluster-mask", f"mask 0x{mask:x} in a cluster of {len(ctas)}", warp.doer(instr))
    return [cta for cta in ctas if mask >> cta.rank & 1]
