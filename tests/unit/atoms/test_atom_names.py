"""Atoms by name, and their layouts in CuTe's notation."""

from __future__ import annotations

import re

import numpy as np
import pytest

from convc.atoms.families import atom_names, find_atom
from convc.atoms.tensor import moved
from convc.atoms.warp import wgmma
from convc.errors import InputError
from convc.layout import parse

NAMES = tuple(atom_names())


def test_every_name_makes_the_atom_of_that_name():
    assert len(set(NAMES)) == len(NAMES) > 250
    for name in NAMES:
        atom = find_atom(name)
        assert atom.name == name
        for held in atom:
            _, _, row, column = held.places
            assert row.max() < held.rows, (name, held.name)
            assert column.max() < held.columns, (name, held.name)


def test_the_notation_gives_the_places():
    """Thread and value, as coordinates of the layout that is printed, lead to the place."""
    for name in NAMES:
        for held in find_atom(name):
            copies = any(mode.copy and mode.extent > 1 for mode in held.values)
            if not copies and held.rows * held.columns < 5000:
                thread, value, row, column = held.places
                told = np.array(parse(str(held.layout)).offsets()).reshape(held.value_count, held.thread_count)
                along, across = held.steps
                assert np.array_equal(told[value, thread], along * row + across * column), (name, held.name)


@pytest.mark.parametrize(
    ("name", "layouts"),
    [
        ("mma.m16n8k8.tf32", "((4,8),(2,2)):((16,1),(8,64)) ((4,8),2):((8,1),32) ((4,8),(2,2)):((32,1),(16,8))"),
        (
            "mma.m16n8k16.f16",
            "((4,8),(2,2,2)):((32,1),(16,8,128)) ((4,8),(2,2)):((16,1),(8,64)) ((4,8),(2,2)):((32,1),(16,8))",
        ),
        ("tcgen05.ld.32x32b.x4", "(32,4):(65536,1)"),
        ("ldmatrix.m8n8.x1", "((4,8),2):((16,1),8) (8,8):(1,8)"),
    ],
)
def test_notations_that_the_field_knows(name, layouts):
    """Those of CUTLASS's SM80_16x8_Row and its like."""
    assert " ".join(str(held.layout) for held in find_atom(name)) == layouts


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mma.m16n8k16.f61", "near are .*mma.m16n8k16.f16"),
        ("mma.m16n8k32.f16", "of f16 there are m16n8k8, m16n8k16"),
        ("mma.sp.m16n8k8.f16", "of f16 there are: m16n8k16, m16n8k32"),
        ("mma.sp.m16n8k8.f64", "of f64 there are: none"),
        ("wmma.m16n16k8.f16", "m16n16k16, m32n8k16, m8n32k16"),
        ("wgmma.m64n12k16.f16", "multiple of 8"),
        ("wgmma.m64n40k32.s8", "no wgmma of s8 with N=40"),
        ("wgmma.m64n64k16.tf32", "K of tf32 is 8"),
        ("wgmma.m64n64k8.tf32.mn", "cannot be MN-major"),
        ("wgmma.m64n32k16.f16.mn", "multiple of 64 elements"),
        ("ldmatrix.m16n8.x1.trans", "there is no ldmatrix.m16n8.trans"),
        ("ldmatrix.m16n16.x4.trans", "x1 or .x2"),
        ("tcgen05.ld.16x256b.x64", "x1, x2, x4, x8, x16, x32 for 16x256b"),
        ("tcgen05.ld.16x64b.x3", "got 'x3'"),
        ("tcgen05.st.16x64b.x2.pack::16b", "tcgen05.ld packs"),
        ("tcgen05.mma.m192n64.f16", "M is 64 or 128"),
        ("tcgen05.mma.m64n64.mxf4", "M is 128"),
        ("tcgen05.mma.m128n64.mxf4.ws", "neither pairs"),
        ("tcgen05.mma.m128n64.tf32.mn", "128B_atom32"),
        ("tcgen05.mma.m128n64.mxf4.mn", "4 bits cannot be MN-major"),
        ("tcgen05.mma.m128n99999999999.f16", "expected an atom"),
        ("x" * 10**6, "--list"),
        ("mma.m16n8k１６.f16", "near are"),
        ("", "--list"),
    ],
)
def test_names_of_no_atom_are_refused_with_what_is_near(name, message):
    with pytest.raises(InputError) as caught:
        find_atom(name)
    assert re.search(message, f"{caught.value.message} {caught.value.hint}")


def test_a_shape_of_no_load_is_refused():
    with pytest.raises(InputError, match="expected a shape"):
        moved("64x32b", 1)


@pytest.mark.parametrize("element", ["s8", "u8"])
def test_wgmma_of_integers_has_fewer_widths(element):
    """PTX manual, wgmma.mma_async: the shapes of .u8 and .s8 are those of a table of their own."""

    def widths(kind: str) -> list[int]:
        found = []
        for n in range(0, 272, 4):
            try:
                wgmma(n, kind)
            except InputError:
                continue
            found.append(n)
        return found

    assert widths(element) == [8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256]
    assert widths("e4m3") == list(range(8, 264, 8))
