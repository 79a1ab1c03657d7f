"""CTAs of a cluster are looked at in one go where they do alike: of mistakes, too, the same is found one by one."""

from __future__ import annotations

import pytest
import test_multicast_mistakes as multicast
import test_pair_mistakes as pairs
import test_split_mistakes as splits
from sabotage_caught import with_mistake
from sabotage_kernels import subject

from convc.errors import ConvcError
from convc.sanitizer.accesses import Accesses
from convc.sanitizer.run import check_kernel

CASES = {
    f"{module.NAME}: {mistake or 'none'}": (module.NAME, mistake and module.MISTAKES[mistake])
    for module in (pairs, splits, multicast)
    for mistake in (None, *module.MISTAKES)
}


def outcome(name: str, text: str) -> tuple:
    """What a check finds, counts and leaves, or how it fails."""
    kernel = subject(name)
    try:
        checked = check_kernel(text, kernel.launch, kernel.inputs)
    except ConvcError as error:
        return (str(error),)
    if checked.result is None:  # a fault or a hang is a finding
        return (checked.findings,)
    buffers = {buffer: array.tobytes() for buffer, array in checked.result.buffers.items()}
    return checked.findings, checked.result.counters, buffers


@pytest.mark.parametrize("case", CASES)
def test_the_outcome_is_that_of_one_cta_after_the_other(case, monkeypatch):
    name, mistake = CASES[case]
    text = with_mistake(name, *mistake) if mistake else subject(name).text
    together = outcome(name, text)
    monkeypatch.setattr(Accesses, "accessed_alike", lambda *_: False)
    assert outcome(name, text) == together
