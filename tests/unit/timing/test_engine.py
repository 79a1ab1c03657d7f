"""A replay of kernels' traces: its sums, its bounds, what changes it and what does not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from convc.errors import UnmodelledError
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam, load_launch
from convc.ptx.parser import parse
from convc.timing import recorder
from convc.timing.attribution import critical_path
from convc.timing.chip import Footprint, most_beside, side_by_side, time_launch
from convc.timing.engine import Replay
from convc.timing.kernel import MATTERS, KernelTime, time_kernel
from convc.timing.loops import walker
from convc.timing.parameters import Chip, read_chip
from convc.timing.resources import Share, Streaming
from convc.timing.shares import sm_share
from convc.timing.tensor_core import MmaShape, interval
from convc.timing.trace import Work

TESTS = Path(__file__).resolve().parents[2]
B200 = read_chip("b200")
GOLDEN = sorted(path.parent for path in (TESTS / "golden").glob("*/launch.json"))
FOREIGN = sorted(path.parent for path in (TESTS / "foreign").glob("*/launch.json"))
HEAVY = ["large_output_f32"]
"""Kernels of which a run takes long: gigabytes of output."""

FEW = ["slide_f16", "shift_ashift_f16", "stationary_f16"]
EACH_NUMBER = [(FEW[0], 12), *(pytest.param(name, 1, marks=pytest.mark.slow) for name in FEW)]
"""The same, and one of how many parameters is changed: each takes two launches."""


def timed(folder: Path, chip: Chip = B200) -> KernelTime:
    return time_kernel((folder / "kernel.ptx").read_text(), load_launch(folder / "launch.json"), {}, chip)


@pytest.fixture(scope="module", params=FEW)
def kernel(request) -> KernelTime:
    return timed(TESTS / "golden" / request.param)


def replayed(kernel: KernelTime, chip: Chip, l2: float = 69.0) -> float:
    return Replay(kernel.trace, chip, Share(l2=l2), kernel.trace.ctas).run()


def every_kernel() -> list:
    slow = [pytest.param(folder, id=folder.name, marks=pytest.mark.slow) for folder in FOREIGN]
    slow += [pytest.param(folder, id=folder.name, marks=pytest.mark.slow) for folder in GOLDEN if folder.name in HEAVY]
    quick = [folder for folder in GOLDEN if folder.name not in (*FEW, *HEAVY)]
    return [*(pytest.param(folder, id=folder.name) for folder in quick), *slow]


@pytest.mark.one_of(3)
@pytest.mark.parametrize("folder", every_kernel())
def test_every_kernel_is_timed_and_its_time_adds_up(folder):
    check(timed(folder))


def test_the_critical_path_adds_up(kernel):
    check(kernel)


def check(kernel: KernelTime) -> None:
    """The path adds up to the round, nothing ends before it begins, and nothing is quicker than its bounds."""
    replay = Replay(side_by_side(kernel.trace, 1), B200, sm_share(B200, 1), kernel.trace.ctas)
    total = replay.run()
    assert sum(part.cycles for part in critical_path(replay.events)) == pytest.approx(total)
    assert all(event.start <= event.end for event in replay.events)
    assert kernel.cycles >= total * (1 - 1e-8)  # beside others a copy that they read too asks L2 for a little less
    first = [work for work in kernel.trace.works if work.row == 0]
    multiplied = sum(interval(work.mma, B200) for work in first if work.mma is not None)
    filled = sum(work.bytes for work in first if work.kind == "load") / B200["tma.fill"]
    stored = sum(work.bytes for work in first if work.kind == "store") / B200["shared_memory.store_port"]
    assert total >= max(multiplied, filled, stored)


def test_what_one_round_shares_in_step_matters_to_no_other_launch(kernel):
    ends = [B200.changed({"gpc.together_in_step": served, "chip.l2": B200["chip.l2"] / 2}) for served in (1.0, 3.1)]
    slots = int(B200["chip.sms"]) // kernel.trace.ctas * most_beside(kernel.footprint, B200) * kernel.trace.ctas
    apart, together = (time_launch(kernel.trace, slots, kernel.footprint, chip).cycles for chip in ends)
    in_parts = all(work.in_parts for work in kernel.trace.works if work.kind == "load")
    assert together == apart if in_parts else together < apart, "requests for less than a line are not served as one"
    several = [time_launch(kernel.trace, 3 * slots, kernel.footprint, chip).cycles for chip in ends]
    assert several[0] == several[1]


def test_first_copies_are_asked_for_by_all_at_the_same_time():
    chip = B200
    work = Work(kind="load", row=0, step="", line=0, bytes=16384, requests=128, mode="tile")
    ends = [
        Streaming(chip, Share(l2=80.0, crowd=20.0), True).copy(work, 0.0, 0, together=first)[1]
        for first in (False, True)
    ]
    assert ends[1] > ends[0] + 100
    assert Streaming(chip, Share(l2=80.0), True).copy(work, 0.0, 0, together=True)[1] == ends[0]


def test_first_copies_have_less_of_l2_where_all_ctas_begin_together(kernel):
    slots = int(B200["chip.sms"]) // kernel.trace.ctas * most_beside(kernel.footprint, B200) * kernel.trace.ctas
    once, again = (time_launch(kernel.trace, n * slots, kernel.footprint, B200) for n in (1, 2))
    share = once.replay.sms[0].share
    assert share.crowd < share.l2
    assert again.replay.sms[0].share.crowd == again.replay.sms[0].share.l2


@pytest.mark.parametrize(
    ("slow", "cold"),
    [("tma.fill", False), ("chip.l2", False), ("chip.memory", True), ("chip.stores", False),
     ("tensor_core.strip_cycles", True)],
)  # fmt: skip
def test_a_launch_is_never_quicker_than_the_chip_can_be(kernel, slow, cold):
    """Closed forms: what all SMs multiply and fill, what L2 reads and writes, and what memory reads."""
    chip = B200.changed({slow: B200[slow] * (50 if slow == "tensor_core.strip_cycles" else 0.01)})
    ctas = 20 * kernel.ctas
    whole = time_launch(kernel.trace, ctas, kernel.footprint, chip, cold, kernel.operands)
    works = kernel.trace.works
    read = sum(work.bytes - work.filled for work in works if work.kind == "load") * ctas
    stored = sum(work.bytes for work in works if work.kind == "store") * ctas
    multiplied = sum(interval(work.mma, chip) for work in works if work.mma is not None) * ctas
    a_cycle = 1e3 / chip["chip.clock"]
    alone = 1 / chip["gpc.together_in_step"]
    bounds = {
        "tensor core": multiplied / chip["chip.sms"],
        "fill": read / chip["tma.fill"] / chip["chip.sms"],
        "L2": read * alone / (chip["chip.l2"] * a_cycle),
        "stores": stored / (chip["chip.stores"] * a_cycle),
        "memory": cold * kernel.operands.read / (chip["chip.memory"] * a_cycle),
    }
    assert whole.cycles >= max(bounds.values()) * (1 - 1e-9), bounds
    assert all(0 <= share <= 1 for share in whole.use.values())
    assert ("memory" in whole.use) == cold


def test_a_replay_gives_the_same_answer_twice(kernel):
    assert replayed(kernel, B200) == replayed(kernel, B200)


@pytest.mark.parametrize("name", ["tma.fill", "shared_memory.read_port", "tensor_memory.port", "tensor_memory.copy"])
def test_a_lower_rate_is_never_quicker(kernel, name):
    slower = B200.changed({name: B200[name] / 4})
    assert replayed(kernel, slower) >= replayed(kernel, B200)
    if name == "tma.fill":
        assert replayed(kernel, slower) > replayed(kernel, B200)


def test_less_of_l2_is_slower(kernel):
    assert replayed(kernel, B200, l2=5.0) > replayed(kernel, B200, l2=69.0)


def unused(kernel: KernelTime) -> set[str]:
    """Beginnings of the names of parameters of what a kernel does not use, warm and in a single round."""
    works = kernel.trace.works
    shapes = [work.mma for work in works if work.mma is not None]
    users = {
        "assembler.": kernel.assembly is not None,
        "chip.memory": kernel.cold,
        "chip.stores": any(work.kind == "store" for work in works),
        "launch.replace": kernel.launch.rounds > 1,
        "shared_memory.store_port": any(work.kind == "store" for work in works),
        "tensor_core.pair": any(shape.pair for shape in shapes),
        "tensor_core.half_floor": any(shape.m <= 64 for shape in shapes),
        "tensor_memory.copy": any(work.kind == "cp" for work in works),
        "tensor_memory.shift": any(work.kind == "shift" for work in works),
        "threads.cluster_barrier": kernel.trace.ctas > 1,
        "tma.im2col": any(work.mode == "im2col" for work in works),
        "tma.memory_latency": kernel.cold,
    }
    return {name for name, used in users.items() if not used}


def test_all_that_a_grid_writes_takes_its_time():
    kernel = timed(TESTS / "foreign" / "gluon_pairs")
    stored = sum(work.bytes for work in kernel.trace.works if work.kind == "store") * kernel.ctas / kernel.trace.ctas
    slow = B200.changed({"chip.stores": 1e-4})
    assert stored > 0
    assert cycles_on(kernel, slow) == pytest.approx(stored / (1e-4 * 1e3 / slow["chip.clock"]), rel=0.01)


def test_a_warpgroup_multiplies_in_the_tensor_core():
    """Two warpgroups of one CTA, five blocks of four wgmma each; no shorter than the tensor core alone."""
    h200 = read_chip("h200")
    kernel = timed(TESTS / "foreign" / "cuda_warpgroup", h200)
    multiplied = [work.mma for work in kernel.trace.works if work.row == 0 and work.mma is not None]
    assert multiplied == [MmaShape(m=64, n=64)] * 40
    groups: dict[tuple[int, ...], list[int]] = {}
    for (row, warp), items in kernel.trace.items.items():
        issued = tuple(work for item in items for work in item.works if kernel.trace.works[work].mma is not None)
        if row == 0 and issued:
            groups.setdefault(issued, []).append(warp)
    assert [(len(works), len(warps)) for works, warps in groups.items()] == [(20, 4)] * 2, "four warps have one work"
    assert kernel.cycles > sum(interval(shape, h200) for shape in multiplied) == pytest.approx(40 * 32)


def test_a_resource_that_is_not_used_changes_nothing(kernel):
    """All of its parameters, made larger by far; one at a time to say which, where something has changed."""
    starts = tuple(unused(kernel))
    larger = {name: 7 * B200[name] for name in B200.parameters if name.startswith(starts)}
    assert len(larger) >= 20
    if cycles_on(kernel, B200.changed(larger)) != kernel.cycles:
        assert [name for name in larger if cycles_on(kernel, B200.changed({name: larger[name]})) != kernel.cycles] == []
        pytest.fail("several together")


def cycles_on(kernel: KernelTime, chip: Chip) -> float:
    """The launch from the start, without what is known of another chip."""
    return time_launch(kernel.trace, kernel.ctas, kernel.footprint, chip, kernel.cold, kernel.operands).cycles


@pytest.mark.parametrize(("kernel", "every"), EACH_NUMBER, indirect=["kernel"])
def test_numbers_that_matter_are_those_of_a_launch_from_the_start(kernel, every):
    """One replay with a lane for each end, against a launch for each: they differ where an end changes an order."""
    found = {one.name: (one.low, one.high) for one in kernel.dependences()}
    errors: list[float] = []
    ranges = [(name, one) for name, one in B200.parameters.items() if one.range[0] != one.range[1]]
    for name, parameter in ranges[::every]:
        if name == "chip.clock":
            continue
        ends = [cycles_on(kernel, B200.changed({name: end})) / kernel.cycles - 1 for end in parameter.range]
        if name in found:
            errors += [abs(end - own) for end, own in zip(ends, found[name], strict=True)]
        else:
            errors.append(max(0.0, max(map(abs, ends)) - MATTERS))
    assert max(errors) < 0.05
    assert np.quantile(errors, 0.9) < 0.005
    assert all(max(map(abs, ends)) >= MATTERS for ends in found.values())
    assert len(found) >= 5


def test_ctas_beside_each_other_share_an_sm():
    kernel = timed(TESTS / "golden" / "slide_f16")
    one = replayed(kernel, B200)
    two = Replay(side_by_side(kernel.trace, 2), B200, Share(l2=69.0), kernel.trace.ctas).run()
    assert one < two < 2 * one


def test_mmas_of_a_pair_occupy_both_of_its_sms():
    kernel = timed(TESTS / "foreign" / "gluon_pairs")
    served = [[(begin, cycles) for begin, cycles, _ in sm.tensor.served] for sm in kernel.launch.replay.sms]
    assert {work.row for work in kernel.trace.works if work.mma is not None} == {0, 2}
    assert served[0] == served[1]
    assert served[2] == served[3]
    assert len(served[0]) == 16


def test_an_mma_of_a_pair_waits_for_the_other_sm():
    first = Streaming(B200, Share(l2=69.0))
    second = Streaming(B200, Share(l2=69.0))
    alone = Work(kind="mma", row=1, step="", line=0, mma=MmaShape(m=128, n=256))
    both = Work(kind="mma", row=0, step="", line=0, mma=MmaShape(m=256, n=256, pair=True), pair=True)
    second.tensor_work(alone, 0.0, 7)
    _, begin, _, cause = first.tensor_work(both, 10.0, 8, second)
    assert (begin, cause) == (128.0, 7)
    assert first.tensor.free == second.tensor.free == 256.0
    _, begin, _, cause = first.tensor_work(both, 256.0, 9, second)
    assert (begin, cause) == (256.0, None), "it comes when the others end"


def test_a_multicast_copy_takes_the_fill_ports_of_all_that_it_reaches():
    kernel = timed(TESTS / "golden" / "multicast_f16")
    loads = [work for work in kernel.trace.works if work.kind == "load"]
    assert {(work.row, work.buffer): work.reaches for work in loads} == {
        (0, "activation"): (2,), (1, "activation"): (2,), (2, "activation"): (-2,), (3, "activation"): (-2,),
        (0, "filter"): (1,), (1, "filter"): (-1,), (2, "filter"): (1,), (3, "filter"): (-1,),
    }  # fmt: skip
    assert kernel.launch.replay is not None
    for row, sm in enumerate(kernel.launch.replay.sms):  # four steps of a whole tile each, half of which others bring
        own = [work for work in loads if work.row == row]
        assert sm.fill.busy == pytest.approx(sum(2 * work.bytes for work in own) / B200["tma.fill"])
        assert sm.asked <= sum(work.taken + work.outside * B200["tma.same_place"] for work in own)


def test_what_fits_on_an_sm():
    assert most_beside(Footprint(shared_bytes=0, columns=0, threads=32), B200) == 32
    assert most_beside(Footprint(shared_bytes=100_000, columns=64, threads=192), B200) == 2
    assert most_beside(Footprint(shared_bytes=1_000, columns=256, threads=192), B200) == 2
    assert most_beside(Footprint(shared_bytes=1_000, columns=0, threads=1024), B200) == 2
    assert most_beside(Footprint(shared_bytes=232_448, columns=512, threads=192), B200) == 1


def test_a_cta_is_replaced_when_l2_has_its_stores_and_the_last_round_ends_before():
    kernel = timed(TESTS / "golden" / "tensor_store_f16")
    slots = int(B200["chip.sms"]) * most_beside(kernel.footprint, B200)
    for rounds in (1, 2):
        found = time_launch(kernel.trace, rounds * slots, kernel.footprint, B200)
        end = max(event.end for event in found.events)
        assert end < found.drained
        assert [length / found.lengths[-1] for length in found.lengths] == [found.drained / end, 1.0][-rounds:]


def test_rounds_of_a_grid_follow_each_other():
    folder = TESTS / "golden" / "slide_f16"
    small = timed(folder)
    sms = B200.changed({"chip.sms": 1, "chip.tensor_columns": 64})
    one_by_one = timed(folder, sms)
    assert one_by_one.launch.rounds == small.ctas == 4
    assert one_by_one.cycles > 4 * small.cycles * 0.9


POLLING = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry poll() {{
    .shared .align 8 .b64 bar;
    .reg .pred %p;
    mbarrier.init.shared::cta.b64 [bar], 1;
    {asks}
    ret;
}}
"""


@pytest.mark.parametrize(("tiles", "most", "who"), [(9, 3, 0), (11, 3, 1), (12, 3, 1), (14, 4, 0)])
def test_of_ctas_that_walk_one_with_most_tiles_is_timed(tiles: int, most: int, who: int):
    folder = TESTS / "golden" / "persistent_f16"
    text = (folder / "kernel.ptx").read_text().replace("%tile, %tile, 2;", "%tile, %tile, 4;")
    text = text.replace("%more, %tile, 10;", f"%more, %tile, {tiles};")
    launch = msgspec.structs.replace(load_launch(folder / "launch.json"), grid=(4, 1, 1))
    found = time_kernel(text, launch, {}, B200)
    assert sum(work.kind == "mma" for work in found.trace.works) == most * 4
    assert walker(parse(text).kernels[0].body, 4) == who


def test_of_ctas_that_ask_for_tiles_one_with_most_is_timed():
    """Ten tiles on four SMs: each makes up to three, as if they went by their number."""
    folder = TESTS / "golden" / "dynamic_f16"
    text = (folder / "kernel.ptx").read_text()
    launch = load_launch(folder / "launch.json")
    found = time_kernel(text, launch, {}, B200.changed({"chip.sms": 4}))
    assert (launch.ctas, found.ctas, found.launch.beside) == (10, 4, 1)
    assert sum(work.kind == "mma" for work in found.trace.works) == 3 * 4
    alone = time_kernel(text, launch, {}, B200)
    assert sum(work.kind == "mma" for work in alone.trace.works) == 4
    assert alone.cycles < found.cycles < 3 * alone.cycles
    small = msgspec.structs.replace(launch, shared_bytes=60000)
    with pytest.raises(UnmodelledError, match="cannot be timed with 3 CTAs per SM: which CTA gets a tile"):
        time_kernel(text, small, {}, B200.changed({"chip.sms": 4}))


SPINNING = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry spin(.param .u64 flag) {
    .reg .pred %p;
    .reg .b32 %v;
    .reg .b64 %flag;
    ld.param.u64 %flag, [flag];
    cvta.to.global.u64 %flag, %flag;
again:
    ld.global.relaxed.gpu.b32 %v, [%flag];
    setp.ne.u32 %p, %v, 1;
    @%p bra again;
    ret;
}
"""


def test_a_kernel_that_waits_for_another_cluster_is_given_up(monkeypatch):
    monkeypatch.setattr(recorder, "MOST_ITEMS", 1000)
    flag = {"flag": BufferSpec(dtype="u32", shape=(1,))}
    launch = LaunchSpec(
        entry="spin", grid=(2, 1, 1), block=(32, 1, 1), buffers=flag, params=(PointerParam(buffer="flag"),)
    )
    with pytest.raises(UnmodelledError, match="more than 1000 instructions were recorded without an end"):
        time_kernel(SPINNING, launch, {"flag": np.zeros(1, np.uint32)}, B200)


@pytest.mark.parametrize(
    ("name", "shape", "factor", "latency"),
    [
        ("tcgen05.ld", "32x32b", 1.0, "tensor_memory.load"),
        ("tcgen05.ld", "16x256b", 3.0, "tensor_memory.load"),
        ("tcgen05.st", "16x256b", 1.0, "tensor_memory.store"),
    ],
)
def test_registers_of_a_warp_pass_the_port_of_its_sub_partition(name, shape, factor, latency):
    """4 bytes of each of 32 lanes for each cell, with conflicts of banks; results are there a latency later."""
    asked = []
    port = SimpleNamespace(take=lambda *what: (asked.append(what), None), free=500.0)
    sms = [SimpleNamespace(lanes=[None] * 4), SimpleNamespace(lanes=[None, None, port, None])]
    chip = B200.changed({"tensor_memory.port": 64.0, "tensor_memory.conflict": 3.0})
    replay = SimpleNamespace(sms=sms, chip=chip, events=[None] * 7)
    strand = SimpleNamespace(warp=(3, 6), at=2, ready={}, time=0.0)
    item = SimpleNamespace(name=name, shape=shape, cells=10)
    assert Replay._tensor_memory(replay, strand, item, 100.0, 5.0) == (None, "program")
    assert asked == [(105.0, 10 * 4 * 32 / 64 * factor, 7)]
    assert (strand.ready, strand.time) == ({2: 500.0 + chip[latency]}, 105.0)
