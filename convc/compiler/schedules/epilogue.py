"""The epilogue: from the accumulator to global memory, where a lane has an output pixel.

The parts that do not depend on that (requantisation, the steps of a problem's epilogue, rounding) serve the schedule
whose lanes are channels too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from convc.compiler.index.shares import share
from convc.compiler.plan.names import NUMBERS, C, NewNumber, Number
from convc.compiler.plan.persistent import NUMBER_BYTES
from convc.compiler.plan.records import Plan
from convc.compiler.schedules.cores.all import core_of
from convc.compiler.schedules.residual import add_slab, landed, read_by_threads
from convc.compiler.schedules.skeleton import (
    BIAS,
    MAP_OUT,
    OUT,
    RESIDUAL,
    compute,
    like,
    number,
    pixel_bits,
)
from convc.compiler.tile.steps.base import Compute, Loop, Step
from convc.compiler.tile.steps.channels import (
    AddBias,
    HoldNumbers,
    Requantise,
    RequantiseLane,
    ScaleLane,
    ScaleSums,
    StageNumbers,
)
from convc.compiler.tile.steps.epilogue import ApplyClip, ApplyLeakyRelu, ApplyRelu, ApplySigmoid, ApplySilu, Convert
from convc.compiler.tile.steps.staged import LineStore, ResultStore, SlabResidual, StageRow, StoreWait, TileStore
from convc.compiler.tile.steps.stores import ADD, MASK, GlobalStore, LaneResidual, PixelStore, RowResidual
from convc.host_layout.device_layout import has_tensor_scale
from convc.ir.epilogue import AddResidual, Clip, EpilogueStep, LeakyRelu, Relu, ReluGrad, Sigmoid, SiLU
from convc.ir.expr import Const, substitute

PER_WORD = {8: "four", 16: "two"}
"""How many values of so many bits are packed into a word."""


def row_epilogue(plan: Plan, before: tuple[Step, ...] = ()) -> tuple[Step, ...]:
    """Every lane carries one row of the accumulator, some columns at a time.

    `before`: what the role does until the accumulator is complete.
    """
    core = core_of(plan.arch)
    pixel = compute(plan.indexing.coordinates.m, "epilogue", pixel_bits(plan))
    if plan.storage.results is None:
        columns = core.columns(plan)
        stores = direct_stores(plan, core.read(columns), columns, core.chunks(plan))
        return (*core.lane(), pixel, *before, *core.accumulated(), stores)
    first_m = plan.indexing.coordinates.first_m
    first = () if first_m is None else (compute(first_m, "epilogue"),)
    pixels = (pixel, *first) if first_m is None or read_by_threads(plan) else first
    steps = (*core.lane(), *pixels, *(hold_numbers(plan) if holds_numbers(plan) else stage_numbers(plan)), *before)
    return (*steps, *core.accumulated(), *core.vacated(plan), *tensor_stores(plan))


def direct_stores(plan: Plan, read: tuple[Step, ...], columns: int, chunks: int) -> Loop:
    """Every lane writes its row to global memory.

    Args:
        read: steps that set the first column of a chunk, and bring its sums.
        columns, chunks: of a chunk, and how many chunks there are.
    """
    write = row_store(plan, columns)
    place = compute(plan.indexing.coordinates.out_byte, "epilogue", 64)
    values = chunk_values(plan, read, write)
    return Loop(
        id="epilogue.chunks",
        note=f"{columns} columns at a time",
        var=number("chunk"),
        count=chunks,
        body=(*values, *(() if plan.problem.residual else (place,)), write),
        written_out=core_of(plan.arch).written_out,
    )


def tensor_stores(plan: Plan) -> tuple[Step, ...]:
    """Every lane writes its row to shared memory, and copies carry slabs of columns to global memory."""
    core = core_of(plan.arch)
    tile = plan.storage.smem_tile(C)
    columns = core.columns(plan)
    slab_columns = tile.row_bytes // plan.problem.out_dtype.bytes
    lanes = plan.arch.limits.row_lanes
    chunks = slab_columns // (columns * lanes)
    slab = number("slab")
    written_out = core.written_out or holds_numbers(plan)  # registers have no number that a kernel works out
    looped = chunks > 1 or written_out
    stage = StageRow(
        id="epilogue.stage",
        note="16 bytes at a time, swizzled",
        columns=columns,
        tile=C,
        slab=slab,
        lane=Number("lane"),
        chunk=number("chunk") if looped else None,
        half=number("half") if lanes > 1 else None,
        out=plan.problem.out,
    )
    column, *loads = core.read(columns, slab, chunks)
    assert isinstance(column, Compute), "a read begins with its first column"
    within = column.expr if looped else substitute(column.expr, {"chunk": Const(0)})
    read = (replace(column, expr=share("slab", "column", SLAB=slab_columns, column=within)), *loads)
    copied = None if plan.storage.residual is None else add_slab(stage)
    body = (*chunk_values(plan, read, row_store(plan, columns), copied), stage)
    if looped:
        note = f"{columns} columns at a time"
        chunk = number("chunk")
        inner = Loop(id="epilogue.chunks", note=note, var=chunk, count=chunks, body=body, written_out=written_out)
        body = (inner,)
    if copied is not None:
        body = landed(plan, body)
    channel = compute(
        plan.indexing.coordinates.k, "epilogue", dst=Number("slab_k"), column=share("slab", "first", SLAB=slab_columns)
    )
    store = _copy_of_results(plan, slab)
    note = f"{slab_columns} columns a copy"
    body = (*body, channel, store)
    return (
        Loop(id="epilogue.slabs", note=note, var=slab, count=tile.stages, body=body, written_out=written_out),
        StoreWait(id="epilogue.drain", note="until the stores have read shared memory: the CTA may exit"),
    )


def _copy_of_results(plan: Plan, slab: NewNumber) -> ResultStore:
    """The step that copies a slab of a warp's rows: a box, where they are consecutive output pixels."""
    first_m = plan.indexing.coordinates.first_m
    channel = Number("slab_k")
    common: dict[str, Any] = {"id": "epilogue.store", "map": MAP_OUT, "tile": C, "slab": slab}
    if first_m is None:
        pixel = plan.indexing.coordinates.m.name
        note = "lines without a pixel and channels outside the output are not stored"
        return LineStore(**common, note=note, channel=channel, lane=Number("lane"), pixel=pixel)
    note = "rows and channels outside the output are not stored"
    rows = plan.arch.limits.warp_rows
    return TileStore(**common, note=note, coords=(channel, first_m.name), rows=rows)


def stage_numbers(plan: Plan) -> tuple[Step, ...]:
    """Bring what the tile's channels are added and multiplied with to shared memory, while others load and multiply."""
    tile = plan.storage.smem_tile(NUMBERS)
    first = Number("tile_k")
    stage = StageNumbers(
        id="epilogue.numbers",
        note="copied while MMAs run",
        buffer=BIAS,
        pitch=plan.layout.bias.shape[-1],
        channel=first,
        tile=NUMBERS,
        rows=tile.rows,
        columns=tile.row_bytes // NUMBER_BYTES,
        threads=plan.tiling.block_m * plan.arch.limits.row_lanes,
    )
    k = plan.indexing.coordinates.k
    if all_numbers(plan):
        return compute(k, "epilogue", dst=first, column=Const(0), tile_n=Const(0)), stage
    return compute(k, "epilogue", dst=first, column=Const(0)), stage


def holds_numbers(plan: Plan) -> bool:
    """Whether each thread keeps the numbers of the tile's channels in registers."""
    return plan.storage.results is not None and plan.storage.numbers is None


def hold_numbers(plan: Plan) -> tuple[Step, ...]:
    """Bring what is added to each channel to registers: all tiles of a CTA have the same channels."""
    first = Number("tile_k")
    note = "the bias: all tiles of the CTA have the same channels"
    hold = HoldNumbers(id="epilogue.numbers", note=note, buffer=BIAS, channel=first, columns=plan.tiling.block_n)
    k = plan.indexing.coordinates.k
    return compute(k, "epilogue", dst=first, column=Const(0), tile_n=Const(0)), hold


def all_numbers(plan: Plan) -> bool:
    """Whether the numbers of more channels than those of a tile are staged, so that they are found by the channel."""
    tile = plan.storage.numbers
    return tile is not None and tile.row_bytes > NUMBER_BYTES * plan.tiling.block_n


def staged(plan: Plan, row: int) -> dict[str, Any]:
    """The fields of a `ChannelStep` that say where its numbers are, of a row of the bias buffer."""
    if plan.storage.numbers is not None:
        return {"staged": (plan.indexing.coordinates.k.name if all_numbers(plan) else Number("column"), row)}
    if holds_numbers(plan):
        return {"held": Number("column")}
    return {"channel": plan.indexing.coordinates.k.name, "first": row * plan.layout.bias.shape[-1]}


def chunk_values(
    plan: Plan,
    read: tuple[Step, ...],
    write: GlobalStore,
    slab: SlabResidual | None = None,
) -> tuple[Step, ...]:
    """The steps from the accumulator to packed values.

    Args:
        plan: of the kernel.
        read: steps of which the first sets the first column of the chunk, and the others read it.
        write: which of the lane's values are stored, and where.
        slab: the step that adds a residual, where copies have brought it.
    """
    coordinates = plan.indexing.coordinates
    bias = AddBias(
        id="epilogue.bias",
        note="one value per channel",
        buffer=BIAS,
        columns=write.columns,
        dtype=plan.problem.sum_dtype.name,
        **staged(plan, 0),
    )
    channel = compute(coordinates.k, "epilogue")
    reads = read_by_threads(plan)
    needed = plan.storage.results is None or reads or all_numbers(plan)
    place = compute(coordinates.out_byte, "epilogue", 64)
    return (
        read[0],
        *((channel,) if needed else ()),
        *read[1:],
        *scale_sums(plan, write.columns),
        bias,
        *requantise(plan, write.columns),
        *((place,) if reads else ()),  # a residual is read where y is stored
        *epilogue_steps(plan.problem.epilogue, write, slab),
        *convert(plan, write.columns),
    )


def row_store(plan: Plan, columns: int) -> GlobalStore:
    """The step that writes `columns` values of a lane's row."""
    coordinates = plan.indexing.coordinates
    return GlobalStore(
        id="epilogue.write",
        note="16 bytes at a time",
        buffer=OUT,
        at=coordinates.out_byte.name,
        out=plan.problem.out,
        columns=columns,
        row=coordinates.m.name,
        row_limit=plan.indexing.row_limit,
        channel=coordinates.k.name,
        channel_limit=plan.indexing.channel_limit,
    )


def scale_sums(plan: Plan, columns: int) -> tuple[ScaleSums, ...]:
    """The step that multiplies float sums by a number per channel, or by the scales of whole tensors.

    The multipliers lie behind the bias.
    """
    if not (plan.problem.multiplier or has_tensor_scale(plan.layout)):
        return ()
    note = "one multiplier per channel" if plan.problem.multiplier else "the scales of both tensors"
    return (ScaleSums(id="epilogue.scale", note=note, buffer=BIAS, columns=columns, **staged(plan, 1)),)


def scale_lanes(plan: Plan, columns: int) -> tuple[ScaleLane, ...]:
    """The step that multiplies float sums where a lane has a channel."""
    if not plan.problem.multiplier:
        return ()
    step = ScaleLane(
        id="epilogue.scale",
        note="one multiplier per channel",
        buffer=BIAS,
        columns=columns,
        first=plan.layout.bias.shape[-1],
        channel=plan.indexing.coordinates.k.name,
    )
    return (step,)


def requantise(plan: Plan, columns: int) -> tuple[Requantise, ...]:
    """The step that scales sums of whole numbers, where the result has 8 bits; its multipliers lie behind the bias."""
    return (Requantise(**_scaling(plan, columns), **staged(plan, 1)),) if plan.problem.requantised else ()


def requantise_lanes(plan: Plan, columns: int) -> tuple[RequantiseLane, ...]:
    """The step that scales sums of whole numbers where a lane has a channel."""
    if not plan.problem.requantised:
        return ()
    channel = plan.indexing.coordinates.k.name
    return (RequantiseLane(**_scaling(plan, columns), first=plan.layout.bias.shape[-1], channel=channel),)


def _scaling(plan: Plan, columns: int) -> dict[str, Any]:
    """The fields that both steps have."""
    return {
        "id": "epilogue.scale",
        "note": "one multiplier per channel",
        "buffer": BIAS,
        "columns": columns,
        "zero_point": plan.problem.out_zero_point,
    }


def convert(plan: Plan, columns: int) -> tuple[Convert, ...]:
    """The step that packs values of less than 32 bits into words."""
    per_word = PER_WORD.get(plan.problem.out_dtype.bits)
    if per_word is None:
        return ()
    out = plan.problem.out
    return (Convert(id="epilogue.round", note=f"to {out}, {per_word} per word", out=out, columns=columns),)


def epilogue_steps(
    epilogue: tuple[EpilogueStep, ...], store: GlobalStore | PixelStore, slab: SlabResidual | None = None
) -> Iterator[Step]:
    """One step each, in order.

    Args:
        epilogue: what to do.
        store: which of the lane's values are stored, and where.
        slab: the step that adds a residual, where copies have brought it.
    """
    for index, step in enumerate(epilogue):
        common: dict[str, Any] = {
            "id": f"epilogue.apply_{index}",
            "note": str(step),
            "columns": store.columns,
        }
        match step:
            case Relu():
                yield ApplyRelu(**common)
            case LeakyRelu(alpha=alpha):
                yield ApplyLeakyRelu(**common, alpha=alpha)
            case Clip(low=low, high=high):
                yield ApplyClip(**common, low=low, high=high)
            case Sigmoid():
                yield ApplySigmoid(**common)
            case SiLU():
                yield ApplySilu(**common)
            case AddResidual() | ReluGrad():
                common["use"] = ADD if isinstance(step, AddResidual) else MASK
                yield _residual(step, store, common) if slab is None else replace(slab, **common)


def _residual(step: AddResidual | ReluGrad, store: GlobalStore | PixelStore, common: dict[str, Any]) -> Step:
    """The step that joins a residual, which lies as the result will."""
    kind = LaneResidual if isinstance(store, PixelStore) else RowResidual
    return like(kind, store, **common, buffer=RESIDUAL, in_place=isinstance(step, AddResidual) and step.in_place)
