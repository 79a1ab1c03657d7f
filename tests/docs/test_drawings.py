"""The pictures of ``convc/docs/pictures`` are what ``convc draw`` draws (``--update-golden`` writes them)."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner
from pages import DOCS, text_of

from convc.cli.main import main
from convc.draw.tile import tile_picture
from convc.explain.example import example_tiles
from convc.support.resources import model_folder

PICTURES = {
    "swizzle": "swizzle 64B",
    "tiled": "tiled --layout (4,8):(8,1) --values (1,4)",
    "layout": "layout ((4,8),(2,2)):((32,1),(16,8)) --tile 16x8",
    "descriptor": "descriptor 0x8100010 --kind f16",
    "atom": "atom mma.m16n8k8.tf32",
    "hmma": "hmma --arch turing",
    "registers": "registers --shape 16x128b --num x2",
    "memory": f"memory {model_folder() / 'tiny_conv.onnx'} --schedule slide",
    "tile": f"tile {model_folder() / 'tiny_two_convs.onnx'} --layer stem --tile 0 --r 0 --s 2 --schedule slide",
}


def drawn(name: str) -> str:
    """The picture of a name; ``example`` is the worked example at its last filter column."""
    if name == "example":
        return tile_picture(example_tiles().lanes(0), 2).svg()
    return CliRunner().invoke(main, ["draw", *PICTURES[name].split()], catch_exceptions=False).stdout


@pytest.mark.parametrize("name", [*PICTURES, "example"])
def test_pictures_of_the_pages_are_up_to_date(name, request):
    file = DOCS / "pictures" / f"{name}.svg"
    text = drawn(name)
    if request.config.getoption("--update-golden"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text


def test_every_picture_is_on_a_page():
    shown = set(re.findall(r"\]\(pictures/(\w+)\.svg\)", text_of("draw.md")))
    assert shown == {*PICTURES, "example"} == {file.stem for file in (DOCS / "pictures").iterdir()}
