"""The table of silicon: 75 layers are recorded, the page has what is recorded, and a user's numbers stand beside it."""

from __future__ import annotations

import dataclasses

import pytest

from benchmarks import silicon


def test_each_layer_is_recorded():
    rows = silicon.read()
    assert [*rows] == [*silicon.layers()]
    assert len(rows) == 75
    assert all(row.tuned <= row.auto for row in rows.values()), "what the estimates take is among the candidates"


def test_the_page_has_what_is_recorded(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(silicon.PAGE.read_text("utf-8"), "utf-8")
    monkeypatch.setattr(silicon, "PAGE", page)
    shown = page.read_text("utf-8")
    silicon.put_on_page([*silicon.read().values()])
    assert page.read_text("utf-8") == shown, "python -m benchmarks.silicon --page"


def test_numbers_come_back_as_they_were_written(tmp_path):
    rows = [*silicon.read().values()]
    rows[0] = dataclasses.replace(rows[0], cudnn=None, kernel="")
    silicon.write(rows, tmp_path / "n.csv")
    assert [*silicon.read(tmp_path / "n.csv").values()] == rows


def test_mine_stand_beside_ours_and_what_is_missing_is_left_out():
    ours = silicon.read()
    (first, second, *_) = ours.values()
    mine = [dataclasses.replace(first, cudnn=None), dataclasses.replace(second, layer="mine")]
    lines = list(silicon.table(mine, ours))
    assert lines[2].endswith(f"| {first.cudnn:.2f} / {first.auto:.2f} / {first.tuned:.2f} |")
    assert lines[2].startswith(f"| {first.layer} |  | ")
    assert lines[3].endswith("| |")
    assert {line.count("|") for line in lines} == {10}
    assert "tuned / cudnn" in silicon.means(mine)
    assert "cudnn" not in silicon.means(mine[:1])


def test_without_a_gpu_it_says_so(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr("sys.argv", ["silicon", "--layers", "none"])
    with pytest.raises(SystemExit, match="G100"):
        silicon.main()
