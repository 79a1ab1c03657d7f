"""The audit of one kernel: parsed, walked, judged.

A cluster of a launch: made, and walked until none of its warps can go on.

Waits are real: an mbarrier phase ends when its arrivals and bytes are there, a CTA barrier when its threads are. So
what a warp knows when it goes on is what the text made sure of, in whatever order the warps of a GPU run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from convc import ptx
from convc.auditor.ending import judge
from convc.auditor.lanes import LANES
from convc.auditor.layout import Layout, layout_of
from convc.auditor.ledger import Doer, Ledger, Looked, NotUnderstood
from convc.auditor.limits import check_launch
from convc.auditor.program import Program, program_of, registers_in, results
from convc.auditor.state import MOST_ANSWERS, MOST_STEPS, Cluster, Cta, Place, TooLongError, Warp, place_of
from convc.auditor.walk import Walker
from convc.errors import InputError, LaunchError
from convc.ir.findings import Finding, Judged, Verdict
from convc.ir.launch import LaunchSpec
from convc.ptx import Instr, Kernel, Module

MOST_THREADS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited(Judged):
    """The audit of a kernel.

    Attributes:
        entry: its name. file: that of the text.
        findings: accusations, worst first.
        looked: every rule with how much it looked at.
        unclear: places that are not understood.
        clusters: those that were walked, by their numbers.
    """

    entry: str
    file: str
    findings: tuple[Finding, ...]
    looked: tuple[Looked, ...]
    unclear: tuple[NotUnderstood, ...]
    clusters: tuple[int, ...]


def audit_kernel(text: str, launch: LaunchSpec | None = None, file: str = "kernel.ptx") -> Audited:
    """Hold a text, and where there is one its launch, against the rules.

    Without a launch the block and the cluster are those that the text demands, and what parameters hold is not known.

    Args:
        text: the kernel.
        launch: how it is launched.
        file: the text's name.

    Raises:
        PtxSyntaxError: the text is none.
        LaunchError: the launch does not fit the text. InputError: the text has no kernel, or several and no launch.
    """
    module = ptx.parse(text, file, None if launch is None else launch.entry)
    kernel = _kernel(module, launch, file)
    block, shape = _extents(kernel, launch, file)
    ledger = Ledger(file)
    layout = layout_of(module, kernel, launch)
    if launch is not None:
        check_launch(ledger, kernel, layout, launch)
    ledger.by_memory = next((instr for instr in kernel.body if _publishes(instr)), None)
    _unheard(ledger, kernel)
    program = program_of(kernel)
    subject = Subject(ledger=ledger, layout=layout, program=program, launch=launch, block=block, shape=shape)
    walked: list[int] = []
    for number in _numbers(launch, shape):
        cluster = cluster_of(subject, number)
        walk(cluster, program)
        judge(cluster, kernel)
        walked.append(number)
    return Audited(
        entry=kernel.name,
        file=file,
        findings=ledger.findings(),
        looked=ledger.looked(),
        unclear=tuple(sorted(ledger.unclear.values(), key=lambda each: each.line)),
        clusters=tuple(walked),
    )


def _kernel(module: Module, launch: LaunchSpec | None, file: str) -> Kernel:
    if launch is not None:
        kernel = module.kernel(launch.entry)
        if kernel is None:
            what = f"there is no kernel {launch.entry!r}"
            raise LaunchError(what, where=file, hint=f"kernels are: {module.listed()}")
        if len(launch.params) != len(kernel.params):
            what = f"the kernel has {len(kernel.params)} parameters, the launch gives {len(launch.params)}"
            raise LaunchError(what, where=file)
        return kernel
    if len(module.kernels) == 1:
        return module.kernels[0]
    if not module.kernels:
        raise InputError("the text has no kernel (.entry)", where=file)
    what = f"the text has {len(module.kernels)} kernels: {module.listed()}"
    raise InputError(what, where=file, hint="give a launch file")


def _publishes(instr: Instr) -> bool:
    """Whether a thread may learn by this what others have done: an atomic or a strong load, of shared or global."""
    strong = {"acquire", "relaxed", "volatile"} & set(instr.mods)
    return instr.form.opcode == "atom" or (instr.form.opcode == "ld" and bool(strong))


def _unheard(ledger: Ledger, kernel: Kernel) -> None:
    """Waits whose answer no instruction reads."""
    read: set[int] = set()
    for instr in kernel.body:
        own = results(instr)
        for operand in instr.operands[1 if own else 0 :]:
            read |= set(registers_in(operand))
        if instr.guard is not None:
            read.add(instr.guard.slot)
    for instr in kernel.body:
        if "_wait" in instr.form.name and instr.form.opcode == "mbarrier":
            ledger.look("wait-unheard", instr.index)
            if not any(slot in read for slot in results(instr)):
                what = "the predicate of this wait is unused: execution continues even if the phase is not complete"
                ledger.accuse(
                    "wait-unheard", what, Doer(None, None, instr), level=Verdict.review
                )  # some are left by compilers


def _extents(kernel: Kernel, launch: LaunchSpec | None, file: str) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    if launch is not None:
        return launch.block, launch.cluster
    block = kernel.directives.get("reqntid") or kernel.directives.get("maxntid")
    if not block:
        what = "the text does not give the number of threads of a CTA (.reqntid)"
        raise InputError(what, where=file, hint="give a launch file")
    shape = kernel.directives.get("reqnctapercluster") or (1, 1, 1)
    if math.prod(block) > MOST_THREADS or math.prod(shape) > 16:
        raise InputError(f"block {tuple(block)} or cluster {tuple(shape)} is too large", where=file)
    return (block[0], block[1], block[2]), (shape[0], shape[1], shape[2])


def _numbers(launch: LaunchSpec | None, shape: tuple[int, int, int]) -> list[int]:
    """The first cluster, and the last one where there are several: tiles at the edge are there."""
    if launch is None:
        return [0]
    count = math.prod(launch.grid) // math.prod(shape)
    return [0, count - 1] if count > 1 else [0]


MOST_WARPS = 32
"""Warps of a CTA."""


def walk(cluster: Cluster, program: Program) -> None:
    """Let all warps take turns until none can go on."""
    walkers = [Walker(warp, program) for warp in cluster.warps]
    try:
        moved = True
        while moved:
            moved = False
            for walker in walkers:
                moved |= walker.advance()
    except TooLongError:
        cluster.ledger.unknown(None, f"stopped after {MOST_STEPS} operations", lost=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A kernel that is audited.

    Attributes:
        ledger: of its audit. layout: its addresses. program: its operations.
        launch: how it is launched, where that is known. block, shape: extents of a CTA and of a cluster.
    """

    ledger: Ledger
    layout: Layout
    program: Program
    launch: LaunchSpec | None
    block: tuple[int, int, int]
    shape: tuple[int, int, int]


def cluster_of(subject: Subject, number: int) -> Cluster:
    """A cluster of a launch, by its number; of a text alone the only one there is."""
    launch = subject.launch
    shape = subject.shape
    count = math.prod(launch.grid) // math.prod(shape) if launch is not None else 1
    cluster = Cluster(
        ledger=subject.ledger,
        layout=subject.layout,
        block=subject.block,
        grid=launch.grid if launch is not None else (None, None, None),
        shape=shape,
        answers=min(MOST_ANSWERS, count - 1),
        launch=launch,
        number=number,
    )
    first = place_of(number, shape, launch)
    for rank in range(math.prod(shape)):
        inside = (rank % shape[0], rank // shape[0] % shape[1], rank // (shape[0] * shape[1]))
        place: Place = (None, None, None)
        index = rank
        if launch is not None:
            x, y, z = (a + b for a, b in zip(first, inside, strict=True))
            place = (x, y, z)
            index = x + launch.grid[0] * (y + launch.grid[1] * z)
        cta = Cta(cluster=cluster, rank=rank, number=index, place=place, inside=inside)
        cta.warps += _warps(cta, subject)
        cluster.ctas.append(cta)
    return cluster


def _warps(cta: Cta, subject: Subject) -> list[Warp]:
    """The warps of a CTA, the last of which may have fewer lanes."""
    warps: list[Warp] = []
    threads = math.prod(subject.block)
    for index in range(-(-threads // LANES)):
        lanes = min(LANES, threads - index * LANES)
        number = cta.rank * MOST_WARPS + index
        warps.append(Warp(cta, index, number, subject.program.registers, (1 << lanes) - 1))
    return warps
