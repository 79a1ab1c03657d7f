"""Launches that replay an earlier one although data lie in shared memory on their way."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from support.both_ways import same
from support.kernels import execute, module
from test_repeat import data, repeated  # noqa: F401 - a fixture
from test_segments import HEAD

from convc.ir.tensormap import TensorMap
from convc.machine import RunOptions, RunResult
from convc.machine.memory.global_memory import GlobalMemory
from convc.machine.tma.tensormap_bytes import encode

POINTERS = ("x", "bias", "out")

TILE = TensorMap(
    mode="tile", buffer="out", dtype="u32", dims=(8, 100), strides=(32,), element_strides=(1, 1), box=(8, 64),
    swizzle="none",
)  # fmt: skip
"""64 rows of eight words a CTA; the last ones of the second are outside."""

ROWS = TensorMap(
    mode="tile", buffer="x", dtype="u32", dims=(8, 256), strides=(32,), element_strides=(1, 1), box=(8, 64),
    swizzle="none",
)  # fmt: skip
"""As many rows, of the numbers that come in."""

STAGE = """
.shared .align 128 .b8 s[8192];
.reg .b32 %q, %o<2>, %number, %first; .reg .pred %in, %one; .reg .b64 %own;
mov.u32 %q, s; mad.lo.u32 %o0, %t, 32, %q; add.u32 %o1, %o0, 16; setp.lt.u32 %in, %t, 16;
mul.wide.u32 %own, %t, 4; add.u64 %own, %own, %p_bias; mad.lo.u32 %n, %t, 4, %q;
@%in ld.global.nc.b32 %number, [%own]; @%in st.shared.b32 [%n+4096], %number;
bar.sync 0;
"""
ALL = STAGE.replace("%t, 16;\n", "%t, 64; and.b32 %first, %t, 15;\n").replace("%own, %t", "%own, %first")
"""The guard holds in all threads."""

STORE = """
bar.sync 0;
setp.eq.u32 %one, %t, 0; mul.lo.u32 %first, %c, 64;
@%one cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%m_tile, {0, %first}], [%q];
@%one cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
"""
LAND = """
bar.sync 0; setp.ne.u32 %one, %t, 0;
@%one bra LANDED;
mbarrier.init.shared.b64 [%q+6144], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%q+6144], 2048;
cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%q+{at}], [%m_rows, {{0, 0}}], [%q+6144];
LANDED: bar.sync 0;
POLL: mbarrier.try_wait.parity.shared.b64 %one, [%q+6144], 0;
@!%one bra POLL;
"""


def body(*, staged: str = STAGE, then: str = "") -> str:
    """Sixteen values a thread: a bias added that was staged, rounded to f16, staged and copied to a tensor."""
    lines = [HEAD.format(pitch=32), staged]
    for i in range(0, 16, 4):
        lines.append(f"ld.global.v4.f32 {{%v{i}, %v{i + 1}, %v{i + 2}, %v{i + 3}}}, [%from+{4 * i}];")
    for i in range(0, 16, 4):
        lines.append(f"ld.shared.v4.f32 {{%b0, %b1, %b2, %b3}}, [%q+{4096 + 4 * i}];")
        lines += [f"add.rn.f32 %v{i + j}, %v{i + j}, %b{j};" for j in range(4)]
    lines += [f"cvt.rn.f16x2.f32 %h{i}, %v{2 * i + 1}, %v{2 * i};" for i in range(8)]
    lines += [f"st.shared.v4.b32 [%o{i}], {{%h{4 * i}, %h{4 * i + 1}, %h{4 * i + 2}, %h{4 * i + 3}}};" for i in (0, 1)]
    return "\n".join([*lines, then, STORE])


def launches(text: str, evaluation: str = "lazy", *, repeats: bool = True, cohort: int = 2) -> list[RunResult]:
    """Three launches, each with data of its own."""
    options = RunOptions(evaluation=evaluation, repeats=repeats, cohort=cohort)
    maps = (TILE, ROWS)
    return [
        execute(text, data(seed, 128), grid=(2, 1, 1), block=(64, 1, 1), maps=maps, pointers=POINTERS, options=options)
        for seed in range(3)
    ]


@pytest.mark.parametrize(
    ("text", "times"),
    [
        (body(), 2),
        (body(staged=STAGE.replace("setp.lt", "setp.ge").replace("@%in", "@!%in")), 2),
        (body(staged=ALL), 2),
        (body(then="@%in ld.shared.u32 %number, [%q+1024];"), 0),  # what was staged may decide anything
        (body(then="ld.shared.u32 %n, [%q+32]; and.b32 %n, %n, 128; add.u32 %q, %q, %n;"), 0),  # and decides a source
        (body(then=LAND.format(at=0)), 0),  # what comes in goes out, over what was staged
        (body(then=LAND.format(at=2048)), 2),  # it stays where it came to
        (body(then=LAND.format(at=2048) + "add.u32 %q, %q, 1024;"), 0),  # half of what goes out came in
        (body(then="@%in st.shared.b32 [%n], %number;"), 0),  # a store outside of segments
        (body(staged=STAGE.replace("%t, 16;\n", "%t, 8;\n")), 0),  # half of the bias was never written
        (body(staged=STAGE.replace("%t, 16;\n", "%t, 0;\n")), 0),  # and none of it
    ],
)
def test_other_data_gives_what_it_gives_eagerly(repeated, text, times):  # noqa: F811 - the fixture
    text = module(text, pointers=POINTERS, maps=("tile", "rows"))
    found = launches(text)
    assert len(repeated) == times
    for eager, lazy, alone in zip(launches(text, "eager"), found, launches(text, repeats=False), strict=True):
        same(eager, lazy)
        same(alone, lazy)
        assert np.count_nonzero(lazy.buffers["out"])


def test_each_cohort_has_a_record_of_its_own(repeated):  # noqa: F811 - the fixture
    text = module(body(), pointers=POINTERS, maps=("tile", "rows"))
    found = launches(text, cohort=1)
    assert len(repeated) == 4
    for together, apart in zip(launches(text, "eager"), found, strict=True):
        same(together, apart)


def test_a_map_in_memory_is_data(repeated):  # noqa: F811 - the fixture
    """Another launch finds another map there."""
    text = module(body().replace("%m_tile", "%p_map"), pointers=(*POINTERS, "map"))
    for first in (0, 128):
        buffers = data(1, 128)
        memory = GlobalMemory()
        for name, array in buffers.items():
            memory.add(name, array.view(np.uint8))
        home = memory.by_name["out"].base + 32 * first
        buffers["map"] = np.frombuffer(encode(msgspec.structs.replace(TILE, dims=(8, 256)), home), np.uint8).copy()
        found = execute(text, buffers, grid=(2, 1, 1), block=(64, 1, 1), pointers=(*POINTERS, "map"))
        written = np.flatnonzero(found.buffers["out"].reshape(-1, 8).any(axis=1))
        assert (written[0], written[-1]) == (first, first + 127)
    assert not repeated
