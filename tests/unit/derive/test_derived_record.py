"""What is kept of the derivation is what a fresh one gives."""

from __future__ import annotations

from convc.derive import write
from convc.derive.symbols import FloorDiv, Mod, axis, size
from convc.derived import record


def test_the_record_is_that_of_a_fresh_derivation():
    assert write.FILE.read_text(encoding="utf-8") == write.text(), "write it anew: python -m convc.derive.write"


def test_the_digest_is_that_of_the_sources():
    assert record.digest_of(record.SOURCES) == write.digest() == record.derived().digest


def test_an_expression_as_data():
    x, t = axis("x"), size("T")
    assert write.expression(3 * t * FloorDiv(x + 1, t) - Mod(x, 2 * t) + t * t - 5) == [
        [[-5], [1, "T", "T"]],
        [
            [[[3, "T"]], ["//", [[[1]], [[[[1]], "x"]]], [[1, "T"]]]],
            [[[-1]], ["%", [[], [[[[1]], "x"]]], [[2, "T"]]]],
        ],
    ]
