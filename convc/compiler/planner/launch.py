"""The launch of a schedule's candidates: whether CTAs are persistent, multiply in pairs, or share a tile.

Each choice is one function from a pick to a pick. It keeps the candidate or takes another one, and writes its reason
down. A candidate of another form is taken where it is faster by more than estimates are off.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from convc.compiler.plan.candidate import ScheduleCandidates
from convc.compiler.plan.choice import SLACK, choose
from convc.compiler.plan.constraints import TileGrid
from convc.compiler.plan.names import LaunchForm
from convc.compiler.plan.offer import Candidate, Offer
from convc.compiler.plan.pairs import PAIR
from convc.compiler.plan.reasons import Reasons
from convc.compiler.schedules.all import schedule_of
from convc.compiler.schedules.base import PARTS_OF, Known, Request, Schedule
from convc.support.memory import human_bytes

CLUSTERS = "one cluster per tile"
"""The reason why split-K CTAs are not persistent."""


SPLIT_GAIN = 2.0
"""How many times faster split-K has to be by the estimate on Hopper, where the option is `auto`. On an H200 layers that
were 7 to 53 percent faster by it took longer; layer4.0.conv2 of ResNet-50, 159 percent faster, took 44 percent less."""

MULTICAST_GAIN = 1.27
"""The same for multicast of persistent clusters. On an H200 `effnetv2.fused24` at batch 4 and 16, 29 and 35 percent
faster by the estimate, took 26 and 33 percent less, and `medical.down`, 30 and 35 percent faster, the same; of the
layers of `benchmarks/silicon.csv` that were 10 to 26 percent faster one of five gained."""


class Pick(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate to take.

    Attributes:
        schedule: everything that its schedule has to offer.
        best: the candidate.
        why: the reasons for the way in which it is launched.
    """

    schedule: ScheduleCandidates
    best: Candidate
    why: Reasons = msgspec.field(default_factory=Reasons)

    def because(self, **sentences: str) -> Pick:
        """The pick with reasons added."""
        return replace(self, why=replace(self.why, **sentences))


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """The field in which a launch is chosen.

    Attributes:
        legal: the schedules that another form may have instead of the chosen one.
        request: what is asked for.
        refused: forms that cannot be taken, each with the reason.
        known: what has been offered for the problem.
        split_gain, multicast_gain: how many times faster the estimate of such a launch has to be.
    """

    legal: Sequence[ScheduleCandidates]
    request: Request
    refused: Mapping[LaunchForm, str]
    known: Known
    split_gain: float = SLACK
    multicast_gain: float = SLACK

    def offered(self, schedule: Schedule, tiled: TileGrid, request: Request) -> ScheduleCandidates:
        """The candidates of a schedule for the problem of some tiles."""
        return schedule.candidates(tiled.layout, tiled.arch, request, self.known)


def launched(chosen: ScheduleCandidates, survey: Survey) -> Pick:
    """Choose how a schedule is launched, and whether another one is launched instead.

    Args:
        chosen: the schedule to take if each tile has a CTA that multiplies by itself.
        survey: the field.
    """
    pick = Pick(schedule=chosen, best=chosen.best)
    for change in (_with_persistent, _pairing, _sharing):
        pick = change(pick, survey)
    return pick


def every_form(survey: Survey) -> Iterator[Pick]:
    """The best candidate of every width of every legal schedule, in every form that is asked for or left open.

    Their reasons say what they are, and that timing decides.
    """
    for candidates in survey.legal:
        schedule = schedule_of(candidates.schedule)
        tiled = candidates.best.tiled
        yield from (_to_be_timed(candidates, best) for best in candidates.legal)
        if tiled.arch.tensor_core == "tcgen05":
            for form in _other_forms(schedule, survey):
                offer = survey.offered(schedule, tiled, _in_form(survey.request, form))
                yield from (_to_be_timed(offer, best) for best in offer.legal if _makes_sense(best.tiled))


def _other_forms(schedule: Schedule, survey: Survey) -> Iterator[LaunchForm]:
    """Forms of a schedule besides the one that every schedule has been asked for."""
    request = survey.request
    requested = (bool(request.persistent), bool(request.pairs), request.parts or 1)
    ways = (False, True) if request.persistent is None else (request.persistent,)
    pairs = (False, schedule.pairs) if request.pairs is None else (request.pairs,)
    parts = [each for each in PARTS_OF.values() if each] if request.parts is None else [request.parts]
    for form in dict.fromkeys(itertools.product(ways, pairs, parts if schedule.splits else [1])):
        persistent, pair, part = form
        several = part > 1 and (persistent or pair)
        if form != requested and not several and LaunchForm(schedule.id, *form) not in survey.refused:
            yield LaunchForm(schedule.id, *form)


def _in_form(request: Request, form: LaunchForm) -> Request:
    """A request for nothing but one form."""
    return dataclasses.replace(request, persistent=form.persistent, pairs=form.pairs, parts=form.parts)


def _makes_sense(grid: TileGrid) -> bool:
    """Whether there is more than one tile for a persistent CTA, and for split-K CTAs an SM for each."""
    tiles = math.prod(grid.grid)
    persistent = grid.ctas is not None and grid.ctas >= tiles
    return not persistent and (grid.parts == 1 or tiles * grid.parts <= grid.arch.rates.sms)


def _to_be_timed(schedule: ScheduleCandidates, best: Candidate) -> Pick:
    tiles = math.prod(best.tiled.grid)
    parts = best.tiled.parts
    persistent = f"one CTA for each of {tiles} tiles" if best.tiled.ctas is None else _persistent_ctas(best)
    pairs = "2-CTA MMA, one of the timed candidates" if best.tiled.tiling.ctas == PAIR else ""
    each = f"{parts} split-K CTAs per tile, one of the timed candidates"
    split = f"{each}: {_busy(best)}" if parts > 1 else ""
    if parts > 1:
        persistent = CLUSTERS
    return Pick(schedule=schedule, best=best, why=Reasons(persistent=persistent, pairs=pairs, split=split))


def _persistent_ctas(best: Candidate) -> str:
    return f"persistent: {best.tiled.ctas} CTAs for {math.prod(best.tiled.grid)} tiles"


def _busy(best: Candidate) -> str:
    """How many SMs work where CTAs share tiles, and how many would without."""
    sms = best.tiled.arch.rates.sms
    tiles = math.prod(best.tiled.grid)
    return f"{best.cost.busy_sms} of {sms} SMs are used instead of {min(sms, tiles)}"


def form_of(pick: Pick) -> LaunchForm:
    """The schedule of a candidate, and what its CTAs do together."""
    tiled = pick.best.tiled
    pairs = tiled.tiling.ctas == PAIR
    return LaunchForm(pick.schedule.schedule, tiled.ctas is not None, pairs, tiled.parts, tiled.tiling.multicast)


def cycles(candidates: ScheduleCandidates) -> float:
    """Cycles of a schedule's best candidate."""
    return candidates.best.cycles


def assumed(candidates: ScheduleCandidates) -> int:
    """Rules that a schedule assumes."""
    return schedule_of(candidates.schedule).assumed


def _with_persistent(pick: Pick, survey: Survey) -> Pick:
    """CTAs are persistent where that is faster and not refused, of whichever schedule."""
    request = survey.request
    best = pick.best
    arch = best.tiled.arch
    if best.tiled.parts > 1:
        return pick.because(persistent=CLUSTERS)
    if request.persistent is not None:
        how = "with the dynamic tile scheduler" if request.dynamic else "on"
        return pick.because(persistent=f"persistent CTAs {how if request.persistent else 'off'}, as requested")
    tiles = math.prod(best.tiled.grid)
    if tiles <= arch.rates.sms:
        return pick.because(persistent=f"one CTA per tile, as {tiles} tiles fit on the {arch.rates.sms} SMs")
    # On Hopper the schedule stays: whether estimates choose rightly between two was not measured on an H200.
    others = survey.legal if arch.tensor_core == "tcgen05" else ()
    own = _persistent_offer(pick.schedule, pick, survey)
    offered = [(pick.schedule, own)]
    offered += [
        (one, _persistent_offer(one, pick, survey))
        for one in others
        if one is not pick.schedule and assumed(one) <= assumed(pick.schedule)
    ]
    possible = [(one, found.best) for one, found in offered if isinstance(found, ScheduleCandidates)]
    turned_down = f"one CTA per tile: {own}"
    if not possible:
        return pick.because(persistent=turned_down)
    # As among schedules: of those that are about as fast, the one that has the least traffic.
    schedule, fastest = possible[choose([candidate for _, candidate in possible])]
    other = "" if schedule is pick.schedule else f" of {schedule.schedule.title}"
    over = math.prod(fastest.tiled.grid)
    both = f"{fastest.cycles:.0f} cycles with {fastest.cost.ctas} persistent CTAs{other} for {over} tiles"
    alone = f"{best.cycles:.0f} with one CTA per tile"
    # An estimate that is off by less must not make a kernel slower. Where the accumulator lies in registers none got so
    # by more than 1 percent, of 11 layers of ResNet-50 at batch 32 and a product on an H200.
    slack = SLACK if arch.limits.tmem_columns else 1.0
    if slack * fastest.cycles > best.cycles:
        return pick.because(persistent=turned_down if isinstance(own, str) else f"one CTA per tile: {both}, {alone}")
    return replace(pick, schedule=schedule, best=fastest).because(persistent=f"persistent: {both}, {alone}")


def _persistent_offer(one: ScheduleCandidates, pick: Pick, survey: Survey) -> ScheduleCandidates | str:
    """What a schedule has to offer with persistent CTAs; why it has nothing."""
    tiled = pick.best.tiled
    own = one is pick.schedule
    tiling = tiled.tiling
    form = LaunchForm(one.schedule, True, tiling.ctas == PAIR, 1, tiling.multicast if own else (1, 1))
    if form in survey.refused:
        return survey.refused[form]
    width = tiling.block_n if own and one.picked is not None else survey.request.block_n
    # Asked anew, since persistent CTAs may need another cut of the output: they have no lane masks.
    request = dataclasses.replace(survey.request, persistent=True, block_n=width)
    offered = survey.offered(schedule_of(one.schedule), tiled, request)
    return offered if offered.possible else offered.rejected[0].reason


def _pairing(pick: Pick, survey: Survey) -> Pick:
    """Two CTAs multiply as one where that is faster, of whichever schedule."""
    request = survey.request
    best = pick.best
    if best.tiled.parts > 1:
        return pick
    if request.pairs is not None:
        return pick.because(pairs=f"{PAIR if request.pairs else 1}-CTA MMA, as requested")
    found = list(_pairs(pick.schedule, survey)) if best.tiled.grid[0] >= PAIR else []
    if not found:
        return pick
    schedule, pairs = min(found, key=lambda one: one[1].cycles)
    both = f"{pairs.cycles:.0f} cycles with 2-CTA MMA ({schedule.schedule.title}, {pairs.tiled.tiling})"
    alone = f"{best.cycles:.0f} cycles with 1-CTA MMA ({pick.schedule.schedule.title}, {best.tiled.tiling})"
    if not _worth_pairing(pairs, best):
        return pick.because(pairs=f"{alone}, {both}")
    near = ""
    if SLACK * pairs.cycles > best.cycles:
        moved = f"{human_bytes(pairs.traffic_bytes)} instead of {human_bytes(best.traffic_bytes)}"
        near = f", equal within the error of the estimate; 2-CTA MMA has less traffic: {moved}"
    taken = replace(pick, schedule=schedule, best=pairs).because(pairs=f"{both}, {alone}{near}")
    if request.persistent is not None:
        return taken
    each = f"one CTA for each of {math.prod(pairs.tiled.grid)} tiles"
    return taken.because(persistent=each if pairs.tiled.ctas is None else _persistent_ctas(pairs))


def _worth_pairing(pairs: Candidate, best: Candidate) -> bool:
    """Whether pairs are faster by more than the error of estimates, or as fast within it, persistent, and load less.

    Through rounds of tiles every CTA asks L2 at once, and what the estimate does not see of that falls on who asks for
    more. A launch of one round has no such time, and pairs wait for each other when they begin and when they end.
    """
    about = SLACK if pairs.tiled.ctas is not None and _makes_sense(pairs.tiled) else 1 / SLACK
    fewer = pairs.traffic_bytes < best.traffic_bytes
    return pairs.cycles <= (about if fewer else 1 / SLACK) * best.cycles


def _pairs(chosen: ScheduleCandidates, survey: Survey) -> Iterator[tuple[ScheduleCandidates, Candidate]]:
    """The best candidates of CTA pairs, of schedules with no more assumed rules than the chosen one.

    A schedule whose pairs are all slower than those before is left out. Pairs have room for wider tiles, and persistent
    pairs hide other waits, so both are planned anew.
    """
    request = survey.request
    tiled = chosen.best.tiled
    if tiled.arch.tensor_core != "tcgen05":
        return
    ways = (False, True) if request.persistent is None else (request.persistent,)
    fastest = math.inf
    for candidates in survey.legal:
        schedule = schedule_of(candidates.schedule)
        if not schedule.pairs or schedule.assumed > assumed(chosen):
            continue
        for way in ways:
            if LaunchForm(candidates.schedule, way, True) in survey.refused:
                continue
            pairs = survey.offered(schedule, tiled, dataclasses.replace(request, pairs=True, persistent=way))
            found = pairs.best_of(_makes_sense, fastest)
            if found is not None:
                fastest = min(fastest, found.cycles)
                yield candidates, found


def _fewest_tiles(candidates: ScheduleCandidates) -> int:
    """Tiles of the output where each is as wide as can be."""
    offers = [part for part in candidates.parts if isinstance(part, Offer)]
    return min(
        one.rows * -(-one.layout.problem.out_channels // max(each.first.block_n for each in one.depths))
        for one in offers
        if one.depths
    )


def _fitting(offers: Sequence[ScheduleCandidates]) -> list[tuple[ScheduleCandidates, Candidate]]:
    """The best candidates that make sense, but for those that are clearly slower than one before."""
    found: list[tuple[ScheduleCandidates, Candidate]] = []
    most = math.inf
    for one in offers:
        candidate = one.best_of(_makes_sense, most)
        if candidate is not None:
            found.append((one, candidate))
            most = min(most, SLACK * candidate.cycles)
    return found


def _sharing(pick: Pick, survey: Survey) -> Pick:
    """Split-K where that is faster, of whichever schedule."""
    request = survey.request
    chosen = pick.schedule
    best = pick.best
    sms = best.tiled.arch.rates.sms
    if request.parts is not None:
        if request.parts == 1:
            return pick.because(split="no split-K, as requested")
        return pick.because(split=f"{request.parts} split-K CTAs per tile, as requested: {_busy(best)}")
    if request.pairs or request.multicast not in (None, (1, 1)):
        return pick.because(split="no split-K: 2-CTA MMA or multicast was requested")
    if best.tiled.ctas is not None:
        return pick.because(split="no split-K: its CTAs are persistent")
    able = [one for one in survey.legal if schedule_of(one.schedule).splits and assumed(one) <= assumed(chosen)]
    if not able:
        return pick.because(split="no split-K: no legal schedule supports it")
    tiles = {one.schedule: _fewest_tiles(one) for one in able}
    fewest = min(tiles.values())
    if 2 * fewest > sms:
        return pick.because(split=f"no split-K: {fewest} tiles or more leave fewer than two of {sms} SMs per tile")
    offers = [
        survey.offered(schedule_of(one.schedule), best.tiled, dataclasses.replace(request, parts=parts))
        for one in able
        for parts in PARTS_OF.values()
        if parts is not None and 1 < parts <= sms // tiles[one.schedule]
        if LaunchForm(one.schedule, False, False, parts) not in survey.refused
    ]
    if not offers:
        return pick.because(split="no split-K: no kernel with it could be emitted")
    fitting = _fitting(offers)
    if not fitting and not any(one.possible for one in offers):
        return pick.because(split=f"no split-K: {offers[0].rejected[0].reason}")
    if not fitting:
        return pick.because(split=f"no split-K: {sms} SMs are too few for the clusters of all tiles")
    # As among schedules: of those that are about as fast, the one that has the least traffic.
    shared, found = fitting[choose([candidate for _, candidate in fitting])]
    parts = found.tiled.parts
    both = f"{found.cycles:.0f} cycles with {parts} split-K CTAs per tile, {best.cycles:.0f} with one"
    if survey.split_gain * found.cycles > best.cycles:
        return pick.because(split=f"no split-K: {both}")
    taken = replace(pick, schedule=shared, best=found)
    return taken.because(persistent=CLUSTERS, pairs="", split=f"split K: {both}; {_busy(found)}")
