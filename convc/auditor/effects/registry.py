"""Effects by form: what an instruction does that a rule is about, registered by the modules beside this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from convc.auditor.state import Warp
from convc.ptx import Instr

Run = Callable[[Warp, int], bool | None]
"""Performs an effect for the lanes of a mask; True where it has to wait, and is tried again later."""


class Effect(NamedTuple):
    """The effect of a form, and how it is made.

    Attributes:
        build: makes it for an instruction.
        strict: whether the walk ends where a guard is not known: others may rely on it.
        pure: whether it only computes a result, and is left out where no instruction reads that.
        data: the operand with data, which no rule is about.
        anyway: whether it is performed even where its guard is not known, as it only notes that it is there.
    """

    build: Callable[[Instr], Run]
    strict: bool
    pure: bool
    data: str | None
    anyway: bool


EFFECTS: dict[str, Effect] = {}
"""By the name of a form."""

NO_RESULT = {
    "mbarrier.init",
    "setmaxnreg",
    "griddepcontrol",
    "bra",
    "brx.idx",
    "bar.warp.sync",
    "nanosleep",
    "tcgen05.dealloc",
}
"""Forms whose first operand is no result, though it is no address either."""

OPAQUE = frozenset({"call", "call.indirect"})
"""Forms behind which a walk does not go on."""


def effect_of(instr: Instr) -> Effect | None:
    """The effect of an instruction; ordinary accesses of global memory have none."""
    if instr.form.name in ("ld", "st") and (instr.slots.get("space") or "").startswith(("global", "const", "local")):
        return None
    return EFFECTS.get(instr.form.name)


def effect(
    *forms: str,
    strict: bool = True,
    pure: bool = False,
    data: str | None = None,
    result: bool = True,
    anyway: bool = False,
) -> Callable[[Callable[[Instr], Run]], Callable[[Instr], Run]]:
    """Register what makes the effect of some forms."""

    def register(build: Callable[[Instr], Run]) -> Callable[[Instr], Run]:
        for form in forms:
            EFFECTS[form] = Effect(build, strict and not pure, pure, data, anyway)
            if not result:
                NO_RESULT.add(form)
        return build

    return register
