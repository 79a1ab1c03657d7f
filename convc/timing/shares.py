"""The parts that SMs have of what all of them share: L2, memory, and the ports of their GPCs."""

from __future__ import annotations

import functools

from msgspec.structs import replace

from convc.timing.parameters import Chip
from convc.timing.resources import Share
from convc.timing.sharing import of_each
from convc.timing.spread import later, sooner
from convc.timing.trace import Contribution, Item, Trace


def fullest(busy: int, cluster: int, chip: Chip) -> float:
    """SMs with work of the GPC that has most, over those of one on average."""
    gpcs = int(chip["gpc.count"])
    return of_each(busy, gpcs, cluster) * gpcs / busy


def fullest_cpc(asking: float, chip: Chip) -> float:
    """SMs that ask of the CPC (the TPCs of a third of a GPC, on Hopper) that has most of them.

    CTAs of a GPC get a TPC each before any TPC gets a second one; then one CPC after the other is filled.
    """
    gpcs = chip["gpc.count"]
    whole = -(-chip["chip.sms"] // (gpcs * chip["gpc.cpcs"]))
    beyond = later(0.0, asking - chip["chip.sms"] / 2) / gpcs
    return later(1.0, sooner(whole, sooner(asking / gpcs / chip["gpc.cpcs"], whole / 2) + beyond))


def sm_share(
    chip: Chip, asking: float, missed: float = 0.0, traffic: float = 0.0, step: bool = False, uneven: float = 1.0
) -> Share:
    """Shares of L2, of memory and of the port of its GPC that each SM has of those that ask at the same time.

    L2 and memory have clocks of their own: their rates are bytes a second, whatever the clock of the SMs.

    Args:
        chip: parameters.
        asking: how many SMs ask at the same time, on average.
        missed: part of what they read that comes from memory.
        traffic: bytes that memory moves for each byte that is read.
        step: they ask for the same at the same time.
        uneven: SMs that ask of the GPC that has most, over those of one on average: the launch ends with them.
    """
    together = later(1.0, asking / chip["gpc.count"] * uneven)
    l2 = sooner(a_cycle(chip, "chip.l2") / asking, chip["gpc.port"] / together)
    l2 = sooner(l2, chip["gpc.cpc_port"] / fullest_cpc(asking, chip))
    if traffic:
        l2 = sooner(l2, a_cycle(chip, "chip.memory") / asking / traffic)
    stores = later(1.0, chip["threads.stores_of_all"] * sooner(1.0, asking / chip["chip.sms"]))
    maps = chip["tma.first_all"] * sooner(1.0, asking / chip["chip.sms"])
    return Share(
        l2=l2,
        missed=missed,
        together=chip["gpc.together_in_step" if step else "gpc.together"],
        merged_im2col=chip["gpc.merged_im2col"],
        same_place=chip["tma.same_place"],
        meeting=chip["gpc.meeting"],
        asking=asking,
        stores=stores,
        maps=maps,
    )


def a_cycle(chip: Chip, rate: str) -> float:
    """Bytes in a cycle of the SM clock, of a rate in TB/s."""
    return chip[rate] * 1e3 / chip["chip.clock"]


@functools.lru_cache(maxsize=4)
def side_by_side(trace: Trace, copies: int) -> Trace:
    """A trace of several clusters that know nothing of each other: rows of the next ones follow."""
    if copies == 1:
        return trace
    whole = Trace(items={}, works=[], phases={}, arrivals={}, ctas=trace.ctas * copies, prefetches=trace.prefetches)
    for copy in range(copies):
        rows = copy * trace.ctas
        first = len(whole.works)
        whole.works += [replace(work, row=work.row + rows) for work in trace.works]
        for (row, warp), items in trace.items.items():
            whole.items[row + rows, warp] = [_moved(item, rows, first, copy) for item in items]
        for (row, address, number), contributions in trace.phases.items():
            whole.phases[row + rows, address, number] = [_contribution(one, rows, first) for one in contributions]
        whole.barriers |= {(row + rows, address): name for (row, address), name in trace.barriers.items()}
        for meeting, arrivals in trace.arrivals.items():
            whole.arrivals[*meeting, copy] = [((row + rows, warp), item) for (row, warp), item in arrivals]
    return whole


def _moved(item: Item, rows: int, first: int, copy: int) -> Item:
    waits = None if item.waits is None else (item.waits[0] + rows, item.waits[1], item.waits[2])
    meets = None if item.meets is None else (*item.meets, copy)
    leaves = None if item.leaves is None else (*item.leaves, copy)
    return replace(item, works=[work + first for work in item.works], waits=waits, meets=meets, leaves=leaves)


def _contribution(one: Contribution, rows: int, first: int) -> Contribution:
    warp = None if one.warp is None else (one.warp[0] + rows, one.warp[1])
    return Contribution(warp, one.item, tuple(work + first for work in one.works))
