"""Filter columns that are channels: what the tensor map finds is what the host has stored.

A row of the activations is then the run of channels of all columns of the filter, from the first pixel that an output
reads on: element s*C + c of it is channel c of the pixel of column s. Rows that follow each other in an image overlap
where the columns of the filter are neighbours, and the tensor map walks through pixels as they lie; or the host writes
a row for each output.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Expr, S, Symbol

from convc.derive import symbols as z
from convc.derive.kernels import Map, need
from convc.derive.nests import pixel_of
from convc.derive.results import Fact, equal
from convc.derive.symbols import FloorDiv, Mod, axis, size, sizes
from convc.derive.theorem import Condition, Theorem, at_most, below, proved

LEFT = size("LEFT", least=0)
"""Padding in front of an image row in the buffer."""
WIDTH, PITCH, RUN = sizes("WIDTH PITCH RUN")
"""Pixels of an image row in the buffer; elements of a row that the host writes; channels that are copied of one."""
STEP_Q, STEP_H, STEP_N = sizes("STEP_Q STEP_H STEP_N")
"""Elements from one output column, image row and image to the next, in the tensor map."""

H_ = axis("h")
NEXT: dict[Symbol, Expr] = {z.g: S.One, z.d: S.One}
"""A dilation of one."""

ELEMENT = z.s * z.C + z.c
MAPPED = z.n * STEP_N + H_ * STEP_H + z.q * STEP_Q + ELEMENT
WHOLE = (z.n, H_, z.q, z.s, z.c)


def _maps(stored: Expr) -> dict[str, Map]:
    return {
        "read": Map(axes=(z.q, z.s), results={"w": need(z.q, z.s)}),
        "run": Map(axes=(z.s, z.c), results={"e": ELEMENT}),
        "mapped": Map(axes=WHOLE, results={"element": MAPPED}),
        "stored": Map(axes=WHOLE, results={"element": stored}),
    }


def _run() -> Theorem:
    return proved(
        "each element of a run is channel c of the pixel that one column s of the filter reads",
        [
            (FloorDiv(ELEMENT, z.C), z.s),
            (Mod(ELEMENT, z.C), z.c),
            below(ELEMENT, z.S * z.C),
            (need(z.q, z.s), pixel_of({x: axis(x) for x in "npqrsc"} | {"group": S.Zero})["w"]),
        ],
        [below(z.c, z.C), below(z.s, z.S)],
    )


def _steps(steps: tuple[Expr, Expr, Expr]) -> dict[Symbol, Expr]:
    return dict(zip((STEP_Q, STEP_H, STEP_N), steps, strict=True))


def _conditions(steps: tuple[Expr, Expr, Expr]) -> Iterator[Condition]:
    for step, found in _steps(steps).items():
        yield from equal(step, found, "strides of the tensor map are those of the buffer")
    yield from equal(RUN, z.S * z.C, "a run is the channels of all filter columns")


def overlapping() -> Fact:
    """Rows that overlap: pixels lie as they are, `LEFT` of padding in front."""
    steps = (z.u_w * z.C, WIDTH * z.C, z.H * WIDTH * z.C)
    stored = ((z.n * z.H + H_) * WIDTH + need(z.q, z.s) + LEFT) * z.C + z.c
    same = proved(
        "element e of row (n, h, q) is channel c of pixel w",
        [(MAPPED.xreplace(_steps(steps)).xreplace(NEXT), stored.xreplace({LEFT: z.pad_w}).xreplace(NEXT))],
    )
    last = z.u_w * (z.Q - 1) + z.S - 1
    pixel = (need(z.q, z.s) + z.pad_w).xreplace(NEXT)
    inside = proved(
        "a row has pixels of its image row alone",
        [at_most(0, pixel), below(pixel, WIDTH)],
        [below(z.q, z.Q), below(z.s, z.S), below(last.xreplace(NEXT), WIDTH)],
    )
    return Fact(
        name="columns that overlap",
        says="element e of row (n, h, q) is channel c of pixel w, of the same image row",
        theorems=(same, _run(), inside),
        conditions=(
            at_most(z.d_w, 1, "filter columns are neighbours"),
            *equal(LEFT, z.pad_w, "the padding in front of an image row is that of the problem"),
            below(last, WIDTH, "no row reaches past the pixels of its image row"),
            *_conditions(steps),
        ),
        maps=_maps(stored),
    )


def written() -> Fact:
    """Rows that the host writes, one for each output column."""
    steps = (PITCH, z.Q * PITCH, z.H * z.Q * PITCH)
    stored = ((z.n * z.H + H_) * z.Q + z.q) * PITCH + ELEMENT
    same = proved("element e of row (n, h, q) is where the host wrote it", [(MAPPED.xreplace(_steps(steps)), stored)])
    apart = proved(
        "no two rows have an element in common",
        [(FloorDiv(z.q * PITCH + z.e, PITCH), z.q), (Mod(z.q * PITCH + z.e, PITCH), z.e)],
        [below(z.e, PITCH)],
    )
    return Fact(
        name="columns that the host writes",
        says="element e of row (n, h, q) is channel c of pixel w, in a row of its own",
        theorems=(same, _run(), apart),
        conditions=(at_most(z.S * z.C, PITCH, "a run fits its row"), *_conditions(steps)),
        maps=_maps(stored),
    )


def layouts() -> Iterator[Fact]:
    """Both layouts."""
    yield from (overlapping(), written())
