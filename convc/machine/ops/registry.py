"""The table from form names to semantics builders."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convc.machine.program import Program
    from convc.machine.strand import Strand
    from convc.ptx import Instr

Run = Callable[["Strand"], int | None]
Builder = Callable[["Instr", "Program"], Run]

OPS: dict[str, Builder] = {}
NO_RESULT: set[str] = set()
"""Forms whose first operand is read although it is written as a plain register."""


def op(*names: str, result: bool = True) -> Callable[[Builder], Builder]:
    """Register a builder for form names; ``result=False`` when the first operand is not written."""

    def register(builder: Builder) -> Builder:
        for name in names:
            if name in OPS:
                raise ValueError(f"two builders for form {name}")
            OPS[name] = builder
            if not result:
                NO_RESULT.add(name)
        return builder

    return register
