"""The symbols of index expressions, and the two divisions that they use.

A *size* is a number that is known when a kernel is compiled: extents, tiles, strides. An *axis* counts a loop. Both are
symbols of sympy that are known to be whole and not negative, so that sympy's assumptions can bound a sum of them.

sympy's own ``floor`` and ``Mod`` rewrite themselves as they are made, which takes milliseconds and goes by rules that
are not ours. `FloorDiv` and `Mod` do nothing by themselves: `convc.derive.algebra` has the rules, each of them proved
there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sympy import Expr, Integer, Symbol

AS_A_SUM = 40
"""Precedence for the printers of sympy: no brackets inside of a sum, and brackets inside of a product."""
ATOM = 100


def whole(number: Expr | int) -> Expr:
    """A number as an expression."""
    return Integer(number) if isinstance(number, int) else number


class Division(Expr):
    """Quotient or remainder: a dividend, a positive divisor, and no evaluation."""

    __slots__ = ()
    is_commutative = True
    is_integer = True
    precedence = AS_A_SUM
    sign = ""

    def __new__(cls, dividend: Expr | int, divisor: Expr | int) -> Division:
        return Expr.__new__(cls, whole(dividend), whole(divisor))

    @property
    def dividend(self) -> Expr:
        """The number that is divided."""
        return self.args[0]

    @property
    def divisor(self) -> Expr:
        """The positive number that it is divided by."""
        return self.args[1]

    def _sympystr(self, printer: Any) -> str:
        return f"{printer.parenthesize(self.dividend, ATOM)} {self.sign} {printer.parenthesize(self.divisor, ATOM)}"


def dividend(quotient: Expr) -> Expr:
    """The number that a quotient or a remainder divides."""
    assert isinstance(quotient, Division)
    return quotient.dividend


class FloorDiv(Division):
    """The dividend divided by the divisor, rounded down."""

    __slots__ = ()
    sign = "//"

    def _eval_is_nonnegative(self) -> bool | None:
        return self.dividend.is_nonnegative

    def _latex(self, printer: Any) -> str:
        above, below = (printer._print(each) for each in self.args)
        return rf"\left\lfloor \frac{{{above}}}{{{below}}} \right\rfloor"


class Mod(Division):
    """The rest that `FloorDiv` leaves: 0 to the divisor less one, for a negative dividend too."""

    __slots__ = ()
    sign = "%"
    is_nonnegative = True

    def _latex(self, printer: Any) -> str:
        return rf"\left({printer._print(self.dividend)}\right) \bmod {printer.parenthesize(self.divisor, ATOM)}"


AXES: dict[str, Symbol] = {}
"""Every axis by its name."""


def size(name: str, *, least: int = 1) -> Symbol:
    """A number of the problem or of the tiling; least: 1, or 0 for what may be none."""
    return Symbol(name, integer=True, positive=True) if least else Symbol(name, integer=True, nonnegative=True)


def axis(name: str) -> Symbol:
    """The number of an iteration of a loop, from 0."""
    return AXES.setdefault(name, Symbol(name, integer=True, nonnegative=True))


def sizes(names: str, *, least: int = 1) -> Iterator[Symbol]:
    """Sizes by their names."""
    return (size(name, least=least) for name in names.split())


def axes(names: str) -> Iterator[Symbol]:
    """Axes by their names."""
    return (axis(name) for name in names.split())


# The problem. Along W the stride is g*u and the dilation g*d, where u and d have no factor in common: columns s and
# s + u of the filter then read the same pixels, d outputs apart.
N, C, K, R, S, P, Q, H, W = sizes("N C K R S P Q H W")
u_h, d_h, g, u, d = sizes("u_h d_h g u d")
pad_h, pad_w = sizes("pad_h pad_w", least=0)
u_w = g * u
d_w = g * d
K_g = size("K_g")
"""Output channels of a group, K of them where there is one."""

# The tiling: output pixels, output channels and input channels of a step, and how many there are of each.
BM, BN, BK, BLOCKS, C_PITCH, K_PITCH = sizes("BM BN BK BLOCKS C_PITCH K_PITCH")
TILES_M, TILES_N, GROUP_TILES = sizes("TILES_M TILES_N GROUP_TILES")
ELEMENT = size("ELEMENT")
"""Bytes of an element of the output."""

# The stream of output pixels: pixels a row, rows an image, tiles a stream, pixels of the left padding left out.
T, Y, TILES = sizes("T Y TILES")
lead = size("lead", least=0)
WINDOW, WINDOWS, USEFUL = sizes("WINDOW WINDOWS USEFUL")
BUFFERS, TAPS = sizes("BUFFERS TAPS")
HALO = size("HALO", least=0)
PIECE = size("PIECE")
"""Filter rows that a CTA of a cluster brings."""

# Tiles that are counted: together by CTAs that multiply as one, and in groups of rows of two heights.
UNITS, TOGETHER, HIGH, FEW, LOW = sizes("UNITS TOGETHER HIGH FEW LOW")
MANY = size("MANY", least=0)
ENTRY = size("ENTRY")
"""Places along M that an entry of a table has room for."""

# CTAs that walk over tiles, and CTAs that share a tile: its steps, and then its columns, some at a time; they are
# clusters of so many ranks.
GRID, CTAS, TURNS, PARTS, OWN, SOME, CHUNKS = sizes("GRID CTAS TURNS PARTS OWN SOME CHUNKS")
CLUSTERS, RANKS = sizes("CLUSTERS RANKS")

# Warps that carry results away, and the box that a residual's copies walk through.
WARP, WARPS, BOX, ACROSS = sizes("WARP WARPS BOX ACROSS")

# Gradients of weights: channels of a copy; copies that bring the channels of a pixel, a tile's rows, and its columns.
SPAN, SPANS_C, SPANS_M, SPANS_N = sizes("SPAN SPANS_C SPANS_M SPANS_N")

# Loops.
n, p, q, k, c, r, s = axes("n p q k c r s")
m, t, tile_m, lane, tile_n, column = axes("m t tile_m lane tile_n column")
block, e, buffer, tap, row, window = axes("block e buffer tap row window")
tile, rank = axes("tile rank")
unit, group, turn, entry = axes("unit group turn entry")
cta, part, step, chunk, warp = axes("cta part step chunk warp")
