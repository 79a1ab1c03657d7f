"""Special registers: read-only values that the hardware provides, with their types (PTX manual, chapter 10)."""

from __future__ import annotations

_U32 = """laneid warpid nwarpid smid nsmid clock clock_hi
    lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt globaltimer_lo globaltimer_hi
    cluster_ctarank cluster_nctarank total_smem_size aggr_smem_size dynamic_smem_size
    reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap
    reserved_smem_offset_0 reserved_smem_offset_1"""
_U32_VECTORS = "tid ntid ctaid nctaid clusterid nclusterid cluster_ctaid cluster_nctaid"

SPECIAL_TYPES = {
    **dict.fromkeys(_U32.split(), "u32"),
    **{f"{name}.{axis}": "u32" for name in _U32_VECTORS.split() for axis in "xyz"},
    **{f"pm{index}": "u32" for index in range(8)},
    **{f"pm{index}_64": "u64" for index in range(8)},
    **{f"envreg{index}": "b32" for index in range(32)},
    **dict.fromkeys(("clock64", "globaltimer", "gridid", "current_graph_exec"), "u64"),
    "is_explicit_cluster": "pred",
}
"""Type of each special register, by its name without the ``%``."""

SHORT_SPECIALS = {"gridid": "u32"}
"""Types by which special registers may be read as well: the lower part (PTX manual, "%gridid")."""

SPECIAL_NAMES = frozenset(f"%{name.partition('.')[0]}" for name in SPECIAL_TYPES)
"""Names that a register must not have."""
