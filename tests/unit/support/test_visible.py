"""Names of strangers on a terminal."""

from convc.support.visible import visible


def test_marks_that_turn_or_end_a_line_are_spelled_out():
    assert visible("a\u202eb\u2066c\u2028d\x1be\x9bf") == r"a\u202eb\u2066c\u2028d\x1be\x9bf"
    assert visible("größe\tÄ שלום 層\n") == "größe\tÄ שלום 層\n"
