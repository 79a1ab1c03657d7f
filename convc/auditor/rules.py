"""The rules that a text is held against, each with where it is written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule.

    Attributes:
        name: as accusations carry it.
        source: section of the PTX manual (version 9.0), or what else it rests on.
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
         "Register counts of all warps fit into an SM together, and a warpgroup changes its count as one."),
        ("instruction-descriptor", "PTX 9.7.16.4.2 instruction descriptor",
         "Shape, types and flags of a tcgen05.mma are ones that its kind and its cta_group have; other bits are 0."),
        ("matrix-descriptor", "PTX 9.7.16.4.1 and 9.7.15.5.1.2 shared memory descriptor",
         "Fixed bits are as the manual has them, the swizzle is one that exists and that the bytes were written with, "
         "and the matrix lies in the shared memory of the CTA."),
        ("transaction-bytes", "PTX 9.7.13.15.5 tracking asynchronous operations",
         "A phase of an mbarrier is told as many bytes as the copies that complete on it bring."),
        ("arrival-count", "PTX 9.7.13.15 mbarrier", "A phase of an mbarrier gets as many arrivals as it was made for."),
        ("phase-parity", "PTX 9.7.13.15.16 mbarrier.try_wait",
         "A wait names the parity of a phase that comes, and that cannot be over twice before it looks."),
        ("wait-unheard", "PTX 9.7.13.15.16 mbarrier.test_wait, try_wait",
         "The answer of test_wait or try_wait is looked at: both may say that the phase is not over."),
        ("barrier-init", "PTX 9.7.13.15.9 mbarrier.init, 9.7.13.4 fence.mbarrier_init",
         "An mbarrier is made ready before anybody uses it, and fenced before other CTAs or copies do."),
        ("copy-arrival", "PTX 9.7.9.25.2 completion of asynchronous copies",
         "What a copy brings is used behind a wait for the phase that the copy completes on."),
        ("memory-reuse", "PTX 8.9 causality order, 9.7.9.25.2",
         "Shared memory is written again only when all that was read from it, or written to it, is known to be done."),
        ("proxy-fence", "PTX 8.6 proxies, 9.7.13.4 fence.proxy.async",
         "Between ordinary accesses of shared memory and asynchronous ones of the same bytes stands a proxy fence."),
        ("tcgen05-order", "PTX 9.7.16.6 tcgen05 memory consistency",
         "Two warps that use the same tensor memory are ordered, MMAs by tcgen05.commit and a wait."),
        ("tcgen05-fence", "PTX 9.7.16.6.4, 9.7.16.11.1 tcgen05.fence",
         "Where tensor memory changes hands, tcgen05.fence::before_thread_sync stands before the synchronisation and "
         "::after_thread_sync behind it."),
        ("tcgen05-wait", "PTX 9.7.16.8.5 tcgen05.wait",
         "tcgen05.ld and tcgen05.st are waited for before tensor memory is handed over."),
        ("tensor-memory-alloc", "PTX 9.7.16.7.1 tcgen05.alloc",
         "Columns are a power of two from 32 to 512, at most 512 at a time; each allocation is given back as it was "
         "taken; nobody asks behind relinquish_alloc_permit."),
        ("pair-rendezvous", "PTX 9.7.16.7.1 tcgen05.alloc",
         "A warp that allocates with cta_group::2 knows that the peer CTA has been launched."),
        ("residency", "PTX 9.7.16.7.1 tcgen05.alloc blocks; CUDA programming guide, compute capabilities",
         "CTAs of clusters that fit on one SM do not want more than its 512 columns, or clusters may wait for each "
         "other for ever."),
        ("cluster-mask", "PTX 9.7.9.25.5.2, 9.7.16.12.1 multicast",
         "A mask names CTAs of the cluster, at least one; a barrier of a copy is in a CTA that the manual allows."),
        ("producer-tail", "PTX 9.7.13.3 barrier.cluster, 5.1.7 shared memory of a cluster",
         "A CTA stays until all that others do to its shared memory and barriers is known to be done."),
        ("dependent-launch", "PTX 9.7.13.13 griddepcontrol; the columns of tensor memory are taken by whoever comes",
         "launch_dependents comes behind the tcgen05.alloc of the CTA, so that the next grid takes no columns "
         "which this one waits for."),
        ("read-only-load", "PTX 9.7.9.9 ld.global.nc",
         "What is loaded with .nc is not written while the kernel runs, by no kernel in front either."),
        ("dependent-copy", "PTX 9.7.13.13 griddepcontrol",
         "What a kernel in front may still use is copied behind griddepcontrol.wait, one's own or that of a thread "
         "that one has heard from."),
        ("bulk-groups", "PTX 9.7.9.25.6 bulk async-groups",
         "A thread commits its bulk copies, and waits until they have read shared memory before it exits."),
        ("launch-control", "PTX 9.7.13.17 clusterlaunchcontrol",
         "After a request was declined there is no other, and of a declined one the CTA is not asked."),
        ("wgmma-order", "PTX 9.7.15.7 wgmma.fence, commit_group, wait_group",
         "The first wgmma stands behind a wgmma.fence, groups are committed, and waited for before exit."),
        ("no-end", "PTX 9.7.13", "Whoever waits is waited for by others only where one of them can go on."),
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
