"""A timeline as a trace that Perfetto (ui.perfetto.dev, trace_processor) opens.

A nanosecond of the trace is a cycle of the SM clock, rounded; the exact number is the argument ``cycles`` of a slice.
Every SM of the first wave's cluster is a process, with a thread-like track for each warp, unit, copy in flight and
stage of a ring, and counters. A further process shows which CTAs each SM of the chip runs, round after round.

Source: https://perfetto.dev/docs/reference/synthetic-track-event (TrackEvent, written with the package ``perfetto``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING

from convc.errors import ToolError
from convc.support.collecting import uncollected
from convc.timing.kernel import KernelTime
from convc.timing.timeline import Curve, Slice, Timeline, timeline

if TYPE_CHECKING:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackDescriptor
    from perfetto.trace_builder.proto_builder import TraceProtoBuilder  # pyright: ignore[reportMissingTypeStubs]

MOST_CTAS = 20_000
"""CTAs in the view of the chip; those of a larger grid are left out behind these."""

SEQUENCE = 1
"""The writer of all packets; Perfetto wants a number above 0."""


def require_perfetto() -> None:
    """Raise `ToolError` where the package that writes traces cannot be imported."""
    try:
        import perfetto.trace_builder.proto_builder as _  # noqa: F401  # pyright: ignore[reportMissingTypeStubs]
    except Exception as missing:  # also protobuf's own error, where it is older than the package needs
        raise ToolError(
            f"traces are written with the package perfetto, which cannot be imported: {missing}",
            hint="pip install 'convc[trace]'",
        ) from missing


@uncollected()
def trace_bytes(kernel: KernelTime) -> bytes:
    """The trace of a kernel, as the content of a ``.pftrace`` file; the same kernel gives the same bytes.

    Raises:
        ToolError: the package ``perfetto`` is not there.
    """
    require_perfetto()
    from perfetto.trace_builder.proto_builder import TraceProtoBuilder  # pyright: ignore[reportMissingTypeStubs]

    writer = _Writer(TraceProtoBuilder(), kernel)
    writer.write(timeline(kernel.launch))
    return writer.builder.serialize()


class _Writer:
    """Puts tracks and what happens on them into a trace."""

    def __init__(self, builder: TraceProtoBuilder, kernel: KernelTime) -> None:
        self.builder = builder
        self.kernel = kernel
        self._uuids = 0
        self._planned: list[tuple[int, bool, int, int, Slice | float | None]] = []

    def write(self, shown: Timeline) -> None:
        """Write all tracks, and then what happens on them in the order of time."""
        clock = f"1 ns here is 1 cycle at {self.kernel.chip['chip.clock']:g} GHz"
        groups: dict[str, int] = {}
        for each in (*shown.tracks, *shown.curves):
            if each.group not in groups:
                title = f"{each.group} of {self.kernel.chip.name}, first wave of {self.kernel.name} ({clock})"
                groups[each.group] = self._process(title, len(groups) + 1)
        for rank, track in enumerate(shown.tracks):
            self._plan(track.slices, self._describe(track.name, groups[track.group], rank).uuid)
        for rank, curve in enumerate(shown.curves):
            self._curve(curve, groups[curve.group], len(shown.tracks) + rank)
        self._chip(len(groups) + 1, clock)
        self._planned.sort(key=itemgetter(0, 1, 2))
        for time, _, _, uuid, what in self._planned:
            self._event(time, uuid, what)

    # ---- tracks ----------------------------------------------------------------------------------------------------

    def _describe(self, name: str, parent: int | None = None, rank: int = 0) -> TrackDescriptor:
        """A new track, in the order of ``rank`` among those of its parent."""
        self._uuids += 1
        packet = self.builder.add_packet()
        packet.trusted_packet_sequence_id = SEQUENCE
        descriptor = packet.track_descriptor
        descriptor.uuid = self._uuids
        descriptor.name = name
        if parent is not None:
            descriptor.parent_uuid = parent
            descriptor.sibling_order_rank = rank
        return descriptor

    def _process(self, name: str, number: int) -> int:
        descriptor = self._describe(name)
        descriptor.process.pid = number
        descriptor.process.process_name = name
        descriptor.child_ordering = descriptor.EXPLICIT
        return descriptor.uuid

    def _curve(self, curve: Curve, parent: int, rank: int) -> None:
        descriptor = self._describe(f"{curve.name} ({curve.unit})", parent, rank)
        descriptor.counter.unit_name = curve.unit
        for time, value in curve.points:
            self._planned.append((round(time), False, len(self._planned), descriptor.uuid, value))

    def _chip(self, number: int, clock: str) -> None:
        """The CTAs of each SM, in all waves."""
        launch = self.kernel.launch
        size = len(launch.replay.sms)
        slots = int(self.kernel.chip["chip.sms"]) // size
        left_out = ", the first of them" if self.kernel.ctas > MOST_CTAS else ""
        parent = self._process(f"CTAs of each SM of {self.kernel.chip.name}{left_out} ({clock})", number)
        places: dict[tuple[int, int], list[Slice]] = {}
        first = 0
        start = 0.0
        for clusters, length in zip(launch.clusters, launch.lengths, strict=True):
            for cluster in range(min(clusters, max(0, MOST_CTAS - first) // size)):
                for row in range(size):
                    place = (cluster % slots * size + row, cluster // slots)
                    name = f"CTA {first + cluster * size + row}"
                    places.setdefault(place, []).append(Slice(name=name, kind="cta", start=start, end=start + length))
            first += clusters * size
            start += length + self.kernel.chip["launch.replace"] - self.kernel.chip["launch.entry"]
        for rank, ((sm, beside), slices) in enumerate(sorted(places.items())):
            name = f"SM {sm}" if launch.beside == 1 else f"SM {sm}, CTA {beside + 1} of those on it"
            self._plan(slices, self._describe(name, parent, rank).uuid)

    # ---- events ----------------------------------------------------------------------------------------------------

    def _plan(self, slices: Iterable[Slice], uuid: int) -> None:
        """Plan begin and end of the slices of a track, in their order.

        Of what happens in the same cycle the ends of arrows come last, because an arrow must begin before it ends; and
        behind such an end comes all that follows it on its track.
        """
        previous = -1
        late = False
        for time, takes, what in _turns(slices):
            late = takes or (late and time == previous)
            previous = time
            self._planned.append((time, late, len(self._planned), uuid, what))

    def _event(self, time: int, uuid: int, what: Slice | float | None) -> None:
        """Write the begin of a slice, the end of one (None), or a number."""
        packet = self.builder.add_packet()
        packet.timestamp = time
        packet.trusted_packet_sequence_id = SEQUENCE
        event = packet.track_event
        event.track_uuid = uuid
        if what is None:
            event.type = event.TYPE_SLICE_END
        elif isinstance(what, Slice):
            event.type = event.TYPE_SLICE_BEGIN
            event.name = what.name
            event.categories.append(what.kind)
            event.flow_ids.extend(what.gives)
            event.terminating_flow_ids.extend(what.takes)
            event.debug_annotations.add(name="cycles", double_value=what.cycles)
            if what.line:
                event.debug_annotations.add(name="line", int_value=what.line)
        else:
            event.type = event.TYPE_COUNTER
            event.double_counter_value = what


def _turns(slices: Iterable[Slice]) -> Iterator[tuple[int, bool, Slice | None]]:
    """Time of begin and end (None) of each slice, those inside between them, and whether an arrow ends there."""
    for one in slices:
        yield round(one.start), bool(one.takes), one
        yield from _turns(one.inner)
        yield round(one.end), False, None
