"""The hardware that kernels are planned for, as numbers.

A plan never asks "is this Blackwell?": it asks this record, and so does the layout of the buffers. Limits are the ones
that the PTX manual and the CUDA driver documentation state for ``sm_100a``; rates are published measurements on a B200
and are used for ranking candidates only, never for correctness. Cycles are SM clock cycles throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TensorCoreName = Literal["tcgen05", "wgmma"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the hardware refuses to go past: the one place where the compile side has these numbers.

    Layout, plan, index maps and launch files read them here. The simulator (`convc.machine`) and the encoder's rules
    (`convc.ir.tensormap.check`) have their own on purpose: they judge what was planned, and a wrong number here must
    not be wrong there as well.

    Attributes:
        shared_bytes: dynamic shared memory of one CTA (227 KiB; CUDA programming guide, compute capability 10.0).
        grid_x, grid_y, grid_z: CTAs per grid axis (CUDA programming guide, compute capabilities).
        block: threads per axis of a CTA (x, y, z). block_threads: threads of a CTA (both: the same table).
        cluster_ctas: CTAs of a cluster, along an axis and in all (16 where a kernel asks for more than the portable 8;
            CUDA programming guide, thread block clusters).
        tmem_lanes, tmem_columns: tensor memory of one CTA, in 32-bit cells (PTX, tensor memory addressing); 0 where
            there is none.
        tmem_columns_min: smallest allocation; every allocation is a power of two (PTX, ``tcgen05.alloc``).
        tmem_part_lanes: lanes of a sub-partition of tensor memory: those that one warp reads and writes
            (PTX, ``tcgen05.ld``, access restrictions), among which rows shift (``tcgen05.shift``, ``.ashift``), and
            on which the scale factors of as many rows share a column (PTX, tcgen05 scale factor layout).
        mma_m: rows of a dense one-CTA ``tcgen05.mma`` that fills every lane (PTX, tcgen05 shapes), or of a ``wgmma``.
        mma_n_max, mma_n_step: legal N of a dense one-CTA ``tcgen05.mma`` with M = 128 (PTX, tcgen05 shapes), and of a
            ``wgmma`` of every type (PTX, wgmma shapes: of whole numbers multiples of 16 beyond 32).
        tile_rows: rows that a tile of the output may have: those of one MMA, or of several that run side by side.
        row_lanes: threads that share a row of the accumulator in the epilogue.
        mma_atom_bytes: bytes of K that one ``tcgen05.mma``, and a ``tcgen05.cp``, takes from every operand row,
            whatever the type (PTX, tcgen05.mma: K of every kind).
        ws_m: rows of a ``tcgen05.mma.ws`` that fills every lane. ws_n: its legal N (PTX, tcgen05 shapes).
        ws_column_shift: columns by which ``tcgen05.mma.ws`` with M = 128 can shift its second operand
            (PTX, zero-column mask descriptor).
        zero_run: longest run of zeroed, or of used, columns in a zero-column mask (PTX, zero-column mask descriptor).
        swizzle_spans: row lengths in bytes that TMA and the tensor core can both swizzle (CUDA driver,
            ``CUtensorMapSwizzle``; PTX, shared-memory descriptor).
        tma_extent: largest extent of a tensor-map dimension (CUDA driver, ``cuTensorMapEncode*``).
        tma_stride_bytes: byte strides of a tensor map stay below this.
        tma_unit_bytes: strides of a tensor map and rows of a box are multiples of this.
        tma_element_stride: largest step between neighbouring elements of a box.
        tma_box: largest box extent; also the most channels per im2col pixel.
        im2col_pixels: most pixels per column of an im2col map (CUDA driver, ``cuTensorMapEncodeIm2col``).
        im2col_corner: lowest and highest bounding-box corner of an im2col map over images (signed 8 bits per axis).
        im2col_offset: largest filter offset of an im2col copy of images (unsigned 8 bits per axis).
        wide_swizzle_spans: the spans that the wide im2col modes take (CUDA driver, ``cuTensorMapEncodeIm2colWide``).
        wide_corner: lowest and highest corner of a wide im2col map (signed 16 bits).
        wide_offset: largest wOffset of a copy in a wide mode (PTX, tensor im2col::w mode).
        wide_halo: largest wHalo of a copy in mode im2col::w; 0 where there are no wide modes. wide_128_halo: that in
            mode im2col::w::128 (PTX).
    """

    shared_bytes: int = 232448
    grid_x: int = 2**31 - 1
    grid_y: int = 65535
    grid_z: int = 65535
    block: tuple[int, int, int] = (1024, 1024, 64)
    block_threads: int = 1024
    cluster_ctas: int = 16
    tmem_lanes: int = 128
    tmem_columns: int = 512
    tmem_columns_min: int = 32
    tmem_part_lanes: int = 32
    mma_m: int = 128
    mma_n_max: int = 256
    mma_n_step: int = 16
    tile_rows: tuple[int, ...] = (128,)
    row_lanes: int = 1
    mma_atom_bytes: int = 32
    ws_m: int = 128
    ws_n: tuple[int, ...] = (64, 128, 256)
    ws_column_shift: int = 32
    zero_run: int = 256
    swizzle_spans: tuple[int, ...] = (32, 64, 128)
    tma_extent: int = 2**32
    tma_stride_bytes: int = 2**40
    tma_unit_bytes: int = 16
    tma_element_stride: int = 8
    tma_box: int = 256
    im2col_pixels: int = 1024
    im2col_corner: tuple[int, int] = (-128, 127)
    im2col_offset: int = 255
    wide_swizzle_spans: tuple[int, ...] = (64, 128)
    wide_corner: tuple[int, int] = (-(2**15), 2**15 - 1)
    wide_offset: int = 31
    wide_halo: int = 511
    wide_128_halo: int = 31

    @property
    def warp_rows(self) -> int:
        """Rows of the accumulator that the lanes of a warp have in the epilogue."""
        return 32 // self.row_lanes


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How fast it goes, for ranking only: the numbers of a B200 that the timing engine has, as far as plans need them.

    Every field but the last is one of ``convc/timing/chips/b200.toml``, named in brackets, where its source and its
    range are; a test holds the two equal.

    Attributes:
        sms: streaming multiprocessors [chip.sms].
        clock_mhz: SM clock at which cycles are told as time [chip.clock]: the dense f16 rate of a B200's data sheet,
            2.25 PFLOP/s, is that of all its tensor cores at 1.856 GHz.
        l2_rate, store_rate, memory_rate: bytes a microsecond that L2 delivers, that all SMs write, and that memory
            moves; their clocks are not that of the SMs [chip.l2, chip.stores, chip.memory].
        l2_bytes: what L2 holds [chip.l2_bytes].
        sm_shared_bytes, sm_threads: what the CTAs of an SM have together [chip.shared, chip.threads].
        gpcs: clusters of SMs with a port of their own. gpc_bytes: bytes a cycle of that. together,
            together_in_step: equal requests of its SMs that L2 serves as one, at most, and where all SMs begin at once
            [gpc.count, gpc.port, gpc.together, gpc.together_in_step].
        cpcs, cpc_bytes: parts of a GPC, and bytes a cycle for the SMs of one [gpc.cpcs, gpc.cpc_port].
        same_place: bytes of L2's rate for a request of less than a line that others make at the same time; meeting: the
            part of such requests of filters that meet [tma.same_place, gpc.meeting]. Of a B200 neither is known.
        mma_columns: columns of D that the tensor core multiplies in a cycle [tensor_core.strip_columns, .strip_cycles].
        mma_floor: fewest cycles of an MMA with both operands in shared memory [tensor_core.floor].
        mma_depth: cycles of an MMA besides reading its rows and multiplying its columns [tensor_core.depth].
        pair_depth, pair_port: the same of an MMA of a CTA pair, and cycles that its reads wait for the other CTA's rows
            [tensor_core.pair_depth, .pair_port].
        mma_chain: cycles that the end of a chain of MMAs comes later [tensor_core.chain].
        read_bytes: bytes a cycle that MMAs read from the shared memory of one SM [shared_memory.read_port].
        beside_bytes: those that threads get beside MMAs that take all of them [shared_memory.beside].
        fill_bytes: bytes a cycle that TMA writes into it [tma.fill]. fill_rows: rows a cycle, of at most 128 bytes
            [tma.row].
        copy_latency: cycles from issuing a copy until a thread has seen its bytes, from L2 [tma.latency].
            im2col_latency: how much longer one in im2col mode takes [tma.im2col].
        tensor_copy_bytes: bytes a cycle of ``tcgen05.cp`` [tensor_memory.copy]. refresh_cycles: cycles of one of a few
            rows [tensor_memory.copy_small].
        shift_cycles: cycles of a ``tcgen05.shift`` [tensor_memory.shift]. ashift_cycles: those that ``.ashift`` adds to
            an MMA [tensor_memory.ashift].
        half_sector_cycles: cycles in which the SM writes half of a sector of 32 bytes of global memory, or reads it;
            sector_cycles: a whole one [threads.sector, and threads.part_line for the half].
        store_bytes: bytes a cycle that tensor copies read from shared memory [shared_memory.store_port].
        load_latency: cycles of a load from L2 [threads.global_latency].
        cluster_barrier: cycles of a barrier of a cluster [threads.cluster_barrier].
        remote_bytes: bytes a cycle that an SM reads from the shared memory of others in its cluster
            [shared_memory.remote]. remote_latency: cycles of such a load [shared_memory.remote_latency].
        cta_start: cycles to replace CTAs that have ended by the next [launch.replace].
        launch_spread, launch_slowest: from the time of a CTA to that of a launch that fills the chip: cycles, and a
            part of the last round [launch.spread, launch.slowest].
        fmas: float32 multiply-adds per cycle and SM without the tensor core (CUDA C++ programming guide, throughput of
            arithmetic instructions).
    """

    sms: int = 148
    clock_mhz: int = 1850
    l2_rate: float = 20.1e6
    store_rate: float = 10.5e6
    memory_rate: float = 7.25e6
    l2_bytes: int = 132644864
    sm_shared_bytes: int = 233472
    sm_threads: int = 2048
    gpcs: int = 8
    gpc_bytes: float = 1280.0
    together: float = 1.45
    together_in_step: float = 2.2
    cpcs: int = 3
    cpc_bytes: float = 1280.0
    same_place: float = 64.0
    meeting: float = 0.0
    mma_columns: float = 2.0
    mma_floor: float = 38.75
    mma_depth: float = 104.0
    pair_depth: float = 138.0
    pair_port: float = 3.0
    mma_chain: float = 12.0
    read_bytes: float = 128.0
    beside_bytes: float = 4.6
    fill_bytes: float = 125.5
    fill_rows: float = 1.0
    copy_latency: float = 600.0
    im2col_latency: float = 62.0
    tensor_copy_bytes: float = 61.6
    refresh_cycles: float = 18.3
    shift_cycles: float = 12.0
    ashift_cycles: float = 12.0
    half_sector_cycles: float = 2.0
    sector_cycles: float = 1.0
    store_bytes: float = 31.8
    load_latency: float = 300.0
    cluster_barrier: float = 370.0
    remote_bytes: float = 14.4
    remote_latency: float = 180.0
    cta_start: float = 1100.0
    launch_spread: float = 100.0
    launch_slowest: float = 0.05
    fmas: int = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Registers:
    """The registers of threads that have the accumulator in them.

    Warps of a warpgroup may hand theirs over to others of their CTA (PTX, ``setmaxnreg``).

    Attributes:
        pool: what an SM has (CUDA programming guide, compute capabilities). quarters: parts of it with warps of their
            own. step: counts come in multiples of it.
        least, most: counts that ``setmaxnreg`` takes.
        loads, multiplies: counts of a thread that loads and of one that multiplies, where the former hands over: the
            ptxas 13.0 spills nothing of 28 kernels with tiles of 128 x 256 so; with 216 to 240 for the latter its
            schedule spills 8 to 64 bytes of some.
        stores: what a thread that stores from registers wants besides the accumulator. With 224 columns ptxas takes
            42 and spills nothing, with 256 it has 40 and spills up to 284 bytes.
    """

    pool: int = 65536
    quarters: int = 4
    step: int = 8
    least: int = 24
    most: int = 256
    loads: int = 40
    multiplies: int = 200
    stores: int = 48

    def share(self, threads: int) -> int:
        """Count the registers that each thread of a CTA is given at the start, where it has an SM for itself.

        The warps lie in the quarters of the SM, each with a quarter of the registers: of nine warps three share one.
        """
        turns = -(-threads // (32 * self.quarters))
        return min(self.pool // (32 * self.quarters * turns) // self.step * self.step, self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arch:
    """One target.

    Attributes:
        name: as ``.target`` and ``--target`` have it.
        chip: the GPU that the rates are of.
        ptx_version: version of the language that kernels are written in.
        tensor_core: its instruction; `convc.compiler.schedules.cores` has what follows from that for a kernel.
        scales_blocks: whether that instruction takes scale factors of blocks.
        lanes_make_barriers: whether lanes that make an mbarrier ready each do so at once: for all of them ptxas 13.0
            writes one store on sm_100a, and a loop on sm_90a.
        limits, rates: its numbers.
        registers: those of its threads, where the accumulator lies in registers.
    """

    name: str
    chip: str
    ptx_version: str
    tensor_core: TensorCoreName
    scales_blocks: bool
    lanes_make_barriers: bool
    limits: Limits
    rates: Rates
    registers: Registers | None = None


SM_100A = Arch(
    name="sm_100a",
    chip="B200",
    ptx_version="8.7",
    tensor_core="tcgen05",
    scales_blocks=True,
    lanes_make_barriers=True,
    limits=Limits(),
    rates=Rates(),
)
"""NVIDIA Blackwell, data-centre parts (B200)."""

SM_90A = Arch(
    name="sm_90a",
    chip="H200",
    ptx_version="8.7",
    tensor_core="wgmma",
    scales_blocks=False,
    lanes_make_barriers=False,
    limits=Limits(
        tmem_lanes=0,
        tmem_columns=0,
        tmem_columns_min=0,
        mma_m=64,
        tile_rows=(64, 128),
        row_lanes=2,
        wide_halo=0,
        wide_128_halo=0,
    ),
    rates=Rates(
        sms=132,
        clock_mhz=1830,
        l2_rate=8.15e6,
        store_rate=5.1e6,
        memory_rate=3.2e6,
        l2_bytes=41943040,
        gpc_bytes=640.0,
        together=2.4,
        together_in_step=2.8,
        cpc_bytes=222.0,
        same_place=155.0,
        meeting=0.5,
        launch_spread=450.0,
        launch_slowest=0.0,
        fill_bytes=122.0,
        cta_start=1000,
    ),
    registers=Registers(),
)
"""NVIDIA Hopper (H100, H200): a ``wgmma`` of 64 rows goes two columns a cycle too, at half the rows.

The clock is the one at which the data sheet's 989 TFLOP/s of dense f16 are all of 132 tensor cores. L2, memory, ports
of GPCs and CPCs, and what their SMs ask for together are those of an H100 (``convc/timing/chips/h100.toml``), which has
less of each than an H200. The change of CTAs and the end of a launch are those with which the kernels were chosen that
an H200 timed; the rest is as on a B200.
"""

ARCHS = {arch.name: arch for arch in (SM_100A, SM_90A)}
"""The targets that kernels are compiled for."""
