"""A kernel's time: one cluster of the grid is recorded on the simulator, and its trace is replayed on a chip."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from convc.errors import UnmodelledError
from convc.ir.launch import LaunchSpec
from convc.ir.tile_order import OrderTraffic
from convc.machine import RunOptions, run
from convc.ptx import Instr
from convc.ptx.parser import parse
from convc.support.collecting import uncollected
from convc.timing.assembler import Assembly, assembled, assembly
from convc.timing.attribution import PathPart, by_cause, critical_path
from convc.timing.chip import Footprint, Operands, TimedLaunch, most_beside, time_launch
from convc.timing.classes import GridTiles, tiles_of
from convc.timing.clock import CLOCK, Load, kind_of, under_load
from convc.timing.contents import contents_of, for_the_last
from convc.timing.forms import warp_products
from convc.timing.loops import Unrolled, unrolled_loops, walker
from convc.timing.moving import mark_wrapped
from convc.timing.parameters import Chip, computable
from convc.timing.recorder import Recorder
from convc.timing.sharing import Readers
from convc.timing.spread import lanes_of, spread_chip
from convc.timing.tensor_core import MmaShape
from convc.timing.trace import Trace

MATTERS = 0.02
"""Share of the time from which on a number counts as one that the answer depends on."""

ASKS = "clusterlaunchcontrol.try_cancel"
"""The instruction by which a CTA asks for one that has not begun."""

L2_BYTES = "chip.l2_bytes"

WHOLE = (L2_BYTES, "chip.sms", "chip.shared", "chip.threads", "chip.tensor_columns")
"""Parameters that say how many of something fit: a replay for each of their values, if their range has several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependence:
    """A parameter that the answer depends on.

    Attributes:
        name: of the parameter. evidence: its class.
        low, high: relative change of the time at the ends of the parameter's range.
    """

    name: str
    evidence: str
    low: float
    high: float

    @property
    def most(self) -> float:
        """The larger of the two changes, without its sign."""
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTime:
    """The time of a kernel, and the reasons for it.

    Attributes:
        name: of the layer, or of the entry.
        chip: whose parameters were used, with the clock that the launch goes at.
        ctas: of the grid; those that begin, where they ask for the others.
        launch: the grid on the chip.
        parts: critical path of the first wave, most first.
        shapes: of the MMAs, each once.
        trace: what one cluster does.
        footprint: what a CTA takes of its SM.
        cold: operands come from memory.
        operands: bytes that the launch reads and writes.
        dependent: it may begin before the kernel before it has ended (the text has ``griddepcontrol``).
        assembly: what ptxas made of the text, where it was asked.
        tiles: classes of tiles of a grid of several rounds.
        load: why its clock is lower than the chip's; None: it is not.
        products: spellings of the wmma.mma and mma.sync in its text, each once.
    """

    name: str
    chip: Chip
    ctas: int
    launch: TimedLaunch
    parts: tuple[PathPart, ...]
    shapes: tuple[MmaShape, ...]
    trace: Trace
    footprint: Footprint
    cold: bool
    operands: Operands
    dependent: bool = False
    assembly: Assembly | None = None
    tiles: GridTiles | None = None
    load: Load | None = None
    products: tuple[str, ...] = ()

    @property
    def cycles(self) -> float:
        """Cycles of the SM clock, from the first CTA's entry to the last one's exit."""
        return self.launch.cycles

    @property
    def microseconds(self) -> float:
        """Microseconds at the chip's clock (``chip.clock``)."""
        return self.cycles / self.chip["chip.clock"] / 1e3

    @property
    def gap(self) -> float:
        """Microseconds between the kernel before it in a graph and its own first cycle.

        Empty kernels follow each other after a period, in which a CTA is entered, as it is in ``cycles`` as well. What
        a kernel does before it waits for the one in front of it takes part of this time, but is not taken off.
        """
        period = self.chip["launch.dependent_period" if self.dependent else "launch.period"]
        return max(0.0, period - self.chip["launch.entry"] / self.chip["chip.clock"] / 1e3)

    @property
    def waits(self) -> Mapping[str, float]:
        """Share of the first wave's critical path by cause, most first."""
        total = sum(part.cycles for part in self.parts)
        return {cause: cycles / total for cause, cycles in by_cause(self.parts).items()}

    @uncollected()
    def dependences(self) -> tuple[Dependence, ...]:
        """Numbers whose range moves the time by `MATTERS` and more, most first.

        One replay carries the ends of all ranges (`convc.timing.spread`), but for what is compared with whole numbers.
        """
        parameters = {name: one for name, one in self.chip.parameters.items() if name != CLOCK}
        every = [(name, end) for name, one in parameters.items() for end in one.range if end != one.value]
        ends = [(name, end) for name, end in every if name not in WHOLE]
        lanes = lanes_of(self._near(spread_chip(self.chip, ends)))
        times = np.broadcast_to(lanes, len(ends) + 1)
        changes = dict(zip(ends, (times[1:] / times[0] - 1).tolist(), strict=True))
        changes |= {(name, end): self._at(name, end) for name, end in every if name in WHOLE}
        found = [
            Dependence(
                name=name,
                evidence=one.evidence,
                low=changes.get((name, one.range[0]), 0.0),
                high=changes.get((name, one.range[1]), 0.0),
            )
            for name, one in parameters.items()
        ]
        return tuple(sorted((one for one in found if one.most >= MATTERS), key=lambda one: (-one.most, one.name)))

    def _at(self, name: str, value: float) -> float:
        """Relative change of the time where a parameter has another value."""
        size = self.operands.read + self.operands.written
        if name == L2_BYTES and (size <= value) == (size <= self.chip[name]):
            return 0.0  # it is only compared with that
        return self._near(self.chip.changed({name: value})) / self.cycles - 1

    def _near(self, chip: Chip) -> float:
        """Cycles on a chip that differs little."""
        return self._on(chip, self.launch).cycles

    def _on(self, chip: Chip, like: TimedLaunch | None) -> TimedLaunch:
        return time_launch(self.trace, self.ctas, self.footprint, chip, self.cold, self.operands, like, self.tiles)

    @uncollected()
    def on(self, chip: Chip) -> TimedLaunch:
        """Time this launch with other parameters."""
        return self._on(chip, None)

    def __repr__(self) -> str:
        return f"<KernelTime {self.name}: {self.cycles:.0f} cycles on {self.chip.name}>"


def waits_of_all(kernels: Iterable[KernelTime]) -> Mapping[str, float]:
    """Share of the time of several kernels by cause, most first; each round is taken to wait as its first one does."""
    spent: dict[str, float] = defaultdict(float)
    total = 0.0
    for kernel in kernels:
        total += kernel.microseconds
        for cause, share in kernel.waits.items():
            spent[cause] += share * kernel.microseconds
    return {cause: time / total for cause, time in sorted(spent.items(), key=lambda pair: -pair[1])}


def gaps(kernels: Sequence[KernelTime]) -> float:
    """Microseconds between kernels that a graph launches one behind the other."""
    return sum(kernel.gap for kernel in kernels[1:])


def spread(dependences: tuple[Dependence, ...]) -> float:
    """Relative uncertainty of a time: the changes of independent numbers, added as squares."""
    return math.sqrt(sum(one.most**2 for one in dependences))


def _running(text: str, file: str, launch: LaunchSpec, chip: Chip) -> tuple[int, int]:
    """CTAs that begin, and tiles that the one with most makes: the next free CTA takes the next tile.

    All take as long for one here, so that they take turns as if each went on by their number.
    """
    sms = int(chip["chip.sms"])
    if launch.ctas <= sms or all(instr.form.name != ASKS for instr in _body(text, file, launch.entry)):
        return launch.ctas, 1
    return sms, -(-launch.ctas // sms)


def _recorded(first: int, turns: int, launch: LaunchSpec) -> tuple[int, int]:
    """First CTA to run and the one to stop before: a cluster, or two with those that they ask for."""
    count = math.prod(launch.cluster) * (1 if turns == 1 else 2 * turns)
    start = first if turns == 1 else max(0, min(first, launch.ctas - count))
    return start, min(start + count, launch.ctas)


def _check_alone(footprint: Footprint, chip: Chip) -> None:
    """UnmodelledError where CTAs that ask for others share an SM."""
    beside = most_beside(footprint, chip)
    if beside > 1:
        raise UnmodelledError(
            f"{ASKS} cannot be timed with {beside} CTAs per SM: which CTA gets a tile then depends on time",
            hint="time a kernel with one CTA per SM (more than half of an SM's shared memory)",
        )


@uncollected()
def time_kernel(  # noqa: PLR0913 - each is one choice, and most are left out
    text: str,
    launch: LaunchSpec,
    buffers: Mapping[str, np.ndarray],
    chip: Chip,
    *,
    name: str = "",
    file: str = "kernel.ptx",
    cold: bool = False,
    sass: bool = False,
    order: OrderTraffic | None = None,
) -> KernelTime:
    """Time a launch.

    Args:
        text: PTX.
        launch: how it is launched.
        buffers: contents of its buffers, zeros for those that are left out; they matter only where control flow or an
            address depends on them.
        chip: parameters.
        name: what the kernel is called in reports; by default its entry.
        file: what the text is called in messages.
        cold: nothing is in L2 yet.
        sass: take the instructions that ptxas makes of the text, and its registers.
        order: what is known of the order in which tiles are made.

    Raises:
        PtxSyntaxError, UnmodelledError, LaunchError: the simulator does not take it, or its control flow depends on
        time. MachineFault, DeadlockError: it fails.
        ToolError: with ``sass``, ptxas or nvdisasm is missing, or refuses the text.
    """
    made = assembly(text, launch.entry, file=file) if sass else None
    cluster = math.prod(launch.cluster)
    running, turns = _running(text, file, launch, chip)
    given = contents_of(launch, buffers, name or launch.entry)
    starts = [] if made is None else _starts(text, file, launch.entry)

    at_once = min(running, int(chip["chip.sms"])) // cluster * cluster
    others = Readers(text=text, launch=launch, contents=given, file=file, ctas=at_once, gpcs=int(chip["gpc.count"]))

    def recorded(first: int, end: int) -> tuple[Recorder, Trace]:
        recorder = Recorder(_unrolled(text, file, launch.entry))
        run(text, launch, contents, file=file, options=_alone(first, end), observer=recorder)
        others.mark(recorder.trace)
        if made is None:
            return recorder, recorder.trace
        mark_wrapped(recorder.trace.works, made.shift_loops(starts))
        return recorder, assembled(recorder.trace, made.code, starts)

    # A cluster in the middle of a row is one without a border, as most are.
    busiest = None if cluster > 1 or turns > 1 else walker(_body(text, file, launch.entry), launch.ctas)
    first = middle_of_row(launch) if busiest is None else busiest
    part = _recorded(first, turns, launch)
    body = _body(text, file, launch.entry)
    contents = for_the_last(body, given, lambda: run(text, launch, given, file=file, options=_alone(*part)).buffers)
    recorder, trace = recorded(*part)
    footprint = _footprint(launch, recorder, made)
    if turns > 1:
        _check_alone(footprint, chip)
    operands = _operands(launch, recorder, order)

    def once(on: Chip, like: TimedLaunch | None, tiles: GridTiles | None) -> TimedLaunch:
        return time_launch(trace, running, footprint, on, cold, operands, like, tiles)

    def classes() -> GridTiles | None:
        if busiest is not None:
            return None
        return tiles_of(launch, trace, lambda number: recorded(number, number + cluster)[1])

    with computable(chip):
        timed, chip, load, tiles = _timed(once, classes, chip, kind_of(_body(text, file, launch.entry)))
    return KernelTime(
        name=name or launch.entry,
        chip=chip,
        ctas=running,
        launch=timed,
        parts=critical_path(timed.events),
        shapes=tuple(dict.fromkeys(work.mma for work in trace.works if work.mma is not None)),
        trace=trace,
        footprint=footprint,
        cold=cold,
        operands=operands,
        dependent=any(instr.form.opcode == "griddepcontrol" for instr in _body(text, file, launch.entry)),
        assembly=made,
        tiles=tiles,
        load=load,
        products=warp_products(_body(text, file, launch.entry)),
    )


def _alone(first: int, end: int) -> RunOptions:
    """Run these CTAs alone, as they are recorded."""
    return RunOptions(ctas=(first, end), resident=2, grants="ordered")


def _footprint(launch: LaunchSpec, recorder: Recorder, made: Assembly | None) -> Footprint:
    """The parts of an SM that a CTA takes."""
    return Footprint(
        shared_bytes=launch.shared_bytes,
        columns=recorder.most_columns,
        threads=math.prod(launch.block),
        registers=recorder.registers if made is None else made.registers,
    )


def _operands(launch: LaunchSpec, recorder: Recorder, order: OrderTraffic | None) -> Operands:
    """Bytes that a launch reads and writes, and what is known of those that come from memory."""
    return Operands(
        read=_size(launch, recorder.read) if order is None or order.reached is None else order.reached,
        written=_size(launch, recorder.written - recorder.read),
        fetched=None if order is None else order.fetched,
    )


def _timed(
    once: Callable[[Chip, TimedLaunch | None, GridTiles | None], TimedLaunch],
    classes: Callable[[], GridTiles | None],
    chip: Chip,
    kind: str,
) -> tuple[TimedLaunch, Chip, Load | None, GridTiles | None]:
    """Time a launch with all classes of its tiles, at the clock that its load leaves it.

    Args:
        once: times it on a chip, like another time, with classes of tiles.
        classes: finds those of a launch of several rounds.
        chip: at its full clock.
        kind: of its MMAs.
    """
    first = once(chip, None, None)
    tiles = classes() if first.rounds > 1 else None
    whole = once(chip, first, tiles) if tiles is not None and tiles.parts else first
    launch, slowed, load = under_load(lambda on: whole if on is chip else once(on, whole, tiles), chip, kind)
    return launch, slowed, load, tiles


def target_of(text: str, file: str = "kernel.ptx") -> str:
    """The target that a text names, as ``sm_100a``; PtxSyntaxError where it is not well formed."""
    return parse(text, file).target


def middle_of_row(launch: LaunchSpec) -> int:
    """Number of the first CTA of the cluster in the middle of the grid's first row, where x alone counts.

    Tiles that are not whole lie at the ends of the axes of a grid, so the first of a few is whole more often than the
    last.
    """
    row = launch.grid[0] // launch.cluster[0]
    return (row - 1) // 2 * math.prod(launch.cluster)


def _size(launch: LaunchSpec, names: set[str]) -> int:
    """Bytes of some buffers; variables of the module, which a kernel may read as well, are no operands."""
    return sum(spec.size_bytes for name, spec in launch.buffers.items() if name in names)


def _starts(text: str, file: str, entry: str) -> list[int]:
    """Lines on which an instruction of a kernel begins."""
    return sorted({instr.span.line for instr in _body(text, file, entry)})


@functools.lru_cache(maxsize=4)
def _body(text: str, file: str, entry: str) -> Sequence[Instr]:
    """The instructions of a kernel; none where there is no such kernel, which the simulator says."""
    kernels = [kernel for kernel in parse(text, file).kernels if kernel.name == entry]
    return kernels[0].body if kernels else ()


@functools.lru_cache(maxsize=64)
def _unrolled(text: str, file: str, entry: str) -> Unrolled:
    """The loops of a kernel that ptxas unrolls."""
    return unrolled_loops(_body(text, file, entry))
