"""Lines of source: what ``.loc`` says, of functions put in place of their calls too."""

from __future__ import annotations

from convc.foreign.source_lines import SourceLines, with_source
from convc.ir.findings import Finding, Site, Verdict

TEXT = """.version 8.6
.loc 1 8 0
mov.u32 %r1, %tid.x;
.loc 1 12 34
.loc 2 314 12, function_name $L__info_string0, inlined_at 1 6 12 // standard.py:314:12
.loc 2 287 12, function_name $L__info_string0, inlined_at 2 314 12
add.f32 %r1, %r2, %r3;
.loc 1 0 5
add.f32 %r2, %r2, %r3;
.loc 3 260 15 // core.py:260:15 @[ core.py:300:3 @[ kernel.py:13:45 ] ]
add.f32 %r2, %r2, %r3;
.file 1 "/home/me/kernel.py"
.file 2 "/lib/triton/language/standard.py"
.file 3 "/lib" "triton/language/core.py"
"""


def test_lines_of_the_program():
    lines = SourceLines(TEXT)
    found = [str(each) if (each := lines.at(line)) else None for line in (1, 3, 7, 9, 11)]
    # Functions of Triton stand for the line that called them; line 0 is nobody's.
    assert found == [None, "kernel.py:8", "kernel.py:6", "kernel.py:6", "kernel.py:13"]


def test_a_text_without_lines():
    assert SourceLines("add.f32 %r1, %r2, %r3;").at(1) is None


def test_findings_stand_at_their_lines():
    finding = Finding(
        verdict=Verdict.error,
        rule="race-shared-memory",
        message="write by warp 0 (st, line 3) is not ordered after read by warp 1 (ld, line 7)",
        line=3,
        other=Site(line=7),
    )
    plain = Finding(verdict=Verdict.error, rule="hang", message="nothing goes on")
    placed, whole = with_source([finding, plain], TEXT, "cache/kernel.ptx")
    assert (placed.file, placed.line) == ("/home/me/kernel.py", 8)
    assert placed.other is not None
    assert (placed.other.file, placed.other.line) == ("/home/me/kernel.py", 6)
    assert placed.message == (
        "write by warp 0 (st, kernel.py:8, PTX line 3) is not ordered after read by warp 1 "
        "(ld, kernel.py:6, PTX line 7)"
    )
    assert (whole.file, whole.line) == ("cache/kernel.ptx", 0)


def test_a_message_without_lines_gets_that_of_the_text():
    finding = Finding(verdict=Verdict.review, rule="x", message="something", line=11)
    (placed,) = with_source([finding], TEXT, "kernel.ptx")
    assert placed.message == "something [PTX line 11]"
