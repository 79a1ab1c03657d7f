"""wgmma: a product of four warps, complete with its group (PTX manual, 9.7.15)."""

from __future__ import annotations

from convc.auditor.descriptors import end_of, faults_of_wgmma, matrix_of
from convc.auditor.effects.registry import Run, effect
from convc.auditor.lanes import at
from convc.auditor.operands import reader
from convc.auditor.shadow import Access
from convc.auditor.state import Warp
from convc.ptx import Instr

ROWS = 64
K_BYTES = 32


@effect("wgmma.fence")
def _fence(instr: Instr) -> Run:
    def run(warp: Warp, lanes: int) -> None:
        warp.tick()
        warp.cta.cluster.ledger.look("wgmma-order", instr.index)
        warp.fenced_registers = True

    return run


@effect("wgmma.mma_async", "wgmma.mma_async.sp")
def _multiply(instr: Instr) -> Run:
    names = [name for name in ("a_desc", "b_desc") if instr.args.get(name) is not None]
    descriptors = {name: reader(instr.args[name]) for name in names}
    shape = instr.slots.get("shape") or "m64n8k16"
    columns = int(shape.split("n")[1].split("k")[0])
    transposed = {name: f"imm_trans_{name[0]}" for name in names}

    def run(warp: Warp, lanes: int) -> None:
        warp.tick()
        ledger = warp.cta.cluster.ledger
        who = warp.doer(instr)
        ledger.look("wgmma-order", instr.index)
        if not warp.fenced_registers:
            ledger.accuse("wgmma-order", "a wgmma without a wgmma.fence of its warp before it", who)
        warp.multiplied_open += 1
        warp.at_wgmma = who
        for name, read in descriptors.items():
            word = at(read(warp), lanes)
            if word is None:
                ledger.unknown(instr, f"the matrix descriptor {name} is not known")
                continue
            across = instr.args.get(transposed[name])
            rows = ROWS if name == "a_desc" else columns
            _matrix(warp, instr, word, rows, bool(across is not None and reader(across)(warp)))

    return run


def _matrix(warp: Warp, instr: Instr, word: int, rows: int, transposed: bool) -> None:
    ledger = warp.cta.cluster.ledger
    who = warp.doer(instr)
    ledger.look("matrix-descriptor", instr.index)
    for fault in faults_of_wgmma(word):
        ledger.accuse("matrix-descriptor", f"descriptor 0x{word:016x}: {fault}", who)
    matrix = matrix_of(word, warpgroup=True)
    access = Access("wgmma", matrix.start, matrix.start + 16, warp.warpgroup, warp.multiplied + 1, who)
    brought = warp.cta.shared.read(warp.clock, access)
    if brought is not None and brought.swizzle and brought.swizzle != matrix.swizzle:
        what = f"descriptor 0x{word:016x} says swizzle {matrix.swizzle}, the copy wrote {brought.swizzle}"
        ledger.accuse("matrix-descriptor", what, who, brought.who)
    if not transposed and warp.cta.cluster.launched:
        end = end_of(matrix, rows, K_BYTES)
        if end > warp.cta.cluster.layout.end:
            what = f"descriptor 0x{word:016x}: {rows} rows end at byte {end}, shared memory at "
            ledger.accuse("matrix-descriptor", f"{what}{warp.cta.cluster.layout.end}", who)


@effect("wgmma.commit_group")
def _commit(instr: Instr) -> Run:
    def run(warp: Warp, lanes: int) -> None:
        warp.tick()
        warp.cta.cluster.ledger.look("wgmma-order", instr.index)
        warp.multiplied += 1
        warp.multiplied_open = 0

    return run


@effect("wgmma.wait_group")
def _wait(instr: Instr) -> Run:
    left = reader(instr.args["n"]) if "n" in instr.args else reader(instr.operands[0])

    def run(warp: Warp, lanes: int) -> None:
        warp.tick()
        warp.cta.cluster.ledger.look("wgmma-order", instr.index)
        done = max(0, warp.multiplied - (at(left(warp), lanes) or 0))
        group = warp.warpgroup
        warp.clock["multiplied", group] = max(done, warp.knows("multiplied", group))

    return run
