"""The index maps of a forward convolution, tiled as an implicit matrix product.

The convolution is a matrix product whose left operand is never written down: row m is an output pixel, column
k an output channel, and the sum runs over filter taps (r, s) and channels c. A CTA makes ``block_m`` rows and
``block_n`` columns; each step of its K loop takes one tap and ``channels_per_step`` channels. Everything the
kernel computes about positions are a few maps:

    row         (tile_m, lane)    -> m          which row of the product a lane works on
    digits      m                 -> n, p, q    which output pixel that is
    window      n, p, q           -> w, h, n    where its filter window begins, in the padding maybe
    channel     (block, e)        -> c          channel of the group that the columns belong to
    activation  n, p, q, r, s, c  -> n, h, w, c what a tap reads; zero outside the image
    filter      k, r, s, c        -> k, tap, c
    column      (tile_n, column)  -> k
    output      n, p, q, k        -> element offset in the output buffer

They are read off the loop nest that `convc.derive` has derived, with the numbers of the problem put in
(`convc.compiler.index.formulas`). A guard that no edge makes necessary is dropped, and the record says why.
Layouts: activations (N, H, W, c_pitch), filter
(K, R*S, c_pitch), output rows of k_pitch elements. With G groups, activations have G times c_pitch channels, and
the tiles along K divide a group: tile_n says which one (``pack``).
"""

from __future__ import annotations

from collections.abc import Mapping

from convc.compiler.index.formulas import Instance
from convc.compiler.index.maps import Axis, IndexMap
from convc.derived.numbers import problem_sizes
from convc.errors import PlanError
from convc.ir.problem import ConvProblem

RELOAD = "reload"
"""The form of the derivation (`convc.derive.forms`)."""

READ = (
    *("row", "pixel", "window", "start", "walk", "step", "pack", "activation", "operand_a", "filter", "operand_b"),
    *("column", "output", "store"),
)
"""All maps in reading order, those that copies and the tensor core go by included."""


def tiled(
    problem: ConvProblem,
    *,
    block_m: int,
    block_n: int,
    channels_per_step: int,
    c_pitch: int,
    k_pitch: int,
    m_tiles: int | None = None,
    tiling: Mapping[str, int] | None = None,
) -> Instance:
    """The derivation of `reload` with the numbers of a problem and of its tiles, whose maps are those above.

    Args:
        problem: the convolution that the kernel runs (two spatial axes).
        block_m, block_n: output pixels and channels per CTA.
        channels_per_step: channels per step of the K loop.
        c_pitch: elements per activation pixel of a group and per filter tap, at least C/G.
        k_pitch: elements per output pixel, at least K.
        m_tiles: tiles along M; None: as many as there are pixels for. In those behind them no lane has a pixel.
        tiling: further numbers of tiles, by the names of their sizes in `convc.derive`.

    Raises:
        PlanError: for another number of spatial axes, or sizes that do not fit the problem.
    """
    _check(problem, block_m, block_n, channels_per_step, c_pitch, k_pitch)
    m_tiles = m_tiles or -(-problem.gemm_m // block_m)
    n_tiles = -(-problem.out_channels // block_n)
    blocks = -(-c_pitch // channels_per_step)
    sizes = problem_sizes(problem) | {
        "BM": block_m,
        "BN": block_n,
        "BK": channels_per_step,
        "BLOCKS": blocks,
        "TILES_M": m_tiles,
        "TILES_N": n_tiles,
        "GROUP_TILES": max(1, n_tiles // problem.groups),
        "C_PITCH": c_pitch,
        "K_PITCH": k_pitch,
        **(tiling or {}),
    }
    extents = {
        "tile_m": m_tiles,
        "lane": block_m,
        "tile_n": n_tiles,
        "column": block_n,
        "block": blocks,
        "e": channels_per_step,
        "n": problem.batch,
        "p": sizes["P"],
        "q": sizes["Q"],
        "k": problem.out_channels,
        "c": problem.groups * c_pitch,
        "r": sizes["R"],
        "s": sizes["S"],
        "image": problem.batch,
        "y": sizes["P"],
        "x": sizes["Q"],
    }
    return Instance(RELOAD, sizes, {name: Axis(name, extent) for name, extent in extents.items()})


def all_maps(reload: Instance) -> tuple[IndexMap, ...]:
    """The maps of tiles in reading order; where there is one group, no tile says which."""
    one_group = reload.sizes["K_g"] == reload.sizes["K"]
    names = (name for name in READ if name != "pack" or not one_group)
    return tuple(reload.map(name, without=("tile_n",) if one_group and name == "operand_a" else ()) for name in names)


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
