"""Rewrites that load pixels once for several columns of the filter: mask, hoist, shift.

All of them go by one identity. With stride g*u and dilation g*d along W, the pixel that output q needs for column s + u
of the filter is the one that output q + d needs for column s:

    g*u*q + g*d*(s + u) = g*u*(q + d) + g*d*s

So the columns s, s + u, s + 2*u, ... can share a buffer of pixels, each d lanes further on than the one before. Lanes
are places of a *stream*: its rows have T pixels each, one after the other, so lane t is column t mod T of row t // T. A
copy that walks through the image counts the same way, `lead` pixels behind: the first ones of a row are padding, and
left out. Where q + tap*d - lead leaves 0..T-1, a lane finds a pixel of another row than its own; there it must need
padding (`mask`), or find some (`zeroed`).
"""

from __future__ import annotations

from typing import Literal

from sympy import Expr, S, Symbol

from convc.derive import symbols as z
from convc.derive.nests import Load, Mask, Move, Nest, RewriteStep, pixel_of
from convc.derive.rewrites import done
from convc.derive.streams import (
    LINE,
    begun,
    cut_off,
    left_out,
    padding_before,
    padding_behind,
    padding_of_next,
    reads,
    two_rows,
)
from convc.derive.symbols import FloorDiv, Mod
from convc.derive.theorem import Condition, Either, Refused, Theorem, at_most, below, proved

Rows = Literal["outer", "merged", "boxed"]
"""How output rows follow each other (`convc.compiler.index.row_stream`): a stream each, or one for all of them, in
which a copy counts image rows through, or walks through a box."""

J = z.tap * z.d
"""Lanes from the first column of a buffer to column `tap` of it."""
BORDER = "mask or zero: lanes that read a pixel of another row than their own"
ROWS = "rows masked, or inside of their image: lanes whose row is another image's"
"""What one load for several columns owes."""


def _walked(number: Expr, p: Expr, rows: Rows) -> dict[str, Expr]:
    """n, h, w of pixel `number` of the walk of a buffer; p: the output row of the stream, where each has its own."""
    row = FloorDiv(number, z.T)
    down = z.d_h * z.r - z.pad_h
    across = z.u_w * (z.lead + Mod(number, z.T)) + z.d_w * z.buffer - z.pad_w
    if rows == "outer":
        return {"n": row, "h": z.u_h * p + down, "w": across}
    if rows == "boxed":
        return {"n": FloorDiv(row, z.Y), "h": z.u_h * Mod(row, z.Y) + down, "w": across}
    line = z.u_h * row + down
    return {"n": FloorDiv(line, z.H), "h": Mod(line, z.H), "w": across}


def identity() -> Theorem:
    """Columns of the filter read the same pixels, some outputs apart: the heart of all that follows."""
    one = pixel_of({"n": z.n, "p": z.p, "q": z.q + z.d, "r": z.r, "s": z.s, "c": z.c, "group": S.Zero})
    two = pixel_of({"n": z.n, "p": z.p, "q": z.q, "r": z.r, "s": z.s + z.u, "c": z.c, "group": S.Zero})
    return proved(
        "output q needs for column s + u what output q + d needs for column s", [(two[x], one[x]) for x in "nhwc"]
    )


def hoist(nest: Nest, rows: Rows, words: str = "") -> Nest:
    """Load once a buffer, inside of its loop and not in that of its columns: lane i multiplies row i + tap*d.

    The loop over columns is split already: s = tap*u + buffer.
    """
    name = "hoist: one load for all columns of a buffer"
    load = _staged(nest, name)
    place = _place(nest, name)
    if nest.space["s"] != z.tap * z.u + z.buffer:
        raise Refused(name, f"column {nest.space['s']} is not split into those of a buffer: tap*u + buffer")
    if nest.axes.index(z.tap) != nest.axes.index(z.buffer) + 1:
        raise Refused(name, f"the loop over {z.tap} is not the next inside of that over {z.buffer}")
    at = place.xreplace({z.lane: z.row})
    number = at - z.lead
    pixel = {**_walked(number, nest.space["p"], rows), "c": load.pixel["c"]}
    since = number - z.T * FloorDiv(window_first(at, z.row), z.T)
    theorems = (identity(), _follow(nest, place, rows), _further(at), _held(), *_lines(rows))
    step = RewriteStep(name=name, theorems=theorems, conditions=_line_conditions(rows))
    extent = load.rows + z.HALO
    copy = Load(inside=z.buffer, row=z.row, rows=extent, pixel=pixel, since=since, words=words or load.words)
    owes = (BORDER, ROWS) if rows == "merged" else (BORDER,)
    return done(nest, step, load=copy, read=z.lane + J, owes=owes)


def _follow(nest: Nest, place: Expr, rows: Rows) -> Theorem:
    """The rows of the stream follow each other as the walk takes them to."""
    row = FloorDiv(place, z.T)
    n = row if rows == "outer" else FloorDiv(row, z.Y)
    says = [(nest.space["n"], n)]
    if rows != "outer":
        says.append((nest.space["p"], Mod(row, z.Y)))
    return proved("a row of the stream is an output row of the image that the walk is in", says)


def _further(at: Expr) -> Theorem:
    """A row further down the tile is a place further on in the stream; in a window, as far as it reaches."""
    name = "row lane + tap*d of the tile is place t + tap*d of the stream"
    if not at.atoms(Mod):
        return proved(name, [(at.xreplace({z.row: z.lane + J}), at.xreplace({z.row: z.lane}) + J)])
    inside = z.axis("i")
    lane = z.window * z.WINDOW + inside
    given = [below(inside + J, z.WINDOW)]
    return proved(name, [(at.xreplace({z.row: lane + J}), at.xreplace({z.row: lane}) + J)], given)


def _held() -> Theorem:
    """Where a lane finds a pixel of its own row, that is the one that it needs."""
    number = LINE * z.T + z.q + J - z.lead
    held = z.u_w * (z.lead + Mod(number, z.T)) + z.d_w * z.buffer - z.pad_w
    need = z.u_w * z.q + z.d_w * (z.tap * z.u + z.buffer) - z.pad_w
    return proved(
        "row lane + tap*d of the tile is of the lane's row, and the pixel that column tap*u + buffer needs",
        [(FloorDiv(number, z.T), LINE), (held, need)],
        [at_most(0, z.q + J - z.lead), below(z.q + J - z.lead, z.T)],
    )


def _lines(rows: Rows) -> tuple[Theorem, ...]:
    """Where a row of the stream lies in the images."""
    if rows == "outer":
        return ()
    number = z.n * z.Y + z.p
    digits = proved(
        f"row {number} of the stream is row p of image n",
        [(FloorDiv(number, z.Y), z.n), (Mod(number, z.Y), z.p)],
        [below(z.p, z.Y)],
    )
    if rows == "boxed":
        return (digits,)
    h = z.axis("h")
    inside = z.d_h * z.r - z.pad_h
    steps = proved(
        f"row {number} of the stream reads Y*u_h rows further on for each image",
        [(z.u_h * number + inside, z.n * (z.Y * z.u_h) + (z.u_h * z.p + inside))],
    )
    images = proved(
        "row n*H + h of all images is row h of image n",
        [(FloorDiv(z.n * z.H + h, z.H), z.n), (Mod(z.n * z.H + h, z.H), h)],
        [below(h, z.H)],
    )
    return digits, steps, images


def _line_conditions(rows: Rows) -> tuple[Condition, ...]:
    if rows == "merged":
        one = (at_most(z.N, 1), at_most(z.Y * z.u_h, z.H))
        two = (at_most(z.N, 1), at_most(z.H, z.Y * z.u_h))
        words = "images keep step with the stream, H = Y*u_h, or there is one"
        return Either(one, words), Either(two, words)
    return ()


def mask(nest: Nest) -> Nest:
    """Leave out lanes that need padding, where the pixel of another row may come to stand in its place."""
    name = "mask: disable the lanes that need padding and hold another row's pixel"
    load = _staged(nest, name)
    place = _place(nest, name)
    if BORDER not in nest.owes:
        raise Refused(name, "every column loads its own pixels, and padding comes as zero: hoist first")
    found = reads(nest, name)
    held = place + J - z.lead
    since = held - z.T * FloorDiv(window_first(place, z.lane), z.T)
    across = z.u_w * (z.lead + Mod(held, z.T)) + z.d_w * z.buffer - z.pad_w
    masks = (Mask(axis=z.s, need=nest.pixel()["w"], end=z.W, held=across, held_end=z.W, since=since),)
    left = left_out(found, z.lead)
    right = cut_off(found, z.lead)
    theorems = (padding_before(found, left), padding_behind(found, right, z.lead), _finds(load, masks[0]))
    step = RewriteStep(name=name, theorems=theorems, conditions=(left, right))
    return done(nest, step, masks=(*masks, *_of_rows(nest)), owes=_without(nest, BORDER))


def zeroed(nest: Nest) -> Nest:
    """No lane need be left out: one that finds a pixel of another row needs padding, and finds some."""
    name = "zero: a lane that reads past its row finds the padding in front of the next"
    _staged(nest, name)
    if BORDER not in nest.owes:
        raise Refused(name, "every column loads its own pixels, and padding comes as zero: hoist first")
    found = reads(nest, name)
    right = cut_off(found, S.Zero)
    following = begun(found)
    conditions = (at_most(z.lead, 0, "the walk leaves nothing out"), right, following)
    theorems = (
        padding_behind(found, right, S.Zero),
        padding_of_next(found, following),
        two_rows(right, following),
    )
    step = RewriteStep(name=name, theorems=theorems, conditions=conditions)
    return done(nest, step, masks=_of_rows(nest), owes=_without(nest, BORDER))


def _of_rows(nest: Nest) -> tuple[Mask, ...]:
    """Masks by rows of the filter, which stay."""
    return tuple(each for each in nest.masks if each.axis != z.s)


def _without(nest: Nest, paid: str) -> tuple[str, ...]:
    """The rest of what a nest owes."""
    return tuple(each for each in nest.owes if each != paid)


def rows_masked(nest: Nest) -> Nest:
    """Leave out the lanes whose row of the filter lies outside of their image, in a stream of several images."""
    name = "mask rows: disable the lanes whose row is padding and that find another image's"
    place = _owing(nest, name)
    need = nest.pixel()["h"]
    line = z.u_h * FloorDiv(place, z.T) + z.d_h * z.r - z.pad_h
    found = Mask(axis=z.r, need=need, end=z.H, held=line, held_end=z.N * z.H)
    why = "what they need is padding, so their product is zero"
    return done(nest, RewriteStep(name=name, why=why), masks=(*nest.masks, found), owes=_without(nest, ROWS))


def rows_inside(nest: Nest) -> Nest:
    """No lane need be left out because of its row: no row of the filter leaves an image, or there is one image."""
    name = "rows stay inside of their image, or there is one image"
    _owing(nest, name)
    inside, conditions = rows_stay(nest)
    step = RewriteStep(name=name, theorems=(inside,), conditions=conditions)
    return done(nest, step, owes=_without(nest, ROWS))


def rows_stay(nest: Nest) -> tuple[Theorem, tuple[Condition, ...]]:
    """Give the theorem that no row of the filter leaves an image, and what it asks of the first and of the last."""
    h = nest.pixel()["h"].xreplace({nest.space["p"]: z.p})
    first, last = (h.xreplace(at) for at in ({z.p: S.Zero, z.r: S.Zero}, {z.p: z.P - 1, z.r: z.R - 1}))
    above = at_most(-first, 0)
    under = below(last, z.H)
    inside = proved(
        "every row that a filter row needs lies in the image",
        [at_most(0, h), below(h, z.H)],
        [below(z.p, z.P), below(z.r, z.R), above, under],
    )
    one = at_most(z.N, 1)
    return inside, (
        Either((one, above), "no row above an image, or one image"),
        Either((one, under), "no row below an image, or one image"),
    )


def _finds(load: Load, mask: Mask) -> Theorem:
    """What a lane finds is the row that it reads of the tile; in a window, as far as it reaches."""
    inside = z.axis("i")
    lane = z.window * z.WINDOW + inside
    row = {load.row: lane + J}
    assert mask.since is not None
    assert load.since is not None
    return proved(
        "what a masked lane finds is what was loaded to row lane + tap*d",
        [
            (load.pixel["w"].xreplace(row), mask.held.xreplace({z.lane: lane})),
            (load.since.xreplace(row), mask.since.xreplace({z.lane: lane})),
        ],
        [below(inside + J, z.WINDOW)],
    )


def shift(nest: Nest, *, overlapping: bool) -> Nest:
    """Move the rows of the tile in place of reading them further on: lane i multiplies row i.

    Rows move inside of windows of WINDOW lanes. What comes in at a window's end is its halo; or, where windows
    overlap, nothing that matters: the lanes at the end have no output.
    """
    name = "shift: the rows move, and each lane multiplies its own"
    load = _staged(nest, name)
    if nest.read != z.lane + J:
        raise Refused(name, f"a lane reads row {nest.read}; rows that move serve one that reads row lane + tap*d")
    before = z.lane + J
    moved = proved(
        "row lane of the tile after tap + 1 turns is row lane + d after tap",
        [(before.xreplace({z.tap: z.tap + 1}), before.xreplace({z.lane: z.lane + z.d}))],
    )
    inside = z.axis("i")
    conditions: tuple[Condition, ...] = ()
    if overlapping:
        stays = proved(
            "a lane with an output takes a row of its own window",
            [below(inside + J, z.WINDOW)],
            [below(inside, z.USEFUL), at_most(J, z.HALO), at_most(z.USEFUL + z.HALO, z.WINDOW)],
        )
        conditions = (at_most(z.USEFUL + z.HALO, z.WINDOW, "windows overlap by the halo"),)
        words = "tcgen05.shift; the lanes behind the last output of a window have none"
    else:
        here = z.window * z.WINDOW + inside + J
        stays = proved(
            "a lane whose row lies past its window takes pixel i + tap*d - WINDOW of the window's halo",
            [(here, (z.window + 1) * z.WINDOW + (inside + J - z.WINDOW)), below(inside + J - z.WINDOW, z.HALO)],
            [below(inside, z.WINDOW), at_most(J, z.HALO)],
        )
        words = "tcgen05.shift or .ashift; the last row of a window comes from its halo, tcgen05.cp.4x256b"
    step = RewriteStep(name=name, theorems=(moved, stays), conditions=conditions)
    return done(nest, step, load=load, read=z.lane, move=Move(inside=z.tap, lanes=z.d, words=words))


def _staged(nest: Nest, who: str) -> Load:
    if nest.swapped:
        raise Refused(who, "the operands are exchanged: pixels are columns")
    if nest.space["r"] != z.r:
        raise Refused(who, f"filter row {nest.space['r']} is no loop of its own")
    if nest.load is None:
        raise Refused(who, "pixels are read where they lie: stage them first")
    return nest.load


def _owing(nest: Nest, who: str) -> Expr:
    """The place of a lane in a stream of several images, whose rows are owed."""
    _staged(nest, who)
    if ROWS not in nest.owes:
        raise Refused(who, "no lane finds a row of another image")
    return _place(nest, who)


def _place(nest: Nest, who: str) -> Expr:
    """The place of a lane in the stream, by the nest itself."""
    column = nest.space["q"]
    if not isinstance(column, Mod) or column.divisor != z.T:
        raise Refused(who, f"output column {column} is no place of a stream: flatten with a period first")
    return column.dividend


def window_first(place: Expr, lane: Symbol) -> Expr:
    """The place of the first lane of the window that a lane is in; of the tile, where that is one window."""
    inside = Mod(lane, z.WINDOW)
    return place.xreplace({inside: S.Zero} if place.has(inside) else {lane: S.Zero})


def window_start(place: Expr, lane: Symbol) -> Expr:
    """The place of the first lane of window `window`."""
    return window_first(place, lane).xreplace({FloorDiv(lane, z.WINDOW): z.window})
