"""A cohort: CTAs that run together, and everything they own.

All state arrays have the CTA as their first axis. CTAs of one cohort are independent of each other except through
global memory, so the order in which cohorts run does not matter to a correct kernel.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.cluster_ranks import place
from convc.machine.base.completion import Pending
from convc.machine.base.findings import FindingSink
from convc.machine.base.values import MASK, Value, fixed, narrow
from convc.machine.lazy.deferral import Deferral
from convc.machine.memory.bulk_groups import BulkGroups, CopyGroups
from convc.machine.memory.mbarrier import MBarrier
from convc.machine.memory.shared_memory import SharedMemory
from convc.machine.state.barriers import ClusterBarrier, NamedBarrier
from convc.machine.state.launch import Launch
from convc.machine.state.observer import Observer
from convc.machine.state.warpgroups import Warpgroups
from convc.machine.tensor_core.datapath import Datapath
from convc.machine.tensor_core.queue import TensorCore
from convc.machine.tensor_core.tensor_memory import TensorMemory

NO_CTA = fixed(np.empty(0, np.int64))


class Cohort:
    """State of the CTAs ``first .. first + ctas - 1``, counted cluster by cluster (see `cluster_ranks`).

    Attributes:
        ctas: how many CTAs; a CTA is named by its row here, 0 and up.
        observer: told of everything that happens; None: there is none.
        barriers: mbarriers by their shared address. named: CTA barriers by their number.
        local: uint8, local memory of all threads, once it is used.
        lazy: what waits until it is looked at; None: everything is performed at once, as exact numerics need it.
        unobserved_deferral: the same, where no observer and no completion policy is to be asked; else None.
        ticks: what the clocks show.
        declined: CTAs that have seen a request for another cluster declined.
        exited: int64 (ctas,): warps that have exited.
        warps: warps of a CTA.
    """

    def __init__(
        self, launch: Launch, first: int, ctas: int, shared_bytes: int, observer: Observer | None = None
    ) -> None:
        self.launch = launch
        self.counters = launch.counters
        self.observer = observer
        self.ctas = ctas
        self.cluster_size = math.prod(launch.cluster)
        self.warps = -(-math.prod(launch.block) // 32)
        self.place = place(launch.grid, launch.cluster, first, ctas)
        self.findings = FindingSink(launch.findings, launch.file, self.place.number)
        self.shared = SharedMemory(ctas, shared_bytes, launch.pool)
        self.tensor = TensorMemory(ctas, launch.switches.placement, launch.pool)
        self.pending = Pending(launch.policy, launch.seed)
        self.lazy: Deferral | None = None
        if launch.evaluation == "lazy" and launch.switches.numerics != "exact":
            self.lazy = Deferral(self.shared, self.tensor, launch.workspaces)
        self.unobserved_deferral = self.lazy if observer is None and self.pending.eager else None
        launch.before_change = None if self.lazy is None else self.lazy.materialize_reads
        datapath = Datapath(
            ctas=ctas,
            shared=self.shared,
            tensor=self.tensor,
            switches=launch.switches,
            findings=self.findings,
            deferral=self.lazy,
        )
        self.core = TensorCore(datapath, self.pending)
        self.barriers: dict[int, MBarrier] = {}
        self.named: dict[int, NamedBarrier] = {}
        self.cluster_barrier = ClusterBarrier(ctas, self.warps)
        self.bulk_groups = BulkGroups(ctas)
        self.warpgroups = Warpgroups(ctas, self.warps)
        self.local: np.ndarray | None = None
        self.ticks = 0
        self.declined: set[int] = set()
        self.exited = np.zeros(ctas, np.int64)

    def release(self) -> None:
        """All CTAs have ended, or one went wrong: what still waits is no longer looked at.

        Their memory is for the next cohort, and no circle of references keeps it until a full garbage collection.
        """
        self.observer = None
        if self.lazy is not None:
            self.lazy.release()
        self.shared.release()
        self.tensor.release()

    @cached_property
    def copy_groups(self) -> CopyGroups:
        """cp.async copies that are not performed at once."""
        return CopyGroups(self.pending, self.ctas * self.warps * 32)

    @property
    def watched(self) -> int:
        """How many CTAs observers are told of lane by lane: those of the first cluster, rows 0 and up."""
        return self.cluster_size

    def rows_or_all(self, rows: np.ndarray | None) -> np.ndarray:
        """Rows as numbers, where None stands for all."""
        return np.arange(self.ctas) if rows is None else rows

    def number(self, row: int) -> int:
        """Linear number in the grid (x fastest) of the CTA in a row."""
        return int(self.place.number[row])

    def named_barrier(self, index: int) -> NamedBarrier:
        """A CTA barrier by its number."""
        found = self.named.get(index)
        if found is None:
            found = self.named[index] = NamedBarrier(self.ctas)
        return found

    def barrier(
        self, address: int, name: str, rows: np.ndarray | None = NO_CTA, threads: int | np.ndarray = 1
    ) -> MBarrier:
        """The mbarrier at a shared address; faults when none was initialised there.

        In none of the CTAs, or not in one of ``rows`` (None: all) that ``threads`` act on, an int or one for each.
        """
        barrier = self.barriers.get(address)
        if barrier is None:
            known = ", ".join(f"{a:#x}" for a in sorted(self.barriers)) or "none"
            raise MachineFault(
                f"{name}: there is no initialised mbarrier at shared address {address:#x}",
                hint=f"initialised mbarriers are at: {known}",
            )
        if barrier.gone:
            everyone = self.rows_or_all(rows)
            for row in everyone[np.broadcast_to(threads, everyone.shape) > 0].tolist():
                if row in barrier.gone:
                    raise MachineFault(
                        f"{name}: there is no initialised mbarrier at shared address {address:#x} "
                        f"of CTA {self.number(row)}"
                    )
        return barrier

    def special(self, name: str, warps: np.ndarray) -> Value:
        """A special register for the warps of a strand, as narrow as it is (PTX manual, "Special Registers")."""
        base, _, axis = name.partition(".")
        index = "xyz".find(axis) if axis else 0
        same = self._same_for_all.get(base)
        if same is not None:
            return same[index]
        lanes = np.arange(32, dtype=np.uint32).reshape(1, 1, 32)
        match base:
            case "ctaid" | "clusterid" | "cluster_ctaid" | "cluster_ctarank":
                return self.place.register(base, index)
            case "tid":
                return _thread_index(self.launch.block, tuple(warps.tolist()), index)
            case "warpid":
                return narrow(np.asarray(warps, np.uint32).reshape(1, -1, 1))
            case "laneid":
                return lanes
            case _:
                return _lane_mask(base, lanes)

    @cached_property
    def _same_for_all(self) -> dict[str, tuple[int, ...]]:
        """Special registers that all threads of a launch read the same in; along x, y, z where they have axes."""
        launch = self.launch
        clusters = tuple(ctas // size for ctas, size in zip(launch.grid, launch.cluster, strict=True))
        return {
            "ntid": launch.block,
            "nctaid": launch.grid,
            "nclusterid": clusters,
            "cluster_nctaid": launch.cluster,
            "cluster_nctarank": (self.cluster_size,),
            "is_explicit_cluster": (self.cluster_size > 1,),
            "nwarpid": (self.warps,),
            "dynamic_smem_size": (launch.dynamic_shared,),
            "total_smem_size": (self.shared.size,),
            "aggr_smem_size": (self.shared.size,),
            "envreg1": (launch.workspace >> 32,),
            "envreg2": (launch.workspace & MASK[32],),
            "nsmid": (1,),
            **dict.fromkeys(("smid", "gridid", "clock", "clock64", "globaltimer"), (0,)),
        }


@lru_cache(maxsize=64)
def _thread_index(block: tuple[int, int, int], warps: tuple[int, ...], axis: int) -> Value:
    """Special register tid of some warps along one axis."""
    across, down, _ = block
    thread = np.array(warps).reshape(1, -1, 1) * 32 + np.arange(32)
    index = (thread % across, thread // across % down, thread // (across * down))[axis]
    return narrow(fixed(index.astype(np.uint32)))


def _lane_mask(name: str, lanes: np.ndarray) -> np.ndarray:
    """Special register lanemask_eq, lt, le, gt or ge of the lanes of a warp."""
    own = 1 << lanes.astype(np.uint64)
    masks = {
        "lanemask_eq": own,
        "lanemask_lt": own - 1,
        "lanemask_le": 2 * own - 1,
        "lanemask_gt": ~(2 * own - 1),
        "lanemask_ge": ~(own - 1),
    }
    return masks[name].astype(np.uint32)
