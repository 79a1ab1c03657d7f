"""Tensor copies: cp.async.bulk.tensor from global to shared memory (PTX manual, "cp.async.bulk.tensor")."""

from __future__ import annotations

import numpy as np

from convc.errors import MachineFault, UnmodelledError
from convc.machine.ops.memory import address_of
from convc.machine.ops.registry import op
from convc.machine.strand import Strand

MODES = {
    None: "tile",
    "tile": "tile",
    "im2col": "im2col",
    "im2col::w": "im2col_w",
    "im2col::w::128": "im2col_w128",
}
"""Modes of the instruction, and the tensor maps they go with."""


@op("cp.async.bulk.tensor.load", result=False)
def tensor_load(instr, program):
    """[dst], [map, {coords}], [mbar] {, info}: copy, then complete_tx of the bytes on the mbarrier."""
    slots, args = instr.slots, instr.args
    mode = MODES.get(slots.get("mode"))
    if mode is None or slots.get("multicast") or slots.get("cta_group") == "cta_group::2":
        raise UnmodelledError("the machine copies tensors in tile and im2col modes to the CTA's own shared memory only")
    target, barrier_at = address_of(args["dst"], program), address_of(args["mbar"], program)
    tensor_map = program.slot(args["map"].map)
    coords = [program.slot(c, 32) for c in args["map"].coords.items]
    info = args.get("info")
    offsets = [program.slot(o, 16) for o in info.items] if info is not None else []

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        cohort.core.seal()
        regs = strand.regs
        for thread in strand.threads():
            pick = strand.pick
            where, signal = (
                _one(pick(target(regs), thread), "destination"),
                _one(pick(barrier_at(regs), thread), "mbarrier"),
            )
            name, loader = _loader(cohort, _one(pick(regs[tensor_map], thread), "tensor map"))
            barrier = cohort.barrier(signal, "cp.async.bulk.tensor")
            at = tuple(_signed(pick(regs[c], thread)) for c in coords)
            shift = tuple(_one(pick(regs[o], thread), "offset") & 0xFFFF for o in offsets)
            result = loader.load(cohort.shared.bytes, where, at, shift, strand.rows, mode)
            for low, high in result.written:
                cohort.shared.written.mark(slice(where + low, where + high), strand.rows)
            barrier.add_tx(cohort.ctas, strand.rows, -result.bytes)
            stats = cohort.stats
            stats.tma_loads += strand.row_count
            stats.tma_bytes[name] = stats.tma_bytes.get(name, 0) + result.bytes * strand.row_count

    return run


def _loader(cohort, address: int):
    from convc.machine.program import PARAM_WINDOW

    entry = cohort.launch.tensor_maps.get(address - PARAM_WINDOW)
    if entry is None:
        raise MachineFault(
            f"address {address:#x} does not hold a tensor map",
            hint="pass the address of a 128-byte .param that the launch file describes as a tensor map",
        )
    return entry


def _one(value: int | np.ndarray, what: str) -> int:
    if isinstance(value, np.ndarray):
        if (value != value[0]).any():
            raise MachineFault(f"CTAs in lockstep give a tensor copy different {what} operands")
        return int(value[0])
    return value


def _signed(value: int | np.ndarray) -> int | np.ndarray:
    """A coordinate is a signed 32-bit number."""
    return ((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
