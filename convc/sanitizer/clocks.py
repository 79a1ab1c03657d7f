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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from convc.machine.base.values import fixed

GENERIC, WEAK, SHARED, GLOBAL, TENSOR, UNPUBLISHED = range(6)
"""The views in the order in which an array has them: those that messages carry come first."""

CARRIED = 4
"""Views of a message."""

NEVER = -1
"""The time of a component that is not known."""

Clock = dict[int, int]
"""The time up to which the owner has been told of a component, by component."""

Who = TypeVar("Who")


def join(into: dict[Who, int], other: Mapping[Who, int]) -> None:
    """Learn everything that ``other`` knows: the later time of each."""
    for component, time in other.items():
        if into.get(component, NEVER) < time:
            into[component] = time


NOTHING = fixed(np.full((CARRIED, 0), NEVER, np.int32))
"""The views of a message that tells of no component."""


class ClockMessage:
    """The message of a release: the sender's generic, fenced and weak views.

    Attributes:
        views: int32 (views, components): the time of each, of those components that are known.
    """

    __slots__ = ("views",)

    def __init__(self) -> None:
        self.views = NOTHING

    def time(self, view: int, component: int) -> int:
        """Up to when a view knows a component."""
        return self.views.item(view, component) if component < self.views.shape[1] else NEVER

    def reach(self, components: int) -> None:
        """Have a time for each of so many components.

        No more than that: two who hear of each other would else have twice as many each time.
        """
        views, known = self.views.shape
        if components > known:
            grown = np.empty((views, components), np.int32)
            grown[:, :known] = self.views
            grown[:, known:] = NEVER
            self.views = grown

    def add(self, other: ClockMessage) -> None:
        """Join another release on one object to this one."""
        count = other.views.shape[1]
        if not count:
            return
        if self.views is NOTHING:
            self.views = other.views[:CARRIED].copy()
            return
        self.reach(count)
        own = self.views[:CARRIED, :count]
        np.maximum(own, other.views[:CARRIED], out=own)

    def tell(self, views: Sequence[int], known: Mapping[int, int]) -> None:
        """Let some views know of times."""
        for component, time in known.items():
            if component >= self.views.shape[1]:
                self.reach(2 * component + 1)
            for view in views:
                if self.views.item(view, component) < time:
                    self.views[view, component] = time

    def announce(self, known: Mapping[int, int]) -> None:
        """Add what everybody who hears of it may rely on: that work has completed, and is visible to all."""
        self.tell(range(CARRIED), known)


class WarpClocks(ClockMessage):
    """The clocks of a warp, and its own component and time.

    Two views more than those that it tells others of: ``tensor``, see the module, and what is ``unpublished``:
    tcgen05.ld and st that have completed, for this warp alone so far.

    Attributes:
        released: what a relaxed write after the latest release fence passes on, by whether other CTAs may hear of it.
        pending: what relaxed reads have seen and an acquire fence would make known, by whether other CTAs sent it.
        together: up to when each lane of the warp knows what its other lanes did.
        alone: of asynchronous work that a lane has waited for, up to when the others know of it too.
    """

    __slots__ = ("alone", "component", "now", "pending", "released", "together")

    def __init__(self, component: int) -> None:
        self.views = np.full((UNPUBLISHED + 1, 2 * component + 1), NEVER, np.int32)
        self.component = component
        self.now = 0
        self.released: dict[bool, ClockMessage] = {}
        self.pending: dict[bool, ClockMessage] = {}
        self.together = 0
        self.alone: Clock = {}

    def tick(self) -> int:
        """Advance the own component; later accesses of the warp are ordered after earlier ones."""
        self.now += 1
        self.views[GENERIC, self.component] = self.views[WEAK, self.component] = self.now
        return self.now

    def add(self, other: ClockMessage) -> None:
        """Hear from others; what comes back of the warp's own, one of its lanes has released and all acquire."""
        ClockMessage.add(self, other)
        self.together = max(self.together, other.time(GENERIC, self.component))
        for component, time in self.alone.items():
            self.alone[component] = max(time, other.time(GENERIC, component))

    def meet(self) -> None:
        """bar.warp.sync: the lanes of the warp know of each other."""
        self.together = self.now
        self.alone.clear()

    def between_lanes(self, component: int, time: int) -> bool:
        """Whether a lane of the warp did that, or has waited for it, and the others need not know of it yet."""
        return time > (self.together if component == self.component else self.alone.get(component, time))

    def wait(self, known: Mapping[int, int]) -> None:
        """Learn by a wait of each lane for its own work, of which the others hear when the lanes meet."""
        for component in known:
            self.alone.setdefault(component, self.time(GENERIC, component))
        self.learn(known)

    def learn(self, known: Mapping[int, int]) -> None:
        """Hear that asynchronous work of one's own has completed."""
        self.tell((GENERIC, WEAK), known)

    def pass_on(self, source: int, to: int) -> None:
        """Let one view know what another one does."""
        np.maximum(self.views[to], self.views[source], out=self.views[to])

    def publish(self) -> None:
        """tcgen05.fence::before_thread_sync: others may be told of tcgen05.ld and st that have completed."""
        self.pass_on(UNPUBLISHED, GENERIC)
        self.views[UNPUBLISHED] = NEVER

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
