"""Steps: each one act of one role on whole tiles, and the few that every kernel needs.

A CTA of Blackwell is a small factory. One warp fetches operand tiles (``load``), one feeds the tensor core (``mma``),
four store results (``epilogue``); rings of mbarriers keep them apart. A tile program
(`convc.compiler.tile.program`) writes that down: who does what, in which order, on which tile, and nothing about
registers or opcodes.

A step is a class. Its fields say by their types what they name (`convc.compiler.plan.names`): numbers that it reads or
makes, rings, tiles, maps. What it uses is read off these types (`convc.compiler.tile.uses`), `describe` says what it
does, `tests/support/interpret` what it means, and a template of its name writes it as text.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from convc.compiler.plan.names import MapName, NewNumber, Number, RingName
from convc.ir.expr import IntExpr


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One act of one role.

    Attributes:
        id: unique in the program; the text carries it in its ``//@`` marks.
        note: what the step is for, one line for people.
        column: the filter column that it is about, of the loop variables around it; None: of none, or of several.
    """

    id: str
    note: str
    column: IntExpr | None = None

    def describe(self) -> str:
        """Say what the step does, in a few words."""
        raise TypeError(f"{type(self).__name__} does not say what it does")


class PrefetchMaps(Step, frozen=True, kw_only=True):
    """Bring the tensor maps named in `maps` close to the copy engine; changes nothing."""

    maps: tuple[MapName, ...]

    def describe(self) -> str:
        return f"prefetch {', '.join(self.maps)}"


class InitRings(Step, frozen=True, kw_only=True):
    """Give every barrier of the rings its arrival count, and make that visible to the asynchronous engines.

    `lanes`: a barrier each, so the whole warp takes part; else one thread makes all.
    """

    rings: tuple[RingName, ...]
    lanes: bool = False

    def describe(self) -> str:
        return f"make ready {', '.join(self.rings)}{', each by another lane' if self.lanes else ''}"


class TmemAlloc(Step, frozen=True, kw_only=True):
    """Allocate tensor memory; its address goes to the slot in shared memory. The whole warp takes part."""

    columns: int

    def describe(self) -> str:
        return f"allocate {self.columns} columns of tensor memory"


class TmemBase(Step, frozen=True, kw_only=True):
    """Every thread reads the address of the allocation from the slot."""

    def describe(self) -> str:
        return "read the address of the tensor memory"


class TmemDealloc(Step, frozen=True, kw_only=True):
    """Give the tensor memory back. The whole warp takes part."""

    columns: int

    def describe(self) -> str:
        return f"free {self.columns} columns of tensor memory"


class CtaSync(Step, frozen=True, kw_only=True):
    """All threads of the CTA meet; tensor-memory work before it is ordered before that after it."""

    def describe(self) -> str:
        return "all threads meet"


class StartArrive(Step, frozen=True, kw_only=True):
    """Tell those who meet at `StartSync`, `threads` with this role's, what was done here, and go on without them."""

    threads: int

    def describe(self) -> str:
        return "tell the others, and go on"


class StartSync(Step, frozen=True, kw_only=True):
    """Wait for all others of `threads` that meet here or tell by `StartArrive`; tensor-memory work is ordered by it."""

    threads: int

    def describe(self) -> str:
        return "wait for the others"


class SetRegisters(Step, frozen=True, kw_only=True):
    """Each thread has `count` registers from here on: `more` than before, for which it waits, or fewer.

    All warps of a warpgroup take part (PTX, ``setmaxnreg``).
    """

    count: int
    more: bool

    def describe(self) -> str:
        return f"take registers, up to {self.count} a thread" if self.more else f"keep {self.count} registers a thread"


class ClusterSync(Step, frozen=True, kw_only=True):
    """All threads of the CTAs of a cluster meet; what each did before is seen by all after it.

    `started`: of what was done before, they need the barriers alone, which a fence of their own makes visible
    (`InitRings`). An arrival that releases all memory takes long (``MEMBAR.ALL.GPU``).
    """

    started: bool = False

    def describe(self) -> str:
        return "all threads of the cluster meet"


class AwaitGrid(Step, frozen=True, kw_only=True):
    """Wait until the kernel in front has ended and its results can be read (PTX, ``griddepcontrol.wait``)."""

    def describe(self) -> str:
        return "wait for the kernel in front"


class ReleaseGrid(Step, frozen=True, kw_only=True):
    """Let the kernel behind begin its set-up (PTX, ``griddepcontrol.launch_dependents``)."""

    def describe(self) -> str:
        return "let the kernel behind begin"


class Compute(Step, frozen=True, kw_only=True):
    """Set the number `dst` to the value of `expr`; `bits` is 32, or 64 where the value may be large.

    `below`: the value is proved to be one of 0 .. `below` - 1; None: nothing is known but what the expression shows.
    """

    dst: NewNumber
    expr: IntExpr
    bits: Literal[32, 64] = 32
    below: int | None = None

    def describe(self) -> str:
        return f"{self.dst} = {self.expr}"


class Repeat(Step, frozen=True, kw_only=True):
    """Do `body` `count` times at most, each time with another `var`."""

    var: NewNumber
    count: int
    body: tuple[Step, ...]


class Loop(Repeat, frozen=True, kw_only=True):
    """Do `body` for `var` = 0 .. `count` - 1.

    `written_out`: the text has the body as often, since its steps name registers by `var`.
    `copies`: how often the text has the body for one jump back, so that the stages that it uses are known in each; what
    is left of `count` follows behind.
    `leads`: of a pair of CTAs the first one does it alone.
    """

    written_out: bool = False
    copies: int = 1
    leads: bool = False

    def describe(self) -> str:
        copies = f", {self.copies} a turn" if self.copies > 1 else ""
        first = ", in the first CTA" if self.leads else ""
        return f"for {self.var} in 0..{self.count - 1}{', written out' if self.written_out else copies}{first}:"


class Strided(Repeat, frozen=True, kw_only=True):
    """Do `body` for `var` = `first`, `first` + `stride` and so on, as long as it is below `limit`.

    The first time always is. `count` is how often it is at most: of the CTA whose `first` is 0.
    """

    first: Number
    stride: int
    limit: int

    def describe(self) -> str:
        return f"for {self.var} in {self.first}, {self.first} + {self.stride}, .. below {self.limit}:"


class RingWait(Step, frozen=True, kw_only=True):
    """Wait at the role's place in the ring.

    `starts_open` says what a barrier nobody has signalled yet means. False: nothing is there, so wait (a consumer waits
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


class Commit(Signal, frozen=True, kw_only=True):
    """Signal the ring's barrier once all MMAs issued so far have finished.

    `ctas`: number with the CTAs of the cluster whose barriers are signalled, a bit for each rank; None: as the ring
    says.
    """

    ctas: Number | None = None

    def describe(self) -> str:
        whose = f" of the CTAs {self.ctas}" if self.ctas else ""
        return f"signal {self.ring}{whose} when the MMAs so far are done"


class WarpCommit(Signal, frozen=True, kw_only=True):
    """Every warp signals the ring's barrier once its MMAs so far have finished, some of them later.

    The warps multiply on meanwhile: what a stage's signal waits for may still run when the next stage is multiplied.

    Attributes:
        closes: whether the MMAs since the last such step become a group of their own, which is waited for.
        behind: 1: the stage before is signalled here, and nobody is told of the last one; 0: this one is.
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


class WaitMmas(Step, frozen=True, kw_only=True):
    """Every warp waits until its MMAs have finished."""

    def describe(self) -> str:
        return "wait until the MMAs are done"


class Arrive(Signal, frozen=True, kw_only=True):
    """Every thread of the role arrives at the ring's barrier once its stores to tensor memory are complete."""

    def describe(self) -> str:
        return f"every thread signals {self.ring}, its stores done"


class Advance(Step, frozen=True, kw_only=True):
    """Move a state of the role to the next stage of a ring of `stages`; the phase turns at every wrap."""

    stages: int
    state: str = ""

    def describe(self) -> str:
        stages = "1 stage" if self.stages == 1 else f"{self.stages} stages"
        return f"next of {stages}{f' of {self.state}' if self.state else ''}"
