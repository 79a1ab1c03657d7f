"""Atoms by name: one record for each family, with the spelling of its names and the function that makes one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from convc.atoms import matrix, shared, tensor, warp
from convc.atoms.held import Atom
from convc.errors import InputError

LONGEST = 80
"""Letters of a name that is looked at."""

SWIZZLE = r"(?:\.(?P<swizzle>none|32B|64B|128B_atom32|128B))?"


@dataclass(frozen=True, kw_only=True)
class Family:
    """Atoms whose names are spelled alike.

    Attributes:
        spelling: for people; N and parts in brackets are free. pattern: the same as a regular expression.
        make: an atom of what the pattern found.
        names: some or all names of the family.
    """

    spelling: str
    pattern: str
    make: Callable[[dict[str, str | None]], Atom]
    names: Callable[[], Iterator[str]]


Found = dict[str, str | None]


def _int(found: Found, name: str) -> int:
    return int(found[name] or 0)


def mma_shapes(element: str) -> Iterator[tuple[int, int]]:
    """m and k of the mma.sync of a type: one or two registers of a row's threads; integers have one for 8 rows too."""
    step = warp.chunk(element)
    if element == "f64" or element in warp.INTEGERS:
        yield 8, step
    for count in (1, 2, 4) if element == "f64" else (1, 2):
        yield 16, count * step


def sparse_depths(element: str) -> Iterator[int]:
    """k of the mma.sp of a type: what is stored of A takes one or two registers of a row's threads."""
    eight_bit_float = warp.BITS[element] == 8 and element not in warp.INTEGERS
    for count in (2,) if eight_bit_float else (1, 2):
        yield 2 * count * warp.chunk(element)


def wmma_shapes(element: str) -> Iterator[tuple[int, int, int]]:
    """m, n and k of the wmma of a type."""
    if element in ("f16", "bf16", "s8", "u8"):
        yield from ((16, 16, 16), (32, 8, 16), (8, 32, 16))
    elif element == "tf32":
        yield 16, 16, 8
    elif element in ("f64", "s4", "u4", "b1"):
        yield 8, 8, warp.chunk(element)


def _mma(found: Found) -> Atom:
    m = _int(found, "m")
    k = _int(found, "k")
    element = str(found["element"])
    if (m, k) not in mma_shapes(element):
        shapes = ", ".join(f"m{m}n8k{k}" for m, k in mma_shapes(element))
        raise InputError(f"there is no mma.sync m{m}n8k{k} of {element}", hint=f"of {element} there are {shapes}")
    return warp.mma(m, k, element)


def _sparse(found: Found) -> Atom:
    k = _int(found, "k")
    element = str(found["element"])
    if element in ("f64", "b1") or k not in sparse_depths(element):
        shapes = ", ".join(f"m16n8k{k}" for k in sparse_depths(element)) if element not in ("f64", "b1") else "none"
        raise InputError(f"there is no mma.sp m16n8k{k} of {element}", hint=f"of {element} there are: {shapes}")
    return warp.sparse(k, element)


def _wmma(found: Found) -> Atom:
    shape = (_int(found, "m"), _int(found, "n"), _int(found, "k"))
    element = str(found["element"])
    if shape not in wmma_shapes(element):
        shapes = ", ".join("m{}n{}k{}".format(*each) for each in wmma_shapes(element)) or "none"
        raise InputError(
            "there is no wmma m{}n{}k{} of {}".format(*shape, element), hint=f"of {element} there are: {shapes}"
        )
    return warp.wmma(*shape, element)


def _moved(found: Found) -> Atom:
    verb = str(found["verb"])
    shape = str(found["shape"])
    name = f"{verb}.{shape}{found['trans'] or ''}"
    forms = matrix_forms()
    if (verb, shape, bool(found["trans"]), bool(found["packed"])) not in forms:
        raise InputError(f"there is no {name}{' of packed rows' if found['packed'] else ''}")
    number = _int(found, "number")
    if shape == "m16n16" and number == 4:
        raise InputError(f"there is no {name} of four matrices", hint="m16n16 is loaded as .x1 or .x2")
    count = number * 2 if shape == "m16n16" else number
    return matrix.moved(verb, shape, count, bool(found["trans"]), found["packed"] or "")


def matrix_forms() -> tuple[tuple[str, str, bool, bool], ...]:
    """Verb, shape, whether it is transposed and whether its rows are packed."""
    return (
        ("ldmatrix", "m8n8", False, False),
        ("ldmatrix", "m8n8", True, False),
        ("ldmatrix", "m16n16", True, False),
        ("ldmatrix", "m16n16", True, True),
        ("ldmatrix", "m8n16", False, True),
        ("stmatrix", "m8n8", False, False),
        ("stmatrix", "m8n8", True, False),
        ("stmatrix", "m16n8", True, False),
    )


def _matrix_names() -> Iterator[str]:
    for verb, shape, trans, packed in matrix_forms():
        for number in (1, 2) if shape == "m16n16" else (1, 2, 4):
            for rows in (".b4x16_p64", ".b6x16_p32") if packed else ("",):
                yield f"{verb}.{shape}.x{number}{'.trans' if trans else ''}{rows}"


def _tensor_moves() -> Iterator[str]:
    for verb in ("ld", "st"):
        for shape, per in tensor.PER_NUMBER.items():
            for power in range(8):
                if per << power <= tensor.MOST:
                    yield f"tcgen05.{verb}.{shape}.x{1 << power}"


def _tensor_moved(found: Found) -> Atom:
    verb = str(found["verb"])
    if found["packed"] and (found["packed"] == ".pack::16b") != (verb == "ld"):
        raise InputError(f"tcgen05.{verb} has no {found['packed']}", hint="tcgen05.ld packs, tcgen05.st unpacks")
    return tensor.moved(str(found["shape"]), _int(found, "number"), packed=bool(found["packed"]), verb=verb)


def _wgmma(found: Found) -> Atom:
    element = str(found["element"])
    k = 8 * shared.DEPTH // warp.BITS[element]
    if _int(found, "k") != k:
        raise InputError(f"there is no wgmma of {element} with K={found['k']}", hint=f"K of {element} is {k}")
    return warp.wgmma(
        _int(found, "n"),
        element,
        a_shared=bool(found["ss"]),
        mn_major=bool(found["mn"]),
        swizzle=found["swizzle"] or "128B",
    )


def _wgmma_names() -> Iterator[str]:
    for element in warp.ASYNCHRONOUS:
        k = 8 * shared.DEPTH // warp.BITS[element]
        for n in (8, 64, 256):
            yield f"wgmma.m64n{n}k{k}.{element}"
            yield f"wgmma.m64n{n}k{k}.{element}.ss"
    yield from ("wgmma.m64n64k16.f16.mn", "wgmma.m64n64k16.bf16.mn", "wgmma.m64n32k16.f16.ss.64B")
    yield from ("wgmma.m64n16k16.f16.32B", "wgmma.m64n16k16.f16.none", "wgmma.m64n32k16.f16.mn.64B")


def _tensor_mma(found: Found) -> Atom:
    return tensor.mma(
        _int(found, "m"),
        _int(found, "n"),
        str(found["kind"]),
        ctas=2 if found["pair"] else 1,
        ws=bool(found["ws"]),
        a_tensor=bool(found["ts"]),
        mn_major=bool(found["mn"]),
        swizzle=found["swizzle"] or "128B",
    )


def _tensor_mma_names() -> Iterator[str]:
    for kind in tensor.KINDS:
        yield f"tcgen05.mma.m128n32.{kind}"
        yield f"tcgen05.mma.m256n64.{kind}.2cta"
        if kind not in tensor.FACTORS and kind not in tensor.PADDED:
            yield f"tcgen05.mma.m64n32.{kind}"
            yield f"tcgen05.mma.m64n64.{kind}.ws"
    yield from (f"tcgen05.mma.m{m}n64.f16.ws" for m in (32, 128))
    yield from ("tcgen05.mma.m128n64.f16.2cta", "tcgen05.mma.m128n64.mxf4.2cta")
    yield from (f"tcgen05.mma.m{m}n64.f16.ts" for m in (64, 128))
    yield from (f"tcgen05.mma.m{m}n64.f16.ws.ts" for m in (32, 64, 128))
    yield from ("tcgen05.mma.m64n32.e2m1.64B", "tcgen05.mma.m128n32.e2m1.ts", "tcgen05.mma.m64n64.e2m3.ws.ts")
    yield from ("tcgen05.mma.m128n64.f16.mn", "tcgen05.mma.m128n128.e4m3.mn", "tcgen05.mma.m128n32.tf32.mn.128B_atom32")
    yield from (f"tcgen05.mma.m128n32.f16.{swizzle}" for swizzle in ("none", "32B", "64B"))


def _either(names: Iterator[str] | tuple[str, ...]) -> str:
    return "|".join(re.escape(name) for name in names)


TYPES = _either(tuple(warp.BITS))

FAMILIES: tuple[Family, ...] = (
    Family(
        spelling="mma.mMn8kK.TYPE",
        pattern=rf"mma\.m(?P<m>\d+)n8k(?P<k>\d+)\.(?P<element>{TYPES})",
        make=_mma,
        names=lambda: (f"mma.m{m}n8k{k}.{each}" for each in warp.BITS for m, k in mma_shapes(each)),
    ),
    Family(
        spelling="mma.m8n8k4.f16.row|col.row|col.f32|f16",
        pattern=r"mma\.m8n8k4\.f16\.(?P<a>row|col)\.(?P<b>row|col)\.(?P<d>f32|f16)",
        make=lambda found: warp.quads(str(found["a"]), str(found["b"]), str(found["d"])),
        names=lambda: (
            f"mma.m8n8k4.f16.{a}.{b}.{d}" for a in ("row", "col") for b in ("row", "col") for d in ("f32", "f16")
        ),
    ),
    Family(
        spelling="mma.sp.m16n8kK.TYPE",
        pattern=rf"mma\.sp\.m16n8k(?P<k>\d+)\.(?P<element>{TYPES})",
        make=_sparse,
        names=lambda: (
            f"mma.sp.m16n8k{k}.{each}" for each in warp.BITS if each not in ("f64", "b1") for k in sparse_depths(each)
        ),
    ),
    Family(
        spelling="wmma.mMnNkK.TYPE",
        pattern=rf"wmma\.m(?P<m>\d+)n(?P<n>\d+)k(?P<k>\d+)\.(?P<element>{TYPES})",
        make=_wmma,
        names=lambda: ("wmma.m{}n{}k{}.{}".format(*s, each) for each in warp.BITS for s in wmma_shapes(each)),
    ),
    Family(
        spelling="ldmatrix|stmatrix.SHAPE.xN[.trans][.PACKED]",
        pattern=r"(?P<verb>ldmatrix|stmatrix)\.(?P<shape>m8n8|m8n16|m16n8|m16n16)\.x(?P<number>[124])(?P<trans>\.trans)?"
        r"(?:\.(?P<packed>b4x16_p64|b6x16_p32))?",
        make=_moved,
        names=_matrix_names,
    ),
    Family(
        spelling="movmatrix.m8n8.trans",
        pattern=r"movmatrix\.m8n8\.trans",
        make=lambda found: matrix.transpose(),
        names=lambda: iter(["movmatrix.m8n8.trans"]),
    ),
    Family(
        spelling="wgmma.m64nNkK.TYPE[.ss][.mn][.SWIZZLE]",
        pattern=rf"wgmma\.m64n(?P<n>\d+)k(?P<k>\d+)\.(?P<element>{_either(warp.ASYNCHRONOUS)})(?P<ss>\.ss)?(?P<mn>\.mn)?"
        + SWIZZLE,
        make=_wgmma,
        names=_wgmma_names,
    ),
    Family(
        spelling="tcgen05.ld|st.SHAPE.xN[.pack::16b|.unpack::16b]",
        pattern=rf"tcgen05\.(?P<verb>ld|st)\.(?P<shape>{_either(tuple(tensor.PER_NUMBER))})\.x(?P<number>\d+)"
        r"(?P<packed>\.(?:un)?pack::16b)?",
        make=_tensor_moved,
        names=_tensor_moves,
    ),
    Family(
        spelling="tcgen05.cp.SHAPE[.MULTICAST][.b8x16.PACKED]",
        pattern=rf"tcgen05\.cp\.(?P<shape>{_either(tensor.COPIES)})(?:\.b8x16\.(?P<packed>{_either(tuple(tensor.UNPACKED))}))?",
        make=lambda found: tensor.copied(str(found["shape"]), found["packed"] or ""),
        names=lambda: (
            f"tcgen05.cp.{shape}{tail}"
            for shape in tensor.COPIES
            for tail in ("", *(f".b8x16.{packed}" for packed in tensor.UNPACKED))
        ),
    ),
    Family(
        spelling="tcgen05.mma.mMnN.KIND[.2cta|.ws][.ts][.mn][.SWIZZLE]",
        pattern=rf"tcgen05\.mma\.m(?P<m>\d+)n(?P<n>\d+)\.(?P<kind>{_either(tuple(tensor.KINDS))})"
        rf"(?:(?P<pair>\.2cta)|(?P<ws>\.ws))?(?P<ts>\.ts)?(?P<mn>\.mn)?{SWIZZLE}",
        make=_tensor_mma,
        names=_tensor_mma_names,
    ),
)
"""All families."""


def atom_names() -> Iterator[str]:
    """Every name, or of families with a free size some."""
    for family in FAMILIES:
        yield from family.names()


def find_atom(name: str) -> Atom:
    """The atom of a name, such as ``mma.m16n8k16.f16``.

    Raises:
        InputError: no family spells a name so, or the instruction is not there; with names that are near.
    """
    if len(name) <= LONGEST and name.isascii():
        for family in FAMILIES:
            found = re.fullmatch(family.pattern, name)
            if found is not None:
                if any(value.isdigit() and len(value) > 4 for value in found.groupdict().values() if value):
                    break
                return family.make(found.groupdict())
    near = difflib.get_close_matches(name[:LONGEST], list(atom_names()), n=4, cutoff=0.6)
    raise InputError(
        f"expected an atom such as mma.m16n8k16.f16, got {name[:LONGEST]!r}",
        hint=f"near are {', '.join(near)}" if near else "convc draw atom --list names all",
    )
