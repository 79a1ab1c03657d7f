"""Vector clocks: who knows of what.

Every warp and every asynchronous operation is a *component* with a time of its own. A clock says, per component, up
to which time its owner has been told; an access (component, time) happened before what the owner does next exactly
when the clock has reached that time (Lamport 1978; Mattern 1989; Flanagan and Freund, "FastTrack", 2009).

A warp has three views, because the hardware has three kinds of visibility:

* ``generic``: what its ordinary instructions are ordered after;
* ``fenced``: which ordinary *writes* the asynchronous operations that it issues can see. ``fence.proxy.async`` copies
  the generic view here (PTX manual, "Proxies"); the executor and the one who issues may differ, so it travels with
  messages;
* ``tensor``: what the tcgen05 instructions that it issues are ordered after. ``tcgen05.fence::after_thread_sync``
  copies the generic view here, ``before_thread_sync`` the other way round (PTX manual, "tcgen05 memory consistency
  model").

A fourth, ``weak``, is what would be known if no proxy fence or tcgen05 fence were ever needed. Where only that orders
two accesses the manual is not kept to, but compilers in wide use leave such fences out: a matter for review.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Clock = dict[int, int]


def join(into: Clock, other: Mapping[int, int]) -> None:
    """Learn everything that ``other`` knows."""
    for component, time in other.items():
        if into.get(component, -1) < time:
            into[component] = time


@dataclass(slots=True)
class Message:
    """What a release carries: the sender's generic, fenced and weak views."""

    generic: Clock = field(default_factory=dict)
    fenced: Clock = field(default_factory=dict)
    weak: Clock = field(default_factory=dict)

    def add(self, generic: Mapping[int, int], fenced: Mapping[int, int], weak: Mapping[int, int]) -> None:
        """Another release on the same object."""
        join(self.generic, generic)
        join(self.fenced, fenced)
        join(self.weak, weak)


@dataclass(slots=True)
class Views:
    """The clocks of a warp, and its own component and time."""

    component: int
    time: int = 0
    generic: Clock = field(default_factory=dict)
    fenced: Clock = field(default_factory=dict)
    tensor: Clock = field(default_factory=dict)
    unpublished: Clock = field(default_factory=dict)
    weak: Clock = field(default_factory=dict)

    def tick(self) -> int:
        """Advance the own component; later accesses of the warp are ordered after earlier ones."""
        self.time += 1
        self.generic[self.component] = self.weak[self.component] = self.time
        return self.time

    def receive(self, message: Message) -> None:
        """Acquire."""
        join(self.generic, message.generic)
        join(self.fenced, message.fenced)
        join(self.weak, message.weak)
