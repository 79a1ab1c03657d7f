"""The translation units of a program (``nvcc -rdc=true``) as one module of PTX.

nvlink links their machine code, and leaves the PTX of each unit as it is. Here a unit's ``.extern`` names get the
definitions of the others, as nvlink does it: one ``.visible`` definition of a name, else the first ``.weak`` one; names
without linkage are the unit's own.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from convc.recorder.fatbin import MAGIC, ptx_of, target_of

_PIECE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\]|\\.)*"|[{};]', re.DOTALL)
_LINE = re.compile(r"^\s*\.(?:version|target|address_size|file|loc)\b[^\n]*$", re.MULTILINE)
_VERSION = re.compile(r"^\s*\.version\s+(\d+)\.(\d+)", re.MULTILINE)
_FUNCTION = re.compile(r"\.(?:entry|func)\s*(?:\([^)]*\)\s*)?([\w$]+)")
_VARIABLE = re.compile(r"([\w$]+)\s*(?:\[[^\]]*\]\s*)*;?\s*$")
_LINKAGE = re.compile(r"\s*\.(visible|extern|weak|common)\b")


@dataclass(slots=True)
class _Statement:
    """A declaration of a module. kind: func, entry, variable, or other; defines: it has a body, or is a variable."""

    text: str
    kind: str
    name: str
    linkage: str | None
    defines: bool


def module_text(data: bytes, target: str, where: str) -> str:
    """The PTX of what a program loads: one image, or the image of nvlink and behind it that of each unit.

    Raises:
        InputError: an image has no PTX for the target.
    """
    images = list(_images(data))
    if len(images) == 1:
        return ptx_of(data, target, where)
    return linked([ptx_of(image, target, where) for image in images[1:]])


def _images(data: bytes) -> Iterator[bytes]:
    """Fat binaries that follow one another; anything else is one image."""
    at = 0
    while data[at : at + 4] == struct.pack("<I", MAGIC) and at + 16 <= len(data):
        _, _, head, size = struct.unpack_from("<IHHQ", data, at)
        yield data[at : at + head + size]
        at += head + size
    if at == 0:
        yield data


def linked(texts: Sequence[str]) -> str:
    """The texts of units as one: prototypes first, then variables, then what has a body."""
    units = [list(_statements(text)) for text in texts]
    counts = Counter(name for unit in units for name in {each.name for each in unit})
    for number, unit in enumerate(units):
        _rename_own(unit, {name for name, count in counts.items() if count > 1}, number)
    chosen: dict[str, _Statement] = {}
    for each in (each for unit in units for each in unit if each.name):
        known = chosen.get(each.name)
        if known is None or _rank(each) > _rank(known):
            chosen[each.name] = each
    nameless = [each for unit in units for each in unit if not each.name]
    parts: list[list[str]] = [[], [], []]
    for each in (*chosen.values(), *nameless):
        if each.kind == "func":
            parts[0].append(each.text.partition("{")[0].rstrip().rstrip(";") + "\n;")
        if each.kind == "variable":
            parts[1].append(each.text)
        elif each.defines or not each.name:
            parts[2].append(each.text)
    version = max((int(found[1]), int(found[2])) for text in texts if (found := _VERSION.search(text)))
    head = f".version {version[0]}.{version[1]}\n.target {_target(texts)}\n.address_size 64\n"
    return head + "\n".join(text for part in parts for text in part) + "\n"


def _target(texts: Sequence[str]) -> str:
    """The newest target of the texts, one with features of its own before the others."""
    targets = [found for text in texts if (found := target_of(text.encode()))]
    return max(targets, key=lambda name: (int(re.sub(r"\D", "", name)), name[-1] == "f", name[-1] == "a"))


def _rank(statement: _Statement) -> int:
    """Which of the declarations of a name is kept: the highest, of equal ones the first."""
    if not statement.defines or statement.linkage == "extern":
        return 0
    return 1 if statement.linkage in ("weak", "common") else 2


def _statements(text: str) -> Iterator[_Statement]:
    """The declarations of a text, without lines of source and debug sections, whose numbers are the unit's."""
    text = _LINE.sub("", text)
    start = depth = 0
    for found in _PIECE.finditer(text):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if found[0] not in (";", "}") or depth:
            continue
        whole = text[start : found.end()].strip()
        body = re.search(r"\.(?:entry|func|section)\b", whole.partition("{")[0])
        if found[0] == "}" and not body:
            continue  # the end of an initial value
        start = found.end()
        if ".section" not in whole.partition("{")[0] and whole != ";":
            yield _statement(whole)


def _statement(text: str) -> _Statement:
    head = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL).partition("{")[0].partition("=")[0]
    linkage = _LINKAGE.match(head)
    function = _FUNCTION.search(head)
    variable = _VARIABLE.search(head) if re.search(r"\.(?:global|const|shared)\b", head) and not function else None
    named = function or variable
    if named is None:
        kind = "other"
    elif function is None:
        kind = "variable"
    else:
        kind = "func" if ".func" in head else "entry"
    return _Statement(
        text=text,
        kind=kind,
        name="" if named is None else named[1],
        linkage=None if linkage is None else linkage[1],
        defines=variable is not None or (function is not None and "{" in text),
    )


def _rename_own(unit: list[_Statement], taken: set[str], number: int) -> None:
    """Give what is a unit's own, and has a name of another unit too, a name that no other unit has."""
    own = {each.name for each in unit if each.linkage is None and each.kind != "entry"} & taken - {""}
    if not own:
        return
    names = "|".join(re.escape(name) for name in own)
    pattern = re.compile(rf"(?<![\w$%.])(?:{names})(?![\w$])")
    for each in unit:
        each.text = pattern.sub(lambda found: f"{found[0]}$unit{number}", each.text)
        if each.name in own:
            each.name = f"{each.name}$unit{number}"
