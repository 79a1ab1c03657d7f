"""Kernels and launches that are too large are refused before anything is made for them; and garbage collection."""

from __future__ import annotations

import re
import tracemalloc
import weakref
from pathlib import Path

import numpy as np
import pytest
from support.kernels import module

from convc.errors import DeadlockError, LimitError, MachineFault
from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam, load_launch
from convc.machine import RunOptions, run
from convc.machine.execute import engine
from convc.sanitizer.run import check_kernel
from convc.support.collecting import uncollected

GOLDEN = Path(__file__).parents[2] / "golden" / "tile_order_f16"

NEED = {
    "shared": ".shared .align 16 .b8 big[{}]; .reg .b32 %a; mov.u32 %a, big;",
    "local": ".local .align 16 .b8 big[{}]; .reg .b64 %a; mov.u64 %a, big;",
}


def refused(text: str, *, size: int = 16, block: int = 32, shared: int = 0, memory: int = 64 << 30) -> str:
    """What the simulator says; it must not have taken more than a few MiB by then."""
    launch = LaunchSpec(
        entry="k",
        grid=(4, 1, 1),
        block=(block, 1, 1),
        shared_bytes=shared,
        buffers={"out": BufferSpec(dtype="u8", shape=(size,))},
        params=(PointerParam(buffer="out"),),
    )
    tracemalloc.start()
    try:
        with pytest.raises(LimitError) as caught:
            run(text, launch, {}, options=RunOptions(memory_bytes=memory))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    return caught.value.message


@pytest.mark.parametrize("space", NEED)
def test_variables_that_no_gpu_has_room_for(space):
    found = refused(module(NEED[space].format(1 << 40)))
    assert re.match(rf"the \.{space} variables need {1 << 40} bytes, and there are at most \d+$", found)


@pytest.mark.parametrize(("space", "most"), [("const", 64 << 10), ("global", 64 << 30)])
def test_variables_of_a_module(space, most):
    text = module("").replace(".visible", f".{space} .align 16 .b8 big[{1 << 40}];\n.visible", 1)
    assert refused(text) == f"the .{space} variables need {1 << 40} bytes, and there are at most {most}"


def test_static_and_dynamic_shared_memory_together():
    found = refused(module(NEED["shared"].format(200_000)), shared=100_000)
    assert found == "a CTA needs 300000 bytes of shared memory, and there are at most 232448"


def test_what_this_computer_has_is_not_enough():
    found = refused(module(NEED["local"].format(1 << 19)), block=1024, size=1 << 20, memory=100 << 20)
    total = (1 << 20) + 1024 * (1 << 19) + 1024
    assert found.startswith(f"the launch needs {total} bytes ({1 << 20} for buffers, 0 for .global variables, ")
    assert found.endswith(f"for shared, local and tensor memory of 1 CTAs), and {100 << 20} are available")


def test_the_ctas_of_a_large_grid_are_not_listed():
    """A list of them all would take tens of gigabytes, before the first of them faults."""
    launch = LaunchSpec(
        entry="k",
        grid=((1 << 31) - 1, 1, 1),
        block=(32, 1, 1),
        buffers={"out": BufferSpec(dtype="u8", shape=(16,))},
        params=(PointerParam(buffer="out"),),
    )
    tracemalloc.start()
    try:
        with pytest.raises(MachineFault):
            run(module("trap;"), launch, {})
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("ends", ["well", "watched", "in a hang"])
def test_what_a_launch_needed_is_gone_behind_it_without_a_garbage_collection(ends, monkeypatch):
    """Objects that count as old are hardly ever collected: a circle among them would keep megabytes of each launch."""
    made: list[weakref.ref] = []

    class Watched(engine.Cohort):
        def __init__(self, *arguments) -> None:
            super().__init__(*arguments)
            made.append(weakref.ref(self))
            made.extend(weakref.ref(part) for part in (self.shared, self.tensor))

    monkeypatch.setattr(engine, "Cohort", Watched)
    launch = load_launch(GOLDEN / "launch.json")
    text = (GOLDEN / "kernel.ptx").read_text()
    buffers = {name: np.zeros(spec.shape, ARRAY_TYPES[spec.dtype]) for name, spec in launch.buffers.items()}
    with uncollected():
        if ends == "watched":
            check_kernel(text, launch, buffers)
        elif ends == "well":
            run(text, launch, buffers)
        else:
            with pytest.raises(DeadlockError):
                run(re.sub(r"(mbarrier.init\S+ \S+ )1;", r"\g<1>2;", text), launch, buffers)
        assert made
        assert not [kept for kept in made if kept() is not None]
