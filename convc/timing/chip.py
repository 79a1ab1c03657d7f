"""The grid on the chip: CTAs on SMs, in rounds, and what each SM gets of what all share.

A stated scheduler model: SMs are filled round by round with as many CTAs as fit beside each other; a round begins when
the one before has ended. SMs get equal shares of L2 and of memory; those that read while others do not have more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from convc.timing.classes import GridTiles, in_order
from convc.timing.engine import PARTITIONS, Replay
from convc.timing.events import Event
from convc.timing.parameters import Chip
from convc.timing.shares import a_cycle, fullest, side_by_side, sm_share
from convc.timing.spread import later, later_anywhere, latest, sooner, where_later
from convc.timing.tensor_core import read_a_cycles, read_b_cycles
from convc.timing.trace import Trace, Work

CTA_BYTES = 1024
"""Shared memory that a CTA takes beyond what it asks for (CUDA programming guide)."""

REGISTERS = 65536
"""Registers of an SM (CUDA programming guide)."""

WARP_REGISTERS = 256
"""Registers are dealt out to a warp in this many (CUDA occupancy calculator)."""

MOST_CTAS = 32
"""CTAs that an SM holds at most (CUDA programming guide)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """The parts of an SM that a CTA takes.

    Attributes:
        shared_bytes: of shared memory. columns: of tensor memory. threads: how many.
        registers: of each thread; 0 where it is not known, which is taken to be few enough.
    """

    shared_bytes: int
    columns: int
    threads: int
    registers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """Bytes of the buffers that a launch reads, and of those that it only writes.

    Attributes:
        read: of what is read; of a buffer in part, where that is known.
        written: of buffers that are only written.
        fetched: those that reads bring from memory where L2 does not hold all; None: each byte once.
    """

    read: int = 0
    written: int = 0
    fetched: int | None = None


NO_OPERANDS = Operands()

TURNS = 4
"""Turns at most until a round's share of L2 and its time agree."""

CLOSE = 0.01
"""Difference of shares that is none."""

ALL = 0.98
"""Part of the SMs that is all of them."""

IN_STEP = 0.95
"""Part of its time for which an SM may need its share of L2 and not be held up by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedLaunch:
    """A launch, timed.

    Attributes:
        cycles: of the SM clock, from the entry of the first CTA to the exit of the last.
        drained: cycles until the CTAs of the first wave can be replaced: L2 has what their warps have stored.
        beside: CTAs that an SM holds at once. busy: SMs with work in the first wave. l2: bytes a cycle for each.
        replay: of one cluster's SMs in the first wave. use: share of its time in which each unit of the first of
            them works; ``L2`` and ``memory``: of what all SMs that are busy could get.
        clusters: of each round. lengths: cycles of each. reading: part of the SMs that read at the same time in each.
        spread: cycles behind the last round until CTAs that began or went on later have ended.
    """

    cycles: float
    drained: float
    beside: int
    busy: int
    l2: float
    replay: Replay
    use: dict[str, float]
    clusters: tuple[int, ...]
    lengths: tuple[float, ...]
    reading: tuple[float, ...]
    spread: float = 0.0

    @property
    def rounds(self) -> int:
        """The number of rounds that follow each other."""
        return len(self.lengths)

    @property
    def events(self) -> Sequence[Event]:
        """Of the first wave, on the SMs of one cluster."""
        return self.replay.events


def time_launch(
    trace: Trace,
    ctas: int,
    footprint: Footprint,
    chip: Chip,
    cold: bool = False,
    operands: Operands = NO_OPERANDS,
    like: TimedLaunch | None = None,
    tiles: GridTiles | None = None,
) -> TimedLaunch:
    """Time a launch of ``ctas`` CTAs that do what the trace shows, but for those of other classes of tiles.

    Args:
        trace: of one cluster.
        ctas: of the grid.
        footprint: what a CTA takes of its SM.
        chip: parameters.
        cold: nothing is in L2 yet.
        operands: what the launch reads and writes.
        like: the same on a chip that differs little: how many of its SMs read at the same time is a first guess.
        tiles: classes of those that are not whole; without it all are.
    """
    guess = (1.0, 1.0) if like is None else (like.reading[0], like.reading[-1])
    clusters = ctas // trace.ctas
    beside = most_beside(footprint, chip)
    slots = int(chip["chip.sms"]) // trace.ctas
    whole, rest = divmod(clusters, slots * beside)
    once = whole == 0 or (whole == 1 and not rest)
    grid = _Grid(trace, slots, chip, *_misses(trace, clusters, operands, chip, cold), once)
    first = grid.settled(min(clusters, slots * beside), guess[0])
    each = [min(clusters, slots * beside)] * max(whole, 1)
    lengths = [first.drained] * (max(whole, 1) - 1)
    lengths.append(first.drained if whole and rest else first.cycles)
    reading = list(first.reading) * max(whole, 1)
    rounds = [first]
    if whole and rest:
        last = grid.settled(rest, guess[1])
        each.append(rest)
        lengths.append(last.cycles)
        reading += last.reading
        rounds.append(last)
    least = grid.least(clusters)
    if tiles is not None and tiles.parts and len(lengths) > 1:
        lengths, each, least = grid.mixed(tiles, slots * beside, rounds)
        reading = [*first.reading * (len(lengths) - 1), rounds[-1].reading[0]]
    gaps = (len(lengths) - 1) * (chip["launch.replace"] - chip["launch.entry"])
    stretch = later(1.0, (latest(least.values()) - gaps) / sum(lengths))
    spread = (chip["launch.spread"] + chip["launch.slowest"] * lengths[-1]) * first.busy / chip["chip.sms"]
    return replace(
        first,
        cycles=stretch * sum(lengths) + gaps + spread,
        spread=spread,
        beside=beside,
        clusters=tuple(each),
        lengths=tuple(stretch * length for length in lengths),
        reading=tuple(reading),
    )


def _misses(trace: Trace, clusters: int, operands: Operands, chip: Chip, cold: bool) -> tuple[float, float]:
    """Part of all reads that comes from memory, and bytes that memory moves for each that is read.

    Each byte of the operands comes from memory once where L2 does not hold all of them at the start: it is taken to
    hold what it was given last, and data of more than its size pass through it. Who knows in which order tiles are made
    may know better (`Operands.fetched`).
    """
    fits = operands.read + operands.written <= chip["chip.l2_bytes"]
    if not cold and fits:
        return 0.0, 0.0
    read = clusters * _bytes(trace, "load")
    if not read or not operands.read:
        return float(cold), float(cold)
    fetched = operands.read if fits or operands.fetched is None else operands.fetched
    return min(1.0, fetched / read), (fetched if fits else fetched + operands.written) / read


def _bytes(trace: Trace, kind: str) -> int:
    """Bytes that copies of a kind move to or from memory or L2."""
    return sum(work.bytes - work.filled for work in trace.works if work.kind == kind)


@dataclass(frozen=True, slots=True)
class _Grid:
    """A grid of equal clusters.

    Attributes:
        trace: of one. slots: of clusters, side by side on the chip.
        missed, traffic: see `_misses`.
        once: all of them are on the chip at the same time, and begin together.
    """

    trace: Trace
    slots: int
    chip: Chip
    missed: float
    traffic: float
    once: bool

    def round(self, clusters: int, reading: float = 1.0, step: bool = False) -> tuple[TimedLaunch, float]:
        """A round of that many clusters.

        Args:
            clusters: how many.
            reading: part of the SMs that read at the same time.
            step: they stay in step, and share a request of the same with all others of their GPC that make it.

        All CTAs get the same: SMs that hold more of them ask for more. Where SMs read at different times (`chip.apart`)
        each has more of L2 while it does. Of idle SMs some GPCs have fewer; the launch ends with the fullest.

        Returns:
            The round, and the part of its SMs that read at the same time.
        """
        chip = self.chip
        beside = -(-clusters // self.slots)
        busy = min(clusters, self.slots) * self.trace.ctas
        uneven = fullest(busy, self.trace.ctas, chip) if self.once and clusters < self.slots else 1.0
        crowd = sm_share(chip, self.asking(clusters, 1.0), self.missed, self.traffic, step, uneven)
        l2 = sm_share(chip, self.asking(clusters, reading), self.missed, self.traffic, uneven=uneven).l2
        share = replace(crowd, l2=l2, crowd=crowd.l2 if self.once else l2, apart=not self.once)
        replay = Replay(side_by_side(self.trace, beside), chip, share, self.trace.ctas)
        cycles = replay.run()
        launch = TimedLaunch(
            cycles=cycles,
            drained=later(cycles, latest(sm.drained for sm in replay.sms)),
            beside=beside,
            busy=busy,
            l2=sooner(share.l2, chip["tma.fill"]),
            replay=replay,
            use=_use(replay, cycles, busy, self.traffic),
            clusters=(clusters,),
            lengths=(cycles,),
            reading=(reading,),
        )
        return launch, 1 - chip["chip.apart"] * (1 - replay.sms[0].asked / crowd.l2 / cycles)

    def asking(self, clusters: int, reading: float) -> float:
        """SMs that ask at the same time in a round of that many clusters; one at least, whatever part of them reads."""
        beside = -(-clusters // self.slots)
        return later(1.0, clusters / beside * self.trace.ctas * reading)

    def settled(self, clusters: int, reading: float) -> TimedLaunch:
        """A round of that many clusters: in step where L2 lets them; ``reading`` is the first guess.

        SMs that begin together stay together as long as each goes at its own pace. Where they have to wait for L2 some
        wait longer than others, and soon they ask for the same at different times.
        """
        if self.once:
            found, now = self._settled(clusters, reading, True)
            if now < IN_STEP:
                return found
        return self._settled(clusters, reading, False)[0]

    def _settled(self, clusters: int, reading: float, step: bool) -> tuple[TimedLaunch, float]:
        """A round with as many SMs reading at the same time as then do on average, and that part of them.

        A fixed point between the part of its time for which an SM would need its share of L2, and what it gets.
        """
        found, now = self.round(clusters, reading, step)
        for _ in range(TURNS):
            better = _nearer(reading, now)
            before = self.asking(clusters, reading)
            after = self.asking(clusters, better)
            if not later_anywhere(later(before, after), sooner(before, after)):
                break
            if float(better) == reading and not later_anywhere(self.chip["tma.fill"], found.l2):
                break  # lanes differ, but in all of them an SM has more of L2 than it can take
            reading = better
            found, now = self.round(clusters, reading, step)
        return found, now

    def mixed(
        self, tiles: GridTiles, slots: int, rounds: Sequence[TimedLaunch]
    ) -> tuple[list[float], list[int], dict[str, float]]:
        """Put together a grid of several classes of tiles.

        Args:
            tiles: the classes.
            slots: clusters that are on the chip at the same time.
            rounds: of whole tiles: one that fills the chip, and the last.

        Returns:
            Cycles of what follows each other on the SM that is done last, the clusters of each turn, and what the chip
            needs for the bytes of all.
        """
        kinds = tiles.kinds().tolist()
        grids = [self, *(replace(self, trace=part.trace) for part in tiles.parts)]
        cycles: dict[tuple[int, bool], float] = {}
        leaves: dict[tuple[int, bool], float] = {}
        for late, whole in enumerate(rounds):
            for kind, grid in enumerate(grids):
                found = whole if kind == 0 else grid.round(whole.clusters[0], whole.reading[0])[0]
                cycles[kind, bool(late)] = found.drained
                leaves[kind, bool(late)] = found.cycles
        alike = {one: float(lasting) for one, lasting in cycles.items()}
        had, each = in_order(kinds, slots, alike, float(self.chip["launch.replace"] - self.chip["launch.entry"]))
        needs = [grid.least(kinds.count(kind)) for kind, grid in enumerate(grids)]
        return (
            [cycles[one] for one in had],
            each[: len(had)],
            {rate: sum(each[rate] for each in needs) for rate in needs[0]},
        )

    def least(self, clusters: int) -> dict[str, float]:
        """Cycles that the chip needs for the bytes of some clusters: what L2 reads and writes, what memory moves."""
        chip = self.chip
        share = sm_share(chip, min(clusters, self.slots) * self.trace.ctas, step=self.once)
        loads = [work for work in self.trace.works if work.kind == "load"]
        read = clusters * sum(share.asked(work) for work in loads)
        written = clusters * _bytes(self.trace, "store")
        moved = clusters * _bytes(self.trace, "load") * self.traffic
        rates = {"chip.l2": read, "chip.stores": written, "chip.memory": moved}
        return {rate: amount / a_cycle(chip, rate) for rate, amount in rates.items()}


def _nearer(reading: float, now: float) -> float:
    """The next guess of what part of the SMs reads; in lanes where the last one was good enough, that one again."""
    first = where_later(1.0, reading, (reading + now) / 2, now)
    other = where_later(first, ALL, reading, first)
    return where_later(CLOSE, later(now - reading, reading - now), reading, other)


def most_beside(footprint: Footprint, chip: Chip) -> int:
    """CTAs that fit on an SM."""
    limits = [
        MOST_CTAS,
        int(chip["chip.shared"]) // (footprint.shared_bytes + CTA_BYTES),
        int(chip["chip.threads"]) // footprint.threads,
    ]
    if footprint.columns:
        limits.append(int(chip["chip.tensor_columns"]) // footprint.columns)
    if footprint.registers:
        warp = -(-footprint.registers * 32 // WARP_REGISTERS) * WARP_REGISTERS
        warps = PARTITIONS * (REGISTERS // PARTITIONS // warp)
        limits.append(warps // -(-footprint.threads // 32))
    return max(1, min(limits))


def _use(replay: Replay, cycles: float, busy: int, traffic: float) -> dict[str, float]:
    """Share of a round in which each resource works; of the read port what all take that read."""
    chip = replay.chip
    units = {name: unit.busy for name, unit in replay.sms[0].units.items()}
    lanes = [units.pop(name) for name in list(units) if name.startswith("tensor memory")]
    sms = len(replay.sms)
    mine = [work for work in replay.trace.works if work.row % sms == 0 or (work.pair and (work.row ^ 1) % sms == 0)]
    port = sum(port_cycles(work, chip) for work in mine) + replay.sms[0].shared.busy
    loads = [work for work in mine if work.kind == "load"]
    taken = sum(work.taken for work in loads) * busy
    spent = units | {"tensor memory": latest(lanes), "read port": port, "L2": taken / a_cycle(chip, "chip.l2")}
    if traffic:
        read = sum(work.bytes - work.filled for work in loads) * busy
        spent["memory"] = read * traffic / a_cycle(chip, "chip.memory")
    return {name: worked / cycles for name, worked in spent.items()}


def port_cycles(work: Work, chip: Chip) -> float:
    """Cycles of the port through which shared memory is read, for a work."""
    if work.mma is not None:
        return read_a_cycles(work.mma, chip) + read_b_cycles(work.mma, chip)
    return work.bytes / chip["shared_memory.read_port"] if work.kind in ("cp", "store") else 0.0
