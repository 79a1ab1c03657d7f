"""The files that architecture.md names first are those that a kernel goes through, and no fast path."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType

import numpy as np
from pages import text_of
from support.kernels import execute, module

from convc.machine import RunOptions

MACHINE = Path(sys.modules["convc.machine"].__path__[0])
TEXT = module(
    """
    .reg .b32 %t, %at; .reg .b64 %d;
    mov.u32 %t, %tid.x; mov.u32 %at, tile; mad.lo.u32 %at, %t, 4, %at;
    st.shared.u32 [%at], %t; bar.sync 0; ld.shared.u32 %t, [%at];
    mad.wide.u32 %d, %t, 4, %p_out; st.global.u32 [%d], %t;
    """,
    shared=".shared .align 16 .b8 tile[256];",
)


def section() -> str:
    return text_of("architecture.md").partition("## Read the simulator in an hour")[2].partition("\n## ")[0]


def files_in(text: str) -> set[str]:
    """Files below ``convc/machine`` that a text names; one without a folder lies in that of the one before."""
    found: set[str] = set()
    folder = ""
    for name in re.findall(r"`(?:convc/machine/)?((?:\w+/)*\w+\.py)`", text):
        folder = name.rpartition("/")[0] if "/" in name or name == "launch.py" else folder
        found.add(name if "/" in name else f"{folder}/{name}".lstrip("/"))
    return found


def test_a_kernel_goes_through_the_files_of_the_table_and_through_no_fast_path():
    table, _, rest = section().partition("\n\nThen one asynchronous")
    listed = files_in(table)
    later = files_in(rest.partition("with the same bytes: ")[2].partition("`tests/")[0])
    assert len(listed) == 15
    assert later == {f"execute/{name}.py" for name in ("slp", "segments", "pack_loads", "pack_operands", "repeat")}
    assert all((MACHINE / name).is_file() for name in listed | later)
    called: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and MACHINE in path.parents and not frame.f_code.co_name.startswith("<"):
            called.add(path.relative_to(MACHINE).as_posix())

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        result = execute(
            TEXT, {"out": np.zeros(64, np.uint32)}, block=(64, 1, 1), options=RunOptions(evaluation="eager")
        )
    finally:
        sys.setprofile(before)
    assert result.buffers["out"].tolist() == list(range(64))
    assert listed - called == {"isa/registry.py"}  # whose functions are called where builders are registered
    assert later & called == set()
