"""mbarrier: initialisation, arrivals, expected bytes, waits (PTX manual, 9.7.13.15)."""

from __future__ import annotations

from collections.abc import Callable

from convc.auditor.barriers import Mbarrier, Signal
from convc.auditor.clocks import join_relaxed
from convc.auditor.effects.registry import Run, effect
from convc.auditor.lanes import at, each
from convc.auditor.operands import reader
from convc.auditor.state import Cta, Warp
from convc.ir.findings import Verdict
from convc.ptx import Instr, Reg

MOST_ARRIVALS = (1 << 20) - 1


@effect("mbarrier.init")
def _init(instr: Instr) -> Run:
    address = reader(instr.args["addr"])
    count = reader(instr.args["count"])

    def run(warp: Warp, lanes: int) -> None:
        time = warp.tick()
        number = at(count(warp), lanes)
        ledger = warp.cta.cluster.ledger
        for place in each(address(warp), lanes):
            found = warp.locate(place)
            if found is None or number is None:
                warp.lose(instr, "unknown address or arrival count of this mbarrier")
                return
            cta, offset = found
            ledger.look("barrier-init", instr.index)
            if cta is not warp.cta:
                ledger.accuse("barrier-init", "mbarrier.init of an mbarrier of another CTA", warp.doer(instr))
            if not 1 <= number <= MOST_ARRIVALS:
                ledger.accuse("arrival-count", f"mbarrier.init with a count of {number} arrivals", warp.doer(instr))
            if offset % 8:
                ledger.accuse("barrier-init", f"an mbarrier at byte {offset} is not aligned to 8", warp.doer(instr))
            old = cta.barriers.get(offset)
            if old is not None:
                ledger.accuse("barrier-init", "the mbarrier is already initialised", warp.doer(instr), old.maker)
            cta.barriers[offset] = Mbarrier(
                cta=cta.rank, offset=offset, count=number, maker=warp.doer(instr), warp=warp.id, made=time
            )

    return run


@effect("mbarrier.inval")
def _inval(instr: Instr) -> Run:
    address = reader(instr.args["addr"])

    def run(warp: Warp, lanes: int) -> None:
        for place in set(each(address(warp), lanes)):
            found = warp.locate(place)
            if found is not None:
                found[0].barriers.pop(found[1], None)

    return run


def barrier_at(warp: Warp, instr: Instr, place: int | None, *, asynchronous: bool = False) -> Mbarrier | None:
    """The mbarrier at an address that is used; the walk ends where there is none."""
    found = warp.locate(place)
    if found is None:
        warp.lose(instr, "unknown mbarrier address")
        return None
    return barrier_in(warp, instr, *found, asynchronous=asynchronous)


def barrier_in(warp: Warp, instr: Instr, cta: Cta, offset: int, *, asynchronous: bool = False) -> Mbarrier | None:
    """The mbarrier at an offset of a CTA: it has to be made ready before, in the view of the warp that uses it."""
    ledger = warp.cta.cluster.ledger
    barrier = cta.barriers.get(offset)
    if barrier is None:
        if not ledger.lost:
            what = f"no mbarrier at byte {offset} of CTA {cta.number} is initialised when it is used"
            ledger.accuse("barrier-init", what, warp.doer(instr))
        warp.lose(instr, "no mbarrier is known there")
        return None
    ledger.look("barrier-init", instr.index)
    made = warp.knows("made", barrier.warp) >= barrier.made
    if barrier.warp != warp.id and warp.knows("did", barrier.warp) < barrier.made and not made:
        what = "this use of an mbarrier is not ordered after its mbarrier.init"
        ledger.accuse("barrier-init", what, warp.doer(instr), barrier.maker)
    elif asynchronous and not made and warp.knows("fenced", barrier.warp) < barrier.made:
        what = "a copy or a commit signals an mbarrier that was initialised without a fence.mbarrier_init after it"
        ledger.accuse("barrier-init", what, warp.doer(instr), barrier.maker, level=Verdict.review)
    return barrier


def signalled(warp: Warp, instr: Instr, cta: Cta, barrier: Mbarrier, *, asynchronous: bool) -> None:
    """Remember what is done to a barrier of another CTA, which has to stay for it."""
    if cta is not warp.cta:
        barrier.signals.append(Signal(barrier.phase, warp.doer(instr), warp.id, warp.time, asynchronous))


def _arrivals(instr: Instr, *, drop: bool = False, transactions: bool = False) -> Run:
    address = reader(instr.args["addr"])
    given = instr.args.get("count")
    count = reader(given) if given is not None else None
    said = reader(instr.args["tx_count"]) if transactions else None
    relaxed = "relaxed" in instr.mods

    def run(warp: Warp, lanes: int) -> None:
        ledger = warp.cta.cluster.ledger
        warp.tick()
        number = 1 if count is None else at(count(warp), lanes)
        tokens = isinstance(instr.operands[0], Reg)
        states: list[int] = []
        told: tuple[object, int] | None = None
        for place in each(address(warp), lanes):
            barrier = barrier_at(warp, instr, place)
            if barrier is None:
                return
            if number is None:
                warp.lose(instr, "unknown arrival count")
                return
            cta = warp.cta.cluster.ctas[barrier.cta]
            signalled(warp, instr, cta, barrier, asynchronous=False)
            states.append(barrier.phase)
            if said is not None:
                _announce(warp, instr, barrier, at(said(warp), lanes))
            ledger.look("arrival-count", instr.index)
            _over(warp, instr, barrier, number)
            if relaxed:
                join_relaxed(barrier.clock, warp.clock)
            if drop:
                barrier.count -= number
            # All lanes know the same, and a phase needs to be told once.
            again = told == (barrier.key, barrier.phase)
            told = (barrier.key, barrier.phase)
            barrier.arrive(None if relaxed or again else warp.clock, number)
        if tokens:
            first = instr.operands[0]
            assert isinstance(first, Reg)
            warp.write(first.slot, states[0] if len(set(states)) == 1 else None, lanes)

    return run


def _over(warp: Warp, instr: Instr, barrier: Mbarrier, number: int) -> None:
    """Arrivals beyond what a phase was made for."""
    if number > barrier.pending:
        what = f"{number} arrivals at once where the phase lacks {barrier.pending} of {barrier.count}"
        warp.cta.cluster.ledger.accuse("arrival-count", what, warp.doer(instr), barrier.maker)


def _announce(warp: Warp, instr: Instr, barrier: Mbarrier, bytes_: int | None) -> None:
    """A phase is told to expect bytes."""
    ledger = warp.cta.cluster.ledger
    ledger.look("transaction-bytes", instr.index)
    if bytes_ is None:
        barrier.exact = False
        ledger.unknown(instr, "unknown byte count of the expect_tx")
        return
    barrier.announced = warp.doer(instr)
    barrier.expected += bytes_
    barrier.transactions += bytes_


def bring(warp: Warp, instr: Instr, barrier: Mbarrier, bytes_: int | None) -> None:
    """An asynchronous operation completes bytes on a barrier."""
    if bytes_ is None:
        barrier.exact = False
    else:
        barrier.brought = warp.doer(instr)
        barrier.arrived += bytes_
        barrier.transactions -= bytes_
    barrier.settle()


effect("mbarrier.arrive", "mbarrier.arrive.noComplete")(lambda instr: _arrivals(instr))
effect("mbarrier.arrive_drop", "mbarrier.arrive_drop.noComplete")(lambda instr: _arrivals(instr, drop=True))
effect("mbarrier.arrive.expect_tx")(lambda instr: _arrivals(instr, transactions=True))
effect("mbarrier.arrive_drop.expect_tx")(lambda instr: _arrivals(instr, drop=True, transactions=True))


def _transactions(change: Callable[[Warp, Instr, Mbarrier, int | None], None]) -> Callable[[Instr], Run]:
    def build(instr: Instr) -> Run:
        address = reader(instr.args["addr"])
        said = reader(instr.args["tx_count"])

        def run(warp: Warp, lanes: int) -> None:
            warp.tick()
            for place in each(address(warp), lanes):
                barrier = barrier_at(warp, instr, place)
                if barrier is None:
                    return
                change(warp, instr, barrier, at(said(warp), lanes))

        return run

    return build


effect("mbarrier.expect_tx", result=False)(_transactions(_announce))
effect("mbarrier.complete_tx", result=False)(_transactions(bring))


@effect("cp.async.mbarrier.arrive")
def _copied(instr: Instr) -> Run:
    return _no_counts(instr)


def _no_counts(instr: Instr) -> Run:
    """Arrivals that come with older copies: they are taken to come at once, and to know what the thread knows."""
    address = reader(instr.args["addr"])
    plain = "noinc" in instr.mods

    def run(warp: Warp, lanes: int) -> None:
        warp.tick()
        for place in each(address(warp), lanes):
            barrier = barrier_at(warp, instr, place)
            if barrier is None:
                return
            if plain:
                barrier.arrive(warp.clock)

    return run


@effect("mbarrier.test_wait.parity", "mbarrier.try_wait.parity", "mbarrier.test_wait", "mbarrier.try_wait")
def _wait(instr: Instr) -> Run:
    """A wait goes on when its phase is over; loops around it come out at once."""
    address = reader(instr.args["addr"])
    by_parity = instr.form.name.endswith("parity")
    which = reader(instr.args["parity" if by_parity else "state"])
    passed = instr.operands[0]
    relaxed = "relaxed" in instr.mods

    def run(warp: Warp, lanes: int) -> bool | None:
        ledger = warp.cta.cluster.ledger
        places = set(each(address(warp), lanes))
        numbers = set(each(which(warp), lanes))
        if len(places) > 1 or len(numbers) > 1 or None in numbers:
            warp.lose(instr, "unknown mbarrier or phase parity of this wait")
            return None
        barrier = barrier_at(warp, instr, places.pop())
        if barrier is None:
            return None
        number = numbers.pop()
        assert number is not None
        if barrier.cta != warp.cta.rank:
            ledger.accuse("phase-parity", "the wait is on an mbarrier of another CTA", warp.doer(instr))
        known = warp.knows("phase", barrier.key)
        least = barrier.passing(known, number & 1) if by_parity else number + 1
        if barrier.phase < least:
            warp.waiting_for = f"mbarrier at byte {barrier.offset}"
            return True
        ledger.look("phase-parity", instr.index)
        if by_parity and (barrier.phase - least) & 1:
            what = (
                "the next phase may complete before this wait tests the parity; the wait then blocks on a "
                "phase that may never complete"
            )
            ledger.accuse("phase-parity", what, warp.doer(instr))
        warp.waiting_for = ""
        if least:
            brought = barrier.phases[least - 1]
            if relaxed:
                join_relaxed(warp.clock, brought)
            else:
                warp.learn(brought)
            warp.clock["phase", barrier.key] = max(least, known)
        if isinstance(passed, Reg):
            warp.write(passed.slot, 1, lanes)
        return None

    return run
