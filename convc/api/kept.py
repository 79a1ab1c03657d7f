"""Inputs are not overwritten: a file that is to be written is compared with every file behind the inputs of the call.

Behind a model are the files of its external data, behind a build folder all that is in it, behind a launch file the
arrays of its buffers. Files are the same where the system says so, so that links of both kinds are seen through.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from convc.build.target import ENTRIES
from convc.errors import ConvcError, InputError
from convc.ir.launch import load_launch
from convc.runtime.launch_files import buffer_files

MAX_LAUNCH_BYTES = 64 << 20
"""A file that is larger is no launch file."""


def check_kept(target: Path, inputs: Iterable[Path]) -> None:
    """Raise `InputError` where writing ``target`` would overwrite or remove a file that is read.

    Args:
        target: the file, or the folder whose place another one takes. What does not exist yet, and a device such as
            /dev/null, overwrites nothing.
        inputs: models, build folders, launch files, arrays: whatever the call was given to read.
    """
    if not target.is_file() and not target.is_dir():
        return
    replaced = ENTRIES if target.is_dir() else ()
    for source in inputs:
        for file in (source, *files_behind(source)):
            if _same(target, file) or any(file.exists() and lies_in(file, target / entry) for entry in replaced):
                of = "" if file == source else f" of {str(source)!r}"
                raise InputError(
                    f"this would overwrite {str(file)!r}{of}, which is read here",
                    where=str(target),
                    hint="choose another output file",
                )


def check_apart(target: Path, others: Iterable[Path]) -> None:
    """Raise `InputError` where two files that are written are one, or one lies in a folder that is written."""
    for other in others:
        if target == other or _same(target, other):
            if target.exists() and not target.is_file() and not target.is_dir():
                continue  # a device takes any number
            raise InputError("two reports have the same file name", where=str(target), hint="name a file for each")
        for inner, outer in ((target, other), (other, target)):
            if outer.is_dir() and lies_in(inner, outer):
                raise InputError(
                    f"this lies in {str(outer)!r}, which the command replaces",
                    where=str(inner),
                    hint="name a file elsewhere",
                )


def lies_in(file: Path, folder: Path) -> bool:
    """Whether a file is in a folder or below it, all links followed."""
    return file.resolve().is_relative_to(folder.resolve())


def files_behind(source: Path) -> Iterator[Path]:
    """The files that are read where ``source`` is; none where it is missing, or is not what its name says."""
    if source.is_dir():
        for entry in ENTRIES:
            yield from (path for path in (source / entry, *(source / entry).rglob("*")) if path.is_file())
        return
    try:
        if source.suffix == ".json" and source.stat().st_size < MAX_LAUNCH_BYTES:
            yield from buffer_files(load_launch(source), source.parent)
        elif source.suffix == ".onnx":
            # Imported here because `run` of a build folder goes without onnx.
            from convc.frontend.model_file import external_files, load_model

            yield from external_files(load_model(source), source.parent)
    except (ConvcError, OSError, msgspec.MsgspecError):
        return  # whoever reads it says what is wrong with it


def _same(one: Path, other: Path) -> bool:
    """Whether two names are of one file."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
