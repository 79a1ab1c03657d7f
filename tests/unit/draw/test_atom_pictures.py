"""Atoms as they are drawn are those of the table, which is held against the machine elsewhere."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner, Result
from support.drawings import table, words

from convc.atoms.families import FAMILIES, atom_names, find_atom
from convc.cli.main import main
from convc.draw.atoms import atom_picture, named_picture
from convc.draw.tikz import tikz


def draw(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["draw", "atom", *arguments])


def test_a_product_has_threads_and_values_as_the_manual():
    """mma.m16n8k8 of tf32: group = lane / 4, thread = lane % 4; B stands with k down."""
    svg = draw("mma.m16n8k8.tf32").stdout
    a, b, d = (table(svg, name) for name in "ABD")
    for lane in range(32):
        group, thread = divmod(lane, 4)
        for value in range(4):
            assert a[group + 8 * (value % 2)][thread + 4 * (value // 2)] == f"T{lane} V{value}"
            assert d[group + 8 * (value // 2)][2 * thread + value % 2] == f"T{lane} V{value}"
        for value in range(2):
            assert b[thread + 4 * value][group] == f"T{lane} V{value}"
    assert "A: ((4,8),(2,2)):((16,1),(8,64))  rows m, columns k: thread and value" in words(svg)
    assert "colours: T % 8; source: PTX ISA 9.7.14.5, Matrix Fragments for mma" in words(svg)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.spelling)
def test_every_family_is_drawn_with_its_layouts(family):
    name = next(family.names())
    atom = find_atom(name)
    said = words(atom_picture(atom, 16).svg())
    for held in atom:
        assert f"{held.name}: {held.layout}  {held.what}" in said
    assert said[0] == atom.title


@pytest.mark.parametrize(
    ("name", "matrix", "row", "column", "cell"),
    [
        ("tcgen05.mma.m64n32.f16", "D", 32, 3, "m16 n3"),
        ("tcgen05.mma.m64n32.f16", "D", 16, 3, None),
        ("tcgen05.mma.m64n64.f16.ws", "D", 64, 1, "m0 n33"),
        ("tcgen05.mma.m256n64.mxf4nvf4.2cta", "SFA", 128 + 35, 2, "m131 f2"),
        ("tcgen05.cp.32x128b.warpx4", "tensor memory", 100, 2, "row 4 w2"),
        ("wgmma.m64n16k16.f16.none", "B", 2, 9, "n1 k9"),
        ("tcgen05.mma.m128n32.f16.64B", "B", 2, 0, "n4 k0"),
    ],
)
def test_places_in_memory(name, matrix, row, column, cell):
    """Lanes of layouts F and E, factors of the second CTA, copies, lines of shared memory; empty cells are left out."""
    drawn = table(named_picture(name).svg(), matrix)
    shown = drawn[row]
    if cell is None:
        assert shown == []
    else:
        assert shown[column] == cell


def test_fewer_rows_and_columns_on_demand():
    drawn = table(draw("mma.m16n8k16.f16", "--most", "4").stdout, "A")
    assert (len(drawn), {len(row) for row in drawn}) == (4, {4})


def test_latex_has_the_cells_and_the_notation():
    text = tikz(named_picture("ldmatrix.m8n8.x4"))
    assert text.count("{T31 V7}") == 2, "of the registers, and of the row that the thread gives"
    assert "registers: ((4,8),(2,4)):((64,1),(32,8))" in text


def test_the_list_names_every_atom():
    said = draw("--list").stdout
    assert set(re.findall(r"(?<= )\S+", said)) == set(atom_names())
    assert [line for line in said.splitlines() if not line.startswith(" ")] == [each.spelling for each in FAMILIES]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mma.m16n8k8.tf23"], "near are mma.m16n8k8.tf32"),
        (["mma.m16n8k99.f16"], "of f16 there are m16n8k8, m16n8k16"),
        ([], "expected the name of an atom or --list"),
        (["mma.m16n8k8.tf32", "--list"], "expected the name of an atom or --list"),
        (["--list", "-o", "x.svg"], "--list prints names and draws nothing"),
        (["mma.m16n8k8.tf32", "--most", "0"], "0 is not in the range x>=1"),
        (["mma.m16n8k8.tf32", "-o", "x.pdf"], "expected FILE.svg, FILE.png, FILE.tex or - for stdout"),
    ],
)
def test_bad_calls_say_what_is_expected(arguments, message):
    done = draw(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
