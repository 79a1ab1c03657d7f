"""Counts of a launch as text (`convc.machine.state.counters`); what did not happen is left out."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from convc.machine import Counters
from convc.support.short_names import with_short_names

TABLES = {
    "TMA loads of": "tma_loads", "TMA stores to": "tma_stores",
    "bulk loads of": "bulk_loads", "bulk stores to": "bulk_stores",
}  # fmt: skip


def print_counts(console: Console, name: str, counters: Counters) -> None:
    """A heading, and one line per count."""
    console.print(f"\ncounts of {with_short_names(name)}:", soft_wrap=True)
    lines = [(label, text) for label, amount, text in _lines(counters) if amount]
    width = max((len(label) for label, _ in lines), default=0)
    for label, text in lines:
        console.print(f"  {label:<{width}}  {text}", soft_wrap=True)


def bytes_per_mma(counters: Counters) -> str:
    """Bytes of shared memory that the tensor core reads for each MMA; a dash where there is none."""
    return f"{counters.operand_bytes / counters.mma:.0f}" if counters.mma else "-"


def _lines(counters: Counters) -> Iterator[tuple[str, int, str]]:
    """(label, what must not be zero, text) of every count."""
    c = counters
    yield "CTAs", c.ctas, f"{c.ctas}"
    yield "instructions", c.instructions, f"{c.instructions} (per warp)"
    yield "splits", c.splits, f"{c.splits} (CTAs that ran in lockstep went different ways)"
    for words, table in TABLES.items():
        for buffer, copies in getattr(c, table).items():
            fill = f", {copies.filled} of them fill" if copies.filled else ""
            yield f"{words} {buffer}", copies.count, f"{copies.count}, {copies.bytes} bytes{fill}"
    yield "copies to a peer", c.peer_copies.count, f"{c.peer_copies.count}, {c.peer_copies.bytes} bytes"
    yield "ld.global", c.global_load_bytes, f"{c.global_load_bytes} bytes"
    yield "st.global", c.global_store_bytes, f"{c.global_store_bytes} bytes"
    forms = {"A in tensor memory": c.mma_a_in_tensor, ".ashift": c.mma_ashift, ".ws": c.mma_ws}
    yield "tcgen05.mma", c.mma, ", ".join((f"{c.mma}", *(f"{n} with {layout}" for layout, n in forms.items() if n)))
    yield "multiply-adds", c.multiply_adds, f"{c.multiply_adds}"
    yield "lanes of D", c.mma_lanes, f"{c.mma_lanes}, {c.masked_lanes} of them masked"
    yield "zeroed columns of B", c.zeroed_columns, f"{c.zeroed_columns}"
    kept = f", {c.collector_bytes} of them perhaps from a collector" if c.collector_bytes else ""
    operands = f"{c.mma_a_bytes} bytes of A, {c.mma_b_bytes} of B{kept}"
    yield "shared memory read by mma", c.mma_a_bytes + c.mma_b_bytes, operands
    yield "shared memory read by cp", c.cp_bytes, f"{c.cp_bytes} bytes"
    yield "the same per MMA", c.mma, f"{bytes_per_mma(c)} bytes"
    yield "mma.sync", c.warp_mma, f"{c.warp_mma} (per warp)"
    yield "multiply-adds of mma.sync", c.warp_multiply_adds, f"{c.warp_multiply_adds}"
    for shape, count in c.cp.items():
        yield f"tcgen05.cp.{shape}", count, f"{count}"
    yield "tcgen05.shift", c.shift, f"{c.shift}"
    yield "tcgen05.commit", c.commit, f"{c.commit}"
    yield "tcgen05.ld", c.tensor_loads, f"{c.tensor_loads} (per warp)"
    yield "tcgen05.st", c.tensor_stores, f"{c.tensor_stores} (per warp)"
    yield "mbarrier waits", c.mbarrier_waits, f"{c.mbarrier_waits} (per warp)"
