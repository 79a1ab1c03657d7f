"""Pictures of CuTe layouts say the layout's offsets and holders, in SVG and in LaTeX, and refuse what is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.drawings import table, words

import convc
from convc.cli.draw import draw_command
from convc.cli.main import main
from convc.draw.atoms import named_picture
from convc.draw.descriptors import descriptor_picture
from convc.draw.fields import explain_word
from convc.draw.issued import issued_mmas
from convc.draw.lanes import lanes_picture
from convc.draw.layouts import MOST, holders_picture, layout_picture, swizzled
from convc.draw.memory import memory_picture
from convc.draw.mma import issued_layout, mma_layout, mma_picture
from convc.draw.svg import COLOURS, Picture, group, line, path, rect, text, titled
from convc.draw.swizzles import swizzle_picture
from convc.draw.tikz import tikz
from convc.draw.tile import tile_picture
from convc.draw.tile_order import grid_order, tile_order_picture
from convc.errors import InputError
from convc.explain.example import example_tiles
from convc.ir.launch import load_launch
from convc.layout import Layout, Swizzle, parse
from convc.machine.base.swizzle import swizzle
from convc.support.resources import model_folder

ACCUMULATOR = "((4,8),(2,2)):((32,1),(16,8))"
"""Threads and values of D of mma.sync.m16n8 (PTX manual, figures of the fragments)."""


def draw(*arguments: str):
    return CliRunner().invoke(main, ["draw", *arguments])


def test_a_table_has_the_offset_of_every_coordinate():
    layout = parse("((4,8),(2,2)):((16,1),(8,64))")
    drawn = table(draw("layout", str(layout)).stdout, "layout")
    assert drawn == [[str(layout(row, column)) for column in range(4)] for row in range(32)]
    assert table(layout_picture(Layout(5, 3)).svg(), "layout") == [["0", "3", "6", "9", "12"]]


def test_a_swizzle_moves_the_offsets():
    shown = draw("layout", "(8,8):(8,1)", "--swizzle", "3,0,3").stdout
    assert table(shown, "layout")[5] == [str(40 + (column ^ 5)) for column in range(8)]
    assert "Sw<3,0,3> o _0 o (8,8):(8,1)" in words(shown)
    named = draw("layout", "(8,128):(128,1)", "--swizzle", "128B").stdout
    assert "Sw<3,4,3> o _0 o (8,128):(128,1)" in words(named)


def test_a_tile_has_thread_and_value_of_every_element():
    """Rows and columns of the manual: group = lane / 4, row = group (+ 8), column = lane % 4 * 2 (+ 1)."""
    drawn = table(draw("layout", ACCUMULATOR, "--tile", "16x8").stdout, "tile")
    for thread in range(32):
        for value in range(4):
            row, column = thread // 4 + 8 * (value // 2), thread % 4 * 2 + value % 2
            assert drawn[row][column] == f"T{thread} V{value}"


def test_colours_are_those_of_threads_values_or_offsets():
    for colours, tints in (("thread", "t0t1t2t3"), ("value", "t0t0t0t0"), ("offset", "t0t2t4t6")):
        svg = layout_picture(Layout((4, 2), (2, 1)), colours).svg()
        assert "".join(re.findall(r'data-row="\d"><rect class="(t\d)', svg)) == tints


def test_latex_has_the_cells_of_the_svg():
    picture = holders_picture(parse(ACCUMULATOR), 16, 8)
    text = tikz(picture)
    assert re.findall(r"\{(T\d+ V\d)\}", text) == [cell for row in table(picture.svg(), "tile") for cell in row]
    defined = set(re.findall(r"\\definecolor\{(\w+)\}\{HTML\}\{[0-9A-F]{6}\}", text))
    boxes = re.findall(r"\\fill\[(\w+)\]", text)
    assert {"line", "soft", *boxes} <= defined <= set(COLOURS)
    assert boxes[:4] == ["t0", "t1", "t2", "t3"], "two cells of a thread side by side share a box"
    assert text.count("{") == text.count("}")
    assert text.count(r"\begin") == text.count(r"\end") == 2
    assert re.findall(r"\[right,base\]\{33\}\{([\d.]+)\}\{\\color\{soft\} (\d+)\}", text) == re.findall(
        r'x="33" y="([\d.]+)">(\d+)<', picture.svg()
    )
    for word in ("T0 V0", "T31 V3"):
        (line,) = (line for line in text.splitlines() if line.endswith(f"{{{word}}}"))
        x, y = re.search(r'x="([\d.]+)" y="([\d.]+)" ?[^>]*>' + word, picture.svg()).groups()
        assert line == rf"\words[base]{{{x}}}{{{y}}}{{{word}}}"


def test_latex_has_boxes_lines_and_words_of_every_class():
    parts = [
        rect(1, 2, 10, 20, "t0 box dash"), rect(1, 2, 3, 4, "rim"), rect(1, 2, 3, 4, "hot"), rect(0, 0, 9, 9, "paper"),
        line(1, 2.5, 3, 4, "mark thick"), path("M1 2H5V7M0 0L-3 4", "way"),
        group([text(5, 6, "a  b", "mid soft"), text(7, 8, "x", "strong"), text(9, 9, "y", "halo end")], "told"),
    ]  # fmt: skip
    drawn = tikz(titled("t", 90, 90, parts)).partition(" t}\n")[2].splitlines()
    assert drawn[:-2] == [
        r"\filldraw[fill=t0,draw=line,dash pattern=on 2.25pt off 1.5pt] (1,2) rectangle (11,22);",
        r"\draw[purple,line width=1.5pt] (1,2) rectangle (4,6);",
        r"\fill[hot] (1,2) rectangle (4,6);",
        r"\draw[ink,line width=1.5pt] (1,2.5) -- (3,4);",
        r"\draw[bad,line width=1.1pt] (1,2) -- (5,2) -- (5,7);",
        r"\draw[bad,line width=1.1pt] (0,0) -- (-3,4);",
        r"\words[base]{5}{6}{\color{soft} a~ b}",
        r"\words[left,base]{7}{8}{\sffamily\bfseries x}",
        r"\words[right,base]{9}{9}{\colorbox{paper}{y}}",
    ]


def pictures() -> dict[str, Picture]:
    """One of each kind that is no table of cells, and one that is."""
    found = convc.inspect(model_folder() / "tiny_two_convs.onnx", "stem")
    tiles = found.tiles
    return {
        "atom": named_picture("mma.m8n8k4.f64"),
        "lanes": lanes_picture(tiles.typical(None)),
        "tile": tile_picture(tiles.typical(None), 0),
        "memory": memory_picture(found.plan),
        "order": tile_order_picture(grid_order(4, 6, 8, "hilbert"), 8),
        "descriptor": descriptor_picture(explain_word("0x4000404000010000", None, None)),
    }


def test_every_picture_has_all_of_its_words_in_latex():
    for name, picture in pictures().items():
        told = re.findall(r"\\words\[.*?\]\{[\d.]+\}\{[\d.]+\}\{(.*)\}\n", tikz(picture))
        assert len(told) == picture.svg().count("<text"), name


def test_pdflatex_makes_one_page_of_every_picture(tmp_path, pdflatex):
    for name, picture in pictures().items():
        (tmp_path / f"{name}.tex").write_text(tikz(picture))
        said = pdflatex(tmp_path / f"{name}.tex")
        assert "(1 page" in said, name
        assert "Warning" not in said, said


def test_words_of_strangers_are_escaped_in_latex():
    text = tikz(titled(r"\input{x}_$%&#~^ü  <a|b>", 9, 9, []))
    escaped = (
        r"\textbackslash{}input\{x\}\_\$\%\&\#\textasciitilde{}\textasciicircum{}?~ \texttt{<}a\texttt{|}b\texttt{>}"
    )
    assert rf"\selectfont {escaped}}}" in text


def test_the_format_is_that_of_the_name(tmp_path):
    for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG"), ("tex", rb"\documentclass")):
        assert draw("layout", "(4,4)", "-o", str(tmp_path / f"x.{kind}")).exit_code == 0
        assert (tmp_path / f"x.{kind}").read_bytes().startswith(start)
    for name, command in draw_command.commands.items():
        assert "FILE.svg|.png|.tex" in [option.metavar for option in command.params], name


def test_a_picture_that_tex_cannot_measure_is_refused():
    assert tikz(titled("t", 16000, 9, []))
    with pytest.raises(InputError, match="LaTeX has no room for 16001 x 9 pixels: a side has at most 16000"):
        tikz(titled("t", 16001, 9, []))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["(8,8:(8,1)"], "expected ',' in a layout, got ':'"),
        (["(8,8,2)"], "expected a layout of one or two modes at the top, got 3 in (8,8,2):(1,8,64)"),
        (["()"], "expected a layout of one or two modes at the top, got 0"),
        (["(m,8)"], "expected numbers to draw, got symbols in (m,8):(1,m)"),
        (["(1000,1000)"], f"a picture has at most {MOST} cells"),
        (["(8,8)", "--tile", "2x2"], "thread 4 and value 0 are at element 4 of 4"),
        (["(8,8)", "--tile", "2x0"], "expected rows and columns of a tile, such as 16x8, got '2x0'"),
        (["(8,8)", "--tile", "9999x9999"], "expected a tile of 1 to 32768 elements, got 9999x9999"),
        (["8", "--tile", "2x4"], "expected a layout of threads and values, which has two modes, got 8:1"),
        (["(8,8):(-1,8)", "--tile", "8x8"], "thread 1 and value 0 are at element -1 of 64"),
        (["(8,8)", "--colours", "red"], "expected colours by thread, value, offset, got 'red'"),
        (["(8,8)", "--swizzle", "3,4"], "expected B,M,S such as 3,4,3, or 32B, 64B, 128B, got '3,4'"),
        (["(8,8)", "--swizzle", "4,0,3"], "a magnitude of S of B or more"),
        (["Sw<3,4,3> o 8", "--swizzle", "3,4,3"], "expected a layout without a swizzle beside --swizzle"),
        (["Sw<3,4,3> o (8,8)", "--tile", "8x8"], "a tile has no swizzle"),
        (["(8,8)", "-o", "x.pdf"], "expected FILE.svg, FILE.png, FILE.tex or - for stdout, got 'x.pdf'"),
    ],
)
def test_what_cannot_be_drawn_is_said(arguments, message):
    done = draw("layout", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr


def noted(svg: str, start: str) -> str:
    """The layout of the note that begins so."""
    (note,) = (each for each in words(svg) if each and each.startswith(start) and " -> " in each)
    return note.rpartition(": ")[2]


@pytest.mark.parametrize("mode", ["none", "32B", "64B", "128B"])
def test_the_note_of_a_swizzle_is_what_is_drawn(mode):
    svg = swizzle_picture(mode).svg()
    layout = parse(noted(svg, "row, byte of the row"))
    for row, units in enumerate(table(svg, "operand")):
        for unit, place in enumerate(units):
            line, column = map(int, place.split(","))
            assert layout(row, 16 * unit + 5) == 128 * line + 16 * column + 5


def test_the_note_of_a_tile_is_the_pixel_of_every_lane():
    options = convc.ScheduleOptions(schedule="reload", columns="off")
    tiles = convc.inspect(model_folder() / "tiny_two_convs.onnx", "stem", schedule=options).tiles
    held = tiles.lanes(0, 0)
    layout, start = noted(tile_picture(held, 2).svg(), "lane, filter column").split(", from ")
    for buffer in held.buffers:
        for lane in buffer.lanes:
            for s, cell in zip(buffer.taps, lane.cells, strict=True):
                pixel = 256 * cell.held.n + 16 * cell.held.h + cell.held.w
                assert parse(layout)(lane.lane, s) + int(start.removesuffix(" on")) == pixel
    assert "data-note" not in tile_picture(example_tiles().lanes(0), 0).svg(), "no layout gives pixels of two images"


def test_orders_that_are_layouts_have_a_note_and_others_none():
    svg = tile_order_picture(grid_order(4, 6, 148, "columns"), 148).svg()
    layout = parse(noted(svg, "tile along M"))
    assert table(svg, "grid") == [[str(layout(m, n)) for n in range(6)] for m in range(4)]
    assert "->" not in "".join(words(tile_order_picture(grid_order(4, 6, 148, "hilbert"), 148).svg()))


def test_rows_that_lanes_multiply_have_a_note_where_a_layout_gives_them():
    lanes = example_tiles().lanes(0)
    svg = lanes_picture(lanes).svg()
    layout = parse(noted(svg, f"{lanes.unit}, filter column"))
    for lane in lanes.buffers[0].lanes:
        assert [layout(lane.lane, column) for column in range(3)] == [cell.row for cell in lane.cells]
    moved = convc.inspect(model_folder() / "tiny_conv.onnx", schedule=convc.ScheduleOptions(schedule="shift"))
    svg = lanes_picture(moved.tiles.lanes(0, 0)).svg()
    assert "-> row of shared memory" not in "".join(words(svg)), "halos lie behind the tile"


def test_stages_in_memory_have_a_note():
    plan = convc.inspect(model_folder() / "tiny_conv.onnx", schedule=convc.ScheduleOptions(schedule="slide")).plan
    svg = memory_picture(plan).svg()
    for tile in plan.storage.smem[:2]:
        found = parse(noted(svg, f"{tile.name}: row, byte, stage"))
        for row, byte, stage in ((0, 0, 2), (3, 16, 0), (7, 40, 1)):
            plain = tile.offset + stage * tile.stage_bytes + row * tile.row_bytes + byte
            assert found(row, byte, stage) == swizzle(tile.swizzle, plain)
    (accumulator,) = plan.storage.tmem
    assert noted(svg, "acc: lane, column") == f"(128,{accumulator.columns}):(65536,1)"


@pytest.mark.parametrize(
    ("kind", "m", "n", "bits", "swizzle", "pair"),
    [
        ("f16", 128, 64, 16, "128B", False),
        ("tf32", 64, 24, 32, "none", False),
        ("i8", 128, 32, 8, "32B", True),
        ("mxf4nvf4", 128, 8, 4, "64B", False),
    ],
)
def test_the_notes_of_an_mma_are_what_is_drawn(kind, m, n, bits, swizzle, pair):
    drawn = mma_layout(kind, m, n, swizzle=swizzle, pair=pair)
    svg = mma_picture(drawn).svg()
    for name, places in (("A", drawn.a), ("B", drawn.b)):
        layout = parse(noted(svg, f"{name}: "))
        for row, k in ((0, 0), (5, 3), (len(places) - 1, places.shape[1] - 1)):
            assert layout(row, k) == int(places[row, k]) * 8 // bits + (k % 2 if bits == 4 else 0)
    of_d = parse(noted(svg, "D: "))
    for row in range(len(drawn.lanes)):
        found = [divmod(of_d(row, column), 65536) for column in range(n)]
        assert found == list(zip(drawn.lanes[row], drawn.columns[row], strict=True))


def test_operands_at_addresses_have_these_in_their_notes():
    folder = Path(__file__).parents[2] / "golden" / "slide_f16"
    issued = issued_mmas((folder / "kernel.ptx").read_text(), load_launch(folder / "launch.json"))
    drawn = issued_layout(issued[20])
    layout = parse(noted(mma_picture(drawn).svg(), "A: "))
    rows, columns = drawn.a.shape
    assert layout.offset > 0
    assert [[layout(row, k) * 2 for k in range(columns)] for row in range(rows)] == drawn.a.tolist()


def test_a_swizzle_is_put_on_once():
    once = swizzled(Layout(8), Swizzle(1, 0, 1))
    with pytest.raises(InputError, match="without a swizzle"):
        swizzled(once, Swizzle(1, 0, 1))
