"""Loads from a cluster that are computed with together, read as one.

The CTAs of a cluster that share a sum leave their parts in shared memory, and each of them reads some words of every
part, a few loads for each: what one addition takes is a row of several packs. They are one access where they have the
same guard, and then that row is in one piece.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from convc.machine.execute.pack_loads import Places
from convc.machine.execute.pack_operands import Blocks, mask_of
from convc.machine.execute.straight import Pack, Segment, Source
from convc.machine.isa.memory.rows import read_cluster
from convc.machine.state.strand import Strand

Homes = dict[Pack, tuple[Pack, int]]
"""Packs that are read together with others: the pack that stands for all of them, and their first element in it."""

Read = Callable[[Strand, Blocks, Places], bool]
"""Performs packs as one; False where that is not plain."""


def together(segment: Segment) -> tuple[list[Read], Homes]:
    """Find packs of a segment that are read together: what does so, and where their elements are then."""
    homes: Homes = {}
    alike: dict[tuple[object, ...], list[tuple[Pack, list[Pack]]]] = {}
    if not any(pack.kind == "ld.cluster" for pack in segment.packs):
        return [], homes
    for sources in [sources for pack in segment.packs for sources in pack.sources]:
        parts = _parts(sources)
        if len(parts) < 2 or any(part in homes for part in parts):
            continue
        first = parts[0]
        targets = [slot for part in parts for slot in part.targets]
        members = [member for part in parts for member in part.members]
        whole = Pack(first.kind, members, 0, [], targets, only=first.only)
        homes.update({part: (whole, at * len(first.targets)) for at, part in enumerate(parts)})
        alike.setdefault((len(parts), _form(first)), []).append((whole, parts))
    return [_read(found) for found in alike.values()], homes


def moved(sources: list[Source], homes: Homes) -> list[Source]:
    """Sources, those in packs that are read together by their place among all of these."""
    found: list[Source] = []
    for source in sources:
        if not isinstance(source, int) and source[0] in homes:
            whole, first = homes[source[0]]
            source = whole, first + source[1]
        found.append(source)
    return found


def _parts(sources: list[Source]) -> list[Pack]:
    """The packs whose elements, end to end, are the sources; none where they are not, or not to be read as one."""
    parts: list[Pack] = []
    for source in sources:
        if isinstance(source, int):
            return []
        pack, at = source
        if not at:
            parts.append(pack)
        elif not parts or parts[-1] is not pack:
            return []
    places = [(pack, at) for pack in parts for at in range(len(pack.targets))]
    alone = all(pack.kind == "ld.cluster" and not pack.olds for pack in parts)
    alike = all(_form(one) == _form(other) for one, other in pairwise(parts))
    return parts if places == sources and alone and alike and len(set(parts)) == len(parts) else []


def _form(pack: Pack) -> tuple[int, int, tuple[int, bool] | None]:
    """Words and loads of a pack, and its guard."""
    only = None if pack.only is None else (pack.only.slot, pack.only.negate)
    return len(pack.targets), len(pack.members), only


def _read(rows: list[tuple[Pack, list[Pack]]]) -> Read:
    """Read all rows, each of packs of the same form, in one access."""
    first = rows[0][1][0]
    words = len(first.targets)
    size = 4 * words // len(first.members)

    def apart(strand: Strand, places: Places, parts: list[Pack]) -> np.ndarray | None:
        mask = mask_of(first.only, strand.regs)
        found = [read_cluster(strand, [[places[part]]], words, size, mask) for part in parts]
        blocks = [block[0] for block in found if block is not None]
        shape = np.broadcast_shapes(*[block.shape for block in blocks])
        same = [np.broadcast_to(block, shape) for block in blocks]
        return np.concatenate(same, axis=-1) if len(same) == len(parts) else None

    def read(strand: Strand, blocks: Blocks, places: Places) -> bool:
        mask = mask_of(first.only, strand.regs)
        addresses = [[places[part] for part in parts] for _, parts in rows]
        found = read_cluster(strand, addresses, words, size, mask)
        for at, (whole, parts) in enumerate(rows):
            # Where all of it is not plain, as nobody wrote what lies between, each load by itself may be.
            block = apart(strand, places, parts) if found is None else found[at]
            if block is None:
                return False
            blocks[whole] = block
            for number, part in enumerate(parts):
                blocks[part] = block[..., number * words : (number + 1) * words]
        return True

    return read
