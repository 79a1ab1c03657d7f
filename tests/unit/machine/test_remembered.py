"""What is made of registers is made once for the same ones, and again for any other."""

from __future__ import annotations

import numpy as np

from convc.machine.base.remembered import MOST, Remembered


def _sum(registers):
    return np.asarray(sum(registers))


def test_the_same_registers_make_the_same_array():
    remembered = Remembered()
    registers = [np.arange(3), 5]
    first = remembered.find("a", registers, _sum)
    assert remembered.find("a", list(registers), _sum) is first
    assert not first.flags.writeable


def test_another_array_or_another_question_has_an_answer_of_its_own():
    remembered = Remembered()
    register = np.arange(3)
    remembered.find("a", [register], _sum)
    assert (remembered.find("a", [register + 1], _sum) == register + 1).all()
    assert (remembered.find("b", [register], np.negative) == -register[None]).all()


def test_arrays_that_are_gone_are_not_taken_for_new_ones():
    """Without the registers, new arrays would soon have the identities of old ones."""
    remembered = Remembered()
    for number in range(4 * MOST):
        assert remembered.find("a", [np.full(3, number)], _sum)[0] == number


def test_what_registers_were_made_of_is_found_for_them_alone():
    remembered = Remembered()
    registers = [np.arange(3), np.arange(3)]
    remembered.keep("a", registers, np.arange(6))
    assert (remembered.known("a", registers) == np.arange(6)).all()
    assert remembered.known("a", registers[::-1]) is None
    assert remembered.known("b", registers) is None


def test_what_numbers_were_made_of_is_not_kept():
    """The same number is a register of strands of any size."""
    remembered = Remembered()
    registers = [np.arange(3), 5]
    remembered.keep("a", registers, np.arange(6))
    assert remembered.known("a", registers) is None
