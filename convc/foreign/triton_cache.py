"""Triton's cache: for each kernel a folder with ``name.ptx``, ``name.json`` and ``name.source``.

The JSON is the compiler's metadata (shared memory, CTAs of a cluster, tensor descriptors); the source, Triton's own
representation of the program, has names and types of the arguments:

    tt.func public @add(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("x"(#loc)), %n: i32 loc("n"(#loc)))

Source: folders of Triton 3.5 and 3.9.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from convc.errors import LaunchError
from convc.foreign.folders import Argument, Found, arguments_of_text, read_file
from convc.foreign.signature import ENTRY
from convc.ir.element_types import ELEMENT_TYPES

_PLAIN = {
    "i1": "u8", "i8": "s8", "i16": "s16", "i32": "s32", "i64": "s64", "f16": "f16", "bf16": "bf16", "f32": "f32",
    "f64": "f64",
}  # fmt: skip
TYPES = _PLAIN | {
    f"f8{array.removeprefix('float8_').upper()}": each.name
    for each in ELEMENT_TYPES.values()
    if (array := each.array or "").startswith("float8_")
}
"""The launch file's word for each type of Triton's representation."""

FUNCTION = re.compile(r"tt\.func public @([\w$]+)\((.*?)\)\s*attributes", re.DOTALL)
ARGUMENT = re.compile(r"%(?P<name>[\w.$]+): (?P<type>!tt\.ptr<\w+|!tt\.tensordesc\w*<[^#)]*|\w+)")
BLOCK = re.compile(r"((?:\d+x)+)(\w+)")
PART = re.compile(r"\.(?:shape|stride)\.\d+$")


def kernels_of_cache(folder: Path) -> tuple[Found, ...]:
    """The kernels in a cache, or in the folder of one of its hashes.

    Raises:
        LaunchError: there is no such folder, none is in it, or a record is damaged.
    """
    if not folder.is_dir():
        raise LaunchError("there is no such folder", where=str(folder))
    found = [
        _kernel(path, path.with_suffix(".json"))
        for pattern in ("*.ptx", "*/*.ptx")
        for path in sorted(folder.glob(pattern))
        if path.with_suffix(".json").exists()
    ]
    if not found:
        raise LaunchError(
            "expected NAME.ptx and NAME.json in the folder, or in folders in it, and there are none",
            where=str(folder),
            hint="Triton's cache is TRITON_CACHE_DIR, by default ~/.triton/cache",
        )
    return tuple(found)


def _kernel(text: Path, record: Path) -> Found:
    try:
        meta = json.loads(read_file(record))
        name = str(meta["name"])
        maps = [dict(each) for each in meta.get("tensordesc_meta") or ()]
        clusters = [int(each) for each in meta.get("cluster_dims") or ()]
        shared, ctas, scratch = (int(meta.get(key) or 0) for key in ("shared", "num_ctas", "global_scratch_size"))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise LaunchError(f"expected the metadata of Triton's compiler: {error!r}", where=str(record)) from None
    entry = next((each for each in ENTRY.finditer(read_file(text)) if each[1] == name), None)
    if entry is None:
        raise LaunchError(f"the text has no kernel {name!r}", where=str(text))
    source = text.with_suffix(".source")
    known = tuple(_named(read_file(source), name, maps)) if source.exists() else ()
    arguments = known or arguments_of_text(entry[2])[:-2]
    ends = (Argument(name="scratch", kind="null"), Argument(name="profile", kind="null"))
    for size in clusters:
        ctas = size if len(clusters) == 1 else max(ctas, 1)
    return Found(name=name, ptx=text, arguments=(*arguments, *ends), ctas=max(ctas, 1), shared=shared, scratch=scratch)


def _named(source: str, name: str, maps: Sequence[Mapping[str, Any]]) -> Iterator[Argument]:
    """The arguments of a function, by the names that the program has for them."""
    found = next((each for each in FUNCTION.finditer(source) if each[1] == name), None)
    described = iter(maps)
    for each in ARGUMENT.finditer(found[2] if found is not None else ""):
        kind = each["type"]
        if kind.startswith("!tt.tensordesc"):
            meta: Mapping[str, Any] = next(described, dict[str, Any]())
            block = BLOCK.search(kind)
            rank = block[1].count("x") if block else len(meta.get("block_size", ()))
            dtype = TYPES.get(block[2], "u8") if block else "u8"
            yield Argument(name=each["name"], kind="descriptor", dtype=dtype, map=meta, rank=rank)
        elif kind.startswith("!tt.ptr"):
            yield Argument(name=each["name"], kind="pointer", dtype=TYPES.get(kind.partition("<")[2], ""))
        elif kind in TYPES and not PART.search(each["name"]):
            yield Argument(name=each["name"], kind="number", dtype=TYPES[kind])
