"""The state of a walk of a cluster: its warps, its CTAs, and what they share."""

from __future__ import annotations

from dataclasses import dataclass, field

from convc.auditor.barriers import ClusterBarrier, CtaBarrier, Mbarrier
from convc.auditor.clocks import Clock, join
from convc.auditor.lanes import ALL, UNSET, Unset, Value, blend
from convc.auditor.layout import GENERIC, RANK_SHIFT, Layout
from convc.auditor.ledger import Doer, Ledger
from convc.auditor.shadow import SharedShadow
from convc.auditor.tensor_shadow import Cells, TensorShadow
from convc.ir.findings import Verdict
from convc.ir.launch import LaunchSpec
from convc.ptx import Instr

MOST_STEPS = 1_000_000
"""Operations that a walk of one cluster may take."""

MOST_ANSWERS = 3
"""Clusters that have not begun, and that clusterlaunchcontrol grants to each one that asks, before it declines."""


Place = tuple[int | None, int | None, int | None]
"""Coordinates in a grid; None where it is not known."""


class TooLongError(Exception):
    """A walk takes more operations than it may."""


@dataclass(slots=True)
class Allocation:
    """Columns of tensor memory: the first of them, how many, for how many CTAs, by whom and when."""

    base: int
    columns: int
    group: str
    who: Doer
    warp: int
    time: int
    freed: bool = False


@dataclass(slots=True)
class Dependents:
    """A ``griddepcontrol.launch_dependents``: by whom, and what that warp knew."""

    who: Doer
    clock: Clock


@dataclass(slots=True)
class NcLoad:
    """An ``ld.global.nc``: by whom, of which buffer (None: not known), and whether it stands behind the wait."""

    who: Doer
    buffer: int | None
    behind: bool


class Warp:
    """One warp: its registers, where its lanes are, and what it knows.

    Attributes:
        cta: its CTA. index: its number there. id: its number among all of the cluster.
        groups: lanes by the operation that they are at. alive: lanes that have not exited.
        clock: what it knows. time: how much it did. lost: whether it is followed no further.
    """

    def __init__(self, cta: Cta, index: int, number: int, registers: int, lanes: int = ALL) -> None:
        self.cta = cta
        self.index = index
        self.id = number
        self.registers: list[Value | Unset] = [UNSET] * registers
        self.groups = {0: lanes}
        self.alive = lanes
        self.lost = False
        self.time = 0
        self.clock: Clock = {("runs", cta.rank): 1}
        self.waits: dict[str, int] = {}
        self.loads: list[Cells] = []
        self.stores: list[Cells] = []
        self.issued = 0
        self.groups_open = 0
        self.groups_closed = 0
        self.multiplied_open = 0
        self.multiplied = 0
        self.fenced_registers = False
        self.answers = 0
        self.register_count: int | None = None
        self.at_store: Doer | None = None
        self.grid_waited = False
        self.waiting_for = ""
        self.stuck: dict[int, tuple[str, Instr]] = {}
        self.at_wgmma: Doer | None = None
        self.at_registers: Doer | None = None

    # What operations use.

    def read(self, slot: int) -> Value:
        """A register; unknown where it was never written."""
        value = self.registers[slot]
        return None if isinstance(value, Unset) else value

    def write(self, slot: int, value: Value, lanes: int) -> None:
        """A register, in some lanes."""
        if lanes == self.alive:
            self.registers[slot] = value
        else:
            self.registers[slot] = blend(self.registers[slot], value, lanes)

    def place(self, name: str, space: str, offset: int) -> Value:
        """The address of a variable."""
        layout = self.cta.cluster.layout
        if space == "shared" and name in layout.shared:
            return (self.cta.rank << RANK_SHIFT) + layout.shared[name] + offset
        if space == "param" and name in layout.parameters:
            return layout.parameters[name] + offset
        return None

    def locate(self, address: int | None) -> tuple[Cta, int] | None:
        """The CTA whose shared memory an address is in, and the offset there; None where there is none here."""
        if address is None:
            return None
        if address >= GENERIC:
            address -= GENERIC
        rank = address >> RANK_SHIFT
        offset = address & ((1 << RANK_SHIFT) - 1)
        ctas = self.cta.cluster.ctas
        return (ctas[rank], offset) if 0 <= rank < len(ctas) else None

    def doer(self, instr: Instr) -> Doer:
        """This warp, at an instruction."""
        return Doer(self.cta.number, self.index, instr)

    def tick(self) -> int:
        """It does something; returns when."""
        self.time += 1
        self.clock["did", self.id] = self.time
        return self.time

    def learn(self, clock: Clock) -> None:
        """Know what synchronisation brings."""
        join(self.clock, clock)

    def knows(self, kind: str, what: object) -> int:
        """A number of its clock."""
        return self.clock.get((kind, what), 0)

    # Going on.

    @property
    def over(self) -> bool:
        """Whether it has come to its end, or is not followed."""
        return not self.groups

    def lose(self, instr: Instr | None, reason: str) -> None:
        """Follow it no further."""
        self.cta.cluster.ledger.unknown(instr, reason, lost=True)
        self.lost = True
        self.groups = {}

    @property
    def warpgroup(self) -> tuple[int, int]:
        """Its warpgroup, which multiplies as one: each of its warps may say for all that a product is over."""
        return self.cta.rank, self.index // 4

    @property
    def reasons(self) -> list[tuple[str, Instr]]:
        """All that its lanes wait for, and the instructions that do."""
        return [self.stuck[at] for at in self.groups if at in self.stuck]

    def exit(self, lanes: int) -> None:
        """Lanes have exited."""
        self.alive &= ~lanes
        if not self.alive:
            self.cta.left(self)
        self.cta.cluster.recount()


@dataclass(eq=False)
class Cta:
    """One CTA.

    Attributes:
        cluster: its cluster. rank: its number there. number: that in the grid. place: its coordinates in the grid, None
            where the grid is not known. inside: those in the cluster.
        barriers: its mbarriers by offset. named: its CTA barriers.
        shared, tensor: what was done to its memory. words: bytes of shared memory that are known.
    """

    cluster: Cluster
    rank: int
    number: int
    place: Place
    inside: tuple[int, int, int]
    warps: list[Warp] = field(default_factory=list)
    barriers: dict[int, Mbarrier] = field(default_factory=dict)
    named: dict[int, CtaBarrier] = field(default_factory=dict)
    words: dict[int, int] = field(default_factory=dict)
    allocations: list[Allocation] = field(default_factory=list)
    relinquished: Doer | None = None
    dependents: list[Dependents] = field(default_factory=list)
    nc_loads: list[NcLoad] = field(default_factory=list)
    visits: list[tuple[Doer, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shared = SharedShadow(self.cluster.ledger)
        self.tensor = TensorShadow(self.cluster.ledger)

    @property
    def block(self) -> tuple[int, int, int]:
        """Extents of the CTA."""
        return self.cluster.block

    @property
    def warp_count(self) -> int:
        """Its warps."""
        return len(self.warps)

    @property
    def grid(self) -> tuple[int | None, ...]:
        """CTAs along each axis."""
        return self.cluster.grid

    @property
    def shape(self) -> tuple[int, int, int]:
        """CTAs of the cluster along each axis."""
        return self.cluster.shape

    @property
    def clusters(self) -> tuple[int | None, ...]:
        """Clusters of the grid along each axis."""
        pairs = zip(self.grid, self.shape, strict=True)
        return tuple(None if extent is None else extent // size for extent, size in pairs)

    @property
    def cluster_place(self) -> tuple[int | None, ...]:
        """Coordinates of the cluster."""
        pairs = zip(self.place, self.shape, strict=True)
        return tuple(None if at is None else at // size for at, size in pairs)

    @property
    def explicit(self) -> bool:
        """Whether it is launched in clusters."""
        return len(self.cluster.ctas) > 1

    @property
    def alive(self) -> int:
        """Threads that have not exited."""
        return sum(warp.alive.bit_count() for warp in self.warps)

    def put(self, offset: int, size: int, number: int | None) -> None:
        """Bytes of shared memory become a number, or unknown."""
        for place in range(size):
            if number is None:
                self.words.pop(offset + place, None)
            else:
                self.words[offset + place] = number >> 8 * place & 0xFF

    def forget(self, low: int, high: int) -> None:
        """Bytes of shared memory become unknown."""
        for place in [place for place in self.words if low <= place < high]:
            del self.words[place]

    def get(self, offset: int, size: int) -> int | None:
        """A number in shared memory, where all of its bytes are known."""
        found = [self.words.get(offset + place) for place in range(size)]
        return None if None in found else sum((byte or 0) << 8 * place for place, byte in enumerate(found))

    def clock_at_end(self) -> Clock:
        """All that its warps together know."""
        known: Clock = {}
        for warp in self.warps:
            for key, number in warp.clock.items():
                if number > known.get(key, 0):
                    known[key] = number
        return known

    def left(self, warp: Warp) -> None:
        """A warp has exited."""
        ledger = self.cluster.ledger
        if warp.groups_open and warp.at_store is not None:
            ledger.accuse("bulk-groups", "bulk copies without a cp.async.bulk.commit_group at exit", warp.at_store)
        elif warp.at_store is not None and warp.knows("read", warp.id) < warp.groups_closed:
            ledger.accuse(
                "bulk-groups",
                "no cp.async.bulk.wait_group waits for these copies before the thread exits",
                warp.at_store,
                level=Verdict.review,
            )
        if warp.at_wgmma is not None and warp.multiplied_open:
            ledger.accuse("wgmma-order", "wgmma without a wgmma.commit_group at exit", warp.at_wgmma)
        elif warp.at_wgmma is not None and warp.knows("multiplied", warp.warpgroup) < warp.multiplied:
            ledger.accuse("wgmma-order", "no wgmma.wait_group waits for this wgmma before exit", warp.at_wgmma)


@dataclass(eq=False)
class Cluster:
    """A cluster that is walked."""

    ledger: Ledger
    layout: Layout
    block: tuple[int, int, int]
    grid: tuple[int | None, int | None, int | None]
    shape: tuple[int, int, int]
    answers: int
    launch: LaunchSpec | None
    number: int
    ctas: list[Cta] = field(default_factory=list)
    barrier: ClusterBarrier = field(default_factory=ClusterBarrier)
    steps: int = 0

    @property
    def in_front(self) -> tuple[str, ...] | None:
        """Buffers that the preceding kernel may still use; None where that is not said."""
        return self.launch.in_front if self.launch is not None else None

    def spend(self, steps: int) -> None:
        """Count operations."""
        self.steps += steps
        if self.steps > MOST_STEPS:
            raise TooLongError

    @property
    def launched(self) -> bool:
        """Whether it is known how the text is launched."""
        return self.launch is not None

    @property
    def warps(self) -> list[Warp]:
        """Those of all CTAs."""
        return [warp for cta in self.ctas for warp in cta.warps]

    def recount(self) -> None:
        """A warp has exited: barriers that wait for all are complete with fewer."""
        for cta in self.ctas:
            for barrier in cta.named.values():
                if barrier.arrived and barrier.everybody and barrier.arrived >= cta.alive:
                    barrier.complete()
        alive = sum(cta.alive for cta in self.ctas)
        if self.barrier.arrived and self.barrier.arrived >= alive:
            self.barrier.complete()


def place_of(number: int, shape: tuple[int, int, int], launch: LaunchSpec | None) -> tuple[int, int, int]:
    """The first CTA of a cluster."""
    if launch is None:
        return 0, 0, 0
    x, y, _ = (extent // size for extent, size in zip(launch.grid, shape, strict=True))
    return number % x * shape[0], number // x % y * shape[1], number // (x * y) * shape[2]
