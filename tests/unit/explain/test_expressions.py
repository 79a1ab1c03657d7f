"""Index expressions: division by numbers that rounds down, and substitution that leaves guards as they are."""

from __future__ import annotations

import pytest

from convc.compiler.index.linear import Integer
from convc.compiler.index.maps import at_most
from convc.compiler.index.symbols import Axis
from convc.explain.expressions import quotient, remainder, replaced, replaced_in_guard, symbols_of

N = Axis("n", 4).symbol
T = Axis("t", 12).symbol


@pytest.mark.parametrize(("number", "divisor"), [(7, 3), (-7, 3), (0, 5), (-1, 1)])
def test_division_rounds_down(number, divisor):
    whole = quotient(Integer(number), divisor)
    rest = remainder(Integer(number), divisor)
    assert (int(whole), int(rest)) == divmod(number, divisor)


def test_symbols_are_replaced_all_at_once():
    assert replaced(N + 2 * T, {N: T, T: N}) == T + 2 * N
    assert symbols_of(quotient(N + 5 * T, 3)) == {N, T}


def test_a_guard_that_always_holds_stays_a_guard():
    guard = replaced_in_guard(at_most(0, T), {T: N})
    assert (guard.lhs, guard.rhs) == (0, N)
