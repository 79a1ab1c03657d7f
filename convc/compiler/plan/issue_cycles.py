"""Issue cycles of the threads of a kernel: what copies, multiplications and stores take.

A plan is priced before its kernel is written, so these are not counted in its text: they are sums over the
instructions of a step, fitted to what the timing engine (`convc.timing`) makes of kernels of all schedules: of every
other layer of ResNet-50 at batch 1. How far the other layers are off is in ``convc/docs/timing_measurements.md``. All
are cycles of the SM clock, class inferred.
"""

from __future__ import annotations

from convc.compiler.plan.work import CtaWork

LOAD_STAGE = 186.0
"""A stage that the load role fills: wait, address, expected bytes, first copy; its loop keeps its counter."""
LOAD_STAGE_UNROLLED = 88.0
"""The same in a loop that ptxas unrolls."""
LOAD_COPY = 37.0
"""Each further copy of a stage."""
MULTIPLY_STAGE = 97.0
"""A stage that the mma role multiplies: wait, descriptors, commit; its loop keeps its counter."""
MULTIPLY_STAGE_UNROLLED = 39.0
"""The same in a loop that ptxas unrolls."""
MMA = 27.5
"""Issue of an MMA, with its descriptors."""
READ_MASK = 10.0
"""The lane mask of a filter tap, read from the table."""
TENSOR_OPERATION = 17.0
"""Issue of a ``tcgen05.cp`` or ``tcgen05.shift``, with its address."""
DRAIN = 80.0
"""A commit, and a wait for it, apart from the time until it is complete."""

START = 533.0
"""From the entry of a CTA until its first copy is under way: barriers, where the tile begins, the map."""
TENSOR_MEMORY = 394.0
"""From the entry of a CTA until its warps know their tensor memory; the one that loads does not wait for it."""
SHARED_START = 38.0
"""How much later that is where filter columns share activations, and the walk has to be entered."""
MASK = 112.0
"""An entry of the table of lane masks."""
FIRST_MMA = 20.0
"""From the end of the wait for the first stage until its MMA is issued."""
EXIT = 31.0
"""What the epilogue does once, and the end of a CTA."""
CHUNK = 290.0
"""A piece of the accumulator in the epilogue: its load, the bias, the conversion, where it is stored."""

ROW_STORE = 13.0
"""A store of 16 bytes of an output pixel."""
STAGED = 70.0
"""What an epilogue does once whose results leave through shared memory."""
STAGED_COLUMN = 4.2
"""A column of it: load, bias, conversion; the numbers of the channels are in shared memory already."""
BLOCKED = 0.4
"""Part of its accesses of shared memory that an epilogue waits for where MMAs of the next tile run beside it: fitted to
tiles of 64 and 128 columns, 36 and 72 MMAs, of which it takes 2233 to 5263 cycles."""
HELD_COLUMN = 3.7
"""The same where those numbers are in registers."""
STAGED_STORE = 10.0
"""A store of 16 bytes to shared memory."""
LINE_COPY = 44.0
"""A copy of four lines to pixels of their own: ptxas makes a loop over the lanes that issue them, of 13 instructions a
turn as around a ``tcgen05.shift``, which takes as long on a B200 (``tensor_memory.shift_loop``)."""
STAGED_RESIDUAL = 63.0
"""16 bytes of a residual that copies have brought: a load from shared memory, eight conversions, and the additions."""
STAGED_RESIDUAL_F32 = 8.0
"""The same of a residual in float32: four additions, and nothing to convert."""
SUM_WRITTEN = 4.0
"""A column of sums: read from tensor memory, written to shared memory."""
SUM_READ = 2.0
"""A column of a part's sums, read and added."""
PIXEL_STORE = 62.0
"""A store of one value, where a lane holds a channel."""
PIXEL_TEST = 60.0
"""Whether its pixel is one of the output."""
PIXEL_DIVISION = 104.0
"""Which pixel it is, where the stream has places that are none."""
PIXEL_RESIDUAL = 53.0
"""The load of a residual's value, and its addition."""


def load_issue_cycles(work: CtaWork) -> float:
    """Cycles in which the load role issues all copies of a CTA, none of which it has to wait for."""
    stages = unrolled = 0
    for ring in work.rings:
        stages += ring.steps
        unrolled += ring.load_unrolled
    own = unrolled * LOAD_STAGE_UNROLLED + (stages - unrolled) * LOAD_STAGE
    return own + (work.loads - stages) * LOAD_COPY


def multiply_issue_cycles(work: CtaWork) -> float:
    """Cycles in which the mma role issues all operations of the tensor core, none of which it has to wait for."""
    stages = unrolled = 0
    for ring in work.rings:
        stages += ring.steps
        unrolled += ring.multiply_unrolled
    waits = unrolled * MULTIPLY_STAGE_UNROLLED + (stages - unrolled + work.own_waits) * MULTIPLY_STAGE
    operations = work.copies + work.refreshes + work.shifts
    return waits + work.drains * DRAIN + work.mmas * MMA + work.masked * READ_MASK + operations * TENSOR_OPERATION


def start_cycles(work: CtaWork) -> float:
    """Cycles from the entry of a CTA until its first copy is issued."""
    return START + (SHARED_START if len(work.rings) > 1 else 0.0)


def ready_cycles(work: CtaWork) -> float:
    """Cycles from the entry of a CTA until it could multiply, if the first copies were there."""
    return TENSOR_MEMORY + MASK * work.masks
