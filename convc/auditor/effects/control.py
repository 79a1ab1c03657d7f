"""Effects on the CTA as a whole: registers, and kernels in front and behind (PTX manual, 9.7.13.13, 9.7.19.5)."""

from __future__ import annotations

from convc.auditor.effects.registry import Run, effect
from convc.auditor.lanes import at
from convc.auditor.operands import reader
from convc.auditor.state import Dependents, Warp
from convc.ptx import Instr


@effect("griddepcontrol")
def _grid(instr: Instr) -> Run:
    wait = "wait" in instr.mods

    def run(warp: Warp, lanes: int) -> None:
        warp.tick()
        if wait:
            warp.grid_waited = True
            warp.clock["waited", 0] = 1
        else:
            warp.cta.cluster.ledger.look("dependent-launch", instr.index)
            warp.cta.dependents.append(Dependents(warp.doer(instr), dict(warp.clock)))

    return run


@effect("setmaxnreg")
def _registers(instr: Instr) -> Run:
    count = reader(instr.args["count"])

    def run(warp: Warp, lanes: int) -> None:
        warp.cta.cluster.ledger.look("register-sum", instr.index)
        warp.register_count = at(count(warp), lanes)
        warp.at_registers = warp.doer(instr)

    return run
