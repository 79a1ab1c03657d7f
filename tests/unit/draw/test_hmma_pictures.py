"""The steps of HMMA as they are drawn and printed."""

from __future__ import annotations

import re

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.atom_deals import collect
from support.drawings import table, words

from convc.atoms.hmma import fragments
from convc.cli.main import main
from convc.draw.hmma import hmma_picture
from convc.report.hmma import PRODUCT


def draw(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["draw", "hmma", *arguments])


def test_steps_of_volta_and_where_each_figure_is_from():
    svg = draw("--arch", "volta").stdout
    assert table(svg, "steps")[5] == ["4:7", "m 2:3", "m 6:7", "n 0:3", "X", "1024", "1024", "2048", "22"]
    said = words(svg)
    assert "set 2 HMMA.884.F32.F32.STEP1" in said
    for figure in ("sets, steps, octets: ", "cycle: from the first", "bits that the warp reads", "registers: "):
        (line,) = (each for each in said if each.startswith(figure))
        assert "Raihan, Goli, Aamodt 2018 (arXiv 1811.08309)" in line
    assert "4096 in all; registers could give 6144 in the 2 cycles" in " ".join(said)


@pytest.mark.parametrize("sums", ["f32", "f16"])
def test_registers_of_volta_and_of_the_simulator_stand_beside_each_other(sums):
    svg = draw("--arch", "volta", "--sums", sums).stdout
    drawn = table(svg, "Volta D")
    held = fragments("volta", sums)["D"]
    number = collect(held, np.arange(32 * 8).reshape(32, 8))
    assert drawn == [[f"T{one // 8} V{one % 8}" for one in row] for row in number.tolist()]
    assert table(svg, "Volta A")[4][0] == "T16,24 V0"
    assert table(svg, "Volta B")[0][4] == "T16,20 V0"
    assert table(svg, "Simulator A")[8][1] == "T0 V3"


def test_turing_has_no_steps_and_one_thread_for_each_element():
    svg = draw("--arch", "turing", "--sums", "f16").stdout
    assert table(svg, "steps") == [
        [k, "m 0:15", n, "2048", "1024", "2048"] for k in ("0:7", "8:15") for n in ("n 0:7", "n 8:15")
    ]
    assert "," not in "".join(word for row in table(svg, "Turing A") for word in row)
    assert "set 1 HMMA.1688.F32" in words(hmma_picture("turing").svg())


@pytest.mark.parametrize(
    ("spelling", "found"),
    [
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", ("m16n16k16", "f32")),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16", ("m16n16k16", "f16")),
        ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", ("m8n8k4", "f32")),
        ("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", ("m16n8k8", "f16")),
        ("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", None),
        ("wmma.mma.sync.aligned.row.row.m16n16k16.f32.bf16.bf16.f32", None),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32", None),
    ],
)
def test_products_of_f16_are_told_by_their_spelling(spelling, found):
    shape = re.search(PRODUCT, spelling)
    assert (shape and shape.groups()) == found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--arch", "ampere"], "expected an architecture of volta, turing, got 'ampere'"),
        (["--arch", "volta", "--sums", "f64"], "expected sums of f32, f16, got 'f64'"),
        ([], "Missing option '--arch'"),
    ],
)
def test_what_is_not_published_is_refused(arguments, message):
    done = draw(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
