"""Single CTAs, or clusters, of a grid: what runs, what is told of them, and which numbers are refused."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import module

from convc.errors import InputError
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.machine import RunOptions, run, writer_of

STORE = """
.reg .b32 %c; .reg .b64 %a;
mov.u32 %c, %ctaid.x; mul.wide.u32 %a, %c, 4; add.u64 %a, %a, %p_out;
add.u32 %c, %c, 100;
st.global.u32 [%a], %c;
"""
TEXT = module(STORE.replace("; ", ";\n"))


def launch(cluster: int) -> LaunchSpec:
    return LaunchSpec(
        entry="k",
        grid=(8, 1, 1),
        cluster=(cluster, 1, 1),
        block=(32, 1, 1),
        buffers={"out": BufferSpec(dtype="u32", shape=(8,))},
        params=(PointerParam(buffer="out"),),
    )


@pytest.mark.parametrize(
    ("cluster", "only", "ran"),
    [
        (1, (0,), [0]),
        (1, (7, 2), [2, 7]),
        (2, (6, 2), [2, 3, 6, 7]),
        (4, (4,), [4, 5, 6, 7]),
    ],
)
def test_only_the_named_ctas_run(cluster, only, ran):
    done: list[tuple[int, int]] = []
    result = run(
        TEXT,
        launch(cluster),
        {"out": np.zeros(8, np.uint32)},
        options=RunOptions(only=only),
        progress=lambda *numbers: done.append(numbers),
    )
    want = np.zeros(8, np.uint32)
    want[ran] = np.array(ran) + 100
    assert np.array_equal(result.buffers["out"], want)
    assert result.counters.ctas == len(ran)
    assert done == [(cluster * (at + 1), len(ran)) for at in range(len(only))]


@pytest.mark.parametrize(
    ("cluster", "only", "first"),
    [
        (1, (8,), ""),
        (1, (-1,), ""),
        (1, (0, 9), ""),
        (2, (1,), ", the first of whole clusters of 2"),
        (2, (-2,), ", the first of whole clusters of 2"),
        (4, (4, 2), ", the first of whole clusters of 4"),
    ],
)
def test_numbers_that_no_cluster_begins_with_are_refused(cluster, only, first):
    message = f"single CTAs to run must be numbers below 8{first}; got {only}"
    with pytest.raises(InputError) as caught:
        run(TEXT, launch(cluster), {"out": np.zeros(8, np.uint32)}, options=RunOptions(only=only))
    assert caught.value.message == message


@pytest.mark.parametrize(("only", "cta"), [((), 5), ((4,), 5), ((2,), None)])
def test_the_writer_of_a_byte_is_sought_among_them(only, cta):
    found = writer_of(TEXT, launch(2), {"out": np.zeros(8, np.uint32)}, "out", 4 * 5, only=only)
    assert (None if found is None else found.cta) == cta
