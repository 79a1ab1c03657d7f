"""Vector clocks: who knows of what.

Every warp is a *component* with a time of its own, and so is every stream of asynchronous work that completes in order:
the tensor operations that one thread issues, the copies that signal one barrier, the bulk groups of one thread. A clock
says, per component, up to which time its owner has been told; an access (component, time) happened before what the
owner does next exactly when the clock has reached that time (Lamport 1978; Mattern 1989; Flanagan and Freund,
"FastTrack", 2009).

A warp has several views, because the hardware has several kinds of visibility:

* ``generic``: what its ordinary instructions are ordered after;
* ``fenced``: which ordinary *writes* to shared or to global memory the asynchronous operations that it issues can see.
  ``fence.proxy.async`` copies the generic view here (PTX manual, "Proxies"); the executor and the one who issues may
  differ, so it travels with messages;
* ``tensor``: what the tcgen05 instructions that it issues are ordered after. ``tcgen05.fence::after_thread_sync``
  copies the generic view here, ``before_thread_sync`` the other way round (PTX manual, "tcgen05 memory consistency
  model").

One more, ``weak``, is what would be known if no proxy fence or tcgen05 fence were ever needed. Where only that orders
two accesses the manual is not kept to, but compilers in wide use leave such fences out: a matter for review.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

Clock = dict[int, int]
"""The time up to which the owner has been told of a component, by component."""

Who = TypeVar("Who")


def join(into: dict[Who, int], other: Mapping[Who, int]) -> None:
    """Learn everything that ``other`` knows: the later time of each."""
    times = other.items()
    if len(into) < len(other):  # of the shorter one each is looked at, of the longer one none
        times = [*into.items()]
        into.update(other)
    for component, time in times:
        if into.get(component, -1) < time:
            into[component] = time


def _fenced() -> dict[str, Clock]:
    """A view of what the asynchronous proxy sees of each memory: nothing yet."""
    return {"shared": {}, "global": {}}


@dataclass(slots=True)
class ClockMessage:
    """The message of a release: the sender's generic, fenced and weak views."""

    generic: Clock = field(default_factory=dict)
    fenced: dict[str, Clock] = field(default_factory=_fenced)
    weak: Clock = field(default_factory=dict)

    def add(self, other: ClockMessage) -> None:
        """Join another release on one object to this one."""
        join(self.generic, other.generic)
        join(self.weak, other.weak)
        for space, clock in other.fenced.items():
            join(self.fenced[space], clock)

    def announce(self, known: Mapping[int, int]) -> None:
        """Add what everybody who hears of it may rely on: that work has completed, and is visible to all."""
        join(self.generic, known)
        join(self.weak, known)
        for clock in self.fenced.values():
            join(clock, known)


@dataclass(slots=True)
class WarpClocks(ClockMessage):
    """The clocks of a warp, and its own component and time.

    Attributes:
        tensor: see the module. unpublished: tcgen05.ld and st that have completed, for this warp alone so far.
        released: what a relaxed write after the latest release fence passes on, by whether other CTAs may hear of it.
        pending: what relaxed reads have seen and an acquire fence would make known, by whether other CTAs sent it.
        together: up to when each lane of the warp knows what its other lanes did.
        alone: of asynchronous work that a lane has waited for, up to when the others know of it too.
    """

    component: int = 0
    time: int = 0
    tensor: Clock = field(default_factory=dict)
    unpublished: Clock = field(default_factory=dict)
    released: dict[bool, ClockMessage] = field(default_factory=dict)
    pending: dict[bool, ClockMessage] = field(default_factory=dict)
    together: int = 0
    alone: Clock = field(default_factory=dict)

    def tick(self) -> int:
        """Advance the own component; later accesses of the warp are ordered after earlier ones."""
        self.time += 1
        self.generic[self.component] = self.weak[self.component] = self.time
        return self.time

    def add(self, other: ClockMessage) -> None:
        """Hear from others; what comes back of the warp's own, one of its lanes has released and all acquire."""
        ClockMessage.add(self, other)
        self.together = max(self.together, other.generic.get(self.component, 0))
        for component, time in self.alone.items():
            self.alone[component] = max(time, other.generic.get(component, -1))

    def meet(self) -> None:
        """bar.warp.sync: the lanes of the warp know of each other."""
        self.together = self.time
        self.alone.clear()

    def between_lanes(self, component: int, time: int) -> bool:
        """Whether a lane of the warp did that, or has waited for it, and the others need not know of it yet."""
        return time > (self.together if component == self.component else self.alone.get(component, time))

    def wait(self, known: Mapping[int, int]) -> None:
        """Learn by a wait of each lane for its own work, of which the others hear when the lanes meet."""
        for component in known:
            self.alone.setdefault(component, self.generic.get(component, -1))
        self.learn(known)

    def learn(self, known: Mapping[int, int]) -> None:
        """Hear that asynchronous work of one's own has completed."""
        join(self.generic, known)
        join(self.weak, known)

    def publish(self) -> None:
        """tcgen05.fence::before_thread_sync: others may be told of tcgen05.ld and st that have completed."""
        join(self.generic, self.unpublished)
        self.unpublished.clear()

    def release(self, scopes: tuple[bool, ...], what: ClockMessage) -> None:
        """Let relaxed writes pass this on from now on (`released`)."""
        for wide in scopes:
            self.released.setdefault(wide, ClockMessage()).add(what)

    def fence(self, order: str, scope: str) -> None:
        """A thread fence: ``acquire``, ``release`` or both (any other order)."""
        scopes = (False,) if scope == "cta" else (False, True)
        if order != "release":
            for wide in scopes:
                self.add(self.pending.pop(wide, ClockMessage()))
        if order != "acquire":
            self.release(scopes, self)


@dataclass(slots=True)
class AsyncStream:
    """A stream of asynchronous work that completes in order.

    Attributes:
        component, time: of its latest work.
        groups: times at which groups of copies were closed.
    """

    component: int
    time: int = 0
    groups: list[int] = field(default_factory=list)

    def next(self) -> int:
        """The time of another piece of work."""
        self.time += 1
        return self.time

    def close(self) -> None:
        """Close the running group."""
        self.groups.append(self.time)
        self.time += 1

    def known(self, left: int) -> Clock:
        """The times that are known once at most ``left`` of the groups closed so far are under way."""
        return {self.component: self.groups[-1 - left]} if len(self.groups) > left else {}
