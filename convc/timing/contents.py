"""The contents of a launch's buffers for a recording: zeros, and counters as the last cluster of a tile finds them.

CTAs that count with ``atom.inc`` up to a bound leave what is to be done for all of them to the last one, as the last
cluster of split-K adds the sums that all have kept. A cluster is recorded alone, and would never be the last; a launch
lasts as long as those that are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.launch import LaunchSpec
from convc.ptx import Instr
from convc.ptx.syntax import Imm
from convc.support.memory import named_memory

Buffers = Mapping[str, np.ndarray]


def contents_of(launch: LaunchSpec, given: Buffers, name: str) -> dict[str, np.ndarray]:
    """All buffers of a launch, of which zeros that are not read take no memory but addresses."""
    with named_memory(f"timing {name!r}", hint="zeros stand for its buffers"):
        zeros = {name: np.zeros(spec.shape, ARRAY_TYPES[spec.dtype]) for name, spec in launch.buffers.items()}
    return zeros | dict(given)


def for_the_last(body: Sequence[Instr], contents: Buffers, after: Callable[[], Buffers]) -> Buffers:
    """The contents as the last cluster finds them.

    Args:
        body: of the kernel.
        contents: before the launch.
        after: gives the buffers after the recorded cluster has run, which is done where the kernel counts.

    Returns:
        Buffers of zeros in which it has only counted to 1 are full of the bound. Where there is no bound, or more than
        one, all are as they were.
    """
    counts = (instr.args["b"] for instr in body if instr.form.name == "atom" and instr.slots["op"] == "inc")
    bounds = {count.value if isinstance(count, Imm) else 0 for count in counts}
    if len(bounds) != 1 or 0 in bounds:
        return contents
    (bound,) = bounds
    counted = {
        name: np.full_like(contents[name], bound)
        for name, made in after().items()
        if made.dtype == np.uint32 and made.any() and made.max() == 1 and not contents[name].any()
    }
    return {**contents, **counted}
