"""What README.md and the pages of ``convc/docs`` show is what happens: `reader.Reader` does it and compares."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from pages import DOCS
from reader import Reader, blocks_of, same, typed

ROOT = DOCS.parents[1]
PAGES = sorted([ROOT / "README.md", *DOCS.glob("*.md")])
RUN_ELSEWHERE = {"add_a_form.md", "add_a_schedule.md", "add_a_step.md", "your_kernels.md"}
"""Pages that a test of their own follows: their Python goes into packages of convc, or needs what is not installed."""

MOST_LINES_OF_README = 180


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """Someone in an empty folder that has the small models."""
    (tmp_path / "models").mkdir()
    for model in (ROOT / "models").glob("*.onnx"):
        shutil.copy(model, tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    return Reader(tmp_path)


def to_run() -> list[Path]:
    """The pages that have something to do."""
    kinds = {"console", "python", "pycon"}
    pages = (page for page in PAGES if page.name not in RUN_ELSEWHERE)
    return [page for page in pages if any(block.language in kinds for block in blocks_of(page.read_text("utf-8")))]


@pytest.mark.parametrize("page", to_run(), ids=lambda page: page.name)
def test_what_a_page_shows_happens(page, reader):
    reader.follow(page.read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_in_blocks_that_are_run(page):
    lines = page.read_text("utf-8").splitlines()
    assert [line for line in lines if line.startswith("    $ ")] == []


def test_the_readme_is_read_in_one_sitting():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= MOST_LINES_OF_README


@pytest.mark.parametrize(
    ("shown", "made", "alike"),
    [
        ("a  b\n", "a b   \n", True),
        ("one, 0.13 s simulated\n", "one, 12.5 s simulated\n", True),
        ("one, 0.13 s simulated\n", "two, 0.13 s simulated\n", False),
        ("12 stages\n", "13 stages\n", False),
        ("first\n...\nlast\n", "first\nmore\nand more\nlast\n", True),
        ("first ... last\n", "first last\n", True),
        ("first\n...\n", "second\n", False),
        ("a.c\n", "abc\n", False),
        ("", "something\n", False),
    ],
)
def test_what_is_compared(shown, made, alike):
    assert same(shown, made) == alike


def test_commands_and_what_comes_out_are_told_apart():
    console = "$ convc compile m.onnx \\\n    -o build\nwrote build\n$ ls\n"
    assert typed(console) == [("convc compile m.onnx      -o build", "wrote build\n"), ("ls", "")]


@pytest.mark.parametrize(
    "page",
    [
        "```console\n$ convc explain P100\nsomething else\n```\n",
        "```console\n$ convc explain P999\n...\n```\n",
        "```console\n$ false\n```\n",
        "```pycon\n>>> 1 + 1\n3\n```\n",
        "```python\nassert 1 == 2\n```\n",
    ],
)
def test_the_reader_notices(page, reader):
    with pytest.raises(AssertionError):
        reader.follow(page)


def test_blocks_of_a_page_share_a_folder_and_names(reader):
    reader.follow(
        "```text a.txt\nhello\n```\n```console\n$ cat a.txt\nhello\n$ convc explain P999\nerror...\n$ echo $?\n2\n```\n"
        "```python\nx = 2\n```\n```pycon\n>>> x + 1\n3\n>>> y = x\n```\n```python\nassert y == 2\n```\n"
    )


def test_every_page_is_in_the_contents_of_the_site():
    contents = (DOCS / "index.md").read_text("utf-8")
    listed = re.findall(r"^(\w+)$", "".join(re.findall(r"^```{toctree}\n(.*?)^```$", contents, re.M | re.S)), re.M)
    assert sorted(listed) == sorted(
        page.stem for kind in ("*.md", "*.ipynb") for page in DOCS.glob(kind) if page.stem != "index"
    )
