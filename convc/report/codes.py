"""Meanings of the short names in messages: rules of findings, and the verdicts of `check` and `verify`.

Each text begins with a sentence that says what happened; the next ones say what to do. `convc explain` prints them.
Error codes are explained by the docstrings of `convc.errors`.
"""

from __future__ import annotations

from convc.auditor.rules import RULES

FINDINGS = {
    "race-shared-memory": (
        "Two accesses of a byte of shared memory, one of which writes, are not ordered. Put a barrier, an mbarrier or "
        "a wait between the two lines; between ordinary accesses and a copy engine or the tensor core a proxy fence "
        "is needed as well (fence.proxy.async). Between lanes of one warp it is bar.warp.sync."
    ),
    "race-tensor-memory": (
        "Two accesses of a cell of tensor memory, one of which writes, are not ordered. Between MMAs and tcgen05.ld "
        "wait for the commit on an mbarrier, after tcgen05.ld and tcgen05.st for their tcgen05.wait, and put "
        "tcgen05.fence around the barrier that orders threads."
    ),
    "race-global-memory": (
        "Two accesses of a byte of global memory, one of which writes, are not ordered: by threads of one cluster, or "
        "of two, where nothing orders them but atomic operations that publish and acquire."
    ),
    "shared-memory-unwritten": (
        "Bytes of shared memory are read that nobody wrote. A copy has not landed (wait for its mbarrier), an address "
        "is wrong, or a stage was not filled."
    ),
    "tensor-memory-unwritten": (
        "Cells of tensor memory are read that nobody wrote. The first MMA of an accumulator must not accumulate "
        "(enable-input-d false), operands and scale factors must be copied there first."
    ),
    "pair-allocation": (
        "A warp gets or gives back tensor memory of a CTA pair, and nothing says that the other CTA runs; or the two "
        "CTAs do so by different warps, or keep the address at different places. Let the warp wait at the cluster "
        "barrier (barrier.cluster.wait) first, and do the same in both CTAs."
    ),
    "proxy-fence-missing": (
        "Ordinary loads have read shared memory that a copy then overwrites, and no proxy fence stands between the "
        "two. Put fence.proxy.async.shared::cta before the arrival that lets the copy begin."
    ),
    "exit-before-arrival": (
        "A CTA may exit before a commit of a peer arrives at its mbarrier, whose shared memory ends with the CTA. Let "
        "the warp that loads wait for the last phase of each stage before it exits."
    ),
    "tensor-memory-residency": (
        "CTAs of a cluster keep columns of tensor memory until their peers have some, and an SM takes more such CTAs "
        "than it has columns for: clusters may wait for each other in a circle. Ask for so much shared memory that "
        "CTAs times columns is at most 512."
    ),
    "launch-before-allocation": (
        "The kernel behind may begin before a CTA has its tensor memory, take the columns, and wait for this kernel. "
        "Put griddepcontrol.launch_dependents behind the barrier that follows tcgen05.alloc."
    ),
    "swizzle-mismatch": (
        "The descriptor of a matrix names another swizzle than the tensor maps of the copies that wrote its bytes, so "
        "that they change places. Give both the same, unless the data in global memory are laid out for that."
    ),
    "dependent-access": (
        "A buffer that the kernel in front may still use is reached before griddepcontrol.wait. Put the wait before "
        "the access, or take the buffer out of 'dependent' in the launch file."
    ),
    "dependent-constant": (
        "A buffer that the kernel in front writes is read by ld.global.nc, which is for what nobody writes while the "
        "kernel runs. Use ld.global."
    ),
    "dependent-unnamed": (
        "The text has griddepcontrol, and the launch file does not say which buffers the kernel in front may use: "
        "accesses before griddepcontrol.wait were not looked for. Name them in 'dependent', or give --dependent."
    ),
    "wait-answer-unread": (
        "Nothing depends on the predicate of an mbarrier.try_wait or test_wait, which may return before the phase is "
        "over: it orders nothing. Repeat it until the predicate is true, or leave it out."
    ),
    "register-before-wait": (
        "A register is used before the tcgen05.wait::ld of the tcgen05.ld that fills it. Put the wait between the two."
    ),
    "accumulator-before-wait": (
        "An accumulator of a wgmma, or a register that holds its operand A, is used before its group has been waited "
        "for. Put wgmma.commit_group and wgmma.wait_group between the two."
    ),
    "wgmma-fence-missing": (
        "A wgmma names registers that other instructions have used since the last wgmma.fence, or is the first one of "
        "its warp and has no fence before it. Put wgmma.fence between the two."
    ),
    "warpgroup-apart": (
        "The four warps of a warpgroup did not execute the same wgmma and setmaxnreg instructions, or wgmma.fence, "
        "commit_group or wait_group not all of them. Let all 128 threads reach each, with the same descriptors."
    ),
    "register-count": (
        "A setmaxnreg asks for what it cannot have: .inc for fewer registers than its warps have, .dec for more, or a "
        "kernel that does not say how many it starts with. Give .maxnreg, or .maxntid and .minnctapersm, and let "
        "some warps give up what others take."
    ),
    "aligned-after-divergence": (
        "A warp whose lanes parted reaches an instruction that all of them must execute together (.aligned). Let the "
        "lanes meet before it, or keep the branch uniform."
    ),
    "mbarrier-touched": (
        "A load, store, atomic or copy reaches the eight bytes of an mbarrier that is alive, which is undefined "
        "(PTX manual, mbarrier). Put it elsewhere, or end the barrier's life by mbarrier.inval first."
    ),
    "scope-too-narrow": (
        "An mbarrier operation, atomic, fence or access with an order says .cta, or .cluster, and a thread of another "
        "CTA, or of another cluster, takes part: nothing orders the two (PTX manual, Scope). Say .cluster in a "
        "cluster, .gpu between clusters; mbarrier operations without a scope mean .cluster."
    ),
    "clusters-unwatched": (
        "Clusters do otherwise than those that were watched, in more ways than are run again: places in shared memory, "
        "or which instructions are executed, depend on data or on the CTA. Check a launch with fewer clusters."
    ),
    "descriptor-version": (
        "A shared-memory descriptor of the tensor core has 0 in bits 46-48, and the manual the fixed value 0b001. "
        "Kernels of Triton 3.5 do that and run on B200. Set bit 46."
    ),
    "proxy-fence-wrong": (
        "A proxy fence stands between an ordinary access and an asynchronous one, and is for another proxy or state "
        "space. Copies and the tensor core need fence.proxy.async, of .shared::cta or .global where it names one."
    ),
    "register-unwritten": (
        "A register or predicate is read that nothing has written on the path by which the thread came. It holds "
        "anything; an error where that reaches memory, an address, a branch or a descriptor."
    ),
    "declined-request-used": (
        "The CTA of a clusterlaunchcontrol request is used, and the request was declined. Ask "
        "query_cancel.is_canceled first; reading the number alone is no mistake."
    ),
    "completion-order": (
        "The result depends on when asynchronous work is performed: a run with late or random completion gave other "
        "bytes. Something is read, or overwritten, before a wait."
    ),
    "exit-before-completion": (
        "A CTA exits while asynchronous work still reaches its shared or tensor memory. Wait for it before the exit."
    ),
    "exit-before-peer": (
        "A CTA exits while a peer of its cluster may still reach its shared memory. Let the cluster meet at a "
        "barrier.cluster before the exit."
    ),
    "peer-not-started": (
        "The shared memory of a peer is reached before it is certain that the peer runs. Let the cluster meet at a "
        "barrier.cluster first."
    ),
    "barrier-counts": (
        "Warps give one CTA barrier different numbers of threads. All that meet at a barrier must say the same number."
    ),
    "barrier-overflow": (
        "More threads reach a CTA barrier than the number that it waits for. The rest would meet at the next one, "
        "alone."
    ),
    "barrier-mixed": (
        "Threads meet at one CTA barrier with bar.sync and with bar.red. All of them must use the same operation."
    ),
    "mbarrier-init-again": (
        "One mbarrier is initialised by several threads, or a second time, which loses arrivals in between. Let one "
        "thread do it once, before a barrier that all pass; mbarrier.inval comes before the next use of the bytes."
    ),
    "mbarrier-overrun": (
        "The arrivals of one instruction fall into several phases of an mbarrier. Initialise it with as many arrivals "
        "as a phase has."
    ),
    "sparse-metadata": (
        "The metadata of an mma.sp name no two positions of four, or not in the order that sp::ordered_metadata asks "
        "for, which is undefined (PTX manual, mma.sp). Four bits a chunk, the lower position in the lower two."
    ),
    "warp-sync-mask": (
        "The mask of a warp's instruction does not name the lanes that execute it. Name those that do, or let the "
        "others come."
    ),
    "async-store-own-cta": (
        "st.async, or an asynchronous reduction, is aimed at the CTA of its own thread, which is undefined. Use an "
        "ordinary store there."
    ),
    "shift-extent": (
        "A tcgen05.shift whose reach no public source settles: whether it moves the rows of all sub-partitions or "
        "those of its window. See switch shift_extent."
    ),
    "collector-protocol": (
        "An MMA uses a collector buffer that was not filled, or was filled with another matrix. The first use must "
        "fill it (.fill), and the matrix must be the same until then."
    ),
    "scale-factors-not-replicated": (
        "Scale factors differ between the sub-partitions of tensor memory. Copy them with tcgen05.cp .warpx4, which "
        "writes all four."
    ),
    "grant-order": (
        "A kernel that asks for CTAs which have not begun does something else when it is granted others. Every CTA "
        "must do its own work, and that of each CTA that it was granted, once."
    ),
    "launch-control-after-decline": (
        "A CTA asks for another cluster (clusterlaunchcontrol.try_cancel) after a request was declined, which is "
        "undefined. Stop at the first refusal."
    ),
    "bulk-group-uncommitted": (
        "A thread exits with bulk copies that it did not commit. Put cp.async.bulk.commit_group and "
        "cp.async.bulk.wait_group before the exit."
    ),
    "bulk-group-unwaited": (
        "A thread exits with bulk copies that it committed and did not wait for. Put cp.async.bulk.wait_group before "
        "the exit."
    ),
    "tensor-memory-leak": (
        "Tensor memory was not freed before the kernel's exit. A CTA that allocates must free (tcgen05.dealloc) all "
        "of it."
    ),
    "hang": (
        "The kernel hangs: no warp can go on and no asynchronous work is pending. The finding lists who waits for "
        "what; compare that with the arrivals and bytes that the other warps give. Without a checker it is error "
        "M200."
    ),
    "instruction-limit": (
        "A warp executed as many instructions as it may (--max-instructions), so that not everything was checked. The "
        "finding lists where every warp stands: look for a loop that has no end, or allow more. Without a checker it "
        "is error M300."
    ),
    "fault": (
        "The kernel did what the hardware answers with a fault: a bad address, a misaligned copy, a wrong operand. "
        "Without a checker it is error M100."
    ),
    "open-question": (
        "The result depends on a rule that no public source settles: another setting of a switch changes it. See the "
        "switch, and docs/fidelity.md for what is known."
    ),
    "printf": "The kernel called printf; the message is what it printed. Nothing is wrong.",
    "writer": (
        "The line, and the thread, that last wrote the element which is wrong. It tells where to look, and is no "
        "fault by itself."
    ),
}
"""By the rule of a finding."""

VERDICTS = {
    "clean": "Everything was checked, and nothing was found.",
    "review": "Something a person should look at: it may be right. The exit code is 0.",
    "rule": (
        "The manual forbids it, and this run came out right: the hardware is known to be lenient here. The exit code "
        "is 0, with --strict 1."
    ),
    "incomplete": "Not everything was checked, which is never a success. The exit code is 1.",
    "error": "This run is wrong or undefined, and the finding is the witness. The exit code is 1.",
    "exact": "Verified on small integers: every bit agrees with the float64 reference.",
    "in bound": (
        "Verified: every element is inside the bound that is derived from the types and the length of the sum."
    ),
    "WRONG": (
        "So many elements differ by more than is allowed. Below the table are the first of them, what it should be "
        "and the line that wrote it. The exit code is 1."
    ),
    "sampled": "Only some CTAs were run (--sample), and what is said behind it is known of these alone.",
    "stopped": "The kernel came to no end: it faults, hangs or goes on (M100, M200, M300). The exit code is 1.",
    "findings": ("The elements are right, but the simulator noticed something wrong while it ran. The exit code is 1."),
    "stray writes": (
        "The elements of a sample are right, but its CTAs wrote outside of their tiles. The exit code is 1."
    ),
    "DEPARTED": ("An output of the network is further from onnxruntime's than rounding explains. The exit code is 1."),
}
"""By the verdict on a kernel, a layer or an output."""

AUDIT = {rule.name: f"{rule.asks} Source: {rule.source}." for rule in RULES.values()}
"""Rules of ``convc audit``, with where each is written."""
