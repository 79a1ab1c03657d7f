"""Break one thing in a shipped kernel and demand that somebody notices: a checker, the machine, or a wrong result.

Every synchronising instruction is removed (a wait is made to pass at once), and every number in the text of a role
(byte counts, arrival counts, phases, columns, descriptors, offsets, loop counts, coordinates) is changed by one step.
Changes that survive are listed with the reason why they are harmless, and must stay few.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from convc.check.kernel import check_kernel
from convc.compiler import compile_problem
from convc.errors import ConvcError
from convc.findings import Verdict
from convc.kernels import layer_of
from convc.problem import ConvProblem
from convc.runtime.session import input_buffers
from convc.verify.data import integer_data

PROBLEMS = {
    "conv3x3_f16": ConvProblem(
        in_channels=128, out_channels=64, in_extent=(12, 12), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1), bias=True
    ),
    "conv2x2_tf32": ConvProblem(
        batch=3, in_channels=64, out_channels=40, in_extent=(12, 14), kernel=(2, 2), stride=(2, 1), operand="tf32",
        out="f32", bias=True,
    ),
}  # fmt: skip

REMOVED = re.compile(
    r"mbarrier\.(init|arrive)\S* |tcgen05\.(fence|wait|commit|alloc|dealloc|relinquish)|bar\.sync|bar\.warp|fence\.|"
    r"cp\.async|tcgen05\.mma|tcgen05\.ld"
)
WAIT = re.compile(r"mbarrier\.try_wait\.parity\S* (%\w+), .*;")
NUMBER = re.compile(r"(?<![\w%.:])\d+(?![\w.:])")
"""Any whole number of an instruction."""
STEPS = [
    (re.compile(r"expect_tx"), 16),
    (re.compile(r"\[%(bar|smem|slot)\+\d+\]"), 8),
    (re.compile(r"\[%to\+\d+\]|\[%from\+\d+\]"), 16),
    (re.compile(r"mov\.b32 %shape"), 1 << 17),
]
"""By how much to change the numbers of an instruction that matches; others by one."""

INDEX = re.compile(r"%tile_m, |div\.u32|rem\.u32")
"""Arithmetic of start coordinates, proved elsewhere: of the few tiles here a wrong number may hit the right ones."""

HARMLESS = {
    "relinquish_alloc_permit": "it only lets another CTA of the SM allocate; nothing in this CTA depends on it",
    "tcgen05.fence::before_thread_sync; @start": "nothing but the allocation, which is synchronous, comes before it",
    "tcgen05.fence::after_thread_sync; @start": "roles that use tensor memory have a fence of their own behind a wait",
    "tcgen05.fence::after_thread_sync; @mma": "the wait is for tensor copies, which are no tcgen05 operations",
}
"""What may survive: the text (and the role, behind @), and why."""

EQUIVALENT = {
    "0 +1 bar.sync 0;": "all warps meet at one barrier, whatever its number",
    "setp.ne.u32 %skip, %warp,": "another warp does the work of this role just as well",
    "+1 mad.lo.u32 %word, %stage,": "addresses count in units of 16 bytes",
    "setp.lt.and.s32 %in, %k,": "pieces of 16 bytes begin at multiples of 4 channels",
}
"""Changes that make another kernel which does the same; they say nothing about the checkers, and do not count."""


@cache
def kernel(name: str):
    """(text, launch, buffers, output of the right kernel)."""
    problem = PROBLEMS[name]
    x, weight, bias = integer_data(problem, 7)
    layer = layer_of(problem, compile_problem(problem, stages=2), weight, bias)
    buffers = input_buffers(layer, x)
    checked = check_kernel(layer.ptx, layer.launch, buffers)
    assert checked.verdict is Verdict.clean, checked.findings
    return layer.ptx, layer.launch, buffers, checked.result.buffers["output"].copy()


def changes(text: str) -> Iterator[tuple[str, str]]:
    """(name, changed text) for everything that can be broken."""
    lines = text.split("\n")
    role = ""
    for at, line in enumerate(lines):
        mark = re.match(r"\s*//@ step=\S+ role=(\w+)", line)
        role = mark.group(1) if mark else role
        where = f"{at + 1}: {line.strip()} @{role}"

        def with_line(new: str, at: int = at) -> str:
            return "\n".join([*lines[:at], new, *lines[at + 1 :]])

        if REMOVED.search(line) and not line.strip().startswith("//"):
            count = next(i for i in range(1, 40) if ";" in lines[at + i - 1].split("//")[0])  # lines it takes
            yield f"without {where}", "\n".join([*lines[:at], *[""] * count, *lines[at + count :]])
        if wait := WAIT.search(line):
            yield f"passing {where}", with_line(line.replace(wait.group(0), f"setp.eq.u32 {wait.group(1)}, 0, 0;"))
        code = line.split("//")[0]
        if role and ";" in code and not code.strip().startswith(".") and not INDEX.search(code):
            step = next((size for pattern, size in STEPS if pattern.search(code)), 1)
            for found in NUMBER.finditer(code):
                number = int(found.group())
                for new in (number + step, number - step):
                    text = line[: found.start()] + str(new) + line[found.end() :]
                    yield f"{number} {new - number:+d} in {where}", with_line(text)
        if "xor.b32 %phase" in line:
            yield f"phase never turns in {where}", with_line("")


def caught(name: str, text: str) -> bool:
    """Whether anything is noticed: an error, a finding, or another output."""
    _, launch, buffers, right = kernel(name)
    try:
        checked = check_kernel(text, launch, buffers)
    except ConvcError:
        return True
    if checked.verdict >= Verdict.review or checked.result is None:
        return True
    got = checked.result.buffers["output"]
    return not np.array_equal(got.view(np.uint8), right.view(np.uint8))


def listed(change: str, table: dict[str, str]) -> bool:
    return any(all(part in change for part in known.split(" ")) for known in table)


@pytest.mark.parametrize("name", PROBLEMS)
def test_one_change_is_noticed(name):
    text = kernel(name)[0]
    survivors, total = [], 0
    for change, broken in changes(text):
        noticed = caught(name, broken)
        if not noticed and listed(change, EQUIVALENT):
            continue
        total += 1
        if not noticed:
            survivors.append(change)
    unknown = [s for s in survivors if not listed(s, HARMLESS)]
    assert not unknown, "\n".join(unknown)
    assert total >= 200
    assert len(survivors) <= 0.02 * total, f"{len(survivors)} of {total}: " + "\n".join(survivors)
