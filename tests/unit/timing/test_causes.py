"""What the cycles of a critical path are spent on, of a few events."""

from __future__ import annotations

from dataclasses import astuple

from convc.timing.attribution import critical_path
from convc.timing.events import Event

CHAIN = [
    Event(track="warp 0", name="mov", step="load", line=1, start=10, end=12),
    Event(track="tma", name="load", step="load", line=2, start=12, end=112, cause=0, work=0, unit="L2", busy=30),
    Event(track="warp 1", name="mbarrier.try_wait", step="mma", line=3, start=13, end=120, cause=1, edge="phase"),
    Event(track="warp 1", name="ld", step="", line=4, start=125, end=140, cause=2, unit="shared memory", busy=9,
          late="tensor memory"),
    Event(track="warp 1", name="ld", step="mma", line=5, start=141, end=150, cause=3, unit="global memory", busy=4),
    Event(track="warp 1", name="mma", step="mma", line=6, start=150, end=157, cause=4, edge="queue", unit="alu"),
    Event(track="tensor core", name="mma", step="mma", line=6, start=157, end=200, cause=5, work=1, busy=32),
    Event(track="warp 2", name="bar", step="store", line=7, start=20, end=203, cause=6, edge="barrier"),
    Event(track="warp 3", name="mov", step="store", line=8, start=20, end=40),
]  # fmt: skip
"""Each waits for the one before; the last one for nobody, and nobody for it."""


def test_each_cycle_has_the_step_and_the_unit_that_took_it():
    assert {astuple(part) for part in critical_path(CHAIN)} == {
        ("", "entry", 10),
        ("load", "issue", 2),
        ("load", "L2", 30),
        ("load", "TMA latency", 70),
        ("mma", "wake-up", 8),
        ("line 4", "tensor-memory loads", 5),
        ("line 4", "SMEM read port", 9),
        ("line 4", "issue", 6),
        ("mma", "data dependency", 1),
        ("mma", "global-memory sectors", 4),
        ("mma", "issue", 5),
        ("mma", "tensor-core queue", 7),
        ("mma", "tensor core", 32),
        ("mma", "tensor-core latency", 11),
        ("store", "barrier", 3),
    }
