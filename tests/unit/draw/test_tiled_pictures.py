"""Tiled MMAs and copies: every element is held by the thread and value that the atoms and their layout give it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from support.drawings import table, words

from convc.atoms.families import find_atom
from convc.cli.main import main
from convc.layout import Layout, parse
from convc.layout.tiled import tiled_copy, tiled_mma


def draw(*arguments: str):
    return CliRunner().invoke(main, ["draw", "tiled", *arguments])


ALONG = {"A": (0, 2), "B": (1, 2), "D": (0, 1)}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("operand", ["A", "B", "D"])
@pytest.mark.parametrize("groups", ["(2,2):(2,1)", "(2,1,2)", "(1,4)", "((2,2),1):((1,2),4)"])
@pytest.mark.parametrize("rounds", [(2, 3)])
def test_threads_and_values_are_those_of_atoms_side_by_side(operand, groups, rounds):
    """Each atom of the tile, in its place, with its group's threads and its round's values."""
    held = find_atom("mma.m16n8k16.f16")[operand]
    layout = parse(groups)
    counts = [*(mode.size for mode in layout.modes), 1, 1][:3]
    down, across = (counts[mode] for mode in ALONG[operand])
    shape = (held.rows * down * rounds[0], held.columns * across * rounds[1])
    found, tile = tiled_mma(held.layout, (held.rows, held.columns), layout, operand, shape)
    assert tile == shape
    wanted = {}
    for coordinate in range(layout.size):
        mnk = [*Layout(tuple(counts)).coordinate(coordinate)]
        i, j = (mnk[mode] for mode in ALONG[operand])
        for again in range(rounds[0] * rounds[1]):
            row = held.rows * (i + down * (again % rounds[0]))
            column = held.columns * (j + across * (again // rounds[0]))
            for thread, value, r, c in zip(*held.places, strict=True):
                who = (thread + 32 * layout(coordinate), value + held.value_count * again)
                wanted[who] = row + r + shape[0] * (column + c)
    offsets = found.offsets()
    assert {(t, v): offsets[t + found.modes[0].size * v] for t, v in wanted} == wanted
    assert found.size == len(wanted)


def test_a_copy_has_each_threads_values_side_by_side():
    threads, values = parse("(4,8):(8,1)"), parse("(2,4):(1,2)")
    found, (rows, columns) = tiled_copy(threads, values)
    assert (rows, columns) == (8, 32)
    for row in range(rows):
        for column in range(columns):
            who = threads(row // 2, column // 4), values(row % 2, column % 4)
            assert found(*who) == row + rows * column


def test_the_picture_has_the_layout_below():
    done = draw("--atom", "mma.m16n8k16.f16", "--layout", "(2,2):(2,1)", "--tile", "32x16")
    drawn = table(done.stdout, "tile")
    assert (len(drawn), len(drawn[0])) == (32, 16)
    assert (drawn[0][8], drawn[16][0]) == ("T32 V0", "T64 V0")
    assert "thread, value -> row + 32 * column: (((4,8),2,2),(2,2)):(((64,1),256,16),(32,8))" in words(done.stdout)
    twice = draw("--atom", "mma.m16n8k16.f16", "--layout", "(2,2)", "--operand", "B")
    assert "each element is held 2 times, first by what is shown" in words(twice.stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--layout (2,2)", "expected --atom for a tiled MMA, or --values for a tiled copy, and not both"),
        ("--layout (2,2) --values 4 --atom mma.m16n8k16.f16", "and not both"),
        ("--layout (2,2) --values 4 --tile 8x8", "the tile of a copy is that of its layouts"),
        ("--layout (2,2) --atom mma.m16", "expected an atom such as"),
        ("--layout (2,2) --atom mma.m16n8k16.f16 --operand C", "expected an operand of mma.m16n8k16.f16, A, B, D"),
        ("--layout (2,1) --atom wgmma.m64n16k16.f16 --operand B", "lies in shared memory: expected one that threads"),
        ("--layout (2,2) --atom mma.m16n8k16.f16 --tile 16x16", "expected a tile of multiples of 32x16"),
        ("--layout (2,2):(1,1) --atom mma.m16n8k16.f16", "with each number below its size 4 once, got (2,2):(1,1)"),
        ("--layout (2,2,2,2) --atom mma.m16n8k16.f16", "expected groups along M, N and K"),
        ("--layout (2,2,2) --values 4", "expected rows and columns, such as (16,8):(8,1)"),
        ("--layout (64,64) --atom mma.m16n8k16.f16", "expected a tile of 1 to 32768 elements, got 1024x512"),
        ("--layout", "requires an argument"),
    ],
)
def test_what_cannot_be_tiled_is_said(arguments, message):
    done = draw(*arguments.split())
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
