"""Names are shortened where they are too long, and no two become the same."""

from __future__ import annotations

from convc.support.short_names import LONGEST_NAME, short_names, with_short_names


def test_a_name_is_cut_beyond_its_limit_alone():
    whole = "n" * LONGEST_NAME
    (kept,) = short_names([whole])
    (cut,) = short_names([whole + "n"])
    assert kept == whole
    assert (len(cut), "*" in cut) == (LONGEST_NAME, True)


def test_names_that_would_be_one_keep_more_of_themselves():
    """Those whose difference is in the middle get twice the length, and are whole where that is enough."""
    names = ["a" * 60 + letter + "b" * (2 * LONGEST_NAME - 61) for letter in "xy"]
    assert short_names(names) == names
    assert len(set(short_names([name + "b" * 200 for name in names]))) == 2


def test_names_in_a_sentence():
    name = "f" * (LONGEST_NAME + 1)
    assert with_short_names(f"{name} calls {name[1:]}") == f"{short_names([name])[0]} calls {name[1:]}"
