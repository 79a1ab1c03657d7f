"""The place of a build folder: where one may be written, and how a new build takes the place of an old one.

A build is filled under another name, and takes its place when it is whole. There are two ways to do that. Mostly the
folder itself is renamed, which is two steps. A folder that has to stay, because it is a mount point, because somebody
stands in it (``-o .``) or because its own folder may not be written, keeps its place, and what is in it is exchanged
entry by entry; ``network.json`` is the first to go and the last to come, so that half a build is never taken for one.
Either way a step that fails takes back those before it.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from convc.errors import InputError

ENTRIES = ("network.json", "weights", "kernels")
"""Everything that convc puts into a build folder."""

IMMOVABLE = (errno.EBUSY, errno.EXDEV, errno.EPERM, errno.EACCES)
"""How a system says that a folder cannot be renamed: it is mounted there, or belongs to somebody else."""

LEFT = re.compile(r"\.convc\.(?P<process>\d+)\.(part|old)")
"""Names inside of a folder that stays, while it is filled; a process that is killed leaves its own there."""


def check_build_target(path: Path) -> None:
    """Raise `InputError` unless a build may be written to ``path``: it is new, empty, or holds a build."""
    if not path.exists() and not path.is_symlink():
        _check_parent(path)
        return
    if not path.is_dir():
        raise InputError("cannot write a build here: a file of that name exists", where=str(path))
    entries = {entry.name for entry in path.iterdir()}
    own = {name for name in entries if LEFT.fullmatch(name)}
    foreign = sorted(entries - own - set(ENTRIES))
    if foreign or not (own or not entries or _is_build(path)):
        what = f"{foreign[0]!r}, which convc did not write" if foreign else "no network.json of convc"
        raise InputError(
            f"cannot write a build here: the folder holds {what}",
            where=str(path),
            hint="name a new or empty folder, or one that holds a build and nothing else",
        )
    for folder, _, _ in os.walk(path):
        _check_writable(Path(folder))


@contextmanager
def writing(path: Path) -> Generator[Path]:
    """Give a folder to fill that takes the place of ``path`` when the block ends well, and vanishes when not.

    Raises:
        InputError: see `check_build_target`, or the disk refuses.
    """
    path = path.resolve()
    check_build_target(path)
    stays = _stays(path)
    new = _beside(path, "part") if not stays else _inside(path, "part")
    made = [parent for parent in new.parents if not parent.exists()]
    whole = False
    try:
        new.mkdir(parents=True)
        (new / "weights").mkdir()
        (new / "kernels").mkdir()
        yield new
        if stays:
            _exchange_entries(new, path)
        else:
            _exchange(new, path)
        whole = True
    except InputError as problem:
        problem.where = problem.where.replace(str(new), str(path))  # a file where it would have been in the end
        raise
    except OSError as problem:
        raise InputError(f"cannot write the build: {problem.strerror}", where=str(path)) from None
    finally:
        shutil.rmtree(new, ignore_errors=True)
        for parent in () if whole else made:
            with suppress(OSError):
                parent.rmdir()


def _stays(path: Path) -> bool:
    """Whether a folder has to stay where it is: it is mounted, is somebody's place, or lies where nobody may write."""
    if not path.is_dir():
        return False
    return path.is_mount() or _here(path) or not os.access(path.parent, os.W_OK | os.X_OK)


def _here(path: Path) -> bool:
    """Whether this process, and so the shell that started it, stands in a folder."""
    try:
        return Path.cwd().is_relative_to(path)
    except OSError:  # the current folder is gone
        return False


def _exchange(new: Path, path: Path) -> None:
    """Put a folder in the place of another one, which goes; entry by entry where that cannot be renamed."""
    if not path.exists():
        new.rename(path)
        return
    old = _beside(path, "old")
    try:
        _rename_all([(path, old), (new, path)])
    except OSError as problem:
        if problem.errno not in IMMOVABLE or not path.is_dir():
            raise
        inside = _inside(path, "part")
        try:
            shutil.copytree(new, inside)  # what cannot be renamed is often on another disk
            _exchange_entries(inside, path)
        finally:
            shutil.rmtree(inside, ignore_errors=True)
        return
    shutil.rmtree(old, ignore_errors=True)


def _exchange_entries(new: Path, path: Path) -> None:
    """Put the entries of a folder in the place of those of another one, which stays."""
    old = _inside(path, "old")
    old.mkdir()
    try:
        going = [(path / name, old / name) for name in ENTRIES if (path / name).exists()]
        coming = [(new / name, path / name) for name in reversed(ENTRIES)]
        _rename_all([*going, *coming])
    except BaseException:
        with suppress(OSError):
            old.rmdir()  # it is empty, unless something could not be taken back
        raise
    for entry in list(path.iterdir()):
        left = LEFT.fullmatch(entry.name)
        if left and not _works(int(left["process"])):
            shutil.rmtree(entry, ignore_errors=True)


def _rename_all(moves: Sequence[tuple[Path, Path]]) -> None:
    """Rename (from, to) in order; where one fails, or the user stops it, all are taken back."""
    try:
        for source, target in moves:
            source.rename(target)
    except BaseException:
        for source, target in reversed(moves):
            if target.exists() and not source.exists():
                target.rename(source)
        raise


def _works(process: int) -> bool:
    """Whether another process of this number is there, which may be filling the same folder."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is somebody else's
        return True
    return True


def _beside(path: Path, kind: str) -> Path:
    """A name next to a folder that no other process takes."""
    return path.with_name(f".{path.name}.{os.getpid()}.{kind}")


def _inside(path: Path, kind: str) -> Path:
    """A name in a folder that no other process takes; `LEFT` knows it."""
    return path / f".convc.{os.getpid()}.{kind}"


def _check_parent(path: Path) -> None:
    """Raise `InputError` where no folder can be made: something above it is a file, or may not be written."""
    above = next(parent for parent in path.absolute().parents if parent.exists() or parent.is_symlink())
    if not above.is_dir():
        raise InputError(f"cannot write a build here: {str(above)!r} is a file", where=str(path))
    _check_writable(above)


def _check_writable(folder: Path) -> None:
    """Raise `InputError` for a folder that may not be changed."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(
            "cannot write a build here: the folder is read-only",
            where=str(folder),
            hint="name another folder, or make this one writable",
        )


def _is_build(path: Path) -> bool:
    """Whether a folder was written by convc; it may be damaged."""
    file = path / "network.json"
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        return b"convc-build/" in stream.read(200)
