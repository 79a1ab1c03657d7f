"""The gradient of the weights as a kernel runs it: the tiles of `reload`, of which the pixels are summed.

A tile of `reload` has some pixels and, of one column of the filter, some channels: what an im2col copy brings. Here its
products with y_grad are added over the pixels, and channels are rows of the result. So both operands come as they lie
in memory, channels side by side, and the tensor core reads them across (MN-major). Rows of the result are counted

    m = ((r*S + s)*SPANS_C + span)*SPAN + channel

in spans of as many channels as a copy brings, so that a span is of one column of the filter, and a tile may have spans
of several.
"""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportReturnType=false
# pyright: reportOperatorIssue=false, reportAssignmentType=false
# sympy says Basic of what is an Expr.

from __future__ import annotations

from collections.abc import Iterator

from sympy import Expr, S

from convc.derive import symbols as z
from convc.derive.algebra import normal
from convc.derive.kernels import WALKED, Map, walked
from convc.derive.mainloop import ROW_BYTES, MainloopMaps
from convc.derive.nests import Nest, Place, at_zero, pixel_of, put
from convc.derive.symbols import SPAN, SPANS_C, SPANS_M, SPANS_N, FloorDiv, Mod
from convc.derive.theorem import Theorem, below, proved

ROWS = z.R * z.S * SPANS_C * SPAN
"""Rows of the result."""


NUMBER = z.tile_m * SPANS_M + z.window
"""The number of a span of rows."""
M = z.tile_m * (SPANS_M * SPAN) + z.lane
"""The number of a row."""
AT = z.window * (z.BK * ROW_BYTES)
"""Where a span begins in a stage."""


def summed_maps(nest: Nest) -> MainloopMaps:
    """Read off the nest what a kernel computes about positions, and why its copies bring what the nest multiplies."""
    space = nest.space
    start = at_zero(_window(space), z.e)
    span = _span()
    offsets = {"off_w": z.d_w * span["s"], "off_h": z.d_h * span["r"]}
    c = normal(space["group"]) * z.C_PITCH + span["c"] * SPAN
    k = space["k"]
    of_m = below(M, ROWS)
    of_k = below(k, z.K_PITCH)
    maps = {
        "row": Map(axes=(z.tile_m, z.lane), results={"m": M}, guard=(of_m,)),
        "first_row": Map(axes=(z.tile_m, z.warp), results={"m": M.xreplace({z.lane: z.warp * z.WARP})}),
        "start": Map(axes=(z.block,), results={axis: start[axis] for axis in "whn"}),
        "pixel": Map(axes=(z.block,), results={"pixel": z.block * z.BK}),
        "span": Map(axes=(z.tile_m, z.tile_n, z.window), results={**offsets, "c": c}),
        "first_k": Map(axes=(z.tile_n, z.window), results={"k": k.xreplace({z.column: z.window * SPAN})}),
        "column": Map(axes=(z.tile_n, z.column), results={"k": k}, guard=(of_k,)),
        "span_at": Map(axes=(z.window,), results={"byte": AT}),
        "store": Map(
            axes=(z.tile_m, z.lane, z.tile_n, z.column),
            results={"offset": M * z.K_PITCH + k},
            guard=(of_k, of_m),
        ),
        "bytes": Map(axes=(), results={"a": SPANS_M * z.BK * ROW_BYTES, "b": SPANS_N * z.BK * ROW_BYTES}),
        "walk": Map(axes=(*WALKED, z.lane), results=walked()),
    }
    return maps, (*_of_rows(space), _walk(start, _window(space)), _met(space, offsets), *_of_columns(space))


def _window(space: Place) -> dict[str, Expr]:
    """The pixel that the first column of the filter meets, of a pixel of y_grad."""
    return pixel_of({**space, "r": S.Zero, "s": S.Zero})


def _span() -> dict[str, Expr]:
    """The column of the filter that a span is of, and its number among those of the channels there."""
    by = FloorDiv(NUMBER, SPANS_C)
    return {"r": FloorDiv(NUMBER, SPANS_C * z.S), "s": Mod(by, z.S), "c": Mod(NUMBER, SPANS_C)}


def _of_rows(space: Place) -> Iterator[Theorem]:
    """Rows of a tile are those of its spans."""
    of_span = {z.lane: z.window * SPAN + z.row}
    row = put(space, of_span)
    span = _span()
    inside = [below(z.row, SPAN)]
    yield proved(
        "row i of span `window` of a tile is channel SPAN*span + i of filter row r and column s",
        [(row["r"], span["r"]), (row["s"], span["s"]), (row["c"], span["c"] * SPAN + z.row)],
        inside,
    )
    yield proved(
        "row m of the result is row m % SPAN of span m // SPAN",
        [(FloorDiv(M.xreplace(of_span), SPAN), NUMBER), (Mod(M.xreplace(of_span), SPAN), z.row)],
        inside,
    )
    yield proved(
        "span `window` of a stage has a place of its own, behind those before it",
        [(FloorDiv(z.window * z.BK + z.e, z.BK), z.window), (z.window * z.BK * ROW_BYTES, AT)],
        [below(z.e, z.BK)],
    )


def _met(space: Place, offsets: Place) -> Theorem:
    """The offsets of a span bring its copy to the pixels that its weights meet."""
    window = _window(space)
    pixel = pixel_of({**space, **_span()})
    says = [(window[axis] + offsets[f"off_{axis}"], pixel[axis]) for axis in "wh"]
    return proved("window + (off_w, off_h) of a span is the pixel that its weights meet", says)


def _of_columns(space: Place) -> Iterator[Theorem]:
    """The tile of y_grad has the same pixels, and a result has a place of its own."""
    first = space["k"].xreplace({z.column: z.window * SPAN})
    place = z.m * z.K_PITCH + z.k
    yield proved("row e of the tile of y_grad is output pixel BK*block + e", [(_number(space), z.block * z.BK + z.e)])
    yield proved(
        "column `window*SPAN + i` of the tile of y_grad is output channel k",
        [(first + z.row, space["k"].xreplace({z.column: z.window * SPAN + z.row}))],
    )
    yield proved(
        "an element (m, k) of the gradient has a place of its own",
        [(FloorDiv(place, z.K_PITCH), z.m), (Mod(place, z.K_PITCH), z.k)],
        [below(z.k, z.K_PITCH)],
    )


def _number(space: Place) -> Expr:
    """The number of an output pixel."""
    return (space["n"] * z.P + space["p"]) * z.Q + space["q"]


def _walk(start: Place, window: Place) -> Theorem:
    """An im2col copy that begins at a block's start is, after e pixels, at the window of the block's pixel e."""
    first = z.block * z.BK
    begun = (FloorDiv(first, z.P * z.Q), Mod(FloorDiv(first, z.Q), z.P), Mod(first, z.Q))
    at = {**dict(zip(WALKED, begun, strict=True)), z.lane: z.e}
    image, y, x = begun
    begins = {"w": z.u_w * x - z.pad_w, "h": z.u_h * y - z.pad_h, "n": image}
    says = [(begins[axis], start[axis]) for axis in "whn"]
    says += [(walked()[axis].xreplace(at), window[axis]) for axis in "whn"]
    return proved("the im2col walk from start(block) is at the window of pixel (block, e)", says)
