"""The simulator: a numpy model of an sm_100a streaming multiprocessor that executes PTX text.

It knows nothing of convolutions, plans or templates: a kernel text and a launch file are all it sees. See
docs/fidelity.md for the evidence of each modelled rule.

What it offers is imported when it is first asked for, since the help of a command lists the switches without numpy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from convc.machine.base.switches import Switches
    from convc.machine.launch import RunResult, run, writer_of
    from convc.machine.options import RunOptions
    from convc.machine.state.counters import Counters

__all__ = ["Counters", "RunOptions", "RunResult", "Switches", "run", "writer_of"]

_HOME = {
    "Counters": "convc.machine.state.counters",
    "RunOptions": "convc.machine.options",
    "RunResult": "convc.machine.launch",
    "Switches": "convc.machine.base.switches",
    "run": "convc.machine.launch",
    "writer_of": "convc.machine.launch",
}
"""The module of each name in ``__all__``."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'convc.machine' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return found
