"""Convolutions that the host turns into others before a kernel is made: transposed ones, folded axes, volumes, rows.

They are identities of the definition, one axis at a time. What the host does to arrays is read off their maps
(`convc.derived.hosted`), and held against the definition for every problem (`convc.compiler.plan.hosted`).
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import S as CONSTANT

from convc.derive import symbols as z
from convc.derive.kernels import Map
from convc.derive.results import Fact, equal
from convc.derive.symbols import FloorDiv, Mod, axes, axis, size
from convc.derive.theorem import at_most, below, proved

U = size("U")
"""Stride of an axis."""
D = size("D")
"""Dilation of an axis."""
PAD = size("PAD", least=0)
PHASE = axis("phase")
LOWEST = size("LOWEST", least=0)
"""The first phase that is made."""
STEP = size("STEP")
"""From one phase that is made to the next."""
INDEX = axis("i")
"""The number of a phase among those that are made."""
OFFSET = size("OFFSET", least=0)
"""Pixels from that of an output to the one that a tap reads."""
TAP = z.s
AT = axis("x")
"""A pixel of the input."""
OUT = axis("o")
"""A pixel of the output of a transposed convolution."""
PLANE = axis("y")
IMAGE = axis("image")
PLACE = axis("place")
"""A place of a block of pixels."""
AHEAD = size("AHEAD", least=0)
"""Blocks from that of an output to the one that a tap reads."""
PLACED = size("PLACED", least=0)
"""The place of a tap in its block."""
LEFT = size("LEFT", least=0)
"""Zeros in front of the spread input."""
FIRST = size("FIRST", least=0)
"""Places of the spread input that are cropped in front."""
COUNT = size("COUNT")
"""Values of the inner one of two numbers."""
INNER, OUTER, NUMBER = axes("inner outer number")


def phases() -> Fact:
    """Outputs of a transposed convolution, by their phase: output channels of one with stride 1."""
    output = z.q * U + PHASE
    ahead = PHASE + PAD - TAP * D
    reads = proved(
        "a tap of a phase reads the pixel OFFSET behind the output's: j*u + t*d = o + pad",
        [((z.q + OFFSET) * U + TAP * D, output + (OFFSET * U + TAP * D - PHASE))],
    )
    taken = proved(
        "tap t of phase a reads the pixel (a + pad - t*d) // u behind the output's, where that leaves no rest",
        [((z.q + FloorDiv(ahead, U)) * U + TAP * D + Mod(ahead, U), output + PAD)],
    )
    once = proved(
        "an output of a transposed convolution is one pixel of one phase",
        [
            (FloorDiv(output, U), z.q),
            (Mod(output, U), PHASE),
            (FloorDiv(OUT, U) * U + Mod(OUT, U), OUT),
        ],
        [below(PHASE, U)],
    )
    phase = Mod(TAP * D - PAD, U)
    one = proved(
        "a tap is of one phase, (t*d - pad) % u: outputs of phases without a tap are sums of nothing",
        [(Mod(phase + PAD - TAP * D, U), 0 * U), (Mod(PHASE - OFFSET * U, U), PHASE)],
        [below(PHASE, U)],
    )
    made = LOWEST + INDEX * STEP
    counted = proved(
        "of phases evenly apart the one with number i is LOWEST + STEP*i", [(FloorDiv(made - LOWEST, STEP), INDEX)]
    )
    return Fact(
        name="phases of a transposed convolution",
        says="the phases of a transposed convolution are output channels of an ordinary one",
        theorems=(reads, taken, once, one, counted),
        conditions=equal(OFFSET * U + TAP * D, PHASE + PAD, "the tap is one of the phase"),
        maps={
            "reads": Map(axes=(PHASE, TAP), results={"offset": FloorDiv(ahead, U), "rest": Mod(ahead, U)}),
            "made": Map(axes=(INDEX,), results={"phase": made}),
            "index": Map(axes=(PHASE,), results={"i": FloorDiv(PHASE - LOWEST, STEP)}),
            "output": Map(axes=(z.q, PHASE), results={"o": output}),
            "pixel": Map(axes=(OUT,), results={"q": FloorDiv(OUT, U), "phase": Mod(OUT, U)}),
        },
    )


def channels() -> Fact:
    """Numbers of channels that are made of those of groups, phases and channels of a group."""
    number = OUTER * COUNT + INNER
    once = proved(
        "number outer*COUNT + inner is one (outer, inner)",
        [
            (FloorDiv(number, COUNT), OUTER),
            (Mod(number, COUNT), INNER),
            (FloorDiv(NUMBER, COUNT) * COUNT + Mod(NUMBER, COUNT), NUMBER),
        ],
        [below(INNER, COUNT)],
    )
    return Fact(
        name="channels of phases",
        says="an output channel is one channel of one phase of one group",
        theorems=(once,),
        maps={
            "number": Map(axes=(OUTER, INNER), results={"number": number}),
            "digits": Map(axes=(NUMBER,), results={"outer": FloorDiv(NUMBER, COUNT), "inner": Mod(NUMBER, COUNT)}),
        },
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
        conditions=equal(FIRST + span, LEFT + PAD, "zeros in front of the spread input, less what is cropped"),
        maps={
            "place": Map(axes=(AT,), results={"place": AT * U}),
            "turned": Map(axes=(TAP,), results={"tap": turned}),
            "pads": Map(axes=(), results={"before": span - PAD}),
        },
    )


def folded() -> Fact:
    """An axis whose places in blocks of as many pixels as the stride become channels."""
    reach = TAP * D
    return Fact(
        name="a folded axis",
        says="a tap reads the place of a block that it has, for every output the block as many further on",
        theorems=(
            proved(
                "place PLACED of block p + AHEAD is the pixel that a tap of output p reads, blocks a stride apart",
                [((z.p + AHEAD) * U + PLACED - PAD, z.p * U + (AHEAD * U + PLACED) - PAD)],
            ),
            proved(
                "pixel p*u + t is place t % u of block p + t // u",
                [((z.p + FloorDiv(reach, U)) * U + Mod(reach, U) - PAD, z.p * U + reach - PAD)],
            ),
            proved(
                "a pixel is one place of one block",
                [(FloorDiv(AT, U) * U + Mod(AT, U), AT)],
            ),
        ),
        conditions=equal(AHEAD * U + PLACED, reach, "the place of the block is the pixel of the tap"),
        maps={
            "tap": Map(axes=(TAP,), results={"block": FloorDiv(reach, U), "place": Mod(reach, U)}),
            "pixel": Map(axes=(z.block, PLACE), results={"pixel": z.block * U + PLACE - PAD}),
        },
    )


def own() -> Fact:
    """An axis of whose filter every tap has channels of its own."""
    reach = TAP * D
    return Fact(
        name="channels for every tap",
        says="tap t of output p reads place t of block p",
        theorems=(
            proved(
                "place t*d of block p is the pixel that tap t of output p reads",
                [(z.p * U + reach - PAD, (z.p + FloorDiv(reach, U)) * U + Mod(reach, U) - PAD)],
            ),
        ),
        maps={"tap": Map(axes=(TAP,), results={"block": CONSTANT.Zero, "place": reach})},
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
                [
                    (FloorDiv(plane, z.P), z.n),
                    (Mod(plane, z.P), PLANE),
                    (FloorDiv(IMAGE, z.P) * z.P + Mod(IMAGE, z.P), IMAGE),
                ],
                [below(PLANE, z.P)],
            ),
        ),
        maps={
            "image": Map(axes=(z.n, PLANE), results={"image": plane}),
            "plane": Map(axes=(IMAGE,), results={"n": FloorDiv(IMAGE, z.P), "y": Mod(IMAGE, z.P)}),
        },
    )


def lines() -> Fact:
    """Rows, each of them an image of one line."""
    one = {"in_extent": 1, "kernel": 1, "stride": 1, "dilation": 1}
    return Fact(
        name="rows as images",
        says="a row is an image of one line",
        theorems=(
            proved(
                "the only line of an image is the one that its outputs read",
                [at_most(z.p + z.r, 0)],
                [at_most(z.p, 0), at_most(z.r, 0)],
            ),
        ),
        maps={
            "line": Map(
                axes=(),
                results={name: CONSTANT.One * value for name, value in one.items()}
                | dict.fromkeys(("pad_lo", "pad_hi"), CONSTANT.Zero),
            )
        },
    )


def hosted() -> Iterator[Fact]:
    """Every way."""
    yield from (phases(), channels(), spread(), folded(), own(), planes(), lines())
