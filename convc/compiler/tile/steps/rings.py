"""Steps on rings of mbarriers: waits, signals, and the way from one stage to the next."""

from __future__ import annotations

from convc.compiler.plan.names import Number, RingName
from convc.compiler.tile.steps.base import Step
from convc.compiler.tile.steps.spelling import Names, RoleContext, phase, stage


class RingWait(Step, frozen=True, kw_only=True):
    """Wait at the role's place in the ring.

    `starts_open` says what a barrier without a signal yet means. False: nothing is there, so wait (a consumer waits
    for data). True: the stage has never been used, so go on (a producer waits for room).
    `last`: nothing comes to the stage any more. Other CTAs signal the barrier, and must have done so before this one
    ends, since its shared memory ends with it.
    """

    ring: RingName
    starts_open: bool
    last: bool = False

    def describe(self) -> str:
        when = " (ready at first)" if self.starts_open else ""
        return f"wait for {'the last signal of ' if self.last else ''}{self.ring}{when}"

    def spelling(self, context: RoleContext) -> Names:
        ring = context.storage.ring(self.ring)
        return {
            "staged": ring.stages > 1,
            "stage": stage(ring.state),
            "fence": context.uses_tensor_memory and context.orders_tensor_memory(ring),
            "label": f"{self.label}_retry",
            "offset": ring.offset,
            "parity": self._parity(ring.state, context),
        }

    def _parity(self, state: str, context: RoleContext) -> str:
        """The line that sets the parity to wait for; a role that never advances in a ring waits for its first phase."""
        if state not in context.states:
            return "mov.b32 %parity, 0;"
        return f"xor.b32 %parity, {phase(state)}, 1;" if self.starts_open else f"mov.b32 %parity, {phase(state)};"


class Signal(Step, frozen=True, kw_only=True):
    """A signal to a ring's barrier."""

    ring: RingName


class ExpectBytes(Signal, frozen=True, kw_only=True):
    """Arrive at the ring's barrier and announce how many bytes the copies of this stage will bring.

    Of a pair the first CTA does it, for the copies of both.
    """

    bytes: int

    def describe(self) -> str:
        return f"expect {self.bytes} bytes on {self.ring}"

    def spelling(self, context: RoleContext) -> Names:
        ring = context.storage.ring(self.ring)
        return {
            "stage": stage(ring.state),
            "offset": ring.offset,
            "bytes": self.bytes,
            "leads": ring.at == "leader",
        }


class Commit(Signal, frozen=True, kw_only=True):
    """Signal the ring's barrier once all MMAs issued so far have finished.

    `ctas`: number with the CTAs of the cluster whose barriers are signalled, a bit for each rank; None: as the ring
    says.
    """

    ctas: Number | None = None

    def describe(self) -> str:
        whose = f" of the CTAs {self.ctas}" if self.ctas else ""
        return f"signal {self.ring}{whose} when the MMAs so far are done"

    def spelling(self, context: RoleContext) -> Names:
        ring = context.storage.ring(self.ring)
        both = f"0x{(1 << context.pair) - 1:x}"
        return {
            "staged": ring.stages > 1,
            "stage": stage(ring.state),
            "offset": ring.offset,
            "group": context.pair,
            "everywhere": ring.at == "all" or self.ctas is not None,
            "ctas": f"cvt.u16.u32 %ctas, %{self.ctas};" if self.ctas else f"mov.b16 %ctas, {both};",
            "whose": "all CTAs that fill the stage" if self.ctas else "both CTAs",
        }


class WarpCommit(Signal, frozen=True, kw_only=True):
    """Every warp signals the ring's barrier once its MMAs so far have finished, some of them later.

    The warps multiply on meanwhile: what a stage's signal waits for may still run when the next stage is multiplied.

    Attributes:
        closes: whether the MMAs since the last such step become a group of their own, which is waited for.
        behind: 1: the stage before is signalled here, and the last one is not signalled; 0: this one is.
        counter: number that is 0 where no stage is before this one; None: one always is.
        ctas: number with the CTAs of the cluster whose barriers are signalled, a bit for each rank; None: its own.
    """

    closes: bool
    behind: int
    counter: Number | None
    ctas: Number | None = None

    def describe(self) -> str:
        when = "a stage later" if self.behind else "at once"
        whose = f" of the CTAs {self.ctas}" if self.ctas else ""
        return f"every warp signals {self.ring}{whose} when its MMAs so far are done, {when}"

    def spelling(self, context: RoleContext) -> Names:
        ring = context.storage.ring(self.ring)
        return {
            "closes": self.closes,
            "behind": self.behind,
            "waits": self.closes or not self.behind,
            "before": self.behind > 0,
            "counted": self.counter is not None,
            "counter": self.counter or "",
            "stage": stage(ring.state),
            "last": ring.stages - 1,
            "offset": ring.offset,
            "ctas": self.ctas or "",
        }


class WaitMmas(Step, frozen=True, kw_only=True):
    """Every warp waits until its MMAs have finished."""

    def describe(self) -> str:
        return "wait until the MMAs are done"


class Arrive(Signal, frozen=True, kw_only=True):
    """Every thread of the role arrives at the ring's barrier once its stores to tensor memory are complete."""

    def describe(self) -> str:
        return f"every thread signals {self.ring}, its stores done"

    def spelling(self, context: RoleContext) -> Names:
        ring = context.storage.ring(self.ring)
        return {"stage": stage(ring.state), "offset": ring.offset}


class Advance(Step, frozen=True, kw_only=True):
    """Move a state of the role to the next stage of a ring of `stages`; the phase turns at every wrap."""

    stages: int
    state: str = ""

    def describe(self) -> str:
        stages = "1 stage" if self.stages == 1 else f"{self.stages} stages"
        return f"next of {stages}{f' of {self.state}' if self.state else ''}"

    def spelling(self, context: RoleContext) -> Names:
        known = self.state in context.places
        after = (context.places.get(self.state, 0) + 1) % self.stages
        if known:
            context.places[self.state] = after
        return {
            "known": known,
            "place": f"stage {after} is next",
            "counted": self.stages > 1 and not known,
            "turns": after == 0 if known else self.stages == 1,
            "stages": self.stages,
            "stage": stage(self.state),
            "phase": phase(self.state),
        }
