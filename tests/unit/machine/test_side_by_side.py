"""Loads from a cluster in segments, and stores of threads side by side: nobody can tell."""

from __future__ import annotations

import pytest
from test_segments import HEAD, both

from convc.errors import MachineFault
from convc.machine import RunResult
from convc.machine.execute import segments
from convc.machine.isa.memory import rows

PARTS = """.shared .align 128 .b8 s[8192];
.reg .b32 %q, %o<3>; .reg .f32 %part<32>;
mov.u32 %q, s; mad.lo.u32 %o0, %t, {pitch}, %q; add.u32 %o2, %o0, 1024;
"""
MEET = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"


def parts(*, guard: str = "", pitch: int = 16, step: int = 1024, other: int = 0, at: int = 0) -> str:
    """Eight words of a thread in two pieces ``step`` bytes apart, added up over the four CTAs of a cluster."""
    lines = [HEAD.format(pitch=32), PARTS.format(pitch=pitch)]
    pieces = ["%v0, %v1, %v2, %v3", "%v4, %v5, %v6, %v7"]
    lines += [f"ld.global.v4.f32 {{{own}}}, [%from+{16 * i}];" for i, own in enumerate(pieces)]
    lines += [f"st.shared.v4.f32 [%o0+{step * i}], {{{own}}};" for i, own in enumerate(pieces)]
    lines.append(MEET)
    lines += [f"mov.f32 %v{i}, 0f3f800000;" for i in range(8)]
    for rank in range(4):
        lines.append(f"mapa.shared::cluster.u32 %o1, %o0, {rank};")
        for i in (0, 1):
            words = ", ".join(f"%part{8 * rank + 4 * i + j}" for j in range(4))
            moved = at + (other if rank == 3 else 0)
            lines.append(f"{guard} ld.shared::cluster.v4.f32 {{{words}}}, [%o1+{step * i + moved}];")
        lines += [f"{guard} add.rn.f32 %v{i}, %v{i}, %part{8 * rank + i};" for i in range(8)]
    lines.append(MEET)
    lines += [f"st.global.v4.f32 [%to+{16 * i}], {{{own}}};" for i, own in enumerate(pieces)]
    return "\n".join(lines)


WRONG = ({"at": 8}, {"at": 1 << 14})


@pytest.mark.parametrize("guard", ["", "@%p", "@!%p"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"step": 1040},  # what lies between was never written
        {"pitch": 32, "step": 16},  # both pieces of a thread are one row
        {"pitch": 48, "step": 16},  # with gaps between the rows
        {"other": 1024},  # of one CTA the second piece alone, and what nobody wrote
        *WRONG,
    ],
    ids=str,
)
def test_parts_of_a_sum_are_read_from_the_cluster(guard, changes):
    result, found = both(parts(guard=guard, **changes), ctas=4, cluster=4)
    assert isinstance(result, MachineFault) == (changes in WRONG)
    assert sum(pack.kind == "ld.cluster" for segment in found for pack in segment.packs) >= 4


@pytest.mark.parametrize(("step", "taken"), [(1024, True), (1040, False), (2048, False)])
def test_threads_side_by_side_are_one_copy(step, taken, monkeypatch):
    asked: list[bool] = []
    put = rows._put

    def watched(*arguments, **options):
        asked.append(options["across"])
        put(*arguments, **options)

    monkeypatch.setattr(rows, "_put", watched)
    result, _ = both(parts(step=step), ctas=4, cluster=4)
    assert isinstance(result, RunResult)
    assert asked == [taken]


@pytest.mark.parametrize("guard", ["", "@%p"])
def test_one_base_with_steps_is_as_good_as_an_address_for_each_store(guard, monkeypatch):
    """A register of its own for the second store: the same places, and no step from the first."""
    plain = parts(guard=guard)
    apart = plain.replace("st.shared.v4.f32 [%o0+1024]", "st.shared.v4.f32 [%o2+0]")
    assert apart != plain
    counts: list[int] = []
    made = segments.shared_writer

    def counted(strand, addresses, *arguments):
        counts.append(len(addresses))
        return made(strand, addresses, *arguments)

    monkeypatch.setattr(segments, "shared_writer", counted)
    results = [both(text, ctas=4, cluster=4)[0] for text in (plain, apart)]
    assert all(isinstance(result, RunResult) for result in results)
    assert counts == [1, 2]
    assert (results[0].buffers["out"] == results[1].buffers["out"]).all()
