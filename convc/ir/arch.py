"""The machine that kernels are planned for, as numbers.

A plan never asks "is this Blackwell?": it asks this record. Limits are the ones that the PTX manual and the CUDA
driver documentation state for ``sm_100a``; rates are published measurements on a B200 and are used for ranking
candidates only, never for correctness. Cycles are SM clock cycles throughout.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the hardware refuses to go past.

    Attributes:
        shared_bytes: dynamic shared memory of one CTA (227 KiB; CUDA programming guide, compute capability 10.0).
        tmem_lanes, tmem_columns: tensor memory of one CTA, in 32-bit cells (PTX, tensor memory addressing).
        tmem_columns_min: smallest allocation; every allocation is a power of two (PTX, ``tcgen05.alloc``).
        grid_x, grid_y: CTAs per grid axis.
        mma_n_max, mma_n_step: legal N of a dense one-CTA ``tcgen05.mma`` with M = 128 (PTX, tcgen05 shapes).
        mma_atom_bytes: bytes of K that one ``tcgen05.mma`` takes from every operand row, whatever the type.
        tma_extent: largest extent of a tensor-map dimension (CUDA driver, ``cuTensorMapEncode*``).
        tma_stride_bytes: byte strides of a tensor map stay below this.
        tma_element_stride: largest step between neighbouring elements of a box.
        tma_box: largest box extent; also the most channels per im2col pixel.
        im2col_corner: lowest and highest bounding-box corner of an im2col map over images (signed 8 bits per axis).
        im2col_offset: largest filter offset of an im2col copy of images (unsigned 8 bits per axis).
    """

    shared_bytes: int = 232448
    tmem_lanes: int = 128
    tmem_columns: int = 512
    tmem_columns_min: int = 32
    grid_x: int = 2**31 - 1
    grid_y: int = 65535
    mma_n_max: int = 256
    mma_n_step: int = 16
    mma_atom_bytes: int = 32
    tma_extent: int = 2**32
    tma_stride_bytes: int = 2**40
    tma_element_stride: int = 8
    tma_box: int = 256
    im2col_corner: tuple[int, int] = (-128, 127)
    im2col_offset: int = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How fast it goes, for ranking only.

    Attributes:
        sms: streaming multiprocessors.
        fill_bytes: bytes per cycle that TMA can write into the shared memory of one SM, with rows of 128 bytes;
            narrower rows go at ``row_bytes / 128`` of it.
        read_bytes: bytes per cycle that MMAs and ``tcgen05.cp`` together read from the shared memory of one SM.
        shift_cycles: cycles of the tensor core per ``tcgen05.shift`` as ptxas emits it (12 as the bare instruction).
        ashift_cycles: cycles that ``.ashift`` adds to an MMA (assumed: those of a bare ``tcgen05.shift``).
        l2_bytes: bytes per cycle and SM that L2 delivers when every SM reads.
        copy_latency: cycles from issuing a copy to its bytes being visible (L2 and DRAM mixed).
        mma_latency: cycles from issuing an MMA to its commit being visible.
        store_bytes: bytes per cycle and SM that the epilogue writes (assumed equal to the L2 read rate).
        store_cycles: cycles of a thread's store in the epilogue with its address (assumed: 16 instructions).
        cta_start: cycles to replace a finished CTA by the next one.
        fmas: float32 multiply-adds per cycle and SM without the tensor core (CUDA C++ programming guide, throughput of
            arithmetic instructions).
    """

    sms: int = 148
    fill_bytes: float = 122.0
    read_bytes: float = 128.0
    shift_cycles: int = 44
    ashift_cycles: int = 12
    l2_bytes: float = 69.0
    copy_latency: int = 1000
    mma_latency: int = 200
    store_bytes: float = 69.0
    store_cycles: int = 16
    cta_start: int = 1038
    fmas: int = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Arch:
    """One target: its PTX name, its limits and its rates."""

    name: str
    ptx_version: str
    limits: Limits
    rates: Rates


SM_100A = Arch(name="sm_100a", ptx_version="8.7", limits=Limits(), rates=Rates())
"""NVIDIA Blackwell, data-centre parts (B200)."""
