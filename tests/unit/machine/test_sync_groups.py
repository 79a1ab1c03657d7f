"""Drawn kernels whose groups of threads meet at barriers of their own, against a scalar interpreter of the rules."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import kernels
from support.examples import some
from support.recorded import assemble_all, recorded
from support.slow_sync import interpret
from sync_kernels import Round, body, counts, steps

from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.machine import RunOptions


@pytest.fixture(scope="module", autouse=True)
def every_kernel_is_ptx():
    with recorded() as texts:
        yield
    assemble_all(dict(list(texts.items())[:12]))


CTAS = 3

rounds = st.lists(
    st.one_of(
        st.builds(
            Round,
            kind=st.sampled_from(["warp", "pair", "lane", "quad"]),
            meet=st.sampled_from(["arrive", "count", "bytes", "test"]),
            shift=st.integers(0, 40),
            late=st.integers(0, 4),
        ),
        st.builds(
            Round,
            kind=st.sampled_from(["warp", "pair"]),
            meet=st.just("named"),
            shift=st.integers(0, 40),
            late=st.integers(0, 4),
        ),
    ),
    min_size=1,
    max_size=4,
)


def run(drawn: list[Round], threads: int, options: RunOptions) -> tuple[np.ndarray, tuple[str, ...]]:
    """What the simulator makes of it: values (ctas, threads), and rules of findings."""
    table = np.zeros((CTAS, 32 * len(drawn)), np.uint32)
    for cta in range(CTAS):
        for bar, count in counts(drawn, threads, cta).items():
            table[cta, bar] = count
    buffers = {"counts": table, "out": np.zeros((CTAS, threads), np.uint32)}
    launch = LaunchSpec(
        entry="k",
        grid=(CTAS, 1, 1),
        block=(threads, 1, 1),
        params=tuple(PointerParam(buffer=name) for name in buffers),
        buffers={name: BufferSpec(dtype="u32", shape=array.shape) for name, array in buffers.items()},
    )
    size = 256 * len(drawn) + 4 * threads
    text = kernels.module(
        body(drawn, threads), pointers=tuple(buffers), shared=f".shared .align 16 .b8 data[{size}];\n"
    )
    result = kernels.run(text, launch, buffers, options=options)
    return result.buffers["out"], tuple(f.rule for f in result.findings)


@settings(max_examples=some(40), deadline=None)
@given(rounds, st.sampled_from([64, 128]), st.integers(0, 2**32))
def test_groups_of_threads_meet_at_barriers_of_their_own(drawn, threads, seed):
    """All CTAs in lockstep, one after the other, and thread by thread in any order."""
    together, findings = run(drawn, threads, RunOptions(cohort=148))
    alone, _ = run(drawn, threads, RunOptions(cohort=1))
    assert np.array_equal(together, alone)
    assert findings == ()
    order = random.Random(seed)
    for cta in range(CTAS):
        programs = [steps(drawn, threads, cta, t) for t in range(threads)]
        assert interpret(programs, counts(drawn, threads, cta), order) == together[cta].tolist()
