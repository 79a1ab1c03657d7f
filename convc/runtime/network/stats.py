"""Records of a run of a network: its results, convolutions that ran from their PTX, and what the host did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from convc.runtime.network.steps import Value


@dataclass(slots=True)
class RunStats:
    """Counts of one run.

    Attributes:
        compiled: names of the convolutions that ran from their PTX.
        empty: names of those that multiplied nothing, so that they needed no kernel (`convc.frontend.empty_convs`).
        refused: convolutions that ran on the host, by name, and why.
        hidden: nodes that ran on the host with convolutions inside them (`If`, `Loop`, `Scan`), by name, and how many.
        host: other nodes that ran on the host.
        evaluators: who runs each kind of node on the host, by operator (`convc.runtime.network.host`).
        elsewhere: nodes that another host ran, by name, and who ran them and why.
        floating: quantised convolutions that ran in floating point, by name, and why (`convc.frontend.qdq_pattern`).
        seconds: wall time of the simulator in all convolutions.
        fused: names of the nodes that a kernel did as well, by the name of its convolution.
        special: convolutions that were launched again for numbers that are not finite, by name, and why
            (`convc.runtime.special_values`).
        handed: buffers that a kernel read as another one had left them, without repacking.
    """

    compiled: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    hidden: dict[str, int] = field(default_factory=dict)
    host: int = 0
    evaluators: dict[str, str] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)
    floating: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    fused: dict[str, tuple[str, ...]] = field(default_factory=dict)
    special: dict[str, str] = field(default_factory=dict)
    handed: int = 0

    def add(self, other: RunStats) -> None:
        """Count what a graph inside a node did, in one of its turns."""
        for field_name in self.__slots__:
            mine = getattr(self, field_name)
            theirs = getattr(other, field_name)
            if hasattr(mine, "update"):
                mine.update(theirs)
            else:
                setattr(self, field_name, mine + theirs)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRun:
    """The results of a run of a network.

    Attributes:
        outputs: an array for each output, by name; a list for a sequence, None for an optional that is empty.
        stats: what ran where.
        files: where outputs were written, by name.
    """

    outputs: dict[str, Value]
    stats: RunStats
    files: Mapping[str, Path]
