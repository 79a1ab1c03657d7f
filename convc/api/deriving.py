"""The loops of a schedule from the definition of a convolution, for all sizes; theorems (``convc derive``)."""

from __future__ import annotations

from dataclasses import dataclass

from convc.errors import InputError
from convc.support.guessing import nearest, some_near

READINGS = {"slide": "read further on", "stationary": "operands exchanged", "shift": "rows moved"}
"""Schedules that share pixels, by how a lane comes to its own (`convc.derive.forms`)."""
MOVING = READINGS["shift"]
"""The way that has rows of lanes moved, contiguous ones or overlapping windows."""

RELOAD = "reload"
SCHEDULES = (RELOAD, *READINGS)
GRADIENTS = ("dgrad", "wgrad")
ROWS = ("outer", "merged")
BORDERS = ("mask", "zero")


GRANTED = "what copies and the host's layout assume:"
DEALT = "how the elements of a tile are distributed over threads, chunks, copies and CTAs:"
AFTERWARDS = "launch features that apply to every schedule:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """Schedules, or a theorem: `lines` for people, `latex` as a document.

    Attributes:
        names: of the forms, in order, or of the theorem.
        lines: the chains of algorithms, each rewrite with its theorems, their conditions and proofs.
        latex: a document with the theorems.
    """

    names: tuple[str, ...]
    lines: tuple[str, ...]
    latex: str


def derive_schedules(
    schedule: str | None = None, *, rows: str = "outer", border: str = "mask", windows: bool = False
) -> Derivation:
    """Derive the loops of a schedule, or of all, from the definition of a convolution; nothing is taken from a file.

    Args:
        schedule: ``reload``, ``slide``, ``stationary`` or ``shift``; None: all, in the order of the algorithms.
        rows: ``outer``: a stream for each output row; ``merged``: one for all.
        border: ``mask``: lanes that need padding are left out; ``zero``: they find some.
        windows: whether a tile is made of windows that overlap, where rows move.

    Raises:
        InputError: there is no such schedule or form.
    """
    for what, value, values in (("schedule", schedule, SCHEDULES), ("rows", rows, ROWS), ("border", border, BORDERS)):
        if value is not None and value not in values:
            near = nearest(value, values)
            guess = "" if near is None else f"; did you mean {near!r}"
            raise InputError(f"there is no {what} {value!r}: {', '.join(values)}{guess}")
    # Imported here because sympy takes half a second to load.
    from convc.derive.changes import changes
    from convc.derive.clusters import clusters
    from convc.derive.columns import layouts
    from convc.derive.forms import reload_form, shared_form
    from convc.derive.hosted import hosted
    from convc.derive.results import facts
    from convc.derive.shares import shares
    from convc.derive.show import change_lines, document, fact_lines, form_lines, share_lines

    chosen = [reload_form()] if schedule in (None, RELOAD) else []
    for name, reading in READINGS.items():
        if schedule in (None, name):
            moved = "overlapping" if windows and reading == MOVING else "contiguous"
            chosen.append(shared_form(reading, rows, border, moved))  # pyright: ignore[reportArgumentType]
    known: set[str] = set()
    lines = [line for form in chosen for line in form_lines(form, known=known)]
    lines += [AFTERWARDS, *(line for change in changes() for line in change_lines(change, known=known))]
    lines += [GRANTED, *(line for fact in (*facts(), *layouts(), *hosted()) for line in fact_lines(fact, known=known))]
    dealt = [line for name, share in (*shares(), *clusters()) for line in share_lines(name, share, known=known)]
    lines += [DEALT, *dealt]
    latex = document(chosen, changes())
    return Derivation(names=tuple(form.name for form in chosen), lines=tuple(lines), latex=latex)


def derive_gradient(name: str) -> Derivation:
    """Derive a gradient of a convolution from its definition: ``dgrad`` by the input, ``wgrad`` by the weights.

    Raises:
        InputError: there is none of that name.
    """
    if name not in GRADIENTS:
        raise InputError(f"there is no gradient {name!r}: {', '.join(GRADIENTS)}")
    # Imported here because sympy takes half a second to load.
    from convc.derive import gradients
    from convc.derive.show import chain_lines, document

    chain = tuple(gradients.GRADIENTS[name]())
    return Derivation(names=(name,), lines=tuple(chain_lines(chain, known=set())), latex=document(chains=[chain]))


def derive_theorem(name: str) -> Derivation:
    """Find a theorem by its name, as ``convc inspect`` prints it: what it says, its conditions, its proof, its uses.

    Raises:
        InputError: there is none of that name.
    """
    # Imported here because sympy takes half a second to load.
    from convc.derive.known import theorems, users_of, uses
    from convc.derive.show import document, known_lines

    known = theorems(uses())
    if name not in known:
        names = (*SCHEDULES, *GRADIENTS, *known)
        near = [each for each in names if name in each][:3] or some_near(name, names)
        kinds = f"schedules: {', '.join(SCHEDULES)}; gradients: {', '.join(GRADIENTS)}"
        guess = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        raise InputError(
            f"there is no schedule, gradient or theorem {name!r}",
            hint=f"{guess}{kinds}; theorems: their names as convc inspect prints them",
        )
    lines = known_lines(known[name], users_of(name, uses()))
    return Derivation(names=(name,), lines=tuple(lines), latex=document((), alone=known[name]))
