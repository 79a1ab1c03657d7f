"""Kernels whose launches may replay an earlier one, with other data (`convc.machine.state.replay`).

Nothing that such a kernel reads from global memory gets into an address, a predicate or any other register that scalar
instructions read: tensor copies wait, the tensor core multiplies what they bring, segments
(`convc.machine.execute.slp`) read the sums, hand them on to others in registers, and store them, in shared memory
too, and tensor copies store what lies there. All else, from the first barrier to the counts at the end, follows from
the text and the arguments of the launch.
"""

from __future__ import annotations

from convc.machine.execute.slp import Segment, handed_on, places_of
from convc.machine.isa.all import forms_with
from convc.machine.isa.memory.ld_st import space_of
from convc.machine.isa.registry import Traits
from convc.machine.state.flow import Flow, slots_of
from convc.ptx import Instr

SPACES = ("param", "shared")
"""State spaces that may be read besides; what copies or segments brought there counts as looked at."""


def may_repeat(body: tuple[Instr, ...], flow: Flow, segments: list[Segment]) -> bool:
    """Whether what a kernel does depends on nothing but its text and its arguments."""
    if not segments:
        return False
    bits = 0
    facts = flow.facts
    blind = forms_with(Traits.BLIND)
    stops = [0, *[segment.stop for segment in segments]]
    starts = [*[segment.start for segment in segments], len(body)]
    for stop, start in zip(stops, starts, strict=True):
        for instr, fact in zip(body[stop:start], facts[stop:start], strict=True):
            name = instr.form.name
            if name not in blind and (name != "ld" or space_of(instr) not in SPACES):
                return False
            bits |= fact.reads
    data = {slot for segment in segments for left in segment.left for _, slot in left}
    for segment in segments:
        for index in segment.scalars:
            bits |= facts[index].reads
    read = {slot for segment in segments for slot in places_of(segment, body)}.union(slots_of(bits))
    loads = [(pack, left) for segment in segments for pack, left in zip(segment.packs, segment.left, strict=True)]
    partly = {slot for pack, left in loads if pack.guard is not None for _, slot in left}  # the rest is what was there
    return not read & data and not partly & handed_on(segments)
