"""From a tile program to a kernel: the templates of its steps in order, wrapped in roles, wrapped in an entry.

Nothing is decided here. Each step becomes the text of its template, each role a block that only its warps enter, and
the three acts of the program follow one another in the body of the entry.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from msgspec.structs import replace

from convc.compiler.emit.render import render
from convc.compiler.tile.exprs import Number
from convc.compiler.tile.program import Role, TileProgram, executions, walk
from convc.compiler.tile.steps.base import TABLE, Compute, LookUp, Loop, Repeat, Step, Strided, template_name
from convc.compiler.tile.steps.channels import HoldNumbers
from convc.compiler.tile.steps.copies import MakePolicy
from convc.compiler.tile.steps.epilogue import Convert, ReadAcc, ReadValues
from convc.compiler.tile.steps.lanes import JoinMask, LoadMask
from convc.compiler.tile.steps.mma import Multiply, WarpgroupMma
from convc.compiler.tile.steps.persistent import FetchLoop
from convc.compiler.tile.steps.rings import Advance
from convc.compiler.tile.steps.spelling import MASK_WORDS, RoleContext, phase, stage, values_per_word
from convc.compiler.tile.steps.split import LastLoop
from convc.ir.expr import bounds
from convc.ir.launch import KernelArtifact, PointerParam, TensorMapParam

INDENT = "    "

NUMBER_OF = ("which tile of the output this CTA makes first", "the number of the tile of the output that it makes")
"""Comments on a CTA's number: where it makes several tiles, and where it makes one."""


def emit(program: TileProgram) -> KernelArtifact:
    """The text of a program and its launch."""
    launch = program.launch
    maps: list[str] = []
    pointers: list[str] = []
    declarations: list[str] = []
    for name, param in zip(program.params, launch.params, strict=True):
        match param:
            case TensorMapParam():
                maps.append(name)
                declarations.append(f".param .align 64 .b8 {name}[128]")
            case PointerParam():
                pointers.append(name)
                declarations.append(f".param .u64 {name}")
            case _:
                raise ValueError(f"parameter {name}: a kernel takes tensor maps and pointers")
    text = render(
        "kernel",
        {
            "title": program.title,
            "about": _about(program),
            "ptx_version": program.ptx_version,
            "target": program.arch,
            "entry": launch.entry,
            "parameters": [line + "," for line in declarations[:-1]] + declarations[-1:],
            "parameter_registers": ", ".join(f"%{name}" for name in program.params),
            "threads": launch.block[0],
            "alone": program.alone,
            "numbered": program.numbered,
            "number_of": NUMBER_OF[program.visits is None],
            "table": TABLE,
            "entries": _entries(program.table),
            "entry_count": len(program.table),
            "clustered": math.prod(launch.cluster) > 1,
            "cluster": ", ".join(map(str, launch.cluster)),
            "paired": program.pair > 1,
            "split": launch.grid[2] > 1,
            "part_of": "%cluster_ctarank" if launch.grid[2] == launch.cluster[2] else "%ctaid.z",
            "tensor_memory": program.storage.tmem_columns > 0,
            "maps": maps,
            "pointers": pointers,
            "body": _indent("\n\n".join(_role(program, role) for role in program.all_roles)),
        },
    )
    return KernelArtifact(ptx=text, launch=launch)


def _role(program: TileProgram, role: Role) -> str:
    places = dict.fromkeys(known_stages(role.steps), 0)
    context = _context(program, role, places)
    states = [(*(() if state in places else (stage(state),)), phase(state)) for state in context.states]
    everyone = (role.first_warp, role.last_warp) == (0, program.warps - 1) and not role.leads
    return render(
        "role",
        {
            "name": role.name,
            "who": role.who,
            "note": role.note,
            "guarded": not everyone,
            "guard": _guard(role),
            "elected": role.elected,
            "states": [register for registers in states for register in registers],
            "registers": _registers(role, states, context.numbers),
            "body": _indent(_steps(role.steps, context)),
        },
    ).rstrip()


def _context(program: TileProgram, role: Role, places: dict[str, int]) -> RoleContext:
    steps = walk(role.steps)
    return RoleContext(
        role=role.name,
        storage=program.storage,
        pair=program.pair,
        dependent=program.dependent,
        states=tuple(dict.fromkeys(step.state for step in steps if isinstance(step, Advance))),
        uses_tensor_memory=program.storage.tmem_columns > 0
        and any(isinstance(step, Multiply | ReadAcc) for step in steps),
        numbers=numbers_of(program, role),
        places=places,
    )


def numbers_of(program: TileProgram, role: Role) -> dict[str, Number]:
    """Every number of a role: the inputs, the loop counters, and what `Compute` steps make, in order of the text."""
    numbers: dict[str, Number] = {r.name: Number(bits=32, low=r.low, high=r.high) for r in program.inputs}
    numbers["warp"] = Number(bits=32, low=role.first_warp, high=role.last_warp)
    numbers["thread"] = Number(bits=32, low=32 * role.first_warp, high=32 * role.last_warp + 31)
    for step in walk(role.steps):
        match step:
            case Strided(var=var, limit=limit):
                numbers[var] = Number(bits=32, low=0, high=limit - 1)
            case Loop(var=var, count=count) | FetchLoop(var=var, count=count) | LastLoop(var=var, count=count):
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


def _steps(steps: tuple[Step, ...], context: RoleContext) -> str:
    return "\n".join(_step(step, context) for step in steps)


def _step(step: Step, context: RoleContext) -> str:
    """The text of a step; that of a loop has those of its body inside."""
    note = f"{step.dst} = {step.expr}: {step.note}" if isinstance(step, Compute) else step.note
    names = {"id": step.id, "role": context.role, "note": note} | step.spelling(context)
    if isinstance(step, Loop):
        names |= _copies(step, context)
    elif isinstance(step, Repeat):
        names["bodies"] = [(0, _indent(_steps(step.body, context)))]
    return in_stages(render(template_name(type(step)), names).rstrip(), context.places)


def _copies(loop: Loop, context: RoleContext) -> dict[str, list[tuple[int, str]]]:
    """The bodies of a loop, each as it is in its place, and those behind the last jump back."""

    def body(value: int, last: int) -> tuple[int, str]:
        inside = context if loop.copies == 1 and not loop.all_written else _within(context, loop, value, last)
        return value, _indent(_steps(loop.body, inside))

    repeated, rest = turns(loop)
    further = 0 if loop.all_written else rest.start - len(repeated)
    return {
        "bodies": [body(first, first + further) for first in repeated],
        "rest": [body(value, value) for value in rest],
    }


def _within(context: RoleContext, loop: Repeat, first: int, last: int) -> RoleContext:
    """The surroundings of a copy of a loop's body: `first` to `last` are its variable's values, and what follows."""
    numbers = {**context.numbers, loop.var: Number(bits=32, low=first, high=last)}
    for step in walk(loop.body):
        if isinstance(step, Compute):
            low, high = bounds(step.expr, {name: (number.low, number.high) for name, number in numbers.items()})
            numbers[step.dst] = Number(bits=step.bits, low=low, high=high)
    unrolled = {**context.unrolled, loop.var: first} if first == last else context.unrolled
    return replace(context, unrolled=unrolled, numbers=numbers)


def _entries(table: tuple[int, ...]) -> list[str]:
    """Lines of a table's values."""
    rows = [", ".join(map(str, table[first : first + 12])) for first in range(0, len(table), 12)]
    return [f"{row}," for row in rows[:-1]] + rows[-1:]


def _indent(text: str) -> str:
    """The lines of a text further to the right, but for empty ones; `textwrap.indent` asks a function about each."""
    return "\n".join([INDENT + line if line else line for line in text.split("\n")])


def _guard(role: Role) -> list[str]:
    """Lines that set ``%skip`` for the warps that are not in the role."""
    other = ["setp.ne.or.u32 %skip, %rank, 0, %skip;"] if role.leads else []
    if role.first_warp == role.last_warp:
        return [f"setp.ne.u32 %skip, %warp, {role.first_warp};", *other]
    if role.first_warp == 0:
        return [f"setp.gt.u32 %skip, %warp, {role.last_warp};", *other]
    below = f"setp.lt.u32 %skip, %warp, {role.first_warp};"
    return [below, f"setp.gt.or.u32 %skip, %warp, {role.last_warp}, %skip;", *other]


def _registers(role: Role, states: list[tuple[str, ...]], numbers: Mapping[str, Number]) -> list[str]:
    """Declarations of what outlives a step of the role."""
    lines = [f".reg .b32 {', '.join(registers)};  // place in the ring" for registers in states]
    steps = list(walk(role.steps))
    counters = [step.var for step in steps if isinstance(step, Repeat)]
    computed = [step.dst for step in steps if isinstance(step, Compute | LookUp | MakePolicy)]
    for bits in (32, 64):
        names = [name for name in (*counters, *computed) if numbers[name].bits == bits]
        if names:
            lines.append(f".reg .b{bits} {', '.join(f'%{name}' for name in names)};")
    held = sum(step.columns for step in steps if isinstance(step, HoldNumbers))
    if held:
        lines.append(f".reg .b32 %held<{held}>;  // numbers of all channels of the tile")
    values = max((step.columns for step in steps if isinstance(step, ReadValues)), default=0)
    if values:
        lines.append(f".reg .b32 %v<{values}>;  // one row of the accumulator")
    sums = max((step.n for step in steps if isinstance(step, WarpgroupMma)), default=0)
    if sums:
        lines.append(f".reg .b32 %d<{sums // 2}>;  // the accumulator: two rows, two of every eight columns")
    converted = max((step for step in steps if isinstance(step, Convert)), key=lambda step: step.columns, default=None)
    if converted is not None:
        per_word = values_per_word(converted.out)
        words = {2: "two", 4: "four"}[per_word]
        lines.append(f".reg .b32 %h<{converted.columns // per_word}>;  // the same, {words} values a word")
    masked = max((step.rank + 1 for step in steps if isinstance(step, LoadMask)), default=0)
    if masked:
        lines.append(f".reg .b32 %m<{MASK_WORDS * masked}>;  // lanes that the next MMAs must not write")
    joined = max((step.rank + 1 for step in steps if isinstance(step, JoinMask)), default=0)
    if joined:
        lines.append(f".reg .b32 %n<{MASK_WORDS * joined}>;  // those of another reason")
    return lines


def _about(program: TileProgram) -> list[str]:
    """What a reader of the text should know first."""
    storage = program.storage
    grid = program.launch.grid
    visits = "" if program.visits is None else f", at most {program.visits} tiles each"
    if storage.answers is not None:
        visits = ", of which those that begin take over tiles of the others"
    if program.ordered is not None:
        visits += f"; {program.ordered[0]} x {program.ordered[1]} tiles in order {program.order}"
    pair = ", 2-CTA MMA" if program.pair > 1 else ""
    parts = grid[2]
    clusters = f" in clusters of {program.launch.cluster[2]}" if parts > program.launch.cluster[2] else ""
    shared = f" x {parts}{clusters}, which share the K loop of a tile" if parts > 1 else ""
    lines = [f"Schedule {program.schedule}; grid {grid[0]} x {grid[1]}{shared}{visits}{pair}; {program.warps} warps:"]
    lines += [f"  {role.name}: {role.who}, {role.note}" for role in program.roles]
    lines.append(f"Shared memory ({storage.smem_bytes} bytes):")
    lines += [
        f"  {tile.offset}: tile {tile.name}, {tile.rows} rows of {tile.row_bytes} bytes, {tile.stages} stages"
        for tile in storage.smem
    ]
    lines += [
        f"  {ring.offset}: barriers {ring.name}[{ring.stages}], {ring.producer} signals, {ring.consumer} waits"
        for ring in storage.rings
    ]
    if storage.results is not None:
        tile = storage.results
        slabs = f"{tile.rows} rows of {tile.row_bytes} bytes, {tile.stages} slabs"
        shared = "" if storage.results_apart else ", over the others when they have been multiplied"
        lines.append(f"  {tile.offset}: tile {tile.name}, {slabs}{shared}")
    if storage.residual is not None:
        tile = storage.residual
        slabs = f"{tile.rows} rows of {tile.row_bytes} bytes, {tile.stages} slabs of the residual"
        lines.append(f"  {tile.offset}: tile {tile.name}, {slabs}")
    if storage.sums is not None:
        tile = storage.sums
        place = f"  {tile.offset}: tile {tile.name}, {tile.rows} rows of {tile.row_bytes} bytes"
        lines.append(f"{place}, over the others when they have been multiplied")
    if storage.numbers is not None:
        tile = storage.numbers
        lines.append(f"  {tile.offset}: tile {tile.name}, {tile.rows} rows of {tile.row_bytes} bytes")
    if storage.answers is not None:
        tile = storage.answers
        lines.append(f"  {tile.offset}: tile {tile.name}, {tile.row_bytes} bytes, {tile.stages} stages")
    if storage.mask_offset is not None:
        tables = "" if storage.mask_tables == 1 else f", {storage.mask_tables} times: of this tile and of the next"
        lines.append(f"  {storage.mask_offset}: {storage.masks} lane masks of 16 bytes{tables}")
    if storage.tmem_columns:
        lines.append(f"  {storage.slot_offset}: address of the tensor memory ({storage.tmem_columns} columns)")
    if storage.end < storage.smem_bytes:
        lines.append(f"  {storage.end}: nothing, which keeps other CTAs from the SM")
    return lines


def known_stages(steps: tuple[Step, ...]) -> tuple[str, ...]:
    """The states of a role whose stage is the same whenever a place of the text is reached: a number, no register.

    `convc.compiler.schedules.program` says how often a loop has its body. A copy too few makes a kernel slower, never
    wrong.

    Nothing is where no loop has copies: there the text is shorter with the stage in a register.
    """
    if not any(isinstance(step, Loop) and step.copies > 1 for step in walk(steps)):
        return ()
    states = {step.state: step.stages for step in walk(steps) if isinstance(step, Advance)}
    loops = [step for step in walk(steps) if isinstance(step, Repeat)]
    return tuple(s for s, stages in states.items() if all(_comes_around(loop, s, stages) for loop in loops))


def turns(loop: Loop) -> tuple[range, range]:
    """The numbers of a loop's bodies in the text: the first ones of those that are repeated, and of those behind."""
    if loop.all_written:
        return range(loop.count), range(0)
    return range(loop.copies), range(loop.count - loop.count % loop.copies, loop.count)


def in_stages(text: str, places: Mapping[str, int]) -> str:
    """The text of a step with the number of a stage in place of the register for it, where it is known."""
    for state, place in places.items():
        text = re.sub(rf"{re.escape(stage(state))}\b", str(place), text)
    return text


def moved(steps: tuple[Step, ...], state: str) -> int:
    """Stages that steps move a state on."""
    return sum(times for step, times in executions(steps) if isinstance(step, Advance) and step.state == state)


def _comes_around(loop: Repeat, state: str, stages: int) -> bool:
    """Whether a jump back finds the state at the stage at which the loop began."""
    if isinstance(loop, Loop):
        return loop.all_written or loop.copies * moved(loop.body, state) % stages == 0
    return moved(loop.body, state) % stages == 0
