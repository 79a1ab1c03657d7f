"""NVIDIA's disassembler is found as ptxas is, and its failures are sentences."""

from __future__ import annotations

import pytest

from convc.errors import ToolError
from convc.support import nvdisasm, programs


def test_a_missing_disassembler_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.delenv(nvdisasm.VARIABLE, raising=False)
    monkeypatch.setattr(programs.sysconfig, "get_path", lambda scheme: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError) as error:
        nvdisasm.require_nvdisasm()
    assert "convc[sass]" in error.value.hint


def test_what_is_no_machine_code_is_refused():
    with pytest.raises(ToolError, match="nvdisasm cannot read it"):
        nvdisasm.disassemble(b"no cubin")
