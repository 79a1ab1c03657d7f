"""Tables fit: no number and no shape is broken at any width, and names are broken last."""

from __future__ import annotations

import fnmatch
import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from convc.report.grid import SHORTENED, Column, Row, grid_lines, print_grid
from convc.report.verify import LAYER_COLUMNS, SHOWN
from convc.support.short_names import LONGEST_NAME, short_names

COLUMNS = (
    Column("layer", name=True),
    Column("convolution", below=True),
    Column("schedule"),
    Column("cycles", "right"),
    Column("us", "right"),
    Column("of peak", "right"),
    Column("verdict"),
)
ROWS = (
    Row(("layer1.0.conv1", "1x64x56x56 * 64x3x3, pad 1 -> 56x56", "slide", "5931", "3.2", "24.7%", "exact, in bound")),
    Row(("conv1", "1x3x224x224 * 64x7x7, stride 2, pad 3 -> 112x112", "reload", "12346", "6.7", "8%", "in bound")),
    Row(("/model.24/cv2/conv/Conv", "16x2048x7x7 * 512x1x1 -> 7x7", "shift windows", "479", "0.3", "1%", "exact")),
)


def text_at(width: int | None) -> list[str]:
    return [line for line, _ in grid_lines(COLUMNS, ROWS, width)]


@pytest.mark.parametrize("width", range(60, 201))
def test_nothing_but_a_name_is_broken(width):
    lines = text_at(width)
    words = {word for line in lines for word in line.split()}
    for row in ROWS:
        for cell in row.cells[1:]:
            assert set(cell.split()) <= words
    assert max(map(cell_len, lines)) <= width
    assert len(lines) <= 2 * (len(ROWS) + 1) + 4  # a name or a verdict may need more lines


def test_a_wide_table_has_a_line_for_each_row():
    lines = text_at(None)
    assert lines == text_at(200)
    assert len(lines) == 1 + len(ROWS)
    assert lines[1].split() == " ".join(ROWS[0].cells).split()
    assert lines[0].index("cycles") + len("cycles") == lines[1].index("5931") + len("5931")


def test_the_convolution_goes_below_where_it_must():
    lines = text_at(64)
    assert "  1x64x56x56 * 64x3x3, pad 1 -> 56x56" in lines
    assert "convolution" not in " ".join(lines)


def test_names_keep_whole_while_there_is_room():
    assert any(line.startswith("/model.24/cv2/conv/Conv ") for line in text_at(80))
    assert not any("/model.24/cv2/conv/Conv" in line for line in text_at(60))


def test_wide_characters_take_two_places():
    lines = [line for line, _ in grid_lines(COLUMNS[:2], [Row(("卷积", "1x1")), Row(("a", "2x2"))], None)]
    assert cell_len(lines[1][: lines[1].index("1x1")]) == cell_len(lines[2][: lines[2].index("2x2")])


def test_a_narrow_pipe_is_asked_for(monkeypatch):
    paper = io.StringIO()
    monkeypatch.setenv("COLUMNS", "64")
    print_grid(Console(file=paper, width=1 << 20), COLUMNS, ROWS)
    assert paper.getvalue().splitlines() == text_at(64)


def test_seven_columns_are_shown():
    assert len(SHOWN) == 7
    assert set(SHOWN) <= {heading for heading, _ in LAYER_COLUMNS}


def test_a_long_name_is_a_pattern_that_means_it_alone():
    names = ["conv1", "a/" * 190, *(f"{'encoder/' * 20}{i}/{'block/' * 20}Conv" for i in range(3)), "x" * LONGEST_NAME]
    short = short_names(names)
    assert (short[0], short[-1]) == (names[0], names[-1])
    assert len(short[1]) == LONGEST_NAME
    assert len(set(short)) == len(names)
    for name, pattern in zip(names, short, strict=True):
        assert [one for one in names if fnmatch.fnmatchcase(one, pattern)] == [name]


def test_a_table_of_long_names_says_how_to_name_them():
    paper = io.StringIO()
    console = Console(file=paper, width=200)
    long = Row(("y" * 380, *ROWS[0].cells[1:]))
    print_grid(console, COLUMNS, [ROWS[0], long])
    assert max(map(len, paper.getvalue().splitlines())) <= 200
    assert paper.getvalue().splitlines()[-1] == SHORTENED
    print_grid(console, COLUMNS, [long], whole=True)
    assert "y" * 380 in paper.getvalue().replace("\n", "")
