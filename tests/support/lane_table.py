"""What ptxas makes of a bulk or tensor instruction that a whole warp executes: a table in docs/fidelity.md.

Every form is assembled twice, with operands that lanes have in common and with others, for sm_90a and sm_100a, and its
machine code read. Three kinds are told apart by the code around the instruction:

* *once*: there is no loop;
* *each operand*: a loop that takes one lane's operands (R2UR with a predicate), and all lanes with the same along;
* *each lane*: a loop that elects one lane at a time (ELECT).

``python -m tests.support.lane_table --write`` makes it anew; without ``--write`` it says whether it is up to date.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

from convc.support.nvdisasm import disassemble
from convc.support.ptxas import assemble

PAGE = Path(__file__).resolve().parents[2] / "convc/docs/fidelity.md"
BEGIN, END = "<!-- lanes: begin (generated) -->", "<!-- lanes: end -->"
TARGETS = ("sm_90a", "sm_100a")


class Form(NamedTuple):
    """An instruction as it is assembled; ``since``: the first of the targets that has it."""

    head: str
    operands: str
    since: str = "sm_90a"


LOAD = "cp.async.bulk.tensor.{}d.shared::cluster.global.{}.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.tensor.{}d.global.shared::cta.{}.bulk_group"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster"
CANCEL = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
FORMS = [
    Form("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes", "[%a], [%d], 128, [%b]"),
    Form("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", "[%a], [%d], 128, [%b]"),
    Form(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster",
        "[%a], [%d], 128, [%b], %h",
    ),
    Form("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes", "[%a], [%b], 128, [%b]"),
    Form("cp.async.bulk.global.shared::cta.bulk_group", "[%d], [%a], 128"),
    Form("cp.async.bulk.global.shared::cta.bulk_group.cp_mask", "[%d], [%a], 128, %h", "sm_100a"),
    Form(
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32",
        "[%a], [%b], 128, [%b]",
    ),
    Form("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32", "[%d], [%a], 128"),
    Form("cp.async.bulk.prefetch.L2.global", "[%d], 128"),
    Form(LOAD.format(2, "tile"), "[%a], [%m, {%c, 0}], [%b]"),
    Form(LOAD.format(2, "tile") + ".multicast::cluster", "[%a], [%m, {%c, 0}], [%b], %h"),
    Form(LOAD.format(2, "tile") + ".cta_group::2", "[%a], [%m, {%c, 0}], [%b]", "sm_100a"),
    Form(LOAD.format(4, "im2col"), "[%a], [%m, {%c, 0, 0, 0}], [%b], {%h, %h}"),
    Form(LOAD.format(4, "im2col::w"), "[%a], [%m, {%c, 0, 0, 0}], [%b], {%h, %h}", "sm_100a"),
    Form(LOAD.format(4, "im2col::w::128"), "[%a], [%m, {%c, 0, 0, 0}], [%b], {%h, %h}", "sm_100a"),
    Form(LOAD.format(2, "tile::gather4"), "[%a], [%m, {%c, 0, 0, 0, 0}], [%b]", "sm_100a"),
    Form(STORE.format(2, "tile"), "[%m, {%c, 0}], [%a]"),
    Form(STORE.format(4, "im2col_no_offs"), "[%m, {%c, 0, 0, 0}], [%a]"),
    Form(STORE.format(2, "tile::scatter4"), "[%m, {%c, 0, 0, 0, 0}], [%a]", "sm_100a"),
    Form("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group", "[%m, {%c, 0}], [%a]"),
    Form(
        "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.im2col_no_offs.bulk_group", "[%m, {%c, 0, 0, 0}], [%a]"
    ),
    Form("cp.async.bulk.prefetch.tensor.2d.L2.global.tile", "[%m, {%c, 0}]"),
    Form("cp.async.bulk.prefetch.tensor.4d.L2.global.im2col", "[%m, {%c, 0, 0, 0}], {%h, %h}"),
    Form("cp.async.bulk.prefetch.tensor.4d.L2.global.im2col::w", "[%m, {%c, 0, 0, 0}], {%h, %h}", "sm_100a"),
    Form("cp.async.bulk.prefetch.tensor.4d.L2.global.im2col::w::128", "[%m, {%c, 0, 0, 0}], {%h, %h}", "sm_100a"),
    Form("cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4", "[%m, {%c, 0, 0, 0, 0}]", "sm_100a"),
    Form("cp.async.bulk.commit_group", ""),
    Form("cp.async.bulk.wait_group", "0"),
    Form("cp.async.bulk.wait_group.read", "0"),
    Form("prefetch.tensormap", "[%d]"),
    Form("st.bulk.weak.shared::cta", "[%a], %d, 0", "sm_100a"),
    Form(CANCEL + ".b128", "[%a], [%b]", "sm_100a"),
    Form(CANCEL + ".multicast::cluster::all.b128", "[%a], [%b]", "sm_100a"),
    Form(COMMIT + ".b64", "[%b]", "sm_100a"),
    Form(COMMIT + ".multicast::cluster.b64", "[%b], %h", "sm_100a"),
    Form(COMMIT.replace("::1", "::2", 1) + ".b64", "[%b]", "sm_100a"),
    Form("tcgen05.cp.cta_group::1.128x256b", "[%c], %d", "sm_100a"),
    Form("tcgen05.cp.cta_group::1.4x256b", "[%c], %d", "sm_100a"),
    Form("tcgen05.cp.cta_group::1.32x128b.warpx4", "[%c], %d", "sm_100a"),
    Form("tcgen05.cp.cta_group::2.64x128b.warpx2::02_13", "[%c], %d", "sm_100a"),
    Form("tcgen05.shift.cta_group::1.down", "[%c]", "sm_100a"),
    Form("tcgen05.mma.cta_group::1.kind::f16", "[%c], %d, %d, %c, %p", "sm_100a"),
    Form("tcgen05.mma.cta_group::2.kind::f16", "[%c], %d, %d, %c, %p", "sm_100a"),
    Form("tcgen05.mma.cta_group::1.kind::f16.ashift.collector::a::lastuse", "[%c], [%c], %d, %c, %p", "sm_100a"),
    Form("tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale", "[%c], %d, %d, %c, [%c], [%c], %p", "sm_100a"),
    Form("tcgen05.mma.ws.cta_group::1.kind::f16", "[%c], %d, %d, %c, %p", "sm_100a"),
    Form("tcgen05.mma.sp.cta_group::1.kind::f16", "[%c], %d, %d, [%c], %c, %p", "sm_100a"),
    Form("tcgen05.mma.sp.cta_group::1.kind::mxf8f6f4.block_scale", "[%c], %d, %d, [%c], %c, [%c], [%c], %p", "sm_100a"),
    Form("tcgen05.mma.ws.sp.cta_group::1.kind::f16", "[%c], %d, %d, [%c], %c, %p", "sm_100a"),
]

ENTRY = """.visible .entry {name}(.param .align 64 .b8 map[128], .param .u64 g)
{{
.reg .b32 %t, %a, %b, %c; .reg .b64 %g, %m, %d; .reg .b16 %h; .reg .pred %p;
mov.u32 %t, {thread}; ld.param.u64 %g, [g]; mov.u64 %m, map; cvta.param.u64 %m, %m;
mov.u32 %a, s; mad.lo.u32 %a, %t, 128, %a; mov.u32 %b, s; mad.lo.u32 %b, %t, 8, %b; mov.u32 %c, %t;
mul.wide.u32 %d, %t, 128; add.u64 %d, %d, %g; mov.b16 %h, 3; setp.ne.u32 %p, %t, 77;
{instruction}
ret;
}}
"""
COMMON, APART = "%ctaid.x", "%tid.x"
"""What the operands are made of: the same in all lanes, or another in each."""

ISSUES = re.compile(r"\b(UTMA\w+|UBLK\w+|UGETNEXT\w+|UTC\w+|DEPBAR|UMEMSETS|STS\w*BULK\w*)\S*")
WORD = re.compile(r"/\*[0-9a-f]{4}\*/\s+(.*?)\s*;")


class Made(NamedTuple):
    """What one target makes of a form: the instruction, and the kind for operands in common and apart."""

    instruction: str
    common: str
    apart: str


def _kind(lines: list[str]) -> str:
    """Which of the three kinds machine code is."""
    if not any(".ANY" in line and "BRA" in line for line in lines):
        return "once"
    return "each lane" if any(" ELECT " in f" {line} " for line in lines) else "each operand"


@cache
def made(target: str) -> dict[str, Made]:
    """What a target makes of every form that it has, by the form's head."""
    here = [form for form in FORMS if TARGETS.index(form.since) <= TARGETS.index(target)]
    text = f".version 9.0\n.target {target}\n.address_size 64\n.extern .shared .align 1024 .b8 s[];\n"
    for number, form in enumerate(here):
        for kind, thread in (("common", COMMON), ("apart", APART)):
            instruction = f"{form.head} {form.operands};".replace(" ;", ";")
            text += ENTRY.format(name=f"{kind}_{number}", thread=thread, instruction=instruction)
    code: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in disassemble(assemble(text, target, lines=True).cubin).splitlines():
        if found := re.match(r"\.text\.(\w+):", line.strip()):
            lines = code.setdefault(found[1], [])
        elif found := WORD.search(line):
            lines.append(found[1])
    result: dict[str, Made] = {}
    for number, form in enumerate(here):
        common, apart = code[f"common_{number}"], code[f"apart_{number}"]
        named = [found[0] for line in apart if (found := ISSUES.search(line))]
        result[form.head] = Made(named[0] if named else "-", _kind(common), _kind(apart))
    return result


def table() -> str:
    """The table, in Markdown."""
    rows = ["| form | machine code | lanes with the same operands | with others |", "| --- | --- | --- | --- |"]
    tables = [made(target) for target in TARGETS]
    for form in FORMS:
        known = [each[form.head] for each in tables if form.head in each]
        columns = [" / ".join(dict.fromkeys(values)) for values in zip(*known, strict=True)]
        only = " (sm_100a)" if len(known) < len(TARGETS) else ""
        rows.append(f"| `{form.head}`{only} | {columns[0]} | {columns[1]} | {columns[2]} |")
    return "\n".join(rows)


def page() -> str:
    """The page with the table as it is now."""
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}"


def main(arguments: list[str]) -> int:
    """Write the table, or say whether it is out of date."""
    stale = page() != PAGE.read_text("utf-8")
    if stale and "--write" in arguments:
        PAGE.write_text(page(), "utf-8")
    print("out of date" if stale else "as stored")
    return 1 if stale and "--write" not in arguments else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
