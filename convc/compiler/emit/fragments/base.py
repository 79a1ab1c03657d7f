"""From a step to the names and numbers of its template, and how the steps that every kernel needs are spelled.

Each kind of step has a template of its name in ``templates/steps`` and a function here or in a neighbour that gives
the template its flat dictionary of texts, numbers, booleans and lists. All arithmetic on offsets and all choices of
spelling happen there, so that templates only read. A step without a function gives its fields as they are.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from convc.compiler.emit.exprs import Number, lower
from convc.compiler.emit.operands import phase, stage
from convc.compiler.emit.places import all_written
from convc.compiler.plan.storage import BARRIER_BYTES, BarrierRing, Storage
from convc.compiler.tile.program import Role, TileProgram, walk
from convc.compiler.tile.steps.base import (
    Advance,
    Arrive,
    ClusterSync,
    Commit,
    Compute,
    CtaSync,
    ExpectBytes,
    InitRings,
    Loop,
    RingWait,
    SetRegisters,
    Step,
    Strided,
    TmemAlloc,
    TmemBase,
    TmemDealloc,
    WarpCommit,
)
from convc.compiler.tile.steps.epilogue import ReadAcc
from convc.compiler.tile.steps.operands import MakePolicy, Multiply
from convc.compiler.tile.steps.order import LookUp
from convc.compiler.tile.steps.persistent import FetchLoop
from convc.ir.expr import bounds

WARP_LANES = 32

Names = dict[str, Any]
"""What a template is filled in with: texts, numbers, booleans, and lists of these."""


class RoleContext(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings of a step: its program and role, and numbers: those in registers, and of loops written out."""

    program: TileProgram
    role: Role
    numbers: Mapping[str, Number]
    unrolled: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    places: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    """The stage at this point of the text, by state, where it is always the same; moves on as the text is written."""

    @property
    def storage(self) -> Storage:
        """The places of tiles and barriers."""
        return self.program.storage

    @property
    def states(self) -> tuple[str, ...]:
        """The rings that the role walks around: for each of these it has a stage and a phase."""
        return tuple(dict.fromkeys(step.state for step in walk(self.role.steps) if isinstance(step, Advance)))

    @property
    def uses_tensor_memory(self) -> bool:
        """Whether the role uses tensor memory, so that its waits need the tensor-memory fence."""
        return self.storage.tmem_columns > 0 and any(
            isinstance(step, Multiply | ReadAcc) for step in walk(self.role.steps)
        )

    def orders_tensor_memory(self, ring: BarrierRing) -> bool:
        """Whether something in tensor memory may depend on a ring; others are about shared memory alone."""
        apart = (self.storage.residual, self.storage.answers)
        return all(tile is None or ring.state != tile.state for tile in apart)


TABLE = "places"
"""Variable in constant memory: the table of a program."""


def template_name(step_type: type[Step]) -> str:
    """Template of a kind of step: ``TmaLoad`` -> ``steps/tma_load``; all strided loops have one."""
    kind = Strided if issubclass(step_type, Strided) else step_type
    return "steps/" + re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def numbers_of(program: TileProgram, role: Role) -> dict[str, Number]:
    """Every number of a role: the inputs, the loop counters, and what `Compute` steps make, in order of the text."""
    numbers: dict[str, Number] = {r.name: Number(bits=32, low=r.low, high=r.high) for r in program.inputs}
    numbers["warp"] = Number(bits=32, low=role.first_warp, high=role.last_warp)
    numbers["thread"] = Number(bits=32, low=32 * role.first_warp, high=32 * role.last_warp + 31)
    for step in walk(role.steps):
        match step:
            case Strided(var=var, limit=limit):
                numbers[var] = Number(bits=32, low=0, high=limit - 1)
            case Loop(var=var, count=count) | FetchLoop(var=var, count=count):
                numbers[var] = Number(bits=32, low=0, high=count - 1)
            case Compute(dst=dst, expr=expr, bits=bits, below=below):
                low, high = bounds(expr, {name: (n.low, n.high) for name, n in numbers.items()})
                low, high = (low, high) if below is None else (0, below - 1)
                numbers[dst] = Number(bits=bits, low=low, high=high)
            case MakePolicy(dst=dst):
                numbers[dst] = Number(bits=64, low=0, high=2**64 - 1)
            case LookUp(dst=dst):
                numbers[dst] = Number(bits=32, low=0, high=max(program.table))
            case _:
                pass
    return numbers


@functools.singledispatch
def fragment(step: Step, context: RoleContext) -> Names:
    """Give the template of a step its names and numbers, besides those that all templates take."""
    return {name: getattr(step, name) for name in step.__struct_fields__ if name not in Step.__struct_fields__}


def common_names(step: Step, context: RoleContext) -> Names:
    """The names that all templates take."""
    note = f"{step.dst} = {step.expr}: {step.note}" if isinstance(step, Compute) else step.note
    return {"id": step.id, "role": context.role.name, "note": note}


@fragment.register
def _(step: InitRings, context: RoleContext) -> Names:
    barriers = [
        _Barrier(offset=ring.offset + BARRIER_BYTES * index, arrivals=ring.arrivals, ring=ring.name, stage=index)
        for ring in (context.storage.ring(name) for name in step.rings)
        for index in range(ring.stages)
    ]
    return {
        "lanes": step.lanes,
        "groups": list(_by_lanes(sorted(barriers))) if step.lanes else [],
        "barriers": [(one.offset, one.arrivals, f"{one.ring}[{one.stage}]") for one in barriers],
        "size": BARRIER_BYTES,
    }


class _Barrier(NamedTuple):
    """An mbarrier: its offset in shared memory, the arrivals of a phase, and which of its ring it is."""

    offset: int
    arrivals: int
    ring: str
    stage: int


def _by_lanes(barriers: list[_Barrier]) -> Iterator[tuple[int, int, int, str]]:
    """Barriers that one instruction makes ready, a lane each: offset of the first, how many, arrivals, which they are.

    They lie behind each other and wait for as many arrivals, and the warp has a lane for each.
    """
    run: list[_Barrier] = []
    for barrier in barriers:
        if run and (
            len(run) == WARP_LANES
            or (barrier.offset, barrier.arrivals) != (run[-1].offset + BARRIER_BYTES, run[-1].arrivals)
        ):
            yield run[0].offset, len(run), run[0].arrivals, _ranges(run)
            run = []
        run.append(barrier)
    if run:
        yield run[0].offset, len(run), run[0].arrivals, _ranges(run)


def _ranges(run: list[_Barrier]) -> str:
    """The barriers by their rings, as ``full[0:4], empty[0:4]``: from the first on, the last not included."""
    rings: dict[str, list[int]] = {}
    for barrier in run:
        rings.setdefault(barrier.ring, []).append(barrier.stage)
    return ", ".join(f"{ring}[{indices[0]}:{indices[-1] + 1}]" for ring, indices in rings.items())


@fragment.register
def _(step: TmemAlloc, context: RoleContext) -> Names:
    return {"slot_offset": context.storage.slot_offset, "columns": step.columns, "group": context.program.pair}


@fragment.register
def _(step: TmemDealloc, context: RoleContext) -> Names:
    return {"columns": step.columns, "group": context.program.pair}


@fragment.register
def _(step: TmemBase, context: RoleContext) -> Names:
    return {"slot_offset": context.storage.slot_offset}


@fragment.register
def _(step: Compute, context: RoleContext) -> Names:
    code = lower(step.expr, step.dst, step.bits, context.numbers)
    return {"declarations": code.declarations, "lines": code.lines}


@fragment.register
def _(step: Loop, context: RoleContext) -> Names:
    """All but what is in the loop, which the kernel writes (`convc.compiler.emit.kernel`)."""
    return {
        "var": step.var,
        "count": step.count - step.count % step.copies,
        "label": f"{label_of(step)}_next",
        "counted": not all_written(step),
        "leads": step.leads,
        "end": f"{label_of(step)}_end",
    }


@fragment.register
def _(step: CtaSync, context: RoleContext) -> Names:
    return {"fence": context.storage.tmem_columns > 0}


@fragment.register
def _(step: ClusterSync, context: RoleContext) -> Names:
    return {"fence": context.storage.tmem_columns > 0, "started": step.started}


@fragment.register
def _(step: SetRegisters, context: RoleContext) -> Names:
    return {"action": "inc" if step.more else "dec", "count": step.count}


@fragment.register
def _(step: RingWait, context: RoleContext) -> Names:
    ring = context.storage.ring(step.ring)
    return {
        "staged": ring.stages > 1,
        "stage": stage(ring.state),
        "fence": context.uses_tensor_memory and context.orders_tensor_memory(ring),
        "label": f"{label_of(step)}_retry",
        "offset": ring.offset,
        "parity": _parity(ring.state, step.starts_open, context),
    }


@fragment.register
def _(step: ExpectBytes, context: RoleContext) -> Names:
    ring = context.storage.ring(step.ring)
    return {
        "stage": stage(ring.state),
        "offset": ring.offset,
        "bytes": step.bytes,
        "leads": ring.at == "leader",
    }


@fragment.register
def _(step: Commit, context: RoleContext) -> Names:
    ring = context.storage.ring(step.ring)
    both = f"0x{(1 << context.program.pair) - 1:x}"
    return {
        "staged": ring.stages > 1,
        "stage": stage(ring.state),
        "offset": ring.offset,
        "group": context.program.pair,
        "everywhere": ring.at == "all" or step.ctas is not None,
        "ctas": f"cvt.u16.u32 %ctas, %{step.ctas};" if step.ctas else f"mov.b16 %ctas, {both};",
        "whose": "all CTAs that fill the stage" if step.ctas else "both CTAs",
    }


@fragment.register
def _(step: WarpCommit, context: RoleContext) -> Names:
    ring = context.storage.ring(step.ring)
    return {
        "closes": step.closes,
        "behind": step.behind,
        "waits": step.closes or not step.behind,
        "before": step.behind > 0,
        "counted": step.counter is not None,
        "counter": step.counter or "",
        "stage": stage(ring.state),
        "last": ring.stages - 1,
        "offset": ring.offset,
        "ctas": step.ctas or "",
    }


@fragment.register
def _(step: Arrive, context: RoleContext) -> Names:
    ring = context.storage.ring(step.ring)
    return {"stage": stage(ring.state), "offset": ring.offset}


@fragment.register
def _(step: Advance, context: RoleContext) -> Names:
    known = step.state in context.places
    after = (context.places.get(step.state, 0) + 1) % step.stages
    if known:
        context.places[step.state] = after
    return {
        "known": known,
        "place": f"stage {after} is next",
        "counted": step.stages > 1 and not known,
        "turns": after == 0 if known else step.stages == 1,
        "stages": step.stages,
        "stage": stage(step.state),
        "phase": phase(step.state),
    }


def label_of(step: Step) -> str:
    """A label that is the step's own."""
    return step.id.replace(".", "_")


def _parity(state: str, starts_open: bool, context: RoleContext) -> str:
    """The line that sets the parity to wait for; a role that does not walk around a ring waits for its first phase."""
    if state not in context.states:
        return "mov.b32 %parity, 0;"
    return f"xor.b32 %parity, {phase(state)}, 1;" if starts_open else f"mov.b32 %parity, {phase(state)};"
