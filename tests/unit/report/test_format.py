"""Words that several reports use."""

from __future__ import annotations

import pytest

from convc.report.format import element_place


@pytest.mark.parametrize(
    ("element", "said"),
    [
        ((0, 1, 2), "n=0, k=1, q=2"),
        ((0, 1, 2, 3), "n=0, k=1, p=2, q=3"),
        ((0, 1, 2, 3, 4), "n=0, k=1, o=2, p=3, q=4"),
    ],
)
def test_an_element_has_a_letter_for_each_of_its_axes(element, said):
    assert element_place(element) == said
