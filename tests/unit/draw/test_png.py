"""PNG files: a picture that takes long is drawn where somebody can be told meanwhile, and is the same picture."""

from __future__ import annotations

import pytest

from convc.draw import png as pngs
from convc.draw.png import png
from convc.draw.svg import text, titled


@pytest.fixture
def picture():
    return titled("some words", 400, 200, [text(20 + x, 60 + y, "x") for x in range(0, 200, 40) for y in (0, 40)])


def test_somebody_is_told_while_a_large_picture_is_drawn(picture, monkeypatch):
    alone = png(picture)
    told: list[tuple[str, float]] = []
    assert png(picture, lambda what, part: told.append((what, part))) == alone
    assert told == []  # it is small
    monkeypatch.setattr(pngs, "WORDS_A_SECOND", 5)
    monkeypatch.setattr(pngs, "TOLD_S", 0.01)
    assert png(picture, lambda what, part: told.append((what, part))) == alone
    assert {what for what, _ in told} == {"draw the PNG"}
    shares = [part for _, part in told]
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] < 1
