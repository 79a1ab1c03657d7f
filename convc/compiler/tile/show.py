"""A tile program as text for people: act by act, role by role, one line a step."""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.tile.steps.base import (
    AddBias,
    Advance,
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
    Step,
    TileProgram,
    TmaLoad,
    TmemAlloc,
    TmemBase,
    TmemFree,
    TmemLoad,
)
from convc.compiler.tile.steps.epilogue import (
    AddLaneResidual,
    AddRowResidual,
    ApplyClip,
    ApplyLeakyRelu,
    ApplyRelu,
    ApplySigmoid,
    ApplySilu,
)
from convc.compiler.tile.steps.quantise import Requantise, RequantiseLane
from convc.compiler.tile.steps.scaled import Arrive, CarryFactors, MmaScaled, ScaleSums
from convc.compiler.tile.steps.sharing import (
    AddLaneBias,
    ClearAcc,
    LoadMask,
    MaskWord,
    MmaStationary,
    MmaTensor,
    MoveRows,
    PixelStore,
    Refresh,
    TensorFill,
    TmaWideLoad,
)

ID_WIDTH = 14
MASKED = ", not where masked"


def show(program: TileProgram) -> str:
    """The whole program."""
    grid = program.launch.grid
    lines = [program.title, f"schedule {program.schedule}, grid {grid[0]} x {grid[1]}, {program.warps} warps"]
    for act, roles in (("set-up", program.setup), ("main", program.roles), ("teardown", program.teardown)):
        lines += ["", act]
        for role in roles:
            lines.append(f"  {role.name} ({who(role)}): {role.note}")
            lines += (f"    {line}" for line in _lines(role.steps, ""))
    return "\n".join(lines) + "\n"


def who(role: Role) -> str:
    """Which threads a role has."""
    one = role.first_warp == role.last_warp
    warps = f"warp {role.first_warp}" if one else f"warps {role.first_warp} to {role.last_warp}"
    return f"one lane of {warps}" if role.elected else warps


def _lines(steps: tuple[Step, ...], indent: str) -> Iterator[str]:
    for step in steps:
        yield f"{step.id:<{ID_WIDTH}} {indent}{describe(step)}  -- {step.note}"
        if isinstance(step, Loop):
            yield from _lines(step.body, indent + "  ")


def describe(step: Step) -> str:
    """What a step does, in a few words."""
    match step:
        case PrefetchMaps(maps=maps):
            return f"prefetch {', '.join(maps)}"
        case InitRings(rings=rings):
            return f"make ready {', '.join(rings)}"
        case TmemAlloc(columns=columns):
            return f"allocate {columns} columns of tensor memory"
        case TmemBase():
            return "read the address of the tensor memory"
        case TmemFree(columns=columns):
            return f"free {columns} columns of tensor memory"
        case CtaSync():
            return "all threads meet"
        case Compute(dst=dst, expr=expr):
            return f"{dst} = {expr}"
        case Loop(var=var, count=count):
            return f"for {var} in 0..{count - 1}:"
        case RingWait(ring=ring, fresh=fresh):
            return f"wait for {ring}{' (ready at first)' if fresh else ''}"
        case ExpectBytes(ring=ring, bytes=size):
            return f"expect {size} bytes on {ring}"
        case Commit(ring=ring):
            return f"signal {ring} when the MMAs so far are done"
        case Advance(stages=stages, cursor=cursor):
            return f"next of {stages} stage{'s' * (stages > 1)}{f' of {cursor}' if cursor else ''}"
        case TmaLoad(map=source, tile=tile, ring=ring, coords=coords, offsets=offsets):
            moved = f" + ({', '.join(offsets)})" if offsets else ""
            return f"copy {source}[{', '.join(coords)}]{moved} to {tile}, counted on {ring}"
        case Mma(acc=acc, a=a, b=b, m=m, n=n, atoms=atoms, row=row, masked=masked):
            rows = f"{a} from row {row} on" if row else a
            return f"{acc} += {rows} x {b}: {m} x {n}, {atoms} MMAs of {types_of(step)}{MASKED * masked}"
        case TmemLoad(acc=acc, first=first, columns=columns):
            return f"read {columns} columns of {acc} from column {first}"
        case AddBias(buffer=buffer, channel=channel, columns=columns):
            return f"add {columns} of {buffer} from {channel}"
        case Convert(out=out):
            return f"round to {out}"
        case Requantise() | RequantiseLane():
            return f"times {step.buffer}[{step.channel} + {step.first}] as f32, rounded, plus {step.zero_point}"
        case GlobalStore(buffer=buffer, at=at, columns=columns):
            return f"write {columns} values to {buffer} + {at}{_guards(step)}"
    return _describe_reuse(step)


def _describe_reuse(step: Step) -> str:
    """The same for the steps of schedules that share activations."""
    match step:
        case TmaWideLoad(map=source, tile=tile, ring=ring, coords=coords, halo=halo, offset=offset, at=at):
            place = f"{tile} + {at}" if at else tile
            return f"copy {source}[{', '.join(coords)}] + {offset}, halo {halo}, to {place}, counted on {ring}"
        case MaskWord(value=value, entry=entry, first=first):
            return f"mask[{first} + {entry}] = lanes where {value}"
        case LoadMask(entries=entries):
            return f"read {' | '.join(f'mask[{first} + {name}]' for name, first in entries)}"
        case ClearAcc(acc=acc, columns=columns):
            return f"set {columns} columns of {acc} to zero"
        case TensorFill(source=source, tile=tile, atoms=atoms):
            return f"copy {source} to {tile} in tensor memory, {atoms} times 32 bytes a row"
        case MoveRows(tile=tile):
            return f"move the rows of {tile} by one lane"
        case Refresh(source=source, tile=tile, halo=halo, extra=extra):
            return f"lanes 31, 63, 95, 127 of {tile} = halo {halo}{f' + {extra}' if extra else ''} of {source}"
        case MmaTensor(acc=acc, a=a, b=b, m=m, n=n, atoms=atoms, masked=masked, moves=moves):
            also = f", then move the rows of {a} by one lane" if moves else ""
            return f"{acc} += {a} x {b}: {m} x {n}, {atoms} MMAs of {types_of(step)}{MASKED * masked}{also}"
        case MmaStationary(acc=acc, a=a, b=b, m=m, n=n, atoms=atoms, shift=shift, runs=runs):
            zeroed = f", {runs[0]} of {runs[0] + runs[1]} columns zeroed" if runs else ""
            return f"{acc} += {b} x {a}[{shift} columns on]: {m} x {n}, {atoms} MMAs of {types_of(step)}{zeroed}"
        case AddLaneBias(buffer=buffer, channel=channel):
            return f"add {buffer}[{channel}]"
        case PixelStore(buffer=buffer, columns=columns):
            return f"write {columns} values to {buffer}, one a pixel"
    return _describe_scaled(step)


def _describe_scaled(step: Step) -> str:
    """The same for the steps of kernels with scale factors."""
    match step:
        case CarryFactors(source=source, tile=tile, rows=rows, words=words, first=first):
            return f"rows 0..{rows - 1} of {source}, {words} words from byte {first} on, to lanes and columns of {tile}"
        case Arrive(ring=ring):
            return f"every thread signals {ring}, its stores done"
        case MmaScaled(acc=acc, a=a, b=b, m=m, n=n, atoms=atoms, factors_a=scales_a, factors_b=scales_b):
            scaled = f"{a} x {b} times {scales_a} x {scales_b}"
            return f"{acc} += {scaled}: {m} x {n}, {atoms} MMAs of {types_of(step)}"
        case ScaleSums(buffer=buffer, channel=channel, first=first):
            return f"times {buffer}[{channel} + {first}]"
    return _describe_epilogue(step)


def _describe_epilogue(step: Step) -> str:
    """The same for the steps between the bias and the rounding."""
    match step:
        case ApplyRelu():
            return "max with 0"
        case ApplyLeakyRelu(alpha=alpha):
            return f"times {alpha:g} where negative"
        case ApplyClip(low=low, high=high):
            bounds = (("max", low), ("min", high))
            return ", ".join(f"{word} with {bound:g}" for word, bound in bounds if bound is not None) or "no bounds"
        case ApplySigmoid():
            return "1 / (1 + 2^(-value * log2 e))"
        case ApplySilu():
            return "value / (1 + 2^(-value * log2 e))"
        case AddRowResidual(buffer=buffer, columns=columns, at=at):
            return f"add {columns} values of {buffer} + {at}{_guards(step)}"
        case AddLaneResidual(buffer=buffer, columns=columns):
            return f"add {columns} values of {buffer}, one a pixel"
    raise ValueError(f"unknown step {type(step).__name__}")


def types_of(step: Multiply) -> str:
    """Types of activations and filters."""
    return f"{step.operand} x {step.filter_operand}" if step.filter_operand else step.operand


def _guards(step: GlobalStore | AddRowResidual) -> str:
    limits = ((step.row, step.row_limit), (step.channel, step.channel_limit))
    tests = [f"{name} < {limit}" for name, limit in limits if limit is not None]
    return f" where {' and '.join(tests)}" if tests else ""
