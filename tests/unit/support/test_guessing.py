"""How far the search for a near name goes: strangers' files have as many names as they like."""

from __future__ import annotations

import pytest

from convc.support.guessing import nearest, some_near


@pytest.mark.parametrize(("others", "found"), [(4999, ["Weight"]), (5000, [])])
def test_the_first_five_thousand_names_are_looked_at(others, found):
    assert some_near("weigth", [*map(str, range(others)), "Weight"]) == found


@pytest.mark.parametrize(("length", "found"), [(200, "w" * 200), (199, None)])
def test_of_a_long_name_the_first_two_hundred_characters_count(length, found):
    assert nearest("w" * length + "x" * (400 - length), ["w" * 200], ratio=1.0) == found
