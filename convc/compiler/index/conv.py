"""The index maps of a forward convolution, tiled as an implicit matrix product.

The convolution is a matrix product whose left operand is never written down: row m is an output pixel, column
k an output channel, and the sum runs over filter taps (r, s) and channels c. A CTA makes ``block_m`` rows and
``block_n`` columns; each step of its K loop takes one tap and ``channels_per_step`` channels. Everything the
kernel computes about positions follows from a few maps, composed:

    row         (tile_m, lane)    -> m          which row of the product a lane works on
    digits      m                 -> n, p, q    which output pixel that is
    window      n, p, q           -> w, h, n    where its filter window begins, in the padding maybe
    channel     (block, e)        -> c          channel of the group that the columns belong to
    activation  n, p, q, r, s, c  -> n, h, w, c what a tap reads; zero outside the image
    filter      k, r, s, c        -> k, tap, c
    column      (tile_n, column)  -> k
    output      n, p, q, k        -> element offset in the output buffer

so ``pixel = digits after row``, ``operand_a = activation after pixel and channel``, ``store = output after
pixel and column``. A guard that no edge makes necessary is dropped, and the record says why.
`convc.compiler.index.claims` proves what the kernel relies on. Layouts: activations (N, H, W, c_pitch), filter
(K, R*S, c_pitch), output rows of k_pitch elements. With G groups, activations have G times c_pitch channels, and
the tiles along K divide a group: tile_n says which one (``pack``).
"""

from __future__ import annotations

import msgspec

from convc.compiler.index.linear import Expr, Integer
from convc.compiler.index.maps import IndexMap, Outcome, at_most, less, simplify_guards
from convc.compiler.index.symbols import Axis, FloorDiv, Mod
from convc.compiler.index.walk import Im2colBox, im2col_box, walk_digits
from convc.errors import PlanError
from convc.ir.problem import ConvProblem


class Tiles(msgspec.Struct, frozen=True, kw_only=True):
    """How the iteration space is cut: block extents, pitches in elements, number of blocks along each."""

    block_m: int
    block_n: int
    channels_per_step: int
    c_pitch: int
    k_pitch: int
    m_tiles: int
    n_tiles: int
    blocks: int


class ConvMaps(msgspec.Struct, frozen=True, kw_only=True):
    """The maps of one tiled convolution (see the module's table), and what was proved about them.

    Attributes:
        row: (tile_m, lane) -> m, below M.
        pixel: (tile_m, lane) -> n, p, q.
        window: (tile_m, lane) -> w, h, n: first tap of the pixel's filter window.
        start: (tile_m) -> w, h, n: coordinates of the tile's im2col copy.
        walk: (image, y, x, lane) -> w, h, n: the im2col walk in closed form, from position (x, y) of the box.
        step: (r, s, block) -> off_w, off_h, c, tap, k_step: what one step of the K loop hands to the copies.
        activation: (n, p, q, r, s, c) -> n, h, w, c; zero where the guard fails.
        pack: (tile_n, block) -> c: where a step's activation channels begin; the same for all tiles of one group.
        operand_a: (tile_m, lane, r, s, [tile_n,] block, e) -> n, h, w, c; zero where the guard fails.
        filter: (k, r, s, c) -> k, tap, c.
        operand_b: (tile_n, column, r, s, block, e) -> k, tap, c; zero where the guard fails.
        column: (tile_n, column) -> k, below k_pitch (the padding of an output row is written too).
        output: (n, p, q, k) -> offset, in elements.
        store: (tile_m, lane, tile_n, column) -> offset; nothing is written where the guard fails.
        box: corners of the im2col tensor map.
        dropped: (names of maps, condition, reason) of each guard that the extents made superfluous.
        proofs: every claim the kernel relies on, proved or refuted; empty until `convc.compiler.index.claims.prove`.
    """

    problem: ConvProblem
    tiles: Tiles
    box: Im2colBox
    row: IndexMap
    pixel: IndexMap
    window: IndexMap
    start: IndexMap
    walk: IndexMap
    step: IndexMap
    pack: IndexMap
    activation: IndexMap
    operand_a: IndexMap
    filter: IndexMap
    operand_b: IndexMap
    column: IndexMap
    output: IndexMap
    store: IndexMap
    dropped: tuple[tuple[str, str, str], ...]
    proofs: tuple[Outcome, ...] = ()

    @property
    def maps(self) -> tuple[IndexMap, ...]:
        """All maps, in reading order."""
        pack = (self.pack,) if self.problem.groups > 1 else ()
        return (
            self.row,
            self.pixel,
            self.window,
            self.start,
            self.walk,
            self.step,
            *pack,
            self.activation,
            self.operand_a,
            self.filter,
            self.operand_b,
            self.column,
            self.output,
            self.store,
        )


def conv_maps(
    problem: ConvProblem,
    *,
    block_m: int,
    block_n: int,
    channels_per_step: int,
    c_pitch: int,
    k_pitch: int,
    m_tiles: int | None = None,
) -> ConvMaps:
    """Derive the maps of one tiled convolution. They are not proved yet: see `convc.compiler.index.claims.prove`.

    Args:
        problem: the convolution that the kernel runs (two spatial axes).
        block_m, block_n: output pixels and channels per CTA.
        channels_per_step: channels per step of the K loop.
        c_pitch: elements per activation pixel of a group and per filter tap, at least C/G.
        k_pitch: elements per output pixel, at least K.
        m_tiles: tiles along M; None: as many as there are pixels for. In those behind them no lane has a pixel.

    Raises:
        PlanError: for another number of spatial axes, or sizes that do not fit the problem.
    """
    _check(problem, block_m, block_n, channels_per_step, c_pitch, k_pitch)
    tiles = Tiles(
        block_m=block_m,
        block_n=block_n,
        channels_per_step=channels_per_step,
        c_pitch=c_pitch,
        k_pitch=k_pitch,
        m_tiles=m_tiles or -(-problem.gemm_m // block_m),
        n_tiles=-(-problem.out_channels // block_n),
        blocks=-(-c_pitch // channels_per_step),
    )
    tile_m = Axis("tile_m", tiles.m_tiles)
    lane = Axis("lane", block_m)
    tile_n = Axis("tile_n", tiles.n_tiles)
    column = Axis("column", block_n)
    block = Axis("block", tiles.blocks)
    e = Axis("e", channels_per_step)
    first = IndexMap(name="first", domain=(tile_m,), results=(("m", tile_m.symbol * block_m),))
    row = _joined("row", "m", tile_m, lane, problem.gemm_m)
    channel = _joined("channel", "c", block, e, c_pitch)
    slab_channel = _pack_channel(problem, tiles, tile_n, channel)
    column_b = _joined("column", "k", tile_n, column, problem.out_channels)
    column_out = _joined("column", "k", tile_n, column, k_pitch)

    digits = _digits(problem)
    window_of = _window(problem)
    activation = activation_map(problem, c_pitch)
    filter_of = _filter(problem, c_pitch)
    output = _output(problem, k_pitch)
    box = im2col_box(problem)
    derived = {
        "row": row,
        "pixel": digits.compose(row, "pixel"),
        "window": window_of.compose(digits).compose(row, "window"),
        "start": window_of.compose(digits).compose(first, "start"),
        "walk": walk_digits(box, problem.batch, lane),
        "step": _step(problem, block, channels_per_step),
        "pack": _pack_start(problem, tiles, tile_n, block),
        "activation": activation,
        "operand_a": activation.compose(digits).compose(row).compose(slab_channel, "operand_a"),
        "filter": filter_of,
        "operand_b": filter_of.compose(column_b).compose(channel, "operand_b"),
        "column": column_out,
        "output": output,
        "store": output.compose(digits).compose(row).compose(column_out, "store"),
    }
    reports = {name: simplify_guards(index_map.simplified()) for name, index_map in derived.items()}
    dropped: dict[tuple[str, str], list[str]] = {}
    for name, report in reports.items():
        for reason in report.dropped:
            dropped.setdefault(reason, []).append(name)
    return ConvMaps(
        problem=problem,
        tiles=tiles,
        box=box,
        **{name: report.map for name, report in reports.items()},
        dropped=tuple((", ".join(names), *reason) for reason, names in dropped.items()),
        proofs=(),
    )


def _joined(name: str, result: str, tile: Axis, inside: Axis, limit: int) -> IndexMap:
    """(tile, inside) -> tile * extent of inside + inside, below ``limit``."""
    number = tile.symbol * inside.extent + inside.symbol
    return IndexMap(name=name, domain=(tile, inside), results=((result, number),), guard=(less(number, limit),))


def _pixel_axes(problem: ConvProblem) -> tuple[Axis, Axis, Axis]:
    return Axis("n", problem.batch), Axis("p", problem.out_extent[0]), Axis("q", problem.out_extent[1])


def _tap_axes(problem: ConvProblem) -> tuple[Axis, Axis]:
    return Axis("r", problem.kernel[0]), Axis("s", problem.kernel[1])


def _digits(problem: ConvProblem) -> IndexMap:
    m = Axis("m", problem.gemm_m)
    out_h, out_w = problem.out_extent
    return IndexMap(
        name="digits",
        domain=(m,),
        results=(
            ("n", FloorDiv(m.symbol, Integer(out_h * out_w))),
            ("p", Mod(FloorDiv(m.symbol, Integer(out_w)), Integer(out_h))),
            ("q", Mod(m.symbol, Integer(out_w))),
        ),
    )


def _window(problem: ConvProblem) -> IndexMap:
    n, p, q = _pixel_axes(problem)
    stride_h, stride_w = problem.stride
    top, left = problem.pad_lo
    results = (("w", q.symbol * stride_w - left), ("h", p.symbol * stride_h - top), ("n", n.symbol))
    return IndexMap(name="window", domain=(n, p, q), results=results)


def _step(problem: ConvProblem, block: Axis, channels_per_step: int) -> IndexMap:
    r, s = _tap_axes(problem)
    tap = r.symbol * s.extent + s.symbol
    return IndexMap(
        name="step",
        domain=(r, s, block),
        results=(
            ("off_w", s.symbol * problem.dilation[1]),
            ("off_h", r.symbol * problem.dilation[0]),
            ("c", block.symbol * channels_per_step),
            ("tap", tap),
            ("k_step", tap * block.extent + block.symbol),
        ),
    )


def _first_channel(problem: ConvProblem, tiles: Tiles, tile_n: Axis) -> Expr:
    """First activation channel of the group that a tile's output channels belong to."""
    if problem.groups == 1:
        return Integer(0)
    return FloorDiv(tile_n.symbol, Integer(tiles.n_tiles // problem.groups)) * tiles.c_pitch


def _pack_start(problem: ConvProblem, tiles: Tiles, tile_n: Axis, block: Axis) -> IndexMap:
    c = _first_channel(problem, tiles, tile_n) + block.symbol * tiles.channels_per_step
    domain = (tile_n, block) if problem.groups > 1 else (block,)
    return IndexMap(name="pack", domain=domain, results=(("c", c),))


def _pack_channel(problem: ConvProblem, tiles: Tiles, tile_n: Axis, channel: IndexMap) -> IndexMap:
    """(tile_n, block, e) -> c, as ``channel`` from the first of the group on."""
    if problem.groups == 1:
        return channel
    c = _first_channel(problem, tiles, tile_n) + channel["c"]
    return IndexMap(name="slab_channel", domain=(tile_n, *channel.domain), results=(("c", c),), guard=channel.guard)


def activation_map(problem: ConvProblem, c_pitch: int) -> IndexMap:
    """(n, p, q, r, s, c) -> n, h, w, c: what a tap reads; zero where the guard fails, outside the image."""
    n, p, q = _pixel_axes(problem)
    r, s = _tap_axes(problem)
    c = Axis("c", problem.groups * c_pitch)
    h = p.symbol * problem.stride[0] + r.symbol * problem.dilation[0] - problem.pad_lo[0]
    w = q.symbol * problem.stride[1] + s.symbol * problem.dilation[1] - problem.pad_lo[1]
    return IndexMap(
        name="activation",
        domain=(n, p, q, r, s, c),
        results=(("n", n.symbol), ("h", h), ("w", w), ("c", c.symbol)),
        guard=(at_most(0, h), less(h, problem.in_extent[0]), at_most(0, w), less(w, problem.in_extent[1])),
    )


def _filter(problem: ConvProblem, c_pitch: int) -> IndexMap:
    k = Axis("k", problem.out_channels)
    r, s = _tap_axes(problem)
    c = Axis("c", c_pitch)
    results = (("k", k.symbol), ("tap", r.symbol * s.extent + s.symbol), ("c", c.symbol))
    return IndexMap(name="filter", domain=(k, r, s, c), results=results)


def _output(problem: ConvProblem, k_pitch: int) -> IndexMap:
    n, p, q = _pixel_axes(problem)
    k = Axis("k", k_pitch)
    pixel = (n.symbol * p.extent + p.symbol) * q.extent + q.symbol
    return IndexMap(name="output", domain=(n, p, q, k), results=(("offset", pixel * k_pitch + k.symbol),))


def _check(
    problem: ConvProblem, block_m: int, block_n: int, channels_per_step: int, c_pitch: int, k_pitch: int
) -> None:
    if len(problem.in_extent) != 2:
        raise PlanError(
            f"index maps are made for two spatial axes (H, W), got in_extent {problem.in_extent}",
            where=f"convolution {problem.name!r}",
            hint="add axes of extent 1, or split the convolution",
        )
    for name, value, least in (
        ("block_m", block_m, 1),
        ("block_n", block_n, 1),
        ("channels_per_step", channels_per_step, 1),
        ("c_pitch", c_pitch, problem.group_channels),
        ("k_pitch", k_pitch, problem.out_channels),
    ):
        if value < least:
            raise PlanError(f"{name} must be at least {least}, got {value}", where=f"convolution {problem.name!r}")
    if problem.groups > 1 and problem.out_channels // problem.groups % block_n:
        raise PlanError(
            f"block_n = {block_n} does not divide the {problem.out_channels // problem.groups} channels of a group",
            where=f"convolution {problem.name!r}",
        )
