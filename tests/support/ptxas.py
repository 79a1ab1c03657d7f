"""ptxas as a judge of single instructions: many in one module, the refused ones removed until the rest assembles."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from convc.support import ptxas

DECLARATIONS = """\
.version 9.0
.target sm_100a
.address_size 64
.global .b32 gvar;
.const .b32 cvar;
.extern .shared .align 1024 .b8 dynamic[];
.visible .entry judged(.param .u64 pa, .param .u32 pb)
{
  .reg .pred %p<10>; .reg .b8 %c<4>; .reg .b16 %h<20>; .reg .b32 %r<200>; .reg .b64 %rd<20>; .reg .b128 %rq<4>;
  .reg .u16 %uh<4>; .reg .u32 %u<4>; .reg .s32 %s<4>; .reg .u64 %ud<4>; .reg .s64 %sd<4>;
  .reg .f16 %fh<4>; .reg .f16x2 %fx<4>; .reg .f32 %f<20>; .reg .f64 %fd<4>;
  .shared .align 1024 .b8 svar[4096]; .local .align 16 .b8 lvar[64];
  LIST: .branchtargets END, END;
"""
END = "END: ret;\n}\n"
"""A module around statements: one register file with every type, a variable in every space, a label,
a list of branch targets."""


def around(statements: str) -> str:
    """The module around statements, for the target that has them."""
    target = "sm_90a" if "wgmma." in statements else "sm_100a"
    return f"{DECLARATIONS.replace('sm_100a', target)}{statements}\n{END}"


_REFUSED = re.compile(r"line '?(\d+)(?:; (?:error|fatal)\s*: |' )(.*)")


def find_ptxas() -> Path:
    """The assembler; the tests need it (it comes with the package nvidia-cuda-nvcc)."""
    found = ptxas.find_ptxas()
    assert found is not None, "ptxas is missing: pip install 'convc[test]'"
    return found


def assemble_text(text: str, folder: Path) -> tuple[int, str]:
    """Exit status and messages of ptxas for a whole module."""
    # Without optimisation ptxas runs out of registers for the accumulators of one large wgmma.
    target = ("sm_90a", "-O1") if ".target sm_90a" in text else ("sm_100a", "-O0")
    source = folder / "judged.ptx"
    source.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [find_ptxas(), "--gpu-name", *target, "-o", folder / "judged.cubin", source],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def judge(statements: Sequence[str], folder: Path) -> list[str | None]:
    """For each statement None if ptxas takes it, else what it says."""
    verdicts: list[str | None] = [None] * len(statements)
    # One function has one .cta_group, so the two kinds are judged apart; so is mma, which takes many registers, and
    # wgmma, each of which may take half of all that a thread can have.
    pairs = [index for index, text in enumerate(statements) if "tcgen05" in text and "cta_group::2" in text]
    warps = [index for index, text in enumerate(statements) if text.startswith(("mma.", "wmma."))]
    warpgroups = [index for index, text in enumerate(statements) if "wgmma." in text]
    apart = {*pairs, *warps, *warpgroups}
    others = [index for index in range(len(statements)) if index not in apart]
    for indices in (pairs, warps, others, *([index] for index in warpgroups)):
        judge_together(statements, indices, verdicts, folder)
    return verdicts


def judge_together(statements: Sequence[str], indices: list[int], verdicts: list[str | None], folder: Path) -> None:
    """Fill in the verdicts of some statements of one module."""
    first_line = DECLARATIONS.count("\n") + 1
    left = indices
    while left:
        text = around("\n".join(statements[index] for index in left))
        status, said = assemble_text(text, folder)
        if status == 0:
            return
        refused = {}
        for line, message in _REFUSED.findall(said):
            position = int(line) - first_line
            if 0 <= position < len(left):
                refused.setdefault(left[position], message)
        if not refused and len(left) > 1:  # text of ptxas's own that it makes of one of them (`<builtin>`)
            for index in left:
                judge_together(statements, [index], verdicts, folder)
            return
        if not refused:
            verdicts[left[0]] = said.strip()
            return
        for index, message in refused.items():
            verdicts[index] = message
        left = [index for index in left if index not in refused]
