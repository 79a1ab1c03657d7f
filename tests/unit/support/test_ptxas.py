"""The assembler: what it accepts, what it refuses and where, and what happens without it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from convc.errors import ToolError
from convc.support import programs, ptxas

GOOD = """.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 p){
  .shared .align 4 .b8 s[4096];
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, s;
  st.shared.u32 [%r2], %r1;
  ld.shared.u32 %r3, [%r2];
  st.global.u32 [%rd1], %r3;
  ret;
}
"""


def script(folder: Path, body: str) -> Path:
    path = folder / "ptxas"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_good_kernel_gives_a_cubin_with_its_registers_and_shared_memory():
    made = ptxas.assemble(GOOD)
    assert made.cubin[:4] == b"\x7fELF"
    assert 1 <= made.registers <= 255
    assert made.shared_bytes == 4096
    assert made.spill_bytes == 0


def test_a_refusal_points_at_the_line():
    with pytest.raises(ToolError) as caught:
        ptxas.assemble(GOOD.replace("mov.u32 %r1, %tid.x;", "mov.u33 %r1, %tid.x;"), file="edited.ptx")
    assert caught.value.span.line == 10
    assert caught.value.span.column == 3
    text = str(caught.value)
    assert "error[T100]: ptxas refused the kernel: Unknown modifier '.u33'" in text
    assert "--> edited.ptx:10:3" in text
    assert "mov.u33 %r1, %tid.x;" in text


def test_a_refusal_without_a_line_keeps_the_reason():
    with pytest.raises(ToolError, match="Value 'sm_10x' is not defined"):
        ptxas.assemble(GOOD, "sm_10x")


def test_the_packaged_assembler_is_found(monkeypatch):
    monkeypatch.delenv(ptxas.VARIABLE, raising=False)
    assert ptxas.find_ptxas().name == "ptxas"


def test_the_variable_wins_and_must_name_a_program(monkeypatch, tmp_path):
    mine = script(tmp_path, "exit 3")
    monkeypatch.setenv(ptxas.VARIABLE, str(mine))
    assert ptxas.find_ptxas() == mine
    with pytest.raises(ToolError, match="exit status 3"):
        ptxas.assemble(GOOD)
    monkeypatch.setenv(ptxas.VARIABLE, str(tmp_path))
    with pytest.raises(ToolError, match="not a program that can be run"):
        ptxas.find_ptxas()


def test_without_any_assembler_the_hint_says_how_to_get_one(monkeypatch, tmp_path):
    monkeypatch.delenv(ptxas.VARIABLE, raising=False)
    monkeypatch.setattr(programs.sysconfig, "get_path", lambda scheme: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError) as caught:
        ptxas.assemble(GOOD)
    assert "convc[ptxas]" in caught.value.hint


def test_a_hanging_assembler_is_stopped(monkeypatch, tmp_path):
    monkeypatch.setenv(ptxas.VARIABLE, str(script(tmp_path, "exec sleep 30")))
    with pytest.raises(ToolError, match=r"more than 0\.2 s"):
        ptxas.assemble(GOOD, timeout_s=0.2)


def test_nothing_stays_in_the_temporary_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(ptxas.tempfile, "tempdir", None)
    ptxas.assemble(GOOD)
    assert os.listdir(tmp_path) == []
