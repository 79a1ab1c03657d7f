"""Work in a process of its own: its result, its errors, and an end where it takes too long or dies."""

from __future__ import annotations

import math
import os
import time

import pytest

from convc.errors import InputError, WorkerError
from convc.machine.base.switches import parse_switches
from convc.workers.limited import limited

LONG_S = 60.0
"""More than any of these processes takes to start, on any computer."""


def test_a_result_comes_back():
    assert limited(LONG_S, math.hypot, 3, 4) == 5.0


def test_an_error_of_convc_is_raised_with_its_place_and_hint():
    with pytest.raises(InputError) as here:
        parse_switches(("elect=middle",))
    with pytest.raises(InputError) as there:
        limited(LONG_S, parse_switches, ("elect=middle",))
    assert str(there.value) == str(here.value)


def test_too_long_is_ended():
    started = time.perf_counter()
    with pytest.raises(WorkerError, match=r"not finished within 0.2 s"):
        limited(0.2, time.sleep, 600)
    assert time.perf_counter() - started < LONG_S


@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        (os._exit, (3,), "its process ended with exit code 3 and no result"),
        (os.abort, (), "its process was ended by signal 6"),
    ],
)
def test_a_death_is_said(function, arguments, said):
    with pytest.raises(WorkerError, match=said):
        limited(LONG_S, function, *arguments)
