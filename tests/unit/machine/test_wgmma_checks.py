"""What the checkers say of wgmma: every synchronisation that a kernel needs, taken out of it in turn."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import NAMES, execute, module
from warpgroup_kernels import Wgmma, deal_rows, deal_sums, instructions, kernel, lay, tile, word

from convc.errors import DeadlockError, MachineFault, UnmodelledError
from convc.ir.findings import Verdict
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.machine import RunOptions, run
from convc.sanitizer.run import Checked, check_kernel

MMA = Wgmma("m64n8k16.f32.f16.f16")
IN_REGISTERS = Wgmma("m64n8k16.f32.f16.f16", a_in_registers=True)
SIZE = 4096


def buffers(mma: Wgmma) -> dict[str, np.ndarray]:
    image = np.zeros(SIZE, np.uint8)
    left = np.arange(64 * 16).reshape(64, 16).astype(np.float16) % 7
    lay(image, tile(64, 32, "none"), left)
    lay(image, tile(8, 32, "none", 2048), left[:8] - 3)
    return {
        "image": image.view(np.uint32), "a": deal_rows(left).reshape(-1),
        "c": deal_sums(np.ones((64, 8), np.float32), "f32").reshape(-1), "out": np.zeros(512, np.uint32),
    }  # fmt: skip


def text_of(mma: Wgmma) -> str:
    words = [(word(tile(64, 32, "none")), word(tile(8, 32, "none", 2048)))]
    return kernel(mma, SIZE, instructions(mma, words, ["1"]))


def launch_of(data: dict[str, np.ndarray], threads: int, ctas: int = 1) -> LaunchSpec:
    """One cluster."""
    return LaunchSpec(
        entry="k",
        grid=(ctas, 1, 1),
        cluster=(ctas, 1, 1),
        block=(threads, 1, 1),
        shared_bytes=SIZE,
        buffers={name: BufferSpec(dtype=NAMES[str(array.dtype)], shape=array.shape) for name, array in data.items()},
        params=tuple(PointerParam(buffer=name) for name in data),
    )


def check(text: str, threads: int = 128) -> Checked:
    data = buffers(MMA)
    return check_kernel(text, launch_of(data, threads), data)


def rules(text: str) -> set[str]:
    return {finding.rule for finding in check(text).findings if finding.verdict > Verdict.review}


def verdicts(text: str) -> set[tuple[str, Verdict]]:
    return {(finding.rule, finding.verdict) for finding in check(text).findings}


@pytest.mark.parametrize("mma", [MMA, IN_REGISTERS])
def test_a_right_kernel_is_clean(mma):
    assert check(text_of(mma)).findings == ()


COMMIT, WAIT = "wgmma.commit_group.sync.aligned;\n", "wgmma.wait_group.sync.aligned 0;\n"
FENCE, PROXY = "wgmma.fence.sync.aligned;\n", "fence.proxy.async.shared::cta;\n"
APART = "warpgroup-apart"
OVERWRITE = "st.shared.b32 [%s+2048], %t;\n"


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (FENCE, "", "wgmma-fence-missing"),
        (FENCE, FENCE + "mov.b32 %d1, %t;\n", "wgmma-fence-missing"),
        (COMMIT, "", "accumulator-before-wait"),
        (WAIT, "", "accumulator-before-wait"),
        (WAIT, "wgmma.wait_group.sync.aligned 1;\n", "accumulator-before-wait"),
        (WAIT, WAIT + "mov.b64 %w, %at;\n", None),
        (WAIT, "mov.b32 %a0, %d0;\n" + WAIT, "accumulator-before-wait"),
        (WAIT, "mov.b32 %a0, 0;\n" + WAIT, None),
        (WAIT, "@!%more mov.b32 %d0, 0;\n" + WAIT, "accumulator-before-wait"),
        (PROXY, "", "race-shared-memory"),
        ("bar.sync 0;\n", "", "race-shared-memory"),
        (WAIT, OVERWRITE + WAIT, "race-shared-memory"),
        (WAIT, WAIT + OVERWRITE, None),
    ],
)
def test_every_synchronisation_is_needed(old, new, rule):
    text = text_of(MMA)
    assert text.count(old) == 1
    changed = text.replace(old, new).replace("shr.u32 %s, %s, 4;", "shr.u32 %x0, %s, 4;")
    found = rules(changed.replace("cvt.u64.u32 %base, %s;", "cvt.u64.u32 %base, %x0;"))
    assert rule in found if rule else not found


REPAIRED = {
    "the first wgmma has no fence": (FENCE, ""),
    "an accumulator is written behind the fence": (FENCE, FENCE + "mov.b32 %d1, %t;\n"),
    "an accumulator is read before the wait": (WAIT, "mov.b32 %x1, %d0;\n" + WAIT + "mov.b32 %d0, %x1;\n"),
    "an accumulator is copied and put back": (WAIT, "mov.b32 %x1, %d0; mov.b32 %d0, %x1;\n" + WAIT),
    "an accumulator is changed before the wait": (WAIT, "add.u32 %d0, %d0, 1; sub.u32 %d0, %d0, 1;\n" + WAIT),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_what_the_assembler_repairs_is_a_rule_and_comes_out_right(name):
    """ptxas 13 says of each that it puts a wait or a fence there, or gives what it would with one."""
    old, new = REPAIRED[name]
    text = text_of(MMA)
    checked = check(text.replace(old, new))
    (finding, *more) = [finding for finding in checked.findings if finding.verdict is Verdict.rule]
    assert finding.rule in ("wgmma-fence-missing", "accumulator-before-wait")
    assert "; PTX manual, wgmma." in finding.message
    assert {found.rule for found in more} <= {finding.rule}
    assert checked.verdict is Verdict.rule
    if "behind the fence" not in name:
        assert np.array_equal(checked.result.buffers["out"], check(text).result.buffers["out"])


def test_what_no_assembler_repairs_stays_an_error():
    """Shared memory that a wgmma still reads is overwritten, or the CTA exits; accumulators are touched as well."""
    text = text_of(MMA).replace("shr.u32 %s, %s, 4;", "shr.u32 %x0, %s, 4;").replace("%base, %s;", "%base, %x0;")
    early = "mov.b32 %x1, %d0; mov.b32 %d0, %x1;\n"
    touched = ("accumulator-before-wait", Verdict.rule)
    found = verdicts(text.replace(WAIT, OVERWRITE + early + WAIT))
    assert {("accumulator-before-wait", Verdict.error), ("race-shared-memory", Verdict.error)} <= found
    for missing in (COMMIT, WAIT):
        assert {touched, ("exit-before-completion", Verdict.error)} <= verdicts(text.replace(missing, ""))


def test_registers_of_a_belong_to_wgmma_until_the_wait():
    text = text_of(IN_REGISTERS)
    assert "accumulator-before-wait" in rules(text.replace(WAIT, "mov.b32 %a2, 7;\n" + WAIT))
    again = check(text.replace(WAIT, "add.u32 %a2, %a2, 1;\n" + WAIT)).findings
    assert ("accumulator-before-wait", Verdict.rule) in [(finding.rule, finding.verdict) for finding in again]
    read = check(text.replace(WAIT, "mov.b32 %x3, %a2;\n" + WAIT)).findings
    assert [(finding.rule, finding.verdict) for finding in read] == [("accumulator-before-wait", Verdict.review)]
    assert "wgmma-fence-missing" in rules(text.replace(FENCE, FENCE + "mov.b32 %a2, 7;\n"))


def test_registers_of_a_that_are_the_same_in_all_ctas_and_others():
    """Two wgmma of one accumulation: A of the first is a value of each CTA, that of the second zero in all."""
    text = text_of(IN_REGISTERS)
    (first,) = [line for line in text.splitlines() if line.startswith("wgmma.mma_async")]
    zeros = first.replace("{%a0, %a1, %a2, %a3}", "{%x0, %x0, %x0, %x0}")
    own = "mov.u32 %x1, %ctaid.x; and.b32 %x1, %x1, 0; add.u32 %a0, %a0, %x1; mov.b32 %x0, 0;\n"
    both = text.replace(FENCE, own + FENCE).replace(first, f"{first}\n{zeros}")
    data = buffers(MMA)
    launch = LaunchSpec(
        entry="k",
        grid=(2, 1, 1),
        block=(128, 1, 1),
        shared_bytes=SIZE,
        buffers={name: BufferSpec(dtype=NAMES[str(array.dtype)], shape=array.shape) for name, array in data.items()},
        params=tuple(PointerParam(buffer=name) for name in data),
    )
    want = check(text).result.buffers["out"]
    for policy in ("eager", "late"):
        result = run(both, launch, data, options=RunOptions(policy=policy))
        assert np.array_equal(result.buffers["out"], want), policy


def test_a_missing_wait_before_the_exit():
    text = text_of(MMA)
    stores = [line + "\n" for line in text.splitlines() if line.startswith("st.global")]
    for store in stores:
        text = text.replace(store, "")
    assert rules(text) == set()
    assert rules(text.replace(WAIT, "")) == {"exit-before-completion"}


def test_a_wait_for_less_than_no_group_is_refused():
    """By ptxas too: "expected to be non-negative integer"."""
    with pytest.raises(UnmodelledError, match=r"wgmma\.wait_group leaves 0 or more groups under way, got -1"):
        check(text_of(MMA).replace(WAIT, WAIT.replace("0;", "-1;")))
    with pytest.raises(UnmodelledError, match="0 or more groups under way, got 9223372036854775808"):
        check(text_of(MMA).replace(WAIT, WAIT.replace("0;", f"{1 << 63};")))


def test_a_warp_that_stays_away():
    text = text_of(MMA).replace(FENCE, "setp.ge.u32 %more, %t, 96; @%more bra AWAY;\n" + FENCE)
    text = text.replace("\nret;", "\nAWAY: ret;")
    (hang,) = [finding for finding in check(text).findings if finding.rule == "hang"]
    assert "the other warps of its warpgroup" in hang.message


def test_warps_that_took_different_ways_meet_again():
    """Warp 0 alone branches, which parts the warpgroup for good; wait_group still waits for all four."""
    parting = "setp.ge.u32 %more, %t, 32; @%more bra OVER; add.u32 %x1, %x1, 1;\nOVER:\n"
    checked = check(text_of(MMA).replace(FENCE, parting + FENCE))
    assert checked.findings == ()
    want = check(text_of(MMA)).result.buffers["out"]
    assert np.array_equal(checked.result.buffers["out"], want)


def test_descriptors_that_differ_inside_a_warpgroup():
    text = text_of(MMA).replace(FENCE, "mul.wide.u32 %w, %t, 1; shr.u64 %w, %w, 5; add.u64 %db0, %db0, %w;\n" + FENCE)
    assert "warpgroup-apart" in rules(text)


@pytest.mark.parametrize("what", [FENCE, WAIT])
@pytest.mark.parametrize("who", ["lt", "ge"])
def test_what_the_warpgroup_executes_together_one_warp_does_alone(what, who):
    """Once more than its fellows, or once less; all four do it twice in the repaired kernel."""
    alone = f"setp.{who}.u32 %more, %t, 32; @%more {what}"
    (found,) = [one for one in check(text_of(MMA).replace(what, f"{what}\n{alone}")).findings if one.rule == APART]
    assert found.verdict is Verdict.error
    name = what.split(".sync")[0]
    warp = 1 if who == "lt" else 0
    assert found.message == (
        f"warp {warp} did not execute {name} as often as the others of its warpgroup: all four warps must"
    )
    assert rules(text_of(MMA).replace(what, f"{what}\n{what}")) == set()


def test_a_group_that_one_warp_closes_alone_is_waited_for_in_vain():
    alone = f"setp.lt.u32 %more, %t, 32; @%more {COMMIT}"
    (hang,) = [one for one in check(text_of(MMA).replace(COMMIT, COMMIT + alone)).findings if one.rule == "hang"]
    assert "the other warps of its warpgroup to commit the wgmma" in hang.message
    assert rules(text_of(MMA).replace(COMMIT, COMMIT + COMMIT)) == set()
    last = text_of(MMA).replace(WAIT, WAIT + alone)
    (found,) = check(last).findings
    assert (found.rule, found.message[:60]) == (APART, "warp 1 did not execute wgmma.commit_group as often as the ot")


def test_wrong_launches_and_descriptors_are_faults():
    data = buffers(MMA)

    def launch(text: str, threads: int) -> None:
        execute(text, data, block=(threads, 1, 1), shared_bytes=SIZE, pointers=tuple(data))

    with pytest.raises(MachineFault, match="a warp outside of a full warpgroup: the CTA has 3 warps"):
        launch(text_of(MMA), 96)
    with pytest.raises(MachineFault, match="must be executed by all 32 lanes"):
        launch(text_of(MMA).replace("wgmma.mma_async", "setp.lt.u32 %more, %t, 40; @%more wgmma.mma_async"), 128)
    with pytest.raises(MachineFault, match=r"descriptor of A .* bit\(s\) 46 must be 0"):
        launch(text_of(MMA).replace(FENCE, f"add.u64 %da0, %da0, {1 << 46};\n" + FENCE), 128)
    with pytest.raises(MachineFault, match=r"reaches shared address .* but the CTA has"):
        launch(text_of(MMA).replace(FENCE, "add.u64 %db0, %db0, 512;\n" + FENCE), 128)


POOL = ".reg .b32 %t; .reg .pred %p; mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 128; @%p bra LOW;\n"


def pool(body: str, directives: str = ".maxntid 256 .minnctapersm 1") -> list[str]:
    """What is found when the second warpgroup of 256 threads runs ``body``, the first one what follows LOW."""
    text = module(POOL + body).replace("sm_100a", "sm_90a").replace(")\n{", f") {directives}\n{{")
    return [f.message for f in execute(text, {"out": np.zeros(1, np.uint32)}, block=(256, 1, 1)).findings]


def test_registers_come_from_the_pool_of_the_cta():
    low = "bra END;\nLOW: setmaxnreg.dec.sync.aligned.u32 {low};\nEND:"
    up = "setmaxnreg.inc.sync.aligned.u32 208; "
    assert pool(up + low.format(low=96), ".maxntid 256 .maxnreg 152") == []
    with pytest.raises(DeadlockError, match="registers: 224 more a lane, of which 192 are free"):
        pool(up + low.format(low=104), ".maxnreg 152")
    assert "to 208, fewer than the 240 it has" in pool(up.replace("208", "240") + up + low.format(low=40))[0]
    assert "to 216, more than the 208 it has" in pool(up + low.format(low=216), ".maxntid 256 .maxnreg 208")[0]
    assert "neither .maxnreg nor .maxntid" in pool(up + low.format(low=40), ".maxntid 256")[0]


@pytest.mark.parametrize(("threads", "more"), [(256, 208), (256, 256), (384, 160)])
def test_no_thread_begins_with_more_than_any_asks_for(threads, more):
    """ptxas gives the largest count of the text, not what an SM has for each thread: who takes it has it already."""
    body = f"setmaxnreg.inc.sync.aligned.u32 {more}; bra END;\nLOW: setmaxnreg.dec.sync.aligned.u32 40;\nEND:"
    assert pool(body, f".maxntid {threads} .minnctapersm 1") == []


def test_a_warpgroup_takes_registers_as_one():
    """Three warps give up more than the one beside them."""
    low = "bra END;\nLOW: setmaxnreg.dec.sync.aligned.u32 96; @%first bra END; {rest}\nEND:"
    first = "setp.lt.u32 %first, %t, 32;"
    bound = ".maxntid 256 .maxnreg 152"
    more = "setmaxnreg.inc.sync.aligned.u32 160;"

    def found(rest: str) -> list[str]:
        return pool(f".reg .pred %first; {more} {low.format(rest=rest)}".replace("LOW:", f"LOW: {first}"), bound)

    assert found("") == []
    text = "setmaxnreg.dec.sync.aligned.u32 88;"
    assert found(text) == ["the warps of warpgroup 0 executed different setmaxnreg"]
    many = module(POOL.replace("128", "96") + f"bra END; LOW: {text} END:").replace("sm_100a", "sm_90a")
    (finding,) = check_kernel(
        many.replace(")\n{", ") .maxntid 128 .maxnreg 96\n{"),
        LaunchSpec(
            entry="k",
            grid=(1, 1, 1),
            block=(128, 1, 1),
            buffers={"out": BufferSpec(dtype="u32", shape=(1,))},
            params=(PointerParam(buffer="out"),),
        ),
        {"out": np.zeros(1, np.uint32)},
    ).findings
    assert (finding.rule, finding.verdict) == ("warpgroup-apart", Verdict.rule)
    assert "; PTX manual, setmaxnreg: all warps" in finding.message


WARPGROUP, RANK = "shr.u32 %x1, %t, 7;\n", "mov.u32 %x1, %cluster_ctarank;\n"


def read_by(first: str, late: str, guard: str = "") -> set[tuple[int, int]]:
    """(CTA, warpgroup) of products that a store races with, of a cluster of two CTAs of 256 threads.

    ``first``: in front of the products. ``late``: behind them, ahead of their wait. ``guard``: of the products.
    """
    base = "mov.u32 %x0, smem; shr.u32 %x0, %x0, 4;"  # the same in all threads of a CTA
    text = text_of(MMA).replace("shr.u32 %s, %s, 4;", base).replace("%base, %s;", "%base, %x0;")
    text = text.replace("%i, 2048;", "%i, 4096;")  # all 256 threads fill shared memory
    text = text.replace(FENCE, first + FENCE).replace(WAIT, late + WAIT).replace("wgmma.mma", f"{guard}wgmma.mma")
    data = buffers(MMA)
    data["c"], data["out"] = (np.concatenate([data[name]] * 2) for name in ("c", "out"))
    found = check_kernel(text, launch_of(data, 256, 2), data).findings
    return {(f.other.cta, f.other.warp // 4) for f in found if f.rule == "race-shared-memory"}


def stored(offset: int, rank: str) -> str:
    """Thread 0 of a CTA stores to shared memory."""
    only = f"{RANK}setp.ne.u32 %more, %x1, {rank}; setp.ne.or.u32 %more, %t, 0, %more;"
    return f"{only} @!%more st.shared.b32 [%s+{offset}], %t;\n"


@pytest.mark.parametrize("rank", [0, 1])
def test_each_cta_of_a_cluster_reads_what_its_warpgroups_multiply(rank):
    """One CTA stores over B before the wait."""
    assert read_by("", stored(2048, rank)) == {(rank, 0)}  # the first pair of accesses is told
    other = f"{WARPGROUP}mov.u32 %x2, %cluster_ctarank; setp.ne.u32 %scale, %x1, %x2;\n"  # than the CTA's number
    assert read_by(other, stored(2048, rank), "@!%scale ") == {(rank, rank)}


@pytest.mark.parametrize(("by", "reader"), [(WARPGROUP, (0, 1)), (RANK, (1, 0))], ids=["warpgroup", "CTA"])
def test_b_may_lie_elsewhere_for_each(by, reader):
    """512 bytes further on for the second warpgroup, or in the second CTA, and there somebody stores."""
    further = f"{by}mul.wide.u32 %w, %x1, 32; add.u64 %db0, %db0, %w;\n"
    assert reader in read_by(further, stored(2560, "%x1"))
