"""Kernels in folders that compilers leave: the text, what its arguments are, and what is known of the launch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from convc.errors import LaunchError

Kind = Literal["pointer", "number", "descriptor", "map", "bytes", "null"]

PARAM = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.(?P<type>\w+)(?P<ptr>\s+\.ptr)?[^,\[\]]*?\s(?P<name>[\w$]+)\s*(?:\[(?P<size>\d+)\])?\s*$"
)
"""A parameter of an entry (PTX manual, Kernel Function Parameters)."""

MAP_BYTES = 128
MOST_BYTES = 1 << 26
"""Of a text or a record that is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An argument that a launch has to be given.

    Attributes:
        name: as the program calls it, or ``arg0``.
        kind: a pointer to a buffer, a number, a tensor descriptor (a map, and its shape and strides behind it), a bare
            tensor map, some bytes that begin with a pointer, or nothing but a null pointer.
        dtype: the launch file's word for elements or the number; "" where it is not known.
        size: of bytes.
        map: what the compiler says of a descriptor.
        rank: of a descriptor's tensor.
    """

    name: str
    kind: Kind
    dtype: str = ""
    size: int = 8
    map: Mapping[str, Any] = field(default_factory=dict[str, Any])
    rank: int = 0

    def __str__(self) -> str:
        word = self.dtype or "u8"
        of = self.dtype or "bytes"
        match self.kind:
            case "pointer":
                return f"{self.name}: a buffer of {of}, as {self.name}=x.npy or {self.name}={word}[64,64]"
            case "descriptor":
                shape = ",".join(["64"] * self.rank)
                return f"{self.name}: a tensor of rank {self.rank} of {word}, as {self.name}={word}[{shape}]"
            case "number":
                return f"{self.name}: a number of type {self.dtype}, as {self.name}=1"
            case "bytes":
                return (
                    f"{self.name}: {self.size} bytes, a buffer's address first, as {self.name}=f16[64,64]; behind it "
                    f"numbers of 4 bytes, as {self.name}.8=64"
                )
            case "map":
                return f"{self.name}: a tensor map of {self.size} bytes, to be described in the launch file"
            case "null":
                return f"{self.name}: a null pointer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A kernel in a folder.

    Attributes:
        name: of the entry. ptx: the file of its text.
        arguments: in the order of its parameters.
        ctas: of a cluster.
        shared: bytes of dynamic shared memory; None where nothing says it.
        grid: where the folder says it.
        scratch: bytes of scratch memory for each CTA, which the last parameter but one points to.
    """

    name: str
    ptx: Path
    arguments: tuple[Argument, ...]
    ctas: int = 1
    shared: int | None = 0
    grid: tuple[int, int, int] | None = None
    scratch: int = 0

    @property
    def needed(self) -> tuple[Argument, ...]:
        """Arguments that the caller has to give."""
        return tuple(each for each in self.arguments if each.kind != "null")


def read_file(path: Path) -> str:
    """A text of a folder; `LaunchError` where it cannot be read or is too large."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise LaunchError(f"expected at most {MOST_BYTES} bytes", where=str(path))
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"cannot read the file: {error}", where=str(path)) from None


def arguments_of_text(declared: str) -> tuple[Argument, ...]:
    """The arguments that a text declares, between the parentheses of its entry."""
    out: list[Argument] = []
    for index, line in enumerate(filter(str.strip, declared.split(","))):
        found = PARAM.match(line.strip())
        if found is None:
            raise LaunchError(f"parameter {index} is not one that is known: {line.strip()!r}")
        name = f"arg{index}"
        size = int(found["size"] or 0)
        if size >= MAP_BYTES:
            out.append(Argument(name=name, kind="map", size=size))
        elif size:
            out.append(Argument(name=name, kind="bytes" if size > 8 else "pointer", size=size))
        elif found["ptr"]:
            out.append(Argument(name=name, kind="pointer"))
        else:
            word = found["type"]
            dtype = word.replace("b", "u", 1) if word[0] == "b" else word
            out.append(Argument(name=name, kind="number", dtype=dtype))
    return tuple(out)
