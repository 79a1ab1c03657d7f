"""The instruction of ``add_a_form.md``, as it stands there: read by its row, judged by ptxas, run by its builder."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from pages import blocks, module_of, text_of
from support.kernels import execute, module
from support.ptxas import DECLARATIONS, END, judge

from convc.errors import PtxSyntaxError, UnmodelledError
from convc.machine.isa.registry import OPS, TRAITS
from convc.ptx import parse, tables

PAGE = "add_a_form.md"
BODY = """
.reg .b32 %a, %b, %m; .reg .b64 %at; .reg .u32 %t;
mov.u32 %t, %tid.x;
mad.wide.u32 %at, %t, 4, %p_a; ld.global.b32 %a, [%at];
mad.wide.u32 %at, %t, 4, %p_b; ld.global.b32 %b, [%at];
vmax4.u32.u32.u32 %m, %a, %b, %a;
mad.wide.u32 %at, %t, 4, %p_out; st.global.b32 [%at], %m;
"""
TEXT = module(BODY, pointers=("a", "b", "out"))


@pytest.fixture(autouse=True)
def _row(tmp_path, monkeypatch):
    """The tables with the row of the page."""
    folder = tmp_path / "forms"
    shutil.copytree(tables.FOLDER, folder)
    with (folder / "video.txt").open("a", encoding="ascii") as file:
        file.write("\n" + blocks(PAGE, "forms")[0])
    monkeypatch.setattr(tables, "FOLDER", str(folder))
    monkeypatch.setattr(tables, "_index", {})
    monkeypatch.setattr(tables, "_rows", {})


@pytest.fixture
def _meaning(tmp_path):
    """The builder of the page, for as long as the test takes."""
    module_of(PAGE, tmp_path)
    yield
    del OPS["vmax4"], TRAITS["vmax4"]


def test_the_reader_and_ptxas_take_the_same(tmp_path):
    (accepted,) = blocks(PAGE, "accepted")
    (rejected,) = blocks(PAGE, "rejected")
    (kernel,) = parse(f"{DECLARATIONS}{accepted}{END}").kernels
    assert kernel.body[0].form.name == "vmax4"
    with pytest.raises(PtxSyntaxError):
        parse(f"{DECLARATIONS}{rejected}{END}")
    yes, no = judge([accepted.strip(), rejected.strip()], tmp_path)
    assert yes is None
    assert no


def test_a_row_without_a_builder_is_refused():
    with pytest.raises(UnmodelledError, match="vmax4"):
        run(
            np.zeros(32, np.uint32),
            np.zeros(32, np.uint32),
            f"{TEXT}// the simulator keeps what it has decoded, by its text",
        )


@pytest.mark.usefixtures("_meaning")
def test_the_machine_runs_it():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2**32, (2, 32), np.uint32)
    expected = np.maximum(a.view(np.uint8), b.view(np.uint8)).view(np.uint32)
    np.testing.assert_array_equal(run(a, b), expected)


def run(a: np.ndarray, b: np.ndarray, text: str = TEXT) -> np.ndarray:
    buffers = {"a": a, "b": b, "out": np.zeros(32, np.uint32)}
    return execute(text, buffers, pointers=("a", "b", "out")).buffers["out"]


def test_the_notation_shows_a_row_as_it_is():
    """The sample below "The notation" stands in the tables, but for how its operands share a line."""
    shown = text_of(PAGE).partition("## The notation")[2].split("### Modifiers")[0]
    lines = [line.strip() for line in shown.splitlines() if line.startswith("    ")]
    (row,) = (line for line in lines if line.startswith("mbarrier.try_wait.parity:"))
    patterns = [form.form.pattern for form in tables.rows_of("mbarrier")]
    assert row.partition(": ")[2] in patterns
