"""The rules that a text is held against, each with where it is written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule.

    Attributes:
        name: as accusations carry it.
        source: section of the PTX manual (version 9.0), or other evidence.
        asks: what a kernel has to do, a sentence.
    """

    name: str
    source: str
    asks: str


RULES: dict[str, Rule] = {
    name: Rule(name=name, source=source, asks=asks)
    for name, source, asks in (
        ("launch-limits", "PTX 11.4, 11.7; CUDA programming guide, compute capabilities",
         "Block and cluster are those that the text demands, and shared memory is what an SM can give a CTA."),
        ("register-sum", "PTX 9.7.19.5 setmaxnreg",
         "The register counts of all warps together fit into an SM; the warps of a warpgroup set the same count."),
        ("instruction-descriptor", "PTX 9.7.16.4.2 instruction descriptor",
         "Shape, types and flags of a tcgen05.mma are legal for its kind and cta_group; all other bits are 0."),
        ("matrix-descriptor", "PTX 9.7.16.4.1 and 9.7.15.5.1.2 shared memory descriptor",
         "Fixed bits are as the manual has them, the swizzle is one that exists and that the bytes were written with, "
         "and the matrix lies in the shared memory of the CTA."),
        ("transaction-bytes", "PTX 9.7.13.15.5 tracking asynchronous operations",
         "The expect_tx of an mbarrier phase equals the bytes of the copies that complete on it."),
        ("arrival-count", "PTX 9.7.13.15 mbarrier",
         "A phase of an mbarrier gets as many arrivals as mbarrier.init counts."),
        ("phase-parity", "PTX 9.7.13.15.16 mbarrier.try_wait",
         "A wait names the parity of a phase that completes, and the phase after it cannot complete before the "
         "wait tests it."),
        ("wait-unheard", "PTX 9.7.13.15.16 mbarrier.test_wait, try_wait",
         "The predicate of test_wait or try_wait is used: both may return before the phase is complete."),
        ("barrier-init", "PTX 9.7.13.15.9 mbarrier.init, 9.7.13.4 fence.mbarrier_init",
         "An mbarrier is initialised before its first use, and fenced before other CTAs or copies use it."),
        ("copy-arrival", "PTX 9.7.9.25.2 completion of asynchronous copies",
         "The bytes of a copy are used after a wait for the phase that the copy completes on."),
        ("memory-reuse", "PTX 8.9 causality order, 9.7.9.25.2",
         "Shared memory is overwritten only after all earlier reads and writes of it are known to be complete."),
        ("proxy-fence", "PTX 8.6 proxies, 9.7.13.4 fence.proxy.async",
         "A proxy fence separates ordinary accesses of shared memory from asynchronous ones of the same bytes."),
        ("tcgen05-order", "PTX 9.7.16.6 tcgen05 memory consistency",
         "Two warps that use the same tensor memory are ordered, MMAs by tcgen05.commit and a wait."),
        ("tcgen05-fence", "PTX 9.7.16.6.4, 9.7.16.11.1 tcgen05.fence",
         "Where tensor memory passes between threads, tcgen05.fence::before_thread_sync precedes the "
         "synchronisation and ::after_thread_sync follows it."),
        ("tcgen05-wait", "PTX 9.7.16.8.5 tcgen05.wait",
         "tcgen05.wait completes tcgen05.ld and tcgen05.st before other warps use the tensor memory."),
        ("tensor-memory-alloc", "PTX 9.7.16.7.1 tcgen05.alloc",
         "Columns are a power of two from 32 to 512, at most 512 at a time; each allocation is freed whole; no "
         "allocation follows relinquish_alloc_permit."),
        ("pair-rendezvous", "PTX 9.7.16.7.1 tcgen05.alloc",
         "A warp that allocates with cta_group::2 knows that the peer CTA has been launched."),
        ("residency", "PTX 9.7.16.7.1 tcgen05.alloc blocks; CUDA programming guide, compute capabilities",
         "CTAs of clusters that fit on one SM do not allocate more than its 512 columns in all, or clusters may "
         "deadlock."),
        ("cluster-mask", "PTX 9.7.9.25.5.2, 9.7.16.12.1 multicast",
         "A mask names CTAs of the cluster, at least one; a barrier of a copy is in a CTA that the manual allows."),
        ("producer-tail", "PTX 9.7.13.3 barrier.cluster, 5.1.7 shared memory of a cluster",
         "A CTA does not exit before all accesses of its shared memory and barriers by other CTAs are known to be "
         "complete."),
        ("dependent-launch", "PTX 9.7.13.13 griddepcontrol; the columns of tensor memory are taken by whoever comes",
         "launch_dependents comes after the tcgen05.alloc of the CTA, so that the dependent grid takes no columns "
         "that this one waits for."),
        ("read-only-load", "PTX 9.7.9.9 ld.global.nc",
         "What ld.global.nc reads is not written while the kernel runs, neither by it nor by the preceding kernel."),
        ("dependent-copy", "PTX 9.7.13.13 griddepcontrol",
         "What the preceding kernel may still use is copied after griddepcontrol.wait of the same thread, or of "
         "one that it synchronises with."),
        ("bulk-groups", "PTX 9.7.9.25.6 bulk async-groups",
         "A thread commits its bulk copies, and waits until they have read shared memory before it exits."),
        ("launch-control", "PTX 9.7.13.17 clusterlaunchcontrol",
         "After a declined request there is no further request, and the CTA id of a declined request is not read."),
        ("wgmma-order", "PTX 9.7.15.7 wgmma.fence, commit_group, wait_group",
         "The first wgmma follows a wgmma.fence; groups are committed, and waited for before exit."),
        ("no-end", "PTX 9.7.13", "Waits do not form a cycle: at least one warp can always continue."),
    )
}  # fmt: skip
"""Every rule, by name, in the order of a report."""

ORDER = frozenset(
    {
        "phase-parity", "barrier-init", "copy-arrival", "memory-reuse", "proxy-fence", "tcgen05-order", "tcgen05-fence",
        "tcgen05-wait", "pair-rendezvous", "producer-tail", "dependent-launch", "dependent-copy", "no-end",
    }
)  # fmt: skip
"""Rules about the order in which threads do something."""
