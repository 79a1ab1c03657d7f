"""Our golden kernels keep all rules; each with one mistake does not, and the audit says which, as `check` does."""

from __future__ import annotations

import re

import numpy as np
import pytest
from mistakes import GOLDEN, MISTAKES

from convc.auditor.run import audit_kernel
from convc.errors import ConvcError
from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.launch import load_launch
from convc.sanitizer.run import check_kernel

KERNELS = sorted(path.parent.name for path in GOLDEN.glob("*/launch.json"))


def audited(name: str, text: str):
    launch = load_launch(GOLDEN / name / "launch.json")
    return audit_kernel(text, launch, f"{name}/kernel.ptx")


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", KERNELS)
def test_a_golden_kernel_is_clean_and_understood(name, golden):
    """And looked at: each rule at so many places, so many times on the way."""
    found = audited(name, (GOLDEN / name / "kernel.ptx").read_text())
    assert [str(finding) for finding in found.findings] == []
    assert found.unclear == ()
    places = {looked.rule: looked.places for looked in found.looked}
    assert places["transaction-bytes"] >= 2
    assert places["matrix-descriptor"] >= 1
    assert places["launch-limits"] >= 4
    said = [f"{looked.rule} {looked.places} {looked.times}\n" for looked in found.looked]
    golden("audits", {f"{name}.looked.txt": "".join(said)})


def without_lines(said: str) -> str:
    """Words without numbers of lines, which move whenever a kernel has one more."""
    said = re.sub(r"(line )\d+", r"\1N", said.partition(".ptx:")[2].partition(": ")[2])
    return re.sub(r"lines [\d, ]*\d", lambda lines: f"{lines[0].count(',') + 1} lines", said)


@pytest.mark.parametrize("kernel", sorted({mistake.kernel for mistake in MISTAKES.values()}))
def test_a_mistake_is_found_and_told_where_it_is(kernel, golden):
    """By its rule; CTA, warp, step and numbers of each accusation are what was read once."""
    said: list[str] = []
    for name, mistake in MISTAKES.items():
        if mistake.kernel != kernel:
            continue
        found = audited(kernel, mistake.text())
        assert {finding.rule for finding in found.findings} & set(mistake.rules), [str(f) for f in found.findings]
        assert all(finding.message.endswith("]") for finding in found.findings), "each names the source of its rule"
        unclear = [f"{each.warps} warps: {each.reason}" for each in found.unclear]
        said += [f"# {name}", *(without_lines(str(finding)) for finding in found.findings), *unclear, ""]
    golden("audits", {f"{kernel}.txt": "\n".join(said)})


@pytest.mark.one_of(12)
@pytest.mark.parametrize("name", MISTAKES)
def test_check_finds_it_too(name):
    mistake = MISTAKES[name]
    launch = load_launch(GOLDEN / mistake.kernel / "launch.json")
    rng = np.random.default_rng(0)
    buffers = {
        buffer: rng.integers(0, 3, spec.shape).astype(ARRAY_TYPES[spec.dtype])
        for buffer, spec in launch.buffers.items()
        if buffer != "output"
    }
    try:
        found = bool(check_kernel(mistake.text(), launch, buffers).findings)
    except ConvcError:
        found = True
    assert found
