"""Tokens, their places, and the marks between them."""

from __future__ import annotations

import pytest

from convc.errors import PtxSyntaxError
from convc.ptx import lexer
from convc.ptx.lexer import Tokens
from convc.ptx.numbers import read_integer, read_number


def words(text: str) -> list[str]:
    return [token for token in Tokens(text, "k.ptx").texts if token]


def test_a_word_keeps_its_modifiers():
    assert words("@!%p tcgen05.mma.cta_group::1 [%r1+-4], {%a,_};") == [
        "@",
        "!",
        "%p",
        "tcgen05.mma.cta_group::1",
        "[",
        "%r1",
        "+",
        "-",
        "4",
        "]",
        ",",
        "{",
        "%a",
        ",",
        "_",
        "}",
        ";",
    ]


def test_directives_stand_alone():
    assert words(".reg.b16 %h<4>; .shared .b8 x[2];") == [
        ".reg",
        ".b16",
        "%h",
        "<",
        "4",
        ">",
        ";",
        ".shared",
        ".b8",
        "x",
        "[",
        "2",
        "]",
        ";",
    ]


def test_modifiers_with_digits_and_numbers():
    assert words("a.16x64b 1.5 .5 1e-3 0f3F800000 0x1f+5 5U L:") == [
        "a.16x64b",
        "1.5",
        ".5",
        "1e-3",
        "0f3F800000",
        "0x1f",
        "+",
        "5",
        "5U",
        "L",
        ":",
    ]


def test_a_name_ends_in_front_of_what_does_not_go_on():
    """On Python 3.11.2 a group that is repeated without a way back takes half of its next turn with it."""
    assert words("a.; .b::, a..b") == ["a", ".", ";", ".b", ":", ":", ",", "a", ".", ".b"]


def test_comments_and_blanks_vanish():
    assert words("a /* b\n * c // d */ e // f é\n\t g\r\nh /**/") == ["a", "e", "g", "h"]


def test_positions():
    tokens = Tokens("ab\r\n\tcd ef\n", "k.ptx")
    span = tokens.span(1, 2)
    assert (span.line, span.column, span.length, span.text) == (2, 2, 5, "\tcd ef")
    assert span.caret() == "  |\n2 | \tcd ef\n  | \t^^^^^"
    end = tokens.span(3)
    assert (end.line, end.column, end.text) == (3, 1, "")


def test_an_open_comment_is_an_error_at_its_start():
    with pytest.raises(PtxSyntaxError) as caught:
        Tokens("a\n b /* c\nd", "k.ptx")
    assert caught.value.message == "this comment is never closed: '*/' is missing"
    assert str(caught.value.span) == "k.ptx:2:4"


def test_marks_stand_before_a_token():
    tokens = Tokens("a //@ step=s.1 role=mma and so on\nb //@ end\nc //@ step=x\n//@ step=\n//@step=y\n//@ ends\n", "k")
    assert tokens.texts[:3] == ["a", "b", "c"]
    assert tokens.marks == [(1, "s.1", "mma"), (2, None, None), (3, "x", None)]


def test_a_word_too_long_is_refused():
    with pytest.raises(PtxSyntaxError, match="a word of 5000 characters"):
        Tokens("mov " + "a" * 5000, "k.ptx")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("42", 42), ("0x1F", 31), ("0X1f", 31), ("0b101", 5), ("017", 15), ("5U", 5), ("0xffU", 255),
        ("18446744073709551615", 2**64 - 1), ("18446744073709551616", None), ("019", None), ("0x", None),
        ("0b2", None), ("1a", None), ("", None), ("U", None), ("1_0", None), ("9" * 5000, None), ("٣", None),
    ],
)  # fmt: skip
def test_integers(text, value):
    assert read_integer(text) == value


@pytest.mark.parametrize(
    ("text", "value", "bits", "width"),
    [
        ("1.0", 1.0, 0x3FF0000000000000, 64), ("1.", 1.0, 0x3FF0000000000000, 64), (".5", 0.5, 0x3FE0000000000000, 64),
        ("1e3", 1000.0, 0x408F400000000000, 64), ("0f3F800000", 1.0, 0x3F800000, 32),
        ("0Fbf800000", -1.0, 0xBF800000, 32), ("0d4000000000000000", 2.0, 0x4000000000000000, 64),
    ],
)  # fmt: skip
def test_floats(text, value, bits, width):
    number = read_number(text)
    assert (number.value, number.is_float, number.bits, number.width) == (value, True, bits, width)


def test_negative_numbers():
    assert read_number("5", negative=True).bits == 2**64 - 5
    assert read_number("1.5", negative=True).value == -1.5
    assert read_number("0f3f800000", negative=True) is None


@pytest.mark.parametrize("text", ["0f3f80000", "0f3f8000000", "0d3ff", "1e999", "1.5.2", "1e", "abc", "0xg"])
def test_bad_numbers(text):
    assert read_number(text) is None


def test_a_nan_constant_equals_itself():
    assert read_number("0f7fc00000") == read_number("0f7FC00000") != read_number("0f7fc00001")


def test_a_mark_in_a_line_that_was_met_before_stands_at_its_own_place():
    line = "a b //@ step=one role=load\n"
    first = Tokens(line, "k.ptx")
    second = Tokens("c\n" + line + line, "k.ptx")
    assert first.marks == [(2, "one", "load")]
    assert second.marks == [(3, "one", "load"), (5, "one", "load")]
    assert [second.text[start] for start in second.starts[:5]] == ["c", "a", "b", "a", "b"]


def test_block_comments_go_over_lines_and_may_hold_marks():
    text = "a /* x\n//@ step=no */ b //@ step=yes\n c //@ end\nd"
    tokens = Tokens(text, "k.ptx")
    assert tokens.texts[:5] == ["a", "b", "c", "d", ""]
    assert tokens.marks == [(2, "yes", None), (3, None, None)]
    assert Tokens(text, "k.ptx").marks == tokens.marks


def test_the_memory_of_lines_is_bounded():
    Tokens("\n".join(f"a{number};" for number in range(2 * lexer.MAX_REMEMBERED)), "k.ptx")
    assert len(lexer._remembered) <= lexer.MAX_REMEMBERED
    Tokens("x" * (lexer.MAX_REMEMBERED_LINE + 1), "k.ptx")
    assert max(map(len, lexer._remembered)) <= lexer.MAX_REMEMBERED_LINE
