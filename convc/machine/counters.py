"""What a launch did, counted instruction by instruction while it ran.

CTAs of a cohort execute an instruction together, so counting costs a few additions per executed instruction, whatever
the number of CTAs.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """Counts of one launch, over all CTAs.

    Attributes:
        ctas: CTAs run.
        instructions: PTX instructions executed, per warp.
        splits: times CTAs of a cohort went different ways (0 for kernels in lockstep).
        mma: tcgen05.mma instructions.
        mma_flops: floating-point operations of those (2 M N K each).
        tma_loads: tensor copies from global to shared memory.
        tma_bytes: bytes that asynchronous copies moved, loads and stores, by buffer name.
        global_load_bytes, global_store_bytes: bytes moved by ld.global and st.global.
    """

    ctas: int = 0
    instructions: int = 0
    splits: int = 0
    mma: int = 0
    mma_flops: int = 0
    tma_loads: int = 0
    tma_bytes: dict[str, int] = field(default_factory=dict)
    global_load_bytes: int = 0
    global_store_bytes: int = 0

    @property
    def bytes_moved(self) -> int:
        """All bytes between global memory and the SM."""
        return sum(self.tma_bytes.values()) + self.global_load_bytes + self.global_store_bytes
