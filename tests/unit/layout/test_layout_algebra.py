"""The algebra of layouts keeps CuTe's postconditions on every index, and gives the layouts of its documentation."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st
from sympy import Symbol

from convc import layout as cute
from convc.errors import InputError
from convc.layout import Layout, Swizzle, parse
from convc.layout.extents import at_most
from convc.layout.fitted import fitted, fitted_swizzle
from convc.layout.layouts import concatenated
from convc.layout.tuples import congruent

A = "(9,(4,8)):(59,(13,1))"
BLOCK, ARRANGEMENT = "(2,5):(5,1)", "(3,4):(1,3)"
TILER = (parse("3:3"), parse("(2,4):(1,8)"))


@pytest.mark.parametrize(
    ("got", "documented"),
    [
        (lambda: cute.coalesce(parse("(2,(1,6)):(1,(6,2))")), "12:1"),
        (lambda: cute.coalesce(parse("(2,(1,6)):(1,(6,2))"), (1, 1)), "(2,6):(1,2)"),
        (lambda: cute.composition(parse("(6,2):(8,2)"), parse("(4,3):(3,1)")), "((2,2),3):((24,2),8)"),
        (lambda: cute.composition(parse("20:2"), parse("(5,4):(4,1)")), "(5,4):(8,2)"),
        (lambda: cute.composition(parse("(10,2):(16,4)"), parse("(5,4):(1,5)")), "(5,(2,2)):(16,(80,4))"),
        (
            lambda: cute.composition(parse("(12,(4,8)):(59,(13,1))"), (parse("3:4"), parse("8:2"))),
            "(3,(2,4)):(236,(26,1))",
        ),
        (lambda: cute.composition(parse("(12,(4,8)):(59,(13,1))"), (3, 8)), "(3,(4,2)):(59,(13,1))"),
        (lambda: cute.complement(parse("4:1"), 24), "6:4"),
        (lambda: cute.complement(parse("6:4"), 24), "4:1"),
        (lambda: cute.complement(parse("(4,6):(1,4)"), 24), "1:0"),
        (lambda: cute.complement(parse("4:2"), 24), "(2,3):(1,8)"),
        (lambda: cute.complement(parse("(2,4):(1,6)"), 24), "3:2"),
        (lambda: cute.complement(parse("(2,2):(1,6)"), 24), "(3,2):(2,12)"),
        (lambda: cute.logical_divide(parse("(4,2,3):(2,1,8)"), parse("4:2")), "((2,2),(2,3)):((4,1),(2,8))"),
        (lambda: cute.logical_divide(parse(A), TILER), "((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))"),
        (lambda: cute.zipped_divide(parse(A), TILER), "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))"),
        (lambda: cute.tiled_divide(parse(A), TILER), "((3,(2,4)),3,(2,2)):((177,(13,2)),59,(26,1))"),
        (lambda: cute.flat_divide(parse(A), TILER), "(3,(2,4),3,(2,2)):(177,(13,2),59,(26,1))"),
        (lambda: cute.logical_product(parse("(2,2):(4,1)"), 6), "((2,2),(2,3)):((4,1),(2,8))"),
        (lambda: cute.blocked_product(parse(BLOCK), parse(ARRANGEMENT)), "(6,(5,4)):(5,(1,30))"),
        (lambda: cute.raked_product(parse(BLOCK), parse(ARRANGEMENT)), "((3,2),(4,5)):((10,5),(30,1))"),
        (lambda: cute.recast(parse("(8,64):(64,1)"), 16, 8), "(8,128):(128,1)"),
        (lambda: cute.recast(parse("(8,64):(64,1)"), 16, 64), "(8,16):(16,1)"),
    ],
)
def test_the_layouts_of_the_documentation_come_out(got, documented):
    assert str(got()) == documented


extents = st.sampled_from([1, 2, 2, 3, 4, 4, 6, 8])
strides = st.sampled_from([0, 1, 1, 2, 3, 4, 6, 8, 12, 16, 24])
modes = st.tuples(extents, strides)
nestings = st.recursive(modes, lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=4)


def layout_of(nesting) -> Layout:
    if isinstance(nesting, tuple):
        return Layout(*nesting)
    return concatenated(*map(layout_of, nesting))


any_layout = nestings.map(layout_of).filter(lambda layout: layout.size <= 512)
compact_layout = st.lists(extents, min_size=1, max_size=4).flatmap(
    lambda shape: st.permutations(range(len(shape))).map(lambda order: permuted(tuple(shape), order))
)


def permuted(shape: tuple[int, ...], order: list[int]) -> Layout:
    """A layout whose elements lie behind each other with the modes in some order."""
    stride = [0] * len(shape)
    reached = 1
    for mode in order:
        stride[mode] = reached
        reached *= shape[mode]
    return Layout(shape, tuple(stride))


def made(operation, *operands):
    """The result of an operation; operands for which there is none are passed by."""
    try:
        return operation(*operands)
    except InputError:
        reject()


@given(any_layout)
def test_an_index_is_a_coordinate(layout):
    offsets = layout.offsets()
    for index in range(layout.size):
        assert layout.index(layout.coordinate(index)) == index
        assert layout(index) == layout(layout.coordinate(index)) == offsets[index]
    assert layout.cosize == max(offsets) + 1


@given(any_layout)
def test_coalesce_keeps_the_function(layout):
    simple = cute.coalesce(layout)
    assert simple.depth <= 1
    assert simple.offsets() == layout.offsets()
    by_mode = cute.coalesce(layout, (0,) * layout.rank)
    assert by_mode.offsets() == layout.offsets()
    assert by_mode.rank == layout.rank


@given(st.one_of(any_layout, compact_layout), st.one_of(any_layout, compact_layout))
def test_composition_is_that_of_functions(outer, inner):
    done = made(cute.composition, outer, inner)
    assert done.offsets() == [outer(offset) for offset in inner.offsets()]
    assert fits(inner.shape, done.shape)


def fits(coarse, fine) -> bool:
    """CuTe's compatible: every coordinate of the coarse shape is one of the fine shape."""
    if isinstance(coarse, int):
        return Layout(fine).size == coarse
    return isinstance(fine, tuple) and len(coarse) == len(fine) and all(map(fits, coarse, fine))


def test_what_meets_the_documented_conditions_is_composed():
    """The divisibility conditions of stride and shape, for one number through two modes; or all fit into the first."""
    for length, extent, stride in itertools.product(range(2, 13), range(2, 9), range(1, 13)):
        inner = Layout(extent, stride)
        strides = stride % length == 0 or length % stride == 0
        taken = max(1, length // stride)
        shapes = stride % length == 0 or extent % taken == 0
        if (strides and shapes) or (extent - 1) * stride < length:
            cute.composition(Layout((length, 5), (1, 20)), inner)
        else:
            with pytest.raises(InputError, match="does not fit into mode 0"):
                cute.composition(Layout((length, 5), (1, 20)), inner)


@given(any_layout, st.integers(1, 64))
def test_a_complement_is_disjoint_and_covers(layout, size):
    rest = made(cute.complement, layout, size)
    moving = [pair for pair in layout.pairs if pair[1]]
    both = concatenated(*(Layout(*pair) for pair in moving), rest).offsets()
    assert len(set(both)) == len(both), "disjoint"
    assert sorted(both) == list(range(len(both))), "no hole"
    assert len(both) >= size
    assert list(rest.pairs) == sorted(rest.pairs, key=lambda pair: pair[1]), "ordered"


@given(st.one_of(any_layout, compact_layout))
def test_a_right_inverse_is_one(layout):
    inverse = cute.right_inverse(layout)
    assert [layout(inverse(i)) for i in range(inverse.size)] == list(range(inverse.size))


@given(st.one_of(any_layout, compact_layout))
def test_a_left_inverse_is_one(layout):
    assume(len(set(layout.offsets())) == layout.size)
    inverse = made(cute.left_inverse, layout)
    assert [inverse(layout(i)) for i in range(layout.size)] == list(range(layout.size))


@given(compact_layout)
def test_a_compact_layout_has_its_inverse_on_both_sides(layout):
    for inverse in (cute.right_inverse(layout), cute.left_inverse(layout)):
        assert [inverse(layout(i)) for i in range(layout.size)] == list(range(layout.size))
        assert inverse.size == layout.size


@given(compact_layout, any_layout)
def test_a_divide_has_each_element_once_where_it_fits(layout, tile):
    assume(layout.size % tile.size == 0 and tile.cosize <= layout.size)
    assume(len(set(tile.offsets())) == tile.size)
    divided = made(cute.logical_divide, layout, tile)
    assert divided.modes[0].offsets() == [layout(offset) for offset in tile.offsets()]
    if divided.size == layout.size:
        assert sorted(divided.offsets()) == sorted(layout.offsets())


@given(compact_layout, any_layout)
def test_a_product_has_the_layout_again_and_again(layout, tile):
    made_of = made(cute.logical_product, layout, tile)
    first, rest = made_of.modes
    assert first == layout
    assert fits(tile.shape, rest.shape)
    if len(set(tile.offsets())) == tile.size:
        assert len(set(made_of.offsets())) == made_of.size


def test_variants_have_the_elements_in_another_order():
    layout = Layout((8, 6, 5), (6, 1, 48))
    tiler = (4, 3)
    logical = cute.logical_divide(layout, tiler)
    assert cute.zipped_divide(layout, tiler).modes[0] == cute.composition(layout, tiler)
    for divide, rank in ((cute.zipped_divide, 2), (cute.tiled_divide, 4), (cute.flat_divide, 5)):
        done = divide(layout, tiler)
        assert done.rank == rank
        assert sorted(done.offsets()) == sorted(logical.offsets()) == sorted(layout.offsets())
    for multiply, rank in ((cute.zipped_product, 2), (cute.tiled_product, 4), (cute.flat_product, 5)):
        done = multiply(layout, tiler)
        assert done.rank == rank
        assert sorted(done.offsets()) == sorted(cute.logical_product(layout, tiler).offsets())


def test_a_swizzle_stays_outside():
    tile = parse("Sw<3,4,3> o _0 o (8,128):(128,1)")
    done = cute.logical_divide(tile, (4, 32))
    assert str(done) == "Sw<3,4,3> o _0 o ((4,2),(32,4)):((128,512),(1,32))"
    assert sorted(done.offsets()) == sorted(tile.offsets())
    assert cute.composition(Swizzle(3, 4, 3), Layout((8, 128), (128, 1))) == tile
    assert cute.composition(tile, (2, 2)).offsets() == [tile(0, 0), tile(1, 0), tile(0, 1), tile(1, 1)]


M = Symbol("m", integer=True, positive=True)
N = Symbol("n", integer=True, positive=True)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (3, 1)])
def test_symbols_are_numbers_that_are_not_known(m, n):
    """What comes out with symbols is, with numbers put in, what comes out of the numbers."""
    layout = parse("(64*m,n):(n,1)")
    for operation in (
        lambda given: cute.logical_divide(given, (64, 1)),
        lambda given: cute.composition(given, (parse("8:4"), 1)),
        cute.right_inverse,
        cute.left_inverse,
        lambda given: cute.complement(given, given.size),
        lambda given: cute.logical_product(given, parse("(2,3):(3,1)")),
    ):
        numbers = operation(Layout((64 * m, n), (n, 1)))
        symbols = put(operation(layout), {M: m, N: n})
        assert symbols.offsets() == numbers.offsets()


def test_what_is_known_of_symbols():
    assert at_most(M, M * N) is True
    assert at_most(2 * M * N, M) is False
    assert at_most(M * N, M) is None
    assert at_most(64 * M, 63) is False
    assert at_most(M - M, 0) is True


def put(layout: Layout, values) -> Layout:
    def value(nested):
        if isinstance(nested, tuple):
            return tuple(map(value, nested))
        return nested if isinstance(nested, int) else nested.subs(values)

    return Layout(value(layout.shape), value(layout.stride))


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (lambda: cute.logical_divide(parse("m:1"), 64), "the complement of 64:1 up to m depends on symbols"),
        (lambda: cute.composition(parse("(m,8):(1,100)"), parse("4:3")), "4:3, what is left of 4:3, cannot be seen"),
        (lambda: cute.composition(parse("(6,2):(8,2)"), parse("4:4")), "does not fit into mode 0 of (6,2):(8,2)"),
        (lambda: cute.composition(parse("(2,2):(1,10)"), parse("(2,2):(1,1)")), "its modes add up to coordinate 2 in"),
        (lambda: cute.composition(parse("(m,2):(1,99)"), parse("(m,m):(1,1)")), "expected to know that it is less"),
        (lambda: cute.composition(parse("8:1"), parse("2:-1")), "expected strides of 0 or more in 2:-1"),
        (lambda: cute.composition(parse("8:1"), (2, 2)), "expected a tiler of at most 1 modes for 8:1, got 2"),
        (lambda: cute.complement(parse("(2,2):(1,1)"), 8), "a stride that is a multiple of 2, which lies below 2:1"),
        (lambda: cute.complement(parse("(4,4):(m,n)"), 64), "which of the strides m and n is larger"),
        (lambda: cute.complement(parse("4:-1"), 64), "expected strides that are not negative"),
        (lambda: cute.recast(parse("(8,3):(3,1)"), 16, 32), "its mode 8:3 that 2 divides"),
        (lambda: cute.recast(parse("8:2"), 16, 8), "expected a mode of stride 1"),
        (lambda: cute.recast(parse("8:1"), 16, 12), "one is a multiple of the other, got 16 and 12"),
    ],
)
def test_what_has_no_layout_is_refused_by_name(operation, message):
    with pytest.raises(InputError) as refused:
        operation()
    assert message in str(refused.value)


WRITTEN = "an extent that is a multiple is written as one, such as 64*m"


@pytest.mark.parametrize(
    ("operation", "hint"),
    [
        (lambda: parse("(4,8):(1,(2,3))"), "(4,8):(1,4) has its elements behind each other"),
        (lambda: cute.composition(parse("(6,2):(8,2)"), parse("4:4")), ""),
        (lambda: cute.composition(parse("(m,8):(1,100)"), parse("4:3")), WRITTEN),
        (
            lambda: cute.composition(parse("(2,2):(1,10)"), parse("(2,2):(1,1)")),
            "modes of the layout on the right must not meet",
        ),
        (lambda: cute.composition(parse("(m,2):(1,99)"), parse("(m,m):(1,1)")), WRITTEN),
        (lambda: cute.logical_divide(parse("m:1"), 64), WRITTEN),
    ],
)
def test_a_hint_says_what_would_have_a_layout(operation, hint):
    """Where symbols leave it open, how to write them; where numbers do not fit, no word of symbols."""
    with pytest.raises(InputError) as refused:
        operation()
    assert refused.value.hint == hint


def test_a_swizzle_stays_in_front_of_what_is_divided():
    swizzled = parse("Sw<3,4,3> o (64,64):(64,1)")
    tiler = (parse("8:1"), parse("16:1"))
    assert str(cute.tiled_divide(swizzled, tiler)) == "Sw<3,4,3> o _0 o ((8,16),8,4):((64,1),512,16)"


def test_a_recast_has_the_same_bytes():
    halves = parse("((4,2),16):((16,64),1)")
    words = cute.recast(halves, 16, 32)
    assert {offset * 4 for offset in words.offsets()} == {offset * 2 // 4 * 4 for offset in halves.offsets()}
    assert cute.recast(words, 32, 16) == halves
    assert congruent(words.shape, halves.shape)


@given(any_layout, any_layout, st.integers(0, 99))
def test_a_layout_is_found_in_its_offsets(rows, columns, first):
    table = [[first + row + column for column in columns.offsets()] for row in rows.offsets()]
    found, base = fitted(table)
    assert base == first
    assert found == concatenated(cute.coalesce(rows), cute.coalesce(columns))


def test_a_swizzled_layout_is_found_and_what_is_none_is_not():
    tile = parse("Sw<3,4,3> o smem_ptr[16b](0x420) o (16,16):(64,1)")
    table = [[tile(row, column) for column in range(16)] for row in range(16)]
    assert str(fitted_swizzle(table, tile.swizzle, 16)) == str(tile)
    assert fitted(table) is None
    assert fitted([[0, 1, 3]]) is None
    assert fitted([[0, 1], [2, 4]]) is None


def test_extents_of_very_many_terms_are_not_compared():
    """Of a power of a symbol there are as many terms as its exponent, once the symbol is a sum."""
    assert at_most(M, M**20 * N**20) is True
    assert at_most(M**20 * N**20 + 1, M) is False
    assert at_most(M, M**31 * N**31) is None
