"""Banks of tensor memory: what their number means for rows that shift, for ``.ashift``, and for loads.

Nobody has published how tensor memory is built inside. The settings of ``tmem.banks`` are hypotheses: the 512 columns
of a lane lie in 8 banks of 64 entries or in 4 banks of 128, column c in bank c mod 8 or c mod 4, and a bank reads and
writes one entry a cycle. From that follows, by counting the columns of a lane that share a bank (`turns`):

- ``tcgen05.shift`` moves 8 columns of a row by one lane (32 bytes; PTX manual). With 8 banks each holds one of them: 1
  cycle. With 4 banks each holds two: 2 cycles.
- ``.ashift`` writes back to the next lane what its MMA has read of A: it adds as many cycles to the MMA.
- A register of a 16x256b load takes columns 0, 2, 4 and 6 of a lane (PTX manual, "Data movement shapes"). In 8 banks
  these do not meet; in 4 banks two pairs do: such a load takes twice as long, as was published.

``published`` keeps the numbers of the chip: 12 cycles for a shift, 44 where ptxas wraps it in a loop over lanes, of
which 32 are the loop's whatever the banks are; a factor of 2 for 16x256b loads. What ``.ashift`` adds has been measured
by nobody; the chip assumes a shift's cycles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

NAME = "tmem.banks"
"""The setting of a chip that chooses among `BANKS`."""

SHIFTED = range(8)
"""Columns of a lane that a shift moves."""

LOADED = (0, 2, 4, 6)
"""Columns of a lane that a register of a 16x256b load takes."""


def turns(columns: Collection[int], banks: int) -> int:
    """Cycles to reach some columns of a lane: the most of them that lie in one bank."""
    return max(Counter(column % banks for column in columns).values())


def _numbers(banks: int) -> Mapping[str, float]:
    """The parameters that follow from a number of banks."""
    shift = turns(SHIFTED, banks)
    return {
        "tensor_memory.shift": shift,
        "tensor_memory.ashift": shift,
        "tensor_memory.conflict": turns(LOADED, banks),
    }


BANKS: Mapping[str, Mapping[str, float]] = {"published": {}, "8x64": _numbers(8), "4x128": _numbers(4)}
"""The parameters that each setting replaces; the first is the default."""
