"""Copies that CTAs of a GPC have in common: what one of them reads others read too, at about the same time.

A stated model of where CTAs lie: those that follow each other fill a GPC, and each GPC gets as many, as an H100 and an
H200 do (``places_h200.json`` of the recordings; the SMs of a GPC are those that clusters join). Which copies are alike
is seen where all CTAs of a round make their first ones.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from convc.ir.launch import LaunchSpec
from convc.machine import RunOptions, run
from convc.machine.state.observed import ObservedStrand
from convc.machine.state.observer import GlobalRange, LaneAccess, Observer, Operation, Transfer
from convc.ptx import Instr
from convc.timing.trace import Trace

MOST_STEPS = 20_000
"""Instructions after which no first copy is waited for."""


class _Seen(Exception):
    """All has been seen."""


class _Heads(Observer):
    """What the first copy of each buffer reads, of every CTA."""

    wants = frozenset[str]()

    def __init__(self, wanted: Iterable[tuple[int, str]], ctas: int, cluster: int) -> None:
        """``wanted``: ranks in their cluster, and the buffers that they copy."""
        self.found: dict[str, dict[int, Hashable]] = defaultdict(dict)
        self._cluster = cluster
        self._left = {(cta, buffer) for rank, buffer in wanted for cta in range(rank, ctas, cluster)}
        self._steps = 0

    def step(self, strand: ObservedStrand, instr: Instr) -> None:
        """Give up on a kernel that copies nothing."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise _Seen

    def copy(self, strand: ObservedStrand, instr: Instr, transfer: Transfer) -> None:
        """The places that each CTA reads; of a buffer the first ones."""
        memory = transfer.memory
        if memory is None or transfer.barrier is None:
            return
        for position, cta in enumerate(transfer.rows.tolist()):
            if (cta, memory.buffer) in self._left:
                self._left.remove((cta, memory.buffer))
                self.found[memory.buffer][cta] = _places(memory, position)
        if not self._left:
            raise _Seen

    def tensor_op(self, strand: ObservedStrand, instr: Instr, operation: Operation) -> None:
        """The first stage is there: nothing more is expected."""
        raise _Seen

    def warpgroup_multiply(self, strand: ObservedStrand, instr: Instr, accesses: Sequence[LaneAccess]) -> None:
        """The first stage is there: nothing more is expected."""
        raise _Seen


def _places(memory: GlobalRange, position: int) -> Hashable:
    """The places of a copy, as what can be compared."""
    return tuple((size, np.asarray(offsets).tobytes()) for _, offsets, size in memory.lines(np.array([position])))


@dataclass(slots=True, kw_only=True)
class Readers:
    """A launch whose CTAs are asked what they read in common.

    Attributes:
        text, launch, contents, file: the kernel, its launch and buffers, and what the text is called in messages.
        ctas: that are on the chip at the same time. gpcs: of the chip.
    """

    text: str
    launch: LaunchSpec
    contents: Mapping[str, np.ndarray]
    file: str
    ctas: int
    gpcs: int
    _known: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])

    def mark(self, trace: Trace) -> None:
        """Write down of each copy of a cluster by how many CTAs of a GPC it is made; of all classes of tiles alike."""
        loads = {(work.row, work.buffer) for work in trace.works if work.kind == "load"}
        if not self._known and loads and self.ctas > trace.ctas:
            self._known = self._asked(loads, trace.ctas)
        for number, work in enumerate(trace.works):
            readers, everywhere = self._known.get(work.buffer, (1.0, 1.0))
            trace.works[number] = replace(work, readers=readers, everywhere=everywhere)

    def _asked(self, loads: set[tuple[int, str]], cluster: int) -> dict[str, tuple[float, float]]:
        """CTAs of a GPC, and of the chip, that read the same at a time, on average, of each buffer that is copied."""
        heads = _Heads(loads, self.ctas, cluster)
        options = RunOptions(ctas=(0, self.ctas), resident=self.ctas // cluster, cohort=self.ctas)
        with contextlib.suppress(_Seen):
            run(self.text, self.launch, self.contents, file=self.file, options=options, observer=heads)
        reads = {buffer: list(found.items()) for buffer, found in heads.found.items()}
        return {buffer: (alike(each, self.gpcs, cluster), alike(each, 1)) for buffer, each in reads.items()}


def alike(reads: Sequence[tuple[int, Hashable]], gpcs: int, cluster: int = 1) -> float:
    """CTAs of a GPC that read the same, on average over GPCs; the number of each CTA and what it reads is known."""
    each = of_each(1 + max(cta for cta, _ in reads), gpcs, cluster)
    of_gpc: dict[int, list[Hashable]] = defaultdict(list)
    for cta, places in reads:
        of_gpc[cta // each].append(places)
    return len(reads) / sum(len(set(places)) for places in of_gpc.values())


def of_each(ctas: int, gpcs: int, cluster: int = 1) -> int:
    """CTAs of the fullest GPC, in whole clusters."""
    return -(-ctas // (cluster * gpcs)) * cluster
