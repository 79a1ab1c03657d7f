"""The index maps of filter columns that are channels (`convc.layout.columns`), and what the kernel takes for granted.

The kernel runs a convolution with one filter column whose channels are runs. Its own maps say which element of which
row it reads; the maps here say which channel of which pixel that is:

    read    (q, s)              -> w        what filter column s reads for output column q; padding outside of the image
    run     (s, c)              -> e        the element of a row: the index along K
    mapped  (n, h, q, s, c)     -> element  where the tensor map finds it, by its strides
    stored  (n, h, q, s, c)     -> element  where the host put channel c of pixel w

The host writes the filter by ``run`` too, so both operands hold the same (s, c) at the same element.
"""

from __future__ import annotations

import msgspec

from convc.compiler.index.conv import activation_map
from convc.compiler.index.lower import translate
from convc.compiler.index.maps import Counterexample, IndexMap, Outcome, Proof, prove_equal
from convc.compiler.index.presburger import clash, missed
from convc.compiler.index.symbols import Axis
from convc.ir.expr import Var
from convc.ir.problem import ConvProblem


class ColumnMaps(msgspec.Struct, frozen=True, kw_only=True):
    """The maps of the module's table.

    Attributes:
        problem: the convolution over images, its columns not yet joined; channels filled up.
        width: pixels of an image row in the buffer; 0 where each output column has a row of its own.
        read, run, mapped, stored: the maps.
    """

    problem: ConvProblem
    width: int
    read: IndexMap
    run: IndexMap
    mapped: IndexMap
    stored: IndexMap

    @property
    def maps(self) -> tuple[IndexMap, ...]:
        """All maps, in reading order."""
        return self.read, self.run, self.mapped, self.stored


def column_maps(problem: ConvProblem, *, left: int, width: int, pitch: int, strides: tuple[int, ...]) -> ColumnMaps:
    """Derive the maps.

    Args:
        problem: of one group and two spatial axes, its columns not yet joined; channels filled up.
        left, width: padding in front of an image row in the buffer and its pixels, of rows that overlap; width 0: the
            host wrote a row for each output column.
        pitch: elements of such a row.
        strides: of the tensor map, in elements, from output columns on; two where it counts image rows through.
    """
    n = Axis("n", problem.batch)
    h = Axis("h", problem.in_extent[0])
    q = Axis("q", problem.out_extent[1])
    s = Axis("s", problem.kernel[1])
    c = Axis("c", problem.in_channels)
    across, *outer = strides
    lines = outer[0] * h.symbol + (outer[1] if len(outer) > 1 else outer[0] * h.extent) * n.symbol
    w = q.symbol * problem.stride[1] + s.symbol * problem.dilation[1] - problem.pad_lo[1]
    e = s.symbol * c.extent + c.symbol
    line = n.symbol * h.extent + h.symbol
    stored = (line * width + w + left) * c.extent + c.symbol
    if not width:
        stored = (line * q.extent + q.symbol) * pitch + e
    whole = (n, h, q, s, c)
    return ColumnMaps(
        problem=problem,
        width=width,
        read=IndexMap(name="read", domain=(q, s), results=(("w", w),)),
        run=IndexMap(name="run", domain=(s, c), results=(("e", e),)),
        mapped=IndexMap(name="mapped", domain=whole, results=(("element", lines + q.symbol * across + e),)),
        stored=IndexMap(name="stored", domain=whole, results=(("element", stored),)),
    )


def prove_columns(maps: ColumnMaps, *, left: int, run: int) -> tuple[Outcome, ...]:
    """Every claim about filter columns that are channels.

    Args:
        maps: what to prove.
        left: padding in front of an image row in the buffer.
        run: channels that the kernel's convolution has.
    """
    claim = "element e of row (n, h, q) is channel c of pixel w"
    proofs = [_prove_read(maps), _prove_run(maps, run)]
    if maps.width:
        inside = IndexMap(name="inside", domain=maps.read.domain, results=(("w", maps.read["w"] + left),))
        within = f"no row reaches past the {maps.width} pixels of its image row"
        proofs.append(inside.prove_in({"w": (0, maps.width - 1)}, within))
    return *proofs, prove_equal(claim, maps.mapped["element"], maps.stored["element"], maps.mapped.domain)


def _prove_read(maps: ColumnMaps) -> Outcome:
    """Whether a row has the pixels that the filter's columns read."""
    problem = maps.problem
    taps = activation_map(problem, problem.in_channels)
    return prove_equal("w is the pixel that filter column s reads", maps.read["w"], taps["w"], maps.read.domain)


def _prove_run(maps: ColumnMaps, run: int) -> Outcome:
    """Whether every (s, c) has an element of its own, and the run has no other."""
    claim = f"each of the {run} elements of a run is one (s, c)"
    e = translate(maps.run["e"])
    pair = clash(maps.run.ranges, (), (e,))
    if pair is not None:
        later, first = pair
        return Counterexample(claim, tuple(later.items()), f"the element of {first} too")
    beyond = maps.run.prove_in({"e": (0, run - 1)}, claim)
    if not isinstance(beyond, Proof):
        return beyond
    left_out = missed({"e": (0, run - 1)}, (Var("e"),), maps.run.ranges, (), (e,))
    if left_out is not None:
        return Counterexample(claim, tuple(left_out.items()), "no (s, c) has it")
    return Proof(claim, f"e = {e}")
