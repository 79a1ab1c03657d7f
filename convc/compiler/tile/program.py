"""A kernel as data: a few roles, each a list of steps.

It can be checked (`convc.compiler.tile.verify`), read (`convc.compiler.tile.show`), run on whole tiles
(`tests/support/interpret`) and turned into text (`convc.compiler.emit`), one template a step.

Names inside steps: a tile, ring or buffer is named as in `Storage`; a number that changes while the kernel runs
(a coordinate, a loop counter) is named as the `Compute` or `Loop` that makes it.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from convc.compiler.plan.names import MapName, Number, PointerName
from convc.compiler.plan.storage import Storage
from convc.compiler.tile.steps.base import Repeat, Step
from convc.compiler.tile.steps.persistent import FetchLoop, TileLoop
from convc.compiler.tile.steps.setup import AwaitGrid, SetRegisters
from convc.ir.expr import IntExpr
from convc.ir.launch import LaunchSpec


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """Some warps and what they do.

    Attributes:
        name: ``load``, ``mma``, ``epilogue``; set-up and closing roles have names of their own.
        first_warp, last_warp: warps of the role, inclusive.
        elected: True: one lane of the (single) warp does it and the others wait at the end.
        note: what the role is for.
        leads: True: of a pair of CTAs the first one does it alone.
    """

    name: str
    first_warp: int
    last_warp: int
    elected: bool
    note: str
    steps: tuple[Step, ...]
    leads: bool = False

    @property
    def threads(self) -> int:
        """Threads of the role's warps."""
        return 32 * (self.last_warp - self.first_warp + 1)

    @property
    def who(self) -> str:
        """The threads of the role, for people."""
        one = self.first_warp == self.last_warp
        warps = f"warp {self.first_warp}" if one else f"warps {self.first_warp} to {self.last_warp}"
        lanes = f"one lane of {warps}" if self.elected else warps
        return f"{lanes} of the first CTA" if self.leads else lanes


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """The values that a number of the program can have: `low` .. `high`, inclusive."""

    name: Number
    low: int
    high: int


class TileProgram(msgspec.Struct, frozen=True, kw_only=True):
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
        ordered: tiles along M and along N, where each CTA finds the place of its tile by the tile's number, which is
            its own, or those that it makes one after the other; None: by its place in the grid, or counting along M.
        order: its name. table: entries of constant memory.
        pair: CTAs whose tensor cores multiply as one (``cta_group``), side by side along x: 2, or 1 where each has its
            own.
        multicast: tiles of pixels and of channels of a cluster whose CTAs load operand tiles for each other.
    """

    name: str
    title: str
    schedule: str
    arch: str
    ptx_version: str
    warps: int
    params: tuple[MapName | PointerName, ...]
    inputs: tuple[Range, ...]
    setup: tuple[Role, ...]
    roles: tuple[Role, ...]
    teardown: tuple[Role, ...]
    storage: Storage
    launch: LaunchSpec
    pair: int = 1
    multicast: tuple[int, int] = (1, 1)
    ordered: tuple[int, int] | None = None
    order: str = "rows"
    table: tuple[int, ...] = ()

    @property
    def numbered(self) -> bool:
        """Whether CTAs have numbers instead of places in a grid."""
        return self.ordered is not None or self.visits is not None

    @property
    def dependent(self) -> bool:
        """Whether the kernel may begin while the one in front of it, which writes what it reads, still runs."""
        return any(isinstance(step, AwaitGrid) for role in self.setup for step in walk(role.steps))

    @property
    def hands_over(self) -> bool:
        """Whether warps hand registers over to others, so that the text must say what they begin with."""
        return any(isinstance(step, SetRegisters) for role in self.all_roles for step in walk(role.steps))

    @property
    def alone(self) -> bool:
        """Whether an SM holds one CTA, so that its threads may have all registers: persistent, or with reallocation."""
        return self.visits is not None or self.hands_over

    @property
    def all_roles(self) -> tuple[Role, ...]:
        """The roles of the three acts, in order."""
        return self.setup + self.roles + self.teardown

    @property
    def visits(self) -> int | None:
        """Tiles that a CTA makes at most, one after the other; None: its place in the grid is its one tile."""
        loops = (step for role in self.roles for step in role.steps if isinstance(step, TileLoop | FetchLoop))
        return max((loop.count for loop in loops), default=None)


def walk(steps: tuple[Step, ...]) -> list[Step]:
    """All steps in order of the text, loop bodies included."""
    found: list[Step] = []
    for step in steps:
        found.append(step)
        if isinstance(step, Repeat):
            found += walk(step.body)
    return found


def executions(steps: tuple[Step, ...], times: int = 1) -> list[tuple[Step, int]]:
    """All steps, loop bodies included, each with how often it runs."""
    found: list[tuple[Step, int]] = []
    for step in steps:
        found.append((step, times))
        if isinstance(step, Repeat):
            found += executions(step.body, times * step.count)
    return found


def program_json(program: TileProgram) -> bytes:
    """A tile program as indented JSON: every step with its kind, expressions as text."""
    return msgspec.json.format(msgspec.json.encode(_tagged(program)), indent=1)


def _tagged(value: Any) -> Any:
    """Plain data; a step becomes its fields with its class name as ``kind``."""
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, tuple):
        return [_tagged(item) for item in cast(tuple[Any, ...], value)]  # of whatever: each says itself what it is
    if isinstance(value, Step):
        return {"kind": type(value).__name__} | _fields(value)
    if isinstance(value, Role | Range | TileProgram):
        return _fields(value)
    return str(value) if isinstance(value, IntExpr) else msgspec.to_builtins(value)


def _fields(record: msgspec.Struct) -> dict[str, Any]:
    return {name: _tagged(getattr(record, name)) for name in record.__struct_fields__}
