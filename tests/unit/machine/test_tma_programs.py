"""Asynchronous copies of all kinds, held against recordings of a real GPU (tests/recordings/copies_h200.npz).

The simulator executes the very PTX text that the GPU executed, and must leave the same bytes in every buffer.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from tma_programs import COMPLETED, Recording, execute_program, recordings

from convc.errors import MachineFault
from convc.machine import RunOptions

ILLEGAL_INSTRUCTION, MISALIGNED, LAUNCH_FAILURE = -715, -716, -719
WORDING = {
    ILLEGAL_INSTRUCTION: "negative coordinate|exceeds the image|no asynchronous reduction|multiple of 16 bytes",
    MISALIGNED: "multiple of 128|multiple of 16|multiple of 8|not aligned to 8",
    LAUNCH_FAILURE: "multicast mask",
}
GROUPS = {
    "tensor stores": (r"store", 243),
    "every reduction of every type": (r"reduce \w+ \w+$", 104),
    "random reductions": (r"random reduce ", 60),
    "bulk reductions and copies": (r"bulk (reduce|copy)", 30),
    "loads of converted types": (r"load \w+ \d$", 12),
    "cp.async": (r"cp\.async (ca|cg)", 48),
    "maps made by the kernel": (r"made map", 13),
    "misaligned operands": (r"(bulk|cp\.async|map) fault", 14),
}
CLUSTERS = (
    r"(fault: )?multicast|fault: barrier|bulk multicast|load into the peer|copy to the peer|reduce \S+ to the peer"
)
STRICTER = {
    "bulk fault: size": "the size must be a multiple of 16",
    "fault: multicast to 0x0 of two": "multicast mask 0x0",
    "fault: barrier in the peer": "they must be in the same CTA",
}
"""Faults of ours where the GPU went on: it copies 64 of 72 bytes, nothing to nobody, and signals some barrier."""


def named(pattern: str) -> list[Recording]:
    return [each for each in recordings() if re.match(pattern, each.name)]


def differs(each: Recording, **options) -> list[str]:
    """Buffers that the simulator leaves different; the bytes of a tensor map are our own encoding."""
    result = execute_program(each.program, options=RunOptions(**options))
    assert result.findings == ()
    ours = {name: data for name, data in each.after.items() if name != "desc"}
    return [name for name, data in ours.items() if not np.array_equal(result.buffers[name], data)]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("group", GROUPS)
def test_every_program_leaves_the_recorded_bytes_or_faults(group):
    pattern, count = GROUPS[group]
    chosen = named(pattern)
    assert len(chosen) == count
    for each in chosen:
        if each.name in STRICTER:
            with pytest.raises(MachineFault, match=STRICTER[each.name]):
                execute_program(each.program)
        elif each.status == COMPLETED:
            assert differs(each) == [], each.name
        else:
            with pytest.raises(MachineFault, match=WORDING[each.status]):
                execute_program(each.program)


def test_most_recorded_stores_are_no_faults():
    status = Counter(each.status for each in named(r"store \d|random reduce"))
    assert status[COMPLETED] > 250
    assert status[ILLEGAL_INSTRUCTION] > 20


def test_clusters():
    """Multicast, copies to a peer, barriers in a peer."""
    chosen = named(CLUSTERS)
    assert len(chosen) == 31
    for each in chosen:
        if each.name in STRICTER or each.status != COMPLETED:
            with pytest.raises(MachineFault, match=STRICTER.get(each.name) or WORDING[each.status]):
                execute_program(each.program)
        else:
            assert differs(each) == [], each.name


@pytest.mark.parametrize(
    ("policy", "seed", "every"),
    [
        ("late", 0, slice(0, None, 2)),
        ("seeded", 1, slice(1, None, 2)),
        pytest.param("late", 0, slice(None), marks=pytest.mark.slow),
        pytest.param("seeded", 1, slice(None), marks=pytest.mark.slow),
        pytest.param("seeded", 2, slice(None), marks=pytest.mark.slow),
    ],
)
def test_no_program_depends_on_when_its_copies_are_performed(policy, seed, every):
    """All of them wait for what they issue: the hardware was always right."""
    chosen = named("|".join([*(pattern for pattern, _ in GROUPS.values()), CLUSTERS]))
    right = [each for each in chosen if each.status == COMPLETED and each.name not in STRICTER]
    assert len(right) == 439
    assert [each.name for each in right[every] if differs(each, policy=policy, seed=seed)] == []
