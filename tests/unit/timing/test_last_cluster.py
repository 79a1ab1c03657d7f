"""Kernels whose last cluster does what is left for all: it is that which is timed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from convc.ir.launch import load_launch
from convc.ptx.parser import parse
from convc.timing.contents import contents_of, for_the_last
from convc.timing.kernel import time_kernel
from convc.timing.parameters import read_chip

FOLDER = Path(__file__).parents[2] / "golden" / "wgrad_accumulated_f16"
TEXT = (FOLDER / "kernel.ptx").read_text()
LAUNCH = load_launch(FOLDER / "launch.json")
INC = "inc.u32 %before, [%at], 1;"


def test_the_last_cluster_adds_the_sums_of_all():
    timed = time_kernel(TEXT, LAUNCH, {}, read_chip("b200"))
    assert {"add.all", "add.apply_0", "add.write"} <= {part.step for part in timed.parts}
    shape = LAUNCH.buffers["counters"].shape
    given = time_kernel(TEXT, LAUNCH, {"counters": np.ones(shape, np.uint32)}, read_chip("b200"))
    assert timed.launch.cycles == given.launch.cycles


def found(text, counters=0, after=(0, 1)):
    """The counters that a cluster finds, of a kernel that leaves some."""
    contents = contents_of(LAUNCH, {}, "k") | {"counters": np.full(2, counters, np.uint32)}
    left = {"counters": np.array(after, np.uint32), "output": np.ones(2, np.float16)}
    made = for_the_last(parse(text).kernels[0].body, contents, lambda: left)
    assert not made["output"].any()
    return made["counters"].tolist()


@pytest.mark.parametrize(
    ("text", "given", "counters"),
    [
        (TEXT, {}, [1, 1]),
        (TEXT.replace(INC, INC.replace("1", "7")), {}, [7, 7]),
        (TEXT, {"counters": 1, "after": (1, 0)}, [1, 1]),
        (TEXT, {"after": (0, 2)}, [0, 0]),
        (TEXT, {"after": (0, 0)}, [0, 0]),
        (TEXT.replace(INC, INC.replace("inc", "add")), {}, [0, 0]),
        (TEXT.replace(INC, INC.replace("1;", "%warp;")), {}, [0, 0]),
        (TEXT.replace(INC, f"{INC} @%one atom.global.{INC.replace('1', '2')}"), {}, [0, 0]),
    ],
    ids=["golden", "bound", "given", "more than counted", "nothing", "add", "no number", "two bounds"],
)
def test_counters_are_those_that_the_last_finds(text, given, counters):
    assert INC in TEXT
    assert found(text, **given) == counters
