"""How far long work has come, told to a callback.

Every piece of work reports 0 to 1. Where it is done inside other work, that hands it a part of its own progress, so
that nobody needs to know what he is a part of.
"""

from __future__ import annotations

from collections.abc import Callable

Tell = Callable[[str, float], None]
"""Called with what is being done, and with the share of the whole that is done, 0 to 1."""


class Progress:
    """Tells how far some work has come; a `Progress` is itself a `Tell`.

    Args:
        tell: called with what is being done and the share that is done; None: not called.
    """

    __slots__ = ("_tell",)

    def __init__(self, tell: Tell | None = None) -> None:
        self._tell = tell

    def __call__(self, what: str, share: float) -> None:
        """Say that a share of the work, 0 to 1, is done, and what is being done now."""
        if self._tell is not None:
            self._tell(what, share)

    def part(self, low: float, high: float) -> Progress:
        """The progress of work that takes this one from ``low`` to ``high``."""
        # The sum of two products gives `low` and `high` to the last bit, so that neighbours meet.
        return Progress(lambda what, share: self(what, low * (1 - share) + high * share))

    def piece(self, index: int, count: int) -> Progress:
        """The progress of one of ``count`` equal pieces of the work."""
        return self.part(index / count, (index + 1) / count)

    def under(self, name: str) -> Progress:
        """The same progress, whose texts begin with a name."""
        return Progress(lambda what, share: self(f"{name}: {what}", share))

    def launch(self, what: str) -> Callable[[int, int], None]:
        """A function for `convc.machine.run`, which calls it with the CTAs that are done and those in all."""
        return lambda done, total: self(what, done / total)


SILENT = Progress()
"""Tells nothing."""
