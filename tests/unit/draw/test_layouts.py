"""Layouts as they are drawn are those of the simulator: every element is read back from the picture."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from support.drawings import marked, parsed, table, words

from convc.draw.atoms import registers_picture
from convc.draw.issued import issued_mmas
from convc.draw.mma import cropped, issued_layout, mma_layout, mma_picture, operand_descriptor
from convc.draw.png import LARGEST, png
from convc.draw.svg import COLOURS, STYLE, Picture, arrow, group, plain, rect, text, titled
from convc.draw.swizzles import MODES, swizzle_picture
from convc.draw.tile_order import grid_order, tile_order_picture
from convc.errors import InputError, ToolError
from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.launch import load_launch
from convc.machine import RunOptions, run
from convc.machine.base.swizzle import pitch, swizzle
from convc.machine.isa.tcgen05.ld_st import register_map
from convc.machine.memory.global_memory import CHUNK
from convc.machine.state.observer import Observer
from convc.machine.tensor_core import fetch
from convc.ptx.descriptors import encode_shared


def offsets(svg: str, name: str) -> np.ndarray:
    return np.array([[int(word, 16) for word in row] for row in table(svg, name)])


@pytest.mark.parametrize(
    ("kind", "m", "n", "bits", "swizzle"),
    [
        ("f16", 128, 64, 16, "128B"),
        ("f16", 64, 24, 16, "none"),
        ("tf32", 128, 16, 32, "64B"),
        ("i8", 64, 8, 8, "32B"),
        ("mxf4nvf4", 128, 8, 4, "128B"),
    ],
)
def test_operands_lie_where_the_tensor_core_fetches_them(kind, m, n, bits, swizzle):
    """Bytes whose value is their own number are fetched by descriptor, and compared with the picture of A and B."""
    svg = mma_picture(mma_layout(kind, m, n, swizzle=swizzle)).svg()
    memory = np.arange(1 << 16, dtype=np.uint32)
    for name, rows, drawn in (("A", m, offsets(svg, "A")), ("B", n, offsets(svg, "B").T)):
        index = fetch.chunk_index((encode_shared(operand_descriptor(rows, swizzle)),), rows)
        fetched = memory.reshape(-1, 16)[index].reshape(rows, fetch.SPAN)
        assert CHUNK.itemsize == 16
        columns = np.arange(fetch.SPAN * 8 // bits) * bits // 8
        assert np.array_equal(drawn, fetched[:, columns]), name


@pytest.mark.parametrize(
    ("m", "n", "pair", "lanes", "columns"),
    [
        (128, 16, False, {127: 127}, 16),
        (64, 16, False, {0: 0, 15: 15, 16: 32, 63: 111}, 16),
        (128, 32, True, {0: 0, 63: 63}, 16),
        (256, 32, True, {127: 127}, 32),
    ],
)
def test_d_lies_as_the_table_of_layouts_says(m, n, pair, lanes, columns):
    """Layouts D, F, B and A of the PTX manual; in B the second half of N lies in the lanes from 64 on."""
    svg = mma_picture(mma_layout("f16", m, n, pair=pair)).svg()
    assert ("one CTA of a pair, " in svg) == pair
    places = table(svg, "D")
    for row, lane in lanes.items():
        assert places[row][: columns // 2] == [f"{lane},{column}" for column in range(columns // 2)]
    assert places[0][-1] == (f"64,{columns - 1}" if columns < n else f"0,{n - 1}")
    assert len({place for row in places for place in row}) == len(places) * n


@pytest.mark.parametrize("tip", [(0, 50), (50, 0), (0, -50), (-50, 0), (30, 40)])
def test_the_tip_of_an_arrow_is_small_and_points_away_from_where_it_begins(tip):
    steps = arrow(100, 100, 100 + tip[0], 100 + tip[1]).partition('d="')[2]
    numbers = [float(each) for each in re.findall(r"-?[\d.]+", steps)]
    points = np.array(numbers).reshape(-1, 2) - 100
    assert points[1].tolist() == points[3].tolist() == points[5].tolist() == list(tip)
    length = np.hypot(*tip)
    for wing in points[[2, 4]]:
        assert np.hypot(*(wing - tip)) == pytest.approx(np.hypot(6, 3), abs=0.2)
        assert wing @ tip / length == pytest.approx(length - 6, abs=0.2)


def test_more_of_k_is_the_next_instruction_along_the_swizzled_row():
    one, four = (offsets(mma_picture(mma_layout("f16", 64, 8, k=k)).svg(), "A") for k in (16, 64))
    assert np.array_equal(four[:, :16], one)
    assert sorted(four[9]) == list(range(9 * 128, 10 * 128, 2))


@pytest.mark.parametrize("mode", MODES)
def test_swizzled_units_lie_where_the_copy_engine_writes_them(mode):
    svg = swizzle_picture(mode).svg()
    shared = table(svg, "shared memory")
    for row, units in enumerate(table(svg, "operand")):
        for unit, place in enumerate(units):
            line, column = map(int, place.split(","))
            assert 128 * line + 16 * column == swizzle(mode, row * pitch(mode) + 16 * unit)
            assert shared[line][column] == f"{row},{unit}"


@pytest.mark.parametrize(("shape", "number", "count"), [("32x32b", "x4", 4), ("16x64b", "x8", 8), ("16x256b", "x2", 8)])
def test_registers_are_those_that_the_machine_loads(shape, number, count):
    drawn = table(registers_picture(shape, number).svg(), "tensor memory")
    lanes, columns = register_map(shape, count, 0, False)
    for thread in range(32):
        for register in range(count):
            assert drawn[lanes[thread, register]][columns[thread, register]] == f"T{thread} r{register}"


@pytest.mark.parametrize(
    ("order", "numbers"),
    [
        ("rows", [["0", "3"], ["1", "4"], ["2", "5"]]),
        ("columns", [["0", "1"], ["2", "3"], ["4", "5"]]),
        ("boustrophedon", [["0", "5"], ["1", "4"], ["2", "3"]]),
    ],
)
def test_tiles_have_their_numbers_and_a_path_leads_from_each_to_the_next(order, numbers):
    svg = tile_order_picture(grid_order(3, 2, 4, order), 4).svg()
    assert table(svg, "grid") == numbers
    assert f"rasterization order {order}: 3 x 2 tiles in 2 waves" in words(svg)
    way = re.search(r'class="way" d="M([^"]*)"', svg)[1].split("L")
    places = {number: (row, column) for row, line in enumerate(numbers) for column, number in enumerate(line)}
    x, y = (sorted({float(point.split()[axis]) for point in way}) for axis in (0, 1))
    assert [(y.index(float(b)), x.index(float(a))) for a, b in map(str.split, way)] == [
        places[str(i)] for i in range(6)
    ]


def test_more_sms_than_a_machine_number_holds_make_one_round():
    assert "rasterization order rows: 3 x 2 tiles in 1 wave" in words(
        tile_order_picture(grid_order(3, 2, 4, "rows"), 1 << 80).svg()
    )


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: mma_layout("f64", 128, 64), "expected a kind of tcgen05.mma"),
        (lambda: mma_layout("f16", 100, 64), "M must be a multiple of 16 up to 256, got 100"),
        (lambda: mma_layout("f16", 96, 64), "M=96, N=64 is not a shape"),
        (lambda: mma_layout("f16", -16, 64), "M must be a multiple"),
        (lambda: mma_layout("f16", 128, 64, k=24), "expected k as a multiple of 16"),
        (lambda: mma_layout("f16", 128, 64, k=0), "expected k as a multiple of 16"),
        (lambda: mma_layout("f16", 128, 64, swizzle="16B"), "expected a swizzle"),
        (lambda: swizzle_picture("128B_atom32"), "expected a swizzle of none, 32B, 64B, 128B"),
        (lambda: registers_picture("8x8", "x1"), "expected a shape of 32x32b"),
        (lambda: registers_picture("16x256b", "x64"), "expected a number of x1, x2, x4, x8, x16, x32 for 16x256b"),
        (
            lambda: grid_order(4, 4, 148, "spiral"),
            "expected an order of rows, columns, grouped, boustrophedon, hilbert",
        ),
        (lambda: grid_order(0, 4, 148, "rows"), "expected a grid and SMs of 1 and more"),
        (lambda: grid_order(100000, 100000, 148, "rows"), "expected a grid of at most"),
    ],
)
def test_what_cannot_be_drawn_is_said(draw, message):
    with pytest.raises(InputError, match=message):
        draw()


def test_words_of_strangers_are_escaped():
    evil = "<script>alert('1')</script>\x00&\ud800"
    parts = [rect(0, 0, 1, 1, "t0", evil, name=evil), text(0, 0, evil, name=evil), group((), evil, name=evil)]
    svg = titled(evil, 10, 10, [*parts, arrow(0, 0, 5, 5)]).svg()
    assert "<script" not in svg
    assert [each["name"] for each in marked(svg, "name")] == ["<script>alert('1')</script>?&?"] * 3


def test_every_colour_has_a_light_and_a_dark_value_and_no_variable_is_left_in_plain_text():
    svg = Picture(title="t", width=9, height=9, parts=(rect(0, 0, 1, 1, "t0 box"),))._repr_svg_()
    for dark in (False, True):
        fixed = plain(svg, dark)
        assert "var(" not in fixed
        assert "@media" not in fixed
        assert COLOURS["t0"][dark] in fixed
    assert STYLE in svg
    assert parsed(svg).get("width") == "9"


def test_png_of_a_picture():
    assert png(swizzle_picture("32B")).startswith(b"\x89PNG")
    with pytest.raises(InputError, match=f"at most {LARGEST} pixels a side"):
        png(Picture(title="t", width=20000, height=9, parts=()))


def test_without_the_extra_a_png_is_refused_with_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(ToolError, match="pictures become PNG with the package resvg-py") as raised:
        png(swizzle_picture("32B"))
    assert "convc[draw]" in raised.value.hint
    assert raised.value.exit_code == 2


class Footprints(Observer):
    """Every MMA with the bytes of shared memory and the cells of tensor memory that it reads and writes."""

    def __init__(self) -> None:
        self.found = []

    def tensor_op(self, strand, instr, operation):
        if operation.kind == "mma":
            self.found.append(operation)


@pytest.mark.parametrize("name", ["slide_f16", "shift_chain_f16", "stationary_f16", "scaled_nvfp4"])
def test_issued_operands_are_what_the_machine_reads_and_writes(name):
    """Every byte and cell of the picture is in the simulator's footprint of the instruction, and no other."""
    folder = Path(__file__).parents[2] / "golden" / name
    text = (folder / "kernel.ptx").read_text()
    launch = load_launch(folder / "launch.json")
    issued = issued_mmas(text, launch)
    seen = Footprints()
    buffers = {each: np.zeros(spec.shape, ARRAY_TYPES[spec.dtype]) for each, spec in launch.buffers.items()}
    run(text, launch, buffers, options=RunOptions(ctas=(0, 1)), observer=seen)
    assert [each.mma for each in seen.found] == issued
    mma = issued[20]
    operation = seen.found[20]
    svg = mma_picture(issued_layout(mma)).svg()
    size = 2 if name.endswith("f16") else 1
    read = {int(byte) + i for byte in offsets(svg, "B").flat for i in range(size)}
    if mma.a_in_tensor:
        cells = {tuple(map(int, cell.split(","))) for row in table(svg, "A") for cell in row}
        assert {divmod(int(place), 512) for place in np.ravel(operation.reads)} >= cells
    else:
        read |= {int(byte) + i for byte in offsets(svg, "A").flat for i in range(size)}
    assert set(np.ravel(operation.shared).tolist()) == read
    written = {tuple(map(int, cell.split(","))) for row in table(svg, "D") for cell in row}
    assert {divmod(int(place), 512) for place in np.ravel(operation.writes)} == written
    small = mma_picture(cropped(issued_layout(mma), 8)).svg()
    assert table(small, "D") == [row[:8] for row in table(svg, "D")[:8]]
