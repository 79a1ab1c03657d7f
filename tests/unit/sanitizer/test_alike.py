"""CTAs of a cluster that do alike are compared in one go: what is found is what one after the other finds."""

from __future__ import annotations

import pytest
from check_kernels import MEET, check
from support.kernels import module

from convc.machine.state.observer import Observer
from convc.sanitizer.accesses import Accesses
from convc.sanitizer.run import ObserverList

HEAD = """
.reg .b32 %t, %rank, %warp, %s, %at, %v; .reg .pred %one, %late;
mov.u32 %t, %tid.x; mov.u32 %rank, %cluster_ctarank; mov.u32 %s, data; shr.u32 %warp, %t, 5;
mad.lo.u32 %at, %t, 4, %s;
"""
CLEAN = ("st.shared.u32 [%at], %t;", "bar.sync 0;", "ld.shared.u32 %v, [%s];", "st.shared.u32 [%at+512], %v;")
ALL_RACE = ("st.shared.u32 [%at], %t;", "ld.shared.u32 %v, [%s];")
ONE_RACES = (
    "st.shared.u32 [%at], %t;",
    "setp.eq.u32 %one, %rank, 2;",
    "@%one bra RACE;",
    "bar.sync 0;",
    "RACE: ld.shared.u32 %v, [%s];",
)
LAST_WARP = (  # it writes what all warps of one CTA have read
    "st.shared.u32 [%at], %t;",
    "bar.sync 0;",
    "setp.eq.u32 %one, %rank, 2;",
    "@%one ld.shared.u32 %v, [%s+384];",
    "st.shared.u32 [%at], %t;",
)
CASES = {"clean": CLEAN, "all race": ALL_RACE, "one races": ONE_RACES, "a warp of one races": LAST_WARP}


def found(name: str, asked: list[bool], monkeypatch, *, together: bool):
    """What a check says of a case; ``asked`` gets whether each access was done for all CTAs at once."""
    own = Accesses.accessed_alike

    def looked(self, *arguments):
        asked.append(together and own(self, *arguments))
        return asked[-1]

    body = "\n".join((HEAD, *CASES[name], MEET)).replace("; ", ";\n")
    with monkeypatch.context() as patch:
        patch.setattr(Accesses, "accessed_alike", looked)
        return check(module(body, shared=".shared .align 1024 .b8 data[1024];\n"), grid=8, cluster=4)


@pytest.mark.parametrize("name", CASES)
def test_the_findings_are_those_of_one_cta_after_the_other(name, monkeypatch):
    asked: list[bool] = []
    together = found(name, asked, monkeypatch, together=True)
    apart = found(name, [], monkeypatch, together=False)
    assert together.findings == apart.findings
    assert bool(together.findings) == (name != "clean")
    assert any(asked)
    assert all(asked) == (name == "clean")


def test_who_hears_of_copies_one_by_one_hears_of_each_of_several():
    heard: list[object] = []

    class Each(Observer):
        def copy(self, strand, instr, transfer):
            heard.append(transfer)

    class Together(Observer):
        def copies(self, strand, instr, transfers, memory):
            heard.append(len(transfers))

    for observers in ([Each()], [Together()], [Each(), Observer(), Together()]):
        ObserverList(observers).copies(None, None, ["one", "another"], None)
    assert heard == ["one", "another", 2, "one", "another", 2]
