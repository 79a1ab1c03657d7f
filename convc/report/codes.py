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
        "Shared memory is read that was never written. A copy has not landed (wait for its mbarrier), an address "
        "is wrong, or a stage was not filled."
    ),
    "tensor-memory-unwritten": (
        "Tensor memory is read that was never written. The first MMA of an accumulator must not accumulate "
        "(enable-input-d false), operands and scale factors must be copied there first."
    ),
    "pair-allocation": (
        "A warp allocates or frees tensor memory with cta_group::2 before the peer CTA is known to run; or the "
        "two CTAs do so in different warps, or keep the address at different offsets. Let the warp wait at the cluster "
        "barrier (barrier.cluster.wait) first, and do the same in both CTAs."
    ),
    "proxy-fence-missing": (
        "A copy overwrites shared memory that ordinary loads have read, without a proxy fence in between. Put "
        "fence.proxy.async.shared::cta before the arrival that lets the copy begin."
    ),
    "exit-before-arrival": (
        "A CTA may exit before a commit of a peer arrives at its mbarrier, whose shared memory ends with the CTA. Let "
        "the warp that loads wait for the last phase of each stage before it exits."
    ),
    "tensor-memory-residency": (
        "CTAs of a cluster hold columns of tensor memory while they wait for their peers, and more of these CTAs "
        "fit on an SM than it has columns for: clusters may deadlock. Request enough shared memory that CTAs per "
        "SM times columns is at most 512."
    ),
    "launch-before-allocation": (
        "The dependent kernel may start before a CTA has allocated its tensor memory, take the columns, and wait "
        "for this kernel. "
        "Put griddepcontrol.launch_dependents behind the barrier that follows tcgen05.alloc."
    ),
    "swizzle-mismatch": (
        "The descriptor of a matrix names another swizzle than the tensor map of the copy that wrote its bytes, "
        "so that elements are permuted. Use the same swizzle in both, unless the data in global memory are "
        "permuted accordingly."
    ),
    "dependent-access": (
        "A buffer that the preceding kernel may still use is accessed before griddepcontrol.wait. Put the wait before "
        "the access, or take the buffer out of 'dependent' in the launch file."
    ),
    "dependent-constant": (
        "A buffer that the preceding kernel writes is read by ld.global.nc, which is for data that stay constant "
        "while the kernel runs. Use ld.global."
    ),
    "dependent-unnamed": (
        "The text has griddepcontrol, and the launch file does not say which buffers the preceding kernel may "
        "use: accesses before griddepcontrol.wait were not checked. Name them in 'dependent', or give --dependent."
    ),
    "wait-answer-unread": (
        "The predicate of an mbarrier.try_wait or test_wait is unused. Both may return before the phase is "
        "complete, so the wait orders nothing. Repeat it until the predicate is true, or remove it."
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
        "The four warps of a warpgroup did not all execute the same wgmma, wgmma.fence, commit_group, wait_group "
        "and setmaxnreg instructions. Let all 128 threads reach each, with the same descriptors."
    ),
    "register-count": (
        "A setmaxnreg is illegal: .inc for fewer registers than its warps have, .dec for more, or a "
        "kernel that does not say how many it starts with. Give .maxnreg, or .maxntid and .minnctapersm, and let "
        "some warps release the registers that others take."
    ),
    "aligned-after-divergence": (
        "A diverged warp reaches an instruction that all its lanes must execute together (.aligned). Reconverge "
        "before it (bar.warp.sync), or keep the branch uniform."
    ),
    "mbarrier-touched": (
        "A load, store, atomic or copy accesses the eight bytes of an initialised mbarrier, which is undefined "
        "(PTX manual, mbarrier). Use other bytes, or mbarrier.inval first."
    ),
    "scope-too-narrow": (
        "An mbarrier operation, atomic, fence or access with an order says .cta, or .cluster, and a thread of another "
        "CTA, or of another cluster, takes part: nothing orders the two (PTX manual, Scope). Say .cluster in a "
        "cluster, .gpu between clusters; mbarrier operations without a scope mean .cluster."
    ),
    "clusters-unwatched": (
        "Some clusters behave differently from those that were checked, in more ways than are repeated: "
        "shared-memory addresses, or which instructions are executed, depend on data or on the CTA. Check a "
        "launch with fewer clusters."
    ),
    "descriptor-version": (
        "A shared-memory descriptor of the tensor core has 0 in bits 46-48, and the manual the fixed value 0b001. "
        "Kernels of Triton 3.5 do that and run on B200. Set bit 46."
    ),
    "proxy-fence-wrong": (
        "A proxy fence between an ordinary access and an asynchronous one is for another proxy or state space. "
        "Copies and the tensor core need fence.proxy.async, of .shared::cta or .global where it names one."
    ),
    "register-unwritten": (
        "A register or predicate is read that was not written on the thread's path. Its value is undefined; this "
        "is an error where it reaches memory, an address, a branch or a descriptor."
    ),
    "declined-request-used": (
        "The CTA id of a declined clusterlaunchcontrol request is used. Test query_cancel.is_canceled first; "
        "reading the id alone is not an error."
    ),
    "completion-order": (
        "The result depends on when asynchronous operations complete: a run with late or random completion gave "
        "other bytes. Memory is read, or overwritten, before the wait for it."
    ),
    "exit-before-completion": (
        "A CTA exits while asynchronous operations still access its shared or tensor memory. Wait for it before "
        "the exit."
    ),
    "exit-before-peer": (
        "A CTA exits while a peer of its cluster may still access its shared memory. Put a barrier.cluster before "
        "the exit."
    ),
    "peer-not-started": (
        "The shared memory of a peer CTA is accessed before the peer is known to run. Put a barrier.cluster before it."
    ),
    "barrier-counts": (
        "Warps give different thread counts to one CTA barrier. All warps at a barrier must give the same count."
    ),
    "barrier-overflow": (
        "More threads arrive at a CTA barrier than its thread count. The surplus would wait for the next round."
    ),
    "barrier-mixed": ("Threads use bar.sync and bar.red at one CTA barrier. All must use the same operation."),
    "mbarrier-init-again": (
        "One mbarrier is initialised by several threads, or a second time, which loses arrivals in between. Let "
        "one thread initialise it once, before a barrier that all threads pass; mbarrier.inval comes before the "
        "bytes are used again."
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
        "The membermask of a warp instruction differs from the lanes that execute it. Name the executing lanes, "
        "or reconverge first."
    ),
    "async-store-own-cta": (
        "st.async, or an asynchronous reduction, targets the thread's own CTA, which is undefined. Use an "
        "ordinary store there."
    ),
    "shift-extent": (
        "No public source says whether this tcgen05.shift moves the rows of all sub-partitions or of one. See "
        "switch shift_extent."
    ),
    "collector-protocol": (
        "An MMA uses a collector buffer that was not filled, or was filled with another matrix. The first use "
        "must fill it (.fill), and the matrix must not change until its last use."
    ),
    "scale-factors-not-replicated": (
        "Scale factors differ between the sub-partitions of tensor memory. Copy them with tcgen05.cp .warpx4, which "
        "writes all four."
    ),
    "grant-order": (
        "The work of a kernel with dynamic tile scheduling (clusterlaunchcontrol) depends on which CTAs are "
        "granted. Every CTA must do its own work and that of each granted CTA, once."
    ),
    "launch-control-after-decline": (
        "A CTA sends another clusterlaunchcontrol.try_cancel after a declined one, which is undefined. Stop after "
        "the first declined request."
    ),
    "bulk-group-uncommitted": (
        "A thread exits with uncommitted bulk copies. Put cp.async.bulk.commit_group and "
        "cp.async.bulk.wait_group before the exit."
    ),
    "bulk-group-unwaited": (
        "A thread exits without waiting for its committed bulk copies. Put cp.async.bulk.wait_group before the exit."
    ),
    "tensor-memory-leak": (
        "Tensor memory was not freed before the kernel's exit. A CTA that allocates must free (tcgen05.dealloc) all "
        "of it."
    ),
    "hang": (
        "The kernel hangs: no warp can continue and no asynchronous operation is pending. The finding lists what "
        "each warp waits for; compare that with the arrivals and bytes of the other warps. Without a checker it "
        "is error "
        "M200."
    ),
    "instruction-limit": (
        "A warp reached the limit of instructions (--max-instructions), so that the check is incomplete. The "
        "finding lists where every warp is: look for an endless loop, or raise the limit. Without a checker it "
        "is error M300."
    ),
    "fault": (
        "The kernel faults, as on the hardware: a bad address, a misaligned copy, a wrong operand. "
        "Without a checker it is error M100."
    ),
    "open-question": (
        "The result depends on a rule that no public source specifies: another setting of a switch changes it. See the "
        "switch, and docs/fidelity.md for what is known."
    ),
    "printf": "The kernel called printf; the message is what it printed. Nothing is wrong.",
    "writer": (
        "The line and the thread that last wrote the wrong element. This is where to look, not a finding of its own."
    ),
}
"""By the rule of a finding."""

VERDICTS = {
    "clean": "Everything was checked without a finding.",
    "review": "It may be right and needs a review. The exit code is 0.",
    "rule": (
        "The manual forbids it, and this run gave the right result: the hardware is known to be lenient here. The "
        "exit code "
        "is 0, with --strict 1."
    ),
    "incomplete": "Not everything was checked, which is never a success. The exit code is 1.",
    "error": "This run is wrong or undefined; the finding gives the evidence. The exit code is 1.",
    "exact": "Verified on small integers: every bit agrees with the float64 reference.",
    "in bound": (
        "Verified: every element is inside the bound that is derived from the types and the length of the sum."
    ),
    "WRONG": (
        "So many elements differ by more than is allowed. Below the table are the first of them, what it should be "
        "and the line that wrote it. The exit code is 1."
    ),
    "sampled": "Only some CTAs were run (--sample): the verdict after it holds for these alone.",
    "stopped": "The kernel did not finish: it faults (M100), hangs (M200) or exceeds the limit of instructions "
    "(M300). The exit code is 1.",
    "findings": ("The elements are right, but the simulator reported a finding during the run. The exit code is 1."),
    "stray writes": (
        "The elements of a sample are right, but its CTAs wrote outside of their tiles. The exit code is 1."
    ),
}
"""By the verdict on a kernel, a layer or an output."""

AUDIT = {rule.name: f"{rule.asks} Source: {rule.source}." for rule in RULES.values()}
"""Rules of ``convc audit``, with where each is written."""
