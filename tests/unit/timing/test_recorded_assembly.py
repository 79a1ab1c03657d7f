"""Roles of kernels of convc, timed from their machine instructions, beside what an H200 measured of them.

What was measured is the text rewritten for sm_90a with notes of the clock around each role; the same text is assembled
here, every statement on the line that it had. The names of the rows that set constants are in ``chips/h200.toml``.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from test_recorded_roles import H200, KERNELS, PAGE, errors, measured, without_mma

from convc.machine import RunOptions, run
from convc.ptx.parser import parse
from convc.timing.assembler import assembled, assembly
from convc.timing.engine import Replay
from convc.timing.recorder import Recorder
from convc.timing.shares import sm_share

LINES = {
    "load_role": "H200, load role, `--sass`",
    "multiply_role_without_mma": "H200, multiply role without its MMAs, `--sass`",
    "store_role_after_wait": "H200, store role, `--sass`",
    "cta_total": "H200, one CTA from its first instruction to its last, `--sass`",
}
SPANS = {
    "load_role": (2, 3),
    "multiply_role_without_mma": (4, 5),
    "store_role_after_wait": (7, 8),
    "cta_total": (0, 9),
}
"""The notes between which a quantity lies."""

WARPS = {2: 4, 3: 4, 4: 5, 5: 5}
"""The warps that make notes; warp 0 makes all others."""


def lines_of(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def note(number: int) -> str:
    return f" mov.u64 %clk{number}, %clock64; st.global.u64 [%prof+{8 * number}], %clk{number};"


def of_thread_0(number: int) -> str:
    return (
        f" {{ .reg .pred %pp; setp.ne.u32 %pp, %thread, 0; mov.u64 %clk{number}, %clock64; "
        f"@!%pp st.global.u64 [%prof+{8 * number}], %clk{number}; }}"
    )


def for_hopper(text: str) -> str:
    """The text without tcgen05, which sm_90a does not have: stages are given back at once, sums are lane numbers."""
    text = text.replace(".target sm_100a", ".target sm_90a")
    gone = r"^\s*tcgen05\.(alloc|relinquish_alloc_permit|dealloc|fence)[^;]*;$|\btcgen05\.(mma|wait|st)\b[^;]*;"
    text = re.sub(gone, lines_of, text, flags=re.M)
    text = re.sub(r"tcgen05\.commit[^\[]*\[([^\]]*)\];", r"mbarrier.arrive.shared::cta.b64 _, [\1];", text)
    text = re.sub(
        r"tcgen05\.ld\.[^\[]*\[[^\]]*\];",
        lambda match: " ".join(f"mov.b32 {r}, %lane;" for r in re.findall(r"%v\d+", match[0])) + lines_of(match),
        text,
    )
    return re.sub(
        r"cp\.async\.bulk\.tensor\.3d\.shared::cta\.global\.im2col::w\.([^\[]*)\[([^\]]*)\], "
        r"\[%map_a, \{([^}]*)\}\], \[([^\]]*)\], \{[^}]*\};",
        r"cp.async.bulk.tensor.3d.shared::cta.global.tile.\1[\2], [%map_a, {\3}], [\4];",
        text,
    )


def with_notes(text: str) -> str:
    """The text with a note of the clock around each role, as it was measured."""
    text = re.sub(r"(    \.param \.u64 out)\n\)", r"\1, .param .u64 prof\n)", text)
    registers = "    .reg .pred %skip;"
    text = text.replace(registers, registers + " .reg .b64 %prof, %clk<12>; .reg .b32 %cta;", 1)
    first = (
        "    mov.u64 %clk0, %clock64; ld.param.u64 %prof, [prof]; cvta.to.global.u64 %prof, %prof; "
        "mov.u32 %cta, %ctaid.y; mov.u32 %tile_m, %nctaid.x; mul.lo.u32 %cta, %cta, %tile_m; "
        "mov.u32 %tile_m, %ctaid.x; add.u32 %cta, %cta, %tile_m; mul.wide.u32 %clk1, %cta, 96; "
        "add.u64 %prof, %prof, %clk1;"
    )
    text = text.replace("    mov.u32 %tile_m, %ctaid.x;", first, 1)
    for role, number in (("load", 2), ("mma", 4)):
        text = text.replace(f"@!%one bra {role}_idle;", f"@!%one bra {role}_idle;{note(number)}", 1)
        text = text.replace(f"    {role}_idle:", f"{note(number + 1)} {role}_idle:", 1)
    start = "    setp.gt.u32 %skip, %warp, 3;\n    @%skip bra epilogue_end;\n    {"
    text = text.replace(start, start + of_thread_0(6), 1)
    text = text.replace("@!%passed bra epilogue_wait_retry;", f"@!%passed bra epilogue_wait_retry;{of_thread_0(7)}", 1)
    at = text.rindex("    }\n", 0, text.index("    epilogue_end:"))
    text = text[:at] + of_thread_0(8) + text[at:]
    at = text.rindex("    ret;")
    kept = " { .reg .pred %pp; setp.ne.u32 %pp, %thread, 0; @!%pp st.global.u64 [%prof+0], %clk0; }"
    return text[:at] + of_thread_0(9) + kept + text[at:]


def roles(name: str) -> dict[str, float]:
    """Cycles between the notes in the replay of a kernel."""
    artifact = KERNELS[name]
    text = with_notes(for_hopper(artifact.ptx))
    notes = {int(k): i for i, line in enumerate(text.splitlines(), 1) for k in re.findall(r"%clk(\d+), %clock64", line)}
    recorder = Recorder()
    run(artifact.ptx, artifact.launch, {}, observer=recorder, options=RunOptions(ctas=(0, 1)))
    starts = {instr.span.line for instr in parse(artifact.ptx).kernels[0].body} | set(notes.values())
    code = assembly(text.replace("sm_100a", "sm_90a"), artifact.launch.entry).code
    replay = Replay(assembled(without_mma(recorder.trace), code, sorted(starts)), H200, sm_share(H200, 1), 1)
    replay.run()
    told = {
        number: next(
            event.start
            for event in replay.events
            if event.line == line and event.name == "CS2R" and event.track == f"warp {WARPS.get(number, 0)}"
        )
        for number, line in notes.items()
    }
    return {quantity: told[end] - told[start] for quantity, (start, end) in SPANS.items()}


def test_a_kernel_is_near_what_was_measured():
    found = errors(("layer3.1.conv2_slide_b1",), roles)
    assert all(error <= 0.08 for [error] in found.values())


@pytest.mark.slow
def test_all_kernels_are_near_what_was_measured():
    names = tuple(measured())
    assert len(names) == 16
    found = errors(names, roles)
    for quantity, line in LINES.items():
        errors_of = found[quantity]
        assert np.mean(errors_of) <= 0.10, quantity
        said = f"| {line} | 16 | {100 * np.mean(errors_of):.1f} % | {100 * max(errors_of):.1f} % |"
        assert said in PAGE, said
