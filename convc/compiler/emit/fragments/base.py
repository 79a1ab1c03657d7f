"""From a step to the names and numbers of its template.

`fragment` is one ``match``: every kind of step, the template of the same name, and a flat dictionary of texts,
numbers, booleans and lists. All arithmetic on offsets and all choices of spelling happen here, so that templates
only read.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from convc.compiler.emit.exprs import Number, lower
from convc.compiler.emit.fragments.epilogue import epilogue_names
from convc.compiler.emit.fragments.quantise import bias_type, convert_names, requantise_names
from convc.compiler.emit.fragments.scaled import scaled_names
from convc.compiler.emit.fragments.sharing import reuse_names
from convc.compiler.emit.guards import row_names, row_pieces
from convc.compiler.emit.operands import (
    acc_address,
    braces,
    descriptor,
    mask_of,
    multiply_names,
    phase,
    quads,
    stage,
    stage_address,
)
from convc.compiler.tile.steps.base import (
    AddBias,
    Advance,
    BarrierRing,
    Commit,
    Compute,
    Convert,
    CtaSync,
    ExpectBytes,
    GlobalStore,
    InitRings,
    Loop,
    Mma,
    Multiply,
    PrefetchMaps,
    RingWait,
    Role,
    SmemTile,
    Step,
    TileProgram,
    TmaLoad,
    TmemAlloc,
    TmemBase,
    TmemFree,
    TmemLoad,
    TmemTile,
    walk,
)
from convc.compiler.tile.steps.quantise import Requantise, RequantiseLane
from convc.ir import dtypes
from convc.ir.expr import bounds

TENSOR = Multiply | TmemLoad
"""Steps that use tensor memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleContext:
    """What a step can see around it: the program, its role, and the numbers that registers hold."""

    program: TileProgram
    role: Role
    numbers: Mapping[str, Number]

    @property
    def cursors(self) -> tuple[str, ...]:
        """The rings that the role walks around: for each of these it has a stage and a phase."""
        return tuple(dict.fromkeys(step.cursor for step in walk(self.role.steps) if isinstance(step, Advance)))

    @property
    def tensor(self) -> bool:
        """Whether the role uses tensor memory, so that its waits need the tensor-memory fence."""
        return any(isinstance(step, TENSOR) for step in walk(self.role.steps))


def template_name(step_type: type[Step]) -> str:
    """Template of a kind of step: ``TmaLoad`` -> ``steps/tma_load``."""
    return "steps/" + re.sub(r"(?<!^)(?=[A-Z])", "_", step_type.__name__).lower()


def numbers_of(program: TileProgram, role: Role) -> dict[str, Number]:
    """Every number of a role: the inputs, the loop counters, and what `Compute` steps make, in order of the text."""
    numbers = {r.name: Number(bits=32, low=r.low, high=r.high) for r in program.inputs}
    numbers["warp"] = Number(bits=32, low=role.first_warp, high=role.last_warp)
    numbers["thread"] = Number(bits=32, low=32 * role.first_warp, high=32 * role.last_warp + 31)
    for step in walk(role.steps):
        match step:
            case Loop(var=var, count=count):
                numbers[var] = Number(bits=32, low=0, high=count - 1)
            case Compute(dst=dst, expr=expr, bits=bits):
                low, high = bounds(expr, {name: (n.low, n.high) for name, n in numbers.items()})
                numbers[dst] = Number(bits=bits, low=low, high=high)
    return numbers


def fragment(step: Step, context: RoleContext, body: str = "") -> tuple[str, dict[str, Any]]:
    """Template and names for a step; `body` is the text of a loop's steps."""
    note = f"{step.dst} = {step.expr}: {step.note}" if isinstance(step, Compute) else step.note
    names: dict[str, Any] = {"id": step.id, "role": context.role.name, "note": note}
    return template_name(type(step)), names | _names(step, context, body)


def _names(step: Step, context: RoleContext, body: str) -> dict[str, Any]:
    storage = context.program.storage
    tiles = {tile.name: tile for tile in storage.smem}
    rings = {ring.name: ring for ring in storage.rings}
    tensor = {tile.name: tile for tile in storage.tmem}
    label = step.id.replace(".", "_")
    match step:
        case PrefetchMaps(maps=maps):
            return {"maps": maps}
        case InitRings(rings=names):
            barriers = [
                (rings[name].offset + 8 * index, rings[name].arrivals, f"{name}[{index}]")
                for name in names
                for index in range(rings[name].stages)
            ]
            return {"barriers": barriers}
        case TmemAlloc(columns=count):
            return {"slot_offset": storage.slot_offset, "columns": count}
        case TmemBase():
            return {"slot_offset": storage.slot_offset}
        case TmemFree(columns=count):
            return {"columns": count}
        case CtaSync():
            return {}
        case Compute(dst=dst, expr=expr, bits=bits):
            code = lower(expr, dst, bits, context.numbers)
            return {"declarations": code.declarations, "lines": code.lines}
        case Loop(var=var, count=count):
            return {"var": var, "count": count, "label": f"{label}_next", "body": body}
        case RingWait(ring=ring, fresh=fresh):
            return {
                "staged": rings[ring].stages > 1,
                "stage": stage(rings[ring].cursor),
                "fence": context.tensor,
                "label": f"{label}_retry",
                "offset": rings[ring].offset,
                "parity": _parity(rings[ring].cursor, fresh, context),
            }
        case ExpectBytes(ring=ring, bytes=size):
            return {"stage": stage(rings[ring].cursor), "offset": rings[ring].offset, "bytes": size}
        case Commit(ring=ring):
            ends = rings[ring]
            return {"staged": ends.stages > 1, "stage": stage(ends.cursor), "offset": ends.offset}
        case Advance(stages=stages, cursor=cursor):
            return {"several": stages > 1, "stages": stages, "stage": stage(cursor), "phase": phase(cursor)}
        case TmaLoad():
            return _tma_load(step, tiles[step.tile], rings[step.ring])
        case Mma():
            return _mma(step, tiles[step.a], tiles[step.b], tensor[step.acc])
        case TmemLoad(acc=acc, first=first, columns=count):
            registers = [f"%v{i}" for i in range(count)]
            rows = [", ".join(registers[i : i + 8]) for i in range(0, count, 8)]
            values = [row + "," for row in rows[:-1]] + rows[-1:]
            return {"acc_address": acc_address(tensor[acc]), "first": first, "columns": count, "values": values}
        case AddBias(buffer=buffer, channel=channel, columns=count):
            return {"buffer": buffer, "channel": channel, "quads": quads(count), **bias_type(step.dtype)}
        case Convert(out=out, columns=count):
            return convert_names(out, count)
        case Requantise() | RequantiseLane():
            return requantise_names(step)
        case GlobalStore():
            return _global_store(step)
    names = reuse_names(step, storage) or scaled_names(step, storage) or epilogue_names(step)
    if names is None:
        raise ValueError(f"no template is known for a step of type {type(step).__name__}")
    return names


def _parity(cursor: str, fresh: bool, context: RoleContext) -> str:
    """The line that sets the parity to wait for; a role that does not walk around a ring waits for its first phase."""
    if cursor not in context.cursors:
        return "mov.b32 %parity, 0;"
    return f"xor.b32 %parity, {phase(cursor)}, 1;" if fresh else f"mov.b32 %parity, {phase(cursor)};"


def _tma_load(step: TmaLoad, tile: SmemTile, ring: BarrierRing) -> dict[str, Any]:
    registers = [f"%o{i}" for i in range(len(step.offsets))]
    return {
        "map": step.map,
        "rank": len(step.coords),
        "coords": braces(f"%{name}" for name in step.coords),
        "im2col": bool(step.offsets),
        "offsets": [(register, f"%{name}") for register, name in zip(registers, step.offsets, strict=True)],
        "offset_registers": braces(registers),
        "offset_declaration": ", ".join(registers),
        "stage": stage(ring.cursor),
        "ring_offset": ring.offset,
        "stage_bytes": tile.stage_bytes,
        "tile_offset": tile.offset,
    }


def _mma(step: Mma, a: SmemTile, b: SmemTile, acc: TmemTile) -> dict[str, Any]:
    return multiply_names(step, b, acc) | {
        "a_address": stage_address("%word", a),
        "mask": mask_of(step),
        "moved": step.row is not None,
        "row": step.row or "",
        "row_bytes": a.row_bytes,
        "a_descriptor": descriptor(a),
    }


def _global_store(step: GlobalStore) -> dict[str, Any]:
    """Sixteen bytes a piece, each with the registers that hold them."""
    register = "v" if dtypes.BY_NAME[step.out].bits == 32 else "h"
    words = (braces(f"%{register}{4 * index + word}" for word in range(4)) for index in itertools.count())
    return row_names(step) | {"pieces": [(*piece, held) for piece, held in zip(row_pieces(step), words, strict=False)]}
