"""Mistakes in kernels that are right: what is changed, in which golden kernel, and rules of which one must say so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

GOLDEN = Path(__file__).parents[2] / "golden"


@dataclass(frozen=True)
class Mistake:
    """A pattern of the text of a kernel, and what takes its place everywhere."""

    kernel: str
    pattern: str
    wrong: str
    rules: tuple[str, ...]

    def text(self) -> str:
        """The kernel with the mistake."""
        right = (GOLDEN / self.kernel / "kernel.ptx").read_text()
        text, count = re.subn(self.pattern, self.wrong, right)
        assert count, f"{self.kernel} has no {self.pattern}"
        assert text != right
        return text


def inside(step: str, what: str) -> str:
    """A pattern in a step, with all of the step ahead of it as the first group."""
    return rf"(//@ step={step} (?s:(?!//@ step=).)*?){what}"


def without(kernel: str, step: str, what: str, *rules: str) -> Mistake:
    """Something is left out of a step."""
    return Mistake(kernel, inside(step, what), r"\1", rules)


def waitless(kernel: str, role: str, step: str, *rules: str) -> Mistake:
    """A wait is left out, with its loop."""
    return without(kernel, step, rf"mbarrier\.try_wait[^;]*;\s*@!%passed bra {role}_retry;", *rules)


def _shape(wrong: str, *rules: str) -> Mistake:
    """Another instruction descriptor."""
    return Mistake("same_3x3_f16", r"mov\.b32 %shape, 0x08180010", f"mov.b32 %shape, {wrong}", rules)


def _layout(wrong: str) -> Mistake:
    """Another upper half of the matrix descriptors."""
    return Mistake("same_3x3_f16", "0x40004040", wrong, ("matrix-descriptor",))


EXPECTS = inside("load.expect", r"expect_tx(\S*) _, \[%bar\+(\d+)\], ")
PROXY = r"fence\.proxy\.async[^;]*;"
BEFORE = r"tcgen05\.fence::before_thread_sync;"
AFTER = r"tcgen05\.fence::after_thread_sync;"
FLIP = r"@%wrap xor\.b32 %phase, %phase, 1;"
MET = r"barrier\.cluster\.wait[^;]*;"

MISTAKES = {
    "a pair allocates before it has met": without("pair_f16", "alloc.met", MET, "pair-rendezvous"),
    "a slab is given back unfenced": without("copied_residual_f16", "epilogue.added_r", PROXY, "proxy-fence"),
    "factors are given back unfenced": Mistake(
        "scaled_nvfp4", rf"{PROXY}([^\n]*)\n(\s*)mbarrier", r"\n\2mbarrier", ("proxy-fence",)
    ),
    "nobody waits for the last signals": Mistake(
        "multicast_f16", r"(?s)//@ step=load\.stages_.*?@%more bra load_stages_\w+_next;\s*\}", "", ("producer-tail",)
    ),
    "the accumulator is given back unfenced": without("persistent_f16", "epilogue.release", BEFORE, "tcgen05-fence"),
    "the end is unfenced": without("block_end_f16", "end.sync", BEFORE, "tcgen05-fence"),
    "the accumulator is read unfenced": without("block_end_f16", "epilogue.wait", AFTER, "tcgen05-fence"),
    "loads are not waited for": without("block_end_f16", "epilogue.read", r"tcgen05\.wait::ld\S*;", "tcgen05-wait"),
    "stores are not waited for": Mistake("scaled_nvfp4", r"tcgen05\.wait::st\S*;", "", ("tcgen05-wait",)),
    "more bytes are expected": Mistake(
        "same_3x3_f16", EXPECTS, r"\1expect_tx\2 _, [%bar+\3], 1", ("transaction-bytes",)
    ),
    "fewer bytes are expected": Mistake(
        "same_3x3_f16", EXPECTS + r"\d+", r"\1expect_tx\2 _, [%bar+\3], 16", ("transaction-bytes",)
    ),
    "a phase is made for more arrivals": Mistake(
        "same_3x3_f16", r"(mbarrier\.init\S* \[%bar\+\d+\]), 1;", r"\1, 2;", ("arrival-count",)
    ),
    "a phase is made for fewer arrivals": Mistake(
        "persistent_f16", r"(mbarrier\.init\S* \[%bar\+\d+\]), 128;", r"\1, 32;", ("tcgen05-order",)
    ),
    "a phase lacks arrivals": Mistake(
        "persistent_f16", r"(mbarrier\.init\S* \[%bar\+\d+\]), 128;", r"\1, 256;", ("arrival-count",)
    ),
    "the parity of loads stays": without("same_3x3_f16", "load.next", FLIP, "memory-reuse"),
    "the parity of MMAs stays": without("same_3x3_f16", "mma.next", FLIP, "phase-parity"),
    "the parity of halves stays": without(
        "persistent_f16", "epilogue.other", FLIP.replace("phase", "phase_acc"), "phase-parity"
    ),
    "a wait is not repeated": without("same_3x3_f16", "mma.wait", r"@!%passed bra mma_wait_retry;", "wait-unheard"),
    "operands are not waited for": waitless("same_3x3_f16", "mma_wait", "mma.wait", "copy-arrival"),
    "stages are not waited for": waitless("same_3x3_f16", "load_wait", "load.wait", "memory-reuse"),
    "the accumulator is not waited for": waitless("same_3x3_f16", "epilogue_wait", "epilogue.wait", "tcgen05-order"),
    "the half is not waited for": waitless("persistent_f16", "mma_drained", "mma.drained", "tcgen05-order"),
    "answers are not waited for": waitless("dynamic_f16", "mma_answered", "mma.answered", "copy-arrival"),
    "stages are not given back": without("same_3x3_f16", "mma.release", r"tcgen05\.commit[^;]*;", "no-end"),
    "the accumulator is never complete": without("same_3x3_f16", "mma.done", r"tcgen05\.commit[^;]*;", "no-end"),
    "other columns are given back": Mistake(
        "same_3x3_f16", r"(tcgen05\.dealloc\S* %tmem), \d+", r"\1, 512", ("tensor-memory-alloc",)
    ),
    "columns are kept": Mistake("same_3x3_f16", r"tcgen05\.dealloc[^;]*;", "", ("tensor-memory-alloc",)),
    "nobody may ask any more": Mistake(
        "same_3x3_f16", r"(tcgen05\.alloc[^;]*;)(\s*)(tcgen05\.relinq[^;]*;)", r"\3\2\1", ("tensor-memory-alloc",)
    ),
    "the end is no meeting": without("same_3x3_f16", "end.sync", r"bar\.sync[^;]*;", "tcgen05-order"),
    "the start is no meeting": Mistake("same_3x3_f16", r"bar\.arrive 2, 192;|bar\.sync 2, 192;", "", ("barrier-init",)),
    "the operand is too wide": _shape("0x081a0010", "matrix-descriptor"),
    "M is 96": _shape("0x06180010", "instruction-descriptor"),
    "A is bf16": _shape("0x08180090", "instruction-descriptor"),
    "D is s32": _shape("0x08180020", "instruction-descriptor"),
    "fixed bits are 0": _layout("0x40000040"),
    "the swizzle is another": _layout("0x80004040"),
    "the swizzle is none": _layout("0x60004040"),
    "the swizzle of a warpgroup is another": Mistake(
        "hopper_f16", "0x40000040", "0x80000040", ("matrix-descriptor",)
    ),
    "the matrix leaves shared memory": _layout("0x40007040"),
    "a mask leaves the cluster": Mistake(
        "multicast_f16", r"mul\.lo\.s32 %ctas_a, %t0, 5", "mul.lo.s32 %ctas_a, %t0, 17", ("cluster-mask",)
    ),
    "a mask names others": Mistake(
        "multicast_f16", r"mul\.lo\.s32 %ctas_a, %t0, 5", "mul.lo.s32 %ctas_a, %t0, 3", ("transaction-bytes",)
    ),
    "a stage is given back to one CTA": Mistake(
        "pair_f16", inside("mma.release", r"\], %\w+;"), r"\1], 1;", ("transaction-bytes",)
    ),
    "results are copied unfenced": Mistake("tensor_store_f16", PROXY, "", ("proxy-fence",)),
    "results are in no group": Mistake(
        "tensor_store_f16", r"@%one cp\.async\.bulk\.commit_group;", "", ("bulk-groups",)
    ),
    "results are not waited for": without(
        "tensor_store_f16", "epilogue.drain", r"cp\.async\.bulk\.wait_group\.read 0;", "bulk-groups"
    ),
    "results overwrite those before": Mistake(
        "persistent_f16",
        r"(?s)cp\.async\.bulk\.wait_group\.read 0;(?=.*cp\.async\.bulk\.wait_group)",
        "",
        ("memory-reuse",),
    ),
    "answers are given back unfenced": without("dynamic_f16", "mma.told", PROXY, "proxy-fence"),
    "accumulators are unfenced": Mistake("hopper_f16", r"wgmma\.fence\.sync\.aligned;", "", ("wgmma-order",)),
    "a stage is given back too early": Mistake(
        "hopper_slide_f16",
        r"wgmma\.wait_group\.sync\.aligned 1;",
        "wgmma.wait_group.sync.aligned 2;",
        ("memory-reuse",),
    ),
    "products are in no group": without("hopper_f16", "mma.release", r"wgmma\.commit_group\S*;", "wgmma-order"),
    "barriers are unfenced": Mistake("block_end_f16", r"fence\.mbarrier_init\S*;", "", ("barrier-init",)),
    "barriers of peers are unfenced": Mistake("multicast_f16", r"fence\.mbarrier_init\S*;", "", ("barrier-init",)),
    "a CTA leaves before its peer has read": Mistake(
        "split_k_f16", rf"(?s)(//@ step=end\.(?:met|wait|sync)[^\n]*\n.*?){MET}", r"\1", ("producer-tail",)
    ),
    "the end of a pair is no meeting": without("pair_f16", "end.sync", MET, "producer-tail"),
    "registers are too many": Mistake(
        "hopper_registers_f16", r"setmaxnreg\.inc\S* \d+", "setmaxnreg.inc.sync.aligned.u32 256", ("register-sum",)
    ),
}  # fmt: skip
