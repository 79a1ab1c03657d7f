"""A schedule with one thing wrong is found out, with a sentence that says what."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from support.records import replace
from support.schedules import RELOAD_ONLY

from convc.compiler.planner.search import plan
from convc.compiler.schedules.program import build
from convc.compiler.tile.program import TileProgram, walk
from convc.compiler.tile.show import show
from convc.compiler.tile.steps.base import Repeat, Step
from convc.compiler.tile.steps.rings import Advance
from convc.compiler.tile.verify import contradictions, verify
from convc.errors import PlanError
from convc.host_layout.device_layout import device_layout
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(
    name="p", in_channels=96, out_channels=80, in_extent=(13, 10), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
)
PROGRAM = build(plan(device_layout(PROBLEM), options=RELOAD_ONLY, block_n=48, stages=3))

Edit = Callable[[Step], tuple[Step, ...]]


def rewrite(program: TileProgram, edit: Edit) -> TileProgram:
    """The program with every step replaced by what `edit` returns for it."""

    def steps(body: tuple[Step, ...]) -> tuple[Step, ...]:
        deep = (replace(s, body=steps(s.body)) if isinstance(s, Repeat) else s for s in body)
        return tuple(new for step in deep for new in edit(step))

    def roles(act):
        return tuple(replace(role, steps=steps(role.steps)) for role in act)

    return replace(program, setup=roles(program.setup), roles=roles(program.roles), teardown=roles(program.teardown))


def at(which: str, /, **changes) -> Edit:
    """Change fields of one step."""
    return lambda step: (replace(step, **changes),) if step.id == which else (step,)


def without(which: str) -> Edit:
    """Leave one step out."""
    return lambda step: () if step.id == which else (step,)


def test_what_is_built_is_sound():
    assert contradictions(PROGRAM) == ()


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (at("load.expect", bytes=1), "load.expect expects 1 bytes a stage, and 405486 in all are too many"),
        (without("load.b"), "load.expect expects 22528 bytes a stage, and 110592 in all are missing"),
        (without("mma.wait"), "ring full is awaited by nobody, not by mma"),
        (without("mma.release"), "ring empty is signalled by nobody, not by mma"),
        (without("mma.done"), "ring done is signalled by nobody, not by mma"),
        (without("load.expect"), "ring full is signalled by nobody, not by load"),
        (at("mma.k", count=17), "ring full is signalled 18 times and awaited 17 times"),
        (at("load.blocks", count=3), "ring empty is signalled 18 times and awaited 27 times"),
        (at("mma.next", stages=2), "role mma advances by 2 in a loop over rings of [3] stages"),
        (without("load.next"), "role load does not advance in a loop over rings of [3] stages"),
        (
            at("load.wait", starts_open=False),
            "of the waits for the rings full and empty, exactly one may find a fresh stage ready",
        ),
        (
            at("mma.wait", starts_open=True),
            "of the waits for the rings full and empty, exactly one may find a fresh stage ready",
        ),
        (
            at("epilogue.wait", starts_open=True),
            "the wait for ring done finds a fresh stage ready, and nothing has been done",
        ),
        (at("mma.wait", ring="empty"), "ring empty is awaited by load, mma, not by load"),
        (at("init.rings", rings=("full", "done")), "ring empty is made ready 0 times"),
        (at("load.a", map="bias"), "load.a copies through bias, which is no tensor map"),
        (at("load.a", map="map_b"), "load.a copies 6144 bytes into tile a of 16384"),
        (at("load.a", offsets=()), "load.a does not have the coordinates of a 4-D im2col map"),
        (at("load.b", coords=("c", "tap")), "load.b does not have the coordinates of a 3-D tile map"),
        (at("mma.multiply", n=64), "mma.multiply makes 128 x 64, accumulator acc is another size"),
        (at("epilogue.chunks", count=2), "epilogue.read reads 32 of 48 columns"),
        (without("dealloc.tmem"), "tensor memory is allocated 1 times and freed 0 times"),
        (at("dealloc.tmem", columns=32), "32 columns are freed by warp 4, 64 allocated by 4"),
        (at("alloc.tmem", columns=32), "tile acc ends at column 48 of 32"),
        (without("start.sync"), "the warps do not meet in the set-up"),
        (without("end.sync"), "the warps do not meet in the teardown"),
        (
            without("begin.arrive"),
            "the warps [0, 1, 2, 3, 4] are where 192 threads meet",
        ),
        (
            at("start.sync", threads=160),
            "the warps [5] are where 192 threads meet",
        ),
        (without("init.rings"), "role begin goes on without the others, and warp 5 made no barriers"),
        (without("load.tap"), "load.b reads tap, which nothing sets before"),
        (at("load.a", tile="c"), "load.a names the tile c, which does not exist"),
        (at("load.a", ring="c"), "load.a names the ring c, which does not exist"),
        (at("load.tap", dst="off_w"), "load.tap sets off_w a second time"),
        (at("load.a", id="load.b"), "two steps are called load.b"),
    ],
)
def test_one_wrong_step_is_found(edit, sentence):
    broken = rewrite(PROGRAM, edit)
    assert broken != PROGRAM
    assert sentence in contradictions(broken)
    with pytest.raises(PlanError, match="the tile program contradicts itself"):
        verify(broken)


def with_storage(**changes) -> TileProgram:
    return replace(PROGRAM, storage=replace(PROGRAM.storage, **changes))


A, B = PROGRAM.storage.smem
FULL, FREE, DONE = PROGRAM.storage.rings
REPLACE = replace
MOVED = msgspec.structs.replace


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        (
            with_storage(smem=(A, MOVED(B, offset=1024))),
            "tile a ends at 49152 and overlaps tile b, which starts at 1024",
        ),
        (
            with_storage(rings=(MOVED(FULL, offset=B.end - 8), FREE, DONE)),
            "tile b ends at 67584 and overlaps ring full, which starts at 67576",
        ),
        (
            with_storage(slot_offset=DONE.offset),
            "the slot ends at 67636 and overlaps ring done, which starts at 67632",
        ),
        (
            with_storage(smem=(MOVED(A, stage_bytes=1000), B)),
            "tile a at 0 with stages of 1000 bytes is not aligned to 1024",
        ),
        (with_storage(smem=(MOVED(A, stages=2), B)), "tile a has 2 stages, ring full has 3"),
        (with_storage(rings=(FULL, FREE, MOVED(DONE, offset=DONE.offset + 4))), "done at 67636 is not aligned to 8"),
        (
            with_storage(smem_bytes=1024),
            "the slot ends at 67644; the plan has 1024 bytes of shared memory, the launch 67644",
        ),
        (REPLACE(PROGRAM, warps=7), "the launch has blocks of (192, 1, 1) threads, the program 224"),
        (
            REPLACE(PROGRAM, roles=(REPLACE(PROGRAM.roles[0], first_warp=4), *PROGRAM.roles[1:])),
            "role load elects one lane of warps 4 to 5",
        ),
        (
            REPLACE(PROGRAM, roles=(REPLACE(PROGRAM.roles[0], first_warp=4, last_warp=4), *PROGRAM.roles[1:])),
            "warp 4 is in the roles load and mma",
        ),
        (
            REPLACE(PROGRAM, roles=(REPLACE(PROGRAM.roles[0], first_warp=6, last_warp=6), *PROGRAM.roles[1:])),
            "role load has warps 6 to 6, the CTA has 6",
        ),
    ],
)
def test_one_wrong_record_is_found(program, sentence):
    assert sentence in contradictions(program)


def test_a_state_outside_of_a_loop_is_found():
    load = PROGRAM.roles[0]
    loose = REPLACE(load, steps=(*load.steps, Advance(id="load.more", note="once more", stages=3)))
    broken = REPLACE(PROGRAM, roles=(loose, *PROGRAM.roles[1:]))
    assert "role load uses a ring of several stages outside of a loop" in contradictions(broken)


def test_show_names_every_step_once():
    text = show(PROGRAM)
    for role in PROGRAM.all_roles:
        assert f"  {role.name} (" in text
        for step in walk(role.steps):
            assert text.count(f" {step.id} ") == 1
    assert "load.wait            wait for empty (ready at first)  -- until the stage is free" in text
    assert "where m < 130 and k < 80" in text


def test_a_step_says_what_it_does():
    with pytest.raises(TypeError, match="Step does not say what it does"):
        Step(id="x", note="y").describe()
