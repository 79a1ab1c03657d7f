"""What the manual forbids and hardware forgives is a breach of a rule, while every run comes out right."""

from __future__ import annotations

from check_kernels import check
from click.testing import CliRunner
from situations import arrive, wait
from situations_tensor import AFTER, COPY, DONE, MULTIPLY, lanes, ld, mma, st, tensor
from support.kernels import module

from convc.cli.main import main
from convc.ir.findings import Finding, Verdict, grouped
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam, dump_launch
from convc.report.sarif import sarif
from convc.sanitizer.levels import levelled

HEAD = """.reg .b32 %t, %v, %w, %c; .reg .b64 %d; .reg .pred %p;
mov.u32 %t, %tid.x; mov.u32 %v, tile; mad.lo.u32 %w, %t, 4, %v; mul.wide.u32 %d, %t, 4; add.u64 %d, %d, %p_out;
"""
SHARED = ".shared .align 128 .b8 tile[512]; .shared .align 4 .b32 slot;"
STORE = """st.shared.u32 [%w], %t; fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p, %t, 0; @%p bra END;
cp.async.bulk.global.shared::cta.bulk_group [%p_out], [%v], 128; cp.async.bulk.commit_group; WAIT END:"""
LOAD = """setp.ge.u32 %p, %t, 32; @%p bra END;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32; ld.shared.u32 %c, [slot];
tcgen05.st.sync.aligned.32x32b.x1.b32 [%c], {%t}; tcgen05.wait::st.sync.aligned;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%w}, [%c]; WAIT
USE st.global.u32 [%d], %v;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %c, 32; END:"""
ELECT = """elect.sync _|%p, -1; @!%p bra NEXT; st.shared.u32 [%w], %t; NEXT: SYNC
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"""


def of(body: str) -> dict[str, Verdict]:
    return {f.rule: f.verdict for f in check(module(HEAD + body, shared=SHARED), threads=64).findings}


def test_an_exit_before_the_last_copy_is_complete():
    assert of(STORE.replace("WAIT", ""))["exit-before-completion"] is Verdict.rule
    assert of(STORE.replace("WAIT", "cp.async.bulk.wait_group 0;")) == {}


def test_an_aligned_instruction_behind_an_elected_branch():
    assert of(ELECT.replace("SYNC", "")) == {"aligned-after-divergence": Verdict.rule}
    assert of(ELECT.replace("SYNC", "bar.warp.sync -1;")) == {}


def test_a_load_whose_registers_were_used():
    used = LOAD.replace("USE", "add.u32 %v, %w, 1;")
    assert of(used.replace("WAIT", "")) == {
        "register-before-wait": Verdict.review,
        "race-tensor-memory": Verdict.rule,
    }
    assert of(used.replace("WAIT", "tcgen05.wait::ld.sync.aligned;")) == {}


def test_a_load_of_which_nobody_has_heard():
    assert of(LOAD.replace("USE", "").replace("WAIT", "")) == {"race-tensor-memory": Verdict.error}


def test_a_product_and_then_a_copy_of_one_thread():
    """The copy overwrites the columns that the product has just written."""
    wrong = tensor(mma() + COPY.replace("%e", "%d") + DONE)
    right = tensor(MULTIPLY + DONE + COPY.replace("%e", "%d").replace("[%b+0]", "[%b+8]") + wait(1) + AFTER)
    (found,) = check(wrong, threads=32).findings
    assert (found.rule, found.verdict) == ("race-tensor-memory", Verdict.rule)
    assert "; one thread issues both; PTX manual, tcgen05 pipelined instructions: " in found.message
    assert check(right, threads=32).findings == ()


def test_a_fence_of_tensor_memory_that_is_missing_is_for_review():
    text = lanes(st() + arrive(1), wait(1) + ld())
    assert {(f.rule, f.verdict) for f in check(text, threads=160).findings} == {("race-tensor-memory", Verdict.review)}


def one(rule: str, verdict: Verdict = Verdict.rule, line: int = 1, message: str = "m") -> Finding:
    return Finding(verdict=verdict, rule=rule, message=message, line=line, file="k.ptx")


def test_where_a_run_went_wrong_they_are_errors():
    breach = one("aligned-after-divergence")
    (kept,) = levelled([breach])
    assert (kept.verdict, kept.message.startswith("m; PTX manual, .aligned: ")) == (Verdict.rule, True)
    wrong = levelled([breach, one("completion-order", Verdict.error)])
    assert [finding.verdict for finding in wrong] == [Verdict.error, Verdict.error]


def test_findings_of_one_cause_are_one_group():
    findings = [
        *(one("race", line=n, message=f"%r{n} of line {n} is not ordered after CTA {n}") for n in (3, 5, 9)),
        one("race", line=4, message="another cause"),
        one("race", Verdict.error, 7, "%r1 of line 7 is not ordered after CTA 0"),
    ]
    groups = grouped(findings)
    assert [(group.count, group.lines, group.example.line) for group in groups] == [
        (3, (3, 5, 9), 3), (1, (4,), 4), (1, (7,), 7),
    ]  # fmt: skip
    results = sarif(findings)["runs"][0]["results"]
    assert [(result["level"], result["occurrenceCount"]) for result in results] == [
        ("warning", 3), ("warning", 1), ("error", 1),
    ]  # fmt: skip


def test_the_exit_code_says_the_level(tmp_path):
    text = module(HEAD + ELECT.replace("SYNC", ""), shared=SHARED)
    (tmp_path / "k.ptx").write_text(text)
    launch = LaunchSpec(
        entry="k",
        grid=(1, 1, 1),
        block=(64, 1, 1),
        buffers={"out": BufferSpec(dtype="u32", shape=(64,))},
        params=(PointerParam(buffer="out"),),
    )
    (tmp_path / "k.json").write_bytes(dump_launch(launch))
    run = [str(tmp_path / name) for name in ("k.ptx", "k.json")]
    assert CliRunner().invoke(main, ["exec", *run, "--check"]).exit_code == 0
    strict = CliRunner().invoke(main, ["exec", *run, "--check", "--strict"])
    assert strict.exit_code == 1
    assert "k: rule, " in strict.output
