"""CuTe's notation is read and printed, and what is not of it is refused with its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import Symbol

from convc.errors import InputError
from convc.layout import Composed, Layout, Swizzle, complement, parse


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("8", "8:1"),
        ("(_4,_8):(_8,_1)", "(4,8):(8,1)"),
        ("((4,8),(2,2)):((16,1),(8,64))", "((4,8),(2,2)):((16,1),(8,64))"),
        (" ( 4 , (2, 3) ) ", "(4,(2,3)):(1,(4,8))"),
        ("(m, 64*n):(64*n, 1)", "(m,64*n):(64*n,1)"),
        ("(m,m^2):(m*m,1)", "(m,m^2):(m^2,1)"),
        ("(8):(-1)", "(8):(-1)"),
        ("Sw<3,4,3> o _0 o (8,64):(64,1)", "Sw<3,4,3> o _0 o (8,64):(64,1)"),
        ("S<2,4,-3> o 16 o (8,64):(64,1)", "Sw<2,4,-3> o _16 o (8,64):(64,1)"),
        ("Sw<3,4,3> o (8,64):(64,1)", "Sw<3,4,3> o _0 o (8,64):(64,1)"),
        ("Sw<3,4,3> o 64", "Sw<3,4,3> o _0 o 64:1"),
        ("Sw<3,4,3> o 64:2", "Sw<3,4,3> o _0 o 64:2"),
        ("Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)", "Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)"),
        ("Sw<3,4,3> o smem_ptr[16b](0x420) o (8,16):(64,1)", "Sw<3,4,3> o smem_ptr[16b](0x420) o (8,16):(64,1)"),
    ],
)
def test_what_is_read_is_printed(text, printed):
    assert str(parse(text)) == printed
    assert parse(printed) == parse(text)


shapes = st.recursive(st.integers(1, 9), lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)


@given(shapes)
def test_the_print_of_a_layout_is_read_as_the_layout(shape):
    assert parse(str(Layout(shape))) == Layout(shape)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a number in a layout, got the end"),
        ("(4,8:(1,2)", "expected ',' in a layout, got ':'"),
        ("(4,8):(1,(2,3))", "expected strides that are nested as the shape (4,8) is, got (1,(2,3))"),
        ("(4,0):(1,2)", "expected extents of 1 or more, got 0 as number 1 of (4,0)"),
        ("(4,8):(1,2) 3", "expected the end in a layout, got '3'"),
        ("(?,1):(1,2)", "an extent that is not known has a name here"),
        ("(4,8):(1@0,1@1)", "are coordinates of a tensor map"),
        ("(m/2):(1)", "64*m in place of n"),
        ("__import__('os')", "expected a number in a layout, got '_'"),
        ("f(8)", "expected the end in a layout, got '('"),
        ("Sw<3,4,2> o 8:1", "a magnitude of S of B or more"),
        ("Sw<3,4> o 8:1", "expected ',' in a layout, got '>'"),
        ("Sw<3,30,3> o 8:1", "at most 32 bits"),
        ("Sw<3,4,3> o smem_ptr[12b](unset) o 8:1", "expected elements of 1, 2, 4, 8, 16, 32, 64, 128 bits"),
        ("Sw<3,4,3> o smem_ptr[16b](0x401) o 8:1", "an address that is a multiple of 16 bits"),
        ("Sw<3,4,3> o smem_ptr[16b](set) o 8:1", "unset or an address such as 0x400"),
        ("9" * 16, "a number of at most 15 digits"),
        ("(" * 20, "at most 16 tuples in each other"),
        (f"({','.join('1' * 65)})", "a shape of at most 64 extents"),
        ("m*" * 9 + "m", "at most 8 factors"),
        ("m^99", "a power from 1 to 8"),
        ("m" * 17, "a name of at most 16 letters"),
        ("1" * 2001, "expected a layout of at most 2000 letters, got 2001"),
        ("(4,\x00)", "expected a number in a layout, got"),
    ],
)
def test_what_is_no_layout_is_refused(text, message):
    with pytest.raises(InputError) as refused:
        parse(text)
    assert message in str(refused.value)


def test_a_mistake_is_marked():
    with pytest.raises(InputError) as refused:
        parse("(4,8,:(1")
    assert str(refused.value).splitlines()[1:5] == ["  --> layout:1:6", "  |", "1 | (4,8,:(1", "  |      ^"]


def test_coordinates_are_numbers_or_tuples():
    layout = parse("((4,8),(2,2)):((32,1),(16,8))")
    assert (layout.size, layout.cosize, layout.rank, layout.depth) == (128, 128, 2, 2)
    assert layout(37) == layout(5, 1) == layout((1, 1), (1, 0)) == 32 + 1 + 16
    assert layout.coordinate(37) == ((1, 1), (1, 0))
    assert layout.index((1, 1), 1) == 37
    assert layout.offsets() == [layout(index) for index in range(128)]
    assert parse("(4,1):(1,100)")(5) == 101, "the last mode goes on"


@pytest.mark.parametrize("coordinate", [(1, 2, 3), ((1, 1, 1), 0), -1, (0, (0, (0, 1))), 1.5, True])
def test_a_coordinate_that_does_not_fit_is_refused(coordinate):
    with pytest.raises(InputError, match="expected"):
        parse("((4,8),(2,2)):((32,1),(16,8))")(coordinate)


def test_symbols_stay_symbols():
    m = Symbol("m", integer=True, positive=True)
    layout = Layout((m, 64), (64, 1))
    assert (layout.size, layout.cosize) == (64 * m, 64 * m)
    assert layout(m - 1, 63) == 64 * m - 1
    with pytest.raises(InputError, match="depends on m"):
        layout(100)
    with pytest.raises(InputError, match="expected numbers, got symbols"):
        layout.offsets()
    with pytest.raises(InputError, match="expected an expression that is a whole number, got m/2"):
        Layout(m / 2)
    with pytest.raises(InputError, match="expected extents of 1 or more"):
        Layout(m - 1)


def test_large_powers_are_not_multiplied_out():
    """A difference in eight symbols to the 64th would have 65^8 terms."""
    layout = parse(f"({','.join(['a*b*c*d*e*f*g*h'] * 48)},2):({','.join(['a'] * 48)},b^2*c)")
    with pytest.raises(InputError, match="depends on symbols: expected to know which of the strides"):
        complement(layout, 64)


def test_too_many_offsets_are_not_listed():
    with pytest.raises(InputError, match="of which at most 4194304 are listed"):
        parse("(1000000,1000000)").offsets()


def test_a_swizzle_moves_units_of_a_row():
    """128B: the 16-byte unit of a row of 128 bytes is changed by the row (PTX manual, swizzling modes)."""
    swizzle = Swizzle(3, 4, 3)
    assert [swizzle(128 * 5 + 16 * unit) for unit in range(8)] == [128 * 5 + 16 * (unit ^ 5) for unit in range(8)]
    assert Swizzle(3, 4, -3)(0b111 << 4) == 0b111_111 << 4


def test_a_pointer_counts_elements_and_swizzles_bytes():
    halves = parse("Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)")
    same = parse("Sw<3,3,3> o _0 o (8,64):(64,1)")
    assert halves.offsets() == same.offsets()
    fours = Composed(swizzle=Swizzle(3, 4, 3), unit=4, layout=Layout((8, 256), (256, 1)))
    assert fours(1, 0) == 256 + 32
