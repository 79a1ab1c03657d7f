"""The trace for Perfetto, read back with the classes of its own package, and by its trace processor where that is."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from convc.cli.main import main
from convc.ir.launch import load_launch
from convc.report.perfetto import trace_bytes
from convc.support.resources import model_folder
from convc.timing.kernel import KernelTime, time_kernel
from convc.timing.parameters import read_chip

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
FEW = ["slide_f16", "shift_chain_f16"]


def timed(name: str, chip=None) -> KernelTime:
    folder = GOLDEN / name
    text = (folder / "kernel.ptx").read_text()
    return time_kernel(text, load_launch(folder / "launch.json"), {}, chip or read_chip("b200"))


class Read:
    """A trace, taken apart: names of tracks, what lies on them, numbers of counters."""

    def __init__(self, content: bytes) -> None:
        trace = Trace()
        trace.ParseFromString(content)
        self.tracks = {
            p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")
        }
        self.slices: dict[int, list[tuple[int, int, int, TrackEvent]]] = defaultdict(list)
        self.numbers: dict[int, list[tuple[int, float]]] = defaultdict(list)
        self.began: dict[int, int] = {}
        self.ended: dict[int, int] = {}
        open_slices: dict[int, list[tuple[int, TrackEvent]]] = defaultdict(list)
        self.times = [packet.timestamp for packet in trace.packet if packet.HasField("track_event")]
        for place, packet in enumerate(trace.packet):
            event = packet.track_event
            assert packet.trusted_packet_sequence_id
            if not packet.HasField("track_event"):
                continue
            assert event.track_uuid in self.tracks
            if event.type == TrackEvent.TYPE_SLICE_BEGIN:
                open_slices[event.track_uuid].append((packet.timestamp, event))
                for flow in event.flow_ids:
                    assert flow not in self.began
                    self.began[flow] = place
                for flow in event.terminating_flow_ids:
                    assert flow not in self.ended
                    assert self.began[flow] < place, "an arrow ends before it begins"
                    self.ended[flow] = place
            elif event.type == TrackEvent.TYPE_SLICE_END:
                start, begun = open_slices[event.track_uuid].pop()
                depth = len(open_slices[event.track_uuid])
                self.slices[event.track_uuid].append((start, packet.timestamp, depth, begun))
            else:
                self.numbers[event.track_uuid].append((packet.timestamp, event.double_counter_value))
        assert not any(open_slices.values()), "a slice does not end"

    def named(self, name: str) -> int:
        """The number of the first track with a name."""
        return next(uuid for uuid, track in self.tracks.items() if track.name == name)

    def cycles(self, name: str) -> float:
        """All cycles of a track, as its slices say exactly."""
        return sum(event.debug_annotations[0].double_value for _, _, _, event in self.slices[self.named(name)])


@pytest.fixture(scope="module", params=FEW)
def kernel(request) -> KernelTime:
    return timed(request.param)


@pytest.fixture(scope="module")
def read(kernel) -> Read:
    return Read(trace_bytes(kernel))


def test_slices_do_not_overlap(read):
    for uuid, slices in read.slices.items():
        for depth in range(3):
            level = sorted((start, end) for start, end, at, _ in slices if at == depth)
            assert all(a[1] <= b[0] for a, b in pairwise(level)), read.tracks[uuid].name


def test_time_never_runs_backwards_and_every_arrow_ends(read):
    assert read.times == sorted(read.times)
    assert read.began
    assert set(read.began) == set(read.ended)
    assert all(times == sorted(times) for times in ([time for time, _ in one] for one in read.numbers.values()))


def test_units_are_as_busy_as_the_report_says(kernel, read):
    length = kernel.launch.lengths[0]
    for name in ("tensor core", "fill", "sectors"):
        assert read.cycles(name) / length == pytest.approx(kernel.launch.use[name])
        rounded = sum(end - start for start, end, _, _ in read.slices[read.named(name)])
        assert rounded == pytest.approx(read.cycles(name), abs=len(read.slices[read.named(name)]))


def test_there_is_a_track_for_everything(kernel, read):
    names = Counter(track.name for track in read.tracks.values())
    for name in (
        "load warp 5",
        "mma warp 4",
        "epilogue warp 0",
        "tensor core",
        "fill",
        "full_a[0]",
        "fill port (B/clk)",
    ):
        assert names[name] == 1, name
    assert any(name.startswith("copies in flight") for name in names)
    [title] = [name for name in names if name.startswith("SM 0 of b200")]
    assert "1 ns here is 1 cycle at 1.85 GHz" in title
    waits = {event.name for slices in read.slices.values() for *_, event in slices if "wait" in event.categories}
    assert {"wait: TMA copy", "wait: tensor core", "wait: barrier"} <= waits


def test_every_cta_has_its_place_on_the_chip():
    small = read_chip("b200", ("chip.sms=2", "chip.tensor_columns=64"))
    kernel = timed("slide_f16", small)
    read = Read(trace_bytes(kernel))
    [chip] = [uuid for uuid, track in read.tracks.items() if track.name.startswith("CTAs of each SM")]
    places = [uuid for uuid, track in read.tracks.items() if track.parent_uuid == chip]
    shown = sorted(event.name for uuid in places for *_, event in read.slices[uuid])
    assert shown == [f"CTA {number}" for number in range(kernel.ctas)]
    assert len(places) == 2
    assert max(end for uuid in places for _, end, _, _ in read.slices[uuid]) == round(
        kernel.cycles - kernel.launch.spread
    )


def test_the_same_kernel_gives_the_same_bytes(kernel):
    assert trace_bytes(kernel) == trace_bytes(kernel)


def test_without_the_package_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "perfetto.trace_builder.proto_builder", None)
    target = tmp_path / "t.pftrace"
    said = CliRunner().invoke(main, ["time", str(model_folder() / "tiny_conv.onnx"), "--trace", str(target)])
    assert said.exit_code == 2
    assert "pip install 'convc[trace]'" in said.stderr
    assert not target.exists()


def programs() -> list[str]:
    """The trace processor, where it is: on the PATH, or kept by the package after an earlier download."""
    found = [shutil.which(name) for name in ("trace_processor_shell", "trace_processor")]
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    kept = sorted((data / "perfetto" / "prebuilts").glob("trace_processor_shell-*"))
    return [program for program in (*found, *map(str, kept)) if program][:1]


@pytest.mark.parametrize("program", programs())
def test_the_trace_processor_agrees(program, kernel, tmp_path):
    """Nobody runs it where there is no such program: pytest then says that there is nothing to give it."""
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    content = trace_bytes(kernel)
    file = tmp_path / "t.pftrace"
    file.write_bytes(content)
    read = Read(content)
    with TraceProcessor(trace=str(file), config=TraceProcessorConfig(bin_path=program)) as processor:
        [wrong] = processor.query("select count(*) as n from stats where severity = 'error' and value > 0")
        [slices] = processor.query("select count(*) as n from slice")
        [flows] = processor.query("select count(*) as n from flow")
        [busy] = processor.query(
            "select sum(dur) as n from slice join track on slice.track_id = track.id where track.name = 'tensor core'"
        )
    assert wrong.n == 0
    assert slices.n == sum(map(len, read.slices.values()))
    assert flows.n == len(read.began)
    assert busy.n == sum(end - start for start, end, _, _ in read.slices[read.named("tensor core")])
