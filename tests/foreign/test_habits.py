"""What kernels of CUTLASS and of the CuTe DSL do that the manual forbids is no error, and one line with its sentence.

Those kernels come with other licences and are not here. Our own kernels of each kind they have are given their habits,
by changes of the text: nothing brings the lanes together behind an elected thread, a CTA leaves before its last store
is complete, a tcgen05.ld has no wait (the assembler waits), all lanes of a warp issue a tensor store, the CTA of a
declined request is read.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from attention import attention, problem

from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.findings import Verdict, grouped
from convc.ir.launch import load_launch
from convc.sanitizer.run import Checked, check_kernel

GOLDEN = Path(__file__).parents[1] / "golden"
KINDS = {
    "dense": "tensor_store_f16",
    "persistent": "persistent_f16",
    "dynamic": "dynamic_f16",
    "block-scaled": "scaled_nvfp4",
    "pair": "pair_f16",
    "cluster": "multicast_f16",
    "implicit GEMM": "same_3x3_f16",
    "split K": "split_k_f16",
}
STEP = r"(?s:(?!//@ step=).)*?"
HABITS = {
    "lanes stay apart": (r"(\w+_idle:\s*)bar\.warp\.sync 0xffffffff;", r"\1"),
    "a store is not waited for": (
        rf"(//@ step=epilogue\.drain{STEP})cp\.async\.bulk\.wait_group(?:\.read)? 0;", r"\1",
    ),
    "a load is not waited for": (r"tcgen05\.wait::ld\.sync\.aligned;", ""),
    "a warp stores": (
        r"elect\.sync _\|%one, 0xffffffff;(\s*)@%one (cp\S*\.tensor\.\dd\.global(?s:.)*?)@%one (cp\.\S*commit)",
        r"\1\2\3",
    ),
    "a declined request is read": (r"@%granted (clusterlaunchcontrol\.query_cancel\.get)", r"\1"),
}  # fmt: skip
RULES = {
    "lanes stay apart": set(),
    "a store is not waited for": {"exit-before-completion"},
    "a load is not waited for": {"race-tensor-memory"},
    "a warp stores": set(),
    "a declined request is read": set(),
}
"""What each breaks. Behind the elected threads of our kernels stand barriers, which bring lanes together."""

MANUAL = re.compile(r"; PTX manual, [^:]+(?:::\w+)?: [^;]{20,}$")


def checked(kind: str, *habits: str) -> Checked | None:
    """A kernel with habits; None where it has no place for one."""
    folder = GOLDEN / KINDS[kind]
    launch = load_launch(folder / "launch.json")
    text = (folder / "kernel.ptx").read_text(encoding="utf-8")
    done = 0
    for habit in habits:
        text, count = re.subn(*HABITS[habit], text)
        done += bool(count)
    rng = np.random.default_rng(5)
    inputs = {
        name: rng.integers(0, 4, spec.shape).astype(ARRAY_TYPES[spec.dtype]) for name, spec in launch.buffers.items()
    }
    return check_kernel(text, launch, inputs) if done else None


def sound(found: Checked, rules: set[str]) -> None:
    """Nothing is wrong; each of these rules is broken, a line with the manual's sentence each."""
    assert found.verdict <= Verdict.rule, [str(finding) for finding in found.findings]
    groups = [group for group in grouped(found.findings) if group.example.verdict is Verdict.rule]
    assert {group.example.rule for group in groups} == rules
    assert len(groups) <= 2 * len(rules)
    for group in groups:
        assert MANUAL.search(group.example.message), group.example.message


@pytest.mark.one_of(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_with_all_habits_has_no_error(kind):
    text = (GOLDEN / KINDS[kind] / "kernel.ptx").read_text(encoding="utf-8")
    there = [habit for habit, (pattern, _) in HABITS.items() if re.search(pattern, text)]
    found = checked(kind, *HABITS)
    assert found is not None
    sound(found, set().union(*(RULES[habit] for habit in there)))


@pytest.mark.parametrize("habit", HABITS)
def test_a_habit_breaks_its_rule(habit):
    for kind in ("dynamic", "dense"):
        found = checked(kind, habit)
        if found is not None:
            sound(found, RULES[habit])
            return
    raise AssertionError(habit)


@pytest.mark.parametrize(
    ("habits", "rules"),
    [
        ({}, set()),
        ({"together": ""}, {"aligned-after-divergence"}),
        ({"loaded": ""}, {"race-tensor-memory"}),
        ({"together": "", "loaded": ""}, {"aligned-after-divergence", "race-tensor-memory"}),
    ],
)
def test_attention(habits, rules):
    launch, inputs, want = problem()
    found = check_kernel(attention(**habits), launch, inputs)
    sound(found, rules)
    # Weights are rounded to f16, 2^-11 of values below 4; exponentials and sums are finer.
    np.testing.assert_allclose(found.result.buffers["out"], want, atol=4 * 2.0**-11)
