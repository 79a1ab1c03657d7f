"""The files of a call: none that it writes is one that it reads, and none that it reads is missing.

They are looked at before anything is loaded for the work, so that a wrong name is told at once.
"""

from __future__ import annotations

from pathlib import Path

import click

from convc.cli.streams import DASH
from convc.support.missing import is_missing, no_file

FILES = "convc.files"
NEEDED = "convc.needed"
"""The files of a call, and those of them that it cannot do without, in what click keeps for it."""


def note_file(ctx: click.Context, path: Path, written: bool, needed: bool = True) -> None:
    """Remember a file of the call; `InputError` where one that it writes is one that it reads, or writes already.

    Args:
        ctx: of the call.
        path: the file, or a folder.
        written: whether the call writes it.
        needed: whether nothing can be done where it is not there (`check_there`).
    """
    if str(path) == DASH:
        return
    files: dict[bool, list[Path]] = ctx.meta.setdefault(FILES, {True: [], False: []})
    targets = [path] if written else [*files[True]]
    reads = [file for file in (files[False] if written else [path]) if not is_missing(file)]
    before = [*files[True]] if written else []
    files[written].append(path)
    if needed and not written:
        ctx.meta.setdefault(NEEDED, []).append(path)
    if not targets or not (reads or before):
        return
    # Imported here: `convc explain` needs none of it.
    from convc.api.kept import check_apart, check_kept

    for target in targets:
        check_kept(target, reads)
        check_apart(target, before)


def chip_file(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A callback of ``--chip NAME|FILE.toml``: a file is remembered as one that is read."""
    if value is not None and value.endswith(".toml"):
        note_file(ctx, Path(value), written=False)
    return value


def check_there() -> None:
    """`InputError` where a file that the current call reads is not there: before anything is loaded for the work."""
    for file in click.get_current_context().meta.get(NEEDED, ()):
        need_file(file)


def need_file(file: Path) -> None:
    """`InputError` where a file is not there; ``-`` is stdin."""
    if str(file) != DASH and is_missing(file):
        raise no_file(file)
