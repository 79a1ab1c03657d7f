"""Gradients of a convolution, from its definition: the same products over the same index map, added up elsewhere.

With y = conv(x, w) and y_grad the gradient of a loss by y, a product x * w of the definition adds y_grad * w to the
gradient of its x, and y_grad * x to that of its w. `differentiated` says which; the other rewrites bring the loops into
an order in which the sums of an element follow each other:

    dgrad    `gathered`: an element of x is a row i and a phase a, h = u*i + a. Of each filter row r it meets the output
             p = i + (a + pad - d*r) // u, where that leaves no rest. With stride 1 there is one phase, and `turned`
             counts the filter backwards: Algorithm 1 over y_grad.
    wgrad    `exchanged`: the index map is symmetric in (p, u) and (r, d), so that this is Algorithm 1 with images for
             channels, outputs for taps, and stride for dilation. Or `summed`: Algorithm 2 with the roles of pixels and
             channels exchanged, so that both operands stay as they are.

`convc.ir.gradients` has the numbers of both as problems; `convc.derive.hosted` how phases become channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sympy import Expr, S, Symbol

from convc.derive import symbols as z
from convc.derive.nests import Loop, Nest, RewriteStep, Updates, definition, pixel_of, put
from convc.derive.rewrites import accumulate, done, flatten, interchange, one_group, stage, tile
from convc.derive.symbols import SPAN, SPANS_C, SPANS_M, FloorDiv, Mod, axes, axis, size, sizes
from convc.derive.theorem import Bound, Refused, Theorem, at_most, below, proved

ROW, ROW_PHASE, COLUMN, COLUMN_PHASE = axes("i a j b")
"""A pixel of x is row u_h*i + a and column u_w*j + b."""
T, V = axes("t v")
"""Rows and columns of the filter, counted backwards."""
ROWS, COLUMNS = sizes("ROWS COLUMNS")
"""Rows of x in steps of the stride, and columns."""

U, D = sizes("U D")
PAD = size("PAD", least=0)
"""Stride, dilation and padding of an axis, whichever."""

SLAB = axis("slab")
"""Counts the spans of a pixel's channels."""

SUMMED = "wgrad: Algorithm 2, whose pixels are summed"

ONE = {z.u_h: S.One, z.u: S.One, z.g: S.One}
"""Stride 1."""

EXCHANGED = {
    one: other
    for pair in ((z.n, z.c), (z.N, z.C), (z.p, z.r), (z.P, z.R), (z.q, z.s), (z.Q, z.S), (z.u_h, z.d_h), (z.u, z.d))
    for one, other in (pair, pair[::-1])
}
"""Images and channels, outputs and taps, strides and dilations."""


def differentiated(nest: Nest, by: Updates) -> Nest:
    """Add each product to the gradient of its pixel (x), or of its weight (w)."""
    name = f"differentiate by {by}"
    if nest.accumulate is not None or nest.load is not None:
        raise Refused(name, "sums or pixels are kept already: differentiate the definition")
    other = "w" if by == "x" else "x"
    why = f"y is a sum of products x*w: each adds y_grad*{other} to the gradient of its {by}"
    return done(nest, RewriteStep(name=name, why=why), updates=by)


def gathered(nest: Nest) -> Nest:
    """Count the pixels of x in place of the outputs: rows and phases, of which each filter row meets one output."""
    name = "gather: a pixel of x in place of an output"
    if nest.updates != "x" or nest.axes != definition().axes:
        raise Refused(name, "it is of the gradient of x, in the order of the definition")
    rows = (z.p, ROW, ROW_PHASE, z.r, z.u_h, z.d_h, z.pad_h, z.P, z.H, ROWS)
    columns = (z.q, COLUMN, COLUMN_PHASE, z.s, z.u_w, z.d_w, z.pad_w, z.Q, z.W, COLUMNS)
    guard: list[Bound] = []
    conditions: list[Bound] = []
    values: dict[Symbol, Expr] = {}
    pixel: dict[str, Expr] = {}
    for at, (output, row, phase, tap, step, apart, pad, outputs, end, count) in zip("hw", (rows, columns), strict=True):
        ahead = phase + pad - apart * tap
        values[output] = row + FloorDiv(ahead, step)
        pixel[at] = row * step + phase
        guard += [at_most(Mod(ahead, step), 0), at_most(0, values[output]), below(values[output], outputs)]
        guard.append(below(pixel[at], end))
        conditions.append(at_most(end, step * count, f"{count} steps of {step} reach the last pixel along {at}"))
    loops = (
        nest.loop(z.n, name),
        Loop(axis=ROW, extent=ROWS, words="rows of x, in steps of the stride"),
        Loop(axis=ROW_PHASE, extent=z.u_h, words="the phase of a row"),
        Loop(axis=COLUMN, extent=COLUMNS, words="columns of x, in steps of the stride"),
        Loop(axis=COLUMN_PHASE, extent=z.u_w, words="the phase of a column"),
        *(nest.loop(axis, name) for axis in (z.k, z.c, z.r, z.s)),
    )
    output = {**nest.pixel(), **pixel}
    step = RewriteStep(name=name, theorems=_found(), conditions=tuple(conditions))
    space = put(nest.space, values)
    return done(nest, step, loops=loops, space=space, guard=(*nest.guard, *guard), output=output)


def _found() -> tuple[Theorem, ...]:
    """Along an axis with stride U, dilation D and padding PAD: pixels and taps find the outputs that they are of."""
    number = ROW * U + ROW_PHASE
    ahead = ROW_PHASE + PAD - D * z.r
    output = ROW + FloorDiv(ahead, U)
    other = (U * z.p + D * z.r - PAD) - U * ROW  # the phase of the pixel that tap r of output p is at, from row i on
    again = other + PAD - D * z.r
    return (
        proved(
            f"pixel {number} is one row {ROW} and one phase {ROW_PHASE}",
            [(FloorDiv(number, U), ROW), (Mod(number, U), ROW_PHASE)],
            [below(ROW_PHASE, U)],
        ),
        proved(
            f"tap r of output {output} is at pixel {number}, where {ahead} leaves no rest",
            [(U * output + D * z.r - PAD + Mod(ahead, U), number)],
        ),
        proved(
            "from the pixel that tap r of output p is at, tap r finds p, and leaves no rest",
            [(ROW + FloorDiv(again, U), z.p), (Mod(again, U), 0 * z.p)],
        ),
    )


def turned(nest: Nest) -> Nest:
    """With stride 1, count the filter backwards: outputs then follow pixels as pixels follow outputs in Algorithm 1."""
    name = "turn the filter round, with stride 1"
    if nest.output is None:
        raise Refused(name, "outputs are not gathered yet")
    backwards = {z.r: z.R - 1 - T, z.s: z.S - 1 - V}
    first = {"p": z.d_h * (z.R - 1) - z.pad_h, "q": z.d * (z.S - 1) - z.pad_w.xreplace(ONE)}
    space = put(put(nest.space, ONE), {ROW_PHASE: S.Zero, COLUMN_PHASE: S.Zero})
    space = put(space, backwards)
    theorems = tuple(
        proved(
            f"output {at} of tap {tap} is pixel {pixel} + {apart}*{tap}, less a padding of {first[at]}",
            [(space[at], pixel + apart * tap - first[at])],
        )
        for at, pixel, apart, tap in (("p", ROW, z.d_h, T), ("q", COLUMN, z.d, V))
    )
    space |= {"p": ROW + z.d_h * T - first["p"], "q": COLUMN + z.d * V - first["q"]}
    guard = [at_most(0, space["p"]), below(space["p"], z.P), at_most(0, space["q"]), below(space["q"], z.Q)]
    loops = (
        nest.loop(z.n, name),
        Loop(axis=ROW, extent=z.H, words="rows of x"),
        Loop(axis=COLUMN, extent=z.W, words="columns of x"),
        nest.loop(z.c, name),
        nest.loop(z.k, name),
        Loop(axis=T, extent=z.R, words="filter rows, the last first"),
        Loop(axis=V, extent=z.S, words="columns, the last first"),
    )
    words = "the stride is 1"
    stride = tuple(at_most(each, 1, words) for each in (z.u_h, z.u, z.g))
    output = {**put(nest.output, ONE), "h": ROW, "w": COLUMN}
    step = RewriteStep(name=name, theorems=theorems, conditions=stride)
    return done(nest, step, loops=loops, space=space, guard=tuple(guard), output=output)


def exchanged(nest: Nest) -> Nest:
    """Put the loops of the gradient of w in the order of Algorithm 1, whose part the taps have now."""
    name = "exchange images and channels, outputs and taps, stride and dilation"
    if nest.updates != "w":
        raise Refused(name, "it is of the gradient of w")
    nest = interchange(nest, (z.c, z.r, z.s, z.k, z.n, z.p, z.q))
    plain = pixel_of(definition().space)
    same = proved(
        "the pixel of tap (p, q) of output (r, s) is that of tap (r, s) of output (p, q)",
        [(plain[at].xreplace(EXCHANGED), nest.pixel()[at]) for at in "hw"],
    )
    last = (z.P - 1) * z.u_h + (z.R - 1) * z.d_h
    count = proved(
        "an image as long as the windows reach has R outputs, P taps apart by the stride",
        [(FloorDiv(last - (z.P - 1) * z.u_h, z.d_h) + 1, z.R)],
    )
    words = {
        z.c: "channels of x: its images",
        z.r: "filter rows: output rows",
        z.s: "columns: output columns",
        z.n: "images: input channels",
        z.p: "output rows: filter rows",
        z.q: "output columns: columns of the filter",
    }
    loops = tuple(replace(loop, words=words.get(loop.axis, loop.words)) for loop in nest.loops)
    return done(nest, RewriteStep(name=name, theorems=(same, count)), loops=loops)


def summed() -> Nest:
    """The gradient of w by the tiles of ``reload``, of which the pixels are summed, and the channels are rows.

    A row of a tile is a weight of an output channel. Rows come in spans of as many channels as a copy brings, so that
    all of a span are of one column of the filter, and a tile may have spans of several.
    """
    nest = differentiated(definition(), "w")
    nest = flatten(nest, (z.n, z.p, z.q), z.t, (z.P, z.Q), "output pixels")
    outer = Loop(axis=z.block, extent=z.BLOCKS, words=f"{z.BK} output pixels each")
    nest = tile(nest, z.t, outer, Loop(axis=z.e, extent=z.BK, words="tensor core: the sum"))
    outer = Loop(axis=SLAB, extent=SPANS_C, words=f"{SPAN} channels each")
    nest = tile(nest, z.c, outer, Loop(axis=z.row, extent=SPAN, words="channels of a copy"))
    nest = interchange(nest, (z.block, z.e, z.k, z.r, z.s, SLAB, z.row))
    nest = flatten(nest, (z.r, z.s, SLAB), z.unit, (z.S, SPANS_C), "spans of weights")
    outer = Loop(axis=z.tile_m, extent=z.TILES_M, words=f"{SPANS_M} spans each")
    nest = tile(nest, z.unit, outer, Loop(axis=z.window, extent=SPANS_M, words="spans of a tile"))
    nest = flatten(nest, (z.window, z.row), z.lane, (SPAN,), "tensor core: weights")
    outer = Loop(axis=z.tile_n, extent=z.TILES_N, words=f"{z.BN} output channels each")
    nest = tile(nest, z.k, outer, Loop(axis=z.column, extent=z.BN, words="tensor core: output channels"))
    nest = one_group(nest)
    nest = interchange(nest, (z.tile_m, z.tile_n, z.block, z.lane, z.column, z.e))
    return stage(accumulate(nest, z.tile_n), z.block, "im2col, a copy for each span of channels")


def dgrad() -> Iterator[tuple[str, Nest]]:
    """The gradient of the input: titles and nests, from the definition on."""
    nest = definition()
    yield "Algorithm 1: the definition", nest
    nest = differentiated(nest, "x")
    yield "dgrad: scattered over the pixels of x", nest
    nest = gathered(nest)
    yield "dgrad: gathered by phases, those of a transposed convolution", nest
    yield "dgrad with stride 1: Algorithm 1 over y_grad", turned(nest)


def wgrad() -> Iterator[tuple[str, Nest]]:
    """The gradient of the weights: titles and nests, from the definition on."""
    nest = definition()
    yield "Algorithm 1: the definition", nest
    nest = differentiated(nest, "w")
    yield "wgrad: scattered over the weights", nest
    yield "wgrad: Algorithm 1 over x, with y_grad for a filter", exchanged(nest)
    yield SUMMED, summed()


GRADIENTS = {"dgrad": dgrad, "wgrad": wgrad}
"""Chains by their names."""
