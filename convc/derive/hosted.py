"""Convolutions that the host turns into others before a kernel is made: transposed ones, folded axes, volumes.

Nothing of a kernel depends on these; they are identities of the definition, one axis at a time, on which
`convc.layout.transposed` and `convc.layout.fold` rest.
"""

# pyright: reportArgumentType=false, reportOperatorIssue=false
# sympy says Basic of what is an Expr.

from __future__ import annotations

from collections.abc import Iterator

from convc.derive import symbols as z
from convc.derive.results import Fact, equal
from convc.derive.symbols import FloorDiv, Mod, axis, size
from convc.derive.theorem import below, proved

U = size("U")
"""Stride of an axis."""
D = size("D")
"""Dilation of an axis."""
PAD = size("PAD", least=0)
PHASE = axis("phase")
OFFSET = size("OFFSET", least=0)
"""Pixels from that of an output to the one that a tap reads."""
TAP = z.s
AT = axis("x")
"""A pixel of the input."""
PLANE = axis("y")


def phases() -> Fact:
    """Outputs of a transposed convolution, by their phase: output channels of one with stride 1."""
    output = z.q * U + PHASE
    reads = proved(
        "a tap of a phase reads the pixel OFFSET behind the output's: j*u + t*d = o + pad",
        [((z.q + OFFSET) * U + TAP * D, output + (OFFSET * U + TAP * D - PHASE))],
    )
    once = proved(
        "an output of a transposed convolution is one pixel of one phase",
        [(FloorDiv(output, U), z.q), (Mod(output, U), PHASE)],
        [below(PHASE, U)],
    )
    return Fact(
        name="phases of a transposed convolution",
        says="the phases of a transposed convolution are output channels of an ordinary one",
        theorems=(reads, once),
        conditions=equal(OFFSET * U + TAP * D, PHASE + PAD, "the tap is one of the phase"),
    )


def spread() -> Fact:
    """A transposed convolution as an ordinary one over an input with zeros between its pixels."""
    span = (z.S - 1) * D
    turned = z.S - 1 - TAP
    return Fact(
        name="input of a transposed convolution, spread out",
        says="a transposed convolution is an ordinary one, of the input spread out and the filter turned round",
        theorems=(
            proved(
                "tap S - 1 - t of the turned filter reads what tap t adds to the output: o + pad = j*u + t*d",
                [(z.q + turned * D - (span - PAD), z.q + PAD - TAP * D)],
            ),
            proved(
                "a place of the spread input is a pixel where the stride divides it",
                [(FloorDiv(AT * U, U), AT), (Mod(AT * U, U), 0 * AT)],
            ),
        ),
    )


def folded() -> Fact:
    """An axis whose places in blocks of as many pixels as the stride become channels."""
    reach = TAP * D
    return Fact(
        name="a folded axis",
        says="tap t of output p reads place t % u of block p + t // u",
        theorems=(
            proved(
                "pixel p*u + t is place t % u of block p + t // u",
                [((z.p + FloorDiv(reach, U)) * U + Mod(reach, U), z.p * U + reach)],
            ),
            proved(
                "a pixel is one place of one block",
                [(FloorDiv(AT, U) * U + Mod(AT, U), AT)],
            ),
        ),
    )


def planes() -> Fact:
    """Planes of a volume, each of them an image."""
    plane = z.n * z.P + PLANE
    return Fact(
        name="planes of a volume",
        says="planes of a volume are images",
        theorems=(
            proved(
                "image n*P + y is plane y of volume n",
                [(FloorDiv(plane, z.P), z.n), (Mod(plane, z.P), PLANE)],
                [below(PLANE, z.P)],
            ),
        ),
    )


def hosted() -> Iterator[Fact]:
    """Every way."""
    yield from (phases(), spread(), folded(), planes())
