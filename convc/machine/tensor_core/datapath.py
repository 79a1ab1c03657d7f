"""What the tensor core is wired to."""

from __future__ import annotations

from dataclasses import dataclass

from convc.machine.base.findings import FindingSink
from convc.machine.base.switches import Switches
from convc.machine.memory.shared_memory import SharedMemory
from convc.machine.tensor_core.tensor_memory import TensorMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Datapath:
    """The memories that tensor operations of some CTAs read and write.

    Attributes:
        ctas: how many CTAs.
        shared, tensor: their memories.
        switches: how to read what the manual leaves open.
        findings: takes what an operation notices.
    """

    ctas: int
    shared: SharedMemory
    tensor: TensorMemory
    switches: Switches
    findings: FindingSink
