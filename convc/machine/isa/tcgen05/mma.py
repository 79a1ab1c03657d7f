"""tcgen05.mma in all its dense forms: operands are read from registers and queued on the tensor core.

One thread issues. CTAs that run in lockstep and give different operands issue one group after the other; only the
words of disable-output-lane, which tell borders of an image and so differ between CTAs, may differ inside a group.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from convc.errors import MachineFault, UnmodelledError
from convc.ir.findings import Verdict
from convc.machine.base.findings import Who
from convc.machine.base.values import Value, fixed, narrow, plain
from convc.machine.isa.operands import Read, address_of, modifier, number, reader
from convc.machine.isa.registry import BLIND, ORDINARY, REFUSED, Run, op
from convc.machine.isa.tcgen05.collective import check_pair, is_pair
from convc.machine.state.observer import Operation
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.machine.tensor_core.copy_shift import Copy, Shift
from convc.machine.tensor_core.footprints import NOTHING, Footprint
from convc.machine.tensor_core.mma import Accumulator, LaneMask, Mma
from convc.machine.tensor_core.shapes import shape_of
from convc.ptx import Address, Instr
from convc.ptx.descriptors import old_version

Rows = tuple[int, ...] | None

MASKS = 64
"""Sets of disabled lanes that are kept: a loop comes to the same ones again and again."""


UNTOLD = Footprint(NOTHING, (), NOTHING, NOTHING)
"""Of an operation whose observer asks for no places."""


def issues(
    strand: Strand, thread: tuple[int, int], values: list[Value], pair: bool
) -> Iterator[tuple[list[int], Rows, Rows]]:
    """(operand values, CTAs that take part, CTAs that issue) of one thread's instruction, group by group.

    The CTAs of a pair take part in what one of them issues; CTAs of different ranks issue one after the other.
    """
    cohort = strand.cohort
    picked = [strand.pick(v, thread) if isinstance(v, np.ndarray) else int(v) for v in values]
    rows = _issuers(strand, thread)
    if not pair and plain(picked):
        yield picked, rows, rows
        return
    own = np.arange(cohort.ctas) if rows is None else np.asarray(rows)
    table = [np.broadcast_to(np.asarray(v, np.uint64), (strand.row_count,)) for v in picked]
    if strand.rows is None:
        table = [column[own] for column in table]
    elif len(own) != strand.row_count:
        table = [column[np.isin(strand.rows, own)] for column in table]
    if pair:
        check_pair(cohort)
        table.append((own % 2).astype(np.uint64))
    lines = np.stack(table, axis=1)
    for line in np.unique(lines, axis=0):
        chosen = own[(lines == line).all(axis=1)]
        taking = np.stack([chosen & ~1, chosen | 1], axis=1).reshape(-1) if pair else chosen
        where = None if len(taking) == cohort.ctas else tuple(taking.tolist())
        yield [int(x) for x in line[: len(picked)]], where, tuple(chosen.tolist())


def notify_operation(
    strand: Strand,
    kind: str,
    item: Mma | Copy | Shift,
    thread: tuple[int, int],
    issuers: Rows,
    pair: bool,
    target: Accumulator | None = None,
) -> None:
    """Announce an operation that a thread of the CTAs ``issuers`` (None: all) has issued to the observer."""
    cohort = strand.cohort
    if cohort.observer is None:
        return
    _note_version(strand, item, thread)
    touched = UNTOLD
    if not isinstance(item, Mma) or "mma" in cohort.observer.wants:
        touched = cohort.core.footprint(item)
    operation = Operation(
        kind=kind,
        rows=range(cohort.ctas) if issuers is None else issuers,
        pair=pair,
        thread=(int(strand.warps[thread[0]]), thread[1]),
        shared=touched.shared,
        operands=touched.operands,
        reads=touched.reads,
        writes=touched.writes,
        target=target,
        mma=item if isinstance(item, Mma) else None,
    )
    cohort.observer.tensor_op(strand, item.instr, operation)


def _note_version(strand: Strand, item: Mma | Copy | Shift, thread: tuple[int, int]) -> None:
    """Report descriptors whose fixed bits are 0, which the tensor core reads all the same."""
    words = (item.descriptor,) if isinstance(item, Copy) else ()
    if isinstance(item, Mma):
        words = (item.b,) if item.a_in_tensor else (item.a, item.b)
    for word in words:
        if old_version(word):
            message = f"bits 46-48 of the shared-memory descriptor {word:#018x} are 0b000, not 0b001"
            who = Who(row=0, warp=int(strand.warps[thread[0]]), lanes=(thread[1],))
            strand.cohort.findings.report("descriptor-version", message, item.instr, Verdict.rule, who)


def _issuers(strand: Strand, thread: tuple[int, int]) -> Rows:
    rows = strand.rows
    mask = strand.mask
    if mask is not None and mask.shape[0] > 1:
        active = np.broadcast_to(mask, (mask.shape[0], len(strand.warps), 32))[:, thread[0], thread[1]]
        if not active.all():
            own = strand.cohort.rows_or_all(rows)
            return tuple(own[active].tolist())
    return None if rows is None else tuple(rows.tolist())


@op("tcgen05.mma.sp", "tcgen05.mma.sp.block_scale", "tcgen05.mma.ws.sp", traits=ORDINARY, result=False)
def sparse(instr: Instr, table: SlotTable) -> Run:
    """Sparse A is not modelled."""
    raise UnmodelledError(
        f"the simulator has no {instr.form.name}: {REFUSED[instr.form.name]}",
        hint="every dense tcgen05.mma is modelled",
    )


@op("tcgen05.mma", traits=BLIND, result=False)
@op("tcgen05.mma.ws", "tcgen05.mma.block_scale", traits=ORDINARY, result=False)
def mma(instr: Instr, table: SlotTable) -> Run:
    """tcgen05.mma{.ws} [d], a, b, idesc {, scale factors} {, mask}, enable {, scale | zero mask}."""
    args = instr.args
    slots = instr.slots
    kind = modifier(instr, "kind").removeprefix("kind::")
    pair = is_pair(instr)
    ws = instr.form.name == "tcgen05.mma.ws"
    in_tensor = isinstance(args["a"], Address)
    size = slots.get("scale_size")
    ashift = "ashift" in instr.mods
    has_zero = args.get("zero_mask") is not None
    readers = _readers(instr, table)
    words = [] if args.get("mask") is None else table.slots(args["mask"], 32)
    scale = 0 if args.get("scale") is None else number(args["scale"])
    collector = _collector(slots.get("collector") or f"collector::{'b0' if ws else 'a'}::discard")

    def run(strand: Strand) -> None:
        regs = strand.regs
        cohort = strand.cohort
        zero_mask = cohort.launch.switches.zero_mask
        values = [0 if read is None else read(regs) for read in readers]
        for thread in strand.threads():
            for part, rows, issuers in _alone(strand, values, pair) or issues(strand, thread, values, pair):
                d, a, b, word, enabled, sfa, sfb, zero = part
                shape = shape_of(word, kind, pair, ws, in_tensor, size)
                if ashift and shape.m == 64:
                    raise MachineFault("tcgen05.mma.ashift needs M = 128 (or 256 in a pair), got 64")
                one = Mma(
                    shape,
                    d,
                    a,
                    b,
                    bool(enabled),
                    rows,
                    instr,
                    a_in_tensor=in_tensor,
                    mask=_lane_mask(strand, thread, words, issuers) if words else None,
                    scale=scale,
                    ashift=ashift,
                    zero=zero if has_zero else None,
                    sfa=sfa,
                    sfb=sfb,
                )
                issued = strand.row_count if issuers is None else len(issuers)
                cohort.counters.multiply(one, issued, collector, zero_mask)
                cohort.core.multiply(one, collector)
                if cohort.observer is not None:
                    what = "mma.ashift" if ashift else "mma"
                    notify_operation(strand, what, one, thread, issuers, pair, one.accumulator)

    return run


def _alone(strand: Strand, values: list[Value], pair: bool) -> list[tuple[list[int], Rows, Rows]] | None:
    """`issues` in the usual case: one thread, the same in all CTAs, and operands that are the same in all; or None."""
    if strand.active is None:
        return None
    known: list[int] = []
    for value in values:
        same = narrow(value)  # addresses in clusters are arrays, descriptors made of them are the same in all CTAs
        if isinstance(same, np.ndarray):
            return None
        known.append(same)
    if not pair:
        rows = None if strand.rows is None else tuple(strand.rows.tolist())
        return [(known, rows, rows)]
    if strand.rows is None or strand.cohort.cluster_size % 2:
        return None
    taking = _pairs_of(strand.rows.tobytes(), strand.cohort.ctas)
    return None if taking is None else [(known, *taking)]


@lru_cache(maxsize=64)
def _pairs_of(issuers: bytes, ctas: int) -> tuple[Rows, Rows] | None:
    """`issues`: the CTAs that take part, and those that issue, where these are all even or all odd; else None."""
    rows = np.frombuffer(issuers, np.int64)
    if (rows % 2 != rows[0] % 2).any():
        return None
    taking = np.stack([rows & ~1, rows | 1], axis=1).reshape(-1)
    return None if len(taking) == ctas else tuple(taking.tolist()), tuple(rows.tolist())


def _readers(instr: Instr, table: SlotTable) -> list[Read | None]:
    """What reads d, a, b, idesc, enable, the addresses of both scale factors and the zero mask; None where absent."""
    args = instr.args
    a = args["a"]
    scales = [args.get("scale_a"), args.get("scale_b")]
    zero = args.get("zero_mask")
    return [
        address_of(args["d"], table),
        address_of(a, table) if isinstance(a, Address) else reader(a, table, 64),
        reader(args["b"], table, 64),
        reader(args["idesc"], table, 32),
        reader(args["enable"], table),
        *(None if scale is None else address_of(scale, table) for scale in scales),
        None if zero is None else reader(zero, table, 64),
    ]


def _collector(usage: str) -> tuple[str, str]:
    """(buffer, usage) of ``collector::a::fill``."""
    _, buffer, what = usage.split("::")
    return buffer, what


def _lane_mask(strand: Strand, thread: tuple[int, int], words: list[int], issuers: Rows) -> LaneMask | None:
    """Lanes of D that are written: bit j of word i covers lane 32 i + j; words 4 to 7 the odd CTA of a pair.

    None where all are, in every CTA.
    """
    if len(words) == 8 and strand.cohort.launch.switches.pair_mask == "odd":
        words = words[4:] + words[:4]
    picked = [strand.pick(strand.regs[word], thread) for word in words]
    if plain(picked):
        table = np.array([picked], np.uint32)
    else:
        table = np.empty((strand.row_count, len(picked)), np.uint32)
        for at, value in enumerate(picked):
            table[:, at] = value
        if issuers is not None:
            own = strand.cohort.rows_or_all(strand.rows)
            table = table[np.isin(own, issuers)]
    count = strand.row_count if issuers is None else len(issuers)
    return _enabled(table.astype("<u4", copy=False).tobytes(), len(words), count)


@lru_cache(maxsize=MASKS)
def _enabled(table: bytes, words: int, count: int) -> LaneMask | None:
    """The lanes that words (CTAs or 1, ``words``) leave to an instruction of ``count`` CTAs; None: all of them."""
    if not any(table):
        return None
    enabled = np.unpackbits(~np.frombuffer(table, np.uint8), bitorder="little").view(bool).reshape(-1, 128)
    if words == 8 and len(table) == 4 * words:
        enabled = np.tile(enabled, (count, 1))
    elif (enabled == enabled[:1]).all():
        enabled = enabled[:1]
    return LaneMask(fixed(enabled))
