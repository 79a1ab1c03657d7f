"""A kernel as data: a few roles, each a list of steps, each step one act on whole tiles.

A CTA of Blackwell is a small factory. One warp fetches operand tiles (``load``), one feeds the tensor core
(``mma``), four carry results away (``store``); rings of mbarriers keep them apart. A `TileProgram` writes that down:
who does what, in which order, on which tile, and nothing about registers or opcodes. It can be checked
(`convc.compiler.tile.verify`), read (`convc.compiler.tile.show`) and turned into text (`convc.compiler.emit`), one
template fragment per step.

Names inside steps: a tile, ring or buffer is named as in `Storage`; a number that changes while the kernel runs
(a coordinate, a loop counter) is named as the `Compute` or `Loop` that makes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from convc.compiler.plan.records import BarrierRing as BarrierRing
from convc.compiler.plan.records import SmemTile as SmemTile
from convc.compiler.plan.records import Storage as Storage
from convc.compiler.plan.records import TmemTile as TmemTile
from convc.ir.expr import IntExpr
from convc.ir.launch import LaunchSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One act of one role.

    Attributes:
        id: unique in the program; the text carries it in its ``//@`` marks.
        note: what the step is for, one line for people.
    """

    id: str
    note: str


# ---- setting up and closing down ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchMaps(Step):
    """Bring the tensor maps named in `maps` close to the copy engine; changes nothing."""

    maps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InitRings(Step):
    """Give every barrier of the rings its arrival count, and make that visible to the asynchronous engines."""

    rings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TmemAlloc(Step):
    """Allocate tensor memory; its address goes to the slot in shared memory. The whole warp takes part."""

    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TmemBase(Step):
    """Every thread reads the address of the allocation from the slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TmemFree(Step):
    """Give the tensor memory back. The whole warp takes part."""

    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CtaSync(Step):
    """All threads of the CTA meet; tensor-memory work before it is ordered before that after it."""


# ---- control and numbers --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute(Step):
    """Set the number `dst` to the value of `expr`; `bits` is 32, or 64 where the value may be large."""

    dst: str
    expr: IntExpr
    bits: Literal[32, 64] = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop(Step):
    """Do `body` for `var` = 0 .. `count` - 1."""

    var: str
    count: int
    body: tuple[Step, ...]


# ---- rings ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RingWait(Step):
    """Wait at the role's place in the ring.

    `fresh` says what a barrier nobody has signalled yet means. False: nothing is there, so wait (a consumer waits for
    data). True: the stage has never been used, so go on (a producer waits for room).
    """

    ring: str
    fresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectBytes(Step):
    """Arrive at the ring's barrier and announce how many bytes the copies of this stage will bring."""

    ring: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(Step):
    """Signal the ring's barrier once all MMAs issued so far have finished."""

    ring: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance(Step):
    """Move a cursor of the role to the next stage of a ring of `stages`; the phase turns at every wrap."""

    stages: int
    cursor: str = ""


# ---- moving and multiplying tiles -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TmaLoad(Step):
    """Copy a box of a tensor map into the current stage of a tile; the bytes count on `ring`.

    `coords` are the start coordinates, innermost dimension first. `offsets` (im2col maps only) move every pixel by a
    filter tap, W first.
    """

    map: str
    tile: str
    ring: str
    coords: tuple[str, ...]
    offsets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiply(Step):
    """What all matrix multiplications have in common: `atoms` instructions of 32 bytes of K each.

    Attributes:
        acc: accumulator tile, `m` lanes of `n` columns.
        a, b: operand tiles.
        operand: type name of the activations, and of the filters unless `filter_operand` names another.
        counter: number that is 0 in the step whose first instruction overwrites the accumulator; None: all add.
        masked: whether the lanes that the role has in its mask registers (`LoadMask`) keep what they have.
    """

    acc: str
    a: str
    b: str
    operand: str
    m: int
    n: int
    atoms: int
    counter: str | None
    masked: bool = False
    filter_operand: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mma(Multiply):
    """acc (+)= a @ b.T over one stage.

    Attributes:
        row: number of the row of `a` that lane 0 reads; None: row 0.
    """

    row: str | None = None


# ---- epilogue -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TmemLoad(Step):
    """Read `columns` columns of the accumulator from the column `first` on; every lane gets its own row."""

    acc: str
    first: str
    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddBias(Step):
    """Add bias[channel .. channel + columns) to the values, the same for every row; `dtype` is the type of both."""

    buffer: str
    channel: str
    columns: int
    dtype: str = "f32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Convert(Step):
    """Round the values to the output type (whole numbers: the nearest it has) and pack them into 32-bit words."""

    out: str
    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalStore(Step):
    """Write the packed values of this lane's row to global memory, 16 bytes at a time.

    Attributes:
        buffer: where to.
        at: number with the byte offset of the first value.
        out: type name of the values.
        columns: values per row.
        row, row_limit: the row is written only where the number `row` is below the limit; None: always.
        channel, channel_limit: a 16-byte piece is written only where its first channel is below the limit;
            None: always.
    """

    buffer: str
    at: str
    out: str
    columns: int
    row: str
    row_limit: int | None
    channel: str
    channel_limit: int | None


# ---- programs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Some warps and what they do.

    Attributes:
        name: ``load``, ``mma``, ``store``; set-up and closing roles have names of their own.
        first_warp, last_warp: warps of the role, inclusive.
        elected: True: one lane of the (single) warp does it and the others wait at the end.
        note: what the role is for.
    """

    name: str
    first_warp: int
    last_warp: int
    elected: bool
    note: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The values that a number of the program can have: `low` .. `high`, inclusive."""

    name: str
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TileProgram:
    """One kernel as roles and steps.

    Attributes:
        name: name of the problem; `title` says in one line what the kernel computes.
        schedule: algorithm.
        arch, ptx_version: target.
        warps: warps per CTA.
        params: names of the kernel parameters, in the order of `launch.params`.
        inputs: numbers every role has from the start (tile and thread indices) and their ranges.
        setup, roles, teardown: three acts; within an act roles run side by side, and each act waits for the one before.
        storage: where tiles and barriers lie.
        launch: how the kernel is launched, with its buffers and tensor maps.
    """

    name: str
    title: str
    schedule: str
    arch: str
    ptx_version: str
    warps: int
    params: tuple[str, ...]
    inputs: tuple[Range, ...]
    setup: tuple[Role, ...]
    roles: tuple[Role, ...]
    teardown: tuple[Role, ...]
    storage: Storage
    launch: LaunchSpec

    @property
    def all_roles(self) -> tuple[Role, ...]:
        """The roles of the three acts, in order."""
        return self.setup + self.roles + self.teardown


def walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    """All steps in order of the text, loop bodies included."""
    for step in steps:
        yield step
        if isinstance(step, Loop):
            yield from walk(step.body)


def executions(steps: tuple[Step, ...], times: int = 1) -> Iterator[tuple[Step, int]]:
    """All steps, loop bodies included, each with how often it runs."""
    for step in steps:
        yield step, times
        if isinstance(step, Loop):
            yield from executions(step.body, times * step.count)
