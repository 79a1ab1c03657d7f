"""Hand-written kernels under the checkers: the launch, and what was found in words."""

from __future__ import annotations

import numpy as np

from convc.ir.findings import Finding, Verdict
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam, TensorMapParam
from convc.ir.tensormap import TensorMap
from convc.sanitizer.run import Checked, check_kernel

LEADER = "setp.ne.u32 %skip, %t, 0; @%skip bra {label};"
"""Only thread 0 goes on, up to the label."""

MEET = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"


def check(
    text: str,
    *,
    grid: int = 1,
    cluster: int = 1,
    threads: int = 128,
    size: int = 4096,
    shared: int = 0,
    maps: tuple[TensorMap, ...] = (),
    dependent: tuple[str, ...] = (),
) -> Checked:
    """Check a module of `support.kernels.module` with one buffer ``out`` of ``size`` bytes, which is zero.

    Every finding names the file. `dependent`: buffers that the preceding kernel may still use.
    """
    launch = LaunchSpec(
        entry="k",
        grid=(grid, 1, 1),
        cluster=(cluster, 1, 1),
        block=(threads, 1, 1),
        shared_bytes=shared,
        buffers={"out": BufferSpec(dtype="u32", shape=(size // 4,))},
        params=(*(TensorMapParam(map=m) for m in maps), PointerParam(buffer="out")),
        dependent=dependent,
    )
    checked = check_kernel(text, launch, {"out": np.zeros(size // 4, np.uint32)})
    assert {finding.file for finding in checked.findings} <= {"kernel.ptx"}
    return checked


def rules(checked: Checked) -> set[str]:
    """Names of what was found."""
    return {finding.rule for finding in checked.findings}


def errors(checked: Checked) -> list[Finding]:
    """The errors, without what other completion policies show (the data differ, or a late operation faults)."""
    found = [f for f in checked.findings if f.verdict is Verdict.error and "completion policy" not in f.message]
    assert all(f.rule not in ("fault", "hang") for f in found), [str(f) for f in found]
    return found


def only_error(checked: Checked) -> Finding:
    """The one error."""
    found = errors(checked)
    assert len(found) == 1, [str(f) for f in found]
    return found[0]


def line_of(text: str, part: str) -> int:
    """Number of the one line of a text that has a part."""
    lines = [number for number, line in enumerate(text.splitlines(), 1) if part in line]
    assert len(lines) == 1, lines
    return lines[0]
