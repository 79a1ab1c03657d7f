"""Every probe, by its name."""

from __future__ import annotations

from collections.abc import Mapping

from convc.probe.clocks import CLOCKS
from convc.probe.copies import COPIES
from convc.probe.probes import Probe
from convc.probe.scalar import SCALAR
from convc.probe.tensor import TENSOR

PROBES: Mapping[str, Probe] = {probe.name: probe for probe in (*SCALAR, *TENSOR, *COPIES, *CLOCKS)}
"""Those of rules first. Those that a GPU may refuse with a fault stand behind those that it cannot."""
