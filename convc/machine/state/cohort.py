"""A cohort: CTAs that run together, and everything they own.

All state arrays have the CTA as their first axis. CTAs of one cohort are independent of each other except through
global memory, so the order in which cohorts run does not matter to a correct kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from convc.errors import MachineFault
from convc.ir.findings import Finding, Verdict
from convc.machine.base.cluster_ranks import place
from convc.machine.base.completion import Pending
from convc.machine.base.switches import Switches
from convc.machine.base.values import Value, narrow
from convc.machine.memory.bulk_groups import BulkGroups
from convc.machine.memory.copy_groups import CopyGroups
from convc.machine.memory.global_memory import GlobalMemory
from convc.machine.memory.mbarrier import MBarrier
from convc.machine.memory.shared_memory import ArrayPool, SharedMemory
from convc.machine.state.counters import Counters
from convc.machine.state.observer import Observer
from convc.machine.tensor_core.queue import TensorCore
from convc.machine.tensor_core.tensor_memory import TensorMemory


@dataclass(slots=True)
class Launch:
    """What all cohorts of a launch share."""

    program: object
    memory: GlobalMemory
    params: np.ndarray
    tensor_maps: dict[int, tuple[str, object]]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    dynamic_shared: int
    file: str
    observer: Observer | None = None
    switches: Switches = Switches()  # noqa: RUF009 - frozen record
    policy: str = "eager"
    seed: int = 0
    counters: Counters = field(default_factory=Counters)
    findings: dict[tuple, Finding] = field(default_factory=dict)
    pool: ArrayPool = field(default_factory=ArrayPool)


class NamedBarrier:
    """One of the 16 CTA barriers: who has arrived in the current generation."""

    __slots__ = ("arrived", "generation")

    def __init__(self, ctas: int) -> None:
        self.arrived = np.zeros(ctas, np.int64)
        self.generation = np.zeros(ctas, np.int64)


class Cohort:
    """State of the CTAs ``first .. first + ctas - 1``, counted cluster by cluster (see `clusters`)."""

    def __init__(self, launch: Launch, first: int, ctas: int, shared_bytes: int) -> None:
        self.launch = launch
        self.counters = launch.counters
        self.observer = launch.observer
        self.first = first
        self.ctas = ctas
        self.shared = SharedMemory(ctas, shared_bytes, launch.pool)
        self.tensor = TensorMemory(ctas, launch.switches.placement, launch.pool)
        self.core = TensorCore(self)
        self.barriers: dict[int, MBarrier] = {}
        self.bulk_groups = BulkGroups(ctas)
        self.pending = Pending(launch.policy, launch.seed)
        self.named: dict[int, NamedBarrier] = {}
        self.strands: list = []
        self.local: np.ndarray | None = None
        self.ticks = 0
        self.declined: set[int] = set()  # CTAs that have seen a request for another cluster declined
        self.exited = np.zeros(ctas, np.int64)
        self.cluster_size = math.prod(launch.cluster)
        self.cluster_barrier: object | None = None
        self.warps = -(-math.prod(launch.block) // 32)
        self.place = place(launch.grid, launch.cluster, first, ctas)

    @cached_property
    def copy_groups(self) -> CopyGroups:
        """cp.async copies that are not performed at once."""
        return CopyGroups(self.pending, self.ctas * self.warps * 32)

    @property
    def watched(self) -> int:
        """How many CTAs observers are told of lane by lane: those of the first cluster, rows 0 and up."""
        return self.cluster_size

    def number(self, row: int) -> int:
        """Linear number in the grid (x fastest) of the CTA in a row."""
        return int(self.place.number[row])

    def barrier(self, address: int, name: str) -> MBarrier:
        """The mbarrier at a shared address; faults when none was initialised there."""
        barrier = self.barriers.get(address)
        if barrier is None:
            known = ", ".join(f"{a:#x}" for a in sorted(self.barriers)) or "none"
            raise MachineFault(
                f"{name}: there is no initialised mbarrier at shared address {address:#x}",
                hint=f"initialised mbarriers are at: {known}",
            )
        return barrier

    def special(self, name: str, warps: np.ndarray) -> Value:
        """A special register for the warps of a strand, as narrow as it is (PTX manual, "Special Registers")."""
        launch = self.launch
        bx, by, bz = launch.block
        base, _, axis = name.partition(".")
        index = "xyz".find(axis) if axis else 0
        thread = (np.asarray(warps)[:, None] * 32 + np.arange(32)[None, :])[None]
        match base:
            case "tid":
                value = (thread % bx, thread // bx % by, thread // (bx * by))[index]
                return narrow(value.astype(np.uint32))
            case "ctaid" | "clusterid" | "cluster_ctaid" | "cluster_ctarank":
                return self.place.register(base, index)
            case "ntid":
                return (bx, by, bz)[index]
            case "nctaid":
                return launch.grid[index]
            case "laneid":
                return np.arange(32, dtype=np.uint32).reshape(1, 1, 32)
            case "warpid":
                return narrow(np.asarray(warps, np.uint32).reshape(1, -1, 1))
            case "nwarpid":
                return -(-bx * by * bz // 32)
            case "dynamic_smem_size":
                return launch.dynamic_shared
            case "total_smem_size" | "aggr_smem_size":
                return self.shared.size
            case "smid" | "gridid" | "clock" | "clock64" | "globaltimer":
                return 0
            case "nsmid":
                return 1
            case "cluster_nctarank":
                return self.cluster_size
            case "cluster_nctaid":
                return launch.cluster[index]
            case "nclusterid":
                return launch.grid[index] // launch.cluster[index]
            case "is_explicit_cluster":
                return self.cluster_size > 1
        lanes = np.arange(32, dtype=np.uint64)
        masks = {
            "lanemask_eq": 1 << lanes,
            "lanemask_lt": (1 << lanes) - 1,
            "lanemask_le": (2 << lanes) - 1,
            "lanemask_gt": 0xFFFFFFFF & ~((2 << lanes) - 1),
            "lanemask_ge": 0xFFFFFFFF & ~((1 << lanes) - 1),
        }
        return masks[base].astype(np.uint32).reshape(1, 1, 32)

    def report(
        self,
        rule: str,
        message: str,
        instr,
        verdict: Verdict = Verdict.error,
        *,
        row: int | None = None,
        warp: int | None = None,
        lanes: tuple[int, ...] = (),
    ) -> None:
        """Record a finding once per rule and instruction; ``row``, ``warp`` and ``lanes`` are a witness."""
        key = (rule, instr.index if instr is not None else None)
        if key in self.launch.findings:
            return
        self.launch.findings[key] = Finding(
            verdict=verdict,
            rule=rule,
            message=message,
            file=instr.span.file if instr is not None else self.launch.file,
            line=instr.span.line if instr is not None else 0,
            step=instr.step if instr is not None else None,
            cta=None if row is None else self.number(row),
            warp=warp,
            lanes=lanes,
        )
