"""What a launch did, counted instruction by instruction while it ran.

CTAs of a cohort execute an instruction together, so counting costs a few additions per executed instruction, whatever
the number of CTAs. Work of the TMA and of the tensor core is counted as it is issued or performed, and all of it is
performed in the end: neither the completion policy nor the cohorts change a count, except `instructions` and `splits`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from convc.machine.tensor_core.fetch import SPAN
from convc.machine.tensor_core.mma import Mma
from convc.machine.tensor_core.zero_columns import zero_columns


@dataclass(slots=True)
class Copies:
    """Copies of one kind between shared memory and one buffer.

    Attributes:
        count: copies; a multicast counts once for each CTA that it reaches.
        bytes: what they moved, that is the whole boxes of tensor copies, elements outside the tensor included.
        filled: how many of the bytes of loads came from no place of the tensor.
    """

    count: int = 0
    bytes: int = 0
    filled: int = 0

    def add(self, count: int, size: int, filled: int = 0) -> None:
        """``count`` copies of ``size`` bytes each; ``filled`` of all these bytes are fill."""
        self.count += count
        self.bytes += count * size
        self.filled += filled

    def include(self, other: Copies) -> None:
        """Add other copies."""
        self.count += other.count
        self.bytes += other.bytes
        self.filled += other.filled


@dataclass(slots=True)
class Counters:
    """Counts of one launch, over all CTAs.

    An instruction of a CTA pair (cta_group::2) counts once, with the lanes and bytes of both CTAs.

    Attributes:
        ctas: CTAs run.
        instructions: PTX instructions executed, per warp. Exact for kernels in lockstep: where CTAs or warps part,
            those of that turn before are counted for the ones that stay alone.
        splits: times CTAs of a cohort went different ways (0 for kernels in lockstep).
        mma: tcgen05.mma instructions; mma_a_in_tensor, mma_ashift, mma_ws: those with A in tensor memory, with .ashift,
            and the weight-stationary ones.
        multiply_adds: M N K of each, summed, whether a lane or column of it was masked or not.
        mma_lanes: lanes of tensor memory that D has, summed over the instructions.
        masked_lanes: how many of those disable-output-lane kept from being written.
        zeroed_columns: columns of B that a zero-column mask made zero, summed over the instructions.
        mma_a_bytes, mma_b_bytes: shared memory that operands are read from: 32 bytes for each of the M rows of A (none
            where A is in tensor memory) and of the N rows of B.
        collector_bytes: how many of those an instruction allows to be taken from a collector buffer (use, lastuse).
        warp_mma: mma.sync and wgmma instructions, per warp; warp_multiply_adds: M N K of each, summed (m8n8k4 of f16
            four times, of a wgmma a quarter for each of its warps).
        cp: tcgen05.cp instructions, by shape and multicast; cp_bytes: shared memory that they read, padding of packed
            elements included.
        shift, commit: tcgen05.shift and tcgen05.commit instructions.
        tensor_loads, tensor_stores: tcgen05.ld and tcgen05.st instructions, per warp.
        mbarrier_waits: mbarrier.try_wait and test_wait that found their phase completed, per warp.
        tma_loads, tma_stores: tensor copies into and out of shared memory, by buffer; reductions are stores.
        bulk_loads, bulk_stores: the same of plain bytes (cp.async.bulk, cp.reduce.async.bulk).
        peer_copies: bulk copies from shared memory to that of another CTA.
        global_load_bytes, global_store_bytes: bytes that threads read from and write to global memory: ld, st, cp.async
            (a read), atomics and reductions (both).
    """

    ctas: int = 0
    instructions: int = 0
    splits: int = 0
    mma: int = 0
    mma_a_in_tensor: int = 0
    mma_ashift: int = 0
    mma_ws: int = 0
    multiply_adds: int = 0
    mma_lanes: int = 0
    masked_lanes: int = 0
    zeroed_columns: int = 0
    mma_a_bytes: int = 0
    mma_b_bytes: int = 0
    collector_bytes: int = 0
    warp_mma: int = 0
    warp_multiply_adds: int = 0
    cp: dict[str, int] = field(default_factory=dict)
    cp_bytes: int = 0
    shift: int = 0
    commit: int = 0
    tensor_loads: int = 0
    tensor_stores: int = 0
    mbarrier_waits: int = 0
    tma_loads: dict[str, Copies] = field(default_factory=dict)
    tma_stores: dict[str, Copies] = field(default_factory=dict)
    bulk_loads: dict[str, Copies] = field(default_factory=dict)
    bulk_stores: dict[str, Copies] = field(default_factory=dict)
    peer_copies: Copies = field(default_factory=Copies)
    global_load_bytes: int = 0
    global_store_bytes: int = 0

    def include(self, other: Counters) -> None:
        """Add the counts of other CTAs of the same launch."""
        for entry in fields(self):
            mine: Copies | dict[str, Any] | int = getattr(self, entry.name)
            more: Any = getattr(other, entry.name)
            if isinstance(mine, Copies):
                mine.include(more)
            elif isinstance(mine, dict):
                for key, count in more.items():
                    if isinstance(count, Copies):
                        copies_of(mine, key).include(count)
                    else:
                        mine[key] = mine.get(key, 0) + count
            else:
                setattr(self, entry.name, mine + more)

    @property
    def bytes_moved(self) -> int:
        """All bytes between global memory and the SM."""
        tables = (self.tma_loads, self.tma_stores, self.bulk_loads, self.bulk_stores)
        copied = sum(copies.bytes for table in tables for copies in table.values())
        return copied + self.global_load_bytes + self.global_store_bytes

    @property
    def operand_bytes(self) -> int:
        """All bytes of shared memory that the tensor core reads."""
        return self.mma_a_bytes + self.mma_b_bytes + self.cp_bytes

    def multiply(self, mma: Mma, issued: int, collector: tuple[str, str] | None, zero_mask: str) -> None:
        """Count a tcgen05.mma that CTAs (or pairs) issued ``issued`` times.

        ``collector`` is (buffer, usage), ``zero_mask`` the switch.
        """
        shape = mma.shape
        taking = 2 * issued if shape.pair else issued
        a_bytes = 0 if mma.a_in_tensor else issued * shape.m * SPAN
        b_bytes = issued * shape.n * SPAN
        self.mma += issued
        self.multiply_adds += issued * shape.m * shape.n * shape.k
        self.mma_lanes += taking * shape.banks * shape.rows
        self.mma_a_bytes += a_bytes
        self.mma_b_bytes += b_bytes
        if mma.a_in_tensor:
            self.mma_a_in_tensor += issued
            self.mma_ashift += issued if mma.ashift else 0
        if shape.ws:
            self.mma_ws += issued
            self.zeroed_columns += 0 if mma.zero is None else issued * len(zero_columns(mma.zero, shape, zero_mask)[0])
        if mma.mask is not None:
            self.masked_lanes += mma.mask.disabled(shape.lanes(mma.d >> 16), taking)
        if collector is not None and collector[1] in ("use", "lastuse"):
            self.collector_bytes += a_bytes if collector[0] == "a" else b_bytes

    def copy(self, shape: str, copied: int, size: int) -> None:
        """Count tcgen05.cp instructions: ``copied`` of one shape, which read ``size`` bytes in all."""
        self.cp[shape] = self.cp.get(shape, 0) + copied
        self.cp_bytes += size


def copies_of(table: dict[str, Copies], buffer: str) -> Copies:
    """The entry of a buffer, made where there is none yet."""
    found = table.get(buffer)
    if found is None:
        found = table[buffer] = Copies()
    return found
