"""What all tests of the simulator share: plain records, arithmetic, and one call of the assembler for many kernels."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import tensor_kernels
from support import plain

from convc.machine import RunOptions
from convc.machine.base.switches import Switches
from convc.support.ptxas import assemble


@pytest.fixture(autouse=True)
def every_record_is_plain(monkeypatch):
    """No numpy scalar leaves the simulator, whatever a test runs."""
    plain.watch(monkeypatch)


@pytest.fixture(params=["float32", "exact"])
def both_numerics(request, monkeypatch):
    """Run a test under both kinds of arithmetic; data whose sums are exact gives the same bits."""
    monkeypatch.setattr(tensor_kernels, "OPTIONS", RunOptions(switches=Switches(numerics=request.param)))


@pytest.fixture
def read_as(monkeypatch):
    """A function that sets switches for the kernels to come: ``read_as(six_bit="high")``."""

    def run(**settings: str) -> None:
        options = tensor_kernels.OPTIONS
        changed = replace(options, switches=replace(options.switches, **settings))
        monkeypatch.setattr(tensor_kernels, "OPTIONS", changed)

    return run


@pytest.fixture
def ptxas_batch():
    """A function that assembles the kernels of many module texts as one module, and empties the list.

    The modules have the same declarations. Of texts that differ in numbers only, one is taken.
    """

    def run(texts: list[str]) -> None:
        distinct = list({re.sub(r"\b\d+(?=[;,\]])", "0", text): text for text in texts}.values())
        texts.clear()
        if not distinct:
            return
        head, _, _ = distinct[0].partition(".visible .entry")
        entries = []
        for number, text in enumerate(distinct):
            own, _, rest = text.partition(".visible .entry k(")
            assert own == head
            entries.append(f".visible .entry k{number}({rest}")
        assemble(head + "\n".join(entries))

    return run
