"""A cache as hardware has it, by lines and what was used last, fed with what the CTAs of a launch read and write."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from convc.machine import RunOptions, run
from convc.machine.state.observer import Observer

LINE = 128
"""Bytes of a line."""


class Touched(Observer):
    """Lines of global memory that the tensor copies of each CTA touch, in the order of the copies."""

    wants = frozenset()

    def __init__(self):
        self.lines = {}
        self.cohort = None

    def begin(self, cohort):
        self.cohort = cohort

    def copy(self, strand, instr, transfer):
        for position, row in enumerate(transfer.rows.tolist()):
            cta = int(self.cohort.place.number[row])
            for _, offsets, size in transfer.memory.lines(np.array([position])):
                starts = offsets[offsets >= 0].ravel()
                touched = np.unique((starts[:, None] + np.arange(0, size, 32)).ravel() // LINE)
                found = self.lines.setdefault(cta, [])
                found.append((transfer.memory.kind, transfer.memory.buffer, touched.tolist()))


def missed_bytes(launch, text, at_once, capacity):
    """Bytes of lines that a launch reads from memory, by a cache of so many bytes; CTAs of a round take turns."""
    log = Touched()
    buffers = {name: np.zeros(spec.shape, spec.dtype.replace("f", "float")) for name, spec in launch.buffers.items()}
    run(text, launch, buffers, options=RunOptions(), observer=log)
    held = OrderedDict()
    missed = 0
    for first in range(0, launch.ctas, at_once):
        turns = [log.lines[cta] for cta in range(first, min(first + at_once, launch.ctas))]
        for step in range(max(map(len, turns))):
            for kind, buffer, lines in (turn[step] for turn in turns if step < len(turn)):
                for line in lines:
                    if (buffer, line) in held:
                        held.move_to_end((buffer, line))
                        continue
                    missed += kind != "st"
                    held[buffer, line] = None
                    if len(held) * LINE > capacity:
                        held.popitem(last=False)
    return missed * LINE
