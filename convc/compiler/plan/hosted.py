"""The host's work on a problem, held against the definition: phases, folds, rows and planes of this problem.

The layout has its numbers from formulas that hold for all sizes (`convc.derived.hosted`). Which number stands for which
size is up to code, as in a kernel. So they are held against the definition of the model's convolution once more, which
asks neither the layout's code nor the derivation: the functions by which arrays are laid out are asked for variables in
place of numbers, isl says that what they give is what the definition has everywhere, and what the layout keeps is
counted. A number that differs is a mistake of convc (`DerivationError`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from convc.compiler.index.changes import Fact
from convc.compiler.index.conditions import met
from convc.compiler.index.maps import Counterexample, Proof
from convc.compiler.index.presburger import apart
from convc.compiler.plan.records import Indexing
from convc.compiler.plan.validation import wrong_number
from convc.derived.hosted import FOLDED, PHASES, SPREAD
from convc.host_layout.device_layout import DeviceLayout
from convc.host_layout.fold import AxisFold, image_of, pixel_of
from convc.host_layout.transposed import (
    ForwardEquivalent,
    PhaseAxis,
    cropped_before,
    index_of,
    model_elements,
    ordinary_element,
    output_of,
    phase_of,
    place_of,
    reads_of,
    turned_tap,
)
from convc.ir.epilogue_values import keeps_zero
from convc.ir.expr import Const, IntExpr, Var, evaluate
from convc.ir.problem import AXIS_NAMES, ConvProblem

INDEX, K, N, OUT, PHASE, PLANE, Q, S, X = map(Var, ("i", "k", "n", "o", "phase", "y", "q", "s", "x"))

READS = "tap t of phase a reads the pixel (a + pad - t*d) // u behind the output's, where that leaves no rest"
ONE_PHASE = "a tap is of one phase, (t*d - pad) % u: outputs of phases without a tap are sums of nothing"
COUNTED = "of phases evenly apart the one with number i is LOWEST + STEP*i"
ONCE = "an output of a transposed convolution is one pixel of one phase"
NUMBERED = "number outer*COUNT + inner is one (outer, inner)"
SPREAD_OUT = "a place of the spread input is a pixel where the stride divides it"
TURNED = "tap S - 1 - t of the turned filter reads what tap t adds to the output: o + pad = j*u + t*d"
PLACED = "place PLACED of block p + AHEAD is the pixel that a tap of output p reads, blocks a stride apart"
IMAGES = "image n*P + y is plane y of volume n"
LINE = "the only line of an image is the one that its outputs read"
"""Names of theorems, as `convc.derive.hosted` gives them."""

Pair = tuple[IntExpr, IntExpr]
"""A number, and what it has to be."""


@dataclass(frozen=True, slots=True)
class Same:
    """Numbers that have to be others wherever their variables are.

    Attributes:
        what: they are, in words.
        theorem: that they rest on.
        pairs: each, and what it has to be.
        ends: of each variable, behind its last value.
    """

    what: str
    theorem: str
    pairs: tuple[Pair, ...]
    ends: dict[str, int]


Said = Same | Fact
"""What is held: numbers against their meaning, or the conditions of a theorem."""


def with_host(layout: DeviceLayout, indexing: Indexing) -> Indexing:
    """The indexing with what the host's work assumes in front.

    Raises:
        DerivationError: a number of the layout is another one than the definition needs.
    """
    return replace(indexing, derivation=(*map(str, host_claims(layout)), *indexing.derivation))


def host_claims(layout: DeviceLayout) -> tuple[Proof, ...]:
    """Claims that the layout of a problem assumes, each with its theorem; raises as `with_host`."""
    proofs = (
        _conditions(layout.model, said) if isinstance(said, Fact) else _everywhere(layout.model, said)
        for said in _said(layout)
    )
    return tuple({str(proof): proof for proof in proofs}.values())


def _everywhere(model: ConvProblem, same: Same) -> Proof:
    """Whether numbers are what they mean, for all values of their variables, by isl."""
    found = apart({name: (0, end - 1) for name, end in same.ends.items()}, same.pairs)
    if found is not None:
        which, point = found
        value, meaning = (evaluate(each, point) for each in same.pairs[which])
        at = ", ".join(f"{name} = {number}" for name, number in point.items()) or "all points"
        raise wrong_number(model, f"{same.what} is {value} at {at}, and the definition needs {meaning}", same.theorem)
    return Proof(same.what, "as the definition has it", same.theorem)


def _conditions(model: ConvProblem, fact: Fact) -> Proof:
    """Whether the theorem of a fact is about these numbers."""
    found = met(fact)
    if isinstance(found, Counterexample):
        raise wrong_number(model, f"{found.claim}: {found.value}", found.theorem)
    return Proof(found.claim, "for each tap", found.theorem)


def _counts(what: str, theorem: str, *pairs: tuple[int, int]) -> Same:
    return Same(what, theorem, tuple((Const(found), Const(wanted)) for found, wanted in pairs), {})


def _along(problem: ConvProblem, axis: int) -> str:
    return f"along {AXIS_NAMES[problem.rank][axis]}"


def _said(layout: DeviceLayout) -> Iterator[Said]:
    """Everything that the host's work assumes."""
    if layout.forward is not None:
        yield from _of_forward(layout.model, layout.forward)
    for axis, fold in enumerate(layout.folds):
        if fold is not None:
            yield from _of_fold(layout, axis, fold)
    if layout.base.rank == 1:
        yield from _of_lines(layout)
    if layout.base.rank == 3:
        yield from _of_planes(layout)


# ---- transposed ------------------------------------------------------------------------------------------------------


def _of_forward(model: ConvProblem, forward: ForwardEquivalent) -> Iterator[Said]:
    """A transposed convolution: of its definition o + pad = j*u + t*d, each axis by itself."""
    for axis in range(model.rank):
        if forward.strategy == "dilated":
            yield from _of_spread(model, forward.problem, axis)
        else:
            yield from _of_phases(model, forward.problem, axis, forward.axes[axis])
    if forward.strategy == "dilated":
        return
    yield from _of_elements(model, forward)


def _of_elements(model: ConvProblem, forward: ForwardEquivalent) -> Iterator[Same]:
    """Which element of the ordinary convolution each of the output is, and back: channels are (group, phases, rest)."""
    depth = model.out_channels // model.groups
    indices = [Var(f"i{axis}") for axis in range(model.rank)]
    pixels = [Var(f"q{axis}") for axis in range(model.rank)]
    channel: IntExpr = K // depth
    outputs: list[IntExpr] = []
    for pixel, index, cut, u in zip(pixels, indices, forward.axes, model.stride, strict=True):
        outputs.append(pixel * u + (index * cut.step + cut.lowest))
        channel = channel * cut.count + index
    meaning = (N, channel * depth + K % depth, *pixels)
    counts = tuple(cut.count for cut in forward.axes)
    extents = (model.batch, model.out_channels, *forward.problem.out_extent, *counts)
    ends = dict(zip(map(str, (N, K, *pixels, *indices)), extents, strict=True))
    there: Any = ordinary_element(forward, model, (N, K, *outputs))  # pyright: ignore[reportArgumentType]
    back: Any = model_elements(forward, model, meaning)  # pyright: ignore[reportArgumentType]
    yield Same("elements of the output", NUMBERED, tuple(zip(there, meaning, strict=True)), ends)
    yield Same("elements of the output, back", NUMBERED, tuple(zip(back, (N, K, *outputs), strict=True)), ends)
    made = model.out_channels * math.prod(counts)
    yield _counts("channels of all phases", NUMBERED, (forward.problem.out_channels, made))


def _of_phases(model: ConvProblem, ordinary: ConvProblem, axis: int, cut: PhaseAxis) -> Iterator[Said]:
    """Phases of an axis: the pixels that taps read, the outputs, and that no tap is missing."""
    u = model.stride[axis]
    d = model.dilation[axis]
    pad = model.pad_lo[axis]
    where = _along(model, axis)
    pixels = ordinary.out_extent[axis]
    taps = model.kernel[axis]
    offset, rest = reads_of(model, axis, PHASE, S)
    read = (Q + offset) * u + S * d + rest
    ends = {"q": pixels, "phase": u}
    yield Same(f"j*u + t*d of a tap {where}", READS, ((read, Q * u + PHASE + pad),), {**ends, "s": taps})
    for phase, tap, new in cut.reads:
        yield Fact(PHASES, {"U": u, "D": d, "PAD": pad, "phase": phase, "s": tap, "OFFSET": new - cut.before})
    news = [new for _, _, new in cut.reads]
    yield _counts(
        f"taps of all phases, and padding in front, {where}",
        READS,
        (len(cut.reads), taps),
        (len({tap for _, tap, _ in cut.reads}), taps),
        (ordinary.kernel[axis], max(*news, cut.before) + 1),
        (ordinary.pad_lo[axis], cut.before),
        (ordinary.stride[axis] * ordinary.dilation[axis], 1),
    )
    yield from _of_phases_made(model, axis, cut)
    output = output_of(model, axis, Q, PHASE)
    yield Same(f"outputs of a phase {where}", ONCE, ((output, Q * u + PHASE),), ends)
    wanted = model.out_extent[axis]
    yield _counts(f"outputs of all phases {where}", ONCE, (min(pixels * u, wanted), wanted))


def _of_phases_made(model: ConvProblem, axis: int, cut: PhaseAxis) -> Iterator[Said]:
    """Phases that are made: those of all taps, and where a sum of nothing is not stored as zero every one."""
    where = _along(model, axis)
    read = sorted({phase for phase, _, _ in cut.reads})
    numbers = [index_of(cut, phase) for phase in read]
    every = bool(model.bias or not keeps_zero(model.epilogue) or model.out_zero_point)
    yield Same(
        f"phases that are made {where}", COUNTED, ((index_of(cut, phase_of(cut, INDEX)), INDEX),), {"i": cut.count}
    )
    yield _counts(
        f"phases of taps {where}",
        ONE_PHASE,
        *((phase_of(cut, number), phase) for number, phase in zip(numbers, read, strict=True)),
        (sum(0 <= number < cut.count for number in numbers), len(read)),
        (cut.count if every else 0, model.stride[axis] if every else 0),
    )


def _of_spread(model: ConvProblem, ordinary: ConvProblem, axis: int) -> Iterator[Said]:
    """The spread-out input of an axis: where pixels lie, and what a tap of the turned filter reads."""
    u = model.stride[axis]
    d = model.dilation[axis]
    pad = model.pad_lo[axis]
    where = _along(model, axis)
    taps = model.kernel[axis]
    cropped = cropped_before(model)[axis]
    place = place_of(model, axis, X)
    yield Same(f"places of pixels {where}", SPREAD_OUT, ((place, X * u),), {"x": model.in_extent[axis]})
    read = OUT - ordinary.pad_lo[axis] + cropped + S * d + turned_tap(model, axis, S) * d
    ends = {"o": model.out_extent[axis], "s": taps}
    yield Same(f"j*u + t*d of a turned tap {where}", TURNED, ((read, OUT + pad),), ends)
    yield Fact(SPREAD, {"FIRST": cropped, "S": taps, "D": d, "LEFT": ordinary.pad_lo[axis], "PAD": pad})
    yield _counts(
        f"outputs and taps {where}",
        TURNED,
        (ordinary.out_extent[axis], model.out_extent[axis]),
        (ordinary.kernel[axis], taps),
        (ordinary.dilation[axis], d),
    )


# ---- folded ----------------------------------------------------------------------------------------------------------


def _of_fold(layout: DeviceLayout, axis: int, fold: AxisFold) -> Iterator[Said]:
    """A folded axis: which pixel each tap reads, by its block and its place."""
    base = layout.base
    u = base.stride[axis]
    d = base.dilation[axis]
    pad = base.pad_lo[axis]
    where = _along(base, axis)
    pairs: list[Pair] = []
    for tap, (block, place) in enumerate(fold.taps):
        found = fold.places[place]
        pairs.append((pixel_of(fold, pad, Q + block, Const(found)), Q * u + (tap * d - pad)))
        yield Fact(FOLDED, {"AHEAD": block, "U": u, "PLACED": found, "s": tap, "D": d})
    yield Same(f"pixels that taps read {where}", PLACED, tuple(pairs), {"q": base.out_extent[axis]})
    yield _counts(f"taps {where}", PLACED, (len(fold.taps), base.kernel[axis]))


def _of_planes(layout: DeviceLayout) -> Iterator[Said]:
    """Planes of a folded volume as images."""
    base = layout.base
    depth = base.out_extent[0]
    image = image_of(depth, N, PLANE)
    yield Same("images of planes", IMAGES, ((image, N * depth + PLANE),), {"n": base.batch, "y": depth})
    outputs = zip(layout.folded.out_extent, base.out_extent[1:], strict=True)
    yield _counts("images of all planes", IMAGES, (layout.folded.batch, base.batch * depth), *outputs)


def _of_lines(layout: DeviceLayout) -> Iterator[Said]:
    """Rows as images of one line."""
    made = layout.folded
    row = (made.in_extent[0], made.kernel[0], made.stride[0], made.dilation[0], made.out_extent[0])
    outputs = (made.out_extent[1], layout.base.out_extent[0])
    pads = (made.pad_lo[0] + made.pad_hi[0], 0)
    yield _counts("rows as images of one line", LINE, *((found, 1) for found in row), pads, outputs)
