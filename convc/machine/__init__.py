"""The machine: a numpy model of an sm_100a streaming multiprocessor that executes PTX text.

It knows nothing of convolutions, plans or templates: a kernel text and a launch file are all it sees. See
docs/fidelity.md for what each modelled rule rests on.
"""

from __future__ import annotations

from convc.machine.base.switches import Switches
from convc.machine.launch import RunOptions, RunResult, run, writer_of
from convc.machine.state.counters import Counters

__all__ = ["Counters", "RunOptions", "RunResult", "Switches", "run", "writer_of"]
