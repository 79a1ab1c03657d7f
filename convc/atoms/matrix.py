"""ldmatrix, stmatrix and movmatrix: rows of 16 bytes in shared memory, and the registers of a warp.

Thread i gives the address of row i. Of a register (PTX manual, 9.7.14.5.15 to .17):

| shape | elements | row | byte |
| --- | --- | --- | --- |
| m8n8 | 2 of 16 bits | t / 4 | 4 (t % 4) |
| m8n8.trans | 2 of 16 bits, from two rows | 2 (t % 4) | 2 (t / 4) |
| m8n16 | 4 bytes | t / 4 | 4 (t % 4) |
| m16n8.trans | 4 bytes, 2 rows and 8 bytes apart | 2 (t % 4) | t / 4 |
| m16n16.trans | 8 bytes in two registers, of four rows, 8 bytes apart | 4 (t % 4) | t / 4 |
"""

from __future__ import annotations

from dataclasses import replace

from convc.atoms.held import Atom, Held, Mode

ROW = 16
"""Bytes of a row."""

SOURCES = {"ldmatrix": "PTX ISA 9.7.14.5.15", "stmatrix": "PTX ISA 9.7.14.5.16", "movmatrix": "PTX ISA 9.7.14.5.17"}


def registers(shape: str, count: int, trans: bool) -> Held:
    """Bytes of shared memory that a thread has in ``count`` registers.

    Args:
        shape: m8n8 of 16 bits, else bytes. trans: .trans of m8n8; all others have it but m8n16.
    """
    bits = 16 if shape == "m8n8" else 8
    group = 8
    match shape, trans:
        case "m8n8", False:
            threads = (Mode(4, column=2), Mode(group, row=1))
            values = (Mode(2, column=1), Mode(count, row=8))
        case "m8n8", True:
            threads = (Mode(4, row=2), Mode(group, column=1))
            values = (Mode(2, row=1), Mode(count, row=8))
        case "m8n16", _:
            threads = (Mode(4, column=4), Mode(group, row=1))
            values = (Mode(4, column=1), Mode(count, row=8))
        case "m16n8", _:
            threads = (Mode(4, row=2), Mode(group, column=1))
            values = (Mode(2, row=1), Mode(2, column=8), Mode(count, row=8))
        case _:
            threads = (Mode(4, row=4), Mode(group, column=1))
            values = (Mode(2, row=1), Mode(2, column=8), Mode(2, row=2), Mode(count // 2, row=16))
    return Held(
        name="registers",
        what="rows of 16 bytes in shared memory: thread and value",
        rows=8 * count,
        columns=8 * ROW // bits,
        bits=bits,
        threads=threads,
        values=values,
    )


def addresses(count: int, bits: int) -> Held:
    """Rows of shared memory, each with the thread that gives its address."""
    return Held(
        name="addresses",
        what="rows of 16 bytes in shared memory: thread that gives the address, and element of its row",
        rows=8 * count,
        columns=8 * ROW // bits,
        bits=bits,
        threads=(Mode(8 * count, row=1),),
        values=(Mode(8 * ROW // bits, column=1),),
    )


def moved(verb: str, shape: str, count: int, trans: bool, packed: str = "") -> Atom:
    """ldmatrix or stmatrix; ``packed``: rows of 4 or 6 bits, which are spread to bytes first."""
    held = registers(shape, count, trans)
    number = count // 2 if shape == "m16n16" else count
    name = f"{verb}.{shape}.x{number}{'.trans' if trans else ''}{'.' + packed if packed else ''}"
    spread = f", rows of {packed} spread to bytes" if packed else ""
    return Atom(
        name=name,
        title=f"{verb}.sync.aligned.{shape}.x{number}{'.trans' if trans else ''} of {held.bits} bits{spread}",
        held=(held, addresses(count, held.bits)),
        source=SOURCES[verb],
    )


def transpose() -> Atom:
    """movmatrix: a thread gives two elements of a row, and gets two of a column."""
    what = "rows and columns of the matrix that is moved: thread and value"
    source = replace(registers("m8n8", 1, False), name="from", what=f"{what} that it comes from")
    target = replace(registers("m8n8", 1, True), name="to", what=f"{what} that it goes to")
    return Atom(
        name="movmatrix.m8n8.trans",
        title="movmatrix.sync.aligned.m8n8.trans.b16",
        held=(source, target),
        source=SOURCES["movmatrix"],
    )
