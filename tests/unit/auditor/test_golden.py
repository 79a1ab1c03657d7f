"""Our golden kernels keep all rules; each with one mistake does not, and the audit says which."""

from __future__ import annotations

import pytest
from mistakes import GOLDEN, MISTAKES

from convc.auditor.run import audit_kernel
from convc.ir.launch import load_launch

KERNELS = sorted(path.parent.name for path in GOLDEN.glob("*/launch.json"))


def audited(name: str, text: str):
    launch = load_launch(GOLDEN / name / "launch.json")
    return audit_kernel(text, launch, f"{name}/kernel.ptx")


@pytest.mark.parametrize("name", KERNELS)
def test_a_golden_kernel_is_clean_and_understood(name):
    found = audited(name, (GOLDEN / name / "kernel.ptx").read_text())
    assert [str(finding) for finding in found.findings] == []
    assert found.unclear == ()
    places = {looked.rule: looked.places for looked in found.looked}
    assert places["transaction-bytes"] >= 2
    assert places["matrix-descriptor"] >= 1
    assert places["launch-limits"] >= 4


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name):
    mistake = MISTAKES[name]
    found = audited(mistake.kernel, mistake.text())
    assert {finding.rule for finding in found.findings} & set(mistake.rules), [str(f) for f in found.findings]
    assert all(finding.message.endswith("]") for finding in found.findings), "each names the source of its rule"
