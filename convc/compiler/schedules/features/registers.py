"""Registers of a kernel whose accumulator lies in them: an even share, or handed over between warpgroups."""

from __future__ import annotations

from convc.compiler.plan.offer import Candidate
from convc.compiler.schedules.cores.all import core_of

LANES = 128
"""Threads of a warpgroup."""


def handed_over(best: Candidate, requested: bool | None) -> tuple[tuple[int, int] | None, str]:
    """Registers of a thread that loads and of one that multiplies, or None for an even share; and the reason.

    An SM gives every thread of a CTA as many registers at the start. Where the accumulator lies in them, a warp that
    loads leaves most of its own unused, while those that multiply run out: they are handed over (PTX, ``setmaxnreg``),
    by whole warpgroups, so that the warps that load are one of their own then.

    Args:
        best: the candidate to launch.
        requested: whether to hand over; None: where an even share is less than the accumulator and the epilogue want.
    """
    tiled = best.tiled
    registers = tiled.arch.registers
    if registers is None:
        return None, ""
    counts = registers.loads, registers.multiplies
    moved = f"warps that load keep {counts[0]} a thread, those that multiply get {counts[1]}"
    if tiled.parts > 1:
        return None, "an even share: after all warps have met to add sums, ptxas allows for the fewest that any has"
    if requested is not None:
        return (counts, f"{moved}, as requested") if requested else (None, "no register reallocation, as requested")
    share = registers.share(32 * core_of(tiled.arch).warps(tiled.tiling.block_m))
    sums = tiled.arch.limits.mma_m * tiled.tiling.block_n // LANES
    if best.storage.results is not None:
        return None, f"{share} a thread, {sums} of them the accumulator; results leave through shared memory"
    wanted = f"{sums} of the accumulator and {registers.stores} to store from"
    if sums + registers.stores <= share:
        return None, f"{share} a thread are enough for {wanted}"
    return counts, f"{share} a thread are too few for {wanted}: {moved}"
