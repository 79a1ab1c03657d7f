"""What a launch did, counted instruction by instruction while it ran.

CTAs of a cohort execute an instruction together, so counting costs a few additions per executed instruction, whatever
the number of CTAs.
"""

from __future__ import annotations

from dataclasses import dataclass, field


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


@dataclass(slots=True)
class Counters:
    """Counts of one launch, over all CTAs.

    Attributes:
        ctas: CTAs run.
        instructions: PTX instructions executed, per warp.
        splits: times CTAs of a cohort went different ways (0 for kernels in lockstep).
        mma: tcgen05.mma instructions.
        mma_flops: floating-point operations of those (2 M N K each).
        tma_loads, tma_stores: tensor copies into and out of shared memory, by buffer; reductions are stores.
        bulk_loads, bulk_stores: the same of plain bytes (cp.async.bulk, cp.reduce.async.bulk).
        peer_copies: bulk copies from shared memory to that of another CTA.
        global_load_bytes, global_store_bytes: bytes moved by ld.global and st.global.
    """

    ctas: int = 0
    instructions: int = 0
    splits: int = 0
    mma: int = 0
    mma_flops: int = 0
    tma_loads: dict[str, Copies] = field(default_factory=dict)
    tma_stores: dict[str, Copies] = field(default_factory=dict)
    bulk_loads: dict[str, Copies] = field(default_factory=dict)
    bulk_stores: dict[str, Copies] = field(default_factory=dict)
    peer_copies: Copies = field(default_factory=Copies)
    global_load_bytes: int = 0
    global_store_bytes: int = 0

    @property
    def bytes_moved(self) -> int:
        """All bytes between global memory and the SM."""
        tables = (self.tma_loads, self.tma_stores, self.bulk_loads, self.bulk_stores)
        copied = sum(copies.bytes for table in tables for copies in table.values())
        return copied + self.global_load_bytes + self.global_store_bytes


def copies_of(table: dict[str, Copies], buffer: str) -> Copies:
    """The entry of a buffer, made where there is none yet."""
    found = table.get(buffer)
    if found is None:
        found = table[buffer] = Copies()
    return found
