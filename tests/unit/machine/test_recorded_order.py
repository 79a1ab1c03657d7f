"""Programs that ran on a GPU with the expected result wait for what they use: the race checkers say nothing of them."""

from __future__ import annotations

import pytest
from tma_programs import COMPLETED, execute_program, recordings

from convc.errors import MachineFault
from convc.sanitizer.cross_cluster import Writes
from convc.sanitizer.racecheck import Races
from convc.sanitizer.run import ObserverList


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_no_race_is_seen_in_the_recorded_programs(every):
    seen, clusters = 0, 0
    for recording in recordings()[::every]:
        checkers = Races(), Writes()
        try:
            execute_program(recording.program, observer=ObserverList(checkers))
        except MachineFault:
            continue  # where the GPU faulted too, or the simulator is stricter: see test_tma_programs
        found = [str(f) for checker in checkers for f in checker.findings()]
        assert found == [], (recording.name, found)
        seen += recording.status == COMPLETED
        clusters += recording.program["cluster"] != [1, 1, 1]
    assert seen >= 400 // every
    assert clusters >= 20 // every
