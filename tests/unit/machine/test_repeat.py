"""Launches that replay an earlier one: with other data they give what they would give alone."""

from __future__ import annotations

import numpy as np
import pytest
from support.both_ways import same
from support.kernels import execute, module
from test_evaluation import HEAD as COPYING
from test_evaluation import LOAD, MAP, TAIL
from test_segments import epilogue, staging

from convc.machine import RunOptions, RunResult
from convc.machine.execute import engine
from convc.machine.launch import _decoded

DEFAULTS = RunOptions()

REGISTERS, PLACES = epilogue().split("mov.u32 %t", 1)
PLACES = "mov.u32 %t" + PLACES


@pytest.fixture
def repeated(monkeypatch) -> list[object]:
    """Has an entry for each launch that replayed an earlier one."""
    found: list[object] = []
    replay = engine.replay
    _decoded.cache_clear()  # other tests may have left records

    def counted(kept, cohort):
        found.append(kept)
        replay(kept, cohort)

    monkeypatch.setattr(engine, "replay", counted)
    return found


def data(seed: int, threads: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 1 << 32, 16 * threads, np.uint32)  # NaNs and infinities among them
    return {"x": x, "bias": rng.standard_normal(16).astype(np.float32), "out": np.zeros(1 << 12, np.uint32)}


def launches(body: str, ctas: tuple[int, ...], options: RunOptions = DEFAULTS) -> list[RunResult]:
    """One launch after the other, each with data of its own."""
    text = module(body, pointers=("x", "bias", "out"))
    return [
        execute(
            text,
            data(number, 128),
            grid=(count, 1, 1),
            block=(64, 1, 1),
            pointers=("x", "bias", "out"),
            options=options,
        )
        for number, count in enumerate(ctas)
    ]


def before(text: str) -> str:
    """The epilogue, and something before its first load."""
    return epilogue().replace("ld.global.v4", f"{text}\nld.global.v4", 1)


def apart(text: str, guard: str = "") -> str:
    """The epilogue, with something between the biases and what is done with the sums."""
    body = epilogue().replace("max.f32", f"{text}\nmax.f32", 1)
    return body.replace("ld.global.v4", f"{guard} ld.global.v4") if guard else body


@pytest.mark.parametrize(
    ("body", "times"),
    [
        (epilogue(), 2),
        (epilogue(guard="@%p"), 2),
        (staging(), 0),  # what was staged is read back outside of segments
        (epilogue().replace("setp.lt.u32 %p", "ld.global.u32 %w, [%p_x]; setp.lt.u32 %p"), 2),  # nobody reads it
        (epilogue().replace("setp.lt.u32 %p, %t, 40", "ld.global.u32 %w, [%p_x]; setp.lt.u32 %p, %t, %w"), 0),
        (epilogue() + "mov.b32 %n, %v0; and.b32 %n, %n, 1;", 0),  # nobody needs it, which is not looked into
        (epilogue() + "st.global.f32 [%to], %v0;", 0),
        (apart("bar.sync 0;"), 2),  # one segment leaves the sums in registers, another rounds and stores them
        (apart("bar.sync 0; mov.b32 %v3, 0f3F800000;"), 2),
        (apart("bar.sync 0; setp.eq.u32 %p, %t, 5; @%p mov.b32 %v3, 0f3F800000;"), 0),  # a number in some threads
        (apart("bar.sync 0; mov.b32 %v3, %v4;"), 0),
        (apart("setp.lt.u32 %p, %t, 32; @%p bra ON; bar.warp.sync 0xffffffff; ON:"), 0),  # each warp for itself
        (apart("bar.sync 0;", guard="@%p"), 0),  # what is not loaded was there before
        (before("mov.b64 {%n, %w}, %to; mov.b64 %to, {%n, %w};"), 2),  # halves of an address
        (epilogue() + "mov.b64 %row, {%h0, %h1};", 0),  # and of results
        (epilogue() + "{ .reg .b16 %half<2>; mov.b32 {%half0, %half1}, %h0; }", 0),
        (epilogue(pitch=16), 0),  # rows overlap in part, so that the instructions are executed one by one
    ],
)
def test_other_data_gives_what_it_gives_eagerly(repeated, body, times):
    counts = (2, 2, 1, 2, 2)  # a record is that of one grid, and the latest is kept
    found = launches(body, counts)
    assert len(repeated) == times
    each = launches(body, counts, RunOptions(repeats=False))
    assert len(repeated) == times
    for eager, lazy, alone in zip(launches(body, counts, RunOptions(evaluation="eager")), found, each, strict=True):
        same(eager, lazy)
        same(alone, lazy)


def test_what_a_copy_brings_may_decide_where_results_go(repeated):
    """A register is read from shared memory, where a tensor copy has put the second row of a matrix."""
    decided = "{ .reg .b64 %far; cvt.u64.u32 %far, %v; add.u64 %to, %to, %far; }"
    body = COPYING + LOAD.format(bytes=1024, at=0, row=1) + TAIL + "mov.u32 %d, 0; ld.shared.u32 %v, [%d];\n"
    body += REGISTERS.replace("%t, %g, %c, %w, %n;", "%g, %c, %n;").replace(".reg .pred %p;", "")
    body += PLACES.replace("ld.global.v4", f"{decided}\nld.global.v4", 1)
    text = module(body, pointers=("x", "bias", "out"), maps=("m",))
    for where in (0, 256):
        buffers = data(3, 128)
        buffers["x"][32] = where
        result = execute(
            text, buffers, block=(64, 1, 1), shared_bytes=1 << 14, maps=(MAP,), pointers=("x", "bias", "out")
        )
        assert result.findings == ()
        written = np.flatnonzero(result.buffers["out"])
        assert written[0] // 64 == where // 256
    assert not repeated
