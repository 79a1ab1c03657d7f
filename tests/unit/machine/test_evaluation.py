"""Work that waits is performed before anybody could tell: recorded programs, and programs that look on purpose."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from support.both_ways import outcome, same
from support.kernels import execute, module
from tma_programs import execute_program, recordings

from convc.errors import InputError
from convc.ir.tensormap import TensorMap
from convc.machine import RunOptions, RunResult
from convc.machine.lazy.deferral import _strides

EVERY = 11
"""One of so many recorded programs is run both ways by default."""

MAP = TensorMap(
    mode="tile", buffer="x", dtype="u32", dims=(32, 64), strides=(128,), element_strides=(1, 1), box=(32, 8),
    swizzle="128B",
)  # fmt: skip

HEAD = """
.reg .pred %p; .reg .b32 %bar, %t, %v, %w, %d; .reg .b64 %a;
mov.u32 %bar, 8192; mov.u32 %t, %tid.x;
setp.ne.u32 %p, %t, 0;
@%p bra READY;
mbarrier.init.shared.b64 [%bar], 1;
READY: bar.sync 0;
@%p bra WAIT;
"""
LOAD = """
mbarrier.arrive.expect_tx.shared.b64 _, [%bar], {bytes};
mov.u32 %d, {at};
cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%d], [%m_m, {{0, {row}}}], [%bar];
"""
TAIL = """
WAIT: mbarrier.try_wait.parity.shared.b64 %p, [%bar], 0;
@!%p bra WAIT;
"""
READ = """
mul.lo.u32 %w, %t, 4;
ld.shared.u32 %v, [%w+{at}];
mul.wide.u32 %a, %t, 4; add.u64 %a, %a, %p_out;
st.global.u32 [%a], %v;
"""
CHANGE = """
@%p bra SAME;
st.global.u32 [%p_x], 77;
SAME:
"""
PROGRAMS = {
    "what was copied is read": HEAD + LOAD.format(bytes=1024, at=0, row=3) + TAIL + READ.format(at=128),
    "the buffer changes before it is read": HEAD
    + LOAD.format(bytes=1024, at=0, row=0)
    + "st.global.u32 [%p_x], 77;"
    + TAIL
    + READ.format(at=0),
    "an atomic changes the buffer before it is read": HEAD
    + LOAD.format(bytes=1024, at=0, row=0)
    + "red.global.add.u32 [%p_x], 5;"
    + TAIL
    + READ.format(at=0),
    "a second copy covers half of the first": HEAD
    + LOAD.format(bytes=2048, at=0, row=0)
    + LOAD.format(bytes=0, at=512, row=40).split("\n", 2)[2]
    + TAIL
    + READ.format(at=448),
    "a copy takes the place of another": HEAD
    + LOAD.format(bytes=2048, at=1024, row=0)
    + LOAD.format(bytes=0, at=1024, row=9).split("\n", 2)[2]
    + TAIL
    + READ.format(at=1024),
    "a store into what was copied": HEAD
    + LOAD.format(bytes=1024, at=0, row=0)
    + TAIL
    + "mov.u32 %w, 96; st.shared.u32 [%w], %t;"
    + READ.format(at=64),
    "rows past the end": HEAD + LOAD.format(bytes=1024, at=0, row=60) + TAIL + READ.format(at=448),
    "nobody wrote what is read": HEAD + LOAD.format(bytes=1024, at=0, row=0) + TAIL + READ.format(at=2048),
    "a copy past shared memory": HEAD + LOAD.format(bytes=1024, at=65536, row=0) + TAIL + READ.format(at=0),
}


def run_program(body: str, options: RunOptions):
    x = np.arange(2048, dtype=np.uint32) * 7
    text = module(body, pointers=("x", "out"), maps=("m",))
    return execute(
        text,
        {"x": x, "out": np.zeros(32, np.uint32)},
        grid=(3, 1, 1),
        shared_bytes=16384,
        maps=(MAP,),
        pointers=("x", "out"),
        options=options,
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_somebody_looks(name):
    eager, lazy = (outcome(lambda options: run_program(PROGRAMS[name], options), how) for how in ("eager", "lazy"))
    assert isinstance(lazy, RunResult) == (name != "a copy past shared memory"), lazy
    same(eager, lazy)


def test_what_waits_is_read_as_it_was():
    found = run_program(PROGRAMS["the buffer changes before it is read"], RunOptions(evaluation="lazy"))
    assert found.buffers["out"][:2].tolist() == [0, 7]
    assert found.buffers["x"][0] == 77


def test_recorded_programs_run_the_same_both_ways():
    for recording in recordings()[::EVERY]:
        eager, lazy = (
            outcome(lambda options, r=recording: execute_program(r.program, options=options), how)
            for how in ("eager", "lazy")
        )
        same(eager, lazy)


def test_the_evaluation_is_one_of_two():
    with pytest.raises(InputError, match="lazy or eager"):
        RunOptions(evaluation="late")


@pytest.mark.parametrize(
    ("starts", "parts"),
    [
        ([0, 2, 4, 6], [1, 1, 1, 1]),
        ([0, 2, 4, 130, 132, 134, 260, 262, 264], [3, 3, 3]),
        ([0, 2, 130, 132], [2, 2]),
        ([0, 128, 256], [1, 1, 1]),
        ([0], [1]),
    ],
)
def test_a_run_is_cut_where_an_operand_begins_further_on(starts, parts):
    """In the middle of a run of several filter taps, and everywhere where each of them is one product."""
    a = [SimpleNamespace(a=start, b=0) for start in starts]
    b = [SimpleNamespace(a=0, b=start) for start in starts]
    assert [len(part) for part in _strides(a)] == [len(part) for part in _strides(b)] == parts
